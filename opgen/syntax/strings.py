"""String literals: what one stands for, and how a value is written. Escapes are those of Python."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

_ESCAPE: Final = re.compile(
    r"\\(?:(?P<octal>[0-7]{1,3})"
    r"|x(?P<x>[0-9a-fA-F]{2})|u(?P<u>[0-9a-fA-F]{4})|U(?P<U>[0-9a-fA-F]{8})"
    r"|N\{(?P<name>[^}]*)\}|(?P<other>.))",
    re.DOTALL,
)
_SIMPLE: Final = {
    "\n": "", "\\": "\\", "'": "'", '"': '"',
    "a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v",
}  # fmt: skip


def read_string(literal: str) -> str:
    """The value of a literal with its quotes; line ends in it are `\\n`.

    An escape that Python does not know stands for itself, backslash included, as in Python.
    Raises `ValueError` with a sentence when an escape names no character that UTF-8 can hold.
    """
    quotes = 3 if literal.startswith('"""') else 1
    body = literal[quotes:-quotes].replace("\r\n", "\n").replace("\r", "\n")
    return _ESCAPE.sub(_character, body)


def _character(escape: re.Match[str]) -> str:
    if escape["other"] is not None:
        if escape["other"] in "xuUN":
            raise ValueError(f"the escape `\\{escape['other']}` is cut short")
        return _SIMPLE.get(escape["other"], escape[0])
    if escape["name"] is not None:
        try:
            return unicodedata.lookup(escape["name"])
        except KeyError:
            raise ValueError(f"no character is named `{escape['name']}`") from None
    octal = escape["octal"]
    code = int(octal, 8) if octal else int(escape["x"] or escape["u"] or escape["U"], 16)
    if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
        raise ValueError(f"`{escape[0]}` is no character")
    return chr(code)


def write_string(value: str, triple: bool) -> str:
    """A literal that reads back as `value`; line ends stay line ends between three quotes."""
    quotes = '"""' if triple else '"'
    return quotes + "".join(_written(value, at, triple) for at in range(len(value))) + quotes


def _written(value: str, at: int, triple: bool) -> str:
    """The character at an index, escaped where it would end the literal or could not be seen."""
    character = value[at]
    if character == '"':
        # One quote alone is harmless between three, two in a row or one at the end are not.
        return '"' if triple and value[at + 1 : at + 2] not in ("", '"') else '\\"'
    if character == "\\":
        return "\\\\"
    if character.isprintable() or (triple and character in "\n\t"):
        return character
    return character.encode("unicode_escape").decode("ascii")
