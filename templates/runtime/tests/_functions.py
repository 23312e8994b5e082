"""Functions on `Value`: the built-ins of the language, steps, choice and casts.

A function errs by at most `FUNCTION_ULPS` units in the last place of its result (`normal_cdf` by 8, `pow` by 16),
keeps its sign, may read a subnormal as zero, and may give zero for a subnormal.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from dataclasses import replace

import torch
from torch import Tensor

from ._integers import WIDTH, wrap
from ._intervals import (
    SMALLEST_NORMAL,
    contains_zero,
    function_ends,
    hull,
    nearest,
    spans_zero,
    with_zero_for_subnormals,
)
from ._values import (
    Operand,
    Value,
    add,
    bounded,
    common,
    converted,
    decided,
    equal,
    joint_slack,
    logical_not,
    multiply,
    of_integers,
    with_slack,
)

FUNCTION_ULPS = 4

Function = Callable[[Operand], Value]


# -- functions -------------------------------------------------------------------------------------


def _monotone(
    function: Callable[[Tensor], Tensor],
    domain: tuple[float, float] = (-math.inf, math.inf),
    pole_at_zero: bool = False,
    ulps: int = FUNCTION_ULPS,
) -> Function:
    """A function that is monotone on its domain and NaN outside: its interval comes from the ends.

    At a pole at zero the sign of the zero is that of the infinite result.
    """

    def on_value(x: Operand) -> Value:
        (x,) = common((x,), "f32")
        lo, hi = with_zero_for_subnormals(x.lo, x.hi, x.kind)
        below, above = lo < domain[0], hi > domain[1]
        lo = torch.where(below & ~(hi < domain[0]), domain[0], lo)
        hi = torch.where(above & ~(lo > domain[1]), domain[1], hi)
        candidates: list[Tensor] = []
        for end in (lo, hi):
            y = function(end)
            exact = (y == 0) & ((end == 0) | end.isinf())
            candidates += function_ends(y, x.kind, ulps, exact)
        if pole_at_zero:
            candidates.append(torch.where(spans_zero(lo, hi), math.inf, candidates[0]))
        return bounded((x,), function(x.value), candidates, below | above)

    on_value.__doc__ = f"`{function.__name__}`, within {ulps} units in the last place."
    return on_value


_NOT_NEGATIVE = (-0.0, math.inf)

exp, exp2, expm1 = _monotone(torch.exp), _monotone(torch.exp2), _monotone(torch.expm1)
log, log2 = _monotone(torch.log, _NOT_NEGATIVE), _monotone(torch.log2, _NOT_NEGATIVE)
log1p = _monotone(torch.log1p, (-1.0, math.inf))
sqrt = _monotone(torch.sqrt, _NOT_NEGATIVE)
rsqrt = _monotone(torch.rsqrt, _NOT_NEGATIVE, pole_at_zero=True)
tanh, sigmoid = _monotone(torch.tanh), _monotone(torch.sigmoid)
erf, erfc = _monotone(torch.erf), _monotone(torch.erfc)


def _normal_cdf(x: Tensor) -> Tensor:
    """erfc(-x / sqrt(2)) / 2, to f64's precision: the rounding of its argument is put right to first order.

    sqrt(1/2) is taken as the sum of two numbers, the first of 24 bits; so is x, and their leading product is exact.
    """
    lead = x.float().double()
    t = x * -0.7071067811865476
    lost = (lead * -0.7071067690849304 - t) + (x - lead) * -0.7071067690849304 - x * 1.210161710447897e-08
    correction = lost * torch.exp(-t * t) * (-2 / math.sqrt(math.pi))
    return 0.5 * (torch.erfc(t) + correction.nan_to_num(0.0, 0.0, 0.0))


normal_cdf = _monotone(_normal_cdf, ulps=8)


def _periodic(function: Callable[[Tensor], Tensor], peak: float) -> Function:
    """A sine: largest at `peak` + 2 pi k, smallest half a turn later."""

    def on_value(x: Operand) -> Value:
        (x,) = common((x,), "f32")
        lo, hi = with_zero_for_subnormals(x.lo, x.hi, x.kind)
        candidates: list[Tensor] = []
        for end in (lo, hi):
            y = function(end)
            candidates += function_ends(y, x.kind, FUNCTION_ULPS, (y == 0) & (end == 0))
        for extreme, place in ((1.0, peak), (-1.0, peak + math.pi)):
            turns = [(end - place) / (2 * math.pi) for end in (lo, hi)]
            inside = (hi > lo) & (torch.ceil(turns[0]) <= torch.floor(turns[1]))
            around = function_ends(
                torch.full_like(lo, extreme), x.kind, FUNCTION_ULPS, torch.zeros_like(x.nan)
            )
            candidates += [torch.where(inside, end, candidates[0]) for end in around]
        return bounded((x,), function(x.value), candidates, lo.isinf() | hi.isinf())

    on_value.__doc__ = f"`{function.__name__}`, within {FUNCTION_ULPS} units in the last place."
    return on_value


sin, cos = _periodic(torch.sin, math.pi / 2), _periodic(torch.cos, 0.0)


def fma(x: Operand, y: Operand, z: Operand) -> Value:
    """`x * y + z`, rounded once, or twice where the machine has no such instruction."""
    return add(multiply(x, y), z)


# -- steps and signs -------------------------------------------------------------------------------


def _step(function: Callable[[Tensor], Tensor]) -> Function:
    """A monotone step function: decided where both ends fall on one step."""

    def on_value(x: Operand) -> Value:
        (x,) = common((x,), "i32")
        if not x.is_float:
            return x
        lo, hi = function(x.lo), function(x.hi)
        taken = (lo != x.lo) | (hi != x.hi)
        return with_slack(bounded((x,), function(x.value), (lo, hi)), (lo < hi) & taken)

    on_value.__doc__ = f"`{function.__name__}`, exact."
    return on_value


floor, ceil, trunc, round_even = (
    _step(f) for f in (torch.floor, torch.ceil, torch.trunc, torch.round)
)


def sign(x: Operand) -> Value:
    """-1, 0 or 1; 0 for NaN, as in PyTorch. A zero may have either sign."""
    (x,) = common((x,), "i32")
    if not x.is_float:
        return of_integers(lambda s, _: s.sign(), x, x)
    steps = [torch.where(end.isnan(), 0.0, end.sign()) for end in x.ends]
    steps.append(torch.where(x.nan, 0.0, steps[0]))
    steps += [torch.where(step == 0, -0.0, step) for step in steps]
    result = bounded((x,), x.value.sign(), steps)
    return with_slack(replace(result, nan=torch.zeros_like(x.nan)), result.lo < result.hi)


def absolute(x: Operand) -> Value:
    """`abs(x)`, exact."""
    (x,) = common((x,), "i32")
    if not x.is_float:
        return of_integers(lambda s, _: s.abs(), x, x)
    spans = (x.lo < 0) & (x.hi > 0)
    lo, hi = x.lo.abs(), x.hi.abs()
    return bounded((x,), x.value.abs(), (lo, hi, torch.where(spans, 0.0, lo)))


def _extreme(function: Callable[[Tensor, Tensor], Tensor]) -> Callable[..., Value]:
    """`min` or `max` of two or more: exact, NaN where any is; of two zeros it may give either."""

    def of_two(x: Value, y: Value) -> Value:
        if not x.is_float:
            return of_integers(function, x, y)
        zeros = contains_zero(*x.ends) & contains_zero(*y.ends)
        zeros = zeros & (x.lo.signbit() | y.lo.signbit()) & ~(x.hi.signbit() & y.hi.signbit())
        low, high = (function(s, t) for s, t in zip(x.ends, y.ends))
        either = [torch.where(zeros, zero, low) for zero in (-0.0, 0.0)]
        return bounded((x, y), function(x.value, y.value), (low, high, *either))

    def of_values(*operands: Operand) -> Value:
        first, *rest = common(operands, "i32")
        for x in rest:
            first = of_two(first, x)
        return first

    of_values.__doc__ = (
        f"`{function.__name__}` of two or more: exact, NaN where any operand is NaN."
    )
    return of_values


minimum, maximum = _extreme(torch.minimum), _extreme(torch.maximum)


def clamp(x: Operand, low: Operand, high: Operand) -> Value:
    """`min(max(x, low), high)`."""
    return minimum(maximum(x, low), high)


# -- questions and choice --------------------------------------------------------------------------


def isnan(x: Operand) -> Value:
    """Whether `x` is NaN."""
    (x,) = common((x,), "f32")
    return decided((x,), x.value.isnan(), x.lo.isnan(), x.nan)


def isinf(x: Operand) -> Value:
    """Whether `x` is an infinity."""
    (x,) = common((x,), "f32")
    certainly = x.lo.isinf() & (x.lo == x.hi) & ~x.nan
    return decided((x,), x.value.isinf(), certainly, x.lo.isinf() | x.hi.isinf())


def isfinite(x: Operand) -> Value:
    """Whether `x` is neither NaN nor an infinity."""
    (x,) = common((x,), "f32")
    certainly = x.lo.isfinite() & x.hi.isfinite() & ~x.nan
    possibly = ~(x.lo.isnan() | (x.lo.isinf() & (x.lo == x.hi)))
    return decided((x,), x.value.isfinite(), certainly, possibly)


def where(condition: Value, x: Operand, y: Operand) -> Value:
    """`x` or `y`; where the condition is open, anything from the hull of both."""
    x, y = common((x, y), device=condition.value.device)

    def chosen(from_x: Tensor, from_y: Tensor, from_both: Tensor) -> Tensor:
        return torch.where(condition.lo, from_x, torch.where(condition.hi, from_both, from_y))

    if x.is_float:
        low, high = hull((*x.ends, *y.ends))
    elif x.kind == "bool":
        low, high = x.lo & y.lo, x.hi | y.hi
    else:
        low, high = torch.minimum(x.lo, y.lo), torch.maximum(x.hi, y.hi)
    return Value(
        torch.where(condition.value, x.value, y.value),
        chosen(x.lo, y.lo, low),
        chosen(x.hi, y.hi, high),
        x.kind,
        chosen(x.nan, y.nan, x.nan | y.nan),
        torch.maximum(condition.slack, chosen(x.slack, y.slack, joint_slack((x, y)))),
    )


# -- casts -----------------------------------------------------------------------------------------


def cast(x: Operand, dtype: torch.dtype) -> Value:
    """`x` rounded to a storage type: a decision, open where the ends round to different numbers.

    The result is in the type that the storage type is computed in. Float to integer truncates and
    saturates, NaN gives 0; integers wrap; f8e4m3 saturates; other floats overflow to infinity.
    """
    (x,) = common((x,))
    if dtype == torch.bool:
        return x if x.kind == "bool" else logical_not(equal(x, 0))
    if dtype.is_floating_point:
        return _to_float(x, dtype)
    kind = "i64" if dtype == torch.int64 else "i32"
    return _float_to_integer(x, dtype, kind) if x.is_float else _integer_to_integer(x, dtype, kind)


_open_roundings: list[None] = []


@contextlib.contextmanager
def open_roundings() -> Iterator[None]:
    """Inside, a cast to a float gives the interval of the number as it is and of what it is rounded to."""
    _open_roundings.append(None)
    try:
        yield
    finally:
        _open_roundings.pop()


def _to_float(x: Value, dtype: torch.dtype) -> Value:
    kind = "f64" if dtype == torch.float64 else "f32"
    if not x.is_float:
        x = converted(x, kind)
    if dtype == torch.float64 or (dtype == torch.float32 and x.kind == "f32"):
        return converted(x, kind)
    value, lo, hi = (nearest(tensor, dtype) for tensor in (x.value, x.lo, x.hi))
    if _open_roundings:
        ends = torch.minimum(x.lo, lo), torch.maximum(x.hi, hi)
        return Value(x.value, *ends, kind, x.nan, x.slack)
    taken = (lo != x.lo) | (hi != x.hi)
    taken &= torch.maximum(lo.abs(), hi.abs()) > SMALLEST_NORMAL[x.kind]  # below, they may be read as zero
    return with_slack(Value(value, lo, hi, kind, x.nan, x.slack), (lo < hi) & taken)


def _float_to_integer(x: Value, dtype: torch.dtype, kind: str) -> Value:
    info = torch.iinfo(dtype)

    def truncated(t: Tensor) -> Tensor:
        t = torch.where(t.isnan(), 0.0, t).clamp(float(info.min), float(info.max))
        return torch.where(t >= 2.0**63, info.max, t.clamp(max=2.0**63 - 1024).to(torch.int64))

    lo, hi = truncated(x.lo), truncated(x.hi)
    lo = torch.where(x.nan, lo.clamp(max=0), lo)
    hi = torch.where(x.nan, hi.clamp(min=0), hi)
    result = Value(truncated(x.value), lo, hi, kind, torch.zeros_like(x.nan), x.slack)
    return with_slack(result, lo < hi)


def _integer_to_integer(x: Value, dtype: torch.dtype, kind: str) -> Value:
    x = x if x.kind in WIDTH else converted(x, "i32")
    info = torch.iinfo(dtype)
    x = of_integers(lambda s, _: wrap(s, info.bits, info.min < 0), x, x)
    return replace(x, kind=kind, lo=x.lo.clamp(min=info.min), hi=x.hi.clamp(max=info.max))
