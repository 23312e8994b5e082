"""The device functions with one right answer against PyTorch, Python's exact arithmetic, and Philox
by hand.
"""

import functools
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from torch import Tensor

from benchmarks import function_accuracy as accuracy
from benchmarks.function_cases import DEVICE, exact, finite_bits

INF, NAN = math.inf, math.nan
COUNT = 1 << 14


@triton.jit  # type: ignore[untyped-decorator]
def convert_kernel(  # type: ignore[no-untyped-def]
    x, y, n, function: tl.constexpr, dtype: tl.constexpr, block: tl.constexpr
):
    i = tl.program_id(0) * block + tl.arange(0, block)
    tl.store(y + i, function(tl.load(x + i, i < n), dtype), i < n)


@triton.jit  # type: ignore[untyped-decorator]
def unary_kernel(  # type: ignore[no-untyped-def]
    x, y, n, function: tl.constexpr, block: tl.constexpr
):
    i = tl.program_id(0) * block + tl.arange(0, block)
    tl.store(y + i, function(tl.load(x + i, i < n)), i < n)


def apply(function: Any, x: Tensor, out: torch.dtype) -> Tensor:
    """`function` of each element, stored as `out`."""
    y = torch.empty(x.shape, dtype=out, device=DEVICE)
    unary_kernel[(triton.cdiv(x.numel(), 1024),)](x.to(y.device), y, x.numel(), function, 1024)
    return y.cpu()


def convert(function: Any, x: Tensor, dtype: tl.dtype, out: torch.dtype) -> Tensor:
    """`function` of each element and a type, stored as `out`."""
    y = torch.empty(x.shape, dtype=out, device=DEVICE)
    convert_kernel[(triton.cdiv(x.numel(), 1024),)](x.to(y.device), y, x.numel(), function, dtype, 1024)
    return y.cpu()


def assert_same(actual: Tensor, expected: Tensor) -> None:
    """Equal bits, but for those of NaN."""
    torch.testing.assert_close(actual, expected, rtol=0.0, atol=0.0, equal_nan=True)
    number = ~expected.isnan()
    assert torch.equal(actual.signbit()[number], expected.signbit()[number])


SPECIAL = (
    *(
        0.0,
        -0.0,
        1.0,
        -1.0,
        0.5,
        -0.5,
        1.5,
        2.5,
        -2.5,
        3.0,
        7.0,
        INF,
        -INF,
        NAN,
        0.1,
        1e-40,
        -3e-45,
        1.2e-38,
    ),
    *(
        3.4e38,
        -3.4e38,
        8388607.5,
        8388609.0,
        4194304.5,
        448.0,
        463.9,
        464.0,
        465.0,
        57344.0,
        61439.0,
        61440.0,
    ),
    *(
        65504.0,
        65520.0,
        127.0,
        127.9,
        128.0,
        -128.9,
        -129.0,
        255.0,
        256.0,
        2.0**31,
        -(2.0**31),
        2.0**63,
        1e30,
    ),
)


def drawn(dtype: torch.dtype, generator: torch.Generator) -> Tensor:
    """Special values, floats over all bit patterns, and floats around one."""
    return torch.cat(
        [
            torch.tensor(SPECIAL, dtype=dtype),
            finite_bits(COUNT, dtype, generator),
            torch.randn(COUNT, dtype=dtype, generator=generator) * 10,
        ]
    )


FLOATS = pytest.mark.parametrize("dtype", [torch.float32, torch.float64])


@FLOATS
@pytest.mark.parametrize(
    ("function", "oracle"),
    [
        (exact.floor, torch.floor),
        (exact.ceil, torch.ceil),
        (exact.trunc, torch.trunc),
        (exact.round_even, torch.round),
        (exact.sign, torch.sign),
        (exact.neg, torch.neg),
    ],
    ids=lambda value: value.__name__,
)
def test_exact_function_is_bit_for_bit_that_of_pytorch(
    function: Any,
    oracle: Callable[[Tensor], Tensor],
    dtype: torch.dtype,
    generator: torch.Generator,
) -> None:
    x = drawn(dtype, generator)
    assert_same(apply(function, x, dtype), oracle(x))


