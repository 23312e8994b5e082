"""Specs without end: each is refused with a diagnostic, quickly."""

import pytest

from opgen.diagnostics import SpecError
from tests.lowering import lowered


def codes(text: str) -> set[str]:
    with pytest.raises(SpecError) as caught:
        lowered(text)
    return {diagnostic.code for diagnostic in caught.value.diagnostics}


def _op(body: str) -> str:
    return f"op f(x: T[N]) -> y: T[N] {{ {body} }}\n"


def test_functions_that_call_functions_for_ever() -> None:
    chain = "".join(f"fn f{n}(x) = 1 + f{n - 1}(x) * 2\n" for n in range(1, 600))
    assert codes(f"fn f0(x) = x\n{chain}{_op('y = f599(x)')}") == {"OPG699"}


def test_functions_that_double_are_expanded_once_for_each_argument() -> None:
    # 2**40 calls, if an expansion were not shared.
    doubling = "".join(f"fn f{n}(x) = f{n - 1}(x) + f{n - 1}(x)\n" for n in range(1, 41))
    graph = lowered(f"fn f0(x) = x * x\n{doubling}{_op('y = f40(x)')}").ops[0].variants[0].graph
    assert len(graph.values) < 50


def test_functions_that_expand_without_end() -> None:
    growing = "".join(f"fn f{n}(x) = f{n - 1}(f{n - 1}(x))\n" for n in range(1, 21))
    assert codes(f"fn f0(x) = exp(x)\n{growing}{_op('y = f20(x)')}") == {"OPG424"}


@pytest.mark.parametrize(
    "literal",
    [
        "2 ** 2 ** 2 ** 2 ** 2 ** 2",
        "exp(exp(exp(exp(10))))",
        "1e999999999999",
        "(1 << (1 << 40))",
        "0.1 ** 100000",
        "sin(10 ** 5000)",
    ],
)
def test_literals_without_end(literal: str) -> None:
    assert codes(_op(f"y = x * {literal}")) <= {"OPG410", "OPG411"}


def test_literals_that_square_without_end() -> None:
    squares = " ".join(f"v{n} = v{n - 1} * v{n - 1}" for n in range(1, 60))
    assert codes(_op(f"v0 = 1.1 {squares} y = x * v59")) == {"OPG410"}


@pytest.mark.parametrize("literal", ["1e-999999999999", "exp(-1e300)", "2 ** -2000", "erfc(1e10)"])
def test_literals_that_vanish(literal: str) -> None:
    assert lowered(_op(f"y = x * {literal}")).ops
