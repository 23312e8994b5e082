"""Worker processes for work that may end its process: one failed piece is one failed result, not the end."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, Generic, TypeVar

Piece = TypeVar("Piece")

_CONTEXT = multiprocessing.get_context("spawn")  # a forked process would share torch's threads and locks
_LOOK_SECONDS = 1.0
_TOLD_LINES = 6


@dataclass(frozen=True)
class Outcome(Generic[Piece]):
    """What became of a piece: its result, or how its process failed."""

    piece: Piece
    result: Any = None
    fault: str | None = None
    seconds: float = 0.0


@dataclass
class _Worker:
    """A process that does one piece after another; what it writes to standard error goes to a file."""

    process: Any
    pipe: Connection
    errors: Path
    piece: Any = None
    since: float = field(default_factory=time.monotonic)

    def stop(self) -> None:
        with contextlib.suppress(OSError):
            self.pipe.close()
        if self.process.is_alive():
            self.process.kill()
        self.process.join()


def work_off(
    pieces: Sequence[Piece],
    do: Callable[[Any], Any],
    arguments: Any,
    jobs: int,
    seconds: float,
) -> Iterator[Outcome[Piece]]:
    """The outcome of each piece as it is done, by up to `jobs` processes at a time.

    `do(arguments)` runs once in each process and gives the function that does a piece; both travel there by pickling.
    A piece that takes longer than `seconds`, or whose process dies, has a fault; a new process does the rest.
    """
    waiting = deque(pieces)
    with tempfile.TemporaryDirectory(prefix="opgen-work-") as folder:
        workers: list[_Worker] = []
        try:
            for number in range(min(jobs, len(pieces))):
                workers.append(_start(do, arguments, Path(folder, f"{number}.txt")))
                _give(workers[-1], waiting)
            while workers:
                ready = wait([worker.pipe for worker in workers], timeout=_LOOK_SECONDS)
                for worker in list(workers):
                    outcome = _outcome(worker, worker.pipe in ready, seconds)
                    if outcome is None:
                        continue
                    yield outcome
                    if outcome.fault is not None and not worker.process.is_alive():
                        workers.remove(worker)
                        worker.stop()
                        if not waiting:
                            continue
                        worker = _start(do, arguments, worker.errors)  # noqa: PLW2901 - it takes the place of the dead
                        workers.append(worker)
                    if not _give(worker, waiting):
                        workers.remove(worker)
                        worker.stop()
        finally:
            for worker in workers:
                worker.stop()


def _start(do: Callable[[Any], Any], arguments: Any, errors: Path) -> _Worker:
    ours, theirs = _CONTEXT.Pipe()
    process = _CONTEXT.Process(target=_serve, args=(do, arguments, theirs, str(errors)), daemon=True)
    process.start()
    theirs.close()
    return _Worker(process, ours, errors)


def _give(worker: _Worker, waiting: deque[Any]) -> bool:
    """Gives a worker its next piece; false where none is left."""
    if not waiting:
        return False
    worker.piece, worker.since = waiting.popleft(), time.monotonic()
    with contextlib.suppress(OSError):  # a dead process is found out when its outcome is asked for
        worker.pipe.send(worker.piece)
    return True


def _outcome(worker: _Worker, is_ready: bool, seconds: float) -> Outcome[Any] | None:
    taken = time.monotonic() - worker.since
    if is_ready:
        try:
            result, fault = worker.pipe.recv()
            return Outcome(worker.piece, result, fault, taken)
        except (EOFError, OSError):
            worker.process.join()
            return Outcome(worker.piece, fault=_death(worker), seconds=taken)
    if taken > seconds:
        worker.process.kill()
        worker.process.join()
        return Outcome(worker.piece, fault=f"took more than {seconds:.0f} s", seconds=taken)
    return None


def _death(worker: _Worker) -> str:
    """How a process ended, with the last lines that it wrote."""
    code = worker.process.exitcode
    how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
    told = worker.errors.read_text(errors="replace").splitlines() if worker.errors.exists() else []
    first = [line for line in told if "assert" in line.lower() or "error" in line.lower()]
    lines = (first or told)[:_TOLD_LINES]
    return " ".join(f"the process ended with {how}: {' '.join(lines)}".split())[:600]


def _serve(do: Callable[[Any], Any], arguments: Any, pipe: Connection, errors: str) -> None:
    """A worker's life: pieces in, results or faults out. Nothing that it prints reaches the terminal."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends us
    target = os.open(errors, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(target, 1)
    os.dup2(target, 2)
    work = do(arguments)
    while True:
        try:
            piece = pipe.recv()
        except EOFError:
            return
        os.ftruncate(target, 0)
        try:
            pipe.send((work(piece), None))
        except Exception as error:  # noqa: BLE001 - whatever goes wrong is this piece's result
            pipe.send((None, _innermost(error)))


def _innermost(error: BaseException) -> str:
    """What the error that began it says: compilers wrap theirs."""
    while error.__cause__ is not None:
        error = error.__cause__
    return " ".join(f"{type(error).__name__}: {error}".split())[:600]
