"""Spec text and places in it: `Source`, `Span`, and the caret rendering of a span."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Source:
    """One spec file: the name shown to the user (a path relative to the project) and its text."""

    name: str
    text: str = field(repr=False)

    def line_column(self, offset: int) -> tuple[int, int]:
        """The 1-based line and column of a character offset."""
        before = self.text[:offset]
        return before.count("\n") + 1, offset - (before.rfind("\n") + 1) + 1

    def line(self, number: int) -> str:
        """The text of a 1-based line, without its line end; empty past the last line."""
        lines = self.text.split("\n")
        return lines[number - 1].rstrip("\r") if number <= len(lines) else ""


@dataclass(frozen=True)
class Span:
    """Characters `start` to `end` (exclusive) of a source."""

    source: Source = field(repr=False)
    start: int
    end: int

    @property
    def line(self) -> int:
        return self.source.line_column(self.start)[0]

    @property
    def column(self) -> int:
        return self.source.line_column(self.start)[1]

    @property
    def where(self) -> str:
        """`file:line:column`, 1-based."""
        line, column = self.source.line_column(self.start)
        return f"{self.source.name}:{line}:{column}"

    def to(self, last: Span) -> Span:
        """The span from this one's start to the end of `last`."""
        return Span(self.source, self.start, max(self.end, last.end))

    def carets(self) -> str:
        """The spec line and a line of carets under the span (its first line only)."""
        line, column = self.source.line_column(self.start)
        text = self.source.line(line)
        width = max(1, min(self.end - self.start, len(text) - column + 1))
        # Tabs are kept in the margin so that the carets stay under what they mark.
        margin = "".join("\t" if character == "\t" else " " for character in text[: column - 1])
        number = str(line)
        return f"{number} | {text}\n{' ' * len(number)} | {margin}{'^' * width}"
