"""Triton's front end, run once for all targets that it makes the same of: Python becomes Triton's intermediate form.

What the front end reads of a target is noted: options, code of the target's own, libraries. Its text serves another
target where each of these is what it was. The rest of a compilation is Triton's own for each job.
"""

from __future__ import annotations

import inspect
import json
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from triton._C.libtriton import ir
from triton.compiler import ASTSource

from opgen.device.offline import Job
from opgen.device.scratch import write

_PLAIN = (bool, int, float, str, type(None))
_NOTHING = ""
_TAKEN = ("self", "target", "options", "codegen_fns", "module_map", "context")


def is_known() -> bool:
    """Whether this release of Triton has a front end that is called so, and writes modules down and reads them."""
    taken = tuple(inspect.signature(ASTSource.make_ir).parameters)
    return taken == _TAKEN and hasattr(ir, "parse_mlir_module") and hasattr(ir.module, "str_nodebug")


class SharedSource(ASTSource):  # type: ignore[misc] # Triton has no types
    """A kernel with its types and constants, whose intermediate form is looked up in a folder and kept there."""

    def __init__(self, source: ASTSource, job: Job, folder: Path) -> None:
        self.__dict__.update(vars(source))
        self._forms = folder / replace(job, options=(), target="").key

    def make_ir(self, target: Any, options: Any, codegen_fns: Any, module_map: Any, context: Any) -> Any:
        """What the front end makes of it for a target."""
        read = _Read({"target": target, "options": options, "code": codegen_fns, "modules": module_map})
        known = _known(self._forms, read)
        if known is not None:
            return _parsed(known, context)
        module = super().make_ir(
            _Object(read, "target"),
            _Object(read, "options"),
            _Table(read, "code"),
            _Table(read, "modules"),
            context,
        )
        if None not in read.notes.values():
            _keep(self._forms, read.notes, module.str_nodebug())
        return module


# --- what is read of a target -------------------------------------------------------------------


@dataclass(frozen=True)
class _Read:
    """What a target gives to the front end, by kind, and what was read of it: None where that cannot be told."""

    given: Mapping[str, Any]
    notes: dict[str, str | None] = field(default_factory=dict)

    def note(self, kind: str, name: str) -> None:
        """Notes what is read, once."""
        if f"{kind} {name}" not in self.notes:
            self.notes[f"{kind} {name}"] = self.told(kind, name)

    def told(self, kind: str, name: str) -> str | None:
        """What `name` of a kind is, as text that is the same where it is the same."""
        given = self.given[kind]
        if isinstance(given, Mapping):
            return _text(given[name]) if name in given else _NOTHING
        return _text(getattr(given, name)) if hasattr(given, name) else _NOTHING

    def is_same(self, notes: Mapping[str, str]) -> bool:
        return all(self.told(*place.split(" ", 1)) == text for place, text in notes.items())


class _Object:
    """An object whose reads are noted. It has no attributes of its own, so that none is read unnoted."""

    __slots__ = ("_kind", "_read")

    def __init__(self, read: _Read, kind: str) -> None:
        self._read = read
        self._kind = kind

    def __getattr__(self, name: str) -> Any:
        self._read.note(self._kind, name)
        return getattr(self._read.given[self._kind], name)


class _Table(Mapping[str, Any]):
    """A mapping whose look-ups are noted, found or not."""

    def __init__(self, read: _Read, kind: str) -> None:
        self._read = read
        self._kind = kind

    def __getitem__(self, name: str) -> Any:
        self._read.note(self._kind, name)
        return self._read.given[self._kind][name]

    def __iter__(self) -> Iterator[str]:
        raise NotImplementedError("the front end looks up one name after another")

    def __len__(self) -> int:
        return len(self._read.given[self._kind])


def _text(value: Any) -> str | None:
    if isinstance(value, ModuleType):
        return value.__name__
    if callable(value):
        return _code(inspect.unwrap(value))
    return _data(value)


def _data(value: Any) -> str | None:
    parts = [*value] if isinstance(value, tuple) else [value]
    return repr(value) if all(isinstance(part, _PLAIN) for part in parts) else None


def _code(function: Any) -> str | None:
    """Where a function stands; nothing is told of one that was made with values of its own."""
    if not isinstance(function, FunctionType):
        return None
    is_made = "<locals>" in function.__qualname__ and (function.__closure__ or function.__defaults__)
    return None if is_made else f"{function.__module__}.{function.__qualname__}"


# --- what is kept -------------------------------------------------------------------------------


def _known(forms: Path, read: _Read) -> Path | None:
    """The text of a module that was made from the same."""
    for notes in forms.glob("*.json"):
        if read.is_same(json.loads(notes.read_text(encoding="utf-8"))):
            return notes.with_suffix(".ttir")
    return None


def _keep(forms: Path, notes: Mapping[str, str | None], text: str) -> None:
    """Keeps a module; its notes come last, as what has notes is read."""
    name = secrets.token_hex(8)
    write(forms / f"{name}.ttir", text.encode())
    write(forms / f"{name}.json", json.dumps(dict(notes)).encode())


def _parsed(path: Path, context: Any) -> Any:
    module = ir.parse_mlir_module(str(path), context)
    module.context = context
    return module
