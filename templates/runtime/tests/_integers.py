"""Integer arithmetic on int64 tensors that hold `i32` or `i64` numbers."""

from __future__ import annotations

from collections.abc import Callable

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


def outcomes(
    function: Callable[[Tensor, Tensor], Tensor],
    x: tuple[Tensor, Tensor],
    y: tuple[Tensor, Tensor],
    kind: str,
) -> tuple[Tensor, Tensor, Tensor]:
    """The least and the largest of `function` at the ends, and where it may be anything else.

    That is where an operand is open between more than two neighbours.
    """
    corners = [wrap(function(s, t), WIDTH[kind]) for s in x for t in y]
    stack = torch.stack(torch.broadcast_tensors(*corners))
    wide_x, wide_y = ((high != low) & (high != low + 1) for low, high in (x, y))
    return stack.amin(0), stack.amax(0), wide_x | wide_y


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
