"""Plans product kernels: what is multiplied, what they address, and what is computed for each class of types."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from opgen.dtypes import DType
from opgen.ir.nodes import Element, Gather, Op, Random, Read, Ref
from opgen.ir.operands import reached
from opgen.ir.passes.parts import Part
from opgen.plan.elementwise import accesses, element_bytes, operations
from opgen.plan.hints import Hints
from opgen.plan.model import Operand, Product, ProductPlan
from opgen.plan.multiplied import products_of, sides_of
from opgen.plan.product_bands import class_bands
from opgen.plan.product_budget import Work
from opgen.plan.product_hints import Narrowed, narrowed, refuse_hints
from opgen.targets import Target

_CLASSES = {"f16": "half", "bf16": "half", "f32": "f32", "f64": "f64", "i8": "i8", "f8e4m3": "f8"}


def plan_product(op: Op, parts: tuple[Part, ...], target: Target, hints: Hints) -> ProductPlan:
    """The plan of one product kernel: its part of each variant's graph, in an op as these see it.

    Raises `SpecError` at a hint that no type of the target can meet.
    """
    products = tuple(products_of(op, part) for part in parts)
    sides = sides_of(parts[0])
    asked = narrowed(hints, sides)
    works = works_by_class(op, parts, products)
    classes = tuple(class_bands(work, target, asked) for work in works)
    if not any(one.bands for one in classes):
        refuse_hints(hints, target, classes)
    conservative = tuple(
        one if one.bands else class_bands(work, target, Narrowed())
        for one, work in zip(classes, works, strict=True)
    )
    return ProductPlan(parts, accesses(op, parts), sides, products, conservative, operations(parts[0].graph))


def class_of(dtype: DType) -> str:
    """The class of a multiplied type: types of one class share configs."""
    return _CLASSES.get(dtype.name, "int")


def works_by_class(
    op: Op, parts: Sequence[Part], products: Sequence[tuple[Product, ...]]
) -> tuple[Work, ...]:
    """What is computed for each class of multiplied types that the op's variables can give."""
    found: dict[str, Work] = {}
    variables = [variable.name for variable in op.variables]
    for variant, part, own in zip(op.variants, parts, products, strict=True):
        for choice in variant.choices:
            work = _work(op, part, own, dict(zip(variables, choice, strict=True)))
            known = found.get(work.name)
            found[work.name] = work if known is None else _widest(known, work)
    return tuple(found.values())


def work_of(
    op: Op, parts: Sequence[Part], products: Sequence[tuple[Product, ...]], types: tuple[DType, ...]
) -> Work | None:
    """What is computed for a choice of the op's type variables; None for one that the op does not have."""
    named = dict(zip((variable.name for variable in op.variables), types, strict=True))
    for variant, part, own in zip(op.variants, parts, products, strict=True):
        if types in variant.choices:
            return _work(op, part, own, named)
    return None


def _widest(one: Work, other: Work) -> Work:
    fields = (
        *("width", "left_bytes", "right_bytes", "sum_bytes", "out_bytes", "products"),
        *("left_copy", "right_copy", "tile_bytes", "operations"),
    )
    return replace(
        one,
        has_prologue=one.has_prologue or other.has_prologue,
        draws=one.draws or other.draws,
        is_turned=one.is_turned or other.is_turned,
        **{name: max(getattr(one, name), getattr(other, name)) for name in fields},
    )


def _work(op: Op, part: Part, products: tuple[Product, ...], types: dict[str, DType]) -> Work:
    first = products[0].left.element
    dtype = types[first.variable] if first.variable else first.dtype
    elements = {item.name: item.element for item in op.arrays}
    lefts = {product.left.ref: product.left for product in products}
    rights = {product.right.ref: product.right for product in products}
    stored = [elements[store.target] for store in part.graph.stores]
    left, right = ([_operand_bytes(part, one, types) for one in side.values()] for side in (lefts, rights))
    return Work(
        name=class_of(dtype),
        width=element_bytes(first, types),
        left_bytes=sum(loaded + copied for loaded, copied in left),
        right_bytes=sum(loaded + copied for loaded, copied in right),
        sum_bytes=max(product.sums.bits // 8 for product in products),
        out_bytes=max(element_bytes(element, types) for element in stored),
        products=len(products),
        has_prologue=any(one.tensor is None for one in (*lefts.values(), *rights.values())),
        left_copy=sum(copied for _, copied in left),
        right_copy=sum(copied for _, copied in right),
        tile_bytes=_tile_bytes(part, types),
        operations=operations(part.graph),
        draws=any(isinstance(value.node, Random) for value in part.graph.values),
        is_turned=any(_is_turned(op, part, one) for one in rights.values()),
    )


def _is_turned(op: Op, part: Part, operand: Operand) -> bool:
    """Whether an operand is a tensor whose contiguous dim is not the one that is summed over."""
    dims = {item.name: item.dims for item in op.arrays}
    return operand.tensor is not None and dims[operand.tensor][-1] not in part.reduced


def _tile_bytes(part: Part, types: dict[str, DType]) -> int:
    """The bytes of the widest element that is read for each row and column of a tile; 0 where none is."""
    sides = sides_of(part)
    rows, columns = set(sides.m), set(sides.n)
    read = [value.type for value in part.graph.values if isinstance(value.node, Read)]
    whole = [one.element for one in read if rows & set(one.dims) and columns & set(one.dims)]
    return max((element_bytes(one, types) for one in whole), default=0)


def _operand_bytes(part: Part, operand: Operand, types: dict[str, DType]) -> tuple[int, int]:
    """Bytes of an element of an operand: as it is loaded, and, where it is computed, as it is multiplied."""
    loaded = tuple(_loads(part, operand.ref))
    own = sum(element_bytes(element, types) for element in loaded)
    plain = operand.tensor is not None and _dtypes(loaded, types) == _dtypes((operand.element,), types)
    return own, 0 if plain else element_bytes(operand.element, types)


def _dtypes(elements: Iterable[Element], types: dict[str, DType]) -> tuple[DType, ...]:
    return tuple(types[one.variable] if one.variable else one.dtype for one in elements)


def _loads(part: Part, ref: Ref) -> Iterator[Element]:
    """What is loaded for each step of the sum, of all that a value is made of."""
    (summed,) = part.reduced
    for value in (part.graph.values[one] for one in sorted(reached(part.graph, [ref]))):
        if isinstance(value.node, Read | Gather) and any(dim.name == summed.name for dim in value.type.dims):
            yield value.type.element
