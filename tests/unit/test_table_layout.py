"""Tables are laid out as black lays them out, and a whole text as if black had seen them in it."""

import ast
from collections.abc import Sequence

import black
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opgen.emit.render import MODE, formatted
from opgen.emit.table_layout import laid_out, table_of

NAMES = st.sampled_from(["rt.BEYOND", "x", "_launch_of_a_kernel_with_a_long_name", "rt.config"])
STRINGS = st.integers(0, 30).map(lambda length: f'"{("sm_90, (half) " * 3)[:length]}"')
LEAVES = st.one_of(st.integers(0, 2**40).map(str), st.booleans().map(str), STRINGS, NAMES)
KEYS = st.one_of(
    st.integers(0, 99).map(str), st.sampled_from(['"half"', '"f32"', '"a target, of a long name"'])
)


def _tuple(items: list[str]) -> str:
    return f"({', '.join(items)}{',' if len(items) == 1 else ''})"


def _call(arguments: tuple[str, list[str], list[str]]) -> str:
    name, plain, named = arguments
    words = [*plain, *(f"argument_{number}={value}" for number, value in enumerate(named))]
    return f"{name}({', '.join(words)})"


def _dict(entries: Sequence[tuple[str | None, str]]) -> str:
    return f"{{{', '.join(f'**{value}' if key is None else f'{key}: {value}' for key, value in entries)}}}"


def _wider(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    calls = st.tuples(NAMES, st.lists(inner, max_size=5), st.lists(inner, max_size=3)).map(_call)
    pairs = st.one_of(st.tuples(KEYS, inner), st.tuples(st.none(), calls))
    return st.one_of(st.lists(inner, max_size=5).map(_tuple), calls, st.lists(pairs, max_size=4).map(_dict))


DATA = st.recursive(LEAVES, _wider, max_leaves=40)
TABLES = st.lists(st.tuples(KEYS, DATA), max_size=4).map(_dict)


@given(name=st.sampled_from(["_CONFIGS", "_CONFIGS_12"]), data=TABLES)
@settings(max_examples=200, deadline=None)
def test_as_black_does(name: str, data: str) -> None:
    line = f"{name} = {data}"
    (statement,) = ast.parse(line).body
    table = table_of(statement, line)
    assert table is not None
    assert laid_out(table, MODE.line_length) + "\n" == black.format_str(line, mode=MODE)


LONG = ", ".join(f'"sm_{number}": ({number}, {number})' for number in range(20))

AMONG_CODE = f"""import a
_WALK = a.walk( 1,2 )
_ONE = {{{LONG}}}
_TWO = {{}}


_THREE = {{{LONG}}}
def f():
    _FOUR = {{{LONG}}}
    return [ ]
"""

IN_A_DOCSTRING = f"""'''Lines that look like tables, or like what stands for them.

_ONE = data0
_ONE = data_0
_ONE = {{{LONG}}}
'''
_ONE = {{{LONG}}}
"""


@pytest.mark.parametrize(
    "text",
    [
        AMONG_CODE,
        IN_A_DOCSTRING,
        f'_ONE = {{{LONG}, "more": 1 + 2}}\n_TWO = {{"sum": [1, 2], {LONG}}}\n_THREE = _FOUR = {{{LONG}}}\n',
        f"_ONE = {{{LONG}}}; _TWO = {{{LONG}}}\n",
        f"_ONE = {{{LONG}}}  # a remark\n_TWO={{{LONG}}}\n_THREE = {{\n{LONG}}}\n",
        f'"""A line that ends\rearly."""\n_ONE = {{{LONG}}}\n_TWO = {{{LONG}}}\n',
        f'_ONE = {{{LONG}, "größer": "μ"}}\n',
    ],
)
def test_a_text_with_tables(text: str) -> None:
    assert formatted(text, "here") == black.format_str(text, mode=MODE)
