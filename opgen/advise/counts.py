"""The records that work is counted in, and what both ways of running an op count alike."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from opgen.advise.setting import Setting
from opgen.ir.nodes import Apply, Const, Contract, Graph, Literal, Random, Read, Reduce, Ref, Scalar, Size
from opgen.ir.operands import operands
from opgen.primitives import PRIMITIVES

_REDUCED_COST = 2  # instructions for an element that a reduction takes in
_RANDOM_COST = 60  # ten rounds of Philox

#: What a kernel of PyTorch's is named that changes an element type.
CAST = "cast"


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
    """One kernel: the bytes that it moves, its f32 instructions, its products, the rows and columns that it reduces,
    and how often (`joins`).

    `addressing` are instructions beside those of the formula: for elements that are addressed one by one. `scattered`
    are the bytes that its stores take where each element is written by itself, 0 where whole vectors are. `what` names
    it for a reader.
    """

    what: str
    bytes: int
    instructions: int
    products: tuple[Product, ...] = ()
    rows: int = 0
    columns: int = 0
    joins: int = 0
    addressing: int = 0
    scattered: int = 0

    @property
    def reduces(self) -> bool:
        return self.rows > 0

    @property
    def operations(self) -> int:
        return self.instructions + sum(product.operations for product in self.products)


def total_bytes(kernels: Iterable[Kernel]) -> int:
    return sum(kernel.bytes for kernel in kernels)


def total_operations(kernels: Iterable[Kernel]) -> int:
    return sum(kernel.operations for kernel in kernels)


def instructions_of(setting: Setting, graph: Graph, ref: Ref) -> int:
    """The f32 instructions of one value."""
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


def product_of(setting: Setting, graph: Graph, node: Contract) -> Product:
    """The sizes of a contraction."""
    left, right = graph.values[node.left].type, graph.values[node.right].type
    batch = setting.count(node.batch)
    m = setting.count([dim for dim in left.dims if dim != node.dim and dim not in node.batch])
    n = setting.count([dim for dim in right.dims if dim != node.dim and dim not in node.batch])
    wide = max((setting.dtype_of(left.element), setting.dtype_of(right.element)), key=lambda one: one.bits)
    allows_tf32 = any(hint.key == "precision" and "tf32" in hint.values for hint in setting.op.hints)
    in_full = wide.name == "f32" and not allows_tf32
    return Product(batch, m, n, setting.size(node.dim), "f32 ieee" if in_full else wide.name)


def reduced_shape(setting: Setting, graph: Graph, node: Reduce) -> tuple[int, int]:
    """The rows and the columns of a reduction."""
    columns = setting.count(node.dims)
    return setting.count(graph.values[node.arg].type.dims) // max(columns, 1), columns


def is_tensor(graph: Graph, ref: Ref) -> bool:
    """Whether a value has elements: one made of numbers alone is computed on the host."""
    value = graph.values[ref]
    return not isinstance(value.node, Literal | Scalar | Const | Size) and (
        bool(value.type.dims)
        or any(is_tensor(graph, one) for one in operands(value.node))
        or isinstance(value.node, Read)
    )


def biases(graph: Graph) -> set[Ref]:
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
