"""Cuts an op's graph into kernels: the fewest iteration spaces that cover its results.

In:  a graph with stores `y: [M, N]`, `z: [N, M]` and `s: [M]`.
Out: one part that stores y and z (the same dims, in another order), and one that stores s.

A part repeats what it shares with another rather than storing it. Only elementwise parts exist so far: a reduction
or a contraction is one diagnostic at its place.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from opgen.diagnostics import Diagnostics
from opgen.ir.nodes import Contract, Dim, Graph, Op, Reduce, Ref, Store
from opgen.ir.operands import operands, renumbered


@dataclass(frozen=True)
class Part:
    """One kernel's share of a graph: the values that its stores need, and the dims that it runs over."""

    graph: Graph
    space: tuple[Dim, ...]


def partition(op: Op) -> tuple[tuple[Part, ...], ...]:
    """The parts of each variant of an op, in the order of the results. Raises `SpecError` for what has no kernel."""
    found = Diagnostics()
    for variant in op.variants:
        _refuse(op, variant.graph, found)
    found.raise_if_errors()
    return tuple(_parts(op, variant.graph) for variant in op.variants)


def target_dims(op: Op) -> dict[str, tuple[Dim, ...]]:
    """The dims of everything that an op stores to."""
    return {item.name: item.dims for item in (*op.results, *(one for one in op.tensors if one.inout))}


def _parts(op: Op, graph: Graph) -> tuple[Part, ...]:
    dims = target_dims(op)
    groups: dict[frozenset[Dim], list[Store]] = {}
    for store in graph.stores:
        groups.setdefault(frozenset(dims[store.target]), []).append(store)
    return tuple(
        Part(_reachable(graph, tuple(stores)), dims[stores[0].target]) for stores in groups.values()
    )


def _reachable(graph: Graph, stores: tuple[Store, ...]) -> Graph:
    """The part of a graph that some stores need, renumbered."""
    needed: set[Ref] = set()
    pending = [store.value for store in stores]
    while pending:
        ref = pending.pop()
        if ref not in needed:
            needed.add(ref)
            pending.extend(operands(graph.values[ref].node))
    kept = sorted(needed)
    place = {ref: position for position, ref in enumerate(kept)}
    values = tuple(
        replace(graph.values[ref], node=renumbered(graph.values[ref].node, place)) for ref in kept
    )
    return Graph(values, tuple(Store(store.target, place[store.value]) for store in stores))


def _refuse(op: Op, graph: Graph, found: Diagnostics) -> None:
    for value in graph.values:
        match value.node:
            case Reduce(kind=kind):
                found.error("OPG401", f"`{op.name}`: the reduction `{kind}` has no kernel yet", value.span)
            case Contract():
                found.error("OPG402", f"`{op.name}`: the contraction `@` has no kernel yet", value.span)
            case _:
                pass
    for result in op.results:
        if result.element.dtype.is_packed:
            message = f"`{op.name}`: a packed result ({result.element}) has no kernel yet"
            found.error("OPG403", message, result.span, help="store `i8` or `u8`")
