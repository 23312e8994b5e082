"""Puts a planted fault where the generated package would have the sound text, for as long as a trial takes."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import linecache
import sys
import types
from collections.abc import Iterator, Mapping
from typing import Any

from triton.runtime import interpreter

from tests.planted.operators import Site

PACKAGE = "planted_package"


class UnplantedError(Exception):
    """The fault leaves nothing that could be called."""


def module(name: str) -> types.ModuleType:
    """A module of the generated package."""
    return importlib.import_module(f"{PACKAGE}.{name}")


@contextlib.contextmanager
def planted(op: str, site: Site) -> Iterator[Any]:
    """The case of an op's tests with a fault in its module; raises `UnplantedError` where that cannot be made."""
    tests = module(f"tests.test_{op}")
    with _forgotten_functions():
        if site.jitted:
            with in_device_function(op, site):
                yield forgetful(tests.CASE)
            return
        with _text(op, site.source) as path:
            made = types.ModuleType(f"{PACKAGE}.{op}")
            made.__file__, made.__package__ = path, PACKAGE
            _run(site.source, path, vars(made))
            parts = {name: getattr(made, getattr(tests, name).__name__) for name in ("function", "operator")}
            yield dataclasses.replace(tests.CASE, entry=made._ENTRY, **parts)


@contextlib.contextmanager
def in_device_function(file: str, site: Site) -> Iterator[None]:
    """Every module of the package with a fault in a device function or kernel of the module `file`."""
    own = getattr(module(file), site.function)
    holders = [
        vars(loaded)
        for path, loaded in list(sys.modules.items())
        if path.startswith(f"{PACKAGE}.") and vars(loaded).get(site.function) is own
    ]
    with _forgotten_functions(), _text(file, site.function_text) as path:
        namespace = vars(module(file))
        try:
            _run(site.function_text, path, namespace)
            for holder in holders:
                holder[site.function] = namespace[site.function]
            yield
        finally:
            for holder in holders:
                holder[site.function] = own


def forgetful(case: Any) -> Any:
    """The case with an entry that remembers no calls."""
    return dataclasses.replace(case, entry=dataclasses.replace(case.entry, prepared={}, ready={}))


def _run(text: str, path: str, namespace: dict[str, Any]) -> None:
    try:
        exec(compile(text, path, "exec"), namespace)
    except Exception as error:
        raise UnplantedError(f"{type(error).__name__}: {error}") from error


@contextlib.contextmanager
def _text(name: str, source: str) -> Iterator[str]:
    """The path under which Triton finds a planted text."""
    path = f"<planted {name}>"
    lines = source.splitlines(keepends=True)
    linecache.cache[path] = (len(source), None, lines, path)
    try:
        yield path
    finally:
        linecache.cache.pop(path, None)


@contextlib.contextmanager
def _forgotten_functions() -> Iterator[None]:
    """The interpreter keeps what it has rewritten for good; here, only what it knew before."""
    kept: Mapping[Any, Any] = interpreter.InterpretedFunction.rewritten_fn
    before = set(kept)
    try:
        yield
    finally:
        for function in set(kept) - before:
            del interpreter.InterpretedFunction.rewritten_fn[function]
