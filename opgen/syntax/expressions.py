"""Parse tree to expressions: the grammar gives operands and operators in a row, precedence is
applied here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from opgen.source import Span
from opgen.syntax import ast
from opgen.syntax.operators import COMPARISON, INFIX, PREFIX, is_right_associative
from opgen.syntax.pieces import Context, dim, dims, name, number, subtrees, tokens

if TYPE_CHECKING:
    from lark import Token

    from opgen.syntax.pieces import Tree

# Everything behind the parser walks expressions recursively, with a few Python frames a level;
# CPython's default limit is 1000 frames.
MAX_DEPTH: Final = 100


class _TooDeepError(Exception):
    """An expression is nested deeper than `MAX_DEPTH`."""


def expression(tree: Tree, context: Context) -> ast.Expr:
    """The expression of an `expr` tree (or of the operand that it consists of)."""
    try:
        return _expression(tree, context, 1).expr
    except _TooDeepError:
        span = context.span(tree)
        message = f"the expression is nested more than {MAX_DEPTH} levels deep"
        context.found.error("OPG009", message, span, help="give a part of it a name")
        return ast.Number("0", span)


@dataclass(frozen=True)
class _Value:
    """An expression, its height as a tree, and its extent with the parentheses around it."""

    expr: ast.Expr
    height: int
    extent: Span
    is_comparison: bool = False  # one without parentheses


def _expression(tree: Tree, context: Context, level: int) -> _Value:
    if level > MAX_DEPTH:
        raise _TooDeepError
    if tree.data == "expr":
        value = _Row(context).read(tree, level)
    else:
        expr, height = _OPERANDS[tree.data](tree, context, level)
        value = _Value(expr, height, context.span(tree))
    if value.height > MAX_DEPTH:
        raise _TooDeepError
    meta = tree.meta
    start = getattr(meta, "container_start_pos", meta.start_pos)
    end = getattr(meta, "container_end_pos", meta.end_pos)
    return _Value(value.expr, value.height, Span(context.source, start, end))


# --- operators ------------------------------------------------------------------------------------


@dataclass
class _Row:
    """Operands and operators in a row, combined by precedence (Dijkstra's two stacks)."""

    context: Context
    values: list[_Value] = field(default_factory=list)
    waiting: list[tuple[Token, bool]] = field(default_factory=list)  # operator, is it a prefix

    def read(self, tree: Tree, level: int) -> _Value:
        expects_operand = True
        for child in tree.children:
            if not isinstance(child, str):
                self.values.append(_expression(child, self.context, level + 1))
                expects_operand = False
            elif expects_operand:
                self._check_not(child)
                self.waiting.append((child, True))
            else:
                self._combine_tighter_than(child)
                self.waiting.append((child, False))
                expects_operand = True
        while self.waiting:
            self._combine()
        return self.values[0]

    def _check_not(self, operator: Token) -> None:
        """`not` binds looser than most operators, so that it cannot follow them."""
        before = str(self.waiting[-1][0]) if self.waiting else "not"
        if operator == "not" and before not in ("not", "and", "or"):
            self.context.found.error(
                "OPG001",
                f"`not` cannot follow `{before}`, which binds tighter",
                self.context.span(operator),
                help="put `not …` in parentheses",
            )

    def _combine_tighter_than(self, operator: Token) -> None:
        level = INFIX[operator]
        while self.waiting:
            top, is_prefix = self.waiting[-1]
            other = PREFIX[top] if is_prefix else INFIX[top]
            if other < level or (other == level and is_right_associative(operator)):
                return
            self._combine()

    def _combine(self) -> None:
        operator, is_prefix = self.waiting.pop()
        op, op_span, right = str(operator), self.context.span(operator), self.values.pop()
        if is_prefix:
            extent = op_span.to(right.extent)
            self.values.append(_Value(ast.Unary(op, right.expr, extent), right.height + 1, extent))
            return
        left = self.values.pop()
        extent = left.extent.to(right.extent)
        expr = ast.Binary(op, left.expr, right.expr, op_span, extent)
        height = max(left.height, right.height) + 1
        is_comparison = INFIX[op] == COMPARISON
        if is_comparison and left.is_comparison:
            self._report_chain(expr, left, right)
            is_comparison = False  # a longer chain is the same mistake
        self.values.append(_Value(expr, height, extent, is_comparison))

    def _report_chain(self, expr: ast.Binary, left: _Value, right: _Value) -> None:
        assert isinstance(left.expr, ast.Binary)
        text = self.context.source.text
        first = text[left.extent.start : left.extent.end]
        middle = text[left.expr.op_span.end : left.extent.end]
        last = text[right.extent.start : right.extent.end]
        written = " ".join(f"{first} and {middle} {expr.op} {last}".split())
        advice = "join two comparisons with `and`" if "#" in written else f"write `{written}`"
        message = "comparisons do not chain"
        self.context.found.error("OPG006", message, expr.span, help=advice)


# --- operands -------------------------------------------------------------------------------------

_Built = tuple[ast.Expr, int]


def _number(tree: Tree, context: Context, _: int) -> _Built:
    return number(tree, context), 1


def _constant(tree: Tree, context: Context, _: int) -> _Built:
    return ast.Constant(str(tokens(tree)[0]), context.span(tree)), 1


def _value(tree: Tree, context: Context, _: int) -> _Built:
    return ast.Reference(name(subtrees(tree)[0], context).text, context.span(tree)), 1


def _call(tree: Tree, context: Context, level: int) -> _Built:
    callee, args = subtrees(tree)
    over = None
    named = callee
    if callee.data == "position":
        named, bracket = subtrees(callee)
        over = _some_dims(bracket, callee, context)
    values = [_expression(arg, context, level + 1) for arg in subtrees(args)]
    height = 1 + max((value.height for value in values), default=0)
    arguments = tuple(value.expr for value in values)
    return ast.Call(name(named, context), over, arguments, context.span(tree)), height


def _position(tree: Tree, context: Context, _: int) -> _Built:
    callee, bracket = subtrees(tree)
    over = _some_dims(bracket, tree, context)
    return ast.Position(name(callee, context), over, context.span(tree)), 1


def _some_dims(bracket: Tree, whole: Tree, context: Context) -> tuple[ast.DimRef, ...]:
    if not bracket.children:
        context.found.error("OPG001", "the brackets name no dim", context.span(whole))
    return dims(bracket, context)


def _gather(tree: Tree, context: Context, level: int) -> _Built:
    base, *entries = subtrees(tree)
    coordinates = []
    height = 0
    for entry in entries:
        along, index = subtrees(entry)
        value = _expression(index, context, level + 1)
        height = max(height, value.height)
        coordinates.append(ast.Coordinate(dim(along, context), value.expr, context.span(entry)))
    return ast.Gather(name(base, context), tuple(coordinates), context.span(tree)), height + 1


_OPERANDS: Final[dict[str, Callable[[Tree, Context, int], _Built]]] = {
    "number": _number,
    "constant": _constant,
    "value": _value,
    "call": _call,
    "call_over": _call,
    "position": _position,
    "gather": _gather,
}
