"""A spec as a callable, in a notebook or a benchmark: built into a temporary package and imported."""

from __future__ import annotations

import importlib
import itertools
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType

from opgen.output import write
from opgen.pipeline import Build, compile_specs
from opgen.source import Source

_numbers = itertools.count()


def load(path: str | Path) -> ModuleType:
    """The package of a spec file's ops: `load("specs/swish.op").swish(x)`.

    Raises `SpecError` for what is wrong in the spec. The package lives in a temporary folder until the process ends.
    """

    def read(name: str) -> Source:
        return Source(name, Path(name).read_text(encoding="utf-8"))

    return load_sources([read(str(path))], read)[1]


def load_sources(sources: Sequence[Source], read: Callable[[str], Source]) -> tuple[Build, ModuleType]:
    """The build of some specs and the package that it makes, imported under a fresh name."""
    build = compile_specs(sources, read=read)
    parent = Path(tempfile.mkdtemp(prefix="opgen-"))
    name = f"opgen_loaded_{next(_numbers)}"
    write(parent / name, build.files)
    sys.path.insert(0, str(parent))
    try:
        importlib.invalidate_caches()
        return build, importlib.import_module(name)
    finally:
        sys.path.remove(str(parent))
