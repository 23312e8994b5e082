"""Element types and scalars: failures reported in public, with the values that the language gives."""

import math
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch

from tests.behaviour.building import build_package


@pytest.mark.parametrize("element", ["i64", "i32", "i16", "i8"])
def test_integer_division_and_remainder_round_down(
    element: str, tmp_path: Path, device: torch.device
) -> None:
    """Integer // and % truncate in kernels (triton-lang/triton#619, flagos-ai/FlagGems#204)."""
    text = f"""
    op quotient(a: {element}[...], b: {element}[...]) -> y: {element}[...] {{ y = a // b }}
    op remainder(a: {element}[...], b: {element}[...]) -> y: {element}[...] {{ y = a % b }}
    """
    ops = build_package(text, tmp_path)
    dtype = {"i64": torch.int64, "i32": torch.int32, "i16": torch.int16, "i8": torch.int8}[element]
    a = torch.tensor([7, -7, 7, -7, -8], dtype=dtype, device=device)
    b = torch.tensor([2, 2, -2, -2, 2], dtype=dtype, device=device)
    assert ops.quotient(a, b).tolist() == [3, -4, -4, 3, -4]
    assert ops.remainder(a, b).tolist() == [1, 1, -1, -1, 0]


def test_float_division_and_remainder_round_down(tmp_path: Path, device: torch.device) -> None:
    """// and % of negatives follow Python on floats, too (triton-lang/triton#954)."""
    text = """
    op quotient(a: f32[...], b: f32[...]) -> y: f32[...] { y = a // b }
    op remainder(a: f32[...], b: f32[...]) -> y: f32[...] { y = a % b }
    """
    ops = build_package(text, tmp_path)
    a = torch.tensor([7.5, -7.5, 7.5, -7.5, -8.0, -0.0, 1e30], device=device)
    b = torch.tensor([2.0, 2.0, -2.0, -2.0, 2.0, 3.0, 3.0], device=device)
    assert torch.equal(ops.quotient(a, b), torch.floor_divide(a, b))
    assert torch.equal(ops.remainder(a, b), torch.remainder(a, b))


def test_bools_are_zero_or_one_in_arithmetic(tmp_path: Path, device: torch.device) -> None:
    """True + True wraps to 0 in one bit (triton-lang/triton#10919); here bools count as i32."""
    text = """
    op total(a: bool[...], b: bool[...]) -> y: i32[...] { y = a + b }
    op either(a: bool[...], b: bool[...]) -> y: bool[...] { y = a | b }
    op both(a: bool[...], b: bool[...]) -> y: bool[...] { y = a and b }
    op difference(a: bool[...], b: bool[...]) -> y: i32[...] { y = a - b }
    """
    ops = build_package(text, tmp_path)
    a = torch.tensor([True, True, False, False], device=device)
    b = torch.tensor([True, False, True, False], device=device)
    assert ops.total(a, b).tolist() == [2, 1, 1, 0]
    assert ops.either(a, b).tolist() == [True, True, True, False]
    assert ops.both(a, b).tolist() == [True, False, False, False]
    assert ops.difference(a, b).tolist() == [0, 1, -1, 0]


@pytest.mark.parametrize("element", ["i64", "i32", "u8"])
def test_integers_in_float_functions(element: str, tmp_path: Path, device: torch.device) -> None:
    """Integer input to a float function kept the integer type (flagos-ai/Torch-FL#276)."""
    text = f"""
    op gate(x: {element}[...]) -> y: f32[...] {{ y = sigmoid(x) }}
    op ratio(a: {element}[...], b: {element}[...]) -> y: f32[...] {{ y = a / b }}
    op positive(x: {element}[...]) -> y: {element}[...] {{ y = relu(x) }}
    """
    ops = build_package(text, tmp_path)
    dtype = {"i64": torch.int64, "i32": torch.int32, "u8": torch.uint8}[element]
    x = torch.tensor([0, 1], dtype=dtype, device=device)
    torch.testing.assert_close(ops.gate(x).cpu(), torch.tensor([0.5, 0.73105858]), rtol=1e-6, atol=0)
    assert ops.ratio(x + 1, x * 0 + 2).tolist() == [0.5, 1.0]
    signed = torch.tensor([-1, 2] if dtype.is_signed else [0, 2], dtype=dtype, device=device)
    assert ops.positive(signed).tolist() == [0, 2]


