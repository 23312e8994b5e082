"""Operations and bytes of an op, counted from its typed graph at given sizes: fused, and one kernel for each node.

In:  y = x * sigmoid(x) over 1,000 bf16 elements.
Out: fused, one kernel that moves 4,000 bytes; in eager PyTorch, a `sigmoid` that moves 4,000 and a `mul` that moves
     6,000: intermediate results have the types that PyTorch gives them, bf16 here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from opgen.advise.counts import (
    Kernel,
    Product,
    biases,
    instructions_of,
    is_tensor,
    product_of,
    reduced_shape,
)
from opgen.advise.eager import eager_kernels
from opgen.advise.setting import Setting
from opgen.diagnostics import SpecError
from opgen.dtypes import DTYPES
from opgen.ir.nodes import Apply, Contract, Dim, Element, Gather, Graph, Random, Read, Reduce
from opgen.ir.passes.partition import partition
from opgen.ir.passes.parts import Part

_VECTOR_BYTES = 16
_UNIT = 4
_ADDRESSING_COST = 9
"""Where a kernel's bound is no multiple of `_UNIT` elements (8 make 16 bytes of a half type), Triton cannot tell that a
vector of elements lies within it: each is loaded and stored by itself. A kernel that walks one dim then writes the
`_VECTOR_BYTES` of each vector once for each of its elements; one that walks rows and columns takes `_ADDRESSING_COST`
instructions to address each element."""

Arrays = dict[str, tuple[Element, tuple[Dim, ...]]]


@dataclass(frozen=True)
class Work:
    """The same work as opgen's kernels (`fused`), as eager PyTorch's kernels, and as the library's products with one
    generated kernel behind them (`library`; empty where there is no product)."""

    fused: tuple[Kernel, ...]
    eager: tuple[Kernel, ...]
    library: tuple[Kernel, ...]

    @property
    def products(self) -> tuple[Product, ...]:
        return tuple(product for kernel in self.fused for product in kernel.products)


def work(setting: Setting) -> Work:
    """The work of an op at some sizes."""
    fused = _fused(setting)
    return Work(fused, eager_kernels(setting), _library(setting, fused))


# --- fused --------------------------------------------------------------------------------------


def _fused(setting: Setting) -> tuple[Kernel, ...]:
    """opgen's kernels: each part of the graph reads each of its tensors once, and writes each of its results once."""
    arrays = {one.name: (one.element, one.dims) for one in setting.op.arrays}
    try:
        cut = partition(setting.op)[setting.variant]
    except SpecError:  # no kernel is made of it yet, but its work can be counted
        return (_graph_kernel(setting, "fused", setting.graph, arrays),)
    arrays |= {one.name: (one.element, one.dims) for one in cut.temporaries}
    return tuple(_part_kernel(setting, part, arrays) for part in cut.parts)


def _part_kernel(setting: Setting, part: Part, arrays: Arrays) -> Kernel:
    name = f"{part.kind} over [{', '.join(map(str, part.space))}]"
    kernel = _graph_kernel(setting, name, part.graph, arrays)
    if part.kind != "elementwise" or not part.space:
        return kernel
    moved = [arrays[store.target][1] for store in part.graph.stores]
    moved += [
        value.type.dims for value in part.graph.values if isinstance(value.node, Read) and value.type.dims
    ]
    count = setting.count(part.space)
    if all(dims == part.space for dims in moved):
        if count % _UNIT == 0:
            return kernel
        return replace(kernel, scattered=count * _VECTOR_BYTES * len(part.graph.stores))
    if setting.size(part.space[-1]) % _UNIT == 0:
        return kernel
    return replace(kernel, addressing=count * _ADDRESSING_COST * len(moved))


def _graph_kernel(setting: Setting, what: str, graph: Graph, arrays: Arrays) -> Kernel:
    moved = _read_bits(setting, graph, arrays)
    for store in graph.stores:
        element, dims = arrays[store.target]
        moved += setting.count(dims) * setting.bits(element)
    shapes = [
        reduced_shape(setting, graph, value.node) for value in graph.values if isinstance(value.node, Reduce)
    ]
    rows, columns = max(shapes, default=(0, 0))
    return Kernel(
        what=what,
        bytes=-(-moved // 8),
        instructions=sum(instructions_of(setting, graph, ref) for ref in range(len(graph.values))),
        products=tuple(
            product_of(setting, graph, value.node)
            for value in graph.values
            if isinstance(value.node, Contract)
        ),
        rows=rows,
        columns=columns,
        joins=len(shapes),
    )


def _read_bits(setting: Setting, graph: Graph, arrays: Arrays) -> int:
    """What is read: each tensor once; of one that is only gathered from, the elements gathered, at most all."""
    whole = {value.node.param for value in graph.values if isinstance(value.node, Read)}
    gathered: dict[str, int] = {}
    for value in graph.values:
        if isinstance(value.node, Gather) and value.node.param not in whole:
            name = value.node.param
            gathered[name] = gathered.get(name, 0) + setting.count(value.type.dims)
    bits = sum(setting.count(arrays[name][1]) * setting.bits(arrays[name][0]) for name in whole)
    return bits + sum(
        min(count, setting.count(arrays[name][1])) * setting.bits(arrays[name][0])
        for name, count in gathered.items()
    )


# --- the library's products, then one kernel ----------------------------------------------------


def _library(setting: Setting, fused: tuple[Kernel, ...]) -> tuple[Kernel, ...]:
    """Each product as the library's kernel, which stores its result, and a generated kernel for the rest."""
    if not any(kernel.products for kernel in fused):
        return ()
    kernels: list[Kernel] = []
    for kernel in fused:
        if not kernel.products:
            kernels.append(kernel)
            continue
        found = [_library_product(product) for product in kernel.products]
        kernels += found
        if _has_epilogue(setting):
            stored = sum(_stored_bytes(product) for product in kernel.products)
            operands = sum(one.bytes for one in found) - stored - _shared_bytes(kernel.products)
            rest = max(kernel.bytes - operands, 0) + stored
            kernels.append(
                replace(kernel, what="epilogue", bytes=rest, products=(), addressing=0, scattered=0)
            )
    return tuple(kernels)


def _library_product(product: Product) -> Kernel:
    bits = DTYPES[product.dtype.removesuffix(" ieee")].bits
    elements = product.batch * (product.m + product.n) * product.k
    return Kernel("library product", elements * bits // 8 + _stored_bytes(product), 0, (product,))


def _stored_bytes(product: Product) -> int:
    return product.batch * product.m * product.n * DTYPES[product.dtype.removesuffix(" ieee")].bits // 8


def _shared_bytes(products: tuple[Product, ...]) -> int:
    """Bytes of the left operand that the library reads for each product, and one kernel of all of them once."""
    first = products[0]
    bits = DTYPES[first.dtype.removesuffix(" ieee")].bits
    alike = sum((one.batch, one.m, one.k) == (first.batch, first.m, first.k) for one in products[1:])
    return alike * first.batch * first.m * first.k * bits // 8


def _has_epilogue(setting: Setting) -> bool:
    """Whether anything but a bias is done beside the products."""
    graph = setting.graph
    free = biases(graph)
    return any(
        isinstance(value.node, Apply | Reduce | Gather | Random) and ref not in free and is_tensor(graph, ref)
        for ref, value in enumerate(graph.values)
    )
