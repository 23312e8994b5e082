"""Parsing: precedence and literals against Python itself, names, spans, and texts that are no specs."""

import ast as python
import keyword
import logging
import random
import unicodedata
from collections.abc import Callable
from pathlib import Path

import lark
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from opgen.diagnostics import SpecError
from opgen.resources import grammar_text
from opgen.source import Source, Span
from opgen.syntax import ast
from opgen.syntax.dump import expression
from opgen.syntax.expressions import MAX_DEPTH
from opgen.syntax.parse import parse
from opgen.syntax.strings import read_string, write_string
from opgen.syntax.tokens import scan

SPEC = (Path(__file__).parents[1] / "cases/parse/ok/linear_silu.op").read_text(encoding="utf-8")


def parse_text(text: str) -> ast.File:
    return parse(Source("spec.op", text))


def parse_value(text: str) -> ast.Expr:
    (item,) = parse_text(f"fn f(x) = {text}\n").items
    assert isinstance(item, ast.Fn)
    return item.body


def errors(text: str) -> list[tuple[str, str]]:
    """The code of each error, and the text that it points at."""
    with pytest.raises(SpecError) as caught:
        parse_text(text)
    return [(found.code, marked(found.span)) for found in caught.value.diagnostics]


def marked(span: Span) -> str:
    return span.source.text[span.start : span.end]


def test_the_grammar_has_no_conflicts(caplog: pytest.LogCaptureFixture) -> None:
    """Lark settles a conflict by shifting, and tells it to its log alone."""

    def built(grammar: str) -> str:
        caplog.clear()
        with caplog.at_level(logging.DEBUG, logger=lark.logger.name):
            lark.Lark(grammar, parser="lalr", debug=True)
        return caplog.text

    assert "conflict" not in built(grammar_text("opgen.lark")).lower()
    assert "conflict" in built('start: "a" start | start "a" | "b"').lower()


# --- expressions ----------------------------------------------------------------------------------

INFIX = "+ - * / // % @ ** << >> & ^ | and or == != < <= > >=".split()
PREFIX = ["", "", "", "-", "+", "~", "not "]


@st.composite
def rows(draw: st.DrawFn) -> str:
    """Operands and operators in a row, some in parentheses or in calls."""
    operand = st.sampled_from(["a", "b", "1", "f(a, b)", "(a)"])
    parts = [draw(st.sampled_from(PREFIX)) + draw(operand)]
    for _ in range(draw(st.integers(0, 5))):
        inner = draw(st.booleans())
        right = f"({draw(rows())})" if inner and draw(st.booleans()) else draw(operand)
        parts += [draw(st.sampled_from(INFIX)), draw(st.sampled_from(PREFIX)) + right]
    return " ".join(parts)


NAMES = {
    python.Add: "+", python.Sub: "-", python.Mult: "*", python.Div: "/", python.FloorDiv: "//",
    python.Mod: "%", python.MatMult: "@", python.Pow: "**", python.LShift: "<<",
    python.RShift: ">>", python.BitAnd: "&", python.BitXor: "^", python.BitOr: "|",
    python.And: "and", python.Or: "or", python.Eq: "==", python.NotEq: "!=", python.Lt: "<",
    python.LtE: "<=", python.Gt: ">", python.GtE: ">=", python.USub: "-", python.UAdd: "+",
    python.Invert: "~", python.Not: "not",
}  # fmt: skip


def in_prefix_form(node: python.expr) -> str:
    """What `expression` prints, from Python's own tree. Raises `ValueError` at a chain."""
    if isinstance(node, python.BinOp):
        return f"({NAMES[type(node.op)]} {in_prefix_form(node.left)} {in_prefix_form(node.right)})"
    if isinstance(node, python.UnaryOp):
        return f"({NAMES[type(node.op)]} {in_prefix_form(node.operand)})"
    if isinstance(node, python.BoolOp):  # Python has one node for `a and b and c`
        whole = in_prefix_form(node.values[0])
        for value in node.values[1:]:
            whole = f"({NAMES[type(node.op)]} {whole} {in_prefix_form(value)})"
        return whole
    if isinstance(node, python.Compare):
        if len(node.ops) > 1:
            raise ValueError
        left, right = in_prefix_form(node.left), in_prefix_form(node.comparators[0])
        return f"({NAMES[type(node.ops[0])]} {left} {right})"
    if isinstance(node, python.Call):
        return f"({' '.join(in_prefix_form(part) for part in (node.func, *node.args))})"
    return python.unparse(node)


