"""What a product kernel multiplies: its operands, the types that they are multiplied in, and which side is which."""

from __future__ import annotations

from dataclasses import replace

from opgen.dtypes import BF16, F16, F32, I8, DType
from opgen.ir.nodes import Cast, Contract, Convert, Element, Gather, Graph, Op, Read, Ref
from opgen.ir.passes.parts import Part
from opgen.plan.model import Operand, Product, ProductSides

#: Types that each type holds exactly.
_EXACT = {
    "f16": frozenset({"f16", "f8e4m3", "f8e5m2", "i8", "u8", "i4", "u4"}),
    "bf16": frozenset({"bf16", "f8e4m3", "f8e5m2", "i8", "u8", "i4", "u4"}),
    "i8": frozenset({"i8", "i4", "u4"}),
}
#: Types that every half holds exactly, so that they take the type of the other operand.
_NARROW = _EXACT["f16"] & _EXACT["bf16"]
_HALVES = frozenset({"f16", "bf16", "f32"})


def sides_of(part: Part) -> ProductSides:
    """The dims of a part by side. The rows are the left operand's, unless the right one alone has any."""
    contract = next(value.node for value in part.graph.values if isinstance(value.node, Contract))
    left = part.graph.values[contract.left].type.dims
    batch = tuple(dim for dim in part.space if dim in contract.batch)
    rows = tuple(dim for dim in part.space if dim in left and dim not in batch)
    columns = tuple(dim for dim in part.space if dim not in left)
    if not columns:
        rows, columns = columns, rows
    return ProductSides(batch, rows, columns, part.reduced)


def products_of(op: Op, part: Part) -> tuple[Product, ...]:
    """The contractions of a part, in the order of its values."""
    graph = part.graph
    sides = sides_of(part)
    found: list[Product] = []
    for ref, value in enumerate(graph.values):
        if not isinstance(value.node, Contract):
            continue
        left, right = value.node.left, value.node.right
        if not _has_rows(graph, left, right, sides):
            left, right = right, left
        elements = _elements(op, graph, left, right, value.type.dtype)
        own_left, own_right = (
            _operand(op, graph, one, element) for one, element in zip((left, right), elements, strict=True)
        )
        found.append(Product(ref, own_left, own_right, value.type.dtype))
    return _of_one_type(tuple(found))


def _has_rows(graph: Graph, left: Ref, right: Ref, sides: ProductSides) -> bool:
    """Whether the left operand is the one with the rows of the tiles."""
    own, other = (set(graph.values[ref].type.dims) for ref in (left, right))
    return bool(own & set(sides.m)) or (not other & set(sides.m) and bool(other & set(sides.n)))


def _of_one_type(products: tuple[Product, ...]) -> tuple[Product, ...]:
    """The products in one type: where they differ, each in the type that it is computed in."""
    elements = {str(product.left.element) for product in products}
    if len(elements) == 1:
        return products

    def computed(operand: Operand, product: Product) -> Operand:
        return replace(operand, element=Element(product.sums))

    return tuple(
        replace(one, left=computed(one.left, one), right=computed(one.right, one)) for one in products
    )


def _operand(op: Op, graph: Graph, ref: Ref, element: Element) -> Operand:
    """An operand; conversions of stored values are left to the multiplication, and defaults to what computes it."""
    node = graph.values[ref].node
    if isinstance(node, Convert) and (element.dtype.bits <= 16 or graph.values[node.arg].type.dtype.is_float):
        ref = node.arg
        node = graph.values[ref].node
    tensor = node.param if isinstance(node, Read) else None
    return Operand(ref, element, None if tensor is None or _is_optional(op, tensor) else tensor)


def _elements(op: Op, graph: Graph, left: Ref, right: Ref, sums: DType) -> tuple[Element, Element]:
    """The types that the operands are multiplied in: those stored, the narrowest that is exact, or the computed one."""
    stored = [_stored(op, graph, ref) for ref in (left, right)]
    computed = Element(sums)
    one, other = stored
    if one is None or other is None or sums.name in ("f64", "i64"):
        return computed, computed
    names = {one.dtype.name, other.dtype.name}
    variables = {element.variable for element in stored if element is not None and _is_half(element)}
    if one == other and _is_half(one):
        return one, one
    if len(variables) == 1 and any(
        not _is_half(element) and element.dtype.name in _NARROW for element in (one, other)
    ):
        half = one if _is_half(one) else other
        return half, half
    if names == {"f8e4m3"} and sums is F32 and _is_read(graph, left) and _is_read(graph, right):
        return one, other
    if variables:
        return computed, computed
    for target in (I8,) if sums.is_integer else (F16, BF16):
        if names <= _EXACT[target.name]:
            return Element(target), Element(target)
    return computed, computed


def _is_half(element: Element) -> bool:
    """Whether an element is a type variable that stands for f16, bf16 or f32, as one kernel serves them."""
    return element.variable is not None and element.dtype.name in _HALVES


def _stored(op: Op, graph: Graph, ref: Ref) -> Element | None:
    """The storage type that an operand has before it is widened; None for one that is computed."""
    value = graph.values[ref]
    if isinstance(value.node, Convert):
        value = graph.values[value.node.arg]
    if isinstance(value.node, Read) and _is_optional(op, value.node.param) and value is not graph.values[ref]:
        return None  # its default need not be of its type
    stored = isinstance(value.node, Read | Gather | Cast) and not value.type.dtype.is_bool
    return value.type.element if stored else None


def _is_optional(op: Op, name: str) -> bool:
    """Whether a tensor may be left out."""
    return any(tensor.name == name and tensor.optional for tensor in op.tensors)


def _is_read(graph: Graph, ref: Ref) -> bool:
    return isinstance(graph.values[ref].node, Read)
