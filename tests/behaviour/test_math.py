"""The elementary functions of generated packages against PyTorch in float64."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import triton
import triton.language as tl

from benchmarks import function_accuracy as accuracy
from benchmarks import function_cases as cases

functions, exact = cases.math, cases.exact

COUNT = 1 << 14

# Formulas whose argument is a rounded product inside an exponential lose |z| units in their lower
# tail; those that multiply by a small number lose the results below x times the smallest normal float.
INEXACT_FORMULAS = ("silu", "swish", "gelu", "gelu_tanh", "quick_gelu", "mish", "softcap")


def exact_case(case: Any) -> bool:
    return case.source != "formula" or case.name not in INEXACT_FORMULAS


@pytest.mark.parametrize(
    "case",
    [c for c in cases.CASES if exact_case(c)],
    ids=lambda case: f"{case.source}-{case.name}",
)
def test_float32_error_is_within_the_limit(case: Any) -> None:
    row = accuracy.measure(case, torch.float32, COUNT, exhaustive=False)
    assert row.ulp <= case.limit, f"at {row.at}"
    assert row.edges_wrong == 0, f"at {row.edge}"
    assert row.subnormal <= 1.0


@pytest.mark.parametrize("case", [c for c in cases.FUNCTIONS if c.name != "pow"], ids=lambda case: case.name)
def test_float64_error_is_a_few_units(case: Any) -> None:
    row = accuracy.measure(case, torch.float64, COUNT // 8, exhaustive=False)
    assert row.ulp <= 8.0, f"at {row.at}"
    assert row.edges_wrong == 0, f"at {row.edge}"


def test_float64_pow_loses_one_unit_for_each_of_its_exponent() -> None:
    x, y = cases.pow_arguments(COUNT, torch.float64)
    wanted = torch.pow(x, y)
    error, small = accuracy.error_in_ulp(accuracy.evaluate(functions.pow, (x, y)), wanted, torch.float64)
    exponent = (y * torch.log2(x.abs())).abs().nan_to_num(0.0, 0.0)
    assert (error[~small] <= 4.0 + 1.5 * exponent[~small]).all()


@pytest.mark.parametrize("name", INEXACT_FORMULAS)
def test_inexact_formulas_keep_four_units_away_from_their_tail(name: str) -> None:
    formula, oracle = next(
        (cases.device_function(c), c.oracle) for c in cases.CASES if (c.source, c.name) == ("formula", name)
    )
    x = torch.linspace(-0.5, 20.0, COUNT)
    inputs = (x,) if name not in ("swish", "softcap") else (x, torch.full_like(x, 1.25))
    error, _ = accuracy.error_in_ulp(
        accuracy.evaluate(formula, inputs), oracle(*(v.double() for v in inputs)), torch.float32
    )
    assert error.max() <= 7.0


# --- scalars --------------------------------------------------------------------------------------


@triton.jit  # type: ignore[untyped-decorator]
def scalar_kernel(x, y, function: tl.constexpr):  # type: ignore[no-untyped-def]
    tl.store(y, function(tl.load(x)))


@triton.jit
def remainder_by_three(x):  # type: ignore[no-untyped-def]
    return exact.floor_mod(x, x * 0 + 3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    ("function", "wanted"),
    [
        (functions.exp, math.exp),
        (functions.log1p, math.log1p),
        (functions.erfc, math.erfc),
        (exact.round_even, round),
        (remainder_by_three, lambda x: x % 3),
    ],
    ids=lambda value: getattr(value, "__name__", "formula"),
)
def test_functions_take_scalars(
    function: Any, wanted: Callable[[float], float], dtype: torch.dtype, device: torch.device
) -> None:
    for value in (0.625, 7.5, 1e6):
        x = torch.tensor([value], dtype=dtype, device=device)
        y = torch.empty_like(x)
        scalar_kernel[(1,)](x, y, function)
        try:
            expected = wanted(value)
        except OverflowError:
            expected = math.inf
        torch.testing.assert_close(y.item(), float(expected), rtol=1e-6, atol=0.0)
