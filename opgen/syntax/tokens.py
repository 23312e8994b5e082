"""A tolerant scanner: every text splits into tokens, broken ones too.

The parser has its own lexer; this one finds the comments, which are no part of the grammar, and
gives the explanations of syntax errors something to look at.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import Final


class Kind(Enum):
    COMMENT = "comment"
    STRING = "string"
    OPEN_STRING = "open_string"  # its closing quotes are missing
    NUMBER = "number"
    WORD = "word"
    MARK = "mark"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Token:
    kind: Kind
    text: str
    start: int

    @property
    def end(self) -> int:
        return self.start + len(self.text)


# The strings, numbers and words are those of grammar/opgen.lark.
_TOKEN: Final = re.compile(
    r"""
    (?P<comment>     \#[^\r\n]*)
  | (?P<string>      \"\"\"(?:[^"\\]|\\.|"(?!""))*\"\"\" | "(?!"")(?:[^"\\\r\n]|\\[^\r\n])*")
  | (?P<open_string> \"\"\".* | "[^\r\n]*)
  | (?P<number>      0[xX][\da-fA-F_]+ | 0[oO][0-7_]+ | 0[bB][01_]+
                     | (?:\d[\d_]*(?:\.(?!\.)[\d_]*)?|\.\d[\d_]*)(?:[eE][+-]?\d[\d_]*)?)
  | (?P<word>        [^\W\d]\w*)
  | (?P<mark>        \.\.\. | (?:\*\*|//|<<|>>|[=!<>+\-*/%@&|^:])= | -> | && | \|\| | \*\* | // | << | >>
                     | \.\. | [-+*/%@&|^~<>=(){}\[\],:;])
  | (?P<unknown>     (?!\A\ufeff)[^ \t\r\n\f])
    """,
    re.VERBOSE | re.DOTALL,
)


def scan(text: str) -> tuple[Token, ...]:
    """All tokens of a text in order, comments included; white space is left out, a leading mark too."""
    found = _TOKEN.finditer(text)
    return tuple(Token(Kind(match.lastgroup), match.group(), match.start()) for match in found)


def starts_line(text: str, offset: int) -> bool:
    """Whether only white space stands before an offset on its line."""
    start = max(text.rfind("\n", 0, offset), text.rfind("\r", 0, offset)) + 1
    return not text[start:offset].strip("\ufeff \t\f")
