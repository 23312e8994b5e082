"""Elementary functions for Triton kernels, on blocks or scalars of float32 or float64.

Every float32 function is within 4 units in the last place wherever its result is normal
(`normal_cdf`: 8, `pow`: 16), over its whole range, on a GPU and under Triton's interpreter. NaN,
infinities and signed zeros come out as in PyTorch. A function may read a subnormal as zero and write
zero for a subnormal.

The float32 forms use integer operations on bits, additions, multiplications, `tl.exp2` and the
hardware's quotient, which behave alike on all targets. They hold with and without contraction
of `a * b + c` into one rounding, because the compiler contracts and the interpreter does not. The
float64 forms rest on Triton's own float64 functions and lose a few units; `pow` loses one for each
unit of |y log2(x)|.
"""

import triton
import triton.language as tl

from ._math_parts import (
    INTERPRETED,
    exp_estimate,
    at_most,
    clip,
    expm1_reduced,
    gaussian,
    leading_half,
    log1p_reduced,
    minus_multiple_of_ln2,
    polynomial,
    power_of_two,
    quick_gaussian,
    quick_quotient,
    reciprocal_estimate,
    scaled_erfc,
    split_exponent,
    with_sign_of,
)


@triton.jit
def exp(x):
    """e^x."""
    if x.dtype == tl.float64 or INTERPRETED:
        return tl.exp(x)
    else:
        # Below 128, to which the exponent may round up where the result is still finite.
        estimate, lost = exp_estimate(x, at_most(x * 1.4426950408889634, 127.99999237060547))
        return tl.fma(estimate, lost, estimate)


@triton.jit
def exp2(x):
    """2^x."""
    return tl.exp2(x)


@triton.jit
def expm1(x):
    """e^x - 1, accurate near zero."""
    if x.dtype == tl.float64:
        # Kahan: the rounding of u = e^x cancels between u - 1 and log(u).
        u = tl.exp(x)
        y = tl.where(tl.abs(x) < 1.0, (u - 1.0) * (x / tl.log(u)), u - 1.0)
        return tl.where(u == 1.0, x, y)
    else:
        clipped = clip(x, -30.0, 89.0)
        # 2^n overflows before the result does, 2^(n - 1) does not.
        n, half = power_of_two(clipped * 1.4426950408889634, 126)
        y = expm1_reduced(minus_multiple_of_ln2(clipped, n)) * half + (half - 0.5)
        return with_sign_of(y + y, x)


@triton.jit
def _log_edges(y, x):
    """`y`, a logarithm of float32 `x`, put right where `x` is zero, negative, infinite or NaN."""
    outside = x.to(tl.uint32, bitcast=True) >= 0x7F800000
    y = tl.where(outside, x * float("inf") + float("inf"), y)
    return tl.where(x == 0.0, float("-inf"), y)


@triton.jit
def log(x):
    """Natural logarithm."""
    if x.dtype == tl.float64:
        return tl.log(x)
    else:
        e, f = split_exponent(x)
        return _log_edges(e * 0.6931471805599453 + log1p_reduced(f), x)


@triton.jit
def log2(x):
    """Logarithm to base 2."""
    if x.dtype == tl.float64:
        return tl.log2(x)
    else:
        e, f = split_exponent(x)
        return _log_edges(log1p_reduced(f) * 1.4426950408889634 + e, x)


@triton.jit
def log1p(x):
    """log(1 + x), accurate near zero."""
    u = 1.0 + x
    if x.dtype == tl.float64:
        # Kahan: the rounding of u cancels between log(u) and u - 1.
        y = tl.where(tl.abs(x) < 1.0, tl.log(u) * (x / (u - 1.0)), tl.log(u))
        return tl.where(u == 1.0, x, y)
    else:
        # With u = 2^e m, f = x 2^-e + (2^-e - 1), so that the rounding of u decides e alone.
        # The second power is taken as 2^(2 - e) / 4, which does not underflow.
        e_bits = (u.to(tl.int32, bitcast=True) - 0x3F2AAAAB) & -0x00800000
        scaled = (x.to(tl.int32, bitcast=True) - e_bits).to(tl.float32, bitcast=True)
        f = scaled + ((0x40800000 - e_bits).to(tl.float32, bitcast=True) * 0.25 - 1.0)
        e = e_bits.to(tl.float32) * 1.1920928955078125e-07
        return with_sign_of(_log_edges(e * 0.6931471805599453 + log1p_reduced(f), u), x)


@triton.jit
def log1p_unit(x):
    """log(1 + x) for x in [0, 1] (error of the fit 2^-27.5)."""
    if x.dtype == tl.float64:
        y = tl.log(1.0 + x)
        return y + (x - ((1.0 + x) - 1.0)) / (1.0 + x)
    else:
        # fmt: off
        p = polynomial(x, (
            -0.00330624706, 0.0201492216, -0.0575598665, 0.106698915, -0.153490543, 0.196931869,
            -0.24958156, 0.333304703, -0.499999315,
        ))
        # fmt: on
        return x * x * p + x


@triton.jit
def sin(x):
    """Sine of x in radians."""
    return tl.sin(x)


@triton.jit
def cos(x):
    """Cosine of x in radians."""
    return tl.cos(x)


@triton.jit
def sqrt(x):
    """Square root."""
    return tl.sqrt(x)


