"""What a node is made of: its operands, and the same node over others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from opgen.ir.nodes import Apply, Cast, Contract, Convert, Gather, Graph, Node, Random, Reduce, Ref


def operands(node: Node) -> tuple[Ref, ...]:
    """The values that a node is made of, in order."""
    if isinstance(node, Apply):
        return node.args
    if isinstance(node, (Convert, Cast, Reduce)):
        return (node.arg,)
    if isinstance(node, Contract):
        return (node.left, node.right)
    if isinstance(node, Gather):
        return tuple(ref for _, ref in node.coordinates)
    return (node.seed,) if isinstance(node, Random) else ()


def reached(graph: Graph, refs: Iterable[Ref]) -> set[Ref]:
    """Some values and all that they are made of."""
    found = set(refs)
    waiting = list(found)
    while waiting:
        further = {*operands(graph.values[waiting.pop()].node)} - found
        found |= further
        waiting += further
    return found


def renumbered(node: Node, new: Mapping[Ref, Ref] | Sequence[Ref]) -> Node:
    """The node with each operand `ref` replaced by `new[ref]`."""
    if isinstance(node, Apply):
        return replace(node, args=tuple(new[ref] for ref in node.args))
    if isinstance(node, (Convert, Cast, Reduce)):
        return replace(node, arg=new[node.arg])
    if isinstance(node, Contract):
        return replace(node, left=new[node.left], right=new[node.right])
    if isinstance(node, Gather):
        return replace(node, coordinates=tuple((dim, new[ref]) for dim, ref in node.coordinates))
    return replace(node, seed=new[node.seed]) if isinstance(node, Random) else node
