"""Pieces that the elementary functions share: range reduction, polynomials, bits.

On blocks or scalars, of float32 where nothing else is said. Polynomials are minimax fits of the
relative error, made for this file, with the coefficients rounded to float32 one after the other.
"""

import triton
import triton.language as tl
from triton.language.extra import libdevice

#: Whether kernels run in Triton's interpreter. It rounds the product of a multiply-add, so code that lives on a fused
#: one takes NumPy's functions there instead.
INTERPRETED = tl.constexpr(triton.knobs.runtime.interpret)


@triton.jit
def polynomial(x, coefficients: tl.constexpr):
    """The polynomial in `x` with these coefficients, highest power first (Horner)."""
    p = x * coefficients[0] + coefficients[1]
    for k in tl.static_range(2, len(coefficients)):
        p = p * x + coefficients[k]
    return p


@triton.jit
def with_sign_of(y, x):
    """`y` with the sign bit of `x` added; `y` is not negative, or has the sign of `x` already."""
    if x.dtype == tl.float64:
        sign = x.to(tl.int64, bitcast=True) & -0x8000000000000000
        return (y.to(tl.int64, bitcast=True) | sign).to(tl.float64, bitcast=True)
    else:
        sign = x.to(tl.int32, bitcast=True) & -0x80000000
        return (y.to(tl.int32, bitcast=True) | sign).to(tl.float32, bitcast=True)


@triton.jit
def leading_half(x):
    """`x` with the lower half of its significand cleared, so that products of two such values are
    exact.
    """
    if x.dtype == tl.float64:
        return (x.to(tl.int64, bitcast=True) & -0x8000000).to(tl.float64, bitcast=True)
    else:
        return (x.to(tl.int32, bitcast=True) & -0x1000).to(tl.float32, bitcast=True)


