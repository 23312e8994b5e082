"""Lays out tables as black does, which takes long over them: the configs are most of the text of many modules.

A table is a dict of data: dicts, tuples, calls, names and literals. It takes one line where it fits, else an indented
line for what its brackets hold, else one for each item.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

_INDENT = 4
_DATA = (ast.Dict, ast.Tuple, ast.Call, ast.keyword, ast.Attribute, ast.Name, ast.Constant, ast.expr_context)


@dataclass(frozen=True)
class Item:
    """A text, or items in brackets; what stands before these is part of `opening`."""

    opening: str
    items: tuple[Item, ...] = ()
    closing: str = ""
    is_call: bool = False
    is_tuple: bool = False

    @cached_property
    def inside(self) -> str:
        """What the brackets hold, on one line."""
        end = "," if self.is_tuple and len(self.items) == 1 else ""
        return ", ".join(item.flat for item in self.items) + end

    @property
    def flat(self) -> str:
        return f"{self.opening}{self.inside}{self.closing}"


@dataclass(frozen=True)
class Table:
    """A table that a module gives a name."""

    name: str
    data: Item


def table_of(statement: ast.stmt, line: str) -> Table | None:
    """The table that a statement is, where it is one; `line` is the line of text that it begins on."""
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.Dict() as value):
            is_line = line.startswith(f"{name} = {{") and len(line.encode()) == value.end_col_offset
            if is_line and all(isinstance(node, _DATA) for node in ast.walk(value)):
                return Table(name, _item(value, line.encode(), f"{name} = "))
    return None


def laid_out(table: Table, width: int) -> str:
    """The text of a table in lines of up to `width` columns."""
    return "\n".join(_lines(table.data, 0, "", width))


def _item(node: ast.expr, line: bytes, before: str = "") -> Item:
    """A piece of a table, behind a text that belongs to it, such as a key."""
    match node:
        case ast.Dict(keys=keys, values=values):
            pairs = zip(keys, values, strict=True)
            entries = ((f"{_text(key, line)}: " if key else "**", value) for key, value in pairs)
            items = tuple(_item(value, line, begin) for begin, value in entries)
            return Item(f"{before}{{", items, "}")
        case ast.Tuple(elts=elements):
            return Item(f"{before}(", tuple(_item(one, line) for one in elements), ")", is_tuple=True)
        case ast.Call(func=function, args=arguments, keywords=named):
            items = tuple(_item(one, line) for one in arguments)
            items += tuple(_item(one.value, line, f"{one.arg}=" if one.arg else "**") for one in named)
            return Item(f"{before}{_text(function, line)}(", items, ")", is_call=True)
    return Item(before + _text(node, line))


def _text(node: ast.expr, line: bytes) -> str:
    return line[node.col_offset : node.end_col_offset].decode()


def _lines(item: Item, indent: int, end: str, width: int) -> Iterator[str]:
    """The lines of an item; `end` is the comma behind it, where it has one."""
    pad, flat, inside = " " * indent, item.flat, item.inside
    if not item.items or indent + len(flat) + len(end) <= width:
        yield f"{pad}{flat}{end}"
        return
    yield pad + item.opening
    several = len(item.items) > 1
    if (item.is_call or not several) and indent + _INDENT + len(inside) <= width:
        yield f"{pad}{' ' * _INDENT}{inside}"
    else:
        comma = "," if several or item.is_tuple else ""
        for one in item.items:
            yield from _lines(one, indent + _INDENT, comma, width)
    yield f"{pad}{item.closing}{end}"
