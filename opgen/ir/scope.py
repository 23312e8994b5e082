"""The functions that a file sees: its own, those of the files it uses, and the prelude's."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TypeAlias

from opgen.diagnostics import Diagnostics, Note, SpecError
from opgen.primitives import FUNCTIONS, REDUCTIONS
from opgen.resources import grammar_text
from opgen.source import Source
from opgen.syntax import ast
from opgen.syntax.parse import parse

#: Names of built-ins, which no `fn` may take.
BUILT_INS = frozenset((*FUNCTIONS, *REDUCTIONS, "cast", "rand", "index"))

PRELUDE_NAME = "grammar/prelude.op"


@dataclass(frozen=True)
class ScopedFn:
    """A function and the file in whose scope its body is read; a broken one was refused where it is defined."""

    node: ast.Fn
    home: str
    is_prelude: bool = False
    broken: bool = False


#: The functions that one file sees, by name.
Scope: TypeAlias = Mapping[str, ScopedFn]


@dataclass(frozen=True)
class Functions:
    """The scopes of all files read, by the file's name, and the one that is being lowered.

    `incomplete` says that a used file could not be read: an unknown function is then not reported again.
    """

    root: str
    scopes: Mapping[str, Scope]
    incomplete: bool = False

    def find(self, name: str, caller: ScopedFn | None) -> ScopedFn | None:
        """The function that `name` means in the body of `caller`, or in an op's body."""
        return self.visible(caller).get(name)

    def visible(self, caller: ScopedFn | None) -> Scope:
        return self.scopes[self.root if caller is None else caller.home]


@cache
def prelude() -> Scope:
    """The functions of `grammar/prelude.op`."""
    file = parse(Source(PRELUDE_NAME, grammar_text("prelude.op")))
    functions = (item for item in file.items if isinstance(item, ast.Fn))
    return {fn.name.text: ScopedFn(fn, PRELUDE_NAME, is_prelude=True) for fn in functions}


def load_functions(file: ast.File, read: Callable[[str], Source], diagnostics: Diagnostics) -> Functions:
    """All functions that the file's ops and functions see; mistakes in `use` and `fn` items are reported.

    `read` loads a file by its path relative to `file`.
    """
    loader = _Loader(read, diagnostics)
    loader.load(file, "", (file.source.name,))
    return Functions(file.source.name, loader.scopes, loader.incomplete)


@dataclass
class _Loader:
    read: Callable[[str], Source]
    diagnostics: Diagnostics
    scopes: dict[str, Scope] = field(default_factory=lambda: {PRELUDE_NAME: prelude()})
    incomplete: bool = False

    def load(self, file: ast.File, folder: str, stack: tuple[str, ...]) -> None:
        """Adds the scope of a file and of what it uses; `folder` is where its paths start."""
        home = file.source.name
        # A leading underscore marks the prelude's own steps.
        scope = {name: fn for name, fn in prelude().items() if not name.startswith("_")}
        for item in file.items:
            if isinstance(item, ast.Use):
                for name, fn in self._used(item, folder, stack):
                    self._define(scope, name, fn, item.path)
        for item in file.items:
            if isinstance(item, ast.Fn):
                self._define(scope, item.name.text, ScopedFn(item, home), item.name)
        self.scopes[home] = scope

    def _define(self, scope: dict[str, ScopedFn], name: str, fn: ScopedFn, at: ast.Name | ast.Text) -> None:
        if name in BUILT_INS:
            if isinstance(at, ast.Name):  # else it is reported where it is defined
                message = f"`{name}` is built in and cannot be shadowed"
                self.diagnostics.error("OPG201", message, at.span, help="choose another name")
            return
        known = scope.get(name)
        if known is not None and known.node is fn.node:
            return
        if known is not None and not known.is_prelude:
            note = Note("first defined here", known.node.name.span)
            self.diagnostics.error(
                "OPG202", f"the function `{name}` is defined twice", at.span, notes=(note,)
            )
            return
        if known is not None and isinstance(at, ast.Name):
            self.diagnostics.warning("OPG203", f"`{name}` shadows the prelude's function", at.span)
        scope[name] = fn

    def _used(self, use: ast.Use, folder: str, stack: tuple[str, ...]) -> Iterator[tuple[str, ScopedFn]]:
        """The functions that a used file defines itself."""
        file = self._open(use, folder, stack)
        if file is None:
            self.incomplete = True
            return
        name = file.source.name
        for item in file.items:
            if isinstance(item, ast.Fn):
                fn = self.scopes[name].get(item.name.text)
                if fn is not None and fn.node is item:
                    yield item.name.text, fn

    def _open(self, use: ast.Use, folder: str, stack: tuple[str, ...]) -> ast.File | None:
        path = posixpath.normpath(posixpath.join(folder, use.path.value))
        if not use.path.value or posixpath.isabs(use.path.value):
            self.diagnostics.error("OPG204", "`use` takes a path relative to this file", use.path.span)
            return None
        try:
            source = self.read(path)
        except FileNotFoundError:
            self.diagnostics.error("OPG205", f"there is no file `{use.path.value}` here", use.path.span)
            return None
        except (OSError, ValueError) as error:
            self.diagnostics.error("OPG205", f"`{use.path.value}` cannot be read: {error}", use.path.span)
            return None
        if source.name in stack:
            chain = " -> ".join((*stack[stack.index(source.name) :], source.name))
            self.diagnostics.error("OPG206", f"`use` goes round in a circle: {chain}", use.path.span)
            return None
        return self._parsed(source, path, stack)

    def _parsed(self, source: Source, path: str, stack: tuple[str, ...]) -> ast.File | None:
        if source.name in self._files:
            return self._files[source.name]
        try:
            file = parse(source)
        except SpecError as error:
            for diagnostic in error.diagnostics:
                self.diagnostics.add(diagnostic)
            return None
        self._files[source.name] = file
        self.load(file, posixpath.dirname(path), (*stack, source.name))
        return file

    _files: dict[str, ast.File] = field(default_factory=dict)


def mark_broken(functions: Functions, broken: frozenset[int]) -> Functions:
    """The functions, with those refused (by the identity of their node) marked."""
    scopes = {
        home: {name: replace(fn, broken=True) if id(fn.node) in broken else fn for name, fn in scope.items()}
        for home, scope in functions.scopes.items()
    }
    return replace(functions, scopes=scopes)