@triton.jit
def rsqrt(x):
    """1 / sqrt(x)."""
    return tl.rsqrt(x)


@triton.jit
def tanh(x):
    """Hyperbolic tangent: h / (h + 1) with h = (e^(2|x|) - 1) / 2."""
    if x.dtype == tl.float64:
        t = expm1(2.0 * at_most(tl.abs(x), 20.0))
        return with_sign_of(t / (t + 2.0), x)
    else:
        a = at_most(tl.abs(x), 10.0)
        n, scale = power_of_two(a * 2.8853900817779268)
        # One part of ln 2 is enough: where n > 0 the result hardly depends on r.
        r = a - n * 0.34657359027997264
        p = polynomial(r, (0.04461011296, 0.13386249536, 0.3333312272, 0.6666618, 1.0))
        h = (r * r * p + r) * scale + (scale * 0.5 - 0.5)
        return with_sign_of(quick_quotient(h, h + 1.0), x)


@triton.jit
def sigmoid(x):
    """1 / (1 + e^-x)."""
    if x.dtype == tl.float64:
        e = tl.exp(-tl.abs(x))
        return tl.where(x < 0.0, e, 1.0) / (1.0 + e)
    elif INTERPRETED:
        return 1.0 / (1.0 + tl.exp(-x))
    else:
        estimate, lost = exp_estimate(-x, x * -1.4426950408889634)
        y, lost = reciprocal_estimate(estimate * (lost + 1.0) + 1.0)
        # `lost` is NaN where the sum is infinite; the maximum then takes its other operand, and y stays 0.
        return y * tl.maximum(lost, -0.5) + y


@triton.jit
def erf(x):
    """Error function."""
    return tl.erf(x)


@triton.jit
def erfc(x):
    """1 - erf(x), accurate in its tail."""
    a = at_most(tl.abs(x), 28.0 if x.dtype == tl.float64 else 9.38)
    q, scale = gaussian(a, -1.0)
    y = scaled_erfc(a, 1.0, scale)
    y = y * q + y
    return tl.where(x < 0.0, 2.0 - y, y)


@triton.jit
def normal_cdf(x):
    """The probability that a standard normal number lies below `x`: erfc(-x / sqrt(2)) / 2.

    Within 8 units in the last place for float32.
    """
    # The tail is zero there.
    a = at_most(tl.abs(x), 40.0 if x.dtype == tl.float64 else 16.0)
    q, power = quick_gaussian(a, -0.5)
    tail = scaled_erfc(a, 0.7071067811865476, power * 0.5)
    tail = tail * q + tail
    return tl.abs(tl.where(x > 0.0, 1.0, 0.0).to(x.dtype) - tail)


@triton.jit
def _log2_pair(x):
    """log2(x) of finite float32 x > 0 as the sum of two floats, within 2^-28."""
    e, f = split_exponent(x)
    lead = leading_half(f)
    square = lead * lead
    square_rest = (f - lead) * (f + lead)
    # log(1 + f) = f - f^2 / 2 + f^3 / 3 + f^4 q (error of the fit 2^-32.6), the square without
    # rounding.
    # fmt: off
    q = polynomial(f, (
        -0.112736143, 0.11930757, -0.0960291997, 0.107767604, -0.12523976, 0.143021107,
        -0.166660234, 0.199996978, -0.25000006,
    ))
    # fmt: on
    third = f * 0.3333333432674408
    tail = square * third + (square_rest * (third - 0.5) + (f * f) * (f * f) * q)
    high = f - 0.5 * square
    low = ((f - high) - 0.5 * square) + tail
    # log2(e) in two parts, the first of 12 bits
    lead = leading_half(high)
    scaled = lead * 1.4423828125
    rest = lead * 0.0003122283889634 + ((high - lead) + low) * 1.4426950408889634
    total = e + scaled
    rest = (scaled - (total - e)) + rest
    high = total + rest
    return high, rest - (high - total)


@triton.jit
def _pow_of_positive(a, y):
    """a^y for a > 0 (not 0, inf or NaN)."""
    if a.dtype == tl.float64:
        return tl.exp2(clip(y, -1e25, 1e25) * tl.log2(a))
    else:
        y = clip(y, -1e12, 1e12)
        high, low = _log2_pair(a)
        y_lead = leading_half(y)
        lead = leading_half(high)
        product = y_lead * lead
        rest = y_lead * ((high - lead) + low) + (y - y_lead) * high
        t = product + rest
        lost = clip(rest - (t - product), -1.0, 1.0)
        t = clip(t, -126.9, 128.4)
        n, scale = power_of_two(t - 0.5)
        return tl.exp2((t - n) + lost) * scale


@triton.jit
def pow(x, y):
    """x^y, with the edge cases of C99's `pow`."""
    x, y = tl.broadcast(x, y)
    a = tl.abs(x)
    zero = a == 0.0
    edge = zero | (a == float("inf"))
    m = tl.where(edge, tl.where((y < 0.0) == zero, float("inf"), 0.0), _pow_of_positive(a, y))
    integer = tl.floor(y) == y
    odd = integer & (tl.floor(y * 0.5) != y * 0.5)
    m = tl.where(odd, with_sign_of(m, x), m)
    m = tl.where(integer | edge | (x >= 0.0), m, float("nan"))
    m = tl.where((x != x) | (y != y), x + y, m)
    return tl.where((x == 1.0) | (y == 0.0), 1.0, m)
