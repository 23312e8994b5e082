"""Text that breaks into lines where it must: a small form of Wadler's "A prettier printer" (2003).

A layout is a string, a tuple of layouts one after the other, or one of the nodes below.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True)
class Line:
    """`flat` where its group fits on the line, else a line end."""

    flat: str = " "


@dataclass(frozen=True)
class IfBroken:
    """Text that is there only where its group does not fit on the line."""

    text: str


@dataclass(frozen=True)
class Nest:
    """Line ends inside are indented by so many columns more."""

    columns: int
    body: Layout


@dataclass(frozen=True)
class Group:
    """All lines directly inside are flat, or all are line ends."""

    body: Layout


Layout: TypeAlias = "str | Line | IfBroken | Nest | Group | tuple[Layout, ...]"

# What is still to write, last first: the indentation, whether lines are line ends, and the layout.
_Pending: TypeAlias = "list[tuple[int, bool, Layout]]"


def joined(parts: Iterable[Layout], between: Layout) -> Layout:
    """The parts with a layout between each two."""
    separated: list[Layout] = []
    for part in parts:
        separated += [between, part] if separated else [part]
    return tuple(separated)


def enclosed(opener: str, parts: Iterable[Layout], closer: str, last: str = "") -> Layout:
    """A comma-separated list; broken, it has one part a line, and `last` behind the last one."""
    items = tuple(parts)
    if not items:
        return opener + closer
    body = (Line(""), joined(items, (",", Line())), IfBroken(last))
    return Group((opener, Nest(2, body), Line(""), closer))


def render(layout: Layout, width: float, indent: int = 0) -> str:
    """The text of a layout that starts in column `indent`, within `width` columns where it can be."""
    pending: _Pending = [(indent, True, layout)]
    written: list[str] = []
    column = indent
    while pending:
        at, breaks, part = pending.pop()
        if isinstance(part, Line) and breaks:
            written.append("\n" + " " * at)
            column = at
        elif isinstance(part, Group):
            fits = _fits([*pending, (at, False, part.body)], width - column)
            pending.append((at, breaks and not fits, part.body))
        elif isinstance(part, str | Line | IfBroken):
            text = _text(part, breaks)
            written.append(text)
            column = column + len(text) if "\n" not in text else len(text) - text.rfind("\n") - 1
        else:
            pending += _inside(at, breaks, part)
    return "".join(written)


def _fits(pending: _Pending, room: float) -> bool:
    """Whether what is pending fits into the room that is left on the line, up to its end."""
    while pending and room >= 0:
        at, breaks, part = pending.pop()
        if isinstance(part, Line) and breaks:
            return True
        if isinstance(part, str | Line | IfBroken):
            text = _text(part, breaks)
            if "\n" in text:
                return text.index("\n") <= room
            room -= len(text)
        elif isinstance(part, Group):
            # Only what is tried must be flat: a group behind it may break, at its first line.
            pending.append((at, breaks, part.body))
        else:
            pending += _inside(at, breaks, part)
    return room >= 0


def _text(part: str | Line | IfBroken, breaks: bool) -> str:
    if isinstance(part, str):
        return part
    if isinstance(part, Line):
        return part.flat
    return part.text if breaks else ""


def _inside(at: int, breaks: bool, part: Nest | tuple[Layout, ...]) -> _Pending:
    if isinstance(part, Nest):
        return [(at + part.columns, breaks, part.body)]
    return [(at, breaks, child) for child in reversed(part)]
