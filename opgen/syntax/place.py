"""Where the parser stopped: the tokens around the place, and the brackets that are open there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from opgen.source import Source, Span
from opgen.syntax.tokens import Kind, Token

CLOSERS: Final = {"(": ")", "[": "]", "{": "}"}


@dataclass(frozen=True)
class Place:
    """Where the parser stopped: the tokens before, the one it refused (None at the end), the ones behind.

    `expected` holds what could have come: the text of a word or mark, or the name of a terminal such
    as `NUMBER`.
    """

    source: Source
    before: tuple[Token, ...]
    here: Token | None
    after: tuple[Token, ...]
    end: int
    expected: frozenset[str]

    def span(self, token: Token) -> Span:
        return Span(self.source, token.start, token.end)

    @property
    def here_span(self) -> Span:
        """The refused token, or the last one where the text ends too early."""
        if self.here is not None:
            return self.span(self.here)
        return self.span(self.before[-1]) if self.before else Span(self.source, self.end, self.end)

    @property
    def here_as_tuple(self) -> tuple[Token, ...]:
        return () if self.here is None else (self.here,)

    @property
    def text(self) -> str:
        return self.here.text if self.here is not None else ""

    @property
    def previous(self) -> str:
        return self.before[-1].text if self.before else ""

    @property
    def following(self) -> str:
        return self.after[0].text if self.after else ""


def place(
    source: Source, tokens: tuple[Token, ...], offset: int, end: int, expected: frozenset[str]
) -> Place:
    """The place of an offset among the tokens of a text that ends at `end`."""
    tokens = tuple(token for token in tokens if token.kind is not Kind.COMMENT)
    at = next((i for i, token in enumerate(tokens) if token.end > offset), len(tokens))
    here = tokens[at] if at < len(tokens) else None
    return Place(source, tokens[:at], here, tokens[at + 1 :], end, expected)


def open_brackets(at: Place) -> list[Token]:
    """The brackets still open before the place, outermost first."""
    opened: list[Token] = []
    for token in at.before:
        if token.text in CLOSERS:
            opened.append(token)
        elif opened and token.text == CLOSERS[opened[-1].text]:
            opened.pop()
    return opened


def innermost(at: Place) -> str | None:
    """The word that opened the innermost braces: `op`, `for`, `test`, `sizes` or `tile`."""
    braces = [token for token in open_brackets(at) if token.text == "{"]
    if not braces:
        return None
    before = [token.text for token in at.before if token.start < braces[-1].start]
    if len(braces) == 1:
        return "for" if before[-1:] == ["in"] else "op"
    return next((word for word in reversed(before) if word in ("test", "sizes", "tile")), None)
