"""Typing of the elementwise primitives: from operands to a folded literal or to an `Apply` node."""

from __future__ import annotations

from collections.abc import Sequence

from opgen.dtypes import BOOL, F32, F64, I32, I64, DType, Kind
from opgen.ir import folding, numbers
from opgen.ir.context import Computed, Context, Folded, Operand
from opgen.ir.nodes import Apply, Convert, Literal, Ref
from opgen.ir.numbers import FoldError
from opgen.primitives import PRIMITIVES, Rule
from opgen.source import Span

_NOT_ZERO = "compare it: `!= 0`"


def apply(context: Context, primitive: str, operands: Sequence[Operand], span: Span, word: str) -> Operand:
    """A primitive over operands, `word` being how the spec spells it; None after a mistake (reported)."""
    known = [operand for operand in operands if operand is not None]
    if len(known) < len(operands) or not _check_kinds(context, primitive, known, word):
        return None
    literals = [operand for operand in known if isinstance(operand, Folded)]
    if len(literals) == len(known):
        return _fold(context, primitive, literals, span)
    return _apply(context, primitive, known, span)


def _fold(context: Context, primitive: str, literals: Sequence[Folded], span: Span) -> Operand:
    try:
        return Folded(folding.fold(primitive, [literal.exact for literal in literals]), span)
    except FoldError as error:
        context.error("OPG410", error.message, span, error.help)
        return None


def _check_kinds(context: Context, primitive: str, operands: Sequence[Folded | Computed], word: str) -> bool:
    """Whether the operands are of kinds that the primitive takes; each that is not is reported."""
    rule = PRIMITIVES[primitive].rule
    fine = True
    for position, operand in enumerate(operands):
        kind = context.kind(operand)
        if rule is Rule.LOGIC and kind is not Kind.BOOL:
            message = f"`{word}` takes bools, and this is {context.describe(operand)}"
            context.error("OPG403", message, operand.span, _NOT_ZERO)
        elif rule is Rule.SELECT and position == 0 and kind is not Kind.BOOL:
            message = f"the condition of `where` must be a bool, and this is {context.describe(operand)}"
            context.error("OPG403", message, operand.span, _NOT_ZERO)
        elif rule in (Rule.BITS, Rule.SHIFT) and kind is Kind.FLOAT:
            message = f"`{word}` takes integers, and this is a float"
            context.error(
                "OPG404", message, operand.span, f"write `cast({context.quote(operand.span)}, i32)`"
            )
        else:
            continue
        fine = False
    return fine


def _apply(context: Context, primitive: str, operands: Sequence[Folded | Computed], span: Span) -> Operand:
    rule = PRIMITIVES[primitive].rule
    dims = context.combine(operands, span)
    branches = operands[1:] if rule is Rule.SELECT else operands
    dtype = _operand_type(context, rule, branches)
    if dims is None or dtype is None:
        return None
    refs = [convert(context, operand, dtype) for operand in branches]
    if rule is Rule.SELECT:
        refs.insert(0, convert(context, operands[0], BOOL))
    args = tuple(ref for ref in refs if ref is not None)
    if len(args) < len(refs):
        return None
    if rule is Rule.SAME and not dtype.is_float:  # an integer is whole already
        return Computed(args[0], span)
    result = BOOL if rule in (Rule.COMPARE, Rule.TEST, Rule.LOGIC) else dtype
    return Computed(context.graph.add(Apply(primitive, args), result, dims, context.place(span)), span)


def _operand_type(context: Context, rule: Rule, operands: Sequence[Folded | Computed]) -> DType | None:
    """The type that the operands are converted to."""
    if rule is Rule.LOGIC:
        return BOOL
    if rule in (Rule.FLOAT, Rule.TEST):
        return float_type(context, operands)
    keeps_bools = rule in (Rule.BITS, Rule.SELECT)
    if keeps_bools and all(context.kind(operand) is Kind.BOOL for operand in operands):
        return BOOL
    return common_type(context, operands)


def float_type(context: Context, operands: Sequence[Folded | Computed]) -> DType:
    """f64 once any operand is f64, else f32."""
    computed = [operand for operand in operands if isinstance(operand, Computed)]
    return F64 if any(context.compute_type(operand) is F64 for operand in computed) else F32


def common_type(context: Context, operands: Sequence[Folded | Computed]) -> DType | None:
    """The common compute type of arithmetic, a bool counting as i32; None where a literal has none (reported)."""
    if any(context.kind(operand) is Kind.FLOAT for operand in operands):
        return float_type(context, operands)
    wide = False
    for operand in operands:
        dtype = (
            integer_literal_type(context, operand)
            if isinstance(operand, Folded)
            else context.compute_type(operand)
        )
        if dtype is None:
            return None
        wide = wide or dtype is I64
    return I64 if wide else I32


def integer_literal_type(context: Context, literal: Folded) -> DType | None:
    """i32, else i64, for an integer or bool literal alone; None past i64 (reported)."""
    dtype = numbers.integer_type(literal.exact.value)
    if dtype is None:
        context.error("OPG411", "this integer does not fit i64", literal.span)
    return dtype


def literal_type(context: Context, literal: Folded) -> DType | None:
    """The type of a literal that meets no other: f32, i32 or i64, or bool."""
    if literal.kind is Kind.INTEGER:
        return integer_literal_type(context, literal)
    return F32 if literal.kind is Kind.FLOAT else BOOL


def convert(context: Context, operand: Folded | Computed, dtype: DType) -> Ref | None:
    """The operand in a compute type: a literal takes it, a storage-typed value is always converted.

    None for a literal too large for the type (reported).
    """
    if isinstance(operand, Folded):
        return _literal(context, operand, dtype)
    type_ = context.graph.type(operand.ref)
    if type_.dtype is dtype and not context.graph.is_storage(operand.ref):
        return operand.ref
    return context.graph.add(Convert(operand.ref), dtype, type_.dims, context.place(operand.span))


def _literal(context: Context, literal: Folded, dtype: DType) -> Ref | None:
    if not numbers.fits(literal.exact.value, dtype):
        context.error("OPG411", f"this literal is too large for {dtype}", literal.span)
        return None
    return context.graph.add(Literal(literal.exact.number), dtype, (), context.place(literal.span))


def value_type(context: Context, operand: Folded | Computed) -> DType | None:
    """The type in which an operand alone is computed."""
    if isinstance(operand, Folded):
        return literal_type(context, operand)
    return context.compute_type(operand)
