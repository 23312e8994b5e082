"""Worker processes: results, errors, processes that die, work that takes too long, and results in order."""

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest

from opgen.pool import Outcome, in_order, work_off

ROOT = Path(__file__).resolve().parents[2]


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


# --- results in order -----------------------------------------------------------------------------


def told(piece: str) -> tuple[str, int]:
    """The process that does a piece; the piece says how long that takes, and how it ends in a process of its own."""
    kind, _, number = piece.partition(" ")
    time.sleep(float(number) / 100)
    if kind == "wrong":
        raise ValueError(f"wrong in {os.getpid()}")
    if multiprocessing.parent_process() is not None:
        if kind == "raise":
            raise ValueError(piece)
        if kind == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        if kind == "lock":
            return threading.Lock()  # type: ignore[return-value] # what cannot travel
    return piece, os.getpid()


@contextmanager
def another_thread() -> Iterator[None]:
    """Within it, a second thread runs, so that processes are not forked."""
    over = threading.Event()
    thread = threading.Thread(target=over.wait)
    thread.start()
    yield
    over.set()
    thread.join()


def test_results_come_in_order_from_several_processes() -> None:
    pieces = [f"add {20 - number}" for number in range(20)]
    found = list(in_order(told, pieces, 2))
    assert [piece for piece, _ in found] == pieces
    assert len({process for _, process in found}) == 2
    assert os.getpid() not in {process for _, process in found}


def test_where_threads_run_processes_are_not_forked() -> None:
    with another_thread():
        found = list(in_order(told, ["add 50", "add 50", "add 1", "add 1"], 2))
    assert len({process for _, process in found} - {os.getpid()}) == 2


@pytest.mark.parametrize("jobs", [0, 1])
def test_one_process_is_this_one(jobs: int) -> None:
    assert list(in_order(told, ["add 1", "add 0"], jobs)) == [("add 1", os.getpid()), ("add 0", os.getpid())]


@pytest.mark.parametrize("kind", ["raise", "die", "lock"])
def test_what_a_process_fails_at_is_done_here(kind: str) -> None:
    pieces = ["add 1", f"{kind} 1", "add 1", "add 1", f"{kind} 1"]
    found = list(in_order(told, pieces, 2))
    assert [piece for piece, _ in found] == pieces
    assert [process == os.getpid() for _, process in found] == [False, True, False, False, True]


def test_an_error_comes_in_its_turn() -> None:
    work = in_order(told, ["add 30", "wrong 0", "wrong 0", "add 0"], 2)
    assert next(work)[0] == "add 30"
    with pytest.raises(ValueError, match=f"wrong in {os.getpid()}"):
        next(work)


def test_without_processes_the_work_is_done_here(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(process: BaseProcess) -> None:
        raise BlockingIOError("Resource temporarily unavailable")

    monkeypatch.setattr(BaseProcess, "start", refuse)
    assert list(in_order(told, ["add 1", "add 0"], 2)) == [("add 1", os.getpid()), ("add 0", os.getpid())]


ORPHANS = """
import os, time
from opgen.pool import in_order

def work(piece):
    print(os.getpid(), file=open(f"{os.getpid()}.pid", "w"))
    time.sleep(0.2)
    return "much text" * 100_000

for _ in in_order(work, range(1000), 3):
    time.sleep(60)
"""


def test_processes_end_with_the_one_that_started_them(tmp_path: Path) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", ORPHANS], cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    until(lambda: len(list(tmp_path.glob("*.pid"))) == 3)
    parent.kill()
    parent.wait()
    workers = [int(path.stem) for path in tmp_path.glob("*.pid")]
    until(lambda: not any(is_running(worker) for worker in workers))


def until(condition: Callable[[], bool]) -> None:
    """Waits until something holds; fails when it does not after a while."""
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def is_running(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
