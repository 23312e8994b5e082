"""The only writer: compares what a build makes with what lies on disk, and writes only what changed.

A file is replaced whole or not at all: its text goes to a temporary file in the same folder, which then takes
the file's name. Builds into one folder take turns, so that none loses what another adds to the manifest.

A build of some specs only leaves the files of the others alone; which those are, the manifest knows.
"""

from __future__ import annotations

import difflib
import os
import secrets
import stat
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path, PurePosixPath

from opgen.folder_lock import LockTimeoutError, locked
from opgen.manifest import HEADER, INDEX, MANIFEST, Manifest, digest, looks_damaged, parse_manifest

DIFF_LINES = 60
TEMPORARY = ".opgen-tmp"


class OutputError(Exception):
    """What keeps us from writing and is the user's to change: permissions, links, files that are not ours."""


class DriftKind(Enum):
    STALE = "stale"  # as opgen left it, but the build now makes another text
    EDITED = "edited"  # changed since opgen wrote it
    ORPHAN = "orphan"  # nothing makes it any more
    MISSING = "missing"


@dataclass(frozen=True)
class Drift:
    """A file that differs from what the build makes; `diff` leads from it to the build, cut when long."""

    kind: DriftKind
    path: str
    diff: str = ""


class ChangeKind(Enum):
    CREATED = "created"
    UPDATED = "updated"
    UNCHANGED = "unchanged"
    REMOVED = "removed"
    KEPT = "kept"  # nothing makes it any more, but it may hold somebody's edits


@dataclass(frozen=True)
class Change:
    """What became of a file; `edited` tells that edits by hand were in it."""

    kind: ChangeKind
    path: str
    edited: bool = False


@dataclass(frozen=True)
class _State:
    """A file: the text that the build makes (None: none), the text on disk, its digest in the manifest."""

    path: str
    made: str | None
    found: str | None
    recorded: str | None

    @property
    def edited(self) -> bool:
        if self.found is None or self.path == MANIFEST:
            return False
        if self.recorded is None:
            return not self.found.startswith(HEADER)
        return digest(self.found) != self.recorded

    @property
    def foreign(self) -> bool:
        """Whether it holds somebody's text, with no sign that opgen ever wrote it."""
        return self.recorded is None and self.edited and not _is_blank(self.found or "")

    @property
    def drift(self) -> DriftKind | None:
        if self.made == self.found:
            return None
        if self.made is None:
            return DriftKind.ORPHAN
        if self.found is None:
            return DriftKind.MISSING
        return DriftKind.EDITED if self.edited else DriftKind.STALE


Files = Collection[tuple[str, str]]


@dataclass(frozen=True)
class Partly:
    """A build of some specs only: their names, and the text of `__init__.py` for the names of all modules."""

    specs: Collection[str]
    index: Callable[[tuple[str, ...]], str]


def compare(root: Path, files: Files, partly: Partly | None = None) -> tuple[Drift, ...]:
    """How the folder `root` differs from `files`, (path, text) pairs with a manifest among them.

    Without `partly` these are all files that belong there; with it, the files of other specs are no orphans.
    Raises `OutputError` for paths that lead outside `root` and for a manifest that cannot be used.
    """
    with _refusals_explained():
        states = _survey(root, files, partly)
    return tuple(Drift(state.drift, state.path, _diff(state)) for state in states if state.drift is not None)


def write(root: Path, files: Files, partly: Partly | None = None) -> tuple[Change, ...]:
    """Makes the folder `root` hold `files`; the arguments are those of `compare`.

    An orphan is removed when it is as opgen left it, else kept. Raises `OutputError` where something cannot
    be written, and, before anything is, for a file in the way that opgen did not write.
    """
    with _refusals_explained():
        root.mkdir(parents=True, exist_ok=True)
        with locked(root):
            states = _survey(root, files, partly)
            _refuse_foreign(root, states)
            _remove_leftovers(root, states)
            return tuple(_settle(root, state) for state in states)


def replace_file(path: Path, text: str) -> None:
    """Writes one file outside of any output folder (a formatted spec, measurements), atomically."""
    with _refusals_explained():
        _replace(path.resolve(), text)


def create_file(path: Path, text: str) -> None:
    """Writes a file that must not exist yet, with its folder; raises `OutputError` if it does."""
    with _refusals_explained():
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8", newline="\n") as file:
            file.write(text)


@contextmanager
def _refusals_explained() -> Iterator[None]:
    """Turns what the operating system refuses into `OutputError`."""
    try:
        yield
    except LockTimeoutError as error:
        raise OutputError(str(error)) from error
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        raise OutputError(f"{place}{error.strerror or error}") from error


# --- what is there, and what should be ----------------------------------------------------------


def _survey(root: Path, files: Files, partly: Partly | None) -> tuple[_State, ...]:
    """All files that the build makes or made, by path; the manifest comes last, as it records the others."""
    _refuse_doubles(files)
    made = dict(files)
    new = parse_manifest(made[MANIFEST])
    if {entry.path: entry.sha256 for entry in new.entries} != {
        path: digest(text) for path, text in files if path != MANIFEST
    }:
        raise ValueError("the manifest of the build is not about its files")
    old = _read_manifest(root, whole=partly is None)
    if old is not None and partly is not None:
        new = _merge(old, new, partly.specs)
        if INDEX in made:
            made[INDEX] = partly.index(new.modules)
            new = new.with_digest(INDEX, made[INDEX])
    made[MANIFEST] = new.text()
    recorded = {entry.path: entry.sha256 for entry in old.entries} if old else {}
    paths = made.keys() | _orphans(root, old, made.keys(), partly)
    states = (_State(path, made.get(path), _read(root, path), recorded.get(path)) for path in sorted(paths))
    present = [state for state in states if not (state.made is None and state.found is None)]
    return tuple(sorted(present, key=lambda state: state.path == MANIFEST))