def pairs(dtype: torch.dtype, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """All pairs of special values, and pairs of many ratios, the larger ones far beyond the
    significand.
    """
    special = torch.tensor(SPECIAL, dtype=dtype)
    a, b = (t.reshape(-1) for t in torch.meshgrid(special, special, indexing="ij"))
    x = torch.randn(COUNT, dtype=dtype, generator=generator) * 10
    y = torch.randn(COUNT, dtype=dtype, generator=generator)
    bits = finite_bits(2 * COUNT, dtype, generator)
    return torch.cat([a, x, x * 1e5, x * 1e30, bits[:COUNT]]), torch.cat([b, y, y, y, bits[COUNT:]])


@triton.jit
def clamp_to_one(x, low):  # type: ignore[no-untyped-def]
    return exact.clamp(x, low, 1.0)


@FLOATS
def test_maximum_minimum_and_clamp_propagate_nan(dtype: torch.dtype, generator: torch.Generator) -> None:
    x, y = pairs(dtype, generator)
    distinct = (x != 0) | (y != 0)  # which of +0 and -0 is the larger differs between PyTorch's own kernels
    x, y = x[distinct], y[distinct]
    assert_same(accuracy.evaluate(exact.maximum, (x, y)), torch.maximum(x, y))
    assert_same(accuracy.evaluate(exact.minimum, (x, y)), torch.minimum(x, y))
    assert_same(accuracy.evaluate(clamp_to_one, (x, y)), torch.clamp(x, y, torch.ones((), dtype=dtype)))


def remainder(x: float, y: float) -> float:
    """`torch.remainder` as its documentation and CUDA kernel have it, over C's exact fmod."""
    if math.isnan(x) or math.isnan(y) or math.isinf(x) or y == 0.0:
        return NAN
    m = math.fmod(x, y)
    return m + y if m != 0.0 and (m < 0.0) != (y < 0.0) else m


def rounded(values: list[float], dtype: torch.dtype) -> Tensor:
    return torch.tensor(values, dtype=torch.float64).to(dtype)


@FLOATS
def test_float_remainder_is_exact(dtype: torch.dtype, generator: torch.Generator) -> None:
    x, y = pairs(dtype, generator)
    wanted = rounded([remainder(a, b) for a, b in zip(x.tolist(), y.tolist(), strict=True)], dtype)
    assert_same(accuracy.evaluate(exact.floor_mod, (x, y)), wanted)


@FLOATS
def test_float_floor_division_is_that_of_pytorch(dtype: torch.dtype, generator: torch.Generator) -> None:
    x, y = pairs(dtype, generator)
    # PyTorch's vectorised remainder gives NaN where the quotient leaves the range of the type.
    inside = (x / y).abs() < torch.finfo(dtype).max
    inside |= (x == 0) | ~x.isfinite() | ~y.isfinite() | (y == 0)
    x, y = x[inside], y[inside]
    wanted = torch.stack([torch.floor_divide(a, b) for a, b in zip(x, y, strict=True)])
    assert_same(accuracy.evaluate(exact.floor_div, (x, y)), wanted)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_integer_division_follows_the_sign_of_the_divisor(
    dtype: torch.dtype, generator: torch.Generator
) -> None:
    x = torch.randint(-1000, 1000, (COUNT,), dtype=dtype, generator=generator)
    y = torch.randint(1, 50, (COUNT,), dtype=dtype, generator=generator)
    y = torch.where(torch.rand(COUNT, generator=generator) < 0.5, y, -y)
    assert torch.equal(accuracy.evaluate(exact.floor_div, (x, y)), torch.div(x, y, rounding_mode="floor"))
    assert torch.equal(accuracy.evaluate(exact.floor_mod, (x, y)), torch.remainder(x, y))


INTEGERS = (
    (tl.int8, torch.int8),
    (tl.uint8, torch.uint8),
    (tl.int16, torch.int16),
    (tl.int32, torch.int32),
    (tl.int64, torch.int64),
)


@FLOATS
@pytest.mark.parametrize(("to", "integer"), INTEGERS, ids=str)
def test_integer_casts_truncate_and_saturate(
    to: tl.dtype, integer: torch.dtype, dtype: torch.dtype, generator: torch.Generator
) -> None:
    x = drawn(dtype, generator)
    info = torch.iinfo(integer)

    def wanted(value: float) -> int:
        if math.isnan(value):
            return 0
        if math.isinf(value):
            return int(info.max if value > 0 else info.min)
        return min(max(int(value), int(info.min)), int(info.max))

    expected = torch.tensor([wanted(v) for v in x.tolist()], dtype=integer)
    assert torch.equal(convert(exact.to_int, x, to, integer), expected)


# --- narrow floats --------------------------------------------------------------------------------

#: The torch type, and the size that rounds to infinity (never, where it saturates).
NARROW = {
    tl.float16: (torch.float16, 65520.0),
    tl.bfloat16: (torch.bfloat16, 3.3961775292304601e38),
    tl.float8e4nv: (torch.float8_e4m3fn, NAN),
    tl.float8e5: (torch.float8_e5m2, 61440.0),
}


@functools.cache
def magnitudes(to: tl.dtype) -> list[Fraction]:
    """The finite values of a narrow type that are not negative, ascending."""
    torch_type = NARROW[to][0]
    bits = 8 * torch.empty(0, dtype=torch_type).element_size()
    codes = torch.arange(1 << (bits - 1), dtype=torch.int32)
    values = codes.to(torch.int16 if bits == 16 else torch.uint8).view(torch_type).double()
    return sorted(Fraction(v) for v in set(values[values.isfinite()].tolist()))


def nearest(value: float, to: tl.dtype) -> float:
    """`value` rounded once, halves to even; e4m3 saturates, the others overflow to infinity."""
    if math.isnan(value):
        return NAN
    limit = NARROW[to][1]
    grid = magnitudes(to)
    size = abs(value)
    if size >= limit:
        return math.copysign(INF, value)
    if size == INF or Fraction(size) >= grid[-1]:
        return math.copysign(float(grid[-1]), value)
    low, high = 0, len(grid) - 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if grid[middle] <= Fraction(size) else (low, middle)
    below, above = Fraction(size) - grid[low], grid[high] - Fraction(size)
    pick = low if below < above or (below == above and low % 2 == 0) else high
    return math.copysign(float(grid[pick]), value)


@FLOATS
@pytest.mark.parametrize("to", NARROW, ids=str)
def test_rounding_to_a_narrow_type_is_to_nearest_even_and_happens_once(
    to: tl.dtype, dtype: torch.dtype, generator: torch.Generator
) -> None:
    grid = torch.tensor([float(v) for v in magnitudes(to)], dtype=torch.float64)
    middle = ((grid[1:] + grid[:-1]) / 2).to(dtype)
    ties = middle[torch.randperm(len(middle), generator=generator)[:200]]
    # One unit off a tie: what a rounding to float32 before the one to the narrow type would undo.
    zero, top = torch.zeros((), dtype=dtype), torch.full((), INF, dtype=dtype)
    x = torch.cat([ties, -ties, torch.nextafter(ties, zero), torch.nextafter(ties, top)])
    x = torch.cat(
        [x, drawn(dtype, generator)[:500], torch.randn(500, dtype=dtype, generator=generator) * 100]
    )
    wanted = torch.tensor([nearest(v, to) for v in x.tolist()], dtype=torch.float32)
    assert_same(convert(exact.round_to, x, to, torch.float32), wanted)


EIGHT_BITS = pytest.mark.parametrize(
    ("to", "encode", "decode"),
    [
        (tl.float8e4nv, exact.encode_f8e4m3, exact.decode_f8e4m3),
        (tl.float8e5, exact.encode_f8e5m2, exact.decode_f8e5m2),
    ],
    ids=["e4m3", "e5m2"],
)


@EIGHT_BITS
def test_every_code_of_an_eight_bit_float_is_decoded(to: tl.dtype, encode: Any, decode: Any) -> None:
    codes = torch.arange(256, dtype=torch.int32).to(torch.uint8)
    wanted = codes.view(NARROW[to][0]).float()
    assert_same(apply(decode, codes, torch.float32), wanted)
    number = ~wanted.isnan()
    assert torch.equal(apply(encode, wanted, torch.uint8)[number], codes[number])
    assert apply(encode, wanted, torch.uint8)[~number].view(NARROW[to][0]).float().isnan().all()


@EIGHT_BITS
def test_encoding_rounds_as_round_to_does(
    to: tl.dtype, encode: Any, decode: Any, generator: torch.Generator
) -> None:
    x = drawn(torch.float32, generator)
    assert_same(
        apply(decode, apply(encode, x, torch.uint8), torch.float32),
        convert(exact.round_to, x, to, torch.float32),
    )


# --- random numbers -------------------------------------------------------------------------------


@triton.jit  # type: ignore[untyped-decorator]
def uniform_kernel(y, seed, first, block: tl.constexpr):  # type: ignore[no-untyped-def]
    i = tl.arange(0, block)
    tl.store(y + i, exact.uniform(seed, first + i))


def philox(seed: int, position: int) -> int:
    """The first word of Philox-4x32-10 (Salmon and others, SC11) of a 64-bit counter under a 64-bit
    key.
    """
    mask = 0xFFFFFFFF
    c0, c1, c2, c3 = position & mask, position >> 32, 0, 0
    k0, k1 = seed & mask, (seed >> 32) & mask
    for _ in range(10):
        high0, low0 = divmod(0xD2511F53 * c0, 1 << 32)
        high1, low1 = divmod(0xCD9E8D57 * c2, 1 << 32)
        c0, c1, c2, c3 = high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0
        k0, k1 = (k0 + 0x9E3779B9) & mask, (k1 + 0xBB67AE85) & mask
    return c0


def test_philox_by_hand_gives_the_published_words() -> None:
    assert philox(0, 0) == 0x6627E8D5


@pytest.mark.parametrize("seed", [0, 5, (7 << 32) + 11])
@pytest.mark.parametrize("first", [0, (1 << 32) - 2, (1 << 40) + 3])
def test_uniform_is_philox_for_wide_seeds_and_positions(seed: int, first: int, device: torch.device) -> None:
    y = torch.empty(16, device=device)
    uniform_kernel[(1,)](y, seed, first, 16)
    words = np.array([philox(seed, first + i) for i in range(16)], dtype=np.uint32).view(np.int32)
    folded = np.where(words < 0, ~words, words).astype(np.float32)
    assert np.array_equal(y.cpu().numpy(), folded * np.float32(4.6566127342e-10))
    assert (y >= 0.0).all()
    assert (y < 1.0).all()
