"""Dims, types, expressions and statements as layouts. Only the parentheses that are needed are written."""

from __future__ import annotations

from collections.abc import Iterable
from math import inf
from typing import Final, TypeAlias, TypeGuard

from opgen.source import Span
from opgen.syntax import ast
from opgen.syntax.layout import Group, Layout, Line, Nest, enclosed, joined, render
from opgen.syntax.operators import ATOM, COMPARISON, INFIX, PREFIX, is_right_associative
from opgen.syntax.strings import read_string, write_string
from opgen.syntax.tokens import Kind, scan

# --- literals -------------------------------------------------------------------------------------


def string(text: ast.Text) -> str:
    """The literal as its source has it, or a new one where the node comes from no source."""
    span = text.span
    written = span.source.text[span.start : span.end].replace("\r\n", "\n").replace("\r", "\n")
    quotes = '"""' if text.triple else '"'
    is_literal = len(written) >= 2 * len(quotes) and written.startswith('"""') == text.triple
    if is_literal and written.endswith(quotes) and read_string(written) == text.value:
        return written
    return write_string(text.value, text.triple)


def integers(values: Iterable[int], span: Span) -> list[str]:
    """The integers at the end of a span, spelled as there."""
    expected = list(values)
    tokens = scan(span.source.text[span.start : span.end])
    spelled = [token.text for token in tokens if token.kind is Kind.NUMBER][-len(expected) :]
    if [_value(text) for text in spelled] == expected:
        return spelled
    return [str(value) for value in expected]


def _value(literal: str) -> int | None:
    try:
        return int(literal, 0)
    except ValueError:
        return None


# --- dims and types -------------------------------------------------------------------------------


def dim(ref: ast.DimRef) -> str:
    if isinstance(ref, ast.EllipsisDim):
        return "..."
    if isinstance(ref, ast.FixedDim):
        return integers([ref.size], ref.span)[0]
    if ref.times != 1:
        return f"{ref.name} * {integers([ref.times], ref.span)[0]}"
    if ref.over != 1:
        return f"{ref.name} / {integers([ref.over], ref.span)[0]}"
    return ref.name


def brackets(dims: Iterable[ast.DimRef]) -> str:
    return f"[{', '.join(dim(ref) for ref in dims)}]"


def type_text(declared: ast.TensorType | ast.ScalarType) -> str:
    if isinstance(declared, ast.ScalarType):
        return declared.element.text
    return declared.element.text + brackets(declared.dims)


def param(declared: ast.Param) -> Layout:
    kind = f"{declared.kind} " if declared.kind else ""
    head = f"{kind}{declared.name.text}: {type_text(declared.type)}"
    return head if declared.default is None else (head, " = ", expression(declared.default))


def results(declared: tuple[ast.Result, ...]) -> Layout:
    """` -> …`, or nothing."""
    if not declared:
        return ""
    parts = [f"{result.name.text}: {type_text(result.type)}" for result in declared]
    return (" -> ", parts[0] if len(parts) == 1 else enclosed("(", parts, ")", ","))


def variables(declared: tuple[ast.TypeVariable, ...]) -> Layout:
    """`for T in {…}, U in {…}`."""
    parts = [
        (f"{variable.name.text} in ", enclosed("{", [name.text for name in variable.types], "}"))
        for variable in declared
    ]
    return ("for ", Group(Nest(4, joined(parts, (",", Line())))))


# --- expressions ----------------------------------------------------------------------------------


# A pair of parentheses that is longer than this has no line that it could stand on.
_LONG: Final = 90


def expression(expr: ast.Expr) -> Layout:
    """An expression; lines that start with its operators are indented by two columns.

    Lines are broken at all operators of one level, the loosest first. Where long parentheses are
    nested, as in Horner's scheme, that would take a line for each operator: there lines are filled.
    """
    body = _at_level(expr, 0, is_filled=_has_long_parentheses(expr))
    return Nest(2, body) if isinstance(expr, ast.Binary) else body


def level(expr: ast.Expr) -> int:
    """How tightly the outermost operator of an expression binds."""
    if isinstance(expr, ast.Binary):
        return INFIX[expr.op]
    return PREFIX[expr.op] if isinstance(expr, ast.Unary) else ATOM


def _has_long_parentheses(expr: ast.Expr) -> bool:
    if not isinstance(expr, ast.Binary):
        return False
    loose = [part for part in (expr.left, expr.right) if level(part) < INFIX[expr.op]]
    return any(len(render(_at_level(part, 0), inf)) > _LONG for part in loose) or any(
        _has_long_parentheses(part) for part in (expr.left, expr.right)
    )


def _at_level(expr: ast.Expr, least: int, is_filled: bool = False) -> Layout:
    """An expression where only operators of at least a level can stand without parentheses."""
    if level(expr) < least:
        body = _at_level(expr, 0, is_filled)
        return ("(", body, ")") if is_filled else enclosed("(", [body], ")")
    if isinstance(expr, ast.Binary):
        row = _row(expr, is_filled)
        return row if is_filled else Group(row)
    if isinstance(expr, ast.Unary):
        mark = "not " if expr.op == "not" else expr.op
        return (mark, _at_level(expr.operand, PREFIX[expr.op], is_filled))
    return _atom(expr)


