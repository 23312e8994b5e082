"""The oracle arithmetic: right kernels never fail it, faulty ones do, decisions are as expected.

A simulated kernel is the formula in PyTorch on the compute type: rounded after each step, as a GPU
does it, or with contracted products.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.behaviour.closeness import FORMATS, spacing
from tests.behaviour.oracle_package import load

o = load("_oracle")
checking = load("_check")
intervals = load("_intervals")

Formula = Callable[..., Any]
F32, F64, F16, BF16 = torch.float32, torch.float64, torch.float16, torch.bfloat16
E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2

SPECIAL = (
    *(sign * x for sign in (1.0, -1.0) for x in (0.0, 1.0, 0.5, 2.5, 1e-40, 1e-30, 3.4e38)),
    *(math.inf, -math.inf, math.nan),
    *(1.2e-38, 1e20, 1.5, 88.7, 89.0, -88.0, -104.0, 3.0, 7.0, 16777217.0, 65520.0, 448.0, 464.0),
)


def draw(
    count: int, generator: torch.Generator, dtype: torch.dtype = F32, width: float | None = None
) -> Tensor:
    """Normal numbers of several widths with special values among them; of one `width`, none."""
    numbers = torch.randn(count, generator=generator, dtype=F64)
    if width is not None:
        return (numbers * width).to(dtype)
    widths = torch.tensor([1e-3, 1.0, 10.0, 100.0], dtype=F64)
    numbers *= widths[torch.randint(len(widths), (count,), generator=generator)]
    special = torch.tensor(SPECIAL, dtype=F64)[torch.randint(len(SPECIAL), (count,), generator=generator)]
    return torch.where(torch.rand(count, generator=generator) < 0.15, special, numbers).to(dtype)


def rounded(x: Tensor, dtype: torch.dtype) -> Tensor:
    """A cast in the middle of a simulated kernel, to nearest even."""
    numbers, largest = x.to(F64), FORMATS[dtype].largest
    step = spacing(torch.where(numbers.isfinite(), numbers, 0.0), dtype)
    near = torch.round(numbers / step) * step
    if dtype == E4M3:
        return near.clamp(-largest, largest).to(x.dtype)
    return torch.where(near.abs() > largest, near * math.inf, near).to(x.dtype)


def contracted(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    """`a * b + c` of f32 numbers, rounded once (but for the double rounding of f64 to f32)."""
    return (a.double() * b.double() + c.double()).float()


@dataclass(frozen=True)
class Case:
    """A formula of `arity` tensors, on oracle values and as a simulated kernel."""

    name: str
    formula: Formula
    kernel: Formula
    arity: int = 1


def softplus(x: Any) -> Any:
    return o.maximum(x, 0.0) + o.log1p(o.exp(-o.absolute(x)))


def softplus_kernel(x: Tensor) -> Tensor:
    return torch.relu(x) + torch.log1p(torch.exp(-x.abs()))


def gelu_tanh(x: Any) -> Any:
    return 0.5 * x * (1.0 + o.tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)))


def gelu_tanh_kernel(x: Tensor) -> Tensor:
    return 0.5 * x * (1 + torch.tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)))


FUNCTIONS = (
    "exp exp2 expm1 log log2 log1p sqrt rsqrt sin cos tanh erf erfc sigmoid floor ceil trunc sign "
    "isnan isinf isfinite"
)

CASES = (
    Case("add", lambda a, b: a + b, torch.add, 2),
    Case("subtract", lambda a, b: a - b, torch.sub, 2),
    Case("multiply", lambda a, b: a * b, torch.mul, 2),
    Case("divide", lambda a, b: a / b, torch.div, 2),
    Case("floor_divide", lambda a, b: a // b, torch.floor_divide, 2),
    Case("remainder", lambda a, b: a % b, torch.remainder, 2),
    Case("power", lambda a, b: a**b, torch.pow, 2),
    Case(
        "power_of_open_base",
        lambda a, b: (a - b) ** 3 + (a * b) ** b,
        lambda a, b: (a - b) ** 3 + (a * b) ** b,
        2,
    ),
    Case("square", lambda a, b: (a - b) ** 2, lambda a, b: (a - b) * (a - b), 2),
    Case("reciprocal", lambda a, b: (a - b) ** -1, lambda a, b: 1 / (a - b), 2),
    Case("reflected", lambda a: 2 - 1.0 / (3 * a) + 2.0**a, lambda a: 2 - 1 / (3 * a) + 2**a),
    Case("fma", o.fma, lambda a, b, c: a * b + c, 3),
    Case("lerp", lambda a, b, t: a + (b - a) * t, lambda a, b, t: a + (b - a) * t, 3),
    Case("rotation", lambda a, b, c, d: a * c - b * d, lambda a, b, c, d: a * c - b * d, 4),
    Case("softplus", softplus, softplus_kernel),
    Case("silu", lambda x: x * o.sigmoid(x), lambda x: x * torch.sigmoid(x)),
    Case(
        "gelu",
        lambda x: 0.5 * x * o.erfc(x * -0.7071067811865476),
        lambda x: 0.5 * x * torch.erfc(x * -0.7071067811865476),
    ),
    Case("gelu_tanh", gelu_tanh, gelu_tanh_kernel),
    Case("mish", lambda x: x * o.tanh(softplus(x)), lambda x: x * torch.tanh(softplus_kernel(x))),
    Case(
        "norm",
        lambda x, v: x * o.rsqrt(v * v + 1e-5),
        lambda x, v: x * torch.rsqrt(v * v + 1e-5),
        2,
    ),
    Case(
        "minimum_maximum",
        lambda a, b, c: o.minimum(o.maximum(a, b), c, 0.5),
        lambda a, b, c: torch.minimum(torch.maximum(a, b), c).clamp(max=0.5),
        3,
    ),
    Case(
        "clamp",
        lambda a, b, c: o.clamp(a * 2.0, b, c),
        lambda a, b, c: torch.minimum(torch.maximum(a * 2, b), c),
        3,
    ),
    Case(
        "compare",
        lambda a, b: o.where(a * b < 1.0, a, b),
        lambda a, b: torch.where(a * b < 1, a, b),
        2,
    ),
    Case(
        "compare_functions",
        lambda a, b: o.where((o.exp(a) <= b) & (a != b), a + 1.0, b),
        lambda a, b: torch.where((torch.exp(a) <= b) & (a != b), a + 1, b),
        2,
    ),
    Case(
        "steps",
        lambda a, b: o.floor(a * b) + o.ceil(a) - o.round_even(b) * o.trunc(a),
        lambda a, b: torch.floor(a * b) + torch.ceil(a) - torch.round(b) * torch.trunc(a),
        2,
    ),
    Case(
        "questions",
        lambda a, b: o.where(o.isnan(a * b), 1.0, o.where(o.isinf(a + b), 2.0, 3.0)),
        lambda a, b: torch.where((a * b).isnan(), 1.0, torch.where((a + b).isinf(), 2.0, 3.0).to(a.dtype)).to(
            a.dtype
        ),
        2,
    ),
    *(
        Case(
            f"through_{str(dtype)[6:]}",
            lambda a, b, dtype=dtype: o.cast(o.tanh(a) * b, dtype) * b,
            lambda a, b, dtype=dtype: rounded(torch.tanh(a) * b, dtype) * b,
            2,
        )
        for dtype in (F16, BF16, E4M3, E5M2)
    ),
    *(Case(name, getattr(o, name), getattr(torch, name)) for name in FUNCTIONS.split()),
    *(
        Case(
            f"{name}_of_difference",
            lambda a, b, name=name: getattr(o, name)(a - b),
            lambda a, b, name=name: getattr(torch, name)(a - b),
            2,
        )
        for name in FUNCTIONS.split()
    ),
)


def run(case: Case, kernel: Formula, inputs: list[Tensor], dtype: torch.dtype, report: Any = None) -> None:
    """Checks a simulated kernel on inputs of a storage type, with its output in that type."""
    compute = F64 if dtype == F64 else F32
    actual = kernel(*(x.to(compute) for x in inputs))
    stored = actual.dtype if actual.dtype == torch.bool else dtype
    expected = case.formula(*(o.exact(x) for x in inputs))
    checking.check(actual.to(stored), expected, stored, name=case.name, report=report)


@pytest.mark.parametrize("dtype", [F32, F16, BF16, F64], ids=str)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_right_kernel_never_fails(case: Case, dtype: torch.dtype, generator: torch.Generator) -> None:
    inputs = [draw(2001, generator, dtype) for _ in range(case.arity)]
    run(case, case.kernel, inputs, dtype)


CONTRACTIONS = (
    ("difference_of_squares", lambda a, b: a * a - b * b, lambda a, b: contracted(a, a, -(b * b))),
    ("difference_of_squares_2", lambda a, b: a * a - b * b, lambda a, b: contracted(-b, b, a * a)),
    (
        "lerp",
        lambda a, b: a + (b - a) * 0.25,
        lambda a, b: contracted(b - a, torch.tensor(0.25), a),
    ),
    ("negated", lambda a, b: -(a * b) + b, lambda a, b: contracted(-a, b, b)),
)


@pytest.mark.parametrize(("name", "formula", "kernel"), CONTRACTIONS, ids=[row[0] for row in CONTRACTIONS])
def test_a_contracted_kernel_never_fails(
    name: str, formula: Formula, kernel: Formula, generator: torch.Generator
) -> None:
    inputs = [draw(20_000, generator) for _ in range(2)]
    run(Case(name, formula, kernel, 2), kernel, inputs, F32)


SETTLED = [case for case in CASES if not case.name.startswith("is") and "power_of" not in case.name]


@pytest.mark.parametrize("dtype", [F32, F16, BF16], ids=str)
@pytest.mark.parametrize("case", SETTLED, ids=lambda case: case.name)
def test_the_bounds_of_ordinary_numbers_are_worth_having(
    case: Case, dtype: torch.dtype, generator: torch.Generator
) -> None:
    report = checking.Report(case.name)
    inputs = [draw(2000, generator, dtype, width=2.0) for _ in range(case.arity)]
    run(case, case.kernel, inputs, dtype, report)
    report.settle()


# Faults: each must fail on ordinary numbers.


@dataclass(frozen=True)
class Fault:
    """A formula of two tensors, and a kernel that is wrong in one place."""

    name: str
    formula: Formula
    kernel: Formula
    dtypes: tuple[torch.dtype, ...] = (F32, F16, BF16)


FAULTS = (
    Fault(
        "constant_changed_by_a_percent",
        lambda a, b: o.sigmoid(1.702 * a) * b,
        lambda a, b: torch.sigmoid(1.719 * a) * b,
    ),
    Fault(
        "constant_of_gelu",
        lambda a, b: gelu_tanh(a),
        lambda a, b: 0.5 * a * (1 + torch.tanh(0.7978845608 * (a + 0.0449 * a * a * a))),
    ),
    Fault("swapped_operands", lambda a, b: a - b * o.sigmoid(a), lambda a, b: b - a * torch.sigmoid(b)),
    Fault("swapped_quotient", lambda a, b: a / b, lambda a, b: b / a),
    Fault("dropped_term", lambda a, b: a * b + 1e-3 * a, lambda a, b: a * b),
    Fault("eps_outside", lambda a, b: a * o.rsqrt(b * b + 1e-5), lambda a, b: a / (b.abs() + 1e-5)),
    Fault("lost_bf16_rounding", lambda a, b: o.cast(a * b, BF16) * b, lambda a, b: a * b * b),
    Fault("lost_f16_rounding", lambda a, b: o.cast(o.exp(a), F16) * b, lambda a, b: torch.exp(a) * b),
    Fault("added_bf16_rounding", lambda a, b: a * b + b, lambda a, b: rounded(a * b, BF16) + b),
    Fault(
        "truncating_cast",
        lambda a, b: o.cast(a * b, BF16),
        lambda a, b: ((a * b).view(torch.int32) & -65536).view(F32),
        (F32, BF16),
    ),
    Fault(
        "less_for_less_equal",
        lambda a, b: o.where(o.floor(a) <= o.floor(b), a, b),
        lambda a, b: torch.where(a.floor() < b.floor(), a, b),
    ),
    Fault("floor_for_trunc", lambda a, b: o.trunc(a * b), lambda a, b: torch.floor(a * b)),
    Fault(
        "round_half_up",
        lambda a, b: o.round_even(0.5 * o.floor(a)),
        lambda a, b: torch.floor(0.5 * a.floor() + 0.5),
    ),
    Fault("truncated_remainder", lambda a, b: a % b, torch.fmod),
    Fault("tanh_for_sigmoid", lambda a, b: o.sigmoid(a), lambda a, b: torch.tanh(a)),
    Fault("flushed_products", lambda a, b: (a * 1e-40) * 1e38, lambda a, b: a * 0.0, (F32,)),
    Fault(
        "lost_accuracy_near_zero",
        lambda a, b: o.expm1(1e-3 * a),
        lambda a, b: torch.exp(1e-3 * a) - 1,
        (F32,),
    ),
)


@pytest.mark.parametrize(
    ("fault", "dtype"),
    [pytest.param(fault, dtype, id=f"{fault.name}-{dtype}") for fault in FAULTS for dtype in fault.dtypes],
)
def test_a_faulty_kernel_fails(fault: Fault, dtype: torch.dtype, generator: torch.Generator) -> None:
    inputs = [draw(500, generator, dtype, width=1.5) for _ in range(2)]
    with pytest.raises(AssertionError, match="elements are wrong"):
        run(Case(fault.name, fault.formula, fault.kernel, 2), fault.kernel, inputs, dtype)


SPECIAL_FAULTS = (
    (
        "maximum_loses_nan",
        lambda x: o.maximum(x, 0.0),
        lambda x: torch.fmax(x, torch.tensor(0.0)),
        math.nan,
    ),
    (
        "clamp_loses_nan",
        lambda x: o.clamp(x, -1.0, 1.0),
        lambda x: torch.nan_to_num(x, -1.0).clamp(-1, 1),
        math.nan,
    ),
    ("naive_softplus", softplus, lambda x: torch.log1p(torch.exp(x)), 200.0),
    (
        "ratio_of_exponentials",
        o.tanh,
        lambda x: (torch.exp(2 * x) - 1) / (torch.exp(2 * x) + 1),
        300.0,
    ),
    ("lost_sign_of_zero", lambda x: x * 2.0, lambda x: x * 2 + 0.0, -0.0),
    ("lost_sign_by_subtraction", lambda x: -x, lambda x: 0.0 - x, 0.0),
    ("overflow_saturates", lambda x: x * 10.0, lambda x: (x * 10).clamp(-3.4e38, 3.4e38), 3e38),
    ("early_overflow", lambda x: x * 1.1, lambda x: x * 1.1e10 * 1e-10, 1e37),
    ("flushed_subnormal_product", lambda x: x * 0.5, lambda x: x * 0.0, 1e-39),
    (
        "where_leaks_nan",
        lambda x: o.where(x < 0.0, 1.0, o.sqrt(x)),
        lambda x: (x < 0) * 1.0 + (x >= 0) * torch.sqrt(x),
        -1.0,
    ),
)


@pytest.mark.parametrize(
    ("formula", "kernel", "x"),
    [row[1:] for row in SPECIAL_FAULTS],
    ids=[row[0] for row in SPECIAL_FAULTS],
)
def test_a_fault_on_a_special_value_fails(formula: Formula, kernel: Formula, x: float) -> None:
    inputs = torch.tensor([x], dtype=F32)
    with pytest.raises(AssertionError, match="1 of 1 elements are wrong"):
        checking.check(kernel(inputs), formula(o.exact(inputs)), F32, name="special")


# Decisions


def open_value(lo: float, hi: float) -> Any:
    """An f32 value that a kernel may have anywhere between two numbers."""
    tensors = (torch.tensor([x], dtype=F64) for x in ((lo + hi) / 2, lo, hi))
    value, low, high = tensors
    return o.Value(value, low, high, "f32", torch.tensor([False]), torch.zeros(1, dtype=F64))


def ends(value: Any) -> tuple[float, float]:
    return value.lo.item(), value.hi.item()


@pytest.mark.parametrize(
    ("lo", "hi", "formula", "expected", "slack"),
    [
        (1.99, 2.01, o.floor, (1, 2), 1),
        (2.0, 2.01, o.floor, (2, 2), 0),
        (1.99, 2.0, o.ceil, (2, 2), 0),
        (-0.01, 0.01, o.trunc, (0, 0), 0),
        (0.49, 0.5, o.round_even, (0, 0), 0),
        (0.49, 0.51, o.round_even, (0, 1), 1),
        (-0.5, 0.5, o.sign, (-1, 1), 1),
        (0.99, 1.01, lambda x: x < 1.0, (0, 1), 1),
        (0.99, 1.0, lambda x: x <= 1.0, (1, 1), 0),
        (0.99, 1.0, lambda x: x > 1.0, (0, 0), 0),
        (0.99, 1.0, lambda x: x == 1.0, (0, 1), 1),
        (0.98, 0.99, lambda x: x != 1.0, (1, 1), 0),
        (2.99, 3.01, lambda x: o.cast(x, torch.int32), (2, 3), 1),
        (2.99, 3.01, lambda x: o.cast(x, torch.bool), (1, 1), 0),
        (1.001, 1.003, lambda x: o.cast(x, BF16), (1, 1), 0),
        (1.003, 1.004, lambda x: o.cast(x, BF16), (1, 1 + 2**-7), 1),
        (-1e-39, 0.0, lambda x: o.cast(x, BF16), (-11 * 2.0**-133, 0), 0),
        (0.9, 1.1, lambda x: o.where(x < 1.0, 5.0, -x), (-float(np.float32(1.1)), 5), 1),
        (5.9, 6.1, lambda x: x // 3.0, (1, 2), 1),
        (5.9, 6.1, lambda x: x % 3.0, (0, 3), 1),
        (5.9, 6.1, lambda x: o.cast(x, torch.int32) * 4, (20, 24), 1),
        (-1.0, 2.0, lambda x: x * x, (0, 4), 0),
        (-1.0, 2.0, o.absolute, (0, 2), 0),
        (-1.0, 2.0, lambda x: 1.0 / x, (-math.inf, math.inf), 0),
    ],
)
def test_a_decision_is_open_only_near_its_boundary(
    lo: float, hi: float, formula: Formula, expected: tuple[float, float], slack: float
) -> None:
    low, high = (float(np.float32(x)) for x in (lo, hi))
    result = formula(open_value(low, high))
    assert ends(result) == expected
    assert result.slack.item() == slack


def test_what_may_be_nan_is_said() -> None:
    around_zero, infinite = open_value(-1.0, 1.0), open_value(1.0, math.inf)
    for value in (
        o.sqrt(around_zero),
        o.log(around_zero),
        around_zero * math.inf,
        infinite - math.inf,
        around_zero / 0.0,
    ):
        assert value.nan.item()
        assert not value.lo.isnan().item()
    for value in (o.sqrt(open_value(-2.0, -1.0)), o.exact(torch.tensor([math.nan])) + 1.0):
        assert value.nan.item()
        assert value.lo.isnan().item()
    assert not o.exp(around_zero).nan.item()


# Numbers


def test_integers_wrap_in_their_type() -> None:
    x = o.exact(torch.tensor([2**31 - 1, -(2**31)], dtype=torch.int32))
    assert ((x + 1).kind, (x + 1).value.tolist()) == ("i32", [-(2**31), -(2**31) + 1])
    assert (x * 2).value.tolist() == [-2, 0]
    assert (-x).value.tolist() == [-(2**31) + 1, -(2**31)]
    wide = x + o.exact(torch.tensor([1, -1]))
    assert (wide.kind, wide.value.tolist()) == ("i64", [2**31, -(2**31) - 1])
    assert o.cast(o.exact(torch.tensor([128, -129, 300])), torch.int8).value.tolist() == [
        -128,
        127,
        44,
    ]
    assert o.cast(o.exact(torch.tensor([-1, 256])), torch.uint8).value.tolist() == [255, 0]
    assert (x + 2**40).kind == "i64"


def test_integer_division_follows_python() -> None:
    numbers = [(a, b) for a in range(-9, 10) for b in range(-4, 5) if b]
    a, b = (o.exact(torch.tensor(side)) for side in zip(*numbers, strict=True))
    assert (a // b).value.tolist() == [x // y for x, y in numbers]
    assert (a % b).value.tolist() == [x % y for x, y in numbers]
    unspecified = a // 0
    assert (unspecified.lo < -(2**62)).all()
    assert (unspecified.hi > 2**62).all()


def test_floats_divide_like_python(generator: torch.Generator) -> None:
    a, b = (draw(300, generator, width=10.0).to(F64) for _ in range(2))
    quotient, rest = o.exact(a) // o.exact(b), o.exact(a) % o.exact(b)
    for i in range(300):
        x, y = a[i].item(), b[i].item()
        assert quotient.lo[i].item() == x // y == quotient.hi[i].item()
        assert rest.lo[i].item() <= x % y <= rest.hi[i].item()


def test_kinds_follow_the_operands() -> None:
    yes = o.exact(torch.tensor([True, False]))
    whole, half, double = (o.exact(torch.ones(2, dtype=dtype)) for dtype in (torch.int8, F16, F64))
    assert ((yes + yes).kind, (yes + yes).value.tolist()) == ("i32", [2, 0])
    assert ((yes & True).kind, (yes ^ yes).value.tolist()) == ("bool", [False, False])
    assert [(whole / 2).kind, (whole**2).kind, (whole + 0.5).kind, (whole + half).kind] == ["f32"] * 4
    assert [(half + double).kind, (double + 1).kind, (whole * double).kind] == ["f64"] * 3
    assert (half + 0.1).value[0].item() != 1.1
    assert (double + 0.1).value[0].item() == 1.1
    assert o.sigmoid(whole).kind == "f32"
    assert (7 - whole).value.tolist() == [6, 6]
    assert (whole << 3 | 1).value.tolist() == [9, 9]
    assert (~whole).value.tolist() == [-2, -2]
    assert o.exact(torch.tensor([16777217], dtype=torch.int32) + 0).kind == "i32"
    assert (o.exact(torch.tensor([16777217])) + 0.0).value.item() == 16777216.0


@pytest.mark.parametrize(
    ("x", "dtype", "expected"),
    [
        (math.nan, torch.int32, 0),
        (3e9, torch.int32, 2**31 - 1),
        (-math.inf, torch.int64, -(2**63)),
        (math.inf, torch.int64, 2**63 - 1),
        (-1.9, torch.uint8, 0),
        (-1.9, torch.int8, -1),
        (300.0, torch.int8, 127),
        (0.1, torch.bool, True),
        (math.nan, torch.bool, True),
        (1e9, E4M3, 448.0),
        (-math.inf, E4M3, -448.0),
        (61440.0, E5M2, math.inf),
        (61439.0, E5M2, 57344.0),
        (65519.0, F16, 65504.0),
        (65520.0, F16, math.inf),
    ],
)
def test_casts(x: float, dtype: torch.dtype, expected: float) -> None:
    result = o.cast(o.exact(torch.tensor([x])), dtype)
    assert ends(result) == (expected, expected)
    assert not result.nan.item()


def test_rounding_is_to_nearest_even_in_one_step(generator: torch.Generator) -> None:
    numbers = torch.randn(50_000, generator=generator, dtype=F64) * torch.exp2(
        torch.randint(-30, 20, (50_000,), generator=generator)
    )
    ties = torch.arange(2049.0, 4096.0, dtype=F64) + 0.5
    numbers = torch.cat([numbers, ties, ties + 1e-9, ties - 1e-9, ties * 2.0**-24])
    with np.errstate(over="ignore"):
        direct = torch.from_numpy(numbers.numpy().astype(np.float16)).to(F64)
    assert torch.equal(intervals.nearest(numbers, F16), direct)
    for dtype in (BF16, E4M3, E5M2, F16):
        assert torch.equal(intervals.nearest(numbers, dtype), rounded(numbers, dtype)), dtype


def test_nibbles_are_unpacked_low_first() -> None:
    packed = torch.tensor([[0x1F, 0x80]], dtype=torch.uint8)
    assert o.exact_nibbles(packed, signed=True).value.tolist() == [[-1, 1, 0, -8]]
    assert o.exact_nibbles(packed, signed=False).value.tolist() == [[15, 1, 0, 8]]


# Layout


def test_align_permutes_and_inserts_dims() -> None:
    x = o.exact(torch.arange(6.0).reshape(2, 3))
    assert torch.equal(o.align(x, "K M", "... M N K").value, x.value.T[:, None, :])
    assert o.align(o.exact(torch.zeros(5, 4, 3)), "... C", "... R C").shape == (5, 4, 1, 3)
    with pytest.raises(ValueError, match="not in"):
        o.align(x, "K M", "M N")


def test_gather_gives_zero_outside() -> None:
    table = torch.arange(12.0).reshape(4, 3)
    ids = o.exact(torch.tensor([[0, 3], [-1, 4]]))
    taken = o.take(o.exact(table), "V C", {"V": o.align(ids, "B S", "B S C")}, "B S C")
    expected = torch.stack([torch.stack([table[0], table[3]]), torch.zeros(2, 3)])
    assert torch.equal(taken.value, expected.to(F64))
    shift = o.take(o.exact(table), "R C", {"C": o.index(3) + 1}, "R C")
    assert torch.equal(shift.value, torch.cat([table[:, 1:], torch.zeros(4, 1)], 1).to(F64))


# The report


def test_a_loose_bound_fails_the_report(generator: torch.Generator) -> None:
    x = draw(1000, generator, width=2.0)
    expected = o.exact(x) * 1.0
    loose = o.Value(
        expected.value, expected.lo - 1e-3, expected.hi + 1e-3, "f32", expected.nan, expected.slack
    )
    report = checking.Report("loose")
    checking.check(x, loose, F32, name="loose", report=report)
    with pytest.raises(AssertionError, match="loose bounds"):
        report.settle()


def test_too_much_slack_fails_the_report(generator: torch.Generator) -> None:
    x = draw(1000, generator, width=2.0)
    near = torch.where(torch.arange(1000) % 10 == 0, torch.zeros(()), x)
    report = checking.Report("slack")
    open_sign = o.sin(o.exact(x)) - o.sin(o.exact(x))
    expected = o.where(o.exact(near) + open_sign > 0.0, 1.0, 0.0)
    checking.check((near > 0).float(), expected, F32, name="slack", report=report)
    with pytest.raises(AssertionError, match="too much slack"):
        report.settle()


def test_an_empty_bound_fails_the_report(generator: torch.Generator) -> None:
    x = draw(1000, generator, width=2.0)
    expected = o.exact(x) * 1.0
    empty = o.Value(
        expected.value,
        expected.lo - math.inf,
        expected.hi + math.inf,
        "f32",
        expected.nan,
        expected.slack,
    )
    report = checking.Report("empty")
    checking.check(x, empty, F32, name="empty", report=report)
    with pytest.raises(AssertionError, match="too few bounds"):
        report.settle()


def test_a_failure_names_the_worst_element() -> None:
    actual = torch.tensor([[1.0, 2.5], [math.inf, 4.0]])
    expected = o.exact(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
    with pytest.raises(
        AssertionError,
        match=r"^op: 2 of 4 elements .* at \[1, 0\]: got inf, expected 3.0, allowed 3.0$",
    ):
        checking.check(actual, expected, F32, name="op")
    with pytest.raises(AssertionError, match="not torch"):
        checking.check(actual, expected, F16, name="op")
    with pytest.raises(AssertionError, match="shape"):
        checking.check(actual[0, 0], expected, F32, name="op")
