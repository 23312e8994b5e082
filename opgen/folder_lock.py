"""A lock on a folder, so that builds into it take turns."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

if sys.platform != "win32":
    import fcntl

TIMEOUT_SECONDS = 60.0
_RETRY_SECONDS = 0.02
_LOCK_FILE = ".opgen.lock"


class LockTimeoutError(Exception):
    """Another process holds the folder and does not let go."""


@contextmanager
def locked(folder: Path, timeout: float = TIMEOUT_SECONDS) -> Iterator[None]:
    """Holds the lock of an existing folder; raises `LockTimeoutError` after `timeout` seconds of waiting.

    The lock is the operating system's, on the folder itself: it leaves no file, and ends with the process.
    Where there is none (Windows, some network file systems), a file that one process alone can create stands
    for it.
    """
    deadline = time.monotonic() + timeout
    descriptor = _lock_folder(folder, deadline)
    if descriptor is not None:
        try:
            yield
        finally:
            os.close(descriptor)
        return
    _create_lock_file(folder / _LOCK_FILE, deadline)
    try:
        yield
    finally:
        (folder / _LOCK_FILE).unlink(missing_ok=True)


def _lock_folder(folder: Path, deadline: float) -> int | None:
    """The open descriptor that holds the lock, or None where folders cannot be locked."""
    if sys.platform == "win32":
        return None
    descriptor = os.open(folder, os.O_RDONLY)
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            if time.monotonic() > deadline:
                os.close(descriptor)
                raise LockTimeoutError(f"{folder}: another build is writing to this folder") from error
            time.sleep(_RETRY_SECONDS)
        except OSError:
            os.close(descriptor)
            return None
        else:
            return descriptor


def _create_lock_file(path: Path, deadline: float) -> None:
    while True:
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        except FileExistsError as error:
            if time.monotonic() > deadline:
                raise LockTimeoutError(f"{path}: held by another build; if none runs, delete it") from error
            time.sleep(_RETRY_SECONDS)
        else:
            return
