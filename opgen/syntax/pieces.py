"""Parse tree to syntax nodes: names, integers, strings and dims."""

from __future__ import annotations

import keyword
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

from opgen.diagnostics import Diagnostics
from opgen.source import Source, Span
from opgen.syntax import ast
from opgen.syntax.strings import read_string

if TYPE_CHECKING:
    from lark import Token
    from lark import Tree as LarkTree

    Tree: TypeAlias = LarkTree[Token]

CONSTANTS: Final = ("true", "false", "inf", "nan", "pi")
# Assigning to this one is a syntax error in Python although it is no keyword.
_RESERVED: Final = frozenset(keyword.kwlist) | {"__debug__"}
_SPELLED: Final = {"True": "true", "False": "false"}


@dataclass(frozen=True)
class Context:
    """The text that is being built from, and where the mistakes go."""

    source: Source
    found: Diagnostics = field(repr=False)

    def span(self, part: Tree | Token) -> Span:
        """The characters of a token, or of a tree that holds at least one."""
        place = part if isinstance(part, str) else part.meta
        assert place.start_pos is not None
        assert place.end_pos is not None
        return Span(self.source, place.start_pos, place.end_pos)


def subtrees(tree: Tree) -> list[Tree]:
    return [child for child in tree.children if not isinstance(child, str)]


def tokens(tree: Tree) -> list[Token]:
    return [child for child in tree.children if isinstance(child, str)]


# --- names, strings, integers ---------------------------------------------------------------------


def name(tree: Tree, context: Context) -> ast.Name:
    """A name, in the normal form that Python itself would give it."""
    written = str(tokens(tree)[0])
    text = written if written.isascii() else unicodedata.normalize("NFKC", written)
    span = context.span(tree)
    reserved = reserved_word(text)
    if reserved is not None:
        message, advice = reserved
        context.found.error("OPG005", message, span, help=advice)
    elif not written.isidentifier():
        context.found.error("OPG005", f"`{written}` is not an identifier of Python", span)
    return ast.Name(text, span)


def reserved_word(text: str) -> tuple[str, str] | None:
    """Why a word cannot be a name and what to write instead, or None where it can."""
    if text in _SPELLED:
        return f"`{text}` is a word of Python", f"the constant is written `{_SPELLED[text]}`"
    advice = f"write `{text}_`, for instance"
    if text in _RESERVED:
        return f"`{text}` is a word of Python and cannot be a name", advice
    return (f"`{text}` is a constant and cannot be a name", advice) if text in CONSTANTS else None


def names(trees: Sequence[Tree], context: Context) -> tuple[ast.Name, ...]:
    return tuple(name(tree, context) for tree in trees)


def text(tree: Tree, context: Context) -> ast.Text:
    literal = str(tokens(tree)[0])
    span = context.span(tree)
    try:
        value = read_string(literal)
    except ValueError as error:
        context.found.error("OPG011", f"{error}", span, help="a backslash is written `\\\\`")
        value = ""
    return ast.Text(value, literal.startswith('"""'), span)


def number(tree: Tree, context: Context) -> ast.Number:
    """A literal that Python reads too; anything else is reported and stands for 0."""
    literal = str(tokens(tree)[-1])
    span = context.span(tree)
    after = context.source.text[span.end : span.end + 1]
    if after == "_" or after.isalnum():
        context.found.error("OPG007", *_runs_on(literal, span))
    elif not _is_python_number(literal):
        shown = literal if len(literal) <= 40 else f"{literal[:40]}…"
        advice = "leading zeros and stray `_` are not allowed, as in Python"
        context.found.error("OPG007", f"`{shown}` is not a number", span, help=advice)
    else:
        return ast.Number(literal, span)
    return ast.Number("0", span)


def _runs_on(literal: str, span: Span) -> tuple[str, Span]:
    return f"the number `{literal}` runs into a name", Span(span.source, span.start, span.end + 1)


def _is_python_number(literal: str) -> bool:
    try:
        is_hex = literal[:2] in ("0x", "0X")
        float(literal) if not is_hex and set(".eE") & set(literal) else int(literal, 0)
    except ValueError:
        return False
    return True


def integer(tree: Tree, context: Context, least: int, what: str) -> int:
    """The value of an `integer` tree; one below `least` is reported and stands for `least`."""
    literal = number(tree, context).text
    span = context.span(tree)
    try:
        value = int(literal, 0)
    except ValueError:
        context.found.error("OPG008", f"{what} is an integer, not `{literal}`", span)
        return least
    if len(tree.children) > 1:
        value = -value
    if value < least:
        allowed = "a positive integer" if least == 1 else f"an integer of at least {least}"
        context.found.error("OPG008", f"{what} is {allowed}, not `{value}`", span)
        return least
    return value


# --- dims -----------------------------------------------------------------------------------------


def dim(tree: Tree, context: Context) -> ast.DimRef:
    span = context.span(tree)
    parts = {part.data: part for part in subtrees(tree)}
    if tree.data == "ellipsis_dim":
        return ast.EllipsisDim(span)
    if tree.data == "fixed_dim":
        return ast.FixedDim(integer(parts["integer"], context, 1, "a dim"), span)
    named = name(parts["name"], context).text
    if tree.data == "plain_dim":
        return ast.NamedDim(named, 1, 1, span)
    factor = integer(parts["integer"], context, 1, "the factor of a dim")
    if tree.data == "times_dim":
        return ast.NamedDim(named, factor, 1, span)
    return ast.NamedDim(named, 1, factor, span)


def dims(tree: Tree, context: Context) -> tuple[ast.DimRef, ...]:
    return tuple(dim(part, context) for part in subtrees(tree))
