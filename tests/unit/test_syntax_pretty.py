"""Formatting: random trees come back, comments stay, the result formats to itself."""

import keyword
import random
from collections import Counter
from pathlib import Path
from typing import TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opgen.diagnostics import SpecError
from opgen.source import Source, Span
from opgen.syntax import ast
from opgen.syntax.layout import Group, IfBroken, Line, Nest, enclosed, joined, render
from opgen.syntax.operators import INFIX, PREFIX
from opgen.syntax.parse import parse
from opgen.syntax.pretty import WIDTH, format_expr, format_file
from opgen.syntax.tokens import Kind, scan

OK_CASES = sorted((Path(__file__).parents[1] / "cases/parse/ok").glob("*.op"))
NOWHERE = st.just(Span(Source("", ""), 0, 0))

Part = TypeVar("Part")


def parse_text(text: str) -> ast.File:
    return parse(Source("spec.op", text))


# --- random trees ---------------------------------------------------------------------------------


def several(part: st.SearchStrategy[Part], least: int = 0) -> st.SearchStrategy[tuple[Part, ...]]:
    return st.lists(part, min_size=least, max_size=3).map(tuple)


RESERVED = {*keyword.kwlist, "true", "false", "inf", "nan", "pi"}
words = st.sampled_from("op fn use const grad none sizes tile test tolerance x y M".split()) | (
    st.from_regex(r"[a-z_][a-z0-9_]{0,30}", fullmatch=True).filter(lambda word: word not in RESERVED)
)
names = st.builds(ast.Name, words, NOWHERE)
characters = st.characters(codec="utf-8", exclude_characters="\0")
texts = st.builds(ast.Text, st.text(characters, max_size=20), st.booleans(), NOWHERE)
positive = st.integers(1, 2**40)
sizes = st.integers(0, 2**40)

named_dims = (
    st.builds(ast.NamedDim, words, st.just(1), st.just(1), NOWHERE)
    | st.builds(ast.NamedDim, words, positive, st.just(1), NOWHERE)
    | st.builds(ast.NamedDim, words, st.just(1), positive, NOWHERE)
)
dims = named_dims | st.builds(ast.FixedDim, positive, NOWHERE) | st.builds(ast.EllipsisDim, NOWHERE)

numbers = st.sampled_from("0 1 .5 1. 1e-5 0x1f 1_000 12345678901234567890".split())
atoms = (
    st.builds(ast.Number, numbers, NOWHERE)
    | st.builds(ast.Constant, st.sampled_from("true false inf nan pi".split()), NOWHERE)
    | st.builds(ast.Reference, words, NOWHERE)
    | st.builds(ast.Position, names, several(dims, 1), NOWHERE)
)


def compound(inner: st.SearchStrategy[ast.Expr]) -> st.SearchStrategy[ast.Expr]:
    coordinates = st.builds(ast.Coordinate, dims, inner, NOWHERE)
    return (
        st.builds(ast.Unary, st.sampled_from(sorted(PREFIX)), inner, NOWHERE)
        | st.builds(ast.Binary, st.sampled_from(sorted(INFIX)), inner, inner, NOWHERE, NOWHERE)
        | st.builds(ast.Call, names, st.none() | several(dims, 1), several(inner), NOWHERE)
        | st.builds(ast.Gather, names, several(coordinates, 1), NOWHERE)
    )


expressions = st.recursive(atoms, compound, max_leaves=25)

choices = st.builds(ast.Choices, several(st.booleans() | words | sizes, 1), NOWHERE)
powers = st.builds(ast.PowersOfTwo, positive, positive, NOWHERE)
cases = st.builds(ast.SizeCase, names, several(st.builds(ast.Size, dims, sizes, NOWHERE), 1), NOWHERE)
entries = (
    st.builds(ast.DrawRange, names, expressions, expressions, NOWHERE)
    | st.builds(ast.Tolerance, names, expressions, NOWHERE)
    | st.builds(ast.SizeRange, dims, sizes, sizes, NOWHERE)
)
statements = (
    st.builds(ast.Assign, names, st.none() | names, expressions, NOWHERE)
    | st.builds(ast.Require, expressions, st.none() | texts, NOWHERE)
    | st.builds(ast.ReferenceText, texts, NOWHERE)
    | st.builds(ast.GradNone, NOWHERE)
    | st.builds(ast.Grad, names, expressions, NOWHERE)
    | st.builds(ast.Sizes, several(cases), NOWHERE)
    | st.builds(
        ast.Tile,
        several(names),
        several(st.builds(ast.Hint, dims, choices | powers, NOWHERE)),
        NOWHERE,
    )
    | st.builds(ast.Test, several(entries), NOWHERE)
)

