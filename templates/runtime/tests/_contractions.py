"""Contractions of `Value` by dim name, whatever the order and the tiles in which a kernel adds.

Each addition errs by a unit of roundoff of the partial sum so far. Of terms in no particular order,
partial sums have the mean square `S^2 / 3 + Q / 6`, `S` being the sum and `Q` that of the squares.
Errors of either sign then add up to `sqrt(n / 3)` units of its root R, as uniform ones do, and the
bound is eight times that (Higham and Mary, "A new approach to probabilistic rounding error
analysis", 2019). Matrix units, which add up at least 16 terms at a time, may truncate, and such
errors have one sign: `n / 8` units of R more. `n - 1` units of the absolute terms hold in any case.
Products of halves are exact in f32.
"""

from __future__ import annotations

import math
import string
from collections.abc import Callable

import torch
from torch import Tensor

from ._integers import LIMITS, WIDTH, wrap
from ._intervals import F64, UNIT, contains_zero, neighbours
from ._values import Operand, Value, common

DEVIATIONS = 8.0

TRUNCATED_TERMS = 16

OPERAND_ERROR = {"ieee": 0.0, "tf32": 2.0**-10, "tf32x3": 2.0**-20}
"""By how much an f32 operand is narrowed before it multiplies: tf32 keeps ten bits of its fraction."""

_DROPPED_BY_TF32 = 0x1FFF

Product = Callable[[Tensor, Tensor], Tensor]


def contract(
    a: Operand, a_dims: str, b: Operand, b_dims: str, over: str, precision: str = "ieee"
) -> Value:
    """The sum of products over a dim, accumulated in the compute type; integers wrap.

    The operands are over the dims named, between spaces as for `align`; other dims that both have
    are batch dims. The result is over the first operand's, then those that only the second has,
    leading ones first.
    """
    a, b = common((a, b), "i32")
    product = _product(a_dims.split(), b_dims.split(), over)
    terms = max(a.shape[_last(a_dims.split(), over)], 1)
    slack = product(a.slack, torch.ones_like(b.slack)) + product(torch.ones_like(a.slack), b.slack)
    nan = product(a.nan.to(F64), torch.ones_like(b.slack))
    nan = (nan + product(torch.ones_like(a.slack), b.nan.to(F64))) > 0
    of_kind = _of_floats if a.is_float else _of_integers
    value, lo, hi, free = of_kind(a, b, product, terms, OPERAND_ERROR[precision])
    return Value(value, lo, hi, a.kind, nan | free, slack / terms)


def _last(dims: list[str], name: str) -> int:
    """The place of a named dim, counted from the right."""
    return dims.index(name) - len(dims)


def _product(a_dims: list[str], b_dims: list[str], over: str) -> Product:
    names = [name for name in dict.fromkeys((*a_dims, *b_dims)) if name != "..."]
    letters = dict(zip(names, string.ascii_letters)) | {"...": "..."}
    ordered = (["..."] if "..." in {*a_dims, *b_dims} else []) + [
        one for one in names if one != over
    ]
    sides = ["".join(letters[name] for name in dims) for dims in (a_dims, b_dims, ordered)]
    equation = f"{sides[0]},{sides[1]}->{sides[2]}"
    return lambda x, y: torch.einsum(equation, x, y)


def _of_floats(
    a: Value, b: Value, product: Product, terms: int, operand_error: float
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The value, both ends, and where anything may be: where a partial sum may overflow."""
    (x, x_error), (y, y_error) = (_middle(side, operand_error) for side in (a, b))
    size = product(x.abs(), y.abs())
    error = product(x_error, y.abs()) + product(x.abs(), y_error) + product(x_error, y_error)
    roundoff = UNIT[a.kind] * (2.0 if a.kind == "f64" else 1.0)
    middle, value = product(x, y), product(a.value, b.value)
    error = error + roundoff * (_accumulated(middle, product(x * x, y * y), size, terms) + size)
    largest = torch.finfo(torch.float32 if a.kind == "f32" else F64).max
    lo, hi = neighbours(middle - error, a.kind)[0], neighbours(middle + error, a.kind)[1]
    lo, hi = torch.where(lo == 0, -0.0, lo), torch.where(hi == 0, 0.0, hi)
    special = ~size.isfinite()
    lo, hi = torch.where(special, value, lo), torch.where(special, value, hi)
    free = (special & value.isfinite()) | (~special & (size + error > largest))
    free = free | (
        product(_infinite(a), _may_vanish(b)) + product(_may_vanish(a), _infinite(b)) > 0
    )
    lo, hi = torch.where(free, -math.inf, lo), torch.where(free, math.inf, hi)
    return value, lo, hi, free | lo.isnan()


def _accumulated(total: Tensor, squares: Tensor, size: Tensor, terms: int) -> Tensor:
    """The errors of the additions, in units of roundoff."""
    partial = torch.sqrt(total.abs() * (total.abs() / 3) + squares / 6)
    likely = (DEVIATIONS * math.sqrt(terms / 3) + 2 * terms / TRUNCATED_TERMS) * partial
    return torch.minimum(likely, (terms - 1) * size)


def _infinite(x: Value) -> Tensor:
    return (x.lo.isinf() | x.hi.isinf()).to(F64)


def _may_vanish(x: Value) -> Tensor:
    """Where a kernel may have a zero or not, which with an infinity is NaN or not."""
    return (contains_zero(x.lo, x.hi) & (x.lo != x.hi)).to(F64)


def _middle(x: Value, operand_error: float) -> tuple[Tensor, Tensor]:
    """The middle and the half width of the intervals; an exact infinity has no width."""
    exact = x.lo == x.hi
    middle = torch.where(exact, x.lo, x.lo / 2 + x.hi / 2)
    width = torch.where(exact, 0.0, x.hi / 2 - x.lo / 2)
    if x.kind == "f32" and operand_error:
        kept = exact & ((x.lo.to(torch.float32).view(torch.int32) & _DROPPED_BY_TF32) == 0)
        width = torch.where(kept | middle.isinf(), width, width + operand_error * middle.abs())
    return middle, width


def _of_integers(
    a: Value, b: Value, product: Product, _terms: int, _error: float
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Exact, and wrapped; what rests on an open decision has an interval, or the whole range where it may wrap."""
    value = wrap(product(a.value, b.value), WIDTH[a.kind])
    (x, x_error), (y, y_error) = (_middle_of_integers(side) for side in (a, b))
    error = product(x_error, y.abs()) + product(x.abs(), y_error) + product(x_error, y_error)
    low, high = LIMITS[a.kind]
    may_wrap = product(x.abs() + x_error, y.abs() + y_error) > min(high, 2**52)
    lo, hi = (value - error).to(torch.int64), (value + error).to(torch.int64)
    lo, hi = torch.where(may_wrap, low, lo), torch.where(may_wrap, high, hi)
    lo, hi = torch.where(error == 0, value, lo), torch.where(error == 0, value, hi)
    return value, lo, hi, torch.zeros_like(may_wrap)


def _middle_of_integers(x: Value) -> tuple[Tensor, Tensor]:
    """A number, and how far others may be from it, in f64."""
    value, lo, hi = (tensor.to(F64) for tensor in (x.value, x.lo, x.hi))
    return value, torch.maximum(value - lo, hi - value)