@triton.jit
def at_most(x, bound):
    """min(x, bound); NaN stays NaN."""
    return tl.minimum(x, bound, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def clip(x, low, high):
    """`x` within [low, high]; NaN stays NaN."""
    return at_most(tl.maximum(x, low, propagate_nan=tl.PropagateNan.ALL), high)


@triton.jit
def quick_quotient(x, d):
    """x / d within 2 units in the last place for float32 d in [2^-126, 2^126]: an estimate of 1 / d
    by the hardware, and a product. It is 0 for d above.
    """
    if INTERPRETED:
        return x / d
    else:
        return libdevice.fast_dividef(x, d)


@triton.jit
def reciprocal_estimate(d):
    """An estimate e of 1 / d for float32 d in [2^-126, 2^126], and its relative error 1 - d e."""
    estimate = quick_quotient(1.0, d)
    return estimate, 1.0 - d * estimate


@triton.jit
def lost_by_exponent(x, t):
    """x - t ln 2, what the rounding of t = x log2(e) lost, for float32."""
    return tl.fma(t, 1.904654299957768e-09, tl.fma(t, -0.6931471824645996, x))


@triton.jit
def exp_estimate(x, t):
    """e and c with e^x = e + e c, for float32 x and t = x log2(e): the hardware's 2^t, and what the
    rounding of t lost.

    c is exact only where a multiply-add is fused. It is NaN for no x but NaN: the maximum takes its
    other operand.
    """
    lost = lost_by_exponent(x, t)
    return tl.exp2(t), tl.maximum(lost, -0.5)


@triton.jit
def power_of_two(y, bias: tl.constexpr = 127):
    """n = `y` rounded to an integer, for float32 y in [-127, 128], and 2^(n + bias - 127).

    The power is 0 for an exponent of -127 and inf for 128. Adding 1.5 * 2^23 rounds to an integer;
    the bias on top of it leaves the power's exponent field in the low bits.
    """
    shifted = y + (12582912.0 + bias)
    scale = (shifted.to(tl.int32, bitcast=True) << 23).to(tl.float32, bitcast=True)
    return shifted - (12582912.0 + bias), scale


@triton.jit
def minus_multiple_of_ln2(x, n):
    """x - n ln 2, without loss for integers |n| < 512 (Cody and Waite: the first part of ln 2 has
    15 bits).
    """
    return (x - n * 0.693145751953125) - n * 1.428606765330187e-06


@triton.jit
def expm1_reduced(r):
    """e^r - 1 for float32 |r| <= ln(2) / 2 (error of the fit 2^-26.1)."""
    p = polynomial(r, (0.00139406603, 0.00836640596, 0.0416664034, 0.16666545, 0.5))
    return r * r * p + r


@triton.jit
def log1p_reduced(f):
    """log(1 + f) for float32 f in [-1/3, 1/3] (error of the fit 2^-27.7)."""
    # fmt: off
    p = polynomial(f, (
        -0.128777757, 0.139872044, -0.121875517, 0.140052617, -0.166802421, 0.200104475,
        -0.249998033, 0.333332151, -0.5,
    ))
    # fmt: on
    return f * f * p + f


@triton.jit
def split_exponent(x):
    """e and f, as floats, with x = 2^e (1 + f) and f in [-1/3, 1/3), for finite float32 x > 0."""
    small = x < 1.1754943508222875e-38
    bits = tl.where(small, x * 8388608.0, x).to(tl.int32, bitcast=True) - 0x3F2AAAAB
    e = (bits >> 23).to(tl.float32) - tl.where(small, 23.0, 0.0)
    return e, ((bits & 0x007FFFFF) + 0x3F2AAAAB).to(tl.float32, bitcast=True) - 1.0


@triton.jit
def small_expm1(x):
    """e^x - 1 for x so small that three terms of its series do."""
    return x + x * x * (0.5 + x * 0.16666666666666666)


@triton.jit
def square_parts(a, factor: tl.constexpr):
    """factor a^2 as the sum of two numbers, the second of which is what the rounding of the first lost."""
    if a.dtype == tl.float64 or INTERPRETED:
        lead = leading_half(a)
        high = lead * lead * factor
        low = (a - lead) * factor * (a + lead)
    else:
        scaled = a * factor
        high = scaled * a
        low = tl.fma(scaled, a, -high)
    return high, low


@triton.jit
def gaussian(a, factor: tl.constexpr):
    """q and s with e^(factor a^2) = s (1 + q), s a power of two for float32; `factor` is negative.

    The square is taken in two parts, since an error in it would be one of the result.
    """
    high, low = square_parts(a, factor)
    if a.dtype == tl.float64:
        return small_expm1(low), tl.exp(high)
    else:
        n, scale = power_of_two(high * 1.4426950408889634)
        # Fused, so that the product in `high` is what `low` corrects.
        r = tl.fma(n, -1.428606765330187e-06, tl.fma(n, -0.693145751953125, high))
        return expm1_reduced(r + low), scale


@triton.jit
def quick_gaussian(a, factor: tl.constexpr):
    """q and e with e^(factor a^2) = e (1 + q), e by the hardware: cheaper than `gaussian`, and two
    units worse.
    """
    high, low = square_parts(a, factor)
    if a.dtype == tl.float64 or INTERPRETED:
        return small_expm1(low), tl.exp(high)
    else:
        t = high * 1.4426950408889634
        return lost_by_exponent(high, t) + low, tl.exp2(t)


@triton.jit
def scaled_erfc(a, per_a: tl.constexpr, s):
    """s e^(b^2) erfc(b) for b = per_a a >= 0: s (1 + p(t)) / (1 + sqrt(2) b) with t = (b - c) / (b +
    c).
    """
    if a.dtype == tl.float64:
        w = s / ((1.4142135623730951 * per_a) * a + 1.0)
        t = (a - 4.0 / per_a) / (a + 4.0 / per_a)
        # fmt: off
        p = polynomial(t, (  # error of the fit 2^-55
            -1.1011653362827038e-09, -9.059085264729044e-09, -6.438282624619336e-09,
            7.67683694768756e-08, 5.201848324712412e-08, -5.619086961585918e-07,
            1.298180654201063e-07, 3.9231075550745975e-06, -7.074731298200241e-06,
            -1.7812941376160033e-05, 9.989953982401046e-05, -0.0001177613204692507,
            -0.0005422005428316064, 0.003324081118952387, -0.01026430390836637,
            0.022519497598013777, -0.037735370054610015, 0.04779527199110634,
            -0.03953083299853925, 4.188819460685038e-05, 0.07493656707026822,
            -0.17460631320788841, -0.08801457833045882,
        ))
        # fmt: on
        return p * w + w
    else:
        w = quick_quotient(s, (1.4142135623730951 * per_a) * a + 1.0)
        t = 1.0 - quick_quotient(4.0 / per_a, a + 2.0 / per_a)
        # fmt: off
        p = polynomial(t, (  # error of the fit 2^-26.4
            -0.000260043889, -0.000864639005, 0.00065963564, 0.0058643315, -0.00365395611,
            -0.037237294, 0.0928726941, -0.0466217026, -0.190713882, -0.0222362597,
        ))
        # fmt: on
        return p * w + w
