"""What an op's graph is cut into: the share of each kernel, and the tensors between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from opgen.ir.nodes import Dim, Element, Graph, Op, Read, Result, TensorParam

PartKind: TypeAlias = Literal["elementwise", "row", "product"]


@dataclass(frozen=True)
class Temporary:
    """A tensor that one part stores and later ones read."""

    name: str
    element: Element
    dims: tuple[Dim, ...]


@dataclass(frozen=True)
class Part:
    """One kernel's share of a graph: the values that its stores need, and the dims that it runs over.

    `reduced` are the last of `space` in a row part (all its reductions are over exactly these), the contracted dim,
    which is not in `space`, in a product, and none in an elementwise part. A row part stores over its kept dims or
    over the whole space, the others over the whole space.
    """

    kind: PartKind
    graph: Graph
    space: tuple[Dim, ...]
    reduced: tuple[Dim, ...] = ()

    @property
    def kept(self) -> tuple[Dim, ...]:
        """The dims of the space that are not reduced."""
        return tuple(dim for dim in self.space if dim not in self.reduced)


@dataclass(frozen=True)
class Partition:
    """The parts of a graph in launch order, and the tensors between them."""

    parts: tuple[Part, ...]
    temporaries: tuple[Temporary, ...] = ()


def target_dims(op: Op) -> dict[str, tuple[Dim, ...]]:
    """The dims of everything that an op stores to."""
    return {item.name: item.dims for item in op.written}


def as_part_sees(op: Op, part: Part, temporaries: Sequence[Temporary]) -> Op:
    """The op as one kernel sees it: temporaries are parameters where it reads them, results where it stores them."""
    stored = {store.target for store in part.graph.stores}
    read = {value.node.param for value in part.graph.values if isinstance(value.node, Read)}
    params = tuple(
        TensorParam(one.name, one.element, one.dims, inout=False, default=None, span=op.span)
        for one in temporaries
        if one.name in read
    )
    results = tuple(
        Result(one.name, one.element, one.dims, op.span) for one in temporaries if one.name in stored
    )
    return replace(op, params=(*op.params, *params), results=(*op.results, *results))
