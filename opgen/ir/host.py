"""Lowering of `require` conditions: expressions over the sizes of dims and the values of consts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from opgen.diagnostics import Diagnostics, did_you_mean
from opgen.dtypes import Kind
from opgen.ir import numbers
from opgen.ir.functions import arity_message, report_unknown_function
from opgen.ir.nodes import Dim, HostApply, HostExpr, HostName, HostNumber, Requirement
from opgen.ir.numbers import FoldError
from opgen.ir.scope import BUILT_INS, Functions, ScopedFn
from opgen.ir.signature import Signature
from opgen.source import Span
from opgen.syntax import ast
from opgen.syntax.pretty import format_expr

_COMPARISONS = ("==", "!=", "<", "<=", ">", ">=")
_LOGIC = ("and", "or", "not")
_BITS = ("&", "|", "^", "<<", ">>", "~")
_CALLS = {"min": (2, None), "max": (2, None), "abs": (1, 1)}


@dataclass(frozen=True)
class _Host:
    """A host expression and the kind of its value."""

    expr: HostExpr
    kind: Kind


@dataclass(frozen=True)
class _Scope:
    signature: Signature
    functions: Functions
    diagnostics: Diagnostics
    used: set[str]
    names: Mapping[str, _Host | None] | None = None
    dims: Mapping[str, Dim] | None = None
    caller: ScopedFn | None = None
    call: Span | None = None

    def error(self, code: str, message: str, span: Span, help: str | None = None) -> None:
        self.diagnostics.error(code, message, self.call or span, help=help)


def requirement(
    signature: Signature,
    functions: Functions,
    diagnostics: Diagnostics,
    used: set[str],
    statement: ast.Require,
) -> Requirement | None:
    """A `require` statement; None after a mistake (reported). The names that it reads are added to `used`."""
    scope = _Scope(signature, functions, diagnostics, used)
    condition = _lower(scope, statement.condition)
    if condition is None:
        return None
    if condition.kind is not Kind.BOOL:
        message = "a requirement is a condition, and this is a number"
        diagnostics.error("OPG610", message, statement.condition.span, help="compare it: `!= 0`")
        return None
    why = None if statement.why is None else statement.why.value
    return Requirement(condition.expr, format_expr(statement.condition), why, statement.span)


def _lower(scope: _Scope, expr: ast.Expr) -> _Host | None:
    if isinstance(expr, (ast.Number, ast.Constant)):
        return _number(scope, expr)
    if isinstance(expr, ast.Reference):
        return _name(scope, expr)
    if isinstance(expr, ast.Unary):
        return _operator(scope, expr.op, (expr.operand,), expr.span)
    if isinstance(expr, ast.Binary):
        return _operator(scope, expr.op, (expr.left, expr.right), expr.span)
    if isinstance(expr, ast.Call):
        return _call(scope, expr)
    scope.error("OPG611", "a requirement reads the sizes of dims and `const` parameters only", expr.span)
    return None


def _number(scope: _Scope, expr: ast.Number | ast.Constant) -> _Host | None:
    try:
        exact = (
            numbers.parse_number(expr.text) if isinstance(expr, ast.Number) else numbers.constant(expr.text)
        )
    except FoldError as error:
        scope.error("OPG411", error.message, expr.span, error.help)
        return None
    return _Host(HostNumber(exact.number, exact.kind is Kind.BOOL), exact.kind)


def _name(scope: _Scope, expr: ast.Reference) -> _Host | None:
    signature, name = scope.signature, expr.name
    if scope.names is not None:
        if scope.dims is not None and name in scope.dims:
            return _Host(HostName(str(scope.dims[name]), scope.dims[name]), Kind.INTEGER)
        return scope.names.get(name)
    scope.used.add(name)
    scalar = signature.scalar(name)
    if name in signature.broken:
        return None
    if scalar is not None and scalar.const:
        return _Host(HostName(name, None), scalar.dtype.kind)
    if name in signature.known_dims:
        return _Host(HostName(name, Dim(name)), Kind.INTEGER)
    if name in signature.dims:
        scope.error("OPG502", f"the dim `{name}` must occur in a tensor that cannot be left out", expr.span)
    elif name in signature.names():
        advice = f"declare it `const {name}: …`" if scalar is not None else None
        message = f"a requirement is checked before the kernel runs and cannot read `{name}`"
        scope.error(
            "OPG611", message, expr.span, advice or "it reads the sizes of dims and `const` parameters only"
        )
    else:
        consts = (
            param.name
            for param in signature.params
            if (found := signature.scalar(param.name)) and found.const
        )
        advice = did_you_mean(name, (*signature.dims, *consts))
        scope.error("OPG401", f"unknown name `{name}` in a requirement", expr.span, advice)
    return None


def _operator(scope: _Scope, op: str, operands: tuple[ast.Expr, ...], span: Span) -> _Host | None:
    args = [_lower(scope, operand) for operand in operands]
    known = [arg for arg in args if arg is not None]
    if len(known) < len(args) or not _check_operands(scope, op, known, operands, span):
        return None
    return _Host(HostApply(op, tuple(arg.expr for arg in known)), _kind(op, known))


def _check_operands(
    scope: _Scope, op: str, args: list[_Host], operands: tuple[ast.Expr, ...], span: Span
) -> bool:
    kinds = [arg.kind for arg in args]
    if op == "@":
        scope.error("OPG611", "`@` has no place in a requirement", span)
        return False
    for kind, operand in zip(kinds, operands, strict=True):
        if op in _LOGIC and kind is not Kind.BOOL:
            scope.error(
                "OPG403", f"`{op}` takes bools, and this is a number", operand.span, "compare it: `!= 0`"
            )
            return False
        if op in _BITS and kind is Kind.FLOAT:
            scope.error("OPG404", f"`{op}` takes integers, and this is a float", operand.span)
            return False
    if op in ("/", "//", "%") and isinstance(args[1].expr, HostNumber) and args[1].expr.number.value == 0:
        scope.error("OPG410", "division by zero", span)
        return False
    return True


def _kind(op: str, args: list[_Host]) -> Kind:
    kinds = {arg.kind for arg in args}
    if op in _COMPARISONS or op in _LOGIC:
        return Kind.BOOL
    if op in ("/", "**") or Kind.FLOAT in kinds:
        return Kind.FLOAT
    return Kind.BOOL if kinds == {Kind.BOOL} and op in ("&", "|", "^") else Kind.INTEGER


def _call(scope: _Scope, call: ast.Call) -> _Host | None:
    name = call.callee.text
    args = [_lower(scope, arg) for arg in call.args]
    if name in _CALLS and call.dims is None:
        least, most = _CALLS[name]
        if len(args) < least or (most is not None and len(args) > most):
            wanted = str(least) if most else f"{least} or more"
            scope.error("OPG421", arity_message(name, wanted, len(args)), call.span)
            return None
        known = [arg for arg in args if arg is not None]
        if len(known) < len(args):
            return None
        kind = Kind.FLOAT if Kind.FLOAT in {arg.kind for arg in known} else Kind.INTEGER
        return _Host(HostApply(name, tuple(arg.expr for arg in known)), kind)
    if name in BUILT_INS:
        scope.error("OPG611", f"`{name}` has no place in a requirement", call.span)
        return None
    return _expand(scope, call, args)


def _expand(scope: _Scope, call: ast.Call, args: list[_Host | None]) -> _Host | None:
    """A call of an `fn`: its body over the arguments."""
    fn = scope.functions.find(call.callee.text, scope.caller)
    if fn is None:
        if not scope.functions.incomplete:
            report_unknown_function(call.callee, scope.functions, scope.caller, scope.diagnostics)
        return None
    if fn.broken:
        return None
    if len(args) != len(fn.node.params) or len(call.dims or ()) != len(fn.node.dims):
        message = f"`{call.callee.text}` takes {len(fn.node.params)} arguments and {len(fn.node.dims)} dims"
        scope.error("OPG421", message, call.span)
        return None
    names = dict(zip((name.text for name in fn.node.params), args, strict=True))
    dims: dict[str, Dim] = {}
    for name, ref in zip(fn.node.dims, call.dims or (), strict=True):
        if not isinstance(ref, ast.NamedDim) or ref.name not in scope.signature.known_dims:
            scope.error("OPG503", "this is no dim of the op", ref.span)
            return None
        dims[name.text] = Dim(ref.name, ref.times, ref.over)
    inner = replace(scope, names=names, dims=dims, caller=fn, call=scope.call or call.span)
    return _lower(inner, fn.node.body)
