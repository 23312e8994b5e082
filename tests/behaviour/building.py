"""Builds specs given as text into packages of their own, and imports them."""

from __future__ import annotations

import importlib
import itertools
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from opgen.emit import render
from opgen.emit.module import module_context
from opgen.emit.package import runtime_files
from opgen.pipeline import compile_specs
from opgen.plan.model import Plan
from opgen.source import Source
from tests.lowering import lowered, unread

_numbers = itertools.count()


def build_package(spec_text: str, tmp_path: Path) -> ModuleType:
    """The package of all ops of a spec, built for all targets and imported under a fresh name."""
    return write_package(spec_text, tmp_path / f"built_{next(_numbers)}")


def build_module(spec_text: str, tmp_path: Path) -> ModuleType:
    """The module of the one op of a spec."""
    package = build_package(spec_text, tmp_path)
    (name,) = package.__all__
    return importlib.import_module(f"{package.__name__}.{name}")


def build_references(spec_text: str, tmp_path: Path) -> Callable[[str], Callable[..., Any]]:
    """The eager references of the ops of a spec by name, from a package that has no kernels."""
    folder = tmp_path / f"built_{next(_numbers)}"
    files = runtime_files()
    for op in lowered(spec_text).ops:
        module = module_context(op, (Plan("sm_80", (), ((),) * len(op.variants)),), "spec.op")
        signature = f"def {module.reference.name}({', '.join(module.reference.parameters)}):"
        files[f"{op.name}.py"] = "\n".join(
            [
                "import torch\nfrom . import _runtime as rt",
                f"{module.tables[0].name} = {module.tables[0].value}",
                signature,
                *(f"    {line}" for line in module.reference.lines),
            ]
        )
    package = _imported({**files, "__init__.py": ""}, folder)
    return lambda name: importlib.import_module(f"{package.__name__}.{name}").reference


def write_package(spec_text: str, folder: Path) -> ModuleType:
    """Writes the package of a spec into a new folder and imports it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(render, "formatted", lambda text, origin: text)  # the layout is nine tenths of a build
        build = compile_specs([Source("spec.op", spec_text)], read=unread)
    return _imported(dict(build.files), folder)


def _imported(files: Mapping[str, str], folder: Path) -> ModuleType:
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    sys.path.insert(0, str(folder.parent))
    try:
        importlib.invalidate_caches()
        return importlib.import_module(folder.name)
    finally:
        sys.path.remove(str(folder.parent))
