"""Lowering of reductions and contractions."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from opgen.dtypes import BF16, BOOL, DTYPES, F16, F32, I64, DType, Kind
from opgen.ir import dims as dim_rules
from opgen.ir.context import Computed, Context, Folded, Operand
from opgen.ir.nodes import (
    ELLIPSIS,
    Apply,
    Contract,
    Dim,
    Element,
    Gather,
    Index,
    Literal,
    Number,
    Read,
    Reduce,
    Ref,
)
from opgen.ir.numbers import cast
from opgen.ir.operands import operands
from opgen.ir.types import common_type, convert, float_type
from opgen.source import Span

_POSITIONS = ("argmax", "argmin")
_AVERAGES = ("mean", "var", "logsumexp")


def reduce(
    context: Context, kind: str, dims: Sequence[tuple[Dim, Span]], operand: Operand, span: Span
) -> Operand:
    """`kind[dims](operand)`; None after a mistake (reported)."""
    if operand is None or not _check_reduced(context, kind, dims, operand):
        return None
    assert isinstance(operand, Computed)  # a literal carries no dim
    value_kind = context.kind(operand)
    if kind in ("any", "all") and value_kind is not Kind.BOOL:
        message = f"`{kind}` takes bools, and this is {context.describe(operand)}"
        context.error("OPG403", message, operand.span, "compare it: `!= 0`")
        return None
    argument = convert(context, operand, _reduced_type(context, kind, operand))
    if argument is None:
        return None
    named = [dim for dim, _ in dims]
    gone = tuple(dim for dim in context.dims(operand) if dim in named)
    rest = tuple(dim for dim in context.dims(operand) if dim not in named)
    result = I64 if kind in _POSITIONS else context.graph.type(argument).dtype
    ref = context.graph.add(Reduce(kind, argument, gone), result, rest, context.place(span))
    if kind in ("min", "max") and value_kind is Kind.BOOL:
        ref = _not_zero(context, ref, rest, span)
    return Computed(ref, span)


def _not_zero(context: Context, ref: Ref, dims: tuple[Dim, ...], span: Span) -> Ref:
    zero = context.graph.add(Literal(Number(0)), context.graph.type(ref).dtype, (), context.place(span))
    return context.graph.add(Apply("ne", (ref, zero)), BOOL, dims, context.place(span))


def _reduced_type(context: Context, kind: str, operand: Computed) -> DType:
    """The compute type in which a value is reduced."""
    if kind in ("any", "all"):
        return BOOL
    if kind in _AVERAGES:
        return float_type(context, [operand])
    if kind in ("sum", "prod") and context.kind(operand) is not Kind.FLOAT:
        return I64
    dtype = common_type(context, [operand])
    assert dtype is not None  # only literals have none
    return dtype


def _check_reduced(
    context: Context, kind: str, dims: Sequence[tuple[Dim, Span]], operand: Folded | Computed
) -> bool:
    """Whether the value carries each of the dims, and each is named once."""
    carried = context.dims(operand)
    fine = True
    for position, (dim, span) in enumerate(dims):
        if dim in [earlier for earlier, _ in dims[:position]]:
            context.error("OPG510", f"`{dim}` is named twice", span)
        elif dim not in carried:
            near = dim_rules.find(carried, dim)
            advice = f"it carries `{near}`: `{kind}[{near}](…)`" if near is not None else None
            message = f"the value reduced over `{dim}` does not carry it: it has {dim_rules.listed(carried)}"
            context.error("OPG511", message, span, advice)
        else:
            continue
        fine = False
    return fine


# --- contractions -------------------------------------------------------------------------------


def contract(context: Context, left: Operand, right: Operand, span: Span) -> Operand:
    """`left @ right`; None after a mistake (reported)."""
    if left is None or right is None:
        return None
    dim = _contracted(context, left, right, span)
    if dim is None:
        return None
    assert isinstance(left, Computed)  # both carry a dim
    assert isinstance(right, Computed)
    left, right = _at_finer(context, left, right), _at_finer(context, right, left)
    batch = _batch(context, left, right, dim, span)
    operands = _operands(context, left, right)
    if batch is None or operands is None:
        return None
    _warn_of_wide_product(context, left, right)
    dims = _product_dims(context.dims(left), context.dims(right), dim)
    element = DTYPES[context.graph.type(operands[0]).dtype.compute]
    node = Contract(operands[0], operands[1], dim, batch)
    return Computed(context.graph.add(node, element, dims, context.place(span)), span)


def _contracted(
    context: Context, left: Folded | Computed, right: Folded | Computed, span: Span
) -> Dim | None:
    """The last dim of the left operand, which the right one must carry."""
    if not context.dims(left):
        context.error("OPG520", "the left operand of `@` has no dim to contract", left.span)
        return None
    dim = context.dims(left)[-1]
    if dim.is_ellipsis:
        message = "`@` contracts the last dim of its left operand, which is `...` here"
        context.error("OPG521", message, left.span, "name its last dim: `T[..., K]`")
        return None
    if dim not in context.dims(right):
        there = dim_rules.find(context.dims(right), dim)
        carries = (
            f"carries only `{there}`" if there is not None else f"has {dim_rules.listed(context.dims(right))}"
        )
        message = f"`@` contracts `{dim}`, the last dim of its left operand, and the right operand {carries}"
        context.error("OPG522", message, span)
        return None
    return dim


def _at_finer(context: Context, operand: Computed, other: Computed) -> Computed:
    """A tensor over `H / 4` as it is read at the positions of the `H` that the other operand carries."""
    node, dims = context.graph.values[operand.ref].node, context.dims(operand)
    finer = {dim: there for dim in dims if (there := _finer(context, dim, other)) is not None}
    tensor = context.signature.tensor(node.param) if isinstance(node, Read) else None
    if not finer or tensor is None or tensor.optional:
        return operand
    coordinates = tuple((dim, _covering(context, dim, there, operand.span)) for dim, there in finer.items())
    element, place = context.graph.type(operand.ref).element, context.place(operand.span)
    gathered = Gather(tensor.name, coordinates)
    return Computed(
        context.graph.add(gathered, element, tuple(finer.get(dim, dim) for dim in dims), place), operand.span
    )


def _finer(context: Context, dim: Dim, other: Computed) -> Dim | None:
    """The dim of another operand of which a dim covers several elements with each of its own."""
    there = dim_rules.find(context.dims(other), dim)
    return there if there is not None and there != dim and dim.over % there.over == 0 else None


def _covering(context: Context, dim: Dim, finer: Dim, span: Span) -> Ref:
    """Which element of a dim covers each one of a finer dim: `index[H] // 4`."""
    place = context.place(span)
    index = context.graph.add(Index(finer), I64, (finer,), place)
    count = context.graph.add(Literal(Number(Fraction(dim.over, finer.over))), I64, (), place)
    return context.graph.add(Apply("floordiv", (index, count)), I64, (finer,), place)


def _batch(context: Context, left: Computed, right: Computed, dim: Dim, span: Span) -> tuple[Dim, ...] | None:
    """The other dims that both operands carry, in the left one's order; None where two meet unequally (reported)."""
    batch: list[Dim] = []
    for candidate in context.dims(left):
        there = dim_rules.find(context.dims(right), candidate)
        if candidate == dim or there is None:
            continue
        if there != candidate:
            message = (
                f"`@` over the batch dims `{candidate}` and `{there}` is not supported: they must be equal"
            )
            advice = "read the tensor of fewer elements at the other's positions, such as `t[H / 4: index[H] // 4]`"
            context.error("OPG523", message, span, advice)
            return None
        batch.append(candidate)
    return tuple(batch)


