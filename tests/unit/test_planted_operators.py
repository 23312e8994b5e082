"""The operators that plant faults find their sites, and change nothing else."""

import ast

import pytest

from tests.planted.equivalence import by_rule
from tests.planted.operators import sites

SOURCE = '''
@triton.jit(do_not_specialize=range(2, 3))
def kernel(x_ptr, y_ptr, n: tl.constexpr, BLOCK: tl.constexpr):
    """Not `1 + 2`."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    x = tl.load(x_ptr + at, mask=mask, other=0).to(tl.float32)
    y = tl.where(x > 0.5, x - 1.5, -x)
    tl.store(y_ptr + at, maximum(y, 2.0).to(y_ptr.dtype.element_ty), mask=mask)
'''


def found(operator: str) -> list[tuple[str, str]]:
    return [(site.before, site.after) for site in sites(SOURCE) if site.operator == operator]


@pytest.mark.parametrize(
    ("operator", "expected"),
    [
        ("64-bit widening dropped", [("tl.program_id(0).to(tl.int64)", "tl.program_id(0)")]),
        ("comparison changed", [("at < n", "at <= n"), ("x > 0.5", "x >= 0.5")]),
        ("comparison reversed", [("at < n", "at >= n"), ("x > 0.5", "x <= 0.5")]),
        ("operands swapped", [("x - 1.5", "1.5 - x")]),
        ("sign or negation dropped", [("-x", "x")]),
        ("branches swapped", [("tl.where(x > 0.5, x - 1.5, -x)", "tl.where(x > 0.5, -x, x - 1.5)")]),
        ("NaN flag dropped", [("maximum(y, 2.0)", "tl.maximum(y, 2.0)")]),
        ("load mask dropped", [("tl.load(x_ptr + at, mask=mask, other=0)", "tl.load(x_ptr + at)")]),
        (
            "constant changed",
            [
                ("0", "1"),
                ("0", "1"),
                ("0", "1"),
                ("0.5", "0.50390625"),
                ("1.5", "1.51171875"),
                ("2.0", "2.015625"),
            ],
        ),
    ],
)
def test_sites(operator: str, expected: list[tuple[str, str]]) -> None:
    assert sorted(found(operator)) == sorted(expected)


def test_each_site_changes_one_place() -> None:
    plain = ast.unparse(ast.parse(SOURCE)).split("\n")
    texts = [site.source.split("\n") for site in sites(SOURCE)]
    assert len(texts) > 30
    for text in texts:
        assert sum(one != other for one, other in zip(plain, text, strict=True)) == 1
        assert text[:3] == plain[:3]  # neither the decorator nor the signature nor the docstring


def test_symmetric_arguments_are_no_fault() -> None:
    source = "def f(a, b, c):\n    return (b * 2 + a * 2) / c\n\ndef g(x, y, z):\n    return f(x, y, z)\n"
    swaps = {site.after: by_rule(site) for site in sites(source) if site.operator == "arguments swapped"}
    assert swaps == {
        "f(y, x, z)": "the function that is called is symmetric in the two arguments",
        "f(x, z, y)": None,
    }
