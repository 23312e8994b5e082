"""Lowering of expressions: each syntax node to an operand, with functions expanded where they are called."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from opgen.dtypes import DTYPES, I32, Kind
from opgen.ir import numbers
from opgen.ir.context import Computed, Context, Folded, Frame, Operand
from opgen.ir.functions import arity_message, parts, report_unknown_function
from opgen.ir.nodes import Cast, Dim, Element, Literal, Number, Ref
from opgen.ir.numbers import FoldError
from opgen.ir.reads import gather, position, random, reference
from opgen.ir.reductions import contract, reduce
from opgen.ir.scope import ScopedFn
from opgen.ir.types import apply, convert, value_type
from opgen.primitives import (
    BINARY_OPERATORS,
    FUNCTIONS,
    PRELUDE_FUNCTIONS,
    PRIMITIVES,
    REDUCTIONS,
    UNARY_OPERATORS,
)
from opgen.source import Span
from opgen.syntax import ast

#: Calls expanded per body; only functions that call functions many times over reach it.
_MOST_EXPANSIONS = 10000


def lower(context: Context, expr: ast.Expr) -> Operand:
    """The operand of an expression; None after a mistake (reported)."""
    if isinstance(expr, ast.Number):
        return _number(context, expr)
    if isinstance(expr, ast.Constant):
        return Folded(numbers.constant(expr.text), expr.span)
    if isinstance(expr, ast.Reference):
        return reference(context, expr.name, expr.span)
    if isinstance(expr, ast.Unary):
        return _unary(context, expr)
    if isinstance(expr, ast.Binary):
        return _binary(context, expr)
    if isinstance(expr, ast.Gather):
        return gather(context, expr, [lower(context, coordinate.index) for coordinate in expr.coordinates])
    if isinstance(expr, ast.Position):
        return position(context, expr)
    return _call(context, expr)


def _number(context: Context, expr: ast.Number) -> Operand:
    try:
        return Folded(numbers.parse_number(expr.text), expr.span)
    except FoldError as error:
        context.error("OPG411", error.message, expr.span, error.help)
        return None


def _unary(context: Context, expr: ast.Unary) -> Operand:
    operand = lower(context, expr.operand)
    if expr.op != "+":
        return apply(context, UNARY_OPERATORS[expr.op], [operand], expr.span, expr.op)
    if operand is None or context.kind(operand) is not Kind.BOOL:
        return operand
    if isinstance(operand, Folded):
        return Folded(numbers.exact(operand.exact.value, Kind.INTEGER), expr.span)
    ref = convert(context, operand, I32)
    return None if ref is None else Computed(ref, expr.span)


def _binary(context: Context, expr: ast.Binary) -> Operand:
    left, right = lower(context, expr.left), lower(context, expr.right)
    if expr.op == "@":
        return contract(context, left, right, expr.span)
    return apply(context, BINARY_OPERATORS[expr.op], [left, right], expr.span, expr.op)


# --- calls --------------------------------------------------------------------------------------


def _call(context: Context, call: ast.Call) -> Operand:
    name = call.callee.text
    if name == "cast":
        return _cast_call(context, call)
    args = [lower(context, arg) for arg in call.args]
    if name == "rand":
        return _rand_call(context, call, args)
    if name in REDUCTIONS and (call.dims is not None or name not in FUNCTIONS):
        return _reduction_call(context, call, args)
    caller = context.frames[-1].fn if context.frames else None
    if name in FUNCTIONS or (caller is not None and caller.is_prelude and name in PRELUDE_FUNCTIONS):
        return _function_call(context, call, args)
    if name == "index":
        context.error("OPG407", "`index` takes a dim in brackets: `index[M]`", call.span)
        return None
    fn = context.functions.find(name, caller)
    if fn is not None:
        return _expand(context, fn, call, args)
    if not context.functions.incomplete:
        report_unknown_function(call.callee, context.functions, caller, context.diagnostics)
    return None


def _function_call(context: Context, call: ast.Call, args: Sequence[Operand]) -> Operand:
    name = call.callee.text
    if call.dims is not None:
        context.error("OPG420", f"`{name}` takes no dims", call.span, f"write `{name}(…)`")
        return None
    least, most = PRIMITIVES[name].arity
    if not least <= len(args) <= most:
        advice = (
            f"a reduction names its dims: `{name}[C](…)`" if name in REDUCTIONS and len(args) == 1 else None
        )
        _report_arity(context, call, str(least) if least == most else f"{least} or more", advice)
        return None
    return apply(context, name, args, call.span, name)


def _report_arity(context: Context, call: ast.Call, wanted: str, help: str | None = None) -> None:
    context.error("OPG421", arity_message(call.callee.text, wanted, len(call.args)), call.span, help)


def _resolved_dims(context: Context, refs: Sequence[ast.DimRef]) -> list[tuple[Dim, Span]] | None:
    dims = [(context.dim(ref), ref.span) for ref in refs]
    known = [(dim, span) for dim, span in dims if dim is not None]
    return known if len(known) == len(dims) else None


def _reduction_call(context: Context, call: ast.Call, args: Sequence[Operand]) -> Operand:
    name = call.callee.text
    if not call.dims:
        context.error(
            "OPG422", f"`{name}` names the dims that it reduces", call.span, f"write `{name}[C](…)`"
        )
        return None
    if len(args) != 1:
        _report_arity(context, call, "1")
        return None
    dims = _resolved_dims(context, call.dims)
    return None if dims is None else reduce(context, name, dims, args[0], call.span)


def _rand_call(context: Context, call: ast.Call, args: Sequence[Operand]) -> Operand:
    if not call.dims:
        message = "`rand` names the dims that it carries"
        context.error("OPG422", message, call.span, "write `rand[M, N](seed)`")
        return None
    if len(args) != 1:
        _report_arity(context, call, "1")
        return None
    dims = _resolved_dims(context, call.dims)
    return None if dims is None else random(context, dims, args[0], call.span)


# --- casts --------------------------------------------------------------------------------------


def _cast_call(context: Context, call: ast.Call) -> Operand:
    if call.dims is not None:
        context.error("OPG420", "`cast` takes no dims", call.span, "write `cast(e, f16)`")
        return None
    operand = lower(context, call.args[0]) if call.args else None
    if len(call.args) != 2:
        _report_arity(context, call, "2", "write `cast(e, f16)`")
        return None
    target = call.args[1]
    if not isinstance(target, ast.Reference):
        context.error(
            "OPG423", "the second argument of `cast` is a type", target.span, "write `cast(e, f16)`"
        )
        return None
    element = context.element(ast.Name(target.name, target.span))
    return None if element is None else cast(context, operand, element, call.span)


def cast(context: Context, operand: Operand, element: Element, span: Span) -> Operand:
    """A rounding point: the operand as a value of storage type `element`."""
    if operand is None:
        return None
    argument = (
        _cast_literal(context, operand, element)
        if isinstance(operand, Folded)
        else _cast_value(context, operand)
    )
    if argument is None:
        return None
    dims = context.dims(operand)
    return Computed(context.graph.add(Cast(argument), element, dims, context.place(span)), span)


def _cast_value(context: Context, operand: Computed) -> Ref | None:
    return convert(context, operand, context.compute_type(operand))


def _cast_literal(context: Context, operand: Folded, element: Element) -> Ref | None:
    """A literal on its way to a type: exact, or already cast where computing it first would round it twice."""
    target = element.dtype
    dtype = numbers.compute_float(target) if target.is_float else value_type(context, operand)
    if dtype is None or not numbers.fits(operand.exact.value, dtype):
        return None if dtype is None else convert(context, operand, dtype)  # reports it
    value = operand.exact.value
    computed = numbers.cast(value, dtype) if dtype.is_float else value
    cast_once = numbers.cast(value, target) if dtype.is_float else value
    if dtype.is_float and _differs(numbers.cast(computed, target), cast_once):
        value = cast_once
        dtype = dtype if target.is_float else DTYPES[target.compute]
    return context.graph.add(Literal(Number(value)), dtype, (), context.place(operand.span))


def _differs(a: object, b: object) -> bool:
    return repr(a) != repr(b)


# --- functions ----------------------------------------------------------------------------------


def _expand(context: Context, fn: ScopedFn, call: ast.Call, args: Sequence[Operand]) -> Operand:
    """The body of a function with its arguments in place of its parameters."""
    name = call.callee.text
    dims = _resolved_dims(context, call.dims or ())
    if len(args) != len(fn.node.params):
        _report_arity(context, call, str(len(fn.node.params)))
        return None
    if len(call.dims or ()) != len(fn.node.dims):
        listed = ", ".join(dim.text for dim in fn.node.dims)
        form = f"write `{name}[{listed}](…)`" if fn.node.dims else f"write `{name}(…)`"
        wanted = (
            f"{len(fn.node.dims)} dim{'s' if len(fn.node.dims) != 1 else ''}" if fn.node.dims else "no dims"
        )
        context.error("OPG420", f"`{name}` takes {wanted} in brackets", call.span, form)
        return None
    if dims is None or fn.broken or any(arg is None for arg in args):
        return None
    key = (id(fn.node), tuple(args), tuple(dim for dim, _ in dims))
    if key not in context.expansions:
        context.expansions[key] = _expanded(context, fn, call, args, [dim for dim, _ in dims])
    operand = context.expansions[key]
    return None if operand is None else replace(operand, span=call.span)


def _expanded(
    context: Context, fn: ScopedFn, call: ast.Call, args: Sequence[Operand], dims: Sequence[Dim]
) -> Operand:
    if len(context.expansions) >= _MOST_EXPANSIONS:
        context.error(
            "OPG424", f"the functions called here expand to more than {_MOST_EXPANSIONS} calls", call.span
        )
        return None
    arguments = dict(zip((name.text for name in fn.node.params), args, strict=True))
    named = dict(zip((name.text for name in fn.node.dims), dims, strict=True))
    frame = Frame(fn, arguments, named, call.span)
    return lower(replace(context, frames=(*context.frames, frame)), fn.node.body)


def constant(context: Context, expr: ast.Expr, what: str) -> Folded | None:
    """The literal that an expression without names folds to; None after a mistake (reported), `what` naming it."""
    named = next(
        (part for part in parts(expr) if isinstance(part, (ast.Reference, ast.Gather, ast.Position))), None
    )
    operand = None if named is not None else lower(context, expr)
    if named is not None or isinstance(operand, Computed):
        context.error("OPG412", f"{what} must be a constant", expr.span if named is None else named.span)
        return None
    return operand
