"""Exact folding of primitives over literals: `fold("add", …)`.

Finite numbers are computed exactly (functions to 60 digits); infinities, NaN and signed zeros follow PyTorch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import TypeAlias

from opgen.dtypes import Kind
from opgen.ir.decimals import FUNCTIONS, power
from opgen.ir.numbers import Exact, FoldError, exact, sign_is_negative

Value: TypeAlias = Fraction | float

_LARGEST_SHIFT = 4096
_LARGEST_POWER = 1 << 15


def fold(primitive: str, args: Sequence[Exact]) -> Exact:
    """The value of a primitive over literals whose kinds its typing rule allows.

    Raises `FoldError` where there is none (an integer division by zero, a result too large to hold).
    """
    values = [arg.value for arg in args]
    kind = _result_kind(primitive, args)
    try:
        if primitive == "invert" and kind is Kind.BOOL:
            return exact(1 - values[0], kind)
        if primitive in _INTEGER:
            return exact(_INTEGER[primitive](*(int(value) for value in values)), kind)
        if primitive in ("div", "floordiv", "mod") and values[1] == 0:
            _check_divisor(primitive, args)
        if kind is Kind.INTEGER:  # integers have one zero
            return exact(Fraction(_positive_zero(_evaluate(primitive, values))), kind)
        return exact(_evaluate(primitive, values), kind)
    except OverflowError:
        raise FoldError("the value of this expression of literals is too large") from None


def _check_divisor(primitive: str, args: Sequence[Exact]) -> None:
    if all(arg.kind is not Kind.FLOAT for arg in args):
        proposal = "write `inf` or `nan`, or divide floats: `1.0 / 0.0`" if primitive == "div" else None
        raise FoldError("division of literals by zero", proposal)


def _positive_zero(value: Value) -> Value:
    return Fraction(0) if value == 0 else value


def _result_kind(primitive: str, args: Sequence[Exact]) -> Kind:
    kinds = {arg.kind for arg in (args[1:] if primitive == "where" else args)}
    if primitive in _TESTS or primitive in _COMPARISONS or primitive in ("and", "or", "not"):
        return Kind.BOOL
    if primitive in FUNCTIONS or primitive in ("div", "pow", "fma"):
        return Kind.FLOAT
    if Kind.FLOAT in kinds:
        return Kind.FLOAT
    if kinds == {Kind.BOOL} and primitive in ("where", "bitand", "bitor", "bitxor", "invert"):
        return Kind.BOOL
    return Kind.INTEGER


def _evaluate(primitive: str, values: Sequence[Value]) -> Value:
    if primitive in FUNCTIONS:
        return _function(primitive, values[0])
    if primitive in _COMPARISONS:
        return Fraction(_COMPARISONS[primitive](*values))
    return _OPERATIONS[primitive](*values)


# --- arithmetic ---------------------------------------------------------------------------------


def _stand_in(value: Value) -> float:
    """A float of the same sign and class: for operations in which only these matter."""
    if isinstance(value, float):
        return value
    return float((value > 0) - (value < 0))


def _is_special(value: Value) -> bool:
    return isinstance(value, float) and not math.isfinite(value)


def _zero(negative: bool) -> Value:
    return -0.0 if negative else Fraction(0)


def _add(a: Value, b: Value) -> Value:
    if _is_special(a) or _is_special(b):
        return _stand_in(a) + _stand_in(b)
    if a == 0 and b == 0:
        return _zero(sign_is_negative(a) and sign_is_negative(b))
    return Fraction(a) + Fraction(b)


def _neg(a: Value) -> Value:
    if a == 0:
        return _zero(not sign_is_negative(a))
    return -a


def _mul(a: Value, b: Value) -> Value:
    if _is_special(a) or _is_special(b):
        return _stand_in(a) * _stand_in(b)
    product = Fraction(a) * Fraction(b)
    return product if product != 0 else _zero(sign_is_negative(a) != sign_is_negative(b))


def _div(a: Value, b: Value) -> Value:
    negative = sign_is_negative(a) != sign_is_negative(b)
    if b == 0:
        undefined = a == 0 or math.isnan(a)
        return math.nan if undefined else math.copysign(math.inf, -1 if negative else 1)
    if _is_special(a):
        return _stand_in(a) / _stand_in(b)
    if _is_special(b):
        return math.nan if math.isnan(b) else _zero(negative)
    return Fraction(a) / Fraction(b) if a != 0 else _zero(negative)


def _floordiv(a: Value, b: Value) -> Value:
    quotient = _div(a, b)
    if b == 0:
        return quotient
    if _is_special(a) or _is_special(quotient):
        return math.nan
    if _is_special(b) and a != 0 and sign_is_negative(quotient):
        return Fraction(-1)
    return _floor(quotient)


def _mod(a: Value, b: Value) -> Value:
    """The remainder with the divisor's sign; a zero has the dividend's, as `torch.remainder` gives it."""
    if b == 0 or _is_special(a) or math.isnan(b):
        return math.nan
    if _is_special(b):
        return a if a == 0 or sign_is_negative(a) == sign_is_negative(b) else b
    remainder = Fraction(a) - math.floor(Fraction(a) / Fraction(b)) * Fraction(b)
    return remainder if remainder != 0 else _zero(sign_is_negative(a))


def _pow(a: Value, b: Value) -> Value:
    if b == 0 or a == 1:
        return Fraction(1)
    if _is_special(a) or _is_special(b) or a == 0:
        return _special_power(a, b)
    base, exponent = Fraction(a), Fraction(b)
    if exponent.denominator == 1:
        bits = max(base.numerator.bit_length(), base.denominator.bit_length())
        if (bits - 1) * abs(exponent) > _LARGEST_POWER:
            raise OverflowError
        return base ** int(exponent)
    return math.nan if base < 0 else power(base, exponent)


def _special_power(a: Value, b: Value) -> Value:
    """Powers of zeros, infinities and NaN, by the signs and sizes that decide them (IEEE 754)."""
    if math.isnan(a) or math.isnan(b):
        return math.nan
    if math.isinf(b):
        size = abs(Fraction(a)) if not math.isinf(a) else 2
        grows = (size > 1) == (b > 0)
        return Fraction(1) if size == 1 else (math.inf if grows else Fraction(0))
    odd = Fraction(b).denominator == 1 and int(b) % 2 == 1
    negative = sign_is_negative(a) and odd
    if math.isinf(a) == (b > 0):
        return -math.inf if negative else math.inf
    return _zero(negative)


# --- choices and rounding -----------------------------------------------------------------------


def _pick(better: Callable[[Value, Value], bool]) -> Callable[..., Value]:
    """`min` or `max` of several: a NaN wins."""

    def pick(*values: Value) -> Value:
        best = values[0]
        for value in values[1:]:
            if math.isnan(value) or (not math.isnan(best) and better(value, best)):
                best = value
        return best

    return pick


_min = _pick(lambda a, b: a < b)
_max = _pick(lambda a, b: a > b)


def _whole(rounding: Callable[[Fraction], int]) -> Callable[[Value], Value]:
    def apply(a: Value) -> Value:
        if isinstance(a, float):
            return a
        result = Fraction(rounding(a))
        return result if result != 0 else _zero(a < 0)

    return apply


_floor = _whole(math.floor)


def _sign(a: Value) -> Value:
    return Fraction((a > 0) - (a < 0))


def _abs(a: Value) -> Value:
    return _neg(a) if sign_is_negative(a) else a


_OPERATIONS: dict[str, Callable[..., Value]] = {
    "add": _add,
    "sub": lambda a, b: _add(a, _neg(b)),
    "mul": _mul,
    "div": _div,
    "floordiv": _floordiv,
    "mod": _mod,
    "pow": _pow,
    "fma": lambda a, b, c: _add(_mul(a, b), c),
    "neg": _neg,
    "abs": _abs,
    "sign": _sign,
    "floor": _floor,
    "ceil": _whole(math.ceil),
    "round": _whole(round),
    "trunc": _whole(math.trunc),
    "min": _min,
    "max": _max,
    "clamp": lambda x, low, high: _min(_max(x, low), high),
    "where": lambda condition, a, b: a if condition else b,
    "isnan": lambda a: Fraction(math.isnan(a)),
    "isinf": lambda a: Fraction(math.isinf(a)),
    "isfinite": lambda a: Fraction(not _is_special(a)),
}
_TESTS = ("isnan", "isinf", "isfinite")

_COMPARISONS: dict[str, Callable[[Value, Value], bool]] = {
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
}


# --- integers and bools -------------------------------------------------------------------------


def _shift(a: int, b: int) -> int:
    """`a << b`, or `a >> -b`."""
    if b > _LARGEST_SHIFT:
        raise OverflowError
    return a << b if b >= 0 else a >> -b


def _shift_left(a: int, b: int) -> int:
    if b < 0:
        raise FoldError("a shift by a negative count")
    return _shift(a, b)


def _shift_right(a: int, b: int) -> int:
    if b < 0:
        raise FoldError("a shift by a negative count")
    return _shift(a, -b)


_INTEGER: dict[str, Callable[..., int]] = {
    "bitand": lambda a, b: a & b,
    "bitor": lambda a, b: a | b,
    "bitxor": lambda a, b: a ^ b,
    "and": lambda a, b: a and b,
    "or": lambda a, b: a or b,
    "not": lambda a: 1 - a,
    "shl": _shift_left,
    "shr": _shift_right,
    "invert": lambda a: ~a,
}


# --- functions ----------------------------------------------------------------------------------

#: The limits at -inf and +inf; NaN where a function has none.
_LIMITS: dict[str, tuple[float, float]] = {
    "sqrt": (math.nan, math.inf),
    "rsqrt": (math.nan, 0),
    "exp": (0, math.inf),
    "exp2": (0, math.inf),
    "expm1": (-1, math.inf),
    "log": (math.nan, math.inf),
    "log2": (math.nan, math.inf),
    "log1p": (math.nan, math.inf),
    "sin": (math.nan, math.nan),
    "cos": (math.nan, math.nan),
    "tanh": (-1, 1),
    "erf": (-1, 1),
    "erfc": (2, 0),
    "sigmoid": (0, 1),
    "_normal_cdf": (0, 1),
    "_log1p_unit": (math.nan, math.nan),
}
#: Where a real function begins, and its value there (rsqrt and the logarithms diverge).
_EDGES: dict[str, tuple[int, float]] = {
    "sqrt": (0, 0.0),
    "rsqrt": (0, math.inf),
    "log": (0, -math.inf),
    "log2": (0, -math.inf),
    "log1p": (-1, -math.inf),
}
_ODD = ("sqrt", "expm1", "log1p", "sin", "tanh", "erf", "_log1p_unit")


def _function(name: str, a: Value) -> Value:
    if isinstance(a, float) and a != 0:
        if math.isnan(a):
            return a
        return _LIMITS[name][a > 0]
    if isinstance(a, float):  # -0.0
        if name == "rsqrt":
            return -math.inf
        if name in _ODD:
            return a
        a = Fraction(0)
    if name in _EDGES:
        edge, there = _EDGES[name]
        if a <= edge:
            return math.nan if a < edge else there
    return FUNCTIONS[name](a)
