"""The configs that are searched for a product: committed figures, crossed by rule, pruned later by fit alone.

Blocks of k are in bytes of the multiplied type, so that one table serves all types. The figures hold what won in sweeps
on an H200 (`benchmarks/products.md`) and what published systems start from: tiles of 16 to 256, 32 to 128 bytes of k
(256 where few rows leave shared memory), two to eight stages.
"""

from __future__ import annotations

import functools
import itertools
from dataclasses import dataclass, replace

from opgen.plan.model import ProductConfig


@dataclass(frozen=True)
class Axes:
    """Values to cross for one way to multiply; `depths` are blocks of k in bytes, negative ones in elements."""

    form: str
    strategy: str
    m: tuple[int, ...]
    n: tuple[int, ...]
    depths: tuple[int, ...]
    warps: tuple[int, ...]
    stages: tuple[int, ...]
    splits: tuple[int, ...] = (1,)
    halves: tuple[bool, ...] = (False,)


#: Rows of tiles that share L2; the number of tiles decides.
GROUPS = (8, 4, 16)

SPACE = (
    Axes("dot", "pointers", (16, 32, 64, 128, 256), (32, 64, 128, 256), (64, 128), (4, 8), (2, 3, 4, 5)),
    Axes("dot", "pointers", (16, 32, 64), (32, 64, 128), (64, 128), (4,), (3, 4, 5), splits=(2, 4, 8)),
    Axes(
        "dot", "descriptors", (64, 128, 256), (64, 128, 256), (128,), (4, 8), (3, 4, 5), halves=(False, True)
    ),
    Axes("swapped", "descriptors", (16, 32, 64), (64, 128), (128, 256), (4,), (4, 5, 6, 8)),
    Axes(
        "swapped", "pointers", (16, 32, 64), (32, 64, 128), (128, 256), (4,), (3, 4, 6), splits=(1, 2, 4, 8)
    ),
    Axes("vector", "pointers", (1,), (1, 2, 4, 8), (512, 1024, 2048, 4096, 8192), (1, 2, 4, 8), (1,)),
    Axes("vector", "pointers", (1,), (2, 4, 8), (1024, 2048), (4,), (1,), splits=(2, 4)),
    Axes("outer", "pointers", (1, 16, 32, 64, 128), (16, 32, 64, 128), (-1,), (4, 8), (1,)),
    Axes("outer", "pointers", (16, 32), (16, 32), (-1,), (4,), (1,), splits=(4, 16)),
)


@functools.cache
def configs(space: tuple[Axes, ...], width: int) -> tuple[ProductConfig, ...]:
    """All configs of a space for a multiplied type of `width` bytes."""
    return tuple(
        ProductConfig(
            (m, n, max(depth // width, 1) if depth > 0 else -depth),
            warps,
            stages,
            GROUPS[0],
            axes.form,
            axes.strategy,
            split,
            halves,
        )
        for axes in space
        for m, n, depth, warps, stages, split, halves in itertools.product(
            axes.m, axes.n, axes.depths, axes.warps, axes.stages, axes.splits, axes.halves
        )
    )


def with_library(config: ProductConfig) -> ProductConfig:
    """The vendor's product, with a config for the calls that cannot take it."""
    return replace(config, strategy="library", split=1)