@given(rows())
@settings(max_examples=200, deadline=None)
@example("a < b < c")
@example("-a ** -b ** c")
@example("a == not b")
def test_operators_bind_as_in_python(text: str) -> None:
    try:
        expected = in_prefix_form(python.parse(text, mode="eval").body)
    except SyntaxError:  # `a == not b`
        with pytest.raises(SpecError):
            parse_value(text)
    except ValueError:
        with pytest.raises(SpecError, match="do not chain"):
            parse_value(text)
    else:
        assert expression(parse_value(text)) == expected


def test_spans_of_operators_cover_parentheses() -> None:
    value = parse_value("(a + b) * -(c)")
    assert isinstance(value, ast.Binary)
    assert marked(value.span) == "(a + b) * -(c)"
    assert marked(value.op_span) == "*"
    assert (marked(value.left.span), marked(value.right.span)) == ("a + b", "-(c)")


@pytest.mark.parametrize(
    "deep",
    [
        lambda n: "f(" * n + "x" + ")" * n,
        lambda n: "x[M: " * n + "0" + "]" * n,
        lambda n: "-" * n + "x",
        lambda n: "not " * n + "x",
        lambda n: "x + " * n + "x",
        lambda n: "x ** " * n + "x",
        lambda n: "(1 + " * n + "x" + ")" * n,
    ],
)
def test_depth_is_limited(deep: Callable[[int], str]) -> None:
    parse_value(deep(MAX_DEPTH - 1))
    for depth in (MAX_DEPTH, 5000):
        assert [code for code, _ in errors(f"fn f(x) = {deep(depth)}")] == ["OPG009"]


def test_parentheses_alone_have_no_depth() -> None:
    assert parse_value("(" * 5000 + "x" + ")" * 5000) == parse_value("x")


@pytest.mark.parametrize("text", ["(" * 5000, "f(" * 5000, "[" * 5000, ")" * 5000, "{" * 5000])
def test_many_brackets_that_do_not_match(text: str) -> None:
    assert [code for code, _ in errors(f"fn f(x) = {text}")] in (["OPG001"], ["OPG004"])


# --- literals -------------------------------------------------------------------------------------


@given(st.from_regex(r"[0-9._eExXbBoOaf+\-]{1,8}", fullmatch=True))
@settings(max_examples=200, deadline=None)
@example("1_000")
@example("1.")
@example(".5")
@example("0x1f")
@example("1e-5")
@example("00")
@example("0_0")
@example("...")
def test_numbers_are_those_of_python(text: str) -> None:
    try:
        value = python.parse(text, mode="eval").body
    except SyntaxError:
        value = None
    try:
        parsed = parse_value(text)
    except SpecError:
        parsed = None
    is_python = isinstance(value, python.Constant) and isinstance(value.value, int | float)
    assert (parsed == ast.Number(text, parsed.span)) == is_python if parsed else not is_python


@given(st.text(), st.booleans())
@settings(max_examples=200, deadline=None)
@example('ends with "', True)
@example('""""', True)
@example('\\"', True)
@example("\r\n\t\x00\u2028", True)
@example("\\N{x}", False)
def test_strings_read_back(value: str, triple: bool) -> None:
    value = value.encode("utf-8", "ignore").decode("utf-8")  # no surrogates
    literal = write_string(value, triple)
    assert read_string(literal) == value
    assert python.literal_eval(literal) == value
    assert [token.text for token in scan(literal)] == [literal]


@given(st.text(st.sampled_from('abx01u\\n{}N"') | st.characters(codec="utf-8"), max_size=12))
@settings(max_examples=200, deadline=None)
@pytest.mark.filterwarnings("ignore:invalid escape sequence", "ignore:.*octal escape")
@example("\\N{BULLET}\\x41\\101\\u00e9\\d")
def test_escapes_are_those_of_python(body: str) -> None:
    literal = f'"""{body} """'
    if len(scan(literal)) != 1 or "\0" in body:
        return
    try:
        expected = python.literal_eval(literal)
    except SyntaxError:
        expected = None
    if expected is not None and any("\ud800" <= character <= "\udfff" for character in expected):
        expected = None  # Python allows what no file can hold
    try:
        assert read_string(literal) == expected
    except ValueError:
        assert expected is None


# --- names ----------------------------------------------------------------------------------------

WORDS = "op fn use const inout require reference grad none sizes tile test tolerance".split()
OTHERS = "match case type _ self torch tl grid mask out index sum T M f16 lambda_ print".split()

