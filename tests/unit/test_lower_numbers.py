"""Exact literals against PyTorch's f64 (specials and signs of zero included) and against true digits."""

import itertools
import math
from fractions import Fraction

import pytest
import torch

from opgen.dtypes import DTYPES, Kind
from opgen.ir.decimals import PI
from opgen.ir.folding import fold
from opgen.ir.numbers import Exact, FoldError, cast, exact, fits, parse_number, round_to_float

VALUES = (
    0.0,
    -0.0,
    0.3,
    -0.3,
    0.5,
    -0.5,
    1.0,
    -1.0,
    2.5,
    -2.5,
    3.0,
    -3.0,
    40.0,
    -40.0,
    math.inf,
    -math.inf,
    math.nan,
)
UNARY = {
    "neg": torch.neg, "abs": torch.abs, "sign": torch.sign, "floor": torch.floor, "ceil": torch.ceil,
    "round": torch.round, "trunc": torch.trunc, "sqrt": torch.sqrt, "rsqrt": torch.rsqrt, "exp": torch.exp,
    "exp2": torch.exp2, "expm1": torch.expm1, "log": torch.log, "log2": torch.log2, "log1p": torch.log1p,
    "sin": torch.sin, "cos": torch.cos, "tanh": torch.tanh, "erf": torch.erf, "erfc": torch.erfc,
    "sigmoid": torch.sigmoid, "isnan": torch.isnan, "isinf": torch.isinf, "isfinite": torch.isfinite,
}  # fmt: skip
BINARY = {
    "add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": torch.div, "floordiv": torch.floor_divide,
    "mod": torch.remainder, "pow": torch.pow, "min": torch.minimum, "max": torch.maximum, "lt": torch.lt,
    "le": torch.le, "gt": torch.gt, "ge": torch.ge, "eq": torch.eq, "ne": torch.ne,
}  # fmt: skip
TORCH_TYPES = {
    "f32": torch.float32,
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "f8e5m2": torch.float8_e5m2,
}


def f64(value: float) -> torch.Tensor:
    return torch.tensor(value, dtype=torch.float64)


def same(folded: Exact, expected: float) -> bool:
    value = float(folded.value)
    if math.isnan(value) or math.isnan(expected):
        return math.isnan(value) and math.isnan(expected)
    if value == 0 or expected == 0 or math.isinf(expected):
        return value == expected and math.copysign(1, value) == math.copysign(1, expected)
    return math.isclose(value, expected, rel_tol=1e-14)


@pytest.mark.parametrize("name", UNARY)
def test_functions_of_one_literal(name: str) -> None:
    for value in VALUES:
        expected = float(UNARY[name](f64(value)))
        assert same(fold(name, [exact(value, Kind.FLOAT)]), expected), value


@pytest.mark.parametrize("name", BINARY)
def test_operators_of_two_literals(name: str) -> None:
    for left, right in itertools.product(VALUES, VALUES):
        folded = fold(name, [exact(left, Kind.FLOAT), exact(right, Kind.FLOAT)])
        assert same(folded, float(BINARY[name](f64(left), f64(right)))), (left, right)


@pytest.mark.parametrize(
    ("name", "args", "expected", "kind"),
    [
        ("div", (7, 2), "3.5", Kind.FLOAT),
        ("floordiv", (7, 2), "3", Kind.INTEGER),
        ("floordiv", (-7, 2), "-4", Kind.INTEGER),
        ("mod", (-7, 2), "1", Kind.INTEGER),
        ("pow", (2, 10), "1024", Kind.FLOAT),
        ("mul", (0, -1), "0", Kind.INTEGER),
        ("shl", (1, 40), "1099511627776", Kind.INTEGER),
        ("bitand", (6, 3), "2", Kind.INTEGER),
        ("max", (1, 2), "2", Kind.INTEGER),
        ("abs", (-3,), "3", Kind.INTEGER),
        ("lt", (1, 2), "1", Kind.BOOL),
    ],
)
def test_integers_stay_exact(name: str, args: tuple[int, ...], expected: str, kind: Kind) -> None:
    folded = fold(name, [exact(arg, Kind.INTEGER) for arg in args])
    assert (folded.value, folded.kind) == (Fraction(expected), kind)


def test_bools_stay_bools_under_bit_operators() -> None:
    true, false = exact(1, Kind.BOOL), exact(0, Kind.BOOL)
    assert fold("invert", [true]) == false
    assert fold("bitxor", [true, true]) == false
    assert fold("add", [true, true]) == exact(2, Kind.INTEGER)
    assert fold("bitor", [true, exact(2, Kind.INTEGER)]) == exact(3, Kind.INTEGER)


