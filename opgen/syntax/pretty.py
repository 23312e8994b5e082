"""A syntax tree back to text, in the one style of `opgen fmt`: comments kept, lines of 100 columns."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from math import inf
from typing import Final

from opgen.source import Span
from opgen.syntax import ast
from opgen.syntax.layout import Layout, Nest, enclosed, render
from opgen.syntax.pretty_lines import Lines, Space
from opgen.syntax.pretty_parts import (
    Block,
    block_head,
    entries,
    expression,
    one_line,
    param,
    results,
    statement,
    string,
    variables,
)

WIDTH: Final = 100

# What separates parts of a header, up to the bracket: no strings stand there, but comments may.
_UP_TO_BRACE: Final = re.compile(r"(?:[^{#]|#[^\r\n]*[\r\n])*\{")
_UP_TO_PARENTHESIS: Final = re.compile(r"(?:[^)#]|#[^\r\n]*[\r\n])*")


def format_file(file: ast.File) -> str:
    """The text of a file. It parses to the same items, and formats to itself.

    A comment inside an expression or a header moves above the statement or the item; any other stays
    where it is: on its own line, or at the end of the line that it ends.
    """
    lines = Lines(file.source.text, list(file.comments))
    end = len(file.source.text) + 1
    for item, following in pairwise([*file.items, None]):
        assert item is not None
        lines.comments_before(_start(item), 0)
        if isinstance(item, ast.Op):
            _op(item, lines)
        else:
            _short_item(item, lines)
        lines.comment_behind(item.span.end, end if following is None else _start(following))
        lines.space = Space.AS_IN_SOURCE if _are_alike(item, following) else Space.BLANK
    lines.comments_before(end, 0)
    return lines.text()


def format_expr(expr: ast.Expr) -> str:
    """An expression on one line."""
    return render(expression(expr), inf)


# --- items ----------------------------------------------------------------------------------------


def _start(item: ast.Item) -> int:
    return item.span.start if item.doc is None else item.doc.span.start


def _are_alike(item: ast.Item, following: ast.Item | None) -> bool:
    """Whether a blank line between two items is the author's choice."""
    if following is None:
        return True
    both = {type(item), type(following)}
    return both in ({ast.Use}, {ast.Fn}) and following.doc is None


def _short_item(item: ast.Use | ast.Fn, lines: Lines) -> None:
    """An item without a body."""
    start, end = _start(item), item.span.end
    lines.comments_within(start, end, start, 0)
    if isinstance(item, ast.Use):
        text = f"use {string(item.path)}"
    else:
        over = f"[{', '.join(name.text for name in item.dims)}]" if item.dims else ""
        head = enclosed(f"fn {item.name.text}{over}(", [name.text for name in item.params], ")")
        body = expression(item.body)
        shapes: tuple[Layout, ...] = (" = ", body), Nest(2, (" =\n  ", body))
        text = min((render((head, shape), WIDTH) for shape in shapes), key=_line_count)
    lines.write(_documented(item.doc, text), start, end, 0)


def _line_count(text: str) -> int:
    return text.count("\n")


def _documented(doc: ast.Text | None, text: str) -> str:
    return text if doc is None else f"{string(doc)}\n{text}"


def _op(op: ast.Op, lines: Lines) -> None:
    start, name = _start(op), op.name.span
    params = [part.span for part in op.params]
    declared = [*(part.span for part in op.results), *(part.span for part in op.variables)]
    closed = _after(_UP_TO_PARENTHESIS, lines.source, _end(name, *params))
    opened = _after(_UP_TO_BRACE, lines.source, _end(name, *params, *declared))
    lines.comments_within(start, name.end, start, 0)
    lines.comments_within(closed, opened, start, 0)
    head = f"op {op.name.text}("
    if lines.has_comments(name.end, closed):
        lines.write(_documented(op.doc, head), start, name.end, 0)
        units = [((param(part), ","), part.span) for part in op.params]
        _inside(units, name.end, closed, lines, 2)
        lines.write(_header_end(")", op), closed, opened, 0)
    else:
        whole = enclosed(head, [param(part) for part in op.params], ")", ",")
        lines.write(_documented(op.doc, _header_end(whole, op)), start, opened, 0)
    end = op.span.end
    _inside([(_unit(part), part.span) for part in op.body], opened, end, lines, 2)
    lines.write("}", end, end, 0)


def _after(pattern: re.Pattern[str], source: str, start: int) -> int:
    found = pattern.match(source, start)
    return start if found is None else found.end()


def _end(*spans: Span) -> int:
    return max(span.end for span in spans)


def _header_end(params: Layout, op: ast.Op) -> str:
    """The header from the parameters (or their closing parenthesis) to the opening brace."""
    text = render((params, results(op.results)), WIDTH)
    if op.variables:
        text += "\n  " + render(variables(op.variables), WIDTH, 2)
    return text + "\n{"


# --- bodies ---------------------------------------------------------------------------------------


def _unit(written: ast.Statement) -> Layout | Block:
    if isinstance(written, ast.Sizes | ast.Tile | ast.Test):
        return written
    return statement(written)


def _inside(
    units: Sequence[tuple[Layout | Block, Span]],
    opened: int,
    closed: int,
    lines: Lines,
    indent: int,
) -> None:
    """What stands between two brackets, each part on lines of its own."""
    limits = [*(span.start for _, span in units), closed]
    lines.comment_behind(opened, limits[0])
    lines.space = Space.NONE
    for (unit, span), limit in zip(units, limits[1:], strict=True):
        lines.comments_before(span.start, indent)
        if isinstance(unit, ast.Sizes | ast.Tile | ast.Test):
            _block(unit, lines)
        else:
            lines.comments_within(span.start, span.end, span.start, indent)
            lines.write(render(unit, WIDTH, indent), span.start, span.end, indent)
        lines.comment_behind(span.end, limit)
    lines.comments_before(closed, indent)
    lines.space = Space.NONE


def _block(block: Block, lines: Lines) -> None:
    """A statement with braces: on one line where it fits and holds no comments; `sizes` never is."""
    start, end = block.span.start, block.span.end
    opened = _after(_UP_TO_BRACE, lines.source, start)
    lines.comments_within(start, opened, start, 2)
    separator, parts = entries(block)
    flat = render(one_line(block), inf)
    is_long = len(flat) + 2 > WIDTH or isinstance(block, ast.Sizes)
    if not (is_long and parts) and not lines.has_comments(opened, end):
        lines.write(flat, start, end, 2)
        return
    lines.write(f"{block_head(block)} {{", start, opened, 2)
    _inside([((part, separator), span) for part, span in parts], opened, end, lines, 4)
    lines.write("}", end, end, 2)
