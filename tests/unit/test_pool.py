"""Worker processes: results, errors, processes that die, work that takes too long."""

import os
import signal
import time
from collections.abc import Callable

import pytest

from opgen.device.pool import Outcome, work_off


def working(base: int) -> Callable[[str], int]:
    """What does a piece of work that says how it ends."""

    def work(piece: str) -> int:
        kind, _, number = piece.partition(" ")
        match kind:
            case "add":
                return base + int(number)
            case "raise":
                raise ValueError(f"no {number}") from KeyError("the first")
            case "abort":
                os.write(2, b"some text\nAssertion `size < limit' failed.\n")
                os.abort()
            case "exit":
                os._exit(int(number))
            case _:
                time.sleep(60)
                return 0

    return work


def outcomes(*pieces: str, jobs: int = 2, seconds: float = 30.0) -> dict[str, Outcome[str]]:
    found = list(work_off(pieces, working, 100, jobs, seconds))
    assert len(found) == len(pieces)
    return {one.piece: one for one in found}


def test_results_and_faults() -> None:
    found = outcomes("add 1", "abort", "add 2", "raise 3", "exit 7", "add 4")
    assert [found[f"add {number}"].result for number in (1, 2, 4)] == [101, 102, 104]
    assert all(found[f"add {number}"].fault is None for number in (1, 2, 4))
    assert found["raise 3"].fault == "KeyError: 'the first'"
    assert "exit code 7" in (found["exit 7"].fault or "")
    died = found["abort"].fault or ""
    assert signal.Signals.SIGABRT.name in died
    assert "Assertion `size < limit' failed." in died


def test_the_last_piece_may_die() -> None:
    found = outcomes("add 1", "abort", jobs=1)
    assert found["add 1"].result == 101
    assert found["abort"].fault is not None


def test_work_that_takes_too_long() -> None:
    found = outcomes("sleep", "add 1", jobs=1, seconds=3.0)
    assert found["sleep"].fault == "took more than 3 s"
    assert found["add 1"].result == 101


def test_no_pieces() -> None:
    assert outcomes() == {}


def test_workers_end_with_their_reader() -> None:
    work = work_off(["add 1", "sleep", "sleep"], working, 0, 1, 30.0)
    begun = time.monotonic()
    assert next(work).result == 1
    work.close()  # type: ignore[attr-defined]
    assert time.monotonic() - begun < 20


@pytest.mark.parametrize("jobs", [1, 3])
def test_each_piece_is_done_once(jobs: int) -> None:
    pieces = [f"add {number}" for number in range(10)]
    assert {one.result for one in outcomes(*pieces, jobs=jobs).values()} == set(range(100, 110))
