"""What a syntax error most likely is: habits from other languages, brackets, strings, characters.

The parser stops at a place and says what could have come there; each check below knows one kind of
mistake by the tokens around that place, the most telling first. Codes: OPG001 a word or mark that
does not fit, OPG002 a character of no meaning, OPG003 a string that is not closed, OPG004 a bracket,
OPG005 a reserved name, OPG007 a number, OPG012 a construct of another language or place.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from itertools import pairwise
from typing import Final

from opgen.diagnostics import Diagnostic, Note, did_you_mean
from opgen.source import Span
from opgen.syntax.expected import in_words, listed
from opgen.syntax.pieces import reserved_word
from opgen.syntax.place import CLOSERS, Place, innermost, open_brackets
from opgen.syntax.tokens import Kind, Token, starts_line

# What is not a construct here, and what to write instead.
_FOREIGN_WORDS: Final[dict[str, tuple[str, str]]] = {
    "return": ("there is no `return`", "a result is assigned by its name: `y = …`"),
    "def": ("there is no `def`", "operators start with `op`, named expressions with `fn`"),
    "import": ("there is no `import`", 'the functions of another file come with `use "file.op"`'),
    "from": ("there is no `import`", 'the functions of another file come with `use "file.op"`'),
    "if": ("there is no `if`", "a choice is written `where(condition, a, b)`"),
    "elif": ("there is no `if`", "a choice is written `where(condition, a, b)`"),
    "else": ("there is no `if`", "a choice is written `where(condition, a, b)`"),
    "for": ("there are no loops", "reductions name their dims, as in `sum[K](x)`"),
    "while": ("there are no loops", "reductions name their dims, as in `sum[K](x)`"),
    "lambda": ("there is no `lambda`", "name an expression with `fn name(a, b) = …`"),
    "assert": ("there is no `assert`", 'a condition is checked by `require … "why"`'),
    "is": ("there is no `is`", "equality is written `==`"),
    "class": ("there are no classes", "operators start with `op`"),
}
_DECLARERS: Final = ("let", "var", "val", "auto")

_FOREIGN_MARKS: Final[dict[str, tuple[str, str]]] = {
    "&&": ("there is no `&&`", "write `and` (or `&` for the bits of integers)"),
    "||": ("there is no `||`", "write `or` (or `|` for the bits of integers)"),
    "!": ("there is no `!`", "write `not`"),
    "?": ("there is no `?`", "a choice is written `where(condition, a, b)`"),
    ":=": ("there is no `:=`", "a value is named with `=`"),
    "'": ("strings have double quotes", 'write `"…"`'),
    "\\": ("line ends carry no meaning", "leave the `\\` out"),
}
_AUGMENTED: Final = "+= -= *= /= %= @= &= |= ^= **= //= <<= >>=".split()

# Characters that look like one of the language.
_LOOK_ALIKES: Final = {
    "×": "*", "·": "*", "⋅": "*", "∗": "*", "÷": "/", "−": "-", "–": "-", "—": "-", "→": "->",
    "≤": "<=", "≥": ">=", "≠": "!=", "…": "...", "¬": "not", "∧": "and", "∨": "or",
    "“": '"', "”": '"', "„": '"', "‘": '"', "’": '"',
    "，": ",", "；": ";", "：": ":", "（": "(", "）": ")", "＝": "=",
}  # fmt: skip


def explain(at: Place) -> Diagnostic:
    """The diagnostic of a syntax error."""
    return next(found for check in _CHECKS if (found := check(at)) is not None)


# --- characters and strings -----------------------------------------------------------------------


def _open_string(at: Place) -> Diagnostic | None:
    if at.here is None or at.here.kind is not Kind.OPEN_STRING:
        return None
    if at.text.startswith('"""'):
        start = Span(at.source, at.here.start, at.here.start + 3)
        return Diagnostic("OPG003", 'the string is never closed by `"""`', start)
    message = "the string is not closed on its line"
    return Diagnostic(
        "OPG003",
        message,
        at.here_span,
        help='add a `"`; a string of several lines has three: `"""…"""`',
    )


def _foreign_mark(at: Place) -> Diagnostic | None:
    if at.text in _FOREIGN_MARKS:
        message, advice = _FOREIGN_MARKS[at.text]
        return Diagnostic("OPG012", message, at.here_span, help=advice)
    if at.text in _AUGMENTED:
        message, advice = f"there is no `{at.text}`", "each name is given one value; use a new name"
        return Diagnostic("OPG012", message, at.here_span, help=advice)
    return None


def _attribute(at: Place) -> Diagnostic | None:
    if at.text != "." or not at.after or at.after[0].kind is not Kind.WORD:
        return None
    advice = None
    if at.following in ("T", "mT", "t", "transpose"):
        advice = "`@` meets the dims by name, so that no transpose is needed"
    elif at.following in ("shape", "size"):
        advice = "the size of dim `M` is written `M`"
    elif len(at.after) > 1 and at.after[1].text == "(":
        advice = f"functions stand by themselves: write `{at.following}(x)`"
    message = f"values have no attributes such as `.{at.following}`"
    return Diagnostic("OPG012", message, at.here_span.to(at.span(at.after[0])), help=advice)