def test_mixed_types_in_one_op(tmp_path: Path, device: torch.device) -> None:
    """Mixed dtypes in one pointwise op (facebookincubator/AITemplate#985): results have declared types."""
    text = """
    op select(x: f16[...], keep: bool[...]) -> y: f16[...] { y = x * keep }
    op add(a: f16[...], b: bf16[...]) -> y: f32[...] { y = a + b }
    op shift(n: i32[...]) -> y: f32[...] { y = n + 1.5 }
    op scale(x: f16[...], s: f32[]) -> y: f16[...] { y = x * s }
    op precise(x: bf16[...], s: f64[]) -> y: f64[...] { y = x * s }
    """
    ops = build_package(text, tmp_path)
    x = torch.tensor([1.5, -2.25], dtype=torch.float16, device=device)
    assert ops.select(x, torch.tensor([True, False], device=device)).tolist() == [1.5, -0.0]
    added = ops.add(x, torch.tensor([1.0, 2.0**-6], dtype=torch.bfloat16, device=device))
    assert (added.dtype, added.tolist()) == (torch.float32, [2.5, -2.25 + 2.0**-6])
    assert ops.shift(torch.tensor([1, -2], dtype=torch.int32, device=device)).tolist() == [
        2.5,
        -0.5,
    ]
    third = torch.tensor(1 / 3, device=device)
    assert torch.equal(ops.scale(x, third), (x.float() * third).half())
    exact = torch.tensor(1 / 3, dtype=torch.float64, device=device)
    assert torch.equal(ops.precise(x.bfloat16(), exact), x.bfloat16().double() * exact)


@pytest.fixture(scope="module")
def scalars(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    text = """
    op pick(m: bool[...], x: f32[...], v: f32) -> y: f32[...] { y = where(m, v, x) }
    op step(x: i64[...], n: i64) -> y: i64[...] { y = x + n }
    """
    return build_package(text, tmp_path_factory.mktemp("scalars"))


NUMBERS = (
    2,
    2.0,
    True,
    np.float32(2),
    np.int64(2),
    torch.tensor(2.0),
    torch.tensor(2),
    torch.tensor(2.0).double(),
)


@pytest.mark.parametrize(
    "value", NUMBERS, ids=lambda value: f"{type(value).__name__}-{getattr(value, 'dtype', '')}"
)
def test_a_scalar_may_be_a_number_or_a_tensor(
    value: object, scalars: ModuleType, device: torch.device
) -> None:
    """A parameter that may be a number or a tensor (flagos-ai/FlagGems#266)."""
    m, x = torch.tensor([True, False], device=device), torch.tensor([5.0, 7.0], device=device)
    expected = [1.0 if value is True else 2.0, 7.0]
    assert scalars.pick(m, x, value).tolist() == expected
    if isinstance(value, torch.Tensor):
        assert scalars.pick(m, x, value.to(device)).tolist() == expected


@pytest.mark.parametrize("value", ["2", None, [2.0], torch.zeros(1), 2j], ids=repr)
def test_anything_else_for_a_scalar_is_an_error(
    value: object, scalars: ModuleType, device: torch.device
) -> None:
    """A scalar that is neither a number nor a 0-d tensor (flagos-ai/FlagGems#266)."""
    with pytest.raises(TypeError, match=r"pick: `v`"):
        scalars.pick(torch.zeros(2, dtype=torch.bool, device=device), torch.zeros(2, device=device), value)


@pytest.mark.parametrize("value", [2.0, np.float64(2), torch.tensor(2.0)], ids=repr)
def test_an_integer_is_not_given_as_a_float(value: object, scalars: ModuleType, device: torch.device) -> None:
    """A float for a parameter that is an integer (flagos-ai/FlagGems#266)."""
    with pytest.raises(TypeError, match=r"step: `n`"):
        scalars.step(torch.zeros(2, dtype=torch.int64, device=device), value)


def test_saturating_and_wrapping_conversions(tmp_path: Path, device: torch.device) -> None:
    """A floor-like cast of floats to integers (flagos-ai/FlagGems#204): truncates, saturates, NaN gives 0."""
    text = """
    op to_i8(x: f32[...]) -> y: i8[...] { y = cast(x, i8) }
    op wrap(x: i32[...]) -> y: i8[...] { y = x }
    """
    ops = build_package(text, tmp_path)
    x = torch.tensor([1.9, -1.9, 300.0, -300.0, math.nan, math.inf], device=device)
    assert ops.to_i8(x).tolist() == [1, -1, 127, -128, 0, 127]
    assert ops.wrap(torch.tensor([127, 128, 256, -129], dtype=torch.int32, device=device)).tolist() == [
        127,
        -128,
        0,
        127,
    ]
