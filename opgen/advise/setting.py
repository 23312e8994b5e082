"""An op at some sizes, with one choice of its type variables."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from opgen.dtypes import DType
from opgen.ir.nodes import Dim, Element, Graph, Op, SizeCase, Variant


@dataclass(frozen=True)
class Setting:
    """`sizes` has the size of each plain dim; `...` is one leading dim. `graph` serves the types."""

    op: Op
    variant: int
    label: str
    sizes: Mapping[str, int]
    types: Mapping[str, DType]

    @property
    def graph(self) -> Graph:
        return self.op.variants[self.variant].graph

    @property
    def dtype(self) -> str:
        """The element types chosen, in the order of the variables."""
        return ", ".join(dtype.name for dtype in self.types.values()) or "fixed types"

    def size(self, dim: Dim) -> int:
        named = self.sizes[dim.name] if dim.fixed is None else dim.fixed
        return named * dim.times // dim.over

    def count(self, dims: Sequence[Dim]) -> int:
        """The elements of a value over these dims."""
        return math.prod(self.size(dim) for dim in dims)

    def bits(self, element: Element) -> int:
        return self.dtype_of(element).bits

    def dtype_of(self, element: Element) -> DType:
        return self.types.get(element.variable or "", element.dtype)


def missing(op: Op, sizes: Mapping[str, int]) -> tuple[str, ...]:
    """The dims that sizes say nothing about."""
    names = {dim.name for one in op.arrays for dim in one.dims if dim.fixed is None}
    return tuple(sorted(names - set(sizes)))


def given_sizes(texts: Sequence[str]) -> dict[str, int] | None:
    """`("...=2048", "N=64")` as sizes by name; None where the texts are labels. Raises `ValueError` for neither."""
    pairs = [re.fullmatch(r"(\.\.\.|\w+)\s*=\s*(\d+)", text) for text in texts]
    if not any("=" in text for text in texts):
        return None
    if not all(pairs):
        raise ValueError("sizes are labels of the spec, or one setting such as `...=2048,N=16384,K=4096`")
    return {pair[1]: int(pair[2]) for pair in pairs if pair}


def settings(op: Op, wanted: Sequence[str] | None, dtypes: Sequence[str] | None) -> Iterator[Setting]:
    """The op at the spec's `sizes` (those of these labels), or at the one setting that `wanted` spells out.

    Of the element types it takes `dtypes`, else bf16, else the first choice.
    """
    own = given_sizes(wanted) if wanted else None
    cases = [(case.label, _by_name(case)) for case in op.sizes if not wanted or case.label in wanted]
    if own is not None:
        cases = [(", ".join(f"{name} = {size}" for name, size in own.items()), own)]
    for label, sizes in cases:
        for place, choice in _choices(op.variants, dtypes):
            types = {variable.name: dtype for variable, dtype in zip(op.variables, choice, strict=True)}
            yield Setting(op, place, label, sizes, types)


def _by_name(case: SizeCase) -> dict[str, int]:
    return {dim.name: size for dim, size in case.sizes}


def _choices(
    variants: Sequence[Variant], dtypes: Sequence[str] | None
) -> list[tuple[int, tuple[DType, ...]]]:
    known = [(place, choice) for place, variant in enumerate(variants) for choice in variant.choices]
    if dtypes:
        return [(place, choice) for place, choice in known if all(dtype.name in dtypes for dtype in choice)]
    plain = [(place, choice) for place, choice in known if all(dtype.name == "bf16" for dtype in choice)]
    return (plain or known)[:1]
