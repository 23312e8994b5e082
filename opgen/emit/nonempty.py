"""Which reductions need at least one element: those that have no value over nothing."""

from __future__ import annotations

from dataclasses import dataclass

from opgen.ir import dims as dim_rules
from opgen.ir.nodes import Dim, Graph, Op, Reduce, Ref
from opgen.ir.operands import reached
from opgen.ir.passes.parts import target_dims

_NEED_AN_ELEMENT = frozenset({"min", "max", "argmin", "argmax"})


@dataclass(frozen=True)
class NeededReduction:
    """A reduction that a target needs, and the dims that must not be empty unless the target is.

    These are the reduced dims that the target lacks: where one that it carries is empty, it is empty itself.
    """

    kind: str
    dims: tuple[Dim, ...]
    target: str


def needed_reductions(op: Op) -> tuple[NeededReduction, ...]:
    """The reductions of an op that need an element, each once, in the order of the targets."""
    found: dict[NeededReduction, None] = {}
    for variant in op.variants:
        stored = {store.target: store.value for store in variant.graph.stores}
        for target, dims in target_dims(op).items():
            for node in _reductions(variant.graph, stored[target]):
                lacking = tuple(dim for dim in node.dims if dim_rules.find(dims, dim) is None)
                if lacking:
                    found[NeededReduction(node.kind, lacking, target)] = None
    return tuple(found)


def _reductions(graph: Graph, ref: Ref) -> list[Reduce]:
    """The reductions that need an element below a value, in the order of the graph."""
    nodes = (graph.values[one].node for one in sorted(reached(graph, [ref])))
    return [node for node in nodes if isinstance(node, Reduce) and node.kind in _NEED_AN_ELEMENT]
