"""Reductions of `Value`, whatever the order in which a kernel adds.

The order in which a kernel adds is unknown, so the bound is `growth(n)` units of roundoff of the
sum of the absolute terms: `n - 1` always holds, and `4 sqrt(n)` holds but for a chance that no test
will meet, as rounding errors have either sign (Higham and Mary, "A new approach to probabilistic
rounding error analysis", 2019). Sums of few narrow numbers are exact in any order. Slack is averaged over
the terms.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from ._functions import cast, exp, isfinite, log, where
from ._intervals import F64, SMALLEST_NORMAL, UNIT, neighbours
from ._values import Operand, Value, add, certain, common, divide, multiply, negative, subtract

SUM_GROWTH = 4.0


def growth(terms: int, factor: float = SUM_GROWTH) -> float:
    """How many units of roundoff of the absolute terms a sum of so many may err by."""
    return min(terms - 1.0, factor * math.sqrt(terms)) if terms else 0.0


def _over(function: Callable[[Value], Value]) -> Callable[[Operand, str, str], Value]:
    """A reduction of the last dim as one over dims by name.

    The first argument is over the dims `dims`, names between spaces as for `align`. Those in `over`
    are reduced, row-major in their order: named ones stay, with one element, leading ones go.
    """

    def reduction(x: Operand, dims: str, over: str) -> Value:
        (x,) = common((x,))
        names = [name for name in dims.split() if name != "..."]
        leading = x.value.ndim - len(names)
        gone = over.split()
        axes: list[int] = []
        for name in gone:
            axes += range(leading) if name == "..." else [leading + names.index(name)]
        others = [axis for axis in range(x.value.ndim) if axis not in axes]
        terms = math.prod(x.shape[axis] for axis in axes)
        sizes = [x.shape[axis] for axis in others]
        result = function(
            x.map(lambda tensor: tensor.permute([*others, *axes]).reshape(*sizes, terms))
        )
        kept = [1 if axis in axes else x.shape[axis] for axis in range(x.value.ndim)]
        shape = kept[leading:] if "..." in gone else kept
        return result.map(lambda tensor: tensor.reshape(shape))

    reduction.__doc__ = function.__doc__
    return reduction


def _of_nothing(x: Value) -> Value:
    """An extreme that has no value: no result may rest on it, which infinite slack tells."""
    zeros = certain(x.value.new_zeros(x.shape[:-1]), x.kind)
    return replace(zeros, slack=torch.full_like(zeros.slack, math.inf))


def _mean_slack(x: Value) -> Tensor:
    return x.slack.sum(-1) / max(x.shape[-1], 1)


def _sum(x: Value) -> Value:
    """The sum over dims; that of integers and bools is `i64`. Nothing sums to 0."""
    (x,) = common((x,), "i32")
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
    error = torch.where(_adds_exactly(x), 0.0, error * (2.0 if x.kind == "f64" else 1.0))
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


def _adds_exactly(x: Value) -> Tensor:
    """Where no order of adding rounds: all partial sums are so many times one number that the type holds them."""
    if x.shape[-1] == 0:
        return torch.ones(x.shape[:-1], dtype=torch.bool, device=x.value.device)
    fraction, exponent = torch.frexp(torch.where(x.value.isfinite(), x.value, 0.0))
    digits = (fraction * 2.0**53).to(torch.int64)
    lowest = torch.ldexp((digits & -digits).to(F64), exponent - 53)
    step = torch.where(digits == 0, math.inf, lowest).amin(-1)
    certainly = ((x.lo == x.hi) & x.value.isfinite()).all(-1)
    return certainly & (x.value.abs().sum(-1) * UNIT[x.kind] <= step)


def _mean(x: Value) -> Value:
    """The mean over dims; NaN of nothing."""
    (x,) = common((x,), "f32")
    return divide(_sum(x), float(x.shape[-1]))


def _var(x: Value) -> Value:
    """The population variance over dims, from the centred values; NaN of nothing."""
    (x,) = common((x,), "f32")
    centred = subtract(x, _mean(x).map(lambda tensor: tensor.unsqueeze(-1)))
    return _mean(multiply(centred, centred))


def _prod(x: Value) -> Value:
    """The product over dims; that of integers and bools is `i64`. Nothing gives 1.

    Where the factors could overflow or become subnormal in some order, any result is accepted.
    """
    (x,) = common((x,), "i64")
    if x.shape[-1] == 0:
        ones = torch.ones(x.shape[:-1], dtype=x.value.dtype, device=x.value.device)
        return certain(ones, x.kind)
    result = _pairwise_product(x)
    if not x.is_float:
        return result
    free = _order_matters(x)
    error = max(x.shape[-1] - 1, 0) * UNIT[x.kind] * torch.maximum(result.lo.abs(), result.hi.abs())
    error = torch.where(error.isfinite(), error, 0.0)
    lo, hi = result.lo - error, result.hi + error
    lo, hi = neighbours(lo, x.kind, error == 0)[0], neighbours(hi, x.kind, error == 0)[1]
    lo, hi = torch.where(free, -math.inf, lo), torch.where(free, math.inf, hi)
    return replace(result, lo=lo, hi=hi, nan=result.nan | free)


def _pairwise_product(x: Value) -> Value:
    """The product over the last dim, pairwise."""
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


def _max(x: Value) -> Value:
    """The largest over dims, NaN where any is; a zero may have either sign."""
    (x,) = common((x,), "i32")
    if x.shape[-1] == 0:
        return _of_nothing(x)
    value, lo, hi = (tensor.amax(-1) for tensor in (x.value, x.lo, x.hi))
    if x.is_float:
        lo, hi = torch.where(lo == 0, -0.0, lo), torch.where(hi == 0, 0.0, hi)
    return Value(value, lo, hi, x.kind, x.nan.any(-1), _mean_slack(x))


def _min(x: Value) -> Value:
    """The smallest over dims, NaN where any is; a zero may have either sign."""
    (x,) = common((x,), "i32")
    if x.is_float:
        return negative(_max(negative(x)))
    if x.shape[-1] == 0:
        return _of_nothing(x)
    value, lo, hi = (tensor.amin(-1) for tensor in (x.value, x.lo, x.hi))
    return Value(value, lo, hi, x.kind, x.nan.any(-1), _mean_slack(x))


def _any(x: Value) -> Value:
    """Whether any is true; false of nothing."""
    return _of_bools(x, lambda tensor: tensor.any(-1))


def _all(x: Value) -> Value:
    """Whether all are true; true of nothing."""
    return _of_bools(x, lambda tensor: tensor.all(-1))


def _of_bools(x: Value, function: Callable[[Tensor], Tensor]) -> Value:
    x = cast(x, torch.bool)
    value, lo, hi = (function(tensor) for tensor in (x.value, x.lo, x.hi))
    return Value(value, lo, hi, "bool", torch.zeros_like(value), _mean_slack(x))


def _argmax(x: Value) -> Value:
    """The first position of the largest, row-major; NaN counts as the largest.

    It is open where the first that may be the largest may also not be: then from that one to the
    last such.
    """
    (x,) = common((x,), "i32")
    if x.shape[-1] == 0:
        return replace(_of_nothing(x), kind="i64")
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


def _argmin(x: Value) -> Value:
    """The first position of the smallest; NaN counts as the smallest."""
    (x,) = common((x,), "i32")
    flipped = negative(x) if x.is_float else replace(x, value=~x.value, lo=~x.hi, hi=~x.lo)
    return _argmax(flipped)


def _logsumexp(x: Value) -> Value:
    """`log(sum(exp(x)))`, from the differences to the largest; -inf of nothing."""
    (x,) = common((x,), "f32")
    if x.shape[-1] == 0:
        return certain(
            torch.full(x.shape[:-1], -math.inf, dtype=F64, device=x.value.device), x.kind
        )
    largest = _max(x)
    shift = where(isfinite(largest), largest, 0.0)
    shifted = exp(subtract(x, shift.map(lambda tensor: tensor.unsqueeze(-1))))
    return add(log(_sum(shifted)), shift)


sum_over, mean_over, var_over, prod_over = map(_over, (_sum, _mean, _var, _prod))
max_over, min_over, argmax_over, argmin_over = map(_over, (_max, _min, _argmax, _argmin))
any_over, all_over, logsumexp_over = map(_over, (_any, _all, _logsumexp))
