"""Rounding to number formats, and interval ends that bound what a kernel may have computed.

Tensors here are f64 unless said otherwise. A compute type is `"f32"` or `"f64"`. An interval end of
an `f32` value is itself an `f32` number, so one exact operation on two ends is exact, or correctly
rounded, in f64.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

F64 = torch.float64
SMALLEST_NORMAL = {"f32": 2.0**-126, "f64": 2.0**-1022}
UNIT = {"f32": 2.0**-24, "f64": 2.0**-53}
_LARGEST_BINADE = {"f32": 2.0**127, "f64": 2.0**1023}
_DTYPE = {"f32": torch.float32, "f64": torch.float64}
_E4M3_LARGEST = 448.0


def nearest(x: Tensor, dtype: torch.dtype) -> Tensor:
    """`x` rounded once to `dtype`, to nearest even; f8e4m3 saturates, others overflow to inf.

    Types narrower than f32 go through an f32 rounded to odd, which makes the second rounding exact
    (Boldo and Melquiond, "When double rounding is odd", 2005).
    """
    if dtype in (torch.float32, torch.float64):
        return x.to(dtype).to(F64)
    if dtype == torch.float8_e4m3fn:
        x = x.clamp(-_E4M3_LARGEST, _E4M3_LARGEST)
    near = x.to(torch.float32)
    back = near.to(F64)
    away = torch.where(back > x, -math.inf, math.inf).to(torch.float32)
    other = torch.nextafter(near, away)
    even = (near.view(torch.int32) & 1) == 0
    odd = torch.where((back != x) & even & near.isfinite(), other, near)
    return odd.to(dtype).to(F64)


def neighbours(x: Tensor, kind: str, exact: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """The two numbers of the compute type that enclose `x`, both `x` where it is one.

    `x` is a result in f64. For `f64` it is taken for a correctly rounded one, so that its
    neighbours on both sides enclose the real result, except where `exact`. What rounds to an
    infinity is that infinity on both sides.
    """
    near = x.to(_DTYPE[kind])
    below = torch.nextafter(near, torch.full_like(near, -math.inf))
    above = torch.nextafter(near, torch.full_like(near, math.inf))
    if kind == "f64":
        kept = x.isinf() if exact is None else exact | x.isinf()
        return torch.where(kept, x, below), torch.where(kept, x, above)
    fixed = near.isinf()
    down = torch.where((near.to(F64) > x) & ~fixed, below, near).to(F64)
    up = torch.where((near.to(F64) < x) & ~fixed, above, near).to(F64)
    return down, up


def unit_in_last_place(x: Tensor, kind: str) -> Tensor:
    """The distance between numbers of the compute type at `x`."""
    size = x.abs().clamp(max=_LARGEST_BINADE[kind]).to(_DTYPE[kind])
    return (torch.nextafter(size, torch.full_like(size, math.inf)) - size).to(F64)


def widened(x: Tensor, kind: str, ulps: float, exact: Tensor) -> tuple[Tensor, Tensor]:
    """The ends of what a kernel may give for `x` when it errs by `ulps` units in the last place.

    Where `exact`, or where `x` is infinite, it must give `x`. For `f64` the bound is doubled: `x`
    itself was computed in f64 and errs as much.
    """
    error = unit_in_last_place(x, kind) * (ulps if kind == "f32" else 2 * ulps)
    fixed = exact | x.isinf()
    down, up = neighbours(x - error, kind)[0], neighbours(x + error, kind)[1]
    return torch.where(fixed, x, down), torch.where(fixed, x, up)


def function_ends(y: Tensor, kind: str, ulps: float, exact: Tensor) -> tuple[Tensor, Tensor]:
    """The ends of what a function may give for `y`: its sign is right, subnormals may be zero."""
    down, up = widened(y, kind, ulps, exact)
    down = torch.where(~y.signbit() & (down < 0), 0.0, down)
    up = torch.where(y.signbit() & (up > 0), -0.0, up)
    return with_zero_for_subnormals(down, up, kind)


def hull(candidates: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """The smallest and the largest number among candidates, -0.0 below 0.0; NaN if all are."""
    stack = torch.stack(torch.broadcast_tensors(*candidates))
    missing = stack.isnan()
    none = missing.all(0)
    low = torch.where(missing, math.inf, stack).amin(0)
    high = torch.where(missing, -math.inf, stack).amax(0)
    zero, negative = stack == 0, stack.signbit()
    low = torch.where(low == 0, torch.where((zero & negative).any(0), -0.0, 0.0), low)
    high = torch.where(high == 0, torch.where((zero & ~negative).any(0), 0.0, -0.0), high)
    return torch.where(none, math.nan, low), torch.where(none, math.nan, high)


def with_zero_for_subnormals(low: Tensor, high: Tensor, kind: str) -> tuple[Tensor, Tensor]:
    """The interval, with a zero of the same sign in place of a subnormal end."""
    tiny = SMALLEST_NORMAL[kind]
    low = torch.where((low > 0) & (low < tiny), 0.0, low)
    high = torch.where((high < 0) & (high > -tiny), -0.0, high)
    return low, high


def contains_zero(low: Tensor, high: Tensor) -> Tensor:
    """Where the interval holds a zero of either sign."""
    return (low <= 0) & (high >= 0)


def spans_zero(low: Tensor, high: Tensor) -> Tensor:
    """Where the interval reaches over zero, or holds a zero whose sign is open."""
    return low.signbit() & ~high.signbit()


def sum_is_exact(x: Tensor, y: Tensor) -> Tensor:
    """Where `x + y` has no rounding error in f64 (the error term of Knuth's TwoSum is zero)."""
    total = x + y
    part = total - x
    return (x - (total - part)) + (y - part) == 0


def product_is_exact(x: Tensor, y: Tensor) -> Tensor:
    """Where `x * y` has no rounding error in f64 (the error term of Dekker's product is zero).

    A product so small that the error term itself could underflow counts as inexact.
    """
    total = x * y
    (x1, x2), (y1, y2) = _halves(x), _halves(y)
    error = ((x1 * y1 - total) + x1 * y2 + x2 * y1) + x2 * y2
    return ((error == 0) & (total.abs() > 2.0**-960)) | (x == 0) | (y == 0)


def _halves(x: Tensor) -> tuple[Tensor, Tensor]:
    """Veltkamp's split of f64 numbers into a high part of 26 bits and the rest."""
    scaled = x * (2.0**27 + 1)
    high = scaled - (scaled - x)
    return high, x - high