def _unknown_character(at: Place) -> Diagnostic | None:
    if at.here is None or at.here.kind is not Kind.UNKNOWN:
        return None
    name = unicodedata.name(at.text, "")
    shown = f"`{at.text}`" if at.text.isprintable() else f"U+{ord(at.text):04X}"
    described = f"{shown} ({name})" if name and not at.text.isascii() else shown
    advice = None
    if at.text in _LOOK_ALIKES:
        advice = f"write `{_LOOK_ALIKES[at.text]}`"
    elif at.text.isspace():
        advice = "use plain spaces"
    message = f"the character {described} means nothing here"
    return Diagnostic("OPG002", message, at.here_span, help=advice)


# --- words ----------------------------------------------------------------------------------------


def _number_runs_on(at: Place) -> Diagnostic | None:
    for number, word in pairwise((*at.before[-2:], *at.here_as_tuple)):
        if number.kind is Kind.NUMBER and number.end == word.start and word.text[0].isalnum():
            return Diagnostic(
                "OPG007",
                f"`{number.text}{word.text}` is neither a number nor a name",
                at.span(number).to(at.span(word)),
                help=f"a product is written `{number.text} * {word.text}`",
            )
    return None


def _reserved_name(at: Place) -> Diagnostic | None:
    """A reserved word that is given a value: `in = x`, or `and = x`, which is refused at its `=`."""
    for word, mark in pairwise((*at.before[-1:], *at.here_as_tuple, *at.after[:1])):
        reserved = reserved_word(word.text)
        is_first = starts_line(at.source.text, word.start)
        if reserved is not None and is_first and mark.text in ("=", ":"):
            return Diagnostic("OPG005", reserved[0], at.span(word), help=reserved[1])
    return None


def _foreign_word(at: Place) -> Diagnostic | None:
    # A few words back: `lambda z: z` is refused only behind its last name.
    for token in (*at.here_as_tuple, *reversed(at.before[-4:])):
        is_header = token.text == "for" and innermost(at) != "op"
        if token.kind is Kind.WORD and token.text in _FOREIGN_WORDS and not is_header:
            message, advice = _FOREIGN_WORDS[token.text]
            return Diagnostic("OPG012", message, at.span(token), help=advice)
    is_word = at.here is not None and at.here.kind is Kind.WORD
    if at.previous in _DECLARERS and is_word and starts_line(at.source.text, at.before[-1].start):
        message, advice = f"there is no `{at.previous}`", f"write `{at.text} = …`"
        return Diagnostic("OPG012", message, at.span(at.before[-1]), help=advice)
    return None


_BLOCKS = ("sizes", "test", "tile")


def _no_statement(at: Place) -> Diagnostic | None:
    """A word that only a statement could start with, and that starts none."""
    if not at.before or not {":", "="} <= at.expected or innermost(at) != "op":
        return None
    word = at.before[-1]
    if starts_line(at.source.text, word.start):
        if at.expected != {":", "="}:
            return None
        message, advice = f"`{word.text}` is given no value", f"write `{word.text} = …`"
        if at.text == "{":
            message = f"there is no block `{word.text}`"
            advice = did_you_mean(word.text, _BLOCKS) or f"the blocks are {', '.join(_BLOCKS)}"
        return Diagnostic("OPG001", message, at.span(word), help=advice)
    message = f"`{word.text}` does not fit here, expected an operator or a new statement"
    return Diagnostic("OPG001", message, at.span(word))


def _no_type(at: Place) -> Diagnostic | None:
    opened = open_brackets(at)
    if at.expected != {":"} or not opened or opened[-1].text != "(":
        return None
    message, advice = f"`{at.previous}` has no type", f"write `{at.previous}: T[…]`"
    return Diagnostic("OPG001", message, at.span(at.before[-1]), help=advice)


# --- marks in the wrong place ---------------------------------------------------------------------


def _equals(at: Place) -> Diagnostic | None:
    if at.text == "==" and "=" in at.expected:
        message = "`==` compares, it names no value"
        return Diagnostic("OPG012", message, at.here_span, help="a value is named with `=`")
    if at.text == "=" and "INFIX" in at.expected:
        return Diagnostic(
            "OPG012",
            "`=` cannot stand inside an expression",
            at.here_span,
            help="equality is written `==`; arguments are given by position",
        )
    return None


def _separator(at: Place) -> Diagnostic | None:
    """`;` outside of `test`, or `,` between its entries."""
    block = innermost(at)
    if at.text == ";" and block != "test":
        advice = "leave it out" if block in (None, "op") else "write `,`"
        message = "`;` only separates the entries of `test`"
        return Diagnostic("OPG012", message, at.here_span, help=advice)
    if at.text == "," and block == "test" and open_brackets(at)[-1].text == "{":
        message = "the entries of `test` are separated by `;`"
        return Diagnostic("OPG012", message, at.here_span)
    return None