@pytest.mark.parametrize(
    ("folded", "digits"),
    [
        # Digits of OEIS A076668, A001113, A002193 and A019774.
        (fold("sqrt", [fold("div", [exact(2, Kind.INTEGER), Exact(exact(PI, Kind.FLOAT).number, Kind.FLOAT)])]),
         "0.797884560802865355879892119868763736951717"),
        (fold("exp", [exact(1, Kind.INTEGER)]), "2.718281828459045235360287471352662497757247"),
        (fold("pow", [exact(2, Kind.INTEGER), exact(0.5, Kind.FLOAT)]), "1.414213562373095048801688724209698078569671"),
        (fold("exp", [exact(0.5, Kind.FLOAT)]), "1.648721270700128146848650787814163571653776"),
    ],
)  # fmt: skip
def test_forty_digits(folded: Exact, digits: str) -> None:
    assert abs(Fraction(folded.value) - Fraction(digits)) < Fraction(1, 10**41)


@pytest.mark.parametrize("name", [*TORCH_TYPES, "f8e4m3"])
def test_rounding_to_a_type(name: str) -> None:
    dtype = DTYPES[name]
    torch_type = TORCH_TYPES.get(name, torch.float8_e4m3fn)
    generator = torch.Generator().manual_seed(0)
    largest = 130 if name == "f32" else 127
    exponents = torch.randint(-160, largest, (4000,), generator=generator, dtype=torch.float64)
    values = (torch.rand(4000, generator=generator, dtype=torch.float64) * 2 - 1) * 2**exponents
    if name != "f32":
        values = values.float().double()  # PyTorch narrows f64 by way of f32
    narrowed = values.float().to(torch_type)
    for value, there in zip(values.tolist(), narrowed.tolist(), strict=True):
        saturates = name == "f8e4m3" and abs(value) > 448  # PyTorch gives NaN there
        expected = math.copysign(448.0, value) if saturates else there
        assert same(exact(round_to_float(exact(value, Kind.FLOAT).value, dtype), Kind.FLOAT), expected), value


def test_casts() -> None:
    assert cast(Fraction(-7, 2), DTYPES["i32"]) == -3
    assert cast(Fraction(300), DTYPES["i8"]) == 127
    assert cast(-math.inf, DTYPES["u8"]) == 0
    assert cast(math.nan, DTYPES["i64"]) == 0
    assert cast(Fraction(1, 10**100), DTYPES["bool"]) == 1
    assert cast(Fraction(10**6), DTYPES["f16"]) == math.inf
    assert cast(math.inf, DTYPES["f8e4m3"]) == 448


def test_what_fits() -> None:
    largest = Fraction(2) ** 128 - Fraction(2) ** 104
    half_a_unit = Fraction(2) ** 103
    assert fits(largest + half_a_unit - 1, DTYPES["f32"])
    assert not fits(largest + half_a_unit, DTYPES["f32"])
    assert fits(math.inf, DTYPES["f16"])
    assert not fits(math.inf, DTYPES["i32"])
    assert fits(Fraction(2**63 - 1), DTYPES["i64"])
    assert not fits(Fraction(2**63), DTYPES["i64"])
    assert fits(Fraction(464), DTYPES["f8e4m3"])
    assert not fits(Fraction(465), DTYPES["f8e4m3"])


@pytest.mark.parametrize(
    ("text", "value", "kind"),
    [
        ("1_000", 1000, Kind.INTEGER),
        ("0x1F", 31, Kind.INTEGER),
        ("0b11", 3, Kind.INTEGER),
        ("1.", 1, Kind.FLOAT),
        (".5", Fraction(1, 2), Kind.FLOAT),
        ("1_0.2_5e-1", Fraction(41, 40), Kind.FLOAT),
        ("0.1", Fraction(1, 10), Kind.FLOAT),
        ("0e99999999", 0, Kind.FLOAT),
    ],
)
def test_literals_as_written(text: str, value: Fraction, kind: Kind) -> None:
    assert parse_number(text) == exact(Fraction(value), kind)


def test_literals_longer_than_python_converts() -> None:
    number = parse_number("9" * 5000)
    assert number.value == 10**5000 - 1
    assert len({number, parse_number("9" * 5000), parse_number("1e5000")}) == 2


def test_division_of_integers_by_zero_has_no_value() -> None:
    for name in ("div", "floordiv", "mod"):
        with pytest.raises(FoldError):
            fold(name, [exact(1, Kind.INTEGER), exact(0, Kind.INTEGER)])
