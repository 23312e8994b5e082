"""What a kernel may get for `+ * / // % **` on floats, from the ends of the operands' intervals.

Each function takes `(lo, hi)` of its operands as f64 tensors and the compute type, and returns the
candidates whose hull is the result's interval, and where the result may be NaN though no candidate
is.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ._intervals import (
    contains_zero,
    function_ends,
    hull,
    neighbours,
    product_is_exact,
    spans_zero,
    sum_is_exact,
    widened,
    with_zero_for_subnormals,
)

Ends = tuple[Tensor, Tensor]
Candidates = tuple[list[Tensor], Tensor]

DIVISION_ULPS = 2.5
POWER_ULPS = 16
_OVERFLOW = {"f32": 2.0**127, "f64": 2.0**1023}
_EXACT_QUOTIENT = {"f32": 2.0**21, "f64": 2.0**50}


def sums(x: Ends, y: Ends, kind: str) -> Candidates:
    """`x + y`: the neighbours of the exact sums of the ends."""
    candidates = [end for s, t in zip(x, y) for end in neighbours(s + t, kind, sum_is_exact(s, t))]
    opposite = (x[1] == math.inf) & (y[0] == -math.inf) | (x[0] == -math.inf) & (y[1] == math.inf)
    return candidates, opposite


def products(x: Ends, y: Ends, kind: str) -> Candidates:
    """`x * y`: the neighbours of the exact products of the ends."""
    candidates: list[Tensor] = []
    for s in x:
        for t in y:
            candidates += neighbours(s * t, kind, product_is_exact(s, t))
    finite_times_zero = [_has_open_infinity(a) & contains_zero(*b) for a, b in ((x, y), (y, x))]
    candidates += _zeros(finite_times_zero[0] | finite_times_zero[1], candidates[0])
    return candidates, _zero_meets_infinity(x, y) | _zero_meets_infinity(y, x)


def squares(x: Ends, kind: str) -> Candidates:
    """`x * x`, which has one operand and so is never negative."""
    candidates: list[Tensor] = []
    for s in x:
        candidates += neighbours(s * s, kind, product_is_exact(s, s))
    candidates.append(torch.where(spans_zero(*x), 0.0, candidates[0]))
    return candidates, torch.zeros_like(x[0], dtype=torch.bool)


def unrounded_products(x: Ends, y: Ends) -> list[Tensor]:
    """The exact products of the ends, as a contracted sum uses them; one past f64 stays finite."""
    largest = torch.finfo(torch.float64).max
    finite = [(s * t, s.isfinite() & t.isfinite()) for s in x for t in y]
    return [torch.where(fits, end.clamp(-largest, largest), end) for end, fits in finite]


def quotients(x: Ends, y: Ends, kind: str) -> Candidates:
    """`x / y`: the quotients of the ends, and both infinities around a pole."""
    candidates: list[Tensor] = []
    for s in x:
        for t in y:
            candidates += widened(s / t, kind, DIVISION_ULPS, (s == 0) | t.isinf())
    candidates += _infinities(spans_zero(*y), candidates[0])
    candidates += _zeros(_has_open_infinity(x) & _has_infinity(y), candidates[0])
    zeros = contains_zero(*x) & contains_zero(*y)
    return candidates, zeros | (_has_infinity(x) & _has_infinity(y))


def floors_of_quotients(x: Ends, y: Ends, kind: str) -> tuple[list[Tensor], Tensor, Tensor]:
    """`x // y`, and also where the floor is undecided.

    A floor below 2^21 (f32; 2^50 in f64) is exact; above, the unit in the last place of the
    quotient matters more than its fraction, and the bound is that of a division. A zero may have
    either sign.
    """
    unbounded = spans_zero(*y) | _has_open_infinity(x)
    floors = _floors(x, y)
    floors += _infinities(unbounded, floors[0])
    candidates: list[Tensor] = []
    for floor in floors:
        candidates += widened(floor, kind, DIVISION_ULPS, floor.abs() < _EXACT_QUOTIENT[kind])
    return _with_both_zeros(candidates), contains_zero(*y) | _has_infinity(x), _differ(floors)


def remainders(x: Ends, y: Ends, kind: str) -> tuple[list[Tensor], Tensor, Tensor]:
    """`x % y`, and also where the floor it rests on is undecided: there, up to the divisor.

    So too, and NaN, where the quotient overflows: PyTorch's vectorised code gives NaN there, its
    other code does not.
    """
    undecided = _differ(_floors(x, y)) | _has_open_infinity(x)
    overflow = (x[1].abs() / y[0].abs() >= _OVERFLOW[kind]) | (
        x[0].abs() / y[1].abs() >= _OVERFLOW[kind]
    )
    rests = [(torch.remainder(s, t), torch.fmod(s, t)) for s in x for t in y]
    candidates = [end for rest, same in rests for end in neighbours(rest, kind, rest == same)]
    candidates += [
        torch.where(undecided | overflow, end, candidates[0])
        for end in (*y, torch.zeros_like(y[0]))
    ]
    return _with_both_zeros(candidates), contains_zero(*y) | _has_infinity(x) | overflow, undecided


def powers(x: Ends, y: Ends, kind: str) -> Candidates:
    """`x ** y` with the special values of `torch.pow`.

    It is monotone in each operand for positive `x`, and for negative `x` and a fixed integer `y`.
    For other negative `x`, an open exponent may be an integer of either parity, or none.
    """
    x = with_zero_for_subnormals(*x, kind)
    fixed = y[0] == y[1]
    integer = fixed & (torch.floor(y[0]) == y[0])
    candidates: list[Tensor] = []
    for s in x:
        for t in y:
            exact = ((s == 0) | s.isinf() | t.isinf()) & (torch.pow(s, t) == 0)
            low, high = function_ends(torch.pow(s, t), kind, POWER_ULPS, exact)
            size = function_ends(torch.pow(s.abs(), t), kind, POWER_ULPS, exact)[1]
            open_sign = [torch.where(x[0].signbit() & ~fixed, end, low) for end in (size, -size)]
            candidates += [low, high, *open_sign]
    spans = spans_zero(*x)
    candidates += [torch.where(spans, torch.pow(torch.zeros_like(t), t), candidates[0]) for t in y]
    candidates += _infinities(spans & (y[0] < 0), candidates[0])
    may_be_one = (x[0] <= 1) & (x[1] >= 1) & y[0].isnan() | contains_zero(*y) & x[0].isnan()
    candidates.append(torch.where(may_be_one, 1.0, candidates[0]))
    return candidates, (x[0] < 0) & ~integer


def _floors(x: Ends, y: Ends) -> list[Tensor]:
    return [torch.floor_divide(s, t) for s in x for t in y]


def _differ(candidates: list[Tensor]) -> Tensor:
    low, high = hull(candidates)
    return low < high


def _infinities(where: Tensor, otherwise: Tensor) -> list[Tensor]:
    return [torch.where(where, end, otherwise) for end in (-math.inf, math.inf)]


def _zeros(where: Tensor, otherwise: Tensor) -> list[Tensor]:
    return [torch.where(where, zero, otherwise) for zero in (-0.0, 0.0)]


def _with_both_zeros(candidates: list[Tensor]) -> list[Tensor]:
    return candidates + [torch.where(end == 0, -end, end) for end in candidates]


def _has_infinity(x: Ends) -> Tensor:
    return x[0].isinf() | x[1].isinf()


def _has_open_infinity(x: Ends) -> Tensor:
    return _has_infinity(x) & (x[0] != x[1])


def _zero_meets_infinity(x: Ends, y: Ends) -> Tensor:
    return contains_zero(*x) & _has_infinity(y)
