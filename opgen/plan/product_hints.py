"""Tiling hints of products: they narrow the space that is searched."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NoReturn

from opgen.diagnostics import Diagnostics, InternalError
from opgen.ir.nodes import Dim, HintRequest
from opgen.plan.hints import Hints
from opgen.plan.model import ProductClass, ProductConfig, ProductSides
from opgen.plan.product_space import SPACE, Axes
from opgen.targets import Target

Values = tuple[int, ...]
#: Targets whose matrix unit takes f32 as tf32; others multiply it exactly.
_TF32 = ("sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120")
_TF32_AMD = ("gfx942",)


@dataclass(frozen=True)
class Narrowed:
    """What hints leave of the space: values in the place of the space's own, None where they say nothing."""

    m: Values | None = None
    n: Values | None = None
    k: Values | None = None
    warps: Values | None = None
    stages: Values | None = None
    groups: Values | None = None
    splits: Values | None = None
    descriptors: bool | None = None
    library: bool | None = None
    precision: str = "ieee"

    @property
    def may_take_library(self) -> bool:
        tiled = (self.m, self.n, self.k, self.warps, self.stages, self.splits, self.descriptors)
        return self.library is not False and (self.library is True or all(one is None for one in tiled))

    @property
    def takes_library(self) -> bool:
        return self.library is True

    def space(self) -> tuple[Axes, ...]:
        """The space with the values asked for; ways of multiplying that cannot have them are left out."""
        return tuple(self._axes(axes) for axes in SPACE if self._keeps(axes))

    def _keeps(self, axes: Axes) -> bool:
        if self.descriptors is not None and (axes.strategy == "descriptors") != self.descriptors:
            return False
        if axes.form == "vector" and self.m is not None and 1 not in self.m:
            return False
        wants_split = self.splits is not None and max(self.splits) > 1
        return axes.strategy != "descriptors" or not wants_split

    def _axes(self, axes: Axes) -> Axes:
        fixed_k = axes.form == "outer"
        return replace(
            axes,
            m=axes.m if self.m is None or axes.form == "vector" else self.m,
            n=self.n or axes.n,
            depths=axes.depths if self.k is None or fixed_k else tuple(-one for one in self.k),
            warps=self.warps or axes.warps,
            stages=axes.stages if self.stages is None or axes.form in ("vector", "outer") else self.stages,
            splits=self.splits or axes.splits,
        )

    def precision_on(self, target: Target) -> str:
        """The precision of f32 products on a target: exact where it has no unit for what is asked."""
        if target.is_amd:
            return self.precision if self.precision == "tf32" and target.name in _TF32_AMD else "ieee"
        return self.precision if target.name in _TF32 else "ieee"

    def finished(self, config: ProductConfig, target: Target) -> ProductConfig:
        """A config with the precision asked for."""
        precision = self.precision_on(target)
        return config if precision == config.precision else replace(config, precision=precision)


def narrowed(hints: Hints, sides: ProductSides) -> Narrowed:
    """What the hints of one target leave of the space; several dims of one side make one block together."""
    blocks: dict[str, Values] = {}
    for dim, hint in hints.blocks:
        side = _side(sides, dim)
        if side is not None:
            known = blocks.get(side, (1,))
            blocks[side] = tuple(a * int(b) for a in known for b in hint.values)
    library = hints.asked("strategy")
    precision = hints.asked("precision")
    kernels = hints.asked("kernels")
    splits = _ints(hints.asked("split"))
    if kernels is not None:
        splits = splits or (1,)
    return Narrowed(
        m=blocks.get("m"),
        n=blocks.get("n"),
        k=blocks.get("k"),
        warps=_ints(hints.warps),
        stages=_ints(hints.asked("stages")),
        groups=_ints(hints.asked("group")),
        splits=splits,
        descriptors=_descriptors(hints),
        library=None
        if library is None and kernels is None
        else library is not None and library.values[0] == "library",
        precision="ieee" if precision is None else str(precision.values[0]),
    )


def _side(sides: ProductSides, dim: Dim) -> str | None:
    """The side that has a dim, else the one that has a multiple or a fraction of it."""
    known = {one: name for name in ("k", "n", "m") for one in getattr(sides, name)}
    by_name = {one.name: name for one, name in known.items()}
    return known.get(dim, by_name.get(dim.name))


def _ints(hint: HintRequest | None) -> Values | None:
    return None if hint is None else tuple(int(value) for value in hint.values)


def _descriptors(hints: Hints) -> bool | None:
    """Whether descriptors, which come with a persistent grid, are asked for; None where both are fine.

    Raises `SpecError` where one is asked for without the other.
    """
    asked = [hint for key in ("tma", "persistent") if (hint := hints.asked(key)) is not None]
    allowed = {True, False}.intersection(*(map(bool, hint.values) for hint in asked))
    if not allowed:
        diagnostics = Diagnostics()
        message = (
            "`tma` and `persistent` go together: programs that stay read their tiles through descriptors"
        )
        diagnostics.error("OPG714", message, asked[-1].span)
        diagnostics.raise_if_errors()
    return allowed.pop() if len(allowed) == 1 else None


def refuse_hints(hints: Hints, target: Target, classes: Sequence[ProductClass]) -> NoReturn:
    """Raises `SpecError` at a hint that no type of a target can meet, with the figure and the limit."""
    asked = [*(hint for _, hint in hints.blocks), *([hints.warps] if hints.warps else []), *hints.others]
    rejected = [one for found in classes for one in found.rejected]
    if not asked:
        raise InternalError(f"no config of a product fits {target.name}")
    diagnostics = Diagnostics()
    wants_descriptors = [hint for key in ("tma", "persistent") if (hint := hints.asked(key)) is not None]
    if not rejected and wants_descriptors and not target.has_descriptors:
        message = f"{target.name} has no tensor descriptors, which `{wants_descriptors[0].key}` asks for here"
        diagnostics.error("OPG714", message, wants_descriptors[0].span)
    elif not rejected:
        message = f"no way to multiply on {target.name} has what these hints ask for together"
        diagnostics.error("OPG714", message, asked[0].span)
    else:
        least = min(rejected, key=lambda one: abs(one.figure - one.limit) / max(one.limit, 1))
        tile = " x ".join(map(str, least.example.tile))
        message = (
            f"a tile of {tile} with {least.example.warps} warps and {least.example.stages} stages takes "
            f"{least.figure} {least.reason} on {target.name}, which has {least.limit}"
        )
        diagnostics.error("OPG714", message, asked[0].span)
    diagnostics.raise_if_errors()
    raise AssertionError("an error was told")