EVERYWHERE = """op {0}({0}: {0}[{0}], const {0}: {0} = {0}) -> ({0}: {0}[{0} * 2]) for {0} in {{{0}}}
{{
  {0} = {0} {0}: {0} = {0}({0}) + {0}[{0}]({0}) + {0}[{0}] + {0}[{0}: {0}]
  require {0} grad {0}: {0}
  sizes {{ {0}: {0} = 1, {0}: {0} = 2 }}
  tile for {0} {{ {0} = {0} | {0} }}
  test {{ {0} in {0} .. {0}; tolerance {0} = {0}; sizes {0} in 1 .. 2 }}
}}
fn {0}[{0}]({0}) = {0}
"""


@pytest.mark.parametrize("word", WORDS + OTHERS)
def test_names_everywhere(word: str) -> None:
    renamed = EVERYWHERE.format(word)
    assert parse_text(renamed) == parse_text(EVERYWHERE.format("zz").replace("zz", word))
    assert len(parse_text(renamed).items) == 2
    op, _ = parse_text(renamed).items
    assert isinstance(op, ast.Op)
    assert [type(statement).__name__ for statement in op.body] == [
        "Assign", "Assign", "Require", "Grad", "Sizes", "Tile", "Test",
    ]  # fmt: skip


@pytest.mark.parametrize("word", [*keyword.kwlist, "__debug__", "true", "false", "inf", "nan", "pi"])
def test_reserved_words(word: str) -> None:
    text = f"op {word}({word}: {word}[{word}]) -> {word}: T[M] {{ {word} = 1 }}"
    assert errors(text) == [("OPG005", word)] * 6
    with pytest.raises(SpecError) as caught:
        parse_text(f"fn {word}(x) = x")
    advice = caught.value.diagnostics[0].help
    assert advice is not None
    assert f"`{word.lower() if word in ('True', 'False') else word + '_'}`" in advice


def test_names_have_pythons_normal_form() -> None:
    (item,) = parse_text("fn ﬁ(ſ) = ſ").items
    assert item == parse_text("fn fi(s) = s").items[0]
    assert unicodedata.normalize("NFKC", "ﬁ") == "fi"


# --- texts that are no specs ----------------------------------------------------------------------

PIECES = st.sampled_from(
    [token.text for token in scan(SPEC)]
    + ['"', '"""', "#", "\\", "\0", "\r", "\ufeff", "é", "²", "&&", "1e", "in", "not", "lambda"]
)


def check_any(text: str) -> None:
    """A tree or diagnostics that point into the text; anything else propagates."""
    try:
        parse_text(text)
    except SpecError as error:
        for found in error.diagnostics:
            assert 0 <= found.span.start <= found.span.end <= len(text)
            assert found.code in found.render()


@given(st.lists(PIECES | st.text(max_size=3), max_size=30).map(" ".join) | st.text())
@settings(max_examples=200, deadline=None)
def test_any_text_parses_or_is_refused(text: str) -> None:
    check_any(text)


@given(st.randoms(use_true_random=False), st.integers(1, 3), PIECES)
@settings(max_examples=100, deadline=None)
def test_damaged_specs_parse_or_are_refused(chance: random.Random, times: int, piece: str) -> None:
    tokens = [token.text for token in scan(SPEC)]
    for _ in range(times):
        at = chance.randrange(len(tokens))
        tokens[at : at + chance.randrange(3)] = chance.choice([[], [piece], [piece, tokens[at]]])
    check_any("\n".join(tokens))


@given(st.integers(0, len(SPEC)))
@settings(max_examples=60, deadline=None)
def test_cut_off_specs_parse_or_are_refused(end: int) -> None:
    check_any(SPEC[:end])


def test_errors_of_all_items_are_reported() -> None:
    text = "".join(f"op f{i}(inout x: T[M]) {{ x = x $ }}\nfn g{i}(x) = x < 1 < 2\n" for i in range(5))
    assert [code for code, _ in errors(text)] == ["OPG002", "OPG006"] * 5


def test_sound_items_around_a_broken_one_are_not_reported() -> None:
    assert errors(SPEC + "\nop broken(\n\n" + SPEC) == [("OPG004", "(")]


def test_comments() -> None:
    text = '# a\nfn f(x) = x # b "no\n  # c\nuse "# no" """\n# no"""'
    text = text.replace('use "# no" """\n# no"""', '"""\n# no"""\nuse "# no" # d')
    found = [(comment.text, comment.own_line) for comment in parse_text(text).comments]
    assert found == [("# a", True), ('# b "no', False), ("# c", True), ("# d", False)]
