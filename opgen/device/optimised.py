"""LLVM's optimiser, run once for kernels that it is given as the same text: on NVIDIA's targets it is told of none."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import triton
from triton._C.libtriton import llvm

from opgen.device.scratch import write

Optimise = Callable[..., None]


_READ = ("3.6.", "3.7.", "3.8.", "3.9.")
"""The releases of Triton of which it was read that they ask an optimised module of NVIDIA's for its text alone."""


def is_known() -> bool:
    """Whether this release of Triton makes and prints optimised modules as known ones do."""
    has_parts = hasattr(llvm, "optimize_module") and "__str__" in vars(llvm.module)
    return has_parts and triton.__version__.startswith(_READ)


def optimise_once(folder: Path) -> None:
    """Makes Triton do so in this process; `folder` keeps the optimised texts.

    What Triton asks of an optimised module is its text: of one whose text is known, that is told, and not made again.
    """
    optimise, printed = llvm.optimize_module, llvm.module.__str__
    told: list[tuple[Any, str]] = []

    def optimised(module: Any, level: Any, *target: Any, **options: Any) -> None:
        if target:  # no other target makes the same
            optimise(module, level, *target, **options)
            return
        text = folder / f"{sha256(f'{options} {printed(module)}'.encode()).hexdigest()}.llz"
        if not text.exists():
            optimise(module, level, **options)
            write(text, zlib.compress(printed(module).encode(), 1))
            return
        told[:] = [(module, zlib.decompress(text.read_bytes()).decode())]

    def text_of(module: Any) -> str:
        if told and told[0][0] is module:
            return told.pop()[1]
        return str(printed(module))

    llvm.optimize_module = optimised
    llvm.module.__str__ = text_of
