"""Operations and bytes of an op, counted from its typed graph at given sizes: fused, and one kernel for each node.

In:  y = x * sigmoid(x) over 1,000 bf16 elements.
Out: fused, one kernel that moves 4,000 bytes; in eager PyTorch, a `sigmoid` that moves 4,000 and a `mul` that moves
     6,000: intermediate results have the types that PyTorch gives them, bf16 here.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from opgen.advise.library import launches_of
from opgen.advise.setting import Setting
from opgen.diagnostics import SpecError
from opgen.dtypes import DTYPES, DType
from opgen.ir.nodes import (
    Apply,
    Cast,
    Const,
    Contract,
    Convert,
    Dim,
    Element,
    Gather,
    Graph,
    Index,
    Literal,
    Random,
    Read,
    Reduce,
    Ref,
    Scalar,
    Size,
)
from opgen.ir.operands import operands
from opgen.ir.passes.partition import partition
from opgen.ir.passes.parts import Part
from opgen.primitives import PRIMITIVES

_REDUCED_COST = 2  # instructions for an element that a reduction takes in
_RANDOM_COST = 60  # ten rounds of Philox


@dataclass(frozen=True)
class Product:
    """A contraction: its sizes, and the element type that it multiplies in (`f32 ieee` in full precision)."""

    batch: int
    m: int
    n: int
    k: int
    dtype: str

    @property
    def operations(self) -> int:
        return 2 * self.batch * self.m * self.n * self.k


@dataclass(frozen=True)
class Kernel:
    """One kernel: the bytes that it moves, its f32 instructions, its products, and whether it reduces.

    `what` names it for a reader.
    """

    what: str
    bytes: int
    instructions: int
    products: tuple[Product, ...] = ()
    reduces: bool = False

    @property
    def operations(self) -> int:
        return self.instructions + sum(product.operations for product in self.products)


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


def total_bytes(kernels: Iterable[Kernel]) -> int:
    return sum(kernel.bytes for kernel in kernels)


def total_operations(kernels: Iterable[Kernel]) -> int:
    return sum(kernel.operations for kernel in kernels)


def work(setting: Setting) -> Work:
    """The work of an op at some sizes."""
    fused = _fused(setting)
    eager = _eager_of_reference(setting) or tuple(_eager(setting))
    return Work(fused, eager, _library(setting, fused))


# --- fused --------------------------------------------------------------------------------------


def _fused(setting: Setting) -> tuple[Kernel, ...]:
    """opgen's kernels: each part of the graph reads each of its tensors once, and writes each of its results once."""
    arrays = {one.name: (one.element, one.dims) for one in setting.op.arrays}
    try:
        cut = partition(setting.op)[setting.variant]
    except SpecError:  # no kernel is made of it yet, but its work can be counted
        return (_part_kernel(setting, "fused", setting.graph, arrays),)
    arrays |= {one.name: (one.element, one.dims) for one in cut.temporaries}
    return tuple(_part_kernel(setting, _part_name(part), part.graph, arrays) for part in cut.parts)


def _part_name(part: Part) -> str:
    return f"{part.kind} over [{', '.join(map(str, part.space))}]"


