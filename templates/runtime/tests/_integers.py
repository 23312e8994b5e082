"""Integer arithmetic on int64 tensors that hold `i32` or `i64` numbers."""

from __future__ import annotations

import torch
from torch import Tensor

LIMITS = {
    "i32": (-(2**31), 2**31 - 1),
    "i64": (-(2**63), 2**63 - 1),
}
WIDTH = {"i32": 32, "i64": 64}


def wrap(x: Tensor, bits: int, signed: bool = True) -> Tensor:
    """`x` (int64) reduced to an integer of `bits` bits, as a wrapping store does."""
    if bits == 64:
        return x
    low = x & (2**bits - 1)
    return torch.where(low >= 2 ** (bits - 1), low - 2**bits, low) if signed else low


def floor_quotient(x: Tensor, y: Tensor) -> Tensor:
    """Python's `//`; what it gives for a zero divisor means nothing."""
    safe = torch.where((y == 0) | (y == -1), 1, y)
    return torch.where(y == -1, -x, torch.div(x, safe, rounding_mode="floor"))


def floor_remainder(x: Tensor, y: Tensor) -> Tensor:
    """Python's `%`; what it gives for a zero divisor means nothing."""
    return x - floor_quotient(x, y) * y


def shifted_left(x: Tensor, count: Tensor) -> Tensor:
    """`x << count`; what it gives for a count outside 0 .. 63 means nothing."""
    return x << count.clamp(0, 63)


def shifted_right(x: Tensor, count: Tensor) -> Tensor:
    """`x >> count` with the sign kept; what it gives for a count outside 0 .. 63 means nothing."""
    return x >> count.clamp(0, 63)