def _product_dims(left: tuple[Dim, ...], right: tuple[Dim, ...], dim: Dim) -> tuple[Dim, ...]:
    both = [*left, *(candidate for candidate in right if candidate not in left)]
    named = [candidate for candidate in both if candidate != dim and not candidate.is_ellipsis]
    return dim_rules.with_ellipsis(ELLIPSIS in both, named)


def _operands(context: Context, left: Computed, right: Computed) -> tuple[Ref, Ref] | None:
    """The operands as multiplied: storage-typed ones of one type as they are, others in the common compute type."""
    types = [context.graph.type(operand.ref).element for operand in (left, right)]
    stored = all(_is_stored(context, operand.ref) for operand in (left, right))
    # A type that is computed in itself gains nothing from being multiplied as stored, unless nothing else can
    # meet it: converting keeps one graph for every type that a variable stands for.
    same = types[0] == types[1] if types[0].dtype.is_compute else types[0].dtype is types[1].dtype
    if stored and same and not types[0].dtype.is_bool:
        return left.ref, right.ref
    dtype = common_type(context, [left, right])
    if dtype is None:
        return None
    refs = [convert(context, operand, dtype) for operand in (left, right)]
    return None if refs[0] is None or refs[1] is None else (refs[0], refs[1])


def _is_stored(context: Context, ref: Ref) -> bool:
    """Whether a value is one of its storage type: not a left-out tensor's default that the type cannot hold."""
    node, dtype = context.graph.values[ref].node, context.graph.type(ref).dtype
    tensor = context.signature.tensor(node.param) if isinstance(node, Read) else None
    if (
        tensor is not None
        and tensor.default is not None
        and Number(cast(tensor.default.value, dtype)) != tensor.default
    ):
        return False
    return context.graph.is_storage(ref)


def _warn_of_wide_product(context: Context, left: Computed, right: Computed) -> None:
    """Warns where an expression over half inputs multiplies in f32."""
    for operand in (left, right):
        if context.graph.is_storage(operand.ref) or context.compute_type(operand) is not F32:
            continue
        half = _half_input(context, operand.ref)
        if half is not None:
            message = f"this operand of `@` is an f32 value made from {half} inputs: the product is a full f32 product"
            advice = f"round it to multiply in {half}: `cast({context.quote(operand.span)}, {half})`"
            context.warning("OPG524", message, operand.span, advice)


def _half_input(context: Context, ref: Ref) -> Element | None:
    """The f16 or bf16 element that an f32 value is computed from."""
    waiting, seen = [ref], {ref}
    while waiting:
        value = context.graph.values[waiting.pop()]
        if isinstance(value.node, Read) and value.type.dtype in (F16, BF16):
            return value.type.element
        for source in operands(value.node):
            if source not in seen:
                seen.add(source)
                waiting.append(source)
    return None
