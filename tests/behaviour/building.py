"""Builds specs given as text into packages of their own, and imports them."""

from __future__ import annotations

import importlib
import itertools
import sys
from pathlib import Path
from types import ModuleType

import pytest

from opgen.emit import render
from opgen.pipeline import compile_specs
from opgen.source import Source

_numbers = itertools.count()


def build_package(spec_text: str, tmp_path: Path) -> ModuleType:
    """The package of all ops of a spec, built for all targets and imported under a fresh name."""
    return write_package(spec_text, tmp_path / f"built_{next(_numbers)}")


def build_module(spec_text: str, tmp_path: Path) -> ModuleType:
    """The module of the one op of a spec."""
    package = build_package(spec_text, tmp_path)
    (name,) = package.__all__
    return importlib.import_module(f"{package.__name__}.{name}")


def write_package(spec_text: str, folder: Path) -> ModuleType:
    """Writes the package of a spec into a new folder and imports it."""

    def read(path: str) -> Source:
        raise FileNotFoundError(path)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(render, "formatted", lambda text, origin: text)  # the layout is nine tenths of a build
        build = compile_specs([Source("spec.op", spec_text)], read=read)
    for path, text in build.files:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    sys.path.insert(0, str(folder.parent))
    try:
        importlib.invalidate_caches()
        return importlib.import_module(folder.name)
    finally:
        sys.path.remove(str(folder.parent))
