"""The type and the dims that an expression gets, read off the value that it lowers to."""

import pytest

from opgen.diagnostics import SpecError
from opgen.ir.nodes import Graph, Literal
from tests.lowering import lowered

HEAD = """op f(
  h: f16[..., M, K], x: f32[M, K], d: f64[K], e: f8e4m3[K], i: i32[K], j: i8[M], l: i64[K], u: u8[K], b: bool[M],
  c: bool[K], s: f32[M, K / 128], t: f32[K / 64], w: f32[K * 2], q: i4[K], beta: f32, big: f64, n: i8, flag: bool,
  const fast: bool, const p: i64
) -> r: f32[..., M, K]
"""


def graph(expression: str) -> Graph:
    """The graph of `v = expression`, with a result that only needs it to be alive."""
    text = f"{HEAD}{{ v = {expression}  r = 0 * sum_all(v) }}\nfn sum_all(v) = where(isfinite(v), 0, 1)\n"
    return lowered(text).ops[0].variants[0].graph


def type_of(expression: str) -> str:
    """`type[dims]` of the value that is named `v`, or of the parameter behind it."""
    text = f"{HEAD}{{ v = {expression}  r = where(any_of(v), 0, 1) }}\nfn any_of(v) = v != v\n"
    values = lowered(text).ops[0].variants[0].graph.values
    named = [value for value in values if value.name == "v"]
    return str(named[0].type)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("h + h", "f32[..., M, K]"),
        ("h * 2", "f32[..., M, K]"),
        ("e + 1", "f32[K]"),
        ("d + h", "f64[..., M, K]"),
        ("d * 0.1", "f64[K]"),
        ("beta * d", "f64[K]"),
        ("big * x", "f64[M, K]"),
        ("i + u", "i32[K]"),
        ("i + l", "i64[K]"),
        ("i + 1.0", "f32[K]"),
        ("l + 0.5", "f32[K]"),
        ("i + 3000000000", "i64[K]"),
        ("i / 2", "f32[K]"),
        ("l ** 2", "f32[K]"),
        ("i // 2", "i32[K]"),
        ("u % 3", "i32[K]"),
        ("d // 2", "f64[K]"),
        ("q + 1", "i32[K]"),
        ("n + n", "i32[]"),
        ("p + n", "i64[]"),
        ("K + 1", "i64[]"),
        ("index[M] * 2", "i64[M]"),
        ("b + b", "i32[M]"),
        ("b * x", "f32[M, K]"),
        ("-b", "i32[M]"),
        ("+(b)", "i32[M]"),
        ("b & c", "bool[M, K]"),
        ("b & j", "i32[M]"),
        ("~b", "bool[M]"),
        ("~i", "i32[K]"),
        ("not b and flag", "bool[M]"),
        ("b == true", "bool[M]"),
        ("i << 2", "i32[K]"),
        ("x < i", "bool[M, K]"),
        ("where(b, 1, 2)", "i32[M]"),
        ("where(b, 1, 2.5)", "f32[M]"),
        ("where(b, 1, d)", "f64[M, K]"),
        ("where(fast, b, false)", "bool[M]"),
        ("where(b, b, 0)", "i32[M]"),
        ("floor(i) + floor(x)", "f32[M, K]"),
        ("abs(j)", "i32[M]"),
        ("exp(i)", "f32[K]"),
        ("exp(c)", "f32[K]"),
        ("isnan(d)", "bool[K]"),
        ("min(i, l, 3)", "i64[K]"),
        ("clamp(u, 0, 1.0)", "f32[K]"),
        ("cast(x, f16)", "f16[M, K]"),
        ("cast(x, i4)", "i4[M, K]"),
        ("cast(i, f8e5m2)", "f8e5m2[K]"),
        ("sum[K](h)", "f32[..., M]"),
        ("sum[...](h)", "f32[M, K]"),
        ("sum[M](b)", "i64[]"),
        ("prod[K](u)", "i64[]"),
        ("mean[K](i)", "f32[]"),
        ("var[K](d)", "f64[]"),
        ("max[K](u)", "i32[]"),
        ("max[M](b)", "bool[]"),
        ("argmax[M, K](x)", "i64[]"),
        ("any[M](b)", "bool[]"),
        ("logsumexp[K](l)", "f32[]"),
        ("sum[K / 128](s)", "f32[M]"),
        ("s * t", "f32[M, K / 64]"),
        ("x * s", "f32[M, K]"),
        ("s * x", "f32[M, K]"),
        ("t * index[K]", "f32[K]"),
        ("d * x", "f64[M, K]"),
        ("j + i", "i32[M, K]"),
        ("i + j", "i32[K, M]"),
        ("x @ d", "f64[M]"),
        ("h @ x", "f32[..., M]"),
        ("i @ u", "i32[]"),
        ("i @ l", "i64[]"),
        ("c @ c", "i32[]"),
        ("c @ x", "f32[M]"),
        ("w[K * 2: index[K] + K]", "f32[K]"),
        ("x[K: 0]", "f32[M]"),
        ("d[K: i]", "f64[K]"),
        ("x[M: index[K]]", "f32[K]"),
        ("rand[M](n)", "f32[M]"),
        ("rand[..., K](1)", "f32[..., K]"),
        ("softmax[K](h)", "f32[..., M, K]"),
        ("relu(i)", "i32[K]"),
    ],
)
def test_types(expression: str, expected: str) -> None:
    assert type_of(expression) == expected


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("x * (1 / 3)", "f32 1/3"),
        ("d * (1 / 3)", "f64 1/3"),
        ("i * (7 // 2)", "i32 3"),
        ("x * (7 / 2)", "f32 7/2"),
        ("x * -0.0", "f32 -0.0"),
        ("x * -2 ** 2", "f32 -4"),
        ("i + (4 / 2)", "f32 2"),
        ("x * min(2, max(1, 0.5))", "f32 1"),
        ("x * where(1 < 2, 3, 4)", "f32 3"),
        ("x * inf", "f32 inf"),
        ("x * (1.0 / 0.0)", "f32 inf"),
        ("i + true", "i32 1"),
        ("l + 5", "i64 5"),
        ("x * square(1.5)", "f32 9/4"),
    ],
)
def test_literals(expression: str, expected: str) -> None:
    values = graph(expression).values
    literals = {
        f"{value.type.dtype} {value.node.number.value}" for value in values if isinstance(value.node, Literal)
    }
    assert expected in literals


@pytest.mark.parametrize(
    ("expression", "code"),
    [
        ("x and b", "OPG403"),
        ("where(x, 1, 2)", "OPG403"),
        ("x & i", "OPG404"),
        ("any[K](i)", "OPG403"),
        ("sum[K](s)", "OPG511"),
        ("sum[M](d)", "OPG511"),
        ("w + sum[K](w)", "OPG511"),
        ("index[...]", "OPG532"),
        ("x @ s", "OPG522"),
        ("x @ w", "OPG522"),
        ("big @ x", "OPG520"),
        ("rand[M](beta)", "OPG534"),
        ("rand[M](i)", "OPG534"),
        ("x[K: beta]", "OPG543"),
        ("x * 1e400", "OPG411"),
        ("x * 1e39", "OPG411"),
        ("l + (1 << 63)", "OPG411"),
        ("softmax[Q](x)", "OPG503"),
    ],
)
def test_mistakes(expression: str, code: str) -> None:
    with pytest.raises(SpecError) as caught:
        graph(expression)
    assert [
        diagnostic.code for diagnostic in caught.value.diagnostics if diagnostic.severity.value == "error"
    ] == [code]
