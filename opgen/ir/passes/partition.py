"""The partition of an op into kernels, and what has none: `cutting.py` says how a graph is cut."""

from __future__ import annotations

from opgen.diagnostics import Diagnostics
from opgen.ir.nodes import Cast, Graph, Op
from opgen.ir.passes.cutting import cut, heavy_needs, sum_types
from opgen.ir.passes.parts import Partition


def partition(op: Op) -> tuple[Partition, ...]:
    """The partition of each variant of an op. Raises `SpecError` for what has no kernel."""
    found = Diagnostics()
    for variant in op.variants:
        _refuse_nodes(op, variant.graph, found)
    _refuse_declarations(op, found)
    found.raise_if_errors()
    shares_tiles = all(len(sum_types(variant.graph)) <= 1 for variant in op.variants)
    return tuple(cut(op, variant.graph, shares_tiles) for variant in op.variants)


def heavy_results(op: Op) -> frozenset[str]:
    """The results that need a reduction or a contraction: they are contiguous, whatever the layout of the inputs."""
    graph = op.variants[0].graph
    needs = heavy_needs(graph)
    return frozenset(store.target for store in graph.stores if needs[store.value])


def _refuse_nodes(op: Op, graph: Graph, found: Diagnostics) -> None:
    for value in graph.values:
        if isinstance(value.node, Cast) and value.type.element.dtype.is_packed:
            message = f"`{op.name}`: a cast to {value.type.element} has no kernel yet"
            found.error("OPG703", message, value.span, help="clamp to its range and cast to `i8` or `u8`")


def _refuse_declarations(op: Op, found: Diagnostics) -> None:
    for gradient in op.gradients:
        found.error("OPG704", f"`{op.name}`: `grad {gradient.param}` has no kernel yet", gradient.span)
    for item in op.written:
        if item.element.dtype.is_packed:
            what = "result" if item in op.results else "tensor that is updated"
            message = f"`{op.name}`: a packed {what} ({item.element}) has no kernel yet"
            found.error("OPG703", message, item.span, help="store `i8` or `u8`")
