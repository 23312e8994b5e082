"""What could have come where the parser stopped, in the words of the language."""

from __future__ import annotations

from typing import Final

# Terminals that stand together for something, and those that are then not mentioned beside it.
_GROUPS: Final[tuple[tuple[str, str, str], ...]] = (
    ("NUMBER NAME ( PREFIX", "an expression", "+ MINUS true false CONSTANT"),
    ("INFIX", "an operator", "+ MINUS * / | ( ["),
    ("NAME _REQUIRE", "a statement", "_REFERENCE _GRAD _SIZES _TILE _TEST"),
    ("NAME", "a name", "CONST INOUT _SIZES _TOLERANCE"),
    ("NUMBER", "an integer", "MINUS"),
    ("STRING _OP", "`op`, `fn` or `use`", "LONG_STRING _FN _USE"),
    ("STRING", "a string", "LONG_STRING"),
)
_SHOWN: Final = {"RANGE": "..", "MINUS": "-", "_NONE": "none"}


def in_words(expected: frozenset[str]) -> list[str]:
    """What could have come, in the words of the language; whole groups first."""
    left = set(expected) - {"$END"}
    wanted = []
    for terminals, said, beside in _GROUPS:
        if set(terminals.split()) <= left:
            left -= {*terminals.split(), *beside.split()}
            wanted.append(said)
    return wanted + [f"`{_SHOWN.get(terminal, terminal)}`" for terminal in sorted(left)]


def listed(wanted: list[str]) -> str:
    """`a, b or c`."""
    return wanted[0] if len(wanted) == 1 else f"{', '.join(wanted[:-1])} or {wanted[-1]}"
