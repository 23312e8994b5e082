"""Plans elementwise kernels: what they address, and blocks by target and element width."""

from __future__ import annotations

from collections.abc import Mapping

from opgen.dtypes import DType
from opgen.ir.nodes import Apply, Element, Gather, Graph, Op, Random, Read
from opgen.ir.passes.parts import Part, target_dims
from opgen.plan.hints import Hints, with_hints
from opgen.plan.model import Access, ElementwiseConfig, ElementwisePlan, addressed_by
from opgen.primitives import PRIMITIVES
from opgen.targets import Target

_LEAST_BLOCK, _LARGEST_BLOCK = 256, 4096
#: The instructions of an element up to which memory alone is waited for; and a block of one 16-byte access of a thread.
_LIGHT, _LIGHT_BLOCK = 18, 1024


def plan_kernel(op: Op, parts: tuple[Part, ...], target: Target, hints: Hints) -> ElementwisePlan:
    """The plan of one elementwise kernel: its part of each variant's graph, in an op as these see it."""
    graph = parts[0].graph
    all_widths = widths(op)
    moved = tuple(moved_bytes(op, parts[0], width) for width in all_widths)
    return ElementwisePlan(
        parts=parts,
        accesses=accesses(op, parts),
        configs=tuple(
            with_hints(_config(graph, width, bytes_, target), parts[0].space, hints)
            for width, bytes_ in zip(all_widths, moved, strict=True)
        ),
        operations=operations(graph),
        bytes=moved,
    )


def accesses(op: Op, parts: tuple[Part, ...]) -> tuple[Access, ...]:
    """What the kernels of all variants address: results first, each once, in a stable order."""
    dims = target_dims(op)
    tensors = {tensor.name: tensor for tensor in op.tensors}
    found: dict[Access, None] = {}
    for part in parts:
        for store in part.graph.stores:
            found[Access(store.target, dims[store.target])] = None
    for part in parts:
        for value in part.graph.values:
            found |= dict.fromkeys(addressed_by(value, tensors))
    return tuple(found)


def widths(op: Op) -> tuple[int, ...]:
    """The bytes of the widest element that moves, for every choice of the op's type variables."""
    choices = [choice for variant in op.variants for choice in variant.choices]
    names = [variable.name for variable in op.variables]
    found = set()
    for choice in choices:
        types = dict(zip(names, choice, strict=True))
        elements = [item.element for item in op.arrays]
        found.add(max(element_bytes(one, types) for one in elements))
    return tuple(sorted(found))


def element_bytes(element: Element, types: Mapping[str, DType]) -> int:
    """The bytes of an element, at least one, where type variables stand for `types`."""
    dtype = types[element.variable] if element.variable else element.dtype
    return max(dtype.bits // 8, 1)


def moved_bytes(op: Op, part: Part, width: int) -> int:
    """Bytes that move for an element of the space where variable types are `width` wide; broadcasts are free."""
    space = set(part.space)
    read = {value.node.param for value in part.graph.values if isinstance(value.node, Read | Gather)}
    total = 0
    for item in op.arrays:
        written = item.name in {store.target for store in part.graph.stores}
        if not written and (item.name not in read or set(item.dims) != space):
            continue
        size = width if item.element.variable else min(element_bytes(item.element, {}), width)
        total += size * (2 if written and item.name in read else 1)
    return max(total, 1)


def operations(graph: Graph) -> int:
    """The f32 instructions of a graph's elementwise functions, for an element."""
    return sum(
        PRIMITIVES[value.node.primitive].cost for value in graph.values if isinstance(value.node, Apply)
    )


def _config(graph: Graph, width: int, moved: int, target: Target) -> ElementwiseConfig:
    """A program moves `target.tile_bytes`, each thread in two 16-byte accesses of each dense tensor.

    In narrow types a thread has one access of each, unless it works long on the elements of a single tensor. A tile
    of several rows loads what is the same for all of them once; gathers want small ones. The shapes are the best of
    sweeps on an H200 (`benchmarks/README.md`).
    """
    block = _LEAST_BLOCK
    while block * 2 * moved <= target.tile_bytes and block < _LARGEST_BLOCK:
        block *= 2
    gathers, draws = (
        any(isinstance(value.node, kind) for value in graph.values) for kind in (Gather, Random)
    )
    narrow = width <= 2
    accesses = 2
    if narrow and (moved > 2 * width or (operations(graph) <= _LIGHT and not draws)):
        accesses, block = 1, min(block, _LIGHT_BLOCK)
    return ElementwiseConfig(
        width=width,
        block=block,
        warps=max(1, block * width // (accesses * 16 * target.warp_size)),
        tile=(4 if gathers else 8, 256),
        tile_warps=4,
        turned=(128, 32) if narrow else (64, 64),
        turned_warps=4 if narrow else 512 // target.warp_size,
    )
