"""The names of a product kernel, and which of a graph's values each of its functions computes."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from opgen.emit.kernel_names import Kernel, LaunchNames, Used, find_used, name_access
from opgen.emit.names import KERNEL_NAMES, PRODUCT_NAMES, RESERVED, Names, type_name
from opgen.ir.nodes import Graph, Op, Read, Ref, Store
from opgen.ir.passes.simplify import remove_dead
from opgen.plan.model import Access, ProductPlan, ProductSides, addressed_by

#: The groups of dims, in the order of an access's strides, and the letter by which these are named.
GROUPS = {"batch": "b", "m": "m", "n": "n", "k": "k"}
#: Strides of each group that a kernel takes.
GROUP_DIMS = 3
SIZES = tuple("batch_size m_size n_size k_size b0 b1 m0 m1 n0 n1 k0 k1".split())
_ENDINGS = (
    "_at",
    "_layout",
    *(f"_{letter}{place}" for letter in GROUPS.values() for place in ("", *range(GROUP_DIMS))),
)


@dataclass(frozen=True)
class Piece:
    """One function's share of a product kernel's graph: a prologue, or the formula behind the sums."""

    graph: Graph
    kernel: Kernel
    accesses: tuple[Access, ...]


def named_kernel(op: Op, plan: ProductPlan, variant: int, launch: LaunchNames) -> tuple[Kernel, Used]:
    """The names of everything that a kernel takes."""
    part = plan.parts[variant]
    taken = RESERVED | KERNEL_NAMES | PRODUCT_NAMES
    kernel = Kernel(
        op, replace(plan, accesses=()), part, Names(taken | {type_name(one.name) for one in op.variables})
    )
    used = find_used(kernel, part.graph.values, part.graph.stores, launch.old)
    kernel.plan = plan
    for access in plan.accesses:
        name_access(kernel, access, _ENDINGS)
    return kernel, used


def piece(kernel: Kernel, ref: Ref | None, sums: dict[Ref, str]) -> Piece:
    """What computes an operand, or (`ref` None) what the kernel stores from its sums, which have names."""
    graph = kernel.part.graph
    values = tuple(
        replace(value, node=Read(sums[place])) if place in sums else value
        for place, value in enumerate(graph.values)
    )
    stores = graph.stores if ref is None else (Store("operand", ref),)
    own = remove_dead(Graph(values, stores))
    tensors = kernel.tensors
    found = [access for value in own.values for access in addressed_by(value, tensors)]
    if ref is None:
        dims = {item.name: item.dims for item in kernel.op.arrays}
        found = [*(Access(store.target, dims[store.target]) for store in stores), *found]
    ordered = tuple(access for access in kernel.stems if access in found)
    return Piece(own, replace(kernel, formula={}), ordered)


def groups_of(sides: ProductSides, access: Access) -> tuple[str, ...]:
    """The groups whose dims an access has: for each of them a kernel takes its strides."""
    roles = {dim.family: group for group in GROUPS for dim in getattr(sides, group)}
    own = {roles.get(dim.family) for dim in access.dims if dim not in access.gathered}
    return tuple(group for group in GROUPS if group in own)


def kernel_words(kernel: Kernel) -> frozenset[str]:
    """What the functions of a product name themselves: places, sizes, and the strides and layouts of accesses."""
    return PRODUCT_NAMES | {stem + ending for stem in kernel.stems.values() for ending in _ENDINGS}


def stride_names(stem: str, group: str) -> tuple[str, ...]:
    return tuple(f"{stem}_{GROUPS[group]}{place}" for place in range(GROUP_DIMS))


def mentioned(names: Iterable[str], lines: Iterable[str]) -> tuple[str, ...]:
    """Those of some names that occur in lines of code, in their order."""
    words = set(re.findall(r"[^\W\d]\w*", "\n".join(lines)))
    return tuple(name for name in names if name in words)
