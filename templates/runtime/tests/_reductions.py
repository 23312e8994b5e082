"""Reductions and contractions of `Value`, whatever the order in which a kernel adds.

The order in which a kernel adds is unknown, so the bound is `growth(n)` units of roundoff of the
sum of the absolute terms: `n - 1` always holds, and `4 sqrt(n)` holds but for a chance that no test
will meet, as rounding errors have either sign (Higham and Mary, "A new approach to probabilistic
rounding error analysis", 2019). Slack is averaged over the terms.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from ._functions import cast, exp, isfinite, log, where
from ._intervals import F64, SMALLEST_NORMAL, UNIT, neighbours
from ._values import Value, add, certain, common, divide, multiply, negative, subtract

CONTRACTION_GROWTH = 8.0
SUM_GROWTH = 4.0

Axes = Sequence[int]


def growth(terms: int, factor: float = SUM_GROWTH) -> float:
    """How many units of roundoff of the absolute terms a sum of so many may err by."""
    return min(terms - 1.0, factor * math.sqrt(terms)) if terms else 0.0


def _flattened(x: Value, axes: Axes) -> Value:
    """`x` with the dims `axes` as one last dim, row-major in their order."""
    chosen = [axis % x.value.ndim for axis in axes]
    others = [axis for axis in range(x.value.ndim) if axis not in chosen]
    sizes = [x.shape[axis] for axis in others]
    terms = math.prod(x.shape[axis] for axis in chosen)
    return x.map(lambda tensor: tensor.permute(*others, *chosen).reshape(*sizes, terms))


def _mean_slack(x: Value) -> Tensor:
    return x.slack.sum(-1) / max(x.shape[-1], 1)


def sum_over(x: Value, axes: Axes) -> Value:
    """The sum over dims; that of integers and bools is `i64`. Nothing sums to 0."""
    (x,) = common((_flattened(x, axes),), "i32")
    if not x.is_float:
        value, lo, hi = (tensor.sum(-1) for tensor in (x.value, x.lo, x.hi))
        return Value(value, lo, hi, "i64", x.nan.any(-1), _mean_slack(x))
    lo, hi, overflow = _sum_ends(x)
    value = torch.maximum(lo, torch.minimum(x.value.sum(-1), hi))
    value = torch.where(value.isnan() & ~lo.isnan(), lo, value)
    return Value(value, lo, hi, x.kind, x.nan.any(-1) | overflow | lo.isnan(), _mean_slack(x))


def _sum_ends(x: Value) -> tuple[Tensor, Tensor, Tensor]:
    """The ends of a float sum over the last dim, and where +inf and -inf may meet in it."""
    low, high = (torch.where(end.isinf(), 0.0, end) for end in x.ends)
    error = growth(x.shape[-1]) * UNIT[x.kind] * torch.maximum(low.abs(), high.abs()).sum(-1)
    error = error * (2.0 if x.kind == "f64" else 1.0)
    largest = torch.finfo(torch.float32 if x.kind == "f32" else F64).max
    to_top = (x.hi == math.inf).any(-1) | (high.clamp(min=0).sum(-1) + error > largest)
    to_bottom = (x.lo == -math.inf).any(-1) | (low.clamp(max=0).sum(-1) - error < -largest)
    lo = neighbours(low.sum(-1) - error, x.kind, error == 0)[0]
    hi = neighbours(high.sum(-1) + error, x.kind, error == 0)[1]
    lo, hi = torch.where(to_bottom, -math.inf, lo), torch.where(to_top, math.inf, hi)
    top, bottom = (x.lo == math.inf).any(-1), (x.hi == -math.inf).any(-1)
    lo, hi = torch.where(top, math.inf, lo), torch.where(bottom, -math.inf, hi)
    lo, hi = torch.where(lo == 0, -0.0, lo), torch.where(hi == 0, 0.0, hi)
    no_number = (top & bottom) | x.lo.isnan().any(-1)
    lo, hi = (torch.where(no_number, math.nan, end) for end in (lo, hi))
    return lo, hi, to_top & to_bottom


def mean_over(x: Value, axes: Axes) -> Value:
    """The mean over dims; NaN of nothing."""
    (x,) = common((_flattened(x, axes),), "f32")
    return divide(sum_over(x, (-1,)), float(x.shape[-1]))


def var_over(x: Value, axes: Axes) -> Value:
    """The population variance over dims, from the centred values; NaN of nothing."""
    (x,) = common((_flattened(x, axes),), "f32")
    centred = subtract(x, mean_over(x, (-1,)).map(lambda tensor: tensor.unsqueeze(-1)))
    return mean_over(multiply(centred, centred), (-1,))


def prod_over(x: Value, axes: Axes) -> Value:
    """The product over dims; that of integers and bools is `i64`. Nothing gives 1.

    Where the factors could overflow or become subnormal in some order, any result is accepted.
    """
    (x,) = common((_flattened(x, axes),), "i64")
    if x.shape[-1] == 0:
        ones = torch.ones(x.shape[:-1], dtype=x.value.dtype, device=x.value.device)
        return certain(ones, x.kind)
    result = _product(x)
    if not x.is_float:
        return result
    free = _order_matters(x)
    lo, hi = torch.where(free, -math.inf, result.lo), torch.where(free, math.inf, result.hi)
    return replace(result, lo=lo, hi=hi, nan=result.nan | free)


def _product(x: Value) -> Value:
    """The product over the last dim, pairwise; another order rounds as often."""
    while x.shape[-1] > 1:
        half = x.shape[-1] // 2
        left, right, rest = (
            _part(x, *span) for span in ((0, half), (half, 2 * half), (2 * half, None))
        )
        pairs = multiply(left, right)
        value, lo, hi, nan, slack = (
            torch.cat((getattr(pairs, name), getattr(rest, name)), -1)
            for name in ("value", "lo", "hi", "nan", "slack")
        )
        x = Value(value, lo, hi, x.kind, nan, slack)
    return x.map(lambda tensor: tensor[..., 0])


def _part(x: Value, start: int, stop: int | None) -> Value:
    return x.map(lambda tensor: tensor[..., start:stop])


def _order_matters(x: Value) -> Tensor:
    """Where finite factors, multiplied in some order, could overflow or become subnormal."""
    tiny = SMALLEST_NORMAL[x.kind]
    least, most = torch.minimum(x.lo.abs(), x.hi.abs()), torch.maximum(x.lo.abs(), x.hi.abs())
    small = torch.where(x.value == 0, 1.0, least.clamp(max=1.0)).prod(-1)
    large = most.clamp(min=1.0).prod(-1)
    return most.isfinite().all(-1) & ((large > 2.0 / tiny) | (small < tiny))


def max_over(x: Value, axes: Axes) -> Value:
    """The largest over dims, NaN where any is; a zero may have either sign.

    Raises `ValueError` for the largest of nothing.
    """
    (x,) = common((_flattened(x, axes),), "i32")
    if x.shape[-1] == 0:
        raise ValueError("the largest of nothing")
    value, lo, hi = (tensor.amax(-1) for tensor in (x.value, x.lo, x.hi))
    if x.is_float:
        lo, hi = torch.where(lo == 0, -0.0, lo), torch.where(hi == 0, 0.0, hi)
    return Value(value, lo, hi, x.kind, x.nan.any(-1), _mean_slack(x))


def min_over(x: Value, axes: Axes) -> Value:
    """The smallest over dims, NaN where any is; a zero may have either sign.

    Raises `ValueError` for the smallest of nothing.
    """
    (x,) = common((_flattened(x, axes),), "i32")
    if x.is_float:
        return negative(max_over(negative(x), (-1,)))
    if x.shape[-1] == 0:
        raise ValueError("the smallest of nothing")
    value, lo, hi = (tensor.amin(-1) for tensor in (x.value, x.lo, x.hi))
    return Value(value, lo, hi, x.kind, x.nan.any(-1), _mean_slack(x))


def any_over(x: Value, axes: Axes) -> Value:
    """Whether any is true; false of nothing."""
    return _of_bools(x, axes, lambda tensor: tensor.any(-1))


def all_over(x: Value, axes: Axes) -> Value:
    """Whether all are true; true of nothing."""
    return _of_bools(x, axes, lambda tensor: tensor.all(-1))


def _of_bools(x: Value, axes: Axes, function: Callable[[Tensor], Tensor]) -> Value:
    x = _flattened(cast(x, torch.bool), axes)
    value, lo, hi = (function(tensor) for tensor in (x.value, x.lo, x.hi))
    return Value(value, lo, hi, "bool", torch.zeros_like(value), _mean_slack(x))


def argmax_over(x: Value, axes: Axes) -> Value:
    """The first position of the largest, row-major over `axes`; NaN counts as the largest.

    It is open where the first that may be the largest may also not be: then from that one to the
    last such.
    """
    (x,) = common((_flattened(x, axes),), "i32")
    if x.shape[-1] == 0:
        raise ValueError("the position of the largest of nothing")
    missing = x.lo.isnan() if x.is_float else torch.zeros_like(x.nan)
    highest = torch.iinfo(torch.int64).min if not x.is_float else -math.inf
    floor = torch.where(missing, highest, x.lo).amax(-1, keepdim=True)
    may_win = torch.where(missing.any(-1, keepdim=True), x.nan, x.nan | (x.hi >= floor))
    first = may_win.to(torch.int64).argmax(-1)
    last = x.shape[-1] - 1 - may_win.flip(-1).to(torch.int64).argmax(-1)
    last = torch.where(
        missing.any(-1), torch.minimum(last, missing.to(torch.int64).argmax(-1)), last
    )
    at_first = first.unsqueeze(-1)
    certainly = x.lo.gather(-1, at_first) >= torch.where(missing, highest, x.hi).amax(
        -1, keepdim=True
    )
    settled = (certainly & ~x.nan.any(-1, keepdim=True)).squeeze(-1)
    last = torch.where(settled | (last < first), first, last)
    slack = torch.maximum(_mean_slack(x), (first < last).to(F64))
    return Value(first, first, last, "i64", torch.zeros_like(settled), slack)


def argmin_over(x: Value, axes: Axes) -> Value:
    """The first position of the smallest; NaN counts as the smallest."""
    (x,) = common((_flattened(x, axes),), "i32")
    flipped = negative(x) if x.is_float else replace(x, value=~x.value, lo=~x.hi, hi=~x.lo)
    return argmax_over(flipped, (-1,))


def logsumexp_over(x: Value, axes: Axes) -> Value:
    """`log(sum(exp(x)))`, from the differences to the largest; -inf of nothing."""
    (x,) = common((_flattened(x, axes),), "f32")
    if x.shape[-1] == 0:
        return certain(
            torch.full(x.shape[:-1], -math.inf, dtype=F64, device=x.value.device), x.kind
        )
    largest = max_over(x, (-1,))
    shift = where(isfinite(largest), largest, 0.0)
    shifted = exp(subtract(x, shift.map(lambda tensor: tensor.unsqueeze(-1))))
    return add(log(sum_over(shifted, (-1,))), shift)


def contract(a: Value, b: Value, operand_error: float = 0.0) -> Value:
    """`a [..., M, K] @ b [..., K, N]`, accumulated in the compute type; integers wrap.

    `operand_error` is the relative error by which the operands are narrowed before they multiply
    (tf32: 2^-11).
    """
    a, b = common((a, b), "i32")
    terms = max(a.shape[-1], 1)
    slack = (a.slack.sum(-1)[..., :, None] + b.slack.sum(-2)[..., None, :]) / terms
    if not a.is_float:
        return _integer_contraction(a, b, slack)
    (x, x_error), (y, y_error) = (_middle(end) for end in (a, b))
    size = x.abs() @ y.abs()
    error = x_error @ y.abs() + x.abs() @ y_error + x_error @ y_error + 2 * operand_error * size
    roundoff = UNIT[a.kind] * (2.0 if a.kind == "f64" else 1.0)
    error = error + (growth(a.shape[-1], CONTRACTION_GROWTH) + 1) * roundoff * size
    middle, value = x @ y, a.value @ b.value
    largest = torch.finfo(torch.float32 if a.kind == "f32" else F64).max
    lo, hi = neighbours(middle - error, a.kind)[0], neighbours(middle + error, a.kind)[1]
    lo, hi = torch.where(lo == 0, -0.0, lo), torch.where(hi == 0, 0.0, hi)
    special = ~size.isfinite()
    lo, hi = torch.where(special, value, lo), torch.where(special, value, hi)
    free = (special & value.isfinite()) | (~special & (size + error > largest))
    lo, hi = torch.where(free, -math.inf, lo), torch.where(free, math.inf, hi)
    nan = (a.nan.any(-1)[..., :, None] | b.nan.any(-2)[..., None, :]) | free | lo.isnan()
    return Value(value, lo, hi, a.kind, nan, slack)


def _middle(x: Value) -> tuple[Tensor, Tensor]:
    """The middle and the half width of the intervals; an exact infinity has no width."""
    exact = x.lo == x.hi
    middle = torch.where(exact, x.lo, x.lo / 2 + x.hi / 2)
    return middle, torch.where(exact, 0.0, x.hi / 2 - x.lo / 2)


def _integer_contraction(a: Value, b: Value, slack: Tensor) -> Value:
    def product(x: Tensor, y: Tensor) -> Tensor:
        return (x.cpu() @ y.cpu()).to(x.device)  # CUDA has no integer matrix product

    if not (torch.equal(a.lo, a.hi) and torch.equal(b.lo, b.hi)):
        raise ValueError("a contraction of integers that rest on an open decision")
    value = product(a.value, b.value)
    if a.kind == "i32":
        value = cast(certain(value, "i64"), torch.int32).value
    return replace(certain(value, a.kind), slack=slack)
