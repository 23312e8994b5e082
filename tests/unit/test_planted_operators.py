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
    texts = [ast.unparse(ast.parse(site.source)).split("\n") for site in sites(SOURCE)]
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


def test_only_the_wrapper_of_a_launch_may_go() -> None:
    source = "def launch(via, x, y, n):\n    via(kernel)[n.grid](x, y, n.numel)\n"
    found = [(site.before, site.after, by_rule(site)) for site in sites(source)]
    kept = [(before, after) for before, after, reason in found if reason is None]
    assert [(before, after) for before, after, reason in found if reason] == [("via(kernel)", "kernel")]
    assert ("via(kernel)[n.grid](x, y, n.numel)", "via(kernel)[n.grid](y, x, n.numel)") in kept


OPERATOR = """
_OPERATOR = rt.Operator(
    inputs=(
        rt.Tensor('ids', 'i64', ('M',), across=True),
        rt.Tensor('table', 'f32', ('V', 'N'), across=True),
        rt.Tensor('bias', 'T', ('N',), across=True),
        rt.Tensor('x', 'T', ('M', 'N')),
    ),
    results=(rt.Tensor('y', 'T', ('M', 'N')),),
    variables={'T': (torch.float16, torch.float32)},
)
_WALK = rt.Walk(accesses=(rt.Access('table', ('V', 'N'), gathered=('V',)), rt.Access('bias', ('N',))))
"""


def test_which_tensors_may_be_written_memory() -> None:
    """A gathered one of a type that the result may have; not one of another type, nor one that broadcasts."""
    found = [site for site in sites(OPERATOR) if site.operator == "flag changed" and site.before == "True"]
    reasons = [by_rule(site) for site in sorted(found, key=lambda site: site.line)]
    assert reasons == [
        "a tensor of another element type is never the view that is written",
        None,
        "a broadcast tensor has a written one's shape only where it does not broadcast",
    ]
    updated = OPERATOR.replace("'T', ('M', 'N'))),", "'T', ('M', 'N'))),").replace(
        "rt.Tensor('x', 'T'", "rt.Tensor('x', 'i64'"
    )
    updated = updated.replace("('M', 'N')),\n    )", "('M', 'N'), written=True),\n    )")
    first = next(site for site in sites(updated) if site.operator == "flag changed")
    assert by_rule(first) == "a broadcast tensor has a written one's shape only where it does not broadcast"


def test_roles_are_known() -> None:
    roles = {(site.before, site.role) for site in sites(SOURCE) if site.role}
    assert roles == {("at < n", "compared"), ("x > 0.5", "compared"), ("0.5", "compared"), ("0", "other")}
