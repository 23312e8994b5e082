"""Worker processes, for work that may end its process and for work that takes long.

One failed piece is one failed result, not the end. What is done, pieces and results are plain data: they travel by
pickling.
"""

from __future__ import annotations

import contextlib
import math
import multiprocessing
import os
import secrets
import signal
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, Generic, TypeVar

Piece = TypeVar("Piece")
Result = TypeVar("Result")

_LOOK_SECONDS = 1.0
_TOLD_LINES = 6


@dataclass(frozen=True)
class Outcome(Generic[Piece]):
    """What became of a piece: its result, or how its process failed."""

    piece: Piece
    result: Any = None
    fault: str | None = None
    seconds: float = 0.0


@dataclass(frozen=True)
class _Task:
    """What a process does, and how it starts: `do(arguments)` gives the function that does a piece.

    What it writes to standard error goes to a file of `folder`, or nowhere.
    """

    do: Callable[[Any], Any]
    arguments: Any
    method: str
    folder: Path | None = None


@dataclass
class _Worker:
    """A process that does one piece after another."""

    process: Any
    pipe: Connection
    errors: Path | None
    piece: Any = None
    since: float = field(default_factory=time.monotonic)

    def stop(self) -> None:
        with contextlib.suppress(OSError):
            self.pipe.close()
        if self.process.is_alive():
            self.process.kill()
        self.process.join()


def in_order(do: Callable[[Piece], Result], pieces: Sequence[Piece], jobs: int) -> Iterator[Result]:
    """What `map(do, pieces)` gives, by `jobs` processes where these are several.

    What a process fails at, or dies of, is done again here, in its turn: so it raises what it would raise without them.
    """
    if jobs < 2:
        yield from map(do, pieces)
        return
    done: dict[int, Outcome[int]] = {}
    task = _Task(_by_place, (do, pieces), _quick_method())
    with contextlib.closing(_outcomes(range(len(pieces)), task, jobs, math.inf)) as outcomes:
        for place, piece in enumerate(pieces):
            while place not in done and (found := _next(outcomes)) is not None:
                done[found.piece] = found
            outcome = done.pop(place, None)
            yield do(piece) if outcome is None or outcome.fault is not None else outcome.result


def _by_place(given: tuple[Callable[[Piece], Result], Sequence[Piece]]) -> Callable[[int], Result]:
    do, pieces = given
    return lambda place: do(pieces[place])


def _next(outcomes: Iterator[Outcome[int]]) -> Outcome[int] | None:
    """The next outcome, None where the system gives no process."""
    try:
        return next(outcomes, None)
    except OSError:
        return None


def _quick_method() -> str:
    """A forked process starts at once, but it would wait for ever for the locks that other threads hold.

    Only on Linux do system libraries start none of these.
    """
    return "fork" if sys.platform == "linux" and threading.active_count() == 1 else "spawn"


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
    with tempfile.TemporaryDirectory(prefix="opgen-work-") as folder:
        # A forked process would share torch's threads and locks.
        task = _Task(do, arguments, "spawn", Path(folder))
        yield from _outcomes(pieces, task, jobs, seconds)


def _outcomes(
    pieces: Sequence[Piece], task: _Task, jobs: int, seconds: float
) -> Generator[Outcome[Piece], None, None]:
    waiting = deque(pieces)
    workers: list[_Worker] = []
    try:
        for _ in range(min(jobs, len(pieces))):
            workers.append(_start(task, workers))
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
                    worker = _start(task, workers)  # noqa: PLW2901 - it takes the place of the dead
                    workers.append(worker)
                if not _give(worker, waiting):
                    workers.remove(worker)
                    worker.stop()
    finally:
        for worker in workers:
            worker.stop()


def _start(task: _Task, others: Sequence[_Worker]) -> _Worker:
    context: Any = multiprocessing.get_context(task.method)
    ours, theirs = context.Pipe()
    errors = None if task.folder is None else task.folder / f"{secrets.token_hex(4)}.txt"
    inherited = [ours, *(worker.pipe for worker in others)] if task.method == "fork" else []
    process = context.Process(
        target=_serve, args=(task.do, task.arguments, theirs, errors, inherited), daemon=True
    )
    with _interrupts_held():
        process.start()
    theirs.close()
    return _Worker(process, ours, errors)


@contextlib.contextmanager
def _interrupts_held() -> Iterator[None]:
    """A process that starts is held, too, until it ignores them: it would tell of one with a traceback."""
    if sys.platform == "win32":
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


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
    errors = worker.errors
    told = errors.read_text(errors="replace").splitlines() if errors is not None and errors.exists() else []
    first = [line for line in told if "assert" in line.lower() or "error" in line.lower()]
    lines = (first or told)[:_TOLD_LINES]
    return " ".join(f"the process ended with {how}: {' '.join(lines)}".split())[:600]


def _serve(
    do: Callable[[Any], Any],
    arguments: Any,
    pipe: Connection,
    errors: Path | None,
    inherited: Sequence[Connection],
) -> None:
    """A worker's life: pieces in, results or faults out. Nothing that it prints reaches the terminal.

    It closes its copies of the other ends: they would keep it from seeing that whoever reads is gone.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends us
    for one in inherited:
        one.close()
    target = os.open(errors or os.devnull, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(target, 1)
    os.dup2(target, 2)
    work = do(arguments)
    while True:
        try:
            piece = pipe.recv()
        except EOFError:
            return
        if errors is not None:
            os.ftruncate(target, 0)
        try:
            pipe.send((work(piece), None))
        except BrokenPipeError:
            return
        except Exception as error:  # noqa: BLE001 - whatever goes wrong is this piece's result
            pipe.send((None, _innermost(error)))


def _innermost(error: BaseException) -> str:
    """What the error that began it says: compilers wrap theirs."""
    while error.__cause__ is not None:
        error = error.__cause__
    return " ".join(f"{type(error).__name__}: {error}".split())[:600]
