"""Spec text to a syntax tree."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING

from lark import Lark
from lark.exceptions import UnexpectedInput, UnexpectedToken
from lark.lexer import PatternStr

from opgen.diagnostics import Diagnostics
from opgen.resources import grammar_text
from opgen.source import Source, Span
from opgen.syntax import ast
from opgen.syntax.build import items
from opgen.syntax.mistakes import explain
from opgen.syntax.pieces import Context
from opgen.syntax.place import place
from opgen.syntax.tokens import Kind, Token, scan, starts_line

if TYPE_CHECKING:
    from opgen.syntax.pieces import Tree


def parse(source: Source) -> ast.File:
    """The syntax tree of a spec file.

    Raises `SpecError` with every mistake that was found, of those that stop the parser the first
    of each item.
    """
    context = Context(source, Diagnostics())
    # A byte order mark is white space at the very start.
    text = " " + source.text[1:] if source.text.startswith("\ufeff") else source.text
    tokens = scan(source.text)
    _refuse_null(source, context)
    try:
        found = [_tree(text)]
    except UnexpectedInput:
        found = list(_trees_by_item(text, tokens, context))
    parsed = tuple(item for tree in found for item in items(tree, context))
    context.found.raise_if_errors()
    return ast.File(parsed, _comments(tokens, source), source)


@cache
def _parser() -> Lark:
    return Lark(grammar_text("opgen.lark"), parser="lalr", lexer="contextual", propagate_positions=True)


def _tree(text: str) -> Tree:
    return _parser().parse(text)


def _comments(tokens: tuple[Token, ...], source: Source) -> tuple[ast.Comment, ...]:
    return tuple(
        ast.Comment(
            token.text.rstrip(),
            starts_line(source.text, token.start),
            Span(source, token.start, token.end),
        )
        for token in tokens
        if token.kind is Kind.COMMENT
    )


def _refuse_null(source: Source, context: Context) -> None:
    """Raises where a null character stands: Python, where the texts end up, refuses such files."""
    at = source.text.find("\0")
    if at >= 0:
        context.found.error("OPG002", "the file holds a null character", Span(source, at, at + 1))
        context.found.raise_if_errors()


# --- after a syntax error -------------------------------------------------------------------------


def _trees_by_item(text: str, tokens: tuple[Token, ...], context: Context) -> Iterator[Tree]:
    """The trees of the items that parse on their own; the others are explained."""
    starts = [0, *_item_starts(text, tokens), len(text)]
    for start, end in pairwise(starts):
        part = " " * start + text[start:end]
        try:
            yield _tree(part)
        except UnexpectedInput as error:
            inside = tuple(token for token in tokens if start <= token.start < end)
            offset = _offset(error, end)
            at = place(context.source, inside, offset, end, _expected(part[:offset]))
            context.found.add(explain(at))


def _item_starts(text: str, tokens: tuple[Token, ...]) -> Iterator[int]:
    """Where lines start that look like an item, or like the string that documents one."""
    code = [token for token in tokens if token.kind is not Kind.COMMENT]
    for at, token in enumerate(code):
        if not _starts_item(code[at : at + 3]) or not starts_line(text, token.start):
            continue
        doc = code[at - 1] if at > 0 else token
        is_doc = doc.kind is Kind.STRING and starts_line(text, doc.start)
        yield doc.start if is_doc else token.start


def _starts_item(code: list[Token]) -> bool:
    words = [token.text for token in code]
    if words[0] == "use":
        return len(code) > 1 and code[1].kind in (Kind.STRING, Kind.OPEN_STRING)
    return words[0] in ("op", "fn") and len(code) > 2 and code[1].kind is Kind.WORD and words[2] in ("(", "[")


def _offset(error: UnexpectedInput, end: int) -> int:
    """Where the parser stopped; the end of the text where it missed something there."""
    is_end = isinstance(error, UnexpectedToken) and error.token.type == "$END"
    position: int | None = getattr(error, "pos_in_stream", None)
    return end if is_end or position is None else position


def _expected(text: str) -> frozenset[str]:
    """What can follow the start of a text: texts of words and marks, else names of terminals."""
    parsing = _parser().parse_interactive(text)
    parsing.exhaust_lexer()
    accepted: set[str] = parsing.accepts()  # type: ignore[no-untyped-call]
    return frozenset(_shown(terminal) for terminal in accepted)


def _shown(terminal: str) -> str:
    if terminal == "$END":
        return terminal
    pattern = _parser().get_terminal(terminal).pattern
    return pattern.value if isinstance(pattern, PatternStr) else terminal