def _row(expr: ast.Binary, is_filled: bool) -> Layout:
    """Operators of one level in a row; a line that is broken starts with one."""
    own = INFIX[expr.op]
    if is_right_associative(expr.op):
        is_signed = isinstance(expr.right, ast.Unary) and expr.right.op != "not"
        right = _at_level(expr.right, PREFIX["-"] if is_signed else own, is_filled)
        line: Layout = Group(Line()) if is_filled else Line()
        return (_at_level(expr.left, own + 1, is_filled), line, expr.op, " ", right)
    tail: list[Layout] = []
    first: ast.Expr = expr
    while isinstance(first, ast.Binary) and INFIX[first.op] == own:
        # Parentheses stay behind their operator in filled lines: they can break inside.
        keeps = is_filled and level(first.right) <= own
        line = " " if keeps else Group(Line()) if is_filled else Line()
        tail.append((line, first.op, " ", _at_level(first.right, own + 1, is_filled)))
        first = first.left
        if own == COMPARISON:  # comparisons do not chain
            break
    return (_at_level(first, own + 1, is_filled), *reversed(tail))


def _atom(expr: ast.Expr) -> Layout:
    if isinstance(expr, ast.Number | ast.Constant):
        return expr.text
    if isinstance(expr, ast.Reference):
        return expr.name
    if isinstance(expr, ast.Position):
        return expr.callee.text + brackets(expr.dims)
    if isinstance(expr, ast.Gather):
        parts = [(dim(part.dim), ": ", _argument(part.index)) for part in expr.coordinates]
        return enclosed(f"{expr.base.text}[", parts, "]")
    assert isinstance(expr, ast.Call)
    over = "" if expr.dims is None else brackets(expr.dims)
    arguments = [_argument(argument) for argument in expr.args]
    return enclosed(f"{expr.callee.text}{over}(", arguments, ")")


def _argument(expr: ast.Expr) -> Layout:
    return _at_level(expr, 0, is_filled=_has_long_parentheses(expr))


# --- statements -----------------------------------------------------------------------------------

Block: TypeAlias = "ast.Sizes | ast.Tile | ast.Test"


def statement(
    written: ast.Assign | ast.Require | ast.ReferenceText | ast.GradNone | ast.Grad,
) -> Layout:
    """A statement without braces."""
    if isinstance(written, ast.Assign):
        of_type = "" if written.type is None else f": {written.type.text}"
        return (f"{written.name.text}{of_type} = ", expression(written.value))
    if isinstance(written, ast.Require):
        why = () if written.why is None else (Line(), string(written.why))
        return Group(("require ", expression(written.condition), Nest(2, why)))
    if isinstance(written, ast.ReferenceText):
        return f"reference {string(written.text)}"
    if isinstance(written, ast.GradNone):
        return "grad none"
    return (f"grad {written.name.text}: ", expression(written.value))


def one_line(block: Block) -> Layout:
    """A statement with braces."""
    separator, parts = entries(block)
    inside = joined([part for part, _ in parts], f"{separator} ")
    return (block_head(block), " { ", inside, " }") if parts else f"{block_head(block)} {{}}"


def block_head(block: Block) -> str:
    if isinstance(block, ast.Tile):
        targets = ", ".join(target.text for target in block.targets)
        return f"tile for {targets}" if targets else "tile"
    return "sizes" if isinstance(block, ast.Sizes) else "test"


def entries(block: Block) -> tuple[str, list[tuple[Layout, Span]]]:
    """The mark between the entries of a block, and each entry with its place."""
    if isinstance(block, ast.Sizes):
        return ",", [(_case(case), case.span) for case in block.cases]
    if isinstance(block, ast.Tile):
        return ",", [(_hint(hint), hint.span) for hint in block.hints]
    return ";", [(_entry(entry), entry.span) for entry in block.entries]


def _case(case: ast.SizeCase) -> Layout:
    parts = [f"{dim(size.dim)} = {integers([size.value], size.span)[0]}" for size in case.sizes]
    return Group(Nest(2, (f"{case.label.text}: ", joined(parts, (",", Line())))))


def _hint(hint: ast.Hint) -> Layout:
    values = hint.values
    if isinstance(values, ast.PowersOfTwo):
        low, high = integers([values.low, values.high], values.span)
        return f"{dim(hint.key)} = {low} .. {high}"
    spelled = iter(integers([value for value in values.values if _is_integer(value)], values.span))
    words = [next(spelled) if _is_integer(value) else word(value) for value in values.values]
    return Group(Nest(2, (f"{dim(hint.key)} = ", joined(words, (Line(), "| ")))))


def _is_integer(value: int | bool | str) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def word(value: int | bool | str) -> str:
    """A value of a hint, integers in decimal."""
    return value if isinstance(value, str) else str(value).lower()


def _entry(entry: ast.DrawRange | ast.Tolerance | ast.SizeRange) -> Layout:
    if isinstance(entry, ast.Tolerance):
        return (f"tolerance {entry.type.text} = ", expression(entry.value))
    if isinstance(entry, ast.DrawRange):
        low, high = expression(entry.low), expression(entry.high)
        return (f"{entry.name.text} in ", low, " .. ", high)
    first, last = integers([entry.low, entry.high], entry.span)
    return f"sizes {dim(entry.dim)} in {first} .. {last}"
