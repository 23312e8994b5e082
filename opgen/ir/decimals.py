"""Functions of exact numbers to 60 significant digits, for expressions of literals alone.

Each takes and gives finite fractions; where a true value is a fraction of few digits (`sqrt(4)`, `exp(0)`) the
result is that fraction. Arguments so large that a result would lie far outside every element type raise
`OverflowError`; results far below every subnormal are 0.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import MAX_EMAX, MIN_EMIN, ROUND_HALF_EVEN, Context, Decimal, getcontext, localcontext
from fractions import Fraction

_DIGITS = 60
#: Guard digits: `exp(-x)` of the largest argument and the alternating series of `sin` and `erf` lose up to 50.
_WORKING_DIGITS = 160
#: e**20000 is about 1e8685, far outside f64.
_LARGEST_EXPONENT = 20000
#: erfc(30) is about 1e-393, below the smallest f64 subnormal (5e-324).
_ERF_SATURATES = 30
_LARGEST_ANGLE = Fraction(10) ** 40

PI = Fraction(
    "3.14159265358979323846264338327950288419716939937510582097494459230781640628620899862803482534211706798"
)


def _context(digits: int) -> Context:
    return Context(prec=digits, rounding=ROUND_HALF_EVEN, Emax=MAX_EMAX, Emin=MIN_EMIN)


def _decimal(x: Fraction) -> Decimal:
    return Decimal(x.numerator) / Decimal(x.denominator)


def _rounded(function: Callable[[Decimal], Decimal]) -> Callable[[Fraction], Fraction]:
    """The function on fractions: computed with guard digits, rounded to 60."""

    def apply(x: Fraction) -> Fraction:
        with localcontext(_context(_WORKING_DIGITS)):
            result = function(_decimal(x))
        return Fraction(_context(_DIGITS).plus(result))

    return apply


def _exp(x: Decimal) -> Decimal:
    if x > _LARGEST_EXPONENT:
        raise OverflowError
    return Decimal(0) if x < -_LARGEST_EXPONENT else x.exp()


def _ln2() -> Decimal:
    return Decimal(2).ln()


def _expm1(x: Decimal) -> Decimal:
    if abs(x) > Decimal("1e-40"):
        return _exp(x) - 1
    return x + x * x / 2 + x * x * x / 6


def _log1p(x: Decimal) -> Decimal:
    if abs(x) > Decimal("1e-40"):
        return (1 + x).ln()
    return x - x * x / 2 + x * x * x / 3


def _tanh(x: Decimal) -> Decimal:
    if abs(x) > _LARGEST_EXPONENT:
        return Decimal(1).copy_sign(x)
    twice = _expm1(2 * x)
    return twice / (twice + 2)


def _sigmoid(x: Decimal) -> Decimal:
    if x < 0:
        power = _exp(x)
        return power / (1 + power)
    return 1 / (1 + _exp(-x))


def _series(first: Decimal, ratio: Callable[[int], Decimal]) -> Decimal:
    """The sum of terms t(n) = t(n-1) * ratio(n), until they no longer count."""
    total, term, n = first, first, 1
    while term != 0 and abs(term) > abs(total) * Decimal(10) ** -getcontext().prec:
        term *= ratio(n)
        total += term
        n += 1
    return total


def _reduced_angle(x: Decimal) -> Decimal:
    """The angle less whole turns, in -pi .. pi."""
    if abs(x) > _LARGEST_ANGLE:
        raise OverflowError
    turn = 2 * _pi()
    return x - turn * (x / turn).to_integral_value()


def _pi() -> Decimal:
    """Machin's formula, 16 atan(1/5) - 4 atan(1/239)."""
    return 16 * _atan_of_reciprocal(5) - 4 * _atan_of_reciprocal(239)


def _atan_of_reciprocal(n: int) -> Decimal:
    return _series(Decimal(1) / n, lambda k: Decimal(-(2 * k - 1)) / ((2 * k + 1) * n * n))


def _sin(x: Decimal) -> Decimal:
    angle = _reduced_angle(x)
    return _series(angle, lambda n: -angle * angle / ((2 * n) * (2 * n + 1)))


def _cos(x: Decimal) -> Decimal:
    angle = _reduced_angle(x)
    return _series(Decimal(1), lambda n: -angle * angle / ((2 * n - 1) * (2 * n)))


def _erf(x: Decimal) -> Decimal:
    """2/sqrt(pi) exp(-x*x) sum (2x*x)**n x / (1*3*...*(2n+1)), whose terms are all of one sign."""
    if abs(x) > _ERF_SATURATES:
        return Decimal(1).copy_sign(x)
    total = _series(x, lambda n: 2 * x * x / (2 * n + 1))
    return 2 / _pi().sqrt() * (-x * x).exp() * total


def _erfc(x: Decimal) -> Decimal:
    if x > _ERF_SATURATES:
        return Decimal(0)
    if x < 0:
        return 1 + _erf(-x)
    # 1 - erf cancels about x*x/ln(10) digits.
    with localcontext(_context(_WORKING_DIGITS + int(x * x / 2) + 1)):
        return 1 - _erf(x)


def _normal_cdf(x: Decimal) -> Decimal:
    return _erfc(-x / Decimal(2).sqrt()) / 2


def power(base: Fraction, exponent: Fraction) -> Fraction:
    """`base ** exponent` of a positive base."""

    def apply(x: Decimal) -> Decimal:
        return _exp(x * _decimal(base).ln())

    if exponent == Fraction(1, 2):
        return FUNCTIONS["sqrt"](base)
    return _rounded(apply)(exponent)


#: By primitive; `log*`, `sqrt` and `rsqrt` want arguments inside their domains.
FUNCTIONS: dict[str, Callable[[Fraction], Fraction]] = {
    "sqrt": _rounded(Decimal.sqrt),
    "rsqrt": _rounded(lambda x: 1 / x.sqrt()),
    "exp": _rounded(_exp),
    "exp2": _rounded(lambda x: _exp(x * _ln2())),
    "expm1": _rounded(_expm1),
    "log": _rounded(Decimal.ln),
    "log2": _rounded(lambda x: x.ln() / _ln2()),
    "log1p": _rounded(_log1p),
    "sin": _rounded(_sin),
    "cos": _rounded(_cos),
    "tanh": _rounded(_tanh),
    "erf": _rounded(_erf),
    "erfc": _rounded(_erfc),
    "sigmoid": _rounded(_sigmoid),
    "_normal_cdf": _rounded(_normal_cdf),
    "_log1p_unit": _rounded(_log1p),
}
