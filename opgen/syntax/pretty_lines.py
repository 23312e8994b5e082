"""Lines of formatted text, with the comments and blank lines of the source woven in."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from opgen.syntax import ast


class Space(Enum):
    """Whether a blank line comes before what is written next."""

    NONE = "none"
    BLANK = "blank"
    AS_IN_SOURCE = "as in source"


@dataclass
class Lines:
    """Written in the order of the source; each part says where it stands there.

    `waiting` holds the comments that are not yet written, in order.
    """

    source: str
    waiting: list[ast.Comment]
    space: Space = Space.NONE
    _written: list[str] = field(default_factory=list)
    _end: int = 0  # where in the source the last part ended

    def text(self) -> str:
        return "".join(f"{part}\n" for part in self._written)

    def has_comments(self, start: int, end: int) -> bool:
        return any(start <= comment.span.start < end for comment in self.waiting)

    def write(self, text: str, start: int, end: int, indent: int) -> None:
        """A part of one or more lines, which stands from `start` to `end` in the source."""
        if self.space is Space.BLANK or (
            self.space is Space.AS_IN_SOURCE and _has_blank_line(self.source[self._end : start])
        ):
            self._written.append("")
        self._written.append(" " * indent + text)
        self._end = end
        self.space = Space.AS_IN_SOURCE

    def comments_before(self, start: int, indent: int) -> None:
        """The waiting comments that stand before an offset, each on a line of its own."""
        for comment in self._take(0, start):
            self.write(comment.text, comment.span.start, comment.span.end, indent)

    def comments_within(self, start: int, end: int, part: int, indent: int) -> None:
        """The waiting comments from `start` to `end`, moved above the part that starts at `part`."""
        for comment in self._take(start, end):
            self.write(comment.text, part, part, indent)
            self.space = Space.NONE

    def comment_behind(self, end: int, limit: int) -> None:
        """A comment on the line on which a part ends (at `end`), if nothing else stands before it."""
        if not self.waiting or self.waiting[0].own_line or self.waiting[0].span.start >= limit:
            return
        comment = self.waiting[0]
        if not set("\r\n") & set(self.source[end : comment.span.start]):
            self.waiting.pop(0)
            self._written[-1] += f"  {comment.text}"
            self._end = comment.span.end

    def _take(self, start: int, end: int) -> list[ast.Comment]:
        def is_taken(comment: ast.Comment) -> bool:
            return start <= comment.span.start < end

        taken = [comment for comment in self.waiting if is_taken(comment)]
        self.waiting = [comment for comment in self.waiting if not is_taken(comment)]
        return taken


def _has_blank_line(between: str) -> bool:
    lines = between.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return any(not line.strip() for line in lines[1:-1])
