"""Cuts an op's graph into kernels: the fewest iteration spaces that cover its results.

In:  a graph with stores `y: [M, N]`, `z: [N, M]` and `s: [M]`.
Out: one part that stores y and z (the same dims, in another order), and one that stores s.

A part repeats what it shares with another rather than storing it. Only elementwise parts exist so far: a reduction
or a contraction is one diagnostic at its place.
"""

from __future__ import annotations

from dataclasses import dataclass

from opgen.diagnostics import Diagnostics
from opgen.ir.nodes import Cast, Contract, Convert, Dim, Element, Graph, Op, Reduce, Ref, Store
from opgen.ir.passes.simplify import remove_dead


@dataclass(frozen=True)
class Part:
    """One kernel's share of a graph: the values that its stores need, and the dims that it runs over."""

    graph: Graph
    space: tuple[Dim, ...]


def partition(op: Op) -> tuple[tuple[Part, ...], ...]:
    """The parts of each variant of an op, in the order of the results. Raises `SpecError` for what has no kernel."""
    found = Diagnostics()
    for variant in op.variants:
        _refuse_nodes(op, variant.graph, found)
    _refuse_declarations(op, found)
    found.raise_if_errors()
    return tuple(_parts(op, variant.graph) for variant in op.variants)


def target_dims(op: Op) -> dict[str, tuple[Dim, ...]]:
    """The dims of everything that an op stores to."""
    return {item.name: item.dims for item in op.written}


def _parts(op: Op, graph: Graph) -> tuple[Part, ...]:
    dims = target_dims(op)
    elements = {item.name: item.element for item in op.arrays}
    groups: dict[frozenset[Dim], list[Store]] = {}
    for store in graph.stores:
        value = _rounded_once(graph, store.value, elements[store.target])
        groups.setdefault(frozenset(dims[store.target]), []).append(Store(store.target, value))
    return tuple(
        Part(remove_dead(Graph(graph.values, tuple(stores))), dims[stores[0].target])
        for stores in groups.values()
    )


def _rounded_once(graph: Graph, ref: Ref, element: Element) -> Ref:
    """The value whose store rounds as its cast to the very type that is stored would: the cast is left to the store."""
    convert = graph.values[ref].node
    if not isinstance(convert, Convert):
        return ref
    cast = graph.values[convert.arg]
    if (
        not isinstance(cast.node, Cast)
        or str(cast.type.element) != str(element)
        or not element.dtype.is_float
    ):
        return ref
    inner = graph.values[cast.node.arg].type.dtype
    return cast.node.arg if inner.is_float and inner.is_compute else ref


def _refuse_nodes(op: Op, graph: Graph, found: Diagnostics) -> None:
    for value in graph.values:
        match value.node:
            case Reduce(kind=kind):
                found.error("OPG701", f"`{op.name}`: the reduction `{kind}` has no kernel yet", value.span)
            case Contract():
                found.error("OPG702", f"`{op.name}`: the contraction `@` has no kernel yet", value.span)
            case Cast() if value.type.element.dtype.is_packed:
                message = f"`{op.name}`: a cast to {value.type.element} has no kernel yet"
                found.error("OPG703", message, value.span, help="clamp to its range and cast to `i8` or `u8`")
            case _:
                pass


def _refuse_declarations(op: Op, found: Diagnostics) -> None:
    for gradient in op.gradients:
        found.error("OPG704", f"`{op.name}`: `grad {gradient.param}` has no kernel yet", gradient.span)
    for item in op.written:
        if item.element.dtype.is_packed:
            what = "result" if item in op.results else "tensor that is updated"
            message = f"`{op.name}`: a packed {what} ({item.element}) has no kernel yet"
            found.error("OPG703", message, item.span, help="store `i8` or `u8`")
