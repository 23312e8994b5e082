"""The project: its root folder, its settings (`[tool.opgen]` of `pyproject.toml`), and its specs on disk."""

from __future__ import annotations

import os
import posixpath
import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from opgen.diagnostics import Diagnostic, SpecError, did_you_mean
from opgen.source import Source, Span

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

BAD_SETTINGS = "OPG901"
NO_SPECS = "OPG902"
UNREADABLE = "OPG903"
NOT_UTF8 = "OPG904"

SUFFIX = ".op"
_KEYS = ("out", "specs", "targets")


@dataclass(frozen=True)
class Project:
    """The settings; `root` is the folder of `pyproject.toml`, to which paths are relative.

    No `targets` means all of them.
    """

    root: Path
    out: str = "generated"
    specs: tuple[str, ...] = ("specs",)
    targets: tuple[str, ...] | None = None

    def name_of(self, path: Path) -> str:
        """How messages and generated headers name a file: relative to the root, with forward slashes."""
        name = os.path.relpath(path, self.root)
        if name.startswith(os.pardir):  # it may be spelled through a link, and still lie in the project
            name = os.path.relpath(path.resolve(), self.root)
        return Path(name).as_posix()

    def read(self, name: str) -> Source:
        """The text of a file by its name. Raises `OSError`, and `SpecError` where it is not UTF-8."""
        name = posixpath.normpath(name)
        return decode(name, (self.root / name).read_bytes())


def decode(name: str, content: bytes) -> Source:
    """A source from the bytes of a file. Raises `SpecError` at the first byte that is not UTF-8."""
    try:
        return Source(name, content.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        before = error.object[: error.start].decode()
        source = Source(name, error.object.decode(errors="replace"))
        message = f"the file is not UTF-8: byte 0x{error.object[error.start]:02x} stands here"
        raise SpecError(
            [Diagnostic(NOT_UTF8, message, Span(source, len(before), len(before) + 1))]
        ) from error


def find_project(folder: Path) -> Project:
    """The project of the nearest `pyproject.toml` in or above `folder`, else `folder` with the defaults.

    Raises `SpecError` for settings that are not understood.
    """
    folder = folder.resolve()
    for candidate in (folder, *folder.parents):
        if (candidate / "pyproject.toml").is_file():
            return _read_settings(candidate)
    return Project(folder)


def load_specs(project: Project, folder: Path, arguments: Sequence[str]) -> tuple[Source, ...]:
    """The specs that `arguments` (files and folders, relative to `folder`) name, or all of the project's.

    Raises `SpecError` with everything that is not there, is not a spec, or is not text.
    """
    if arguments:
        given = [(argument, folder / argument) for argument in arguments]
    else:
        given = [(f"{name}/", project.root / name) for name in project.specs]
    found: list[Path] = []
    problems: list[Diagnostic] = []
    for argument, path in given:
        try:
            found += _specs_in(path)
        except _NotASpecError as error:
            problems.append(_problem(NO_SPECS, argument, str(error)))
    sources: list[Source] = []
    for name in dict.fromkeys(map(project.name_of, found)):
        try:
            sources.append(_load(project, name))
        except SpecError as error:
            problems += error.diagnostics
    if problems:
        raise SpecError(problems)
    return tuple(sources)


class _NotASpecError(Exception):
    """Why an argument names no spec."""


def _specs_in(path: Path) -> list[Path]:
    if path.is_dir():
        specs = sorted(file for file in path.rglob(f"*{SUFFIX}") if not _is_hidden(file.relative_to(path)))
        if not specs:
            raise _NotASpecError(f"this folder holds no spec (*{SUFFIX}); `opgen new NAME` starts one")
        return specs
    if not path.exists():
        raise _NotASpecError("there is no such file or folder")
    if path.suffix != SUFFIX:
        raise _NotASpecError(f"this is not a spec: the name of a spec ends in {SUFFIX}")
    return [path]


def _is_hidden(path: Path) -> bool:
    """Whether a path leads through a hidden folder, such as a virtual environment."""
    return any(part.startswith(".") for part in path.parts)


def _load(project: Project, name: str) -> Source:
    try:
        return project.read(name)
    except OSError as error:
        raise SpecError([_problem(UNREADABLE, name, f"cannot be read: {error.strerror}")]) from error


def _problem(code: str, name: str, message: str) -> Diagnostic:
    """A diagnostic about a file as a whole."""
    return Diagnostic(code, message, Span(Source(name, ""), 0, 0))


# --- settings -----------------------------------------------------------------------------------


def _read_settings(root: Path) -> Project:
    source = _load(Project(root), "pyproject.toml")
    try:
        tool = tomllib.loads(source.text).get("tool", {})
    except tomllib.TOMLDecodeError as error:
        raise SpecError([_problem(BAD_SETTINGS, source.name, f"this is not TOML: {error}")]) from error
    table = tool.get("opgen", {}) if isinstance(tool, dict) else {}
    if not isinstance(table, dict):
        raise SpecError([_problem(BAD_SETTINGS, source.name, "`tool.opgen` is a table of settings")])
    problems = [*_unknown_keys(source, table), *_ill_typed(source, table)]
    if problems:
        raise SpecError(problems)
    targets = table.get("targets")
    return Project(
        root,
        table.get("out", Project.out),
        tuple(table.get("specs", Project.specs)),
        None if targets is None else tuple(targets),
    )


def _unknown_keys(source: Source, table: Iterable[str]) -> Iterable[Diagnostic]:
    for key in table:
        if key not in _KEYS:
            known = f"the settings are {', '.join(f'`{name}`' for name in _KEYS)}"
            help_text = did_you_mean(key, _KEYS) or known
            message = f"[tool.opgen] has no setting `{key}`"
            yield Diagnostic(BAD_SETTINGS, message, _key_span(source, key), help=help_text)


def _ill_typed(source: Source, table: dict[str, object]) -> Iterable[Diagnostic]:
    out = table.get("out", Project.out)
    if not (isinstance(out, str) and out):
        yield Diagnostic(BAD_SETTINGS, "`out` is the path of a folder", _key_span(source, "out"))
    for key in ("specs", "targets"):
        value = table.get(key, ["default"])
        if not (isinstance(value, list) and value and all(isinstance(item, str) for item in value)):
            yield Diagnostic(BAD_SETTINGS, f"`{key}` is a list of strings, not empty", _key_span(source, key))


def _key_span(source: Source, key: str) -> Span:
    """Where a key of `[tool.opgen]` stands; the table's place where the key is written in an unusual way."""
    table = re.search(r"^\[\s*tool\s*\.\s*opgen\s*\]", source.text, re.MULTILINE)
    start = table.start() if table else 0
    found = re.compile(rf"^\s*(\"?{re.escape(key)}\"?)\s*=", re.MULTILINE).search(source.text, start)
    return Span(source, *found.span(1)) if found else Span(source, start, start + 1)
