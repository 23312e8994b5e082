"""Tiling hints of elementwise kernels: the tile's columns and rows, and the warps, checked against each target."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from opgen.diagnostics import Diagnostics
from opgen.ir.nodes import Dim, HintRequest, Op
from opgen.plan.model import ElementwiseConfig
from opgen.targets import Target

#: Triton's limit for the elements of one block.
_MOST_ELEMENTS = 2**20


@dataclass(frozen=True)
class Hints:
    """What a `tile` block asks of one target: block sizes by dim, warps, and what only products have, by key."""

    blocks: tuple[tuple[Dim, HintRequest], ...] = ()
    warps: HintRequest | None = None
    others: tuple[HintRequest, ...] = ()

    def asked(self, key: str) -> HintRequest | None:
        """What is asked for by a word."""
        return next((hint for hint in self.others if hint.key == key), None)


def hints_for(op: Op, target: Target) -> Hints:
    """The hints that hold for a target: those that name it win over the plain ones, key by key."""
    chosen: dict[str, HintRequest] = {}
    for hint in sorted(op.hints, key=lambda hint: bool(hint.targets)):
        if not hint.targets or target.name in hint.targets:
            chosen[hint.key] = hint
    blocks = tuple((hint.dim, hint) for hint in chosen.values() if hint.dim is not None)
    words = tuple(hint for hint in chosen.values() if hint.dim is None and hint.key != "warps")
    return Hints(blocks, chosen.get("warps"), words)


def check_hints(
    targets: tuple[Target, ...], hints: Mapping[str, Hints], summed: frozenset[Dim] = frozenset()
) -> None:
    """Raises `SpecError` at each hint that a target cannot meet, with the figure and the limit of the first.

    `summed` dims are of products: their blocks are no part of the tile that is kept.
    """
    found = Diagnostics()
    told: set[HintRequest] = set()
    for target in targets:
        asked = hints[target.name]
        if asked.warps is not None and asked.warps not in told:
            threads = first_value(asked.warps) * target.warp_size
            if threads > target.max_threads:
                message = (
                    f"{first_value(asked.warps)} warps are {threads} threads on {target.name}, "
                    f"which has {target.max_threads} for a program"
                )
                found.error("OPG711", message, asked.warps.span)
                told.add(asked.warps)
        elements = 1
        for dim, hint in asked.blocks:
            elements *= 1 if dim in summed else first_value(hint)
        if elements > _MOST_ELEMENTS:
            message = f"a tile of {elements} elements is larger than the {_MOST_ELEMENTS} of one block"
            found.error("OPG712", message, asked.blocks[-1][1].span)
    found.raise_if_errors()


def with_hints(config: ElementwiseConfig, space: tuple[Dim, ...], hints: Hints) -> ElementwiseConfig:
    """The config with the blocks and warps asked for: the last dim is the tile's columns, the rest its rows."""
    rows, columns = config.tile
    outer = 1
    for dim, hint in hints.blocks:
        if space and dim == space[-1]:
            columns = first_value(hint)
        else:
            outer *= first_value(hint)
    if any(not space or dim != space[-1] for dim, _ in hints.blocks):
        rows = outer
    if hints.blocks:
        config = replace(config, tile=(rows, columns), block=rows * columns)
    if hints.warps is not None:
        warps = first_value(hints.warps)
        config = replace(config, warps=warps, tile_warps=warps, turned_warps=warps)
    return config


def first_value(hint: HintRequest) -> int:
    """The first of the values that a hint allows, which the planner takes."""
    return int(hint.values[0])