def _part_kernel(
    setting: Setting, what: str, graph: Graph, arrays: dict[str, tuple[Element, tuple[Dim, ...]]]
) -> Kernel:
    moved = _read_bits(setting, graph, arrays)
    for store in graph.stores:
        element, dims = arrays[store.target]
        moved += setting.count(dims) * setting.bits(element)
    return Kernel(
        what=what,
        bytes=-(-moved // 8),
        instructions=sum(_instructions(setting, graph, ref) for ref in range(len(graph.values))),
        products=tuple(_products(setting, graph)),
        reduces=any(isinstance(value.node, Reduce) for value in graph.values),
    )


def _read_bits(setting: Setting, graph: Graph, arrays: dict[str, tuple[Element, tuple[Dim, ...]]]) -> int:
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


def _instructions(setting: Setting, graph: Graph, ref: Ref) -> int:
    value = graph.values[ref]
    match value.node:
        case Apply(primitive=name):
            return PRIMITIVES[name].cost * setting.count(value.type.dims)
        case Reduce(arg=arg):
            return _REDUCED_COST * setting.count(graph.values[arg].type.dims)
        case Random():
            return _RANDOM_COST * setting.count(value.type.dims)
        case _:
            return 0


def _products(setting: Setting, graph: Graph) -> Iterable[Product]:
    for value in graph.values:
        if isinstance(value.node, Contract):
            yield _product(setting, graph, value.node)


def _product(setting: Setting, graph: Graph, node: Contract) -> Product:
    left, right = graph.values[node.left].type, graph.values[node.right].type
    batch = setting.count(node.batch)
    m = setting.count([dim for dim in left.dims if dim != node.dim and dim not in node.batch])
    n = setting.count([dim for dim in right.dims if dim != node.dim and dim not in node.batch])
    wide = max((setting.dtype_of(left.element), setting.dtype_of(right.element)), key=lambda one: one.bits)
    allows_tf32 = any(hint.key == "precision" and "tf32" in hint.values for hint in setting.op.hints)
    in_full = wide.name == "f32" and not allows_tf32
    return Product(batch, m, n, setting.size(node.dim), "f32 ieee" if in_full else wide.name)


# --- eager PyTorch ------------------------------------------------------------------------------


def _eager_of_reference(setting: Setting) -> tuple[Kernel, ...] | None:
    """The kernels of the spec's reference, where it has functions alone that PyTorch runs as one kernel each."""
    op = setting.op
    elements = {param.name: 0 for param in op.params}
    elements |= {tensor.name: setting.count(tensor.dims) for tensor in op.tensors}
    launches = launches_of(op.reference, op.statements, elements)
    widths = {setting.bits(one.element) for one in op.tensors}
    if not launches or len(widths) != 1:  # which width a kernel's operands have, only the graph says
        return None
    (bits,) = widths
    results = tuple(setting.dtype_of(one.element) for one in op.results)
    instructions = sum(_instructions(setting, setting.graph, ref) for ref in range(len(setting.graph.values)))
    share = instructions // len(launches)
    kernels = [
        Kernel(one.name, (one.read + one.written) * bits // 8, share, (), one.reduces) for one in launches
    ]
    kernels += [
        Kernel("cast", setting.count(one.dims) * (bits + dtype.bits) // 8, 0)
        for one, dtype in zip(op.results, results, strict=True)
        if dtype.is_float and dtype.bits < bits
    ]
    return tuple(kernels)


def _eager(setting: Setting) -> Iterable[Kernel]:
    """One kernel for each node that computes; a product takes the library's, a bias added to it comes for free."""
    graph = setting.graph
    types = eager_types(setting)
    biased = _biases(graph)
    free = biased | _gates(graph)
    for ref, value in enumerate(graph.values):
        if ref in free or not _is_kernel(graph, ref):
            continue
        if isinstance(value.node, Gather):
            read = setting.count(value.type.dims) * types[ref].bits
        else:
            read = sum(
                setting.count(graph.values[one].type.dims) * types[one].bits
                for one in dict.fromkeys(operands(value.node))
                if one not in free or one in biased
            )
        written = setting.count(value.type.dims) * types[ref].bits
        products = (_product(setting, graph, value.node),) if isinstance(value.node, Contract) else ()
        yield Kernel(
            what=_word(value.node),
            bytes=(read + written) // 8,
            instructions=_instructions(setting, graph, ref),
            products=products,
            reduces=isinstance(value.node, Reduce),
        )


def _is_kernel(graph: Graph, ref: Ref) -> bool:
    """Whether eager PyTorch launches something: not for reading, for numbers, nor for widening what it computes in."""
    value = graph.values[ref]
    match value.node:
        case Apply() | Cast():
            return _is_tensor(graph, ref)
        case Gather() | Contract() | Reduce() | Random() | Index():
            return True
        case _:
            return False


def _is_tensor(graph: Graph, ref: Ref) -> bool:
    """Whether a value has elements: one made of numbers alone is computed on the host."""
    value = graph.values[ref]
    return not isinstance(value.node, Literal | Scalar | Const | Size) and (
        bool(value.type.dims)
        or any(_is_tensor(graph, one) for one in operands(value.node))
        or isinstance(value.node, Read)
    )


def _biases(graph: Graph) -> set[Ref]:
    """Additions of a row to a product, which the library does in the product's kernel."""
    found = set()
    for ref, value in enumerate(graph.values):
        if not (isinstance(value.node, Apply) and value.node.primitive == "add"):
            continue
        sides = [graph.values[arg] for arg in value.node.args]
        for product, bias in (sides, sides[::-1]):
            if isinstance(product.node, Contract) and bias.type.dims == product.type.dims[-1:]:
                found.add(ref)
    return found


def _gates(graph: Graph) -> set[Ref]:
    """The sigmoids of `x * sigmoid(x)`, which PyTorch has as one kernel."""
    users = [one for value in graph.values for one in operands(value.node)] + [
        one.value for one in graph.stores
    ]
    found = set()
    for value in graph.values:
        if not (isinstance(value.node, Apply) and value.node.primitive == "mul"):
            continue
        for gate, plain in (value.node.args, value.node.args[::-1]):
            node = graph.values[gate].node
            if (
                isinstance(node, Apply)
                and node.primitive == "sigmoid"
                and node.args == (plain,)
                and users.count(gate) == 1
            ):
                found.add(gate)
    return found


def eager_types(setting: Setting) -> list[DType]:
    """The element type that PyTorch computes each value in: tensors promote each other, numbers promote nothing."""
    graph = setting.graph
    types: list[DType] = []
    for ref, value in enumerate(graph.values):
        own = setting.dtype_of(value.type.element)
        match value.node:
            case Read() | Gather() | Cast():
                types.append(own)
            case Convert(arg=arg):
                types.append(types[arg])
            case Apply() | Reduce() | Contract():
                taken = [types[one] for one in operands(value.node) if _is_tensor(graph, one)]
                types.append(_promoted(own, taken))
            case _:
                types.append(own)
        assert ref == len(types) - 1
    return types


def _promoted(own: DType, operands_: list[DType]) -> DType:
    """Of the operands the widest float where the value is one; else the value's own type."""
    floats = [one for one in operands_ if one.is_float]
    if not own.is_float or not floats:
        return own
    widest = max(floats, key=lambda one: one.bits)
    mixed = {"f16", "bf16"} <= {one.name for one in floats}
    return DTYPES["f32"] if mixed and widest.bits == 16 else widest


def _word(node: object) -> str:
    match node:
        case Apply(primitive=name):
            return name
        case Reduce(kind=kind):
            return kind
        case _:
            return type(node).__name__.lower()


# --- the library's products, then one kernel ----------------------------------------------------


def _library(setting: Setting, fused: tuple[Kernel, ...]) -> tuple[Kernel, ...]:
    """Each product as the library's kernel, which stores its result, and a generated kernel for the rest."""
    if not any(kernel.products for kernel in fused):
        return ()
    kernels: list[Kernel] = []
    for kernel in fused:
        stored = 0
        for product in kernel.products:
            bits = DTYPES[product.dtype.removesuffix(" ieee")].bits
            elements = product.batch * (product.m + product.n) * product.k
            result = product.batch * product.m * product.n * bits // 8
            stored += result
            kernels.append(Kernel("library product", elements * bits // 8 + result, 0, (product,)))
        if kernel.products and not _has_epilogue(setting):
            continue
        inputs = sum(one.bytes for one in kernels[-len(kernel.products) :]) - stored if kernel.products else 0
        rest = max(kernel.bytes - inputs, 0) + stored
        kernels.append(
            Kernel(
                "epilogue" if kernel.products else kernel.what, rest, kernel.instructions, (), kernel.reduces
            )
        )
    return tuple(kernels)


def _has_epilogue(setting: Setting) -> bool:
    """Whether anything but a bias is done beside the products."""
    graph = setting.graph
    free = _biases(graph)
    return any(
        isinstance(value.node, Apply | Reduce | Gather | Random)
        and ref not in free
        and _is_tensor(graph, ref)
        for ref, value in enumerate(graph.values)
    )