def _refuse_doubles(files: Files) -> None:
    """Two paths that differ only in case are one file on some systems, so they are refused on all."""
    seen: dict[str, str] = {}
    for path, _ in files:
        first = seen.setdefault(path.casefold(), path)
        if first is not path:
            raise OutputError(f"{path} and {first} would be one file: rename one of the ops")


def _read_manifest(root: Path, *, whole: bool) -> Manifest | None:
    text = _read(root, MANIFEST)
    if text is None or _is_blank(text):
        return None
    try:
        return parse_manifest(text)
    except ValueError as error:
        place = root / MANIFEST
        if not looks_damaged(text):
            raise OutputError(f"{place}: this file is not opgen's; choose another output folder") from error
        if not whole:
            raise OutputError(f"{place}: the manifest is damaged; build all specs to renew it") from error
        return None


def _merge(old: Manifest, new: Manifest, specs: Collection[str]) -> Manifest:
    """The manifest after a build of some specs: it keeps what it says about the files of the others."""
    if old.generator != new.generator:
        raise OutputError(
            f"the output folder was made by {old.generator}, this is {new.generator}: build all specs"
        )
    entries = {entry.path: entry for entry in old.entries if entry.spec not in specs}
    for entry in new.entries:
        before = entries.get(entry.path)
        if before is not None and before.spec != entry.spec:
            raise OutputError(
                f"{entry.path} comes from {entry.spec} now, and from {before.spec} before: build all specs"
            )
        entries[entry.path] = entry
    return replace(new, entries=tuple(entries.values()))


def _orphans(root: Path, old: Manifest | None, made: Collection[str], partly: Partly | None) -> set[str]:
    """Files of the specs built that the manifest lists, or that bear our header, and nothing makes now."""
    entries = old.entries if old else ()
    listed = {entry.path for entry in entries if partly is None or entry.spec in partly.specs}
    if partly is None:
        listed |= {path for path in _python_files(root, made) if (_read(root, path) or "").startswith(HEADER)}
    return listed - set(made)


def _python_files(root: Path, made: Iterable[str]) -> set[str]:
    """The Python files in the folders that the build writes to."""
    folders = {PurePosixPath(path).parent for path in made}
    return {(folder / file.name).as_posix() for folder in folders for file in (root / folder).glob("*.py")}


def _read(root: Path, path: str) -> str | None:
    """The text of a file, or None; line ends are made `\\n`, since a checkout may have changed them."""
    place = _inside(root, path)
    try:
        return place.read_bytes().decode(errors="replace").replace("\r\n", "\n")
    except FileNotFoundError:
        return None


def _inside(root: Path, path: str) -> Path:
    """Where a path of the build lies on disk, links followed; refuses what is not inside `root`."""
    place = (root / path).resolve()
    if "\\" in path or not place.is_relative_to(root.resolve()):
        raise OutputError(f"{root / path}: leads out of the output folder")
    return place


def _is_blank(text: str) -> bool:
    """Whether a text is empty or zeroed, as an interrupted copy leaves it."""
    return not text.strip("\0 \n")


def _diff(state: _State) -> str:
    if state.made is None or state.found is None:
        return ""
    found, made = state.found.splitlines(), state.made.splitlines()
    lines = list(
        difflib.unified_diff(found, made, f"{state.path} (on disk)", f"{state.path} (built)", lineterm="")
    )
    cut = len(lines) - DIFF_LINES
    return "\n".join(lines if cut <= 0 else [*lines[:DIFF_LINES], f"… and {cut} more lines"])


# --- writing ------------------------------------------------------------------------------------


def _refuse_foreign(root: Path, states: Iterable[_State]) -> None:
    for state in states:
        if state.foreign and state.made != state.found:
            raise OutputError(
                f"{root / state.path}: this file is not opgen's; move it, or choose another output folder"
            )


def _remove_leftovers(root: Path, states: Iterable[_State]) -> None:
    """Removes the temporary files of builds that were killed; while we hold the lock, nobody is using one."""
    for folder in {_inside(root, state.path).parent for state in states}:
        for leftover in folder.glob(f"*{TEMPORARY}"):
            leftover.unlink(missing_ok=True)


def _settle(root: Path, state: _State) -> Change:
    place = _inside(root, state.path)
    if state.made == state.found:
        return Change(ChangeKind.UNCHANGED, state.path)
    if state.made is not None:
        _replace(place, state.made)
        kind = ChangeKind.CREATED if state.found is None else ChangeKind.UPDATED
        return Change(kind, state.path, state.edited)
    if state.edited or state.recorded is None:
        return Change(ChangeKind.KEPT, state.path, state.edited)
    place.unlink(missing_ok=True)
    return Change(ChangeKind.REMOVED, state.path)


def _replace(place: Path, text: str) -> None:
    """Gives a file a new text; at any moment, the old text or the new one is there, whole."""
    place.parent.mkdir(parents=True, exist_ok=True)
    temporary = place.with_name(f".{place.name}.{os.getpid()}.{secrets.token_hex(4)}{TEMPORARY}")
    try:
        with temporary.open("x", encoding="utf-8", newline="\n") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        if place.exists():
            temporary.chmod(stat.S_IMODE(place.stat().st_mode))
        temporary.replace(place)
    finally:
        temporary.unlink(missing_ok=True)
