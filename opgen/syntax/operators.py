"""The operators and how tightly they bind: one table for the parser and the printer."""

from __future__ import annotations

from typing import Final

# Levels of infix operators, loosest first. The empty levels are those of the prefix operators.
_LEVELS: Final[tuple[tuple[str, ...], ...]] = (
    ("or",),
    ("and",),
    (),  # not
    ("==", "!=", "<", "<=", ">", ">="),
    ("|",),
    ("^",),
    ("&",),
    ("<<", ">>"),
    ("+", "-"),
    ("*", "/", "//", "%", "@"),
    (),  # + - ~
    ("**",),
)

INFIX: Final[dict[str, int]] = {
    operator: level for level, operators in enumerate(_LEVELS) for operator in operators
}
PREFIX: Final[dict[str, int]] = {"not": 2, "+": 10, "-": 10, "~": 10}
COMPARISON: Final = INFIX["=="]
ATOM: Final = len(_LEVELS)


def is_right_associative(operator: str) -> bool:
    return operator == "**"
