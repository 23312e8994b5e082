"""Files that the workers of one run share, or make for themselves: none outlives the run."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from triton import knobs
from triton.runtime.cache import CacheManager


def write(path: Path, data: bytes) -> None:
    """Writes a file that other processes may look for: they see all of it or none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(f".{os.getpid()}")
    part.write_bytes(data)
    part.replace(path)


def keep_forms_in(folder: Path) -> None:
    """Makes Triton keep the forms of the kernels of this process there, and not in the user's cache."""
    folder.mkdir()
    knobs.cache.dir = str(folder)
    knobs.cache.manager_class = Scratch


_UNREAD = (".source", ".ttgir", ".llir")


class Scratch(CacheManager):  # type: ignore[misc] # Triton has no types
    """Where Triton puts the forms of a kernel: files that the next kernel of that name writes over.

    Those that no figure is read from are left empty: some take as long to print as a pass. Triton's own cache makes a
    folder for each file, and moves it there.
    """

    def __init__(self, key: str, override: bool = False, dump: bool = False) -> None:
        self._folder = Path(knobs.cache.dir)

    def get_file(self, filename: str) -> str | None:
        return None

    def put(self, data: Any, filename: str, binary: bool = True) -> str:
        path = self._folder / filename
        text = "" if filename.endswith(_UNREAD) else data
        path.write_bytes(text if isinstance(text, bytes) else str(text).encode())
        return str(path)

    def get_group(self, filename: str) -> dict[str, str] | None:
        return None

    def put_group(self, filename: str, group: dict[str, str]) -> None:
        pass
