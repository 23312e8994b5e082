"""Exact simplifications of a graph.

    %0: f16[M] = read x              %0: f16[M] = read x
    %1: f32[M] = convert %0          store y = …
    %2: f16[M] = cast %1       ->
    %3: f32[M] = add %1 %1

Values that nothing stored depends on are removed. A cast back to the very element type that its operand was
widened from gives that operand, and a conversion of a value to the type that it has already is the value. Nothing
that rounds, or that changes a NaN, an infinity or a signed zero, is touched.
"""

from __future__ import annotations

from dataclasses import replace

from opgen.ir.nodes import Cast, Convert, Graph, Node, Read, Ref, Store, Value
from opgen.ir.operands import reached, renumbered


def simplify(graph: Graph, optional: frozenset[str] = frozenset()) -> Graph:
    """The graph with the same stored values, without what they do not need.

    `optional` names the tensors that may be left out: their default is no value of their element type, so that a
    cast of it rounds.
    """
    return remove_dead(_forward(graph, optional))


def remove_dead(graph: Graph) -> Graph:
    """The graph without the values that no store depends on, in the same order."""
    kept = sorted(reached(graph, (store.value for store in graph.stores)))
    new = {position: place for place, position in enumerate(kept)}
    values = tuple(
        replace(graph.values[position], node=renumbered(graph.values[position].node, new))
        for position in kept
    )
    return Graph(values, tuple(Store(store.target, new[store.value]) for store in graph.stores))


def _forward(graph: Graph, optional: frozenset[str]) -> Graph:
    """The graph in which users of a value that equals its operand take the operand."""
    same: list[Ref] = []
    values: list[Value] = []
    for position, value in enumerate(graph.values):
        node = renumbered(value.node, same)
        values.append(replace(value, node=node))
        same.append(_equal_operand(values, node, value, position, optional))
    return Graph(tuple(values), tuple(Store(store.target, same[store.value]) for store in graph.stores))


def _equal_operand(
    values: list[Value], node: Node, value: Value, position: Ref, optional: frozenset[str]
) -> Ref:
    """The value that a conversion leaves as it is, else the conversion itself."""
    if not isinstance(node, (Cast, Convert)) or not isinstance(inner := values[node.arg].node, Convert):
        return position
    if isinstance(node, Convert):
        return node.arg if values[node.arg].type == value.type else position
    source = values[inner.arg]
    widened = values[node.arg].type.dtype.name == source.type.dtype.compute
    exact = not (isinstance(source.node, Read) and source.node.param in optional)
    return inner.arg if source.type == value.type and widened and exact else position
