"""What could have come where the parser stopped, in the words of the language."""

from __future__ import annotations

from typing import Final

_NAMES: Final = frozenset(
    "NAME op fn use const inout require reference grad none sizes tile test tolerance".split()
)
_GROUPS: Final[tuple[tuple[frozenset[str], str], ...]] = (
    (frozenset({"NUMBER", "NAME", "(", "PREFIX"}), "an expression"),
    (frozenset({"INFIX"}), "an operator"),
    (frozenset({"NAME"}), "a name"),
    (frozenset({"NUMBER"}), "an integer"),
    (frozenset({"STRING", "op"}), "`op`, `fn` or `use`"),
    (frozenset({"STRING"}), "a string"),
)
_SUBSUMED: Final[dict[str, frozenset[str]]] = {
    "an expression": _NAMES | {"+", "MINUS", "true", "false", "CONSTANT"},
    "an operator": frozenset({"+", "MINUS", "*", "/", "|", "(", "["}),
    "a name": _NAMES,
    "an integer": frozenset({"MINUS"}),
    "`op`, `fn` or `use`": frozenset({"LONG_STRING", "fn", "use"}),
    "a string": frozenset({"LONG_STRING"}),
}
_SHOWN: Final = {"RANGE": "`..`", "MINUS": "`-`"}


def in_words(expected: frozenset[str]) -> list[str]:
    """What could have come, in the words of the language; whole groups first."""
    left = set(expected)
    wanted = []
    for words, said in _GROUPS:
        if words <= left:
            left -= words | _SUBSUMED.get(said, frozenset())
            wanted.append(said)
    return wanted + [_SHOWN.get(text, f"`{text}`") for text in sorted(left - {"$END"})]


def listed(wanted: list[str]) -> str:
    """`a, b or c`."""
    return wanted[0] if len(wanted) == 1 else f"{', '.join(wanted[:-1])} or {wanted[-1]}"