def _result_list(at: Place) -> Diagnostic | None:
    """Results without parentheses, without a name or without brackets."""
    if not any(token.text == "->" for token in at.before[-12:]):
        return None
    if at.text == "," and not open_brackets(at):
        message, advice = "several results stand in parentheses", "write `-> (y: T[M], z: T[N])`"
        return Diagnostic("OPG012", message, at.here_span, help=advice)
    if at.text == "[" and len(at.before) > 1 and at.before[-2].text == "->":
        message, advice = "a result has a name", f"write `-> y: {at.previous}[…]`"
        return Diagnostic("OPG012", message, at.span(at.before[-1]), help=advice)
    if at.expected == {"["}:
        message, advice = "a result is a tensor", f"one of no dims is `{at.previous}[]`"
        return Diagnostic("OPG012", message, at.span(at.before[-1]), help=advice)
    return None


def _dims(at: Place) -> Diagnostic | None:
    """Dims where a value is named, and Python's division of dims."""
    if at.text == "[" and at.expected == {"="}:
        message, advice = "a named value has the dims of its expression", "leave the brackets out"
        return Diagnostic("OPG012", message, at.here_span, help=advice)
    if at.text == "//" and {"/", "]"} <= at.expected and "INFIX" not in at.expected:
        message, advice = "dims are divided by `/`", "it requires that nothing is left over"
        return Diagnostic("OPG012", message, at.here_span, help=advice)
    return None


def _fn_shape(at: Place) -> Diagnostic | None:
    """A `fn` with a body in braces or with types."""
    starts = [i for i, token in enumerate(at.before) if token.text in ("fn", "op")]
    if not starts or at.before[starts[-1]].text != "fn":
        return None
    if at.text == "{" and at.expected == {"="}:
        message, advice = "a `fn` is one expression", "write `fn name(a, b) = …`"
        return Diagnostic("OPG012", message, at.here_span, help=advice)
    if at.text == ":" and ")" in at.expected and "INFIX" not in at.expected:
        message = "the parameters of a `fn` have no types"
        return Diagnostic("OPG012", message, at.here_span, help="leave the type out")
    return None


# --- brackets -------------------------------------------------------------------------------------


def _bracket(at: Place) -> Diagnostic | None:
    opened = open_brackets(at)
    closers = [CLOSERS[token.text] for token in opened]
    if at.text in CLOSERS.values() and at.text not in closers:
        if not opened or opened[-1].text == "{":
            return Diagnostic("OPG004", f"`{at.text}` closes nothing", at.here_span)
        message = f"`{at.text}` does not close `{opened[-1].text}`"
        note = Note(f"`{opened[-1].text}` is opened here", at.span(opened[-1]))
        return Diagnostic("OPG004", message, at.here_span, notes=(note,))
    if not opened or at.text == closers[-1]:
        return None
    is_early = at.text in closers or (opened[-1].text != "{" and _starts_something(at))
    return _never_closed(at, opened[-1]) if at.here is None or is_early else None


def _starts_something(at: Place) -> bool:
    """Whether the refused token cannot stand inside parentheses or brackets."""
    if at.here is None or at.text in ("{", "->") or (at.text == "(" and "]" in at.expected):
        return True
    is_word = at.here.kind is Kind.WORD and starts_line(at.source.text, at.here.start)
    return is_word and at.following in ("=", ":", "{", "[", "(")


def _never_closed(at: Place, opener: Token) -> Diagnostic:
    closer = CLOSERS[opener.text]
    where = "before this" if at.here is not None else "behind this"
    note = Note(f"`{closer}` was expected {where}", at.here_span)
    return Diagnostic("OPG004", f"`{opener.text}` is never closed", at.span(opener), notes=(note,))


# --- anything else --------------------------------------------------------------------------------


def _plain(at: Place) -> Diagnostic:
    got = f"`{at.text}` does not fit here" if at.here is not None else "the item ends too early"
    if at.here is not None and at.here.kind is Kind.STRING:
        got = "a string does not fit here"
    wanted = in_words(at.expected)
    message = f"{got}, expected {listed(wanted)}" if 0 < len(wanted) <= 4 else got
    advice = None
    if at.text == "[" and "(" in at.expected:
        advice = "there are no lists"
    return Diagnostic("OPG001", message, at.here_span, help=advice)


_CHECKS: Final[tuple[Callable[[Place], Diagnostic | None], ...]] = (
    _open_string,
    _foreign_mark,
    _attribute,
    _unknown_character,
    _number_runs_on,
    _reserved_name,
    _foreign_word,
    _equals,
    _separator,
    _result_list,
    _dims,
    _fn_shape,
    _no_type,
    _no_statement,
    _bracket,
    _plain,
)
