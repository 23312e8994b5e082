"""Types, literals, casts, scalars, consts, updates in place and functions, with values from PyTorch's f64 and i64."""

import importlib
import math
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - as PyTorch's users know it
from torch import Tensor

from tests.behaviour.building import build_package
from tests.behaviour.language import DTYPES, Row, check


def wrapped(x: Tensor) -> Tensor:
    """An i32 result of i64 arithmetic."""
    return x.to(torch.int32).long()


def rounded(x: Tensor | float, element: str) -> Tensor:
    """A value as one of a narrower type, widened again."""
    return torch.as_tensor(x).to(DTYPES[element]).double()


def saturated(x: Tensor, element: str) -> Tensor:
    """Floats as integers: truncated, saturated, 0 for NaN, in Python's integers."""
    limits = torch.iinfo(DTYPES[element])
    ends = {math.inf: limits.max, -math.inf: limits.min}
    integers = [
        0 if math.isnan(one) else ends[one] if math.isinf(one) else min(max(int(one), limits.min), limits.max)
        for one in x.double().tolist()
    ]
    return torch.tensor(integers)


def saturated_e4m3(x: Tensor) -> Tensor:
    return x.double().clamp(-448.0, 448.0).float().to(torch.float8_e4m3fn).double()


INTEGERS = ("i64", "i32", "i16", "i8", "u8")
ROWS = (
    *(
        Row(
            f"op arithmetic_{element}(a: {element}[M], b: {element}[M], n: {element} = 3) ->\n"
            f"(p: {element}[M], q: i64[M], r: i64[M], s: i64[M], t: i64[M], u: f32[M]) {{\n"
            "  p = a + b - n q = a * b * 3 r = a // n + b % n s = (a & b) | (a ^ n) t = ~a >> 1 u = a / n }",
            {"a": f"{element} 9", "b": f"{element} 9", "n": number},
            lambda a, b, n, element=element: (
                (a.long() + b.long() - int(n)).to(DTYPES[element]),
                a.long() * b.long() * 3,
                a.long().div(int(n), rounding_mode="floor") + b.long() % int(n),
                (a.long() & b.long()) | (a.long() ^ int(n)),
                ~a.long() >> 1,
                a.double() / int(n),
            ),
        )
        for element, number in zip(
            INTEGERS, (-7, torch.tensor(5, dtype=torch.int32), -4, 3, 200), strict=True
        )
    ),
    Row(
        "op wraps(a: i32[M], b: i64[M]) -> (p: i32[M], q: i64[M], r: u8[M], s: i32[M]) {\n"
        "  p = a * a * 65537 q = a * a r = b s = a << 3 }",
        {"a": "i32 9 in -2147483648 .. 2147483647", "b": "i64 9 in -1099511627776 .. 1099511627776"},
        lambda a, b: (
            wrapped(a.long() ** 2 * 65537),
            wrapped(a.long() ** 2),
            b.to(torch.uint8),
            wrapped(a.long() << 3),
        ),
    ),
    Row(
        "op bools(a: bool[M], b: bool[M]) -> (p: bool[M], q: bool[M], r: i32[M], s: f32[M], t: bool[M]) {\n"
        "  p = not a and b or a q = a ^ b | ~a r = a + a - b s = a / 2 t = a < b }",
        {"a": "bool 9", "b": "bool 9"},
        lambda a, b: (~a & b | a, a ^ b | ~a, 2 * a.long() - b.long(), a.double() / 2, ~a & b),
    ),
    Row(
        "op mixed(a: i32[M], b: i64[M], c: f16[M], d: f64[M], e: bool[M]) ->\n"
        "(p: i64[M], q: f32[M], r: f64[M], s: f32[M]) {\n"
        "  p = a + b + e q = a + c r = c * d s = d * 2 }",
        {"a": "i32 9", "b": "i64 9", "c": "f16 9", "d": "f64 9", "e": "bool 9"},
        lambda a, b, c, d, e: (a + b + e.long(), a.double() + c.double(), c.double() * d, d * 2),
    ),
    Row(
        "op narrowed(x: f64[M], n: i64[M]) -> (p: f32[M], q: f16[M], r: i32[M], s: i16[M]) { p = x q = x r = n s = n }",
        {"x": "f64 9", "n": "i64 9 in -1099511627776 .. 1099511627776"},
        lambda x, n: (x, x, n.to(torch.int32), n.to(torch.int16)),
    ),
    Row(
        "op casts(x: f32[M]) -> (a: i8[M], b: u8[M], c: i32[M], d: i64[M], e: bool[M], g: f16[M], h: f32[M]) {\n"
        "  a = cast(x, i8) b = cast(x, u8) c = cast(x, i32) d = cast(x, i64) e = cast(x, bool)\n"
        "  g = x h = cast(x, bf16) }",
        {"x": "f32 30 in -300 .. 300 special"},
        lambda x: (
            *(saturated(x, element) for element in ("i8", "u8", "i32", "i64")),
            x != 0,
            x.double(),
            rounded(x, "bf16"),
        ),
    ),
    Row(
        "op eighths(x: f32[M]) -> (a: f8e4m3[M], b: f8e5m2[M], c: f32[M], d: f32[M]) {\n"
        "  a = x b = x c = cast(x, f8e4m3) d = cast(x, f8e5m2) }",
        {"x": "f32 30 in -600 .. 600 special"},
        lambda x: (saturated_e4m3(x), rounded(x, "f8e5m2"), saturated_e4m3(x), rounded(x, "f8e5m2")),
    ),
    Row(
        "op rounding(x: f32[M]) -> (y: f32[M], z: f32[M], n: f32[M]) {\n"
        "  h: f16 = x * 3 k: i32 = x y = h + 1 z = k n = round(x) }",
        {"x": "f32 9"},
        lambda x: (rounded(x * 3, "f16") + 1, saturated(x, "i32"), x.double().round()),
        magnitude=16.0,
    ),
    Row(
        "op literals(x: f64[M], n: i32[M]) ->\n"
        "(a: i32[M], b: i64[M], c: f32[M], d: f64[M], e: f32[M], g: f32[M], h: i64[M]) {\n"
        "  a = 0x1f + 0b11 + 0o7 b = 1 << 40 c = -0.0 d = x * 0.1 + 1 / 3 e = -2 ** 2 * 2 ** 3 ** 2 g = n * -0.0\n"
        "  h = n + 3000000000 }",
        {"x": "f64 9", "n": "i32 9 in 1 .. 9"},
        lambda x, n: (
            torch.tensor(41),
            torch.tensor(1 << 40),
            torch.tensor(-0.0),
            x * 0.1 + 1 / 3,
            torch.tensor(-2048.0),
            torch.tensor(-0.0),
            n.long() + 3000000000,
        ),
        magnitude=8.0,
    ),
    Row(
        "op defaults(x: f32[M], b: f32[M] = -0.0, w: f64[M] = 0.1, k: bool[M] = true, n: i64[] = -7) ->\n"
        "(y: f64[M], z: f32[M]) {\n"
        "  y = where(k, x * w, 0) + n z = b }",
        {"x": "f32 9"},
        lambda x: (x.double() * 0.1 - 7, torch.tensor(-0.0)),
        magnitude=8.0,
    ),
    Row(
        "op precedence(a: i32[M], b: i32[M]) -> (p: i32[M], q: bool[M], r: i32[M], s: f32[M]) {\n"
        "  p = a | b ^ 5 & a << 1 + 1 q = not a < b | 3 and b > 0 or a == b\n"
        "  r = a - b - a * 2 // 3 % 4 s = 2 ** -b * -a ** 2 }",
        {"a": "i32 9 in -9 .. 9", "b": "i32 9 in -9 .. 9"},
        lambda a, b: (
            a | (b ^ (5 & (a << 2))),
            (~(a < (b | 3)) & (b > 0)) | (a == b),
            a - b - (a * 2).div(3, rounding_mode="floor") % 4,
            0.5 ** b.double() * -(a.double() ** 2),
        ),
    ),
    *(
        Row(
            f"op scalars{number}(x: f32[M], a: f32, n: i32, k: i64, e: f64, u: bool, v: f16 = 0.1, const c: i32 = -3,\n"
            "const t: bool = false) -> (p: f32[M], q: bool[M], r: i64[M], s: f64[M], w: f32[M], g: f32[M]) {\n"
            "  p = where(u and not t and x > 0, x ** 2 * a, clamp(x, -a, a))\n"
            "  q = (a > 1) | (x > 0) & (n > 3) ^ isnan(e) r = (k + n) // c s = x * e + v w = x % a - x // a\n"
            "  g = a ** abs(x) + M }",
            {
                "x": "f32 9",
                "a": a,
                "n": 3 + number,
                "k": 2**40 * (-1) ** number,
                "e": e,
                "u": u,
                "c": -3 - number,
            },
            lambda x, a, n, k, e, u, c: (
                torch.where(
                    (x > 0) & bool(u), x.double() ** 2 * float(a), x.double().clamp(-float(a), float(a))
                ),
                (float(a) > 1) | ((x > 0) & (n > 3)) ^ math.isnan(e),
                torch.tensor((k + n) // c),
                x.double() * e + float(torch.tensor(0.1).half()),
                x.double() % float(a) - x.double() // float(a),
                float(a) ** x.double().abs() + 9,
            ),
            magnitude=16.0,
        )
        for number, (a, e, u) in enumerate(
            ((1.5, 0.1, True), (torch.tensor(0.75), math.nan, torch.tensor(True)), (2, 3.0, False))
        )
    ),
    Row(
        "op choices(c: bool[M], a: f32[N], b: i32[M]) -> (y: f32[M, N], z: i64[M], w: f64[M]) {\n"
        "  y = where(c, a, b) z = where(c, 1, 5000000000) w = where(c, 0.1, -inf) }",
        {"c": "bool 9", "a": "f32 3", "b": "i32 9"},
        lambda c, a, b: (
            torch.where(c[:, None], a.double(), b.double()[:, None]),
            torch.where(c, 1, 5000000000),
            torch.where(c, 0.1, -math.inf).double(),
        ),
    ),
    Row(
        "op special(x: f32[M], y: f32[M]) -> (a: f32[M], b: f32[M], c: f32[M], d: bool[M], e: bool[M], g: f32[M]) {\n"
        "  a = min(x, y, 3) b = relu(max(x, y)) c = clamp(x, -1, y)\n"
        "  d = x != y or x <= y e = isinf(x) or isfinite(y) g = -abs(x) }",
        {"x": "f32 40 special", "y": "f32 40"},
        lambda x, y: (
            torch.minimum(torch.minimum(x, y), torch.tensor(3.0)),
            torch.maximum(x, y).relu(),
            torch.minimum(torch.maximum(x, torch.tensor(-1.0)), y),
            (x != y) | (x <= y),
            x.isinf() | y.isfinite(),
            -x.abs(),
        ),
    ),
    Row(
        "op updated(inout m: f32[M], inout v: f64[M], g: bf16[M], b: f64) -> (u: f16[M], w: f32[M]) {\n"
        "  w = m m = m * 0.5 + g v = v * b + g * g u = m / (abs(v) + 1) }",
        {"m": "f32 9", "v": "f64 9", "g": "bf16 9", "b": 0.9},
        lambda m, v, g, b: (
            (m.double() * 0.5 + g.double()) / ((v * b + g.double() ** 2).abs() + 1),
            m,
            m.double() * 0.5 + g.double(),
            v * b + g.double() ** 2,
        ),
        magnitude=16.0,
    ),
    Row(
        "op shifted(inout x: f32[M], i: i32[M]) { x = x[M: i] + x[M: index[M] + 1] }",
        {"x": "f32 5", "i": "i32 5 in 0 .. 4"},
        lambda x, i: x.double()[i.long()] + torch.cat((x.double()[1:], torch.zeros(1))),
        magnitude=8.0,
    ),
    Row(
        "fn twice(a) = a * 2   # of any shape\n"
        "fn weighted[C](x, w) = twice(x) + index[C] * w + C\n"
        "fn at[C](x, i) = x[C: i]\n"
        "fn softsign(x) = x + 1   # in place of the prelude's\n"
        "op functions(x: f32[M, N], w: f32[N]) -> y: f32[M, N] { y = weighted[N](x, w) - at[M](x, 0) + softsign(w) }",
        {"x": "f32 3 4", "w": "f32 4"},
        lambda x, w: 2 * x.double() + torch.arange(4) * w.double() + 4 - x.double()[0] + w.double() + 1,
        magnitude=16.0,
    ),
    Row(
        "op prelude(x: f32[M]) -> (a: f32[M], b: f32[M], c: f32[M], d: f32[M]) {\n"
        "  a = leaky_relu(x, 0.1) + elu(x, 1) + selu(x) + celu(x) + softplus(x) + softsign(x) + hardtanh(x)\n"
        "  b = hardsigmoid(x) + hardswish(x) + logsigmoid(x) + tanhshrink(x) + squared_relu(x) + relu6(x)\n"
        "  c = square(x) + reciprocal(x + 9) + lerp(x, 2, 0.3) + tan(x / 4) + sinh(x) + cosh(x) + log10(x + 9)\n"
        "  d = gelu(x) + gelu_tanh(x) + mish(x) + swish(x, 2) + silu(x) + quick_gelu(x) + softcap(x, 5) }",
        {"x": "f32 30"},
        lambda x: tuple(map(sum, _prelude(x.double()))),
        magnitude=32.0,
    ),
    Row(
        "op\tspread # an odd layout { } )\n(\nx:T[...,M,],b:T[M]=0,)->(y:T[...,M],)for T in{f16,f32,}{y=x+-b#end\n}",
        {"x": "f16 2 3", "b": "f16 3"},
        lambda x, b: x.double() - b.double(),
        magnitude=8.0,
    ),
)


def _prelude(x: Tensor) -> Any:
    yield (F.leaky_relu(x, 0.1), F.elu(x), F.selu(x), F.celu(x), F.softplus(x), F.softsign(x), F.hardtanh(x))
    yield (F.hardsigmoid(x), F.hardswish(x), F.logsigmoid(x), x - x.tanh(), F.relu(x) ** 2, F.relu6(x))
    yield (x**2, 1 / (x + 9), x + 0.3 * (2 - x), (x / 4).tan(), x.sinh(), x.cosh(), (x + 9).log10())
    tanh = F.gelu(x, approximate="tanh")
    gates = (x * (2 * x).sigmoid(), F.silu(x), x * (1.702 * x).sigmoid())
    yield (F.gelu(x), tanh, F.mish(x), *gates, 5 * (x / 5).tanh())


@pytest.fixture(scope="module")
def modules(tmp_path_factory: pytest.TempPathFactory) -> dict[str, ModuleType]:
    """The functions that a row defines are its own, so those rows have a package of their own."""
    alone = [row for row in ROWS if row.spec.startswith("fn")]
    together = "\n".join(row.spec for row in ROWS if row not in alone)
    packages = [
        build_package(text, tmp_path_factory.mktemp("numbers"))
        for text in (together, *(row.spec for row in alone))
    ]
    return {
        name: importlib.import_module(f"{package.__name__}.{name}")
        for package in packages
        for name in package.__all__
    }


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_values(row: Row, modules: dict[str, ModuleType], device: torch.device) -> None:
    layouts = (
        ("contiguous", "stepped") if "inout" in row.spec else ("contiguous", "stepped", "expanded_columns")
    )
    check(row, modules[row.name], layouts, device)


@pytest.mark.parametrize("name", ["literals", "defaults"])
def test_minus_zero_keeps_its_sign(name: str, modules: dict[str, ModuleType], device: torch.device) -> None:
    module = modules[name]
    x = torch.ones(3, dtype=torch.float32 if name == "defaults" else torch.float64, device=device)
    inputs = (x,) if name == "defaults" else (x, torch.ones(3, dtype=torch.int32, device=device))
    zeros = [result for result in getattr(module, name)(*inputs) if result.eq(0).all()]
    assert len(zeros) == (1 if name == "defaults" else 2)
    assert all(zero.signbit().all() for zero in zeros)


def test_every_choice_of_two_type_variables(tmp_path: Path, device: torch.device) -> None:
    text = """
    op pair(x: T[M], b: U[N]) -> (y: T[M, N], z: U[N]) for T in {f64, f32, i32, f8e4m3}, U in {f16, i64, bool} {
      y = where(b != 0, x, x)
      z = b
    }
    """
    op = build_package(text, tmp_path).pair
    for first in ("f64", "f32", "i32", "f8e4m3"):
        for second in ("f16", "i64", "bool"):
            x = torch.tensor([1.0, -3.0], device=device).to(DTYPES[first])
            b = torch.tensor([0.0, 1.0, 1.0], device=device).to(DTYPES[second])
            y, z = op(x, b)
            assert (y.dtype, z.dtype) == (x.dtype, b.dtype)
            assert y.double().tolist() == [[1.0] * 3, [-3.0] * 3]
            assert torch.equal(z, b)