tensors = st.builds(ast.TensorType, names, several(dims), NOWHERE)
params = st.builds(
    ast.Param,
    st.sampled_from(["", "const", "inout"]),
    names,
    tensors | st.builds(ast.ScalarType, names, NOWHERE),
    st.none() | expressions,
    NOWHERE,
)
items = (
    st.builds(ast.Use, st.none() | texts, texts, NOWHERE)
    | st.builds(ast.Fn, st.none() | texts, names, several(names), several(names), expressions, NOWHERE)
    | st.builds(
        ast.Op,
        st.none() | texts,
        names,
        several(params),
        several(st.builds(ast.Result, names, tensors, NOWHERE)),
        several(st.builds(ast.TypeVariable, names, several(names, 1), NOWHERE)),
        several(statements),
        NOWHERE,
    )
)


@given(expressions)
@settings(max_examples=200, deadline=None)
def test_expressions_come_back(expr: ast.Expr) -> None:
    (item,) = parse_text(f"fn f(x) = {format_expr(expr)}").items
    assert isinstance(item, ast.Fn)
    assert item.body == expr


@given(expressions)
@settings(max_examples=100, deadline=None)
def test_no_pair_of_parentheses_can_be_left_out(expr: ast.Expr) -> None:
    text = format_expr(expr)
    marks = [token for token in scan(text) if token.kind is not Kind.COMMENT]
    opened = []
    for at, mark in enumerate(marks):
        if mark.text == "(":
            is_call = at > 0 and (marks[at - 1].text == "]" or marks[at - 1].kind is Kind.WORD)
            is_call = is_call and marks[at - 1].text not in ("not", "and", "or")
            opened.append((mark, is_call))
        elif mark.text == ")":
            start, is_call = opened.pop()
            if not is_call:
                left_out = text[: start.start] + " " + text[start.end : mark.start] + " " + text[mark.end :]
                assert_means_something_else(left_out, expr)


def assert_means_something_else(text: str, expr: ast.Expr) -> None:
    try:
        (item,) = parse_text(f"fn f(x) = {text}").items
    except SpecError:  # a chain, or `not` behind an operator
        return
    assert isinstance(item, ast.Fn)
    assert item.body != expr


@given(st.lists(items, max_size=3))
@settings(max_examples=100, deadline=None)
def test_files_come_back_and_format_to_themselves(written: list[ast.Item]) -> None:
    text = format_file(ast.File(tuple(written), (), Source("", "")))
    file = parse_text(text)
    assert list(file.items) == written
    assert format_file(file) == text


# --- comments -------------------------------------------------------------------------------------


@given(st.sampled_from(OK_CASES), st.randoms(use_true_random=False), st.integers(1, 8))
@settings(max_examples=150, deadline=None)
def test_comments_are_never_lost(path: Path, chance: random.Random, many: int) -> None:
    """Comments, line ends and blank lines are put between any two tokens of a spec."""
    text = path.read_bytes().decode("utf-8")
    pieces = [token.text for token in scan(text) if token.kind is not Kind.COMMENT]
    for number in range(many):
        before, behind = "\n" * chance.randrange(3), "\n" * chance.randrange(1, 3)
        pieces.insert(chance.randrange(len(pieces) + 1), f"{before}# {number}{behind}")
    file = parse_text(" ".join(pieces))
    assert file.items == parse_text(text).items
    formatted = format_file(file)
    again = parse_text(formatted)
    assert again.items == file.items
    assert Counter(c.text for c in again.comments) == Counter(f"# {n}" for n in range(many))
    assert format_file(again) == formatted
    assert "\n\n\n" not in formatted


@pytest.mark.parametrize("path", OK_CASES, ids=lambda path: path.stem)
def test_line_ends_do_not_matter(path: Path) -> None:
    text = path.read_bytes().decode("utf-8").replace("\r\n", "\n").replace("\r", "\n")
    expected = format_file(parse_text(text))
    for line_end in ("\r\n", "\r"):
        assert format_file(parse_text(text.replace("\n", line_end))) == expected


# --- layouts --------------------------------------------------------------------------------------


def test_a_group_breaks_only_where_it_must() -> None:
    layout = Group(("a", Nest(2, (Line(), Group(("b", Line(), "c")), Line(), "d"))))
    assert render(layout, 7) == "a b c d"
    assert render(layout, 6) == "a\n  b c\n  d"
    assert render(layout, 4) == "a\n  b\n  c\n  d"


def test_what_follows_a_group_counts() -> None:
    layout = (enclosed("f(", ["a", "b"], ")", ","), " -> y")
    assert render(layout, 12) == "f(a, b) -> y"
    assert render(layout, 11) == "f(\n  a,\n  b,\n) -> y"


def test_a_group_behind_may_break_instead() -> None:
    layout = (Group(("a", Line(), "b")), Group((" {", Line(""), "c", IfBroken(","), Line(""), "}")))
    assert render(layout, 6) == "a b {\nc,\n}"


def test_joined() -> None:
    assert render(joined(["a", "b", "c"], ", "), WIDTH) == "a, b, c"
    assert render(joined([], ", "), WIDTH) == ""
