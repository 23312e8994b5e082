"""Elementary functions for Triton kernels, on blocks or scalars of float32 or float64.

Every float32 function is within 4 units in the last place wherever its result is normal (`pow`: 16),
over the whole range, on a GPU and under Triton's interpreter; NaN, infinities and signed zeros come out as
in PyTorch. A function may read a subnormal as zero and write zero for a subnormal. The float64 forms rest on
Triton's own float64 `exp`, `log`, `erf`, `sin` and `cos`.

The float32 forms use integer operations on the bits, additions, multiplications, `tl.exp2` of a small argument and
`tl.rsqrt`, since those behave alike on all targets. They hold with and without contraction of `a * b + c` into one
rounding, because the compiler contracts and the interpreter does not. Polynomials are minimax fits of the relative
error, made for this file, with the coefficients rounded to float32 one after the other.
"""

import triton
import triton.language as tl


@triton.jit
def _polynomial(x, coefficients: tl.constexpr):
    """The polynomial in `x` with these coefficients, highest power first (Horner)."""
    p = x * coefficients[0] + coefficients[1]
    for k in tl.static_range(2, len(coefficients)):
        p = p * x + coefficients[k]
    return p


@triton.jit
def _with_sign_of(y, x):
    """`y` with the sign bit of `x` added; `y` is not negative, or has the sign of `x` already."""
    if x.dtype == tl.float64:
        sign = x.to(tl.int64, bitcast=True) & -0x8000000000000000
        return (y.to(tl.int64, bitcast=True) | sign).to(tl.float64, bitcast=True)
    else:
        sign = x.to(tl.int32, bitcast=True) & -0x80000000
        return (y.to(tl.int32, bitcast=True) | sign).to(tl.float32, bitcast=True)


@triton.jit
def _leading_half(x):
    """`x` with the lower half of its significand cleared, so that products of two such values are exact."""
    if x.dtype == tl.float64:
        return (x.to(tl.int64, bitcast=True) & -0x8000000).to(tl.float64, bitcast=True)
    else:
        return (x.to(tl.int32, bitcast=True) & -0x1000).to(tl.float32, bitcast=True)


@triton.jit
def _at_most(x, bound):
    """min(x, bound); NaN stays NaN."""
    return tl.minimum(x, bound, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def _clip(x, low, high):
    """`x` within [low, high]; NaN stays NaN."""
    return _at_most(tl.maximum(x, low, propagate_nan=tl.PropagateNan.ALL), high)


@triton.jit
def _reciprocal(d):
    """1 / d for float32 d in [2^-126, 2^127]: an estimate and one Newton step, cheaper than a division."""
    root = tl.rsqrt(d)
    estimate = root * root
    return estimate + estimate * (1.0 - d * estimate)


@triton.jit
def _power_of_two(y, bias: tl.constexpr = 127):
    """n = `y` rounded to an integer, for float32 y in [-127, 128], and 2^(n + bias - 127).

    The power is 0 for an exponent of -127 and inf for 128. Adding 1.5 * 2^23 rounds to an integer; the bias on
    top of it leaves the power's exponent field in the low bits.
    """
    shifted = y + (12582912.0 + bias)
    scale = (shifted.to(tl.int32, bitcast=True) << 23).to(tl.float32, bitcast=True)
    return shifted - (12582912.0 + bias), scale


@triton.jit
def _minus_multiple_of_ln2(x, n):
    """x - n ln 2, without loss for integers |n| < 512 (Cody and Waite: the first part of ln 2 has 15 bits)."""
    return (x - n * 0.693145751953125) - n * 1.428606765330187e-06


@triton.jit
def _expm1_reduced(r):
    """e^r - 1 for float32 |r| <= ln(2) / 2 (error of the fit 2^-26.1)."""
    p = _polynomial(r, (0.00139406603, 0.00836640596, 0.0416664034, 0.16666545, 0.5))
    return r * r * p + r


@triton.jit
def exp(x):
    """e^x."""
    if x.dtype == tl.float64:
        return tl.exp(x)
    else:
        x = _clip(x, -88.0, 89.0)
        # Rounding down instead of to nearest keeps 2^n finite up to the largest result.
        n, scale = _power_of_two(x * 1.4426950408889634 - 0.5)
        return tl.exp2(_minus_multiple_of_ln2(x, n) * 1.4426950408889634) * scale


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
        clipped = _clip(x, -30.0, 89.0)
        # 2^n overflows before the result does, 2^(n - 1) does not.
        n, half = _power_of_two(clipped * 1.4426950408889634, 126)
        y = _expm1_reduced(_minus_multiple_of_ln2(clipped, n)) * half + (half - 0.5)
        return _with_sign_of(y + y, x)


@triton.jit
def _log1p_reduced(f):
    """log(1 + f) for float32 f in [-1/3, 1/3] (error of the fit 2^-27.7)."""
    # fmt: off
    p = _polynomial(f, (
        -0.128777757, 0.139872044, -0.121875517, 0.140052617, -0.166802421, 0.200104475,
        -0.249998033, 0.333332151, -0.5,
    ))
    # fmt: on
    return f * f * p + f


@triton.jit
def _split_exponent(x):
    """e and f, as floats, with x = 2^e (1 + f) and f in [-1/3, 1/3), for finite float32 x > 0."""
    small = x < 1.1754943508222875e-38
    bits = tl.where(small, x * 8388608.0, x).to(tl.int32, bitcast=True) - 0x3F2AAAAB
    e = (bits >> 23).to(tl.float32) - tl.where(small, 23.0, 0.0)
    return e, ((bits & 0x007FFFFF) + 0x3F2AAAAB).to(tl.float32, bitcast=True) - 1.0


@triton.jit
def _log_edges(y, x):
    """`y`, a logarithm of float32 `x`, put right where x is zero, negative, infinite or NaN."""
    outside = x.to(tl.uint32, bitcast=True) >= 0x7F800000
    y = tl.where(outside, x * float("inf") + float("inf"), y)
    return tl.where(x == 0.0, float("-inf"), y)


@triton.jit
def log(x):
    """Natural logarithm."""
    if x.dtype == tl.float64:
        return tl.log(x)
    else:
        e, f = _split_exponent(x)
        return _log_edges(e * 0.6931471805599453 + _log1p_reduced(f), x)


@triton.jit
def log2(x):
    """Logarithm to base 2."""
    if x.dtype == tl.float64:
        return tl.log2(x)
    else:
        e, f = _split_exponent(x)
        return _log_edges(_log1p_reduced(f) * 1.4426950408889634 + e, x)


@triton.jit
def log1p(x):
    """log(1 + x), accurate near zero."""
    u = 1.0 + x
    if x.dtype == tl.float64:
        # Kahan: the rounding of u cancels between log(u) and u - 1.
        y = tl.where(tl.abs(x) < 1.0, tl.log(u) * (x / (u - 1.0)), tl.log(u))
        return tl.where(u == 1.0, x, y)
    else:
        # With u = 2^e m, f = x 2^-e + (2^-e - 1): the rounding of u decides e alone. 2^(2-e) never underflows.
        e_bits = (u.to(tl.int32, bitcast=True) - 0x3F2AAAAB) & -0x00800000
        scaled = (x.to(tl.int32, bitcast=True) - e_bits).to(tl.float32, bitcast=True)
        f = scaled + ((0x40800000 - e_bits).to(tl.float32, bitcast=True) * 0.25 - 1.0)
        e = e_bits.to(tl.float32) * 1.1920928955078125e-07
        return _with_sign_of(_log_edges(e * 0.6931471805599453 + _log1p_reduced(f), u), x)


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
        t = expm1(2.0 * _at_most(tl.abs(x), 20.0))
        return _with_sign_of(t / (t + 2.0), x)
    else:
        a = _at_most(tl.abs(x), 10.0)
        n, scale = _power_of_two(a * 2.8853900817779268)
        # One part of ln 2 is enough: where n > 0 the result hardly depends on r.
        r = a - n * 0.34657359027997264
        p = _polynomial(r, (0.04461011296, 0.13386249536, 0.3333312272, 0.6666618, 1.0))
        h = (r * r * p + r) * scale + (scale * 0.5 - 0.5)
        return _with_sign_of(h * _reciprocal(h + 1.0), x)


@triton.jit
def sigmoid(x):
    """1 / (1 + e^-x)."""
    if x.dtype == tl.float64:
        e = tl.exp(-tl.abs(x))
        return tl.where(x < 0.0, e, 1.0) / (1.0 + e)
    else:
        clipped = _clip(x, -88.0, 88.0)
        n, scale = _power_of_two(clipped * -1.4426950408889634)
        r = _minus_multiple_of_ln2(-clipped, n)
        y = _reciprocal(tl.exp2(r * 1.4426950408889634) * scale + 1.0)
        return tl.where(x < -88.0, 0.0, y)


@triton.jit
def softplus(x):
    """log(1 + e^x) as max(x, 0) + log1p(e^-|x|)."""
    above = tl.maximum(x, 0.0, propagate_nan=tl.PropagateNan.ALL)
    if x.dtype == tl.float64:
        return above + log1p(tl.exp(-tl.abs(x)))
    else:
        below = tl.maximum(-tl.abs(x), -88.0)
        n, scale = _power_of_two(below * 1.4426950408889634)
        t = tl.exp2(_minus_multiple_of_ln2(below, n) * 1.4426950408889634) * scale
        # log(1 + t) / t on [0, 1] (error of the fit 2^-27.5), less the leading 1
        # fmt: off
        p = _polynomial(t, (
            -0.00330559141, 0.0201467294, -0.0575560853, 0.106696017, -0.153489381, 0.196931645,
            -0.249581546, 0.333304703, -0.499999315,
        ))
        # fmt: on
        return p * t * t + t + above


@triton.jit
def erf(x):
    """Error function."""
    return tl.erf(x)


@triton.jit
def erfc(x):
    """1 - erf(x), accurate for large x: with a = |x|, e^(-a^2) g(a) / (a + c), g a polynomial in (a - c) / (a + c)."""
    if x.dtype == tl.float64:
        a = _at_most(tl.abs(x), 28.0)
        lead = _leading_half(a)
        e = tl.exp(-lead * lead) * tl.exp((lead - a) * (lead + a))
        w = 1.0 / (a + 4.0)
        # fmt: off
        g = _polynomial(1.0 - 8.0 * w, (
            8.8698355146624409e-10, -6.9872961694233885e-10, -1.5207509634856582e-08, 3.5500377373898268e-09,
            1.2405518908333955e-07, -7.9180148567595698e-08, -8.4643650077096898e-07, 1.426957607991023e-06,
            4.694732512871604e-06, -1.8862169511436185e-05, -3.6353466079853381e-06, 0.00017681319636813771,
            -0.00045505263210098788, -0.0002809589358933055, 0.0061120556470812088, -0.026370053332353913,
            0.076381514910083798, -0.17401093724043631, 0.33085158787797825, -0.5408538313132204,
            0.77320870226523764, -0.97654872908088208, 1.0959956610004911,
        ))
        # fmt: on
    else:
        a = _at_most(tl.abs(x), 9.38)
        lead = _leading_half(a)
        n, scale = _power_of_two(a * a * -1.4426950408889634)
        r = _minus_multiple_of_ln2(-lead * lead, n) + (lead - a) * (lead + a)
        e = (_expm1_reduced(r) + 1.0) * scale
        w = _reciprocal(a + 3.0)
        # fmt: off
        g = _polynomial(1.0 - 6.0 * w, (
            -0.000315830112, -0.0004718735, 0.00307054026, -0.00123945356, -0.0268371198, 0.119533405,
            -0.31046626, 0.590227842, -0.88339448, 1.07400692,
        ))
        # fmt: on
    y = e * (g * w)
    return tl.where(x < 0.0, 2.0 - y, y)


@triton.jit
def _log2_pair(x):
    """log2(x) of finite float32 x > 0 as the sum of two floats, within 2^-28."""
    e, f = _split_exponent(x)
    lead = _leading_half(f)
    square = lead * lead
    square_rest = (f - lead) * (f + lead)
    # log(1 + f) = f - f^2 / 2 + f^3 / 3 + f^4 q (error of the fit 2^-32.6), the square without rounding.
    # fmt: off
    q = _polynomial(f, (
        -0.112736143, 0.11930757, -0.0960291997, 0.107767604, -0.12523976, 0.143021107,
        -0.166660234, 0.199996978, -0.25000006,
    ))
    # fmt: on
    third = f * 0.3333333432674408
    tail = square * third + (square_rest * (third - 0.5) + (f * f) * (f * f) * q)
    high = f - 0.5 * square
    low = ((f - high) - 0.5 * square) + tail
    # log2(e) in two parts, the first of 12 bits
    lead = _leading_half(high)
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
        return tl.exp2(_clip(y, -1e25, 1e25) * tl.log2(a))
    else:
        y = _clip(y, -1e12, 1e12)
        high, low = _log2_pair(a)
        y_lead = _leading_half(y)
        lead = _leading_half(high)
        product = y_lead * lead
        rest = y_lead * ((high - lead) + low) + (y - y_lead) * high
        t = product + rest
        lost = _clip(rest - (t - product), -1.0, 1.0)
        t = _clip(t, -126.9, 128.4)
        n, scale = _power_of_two(t - 0.5)
        return tl.exp2((t - n) + lost) * scale


@triton.jit
def pow(x, y):
    """x^y, with the edge cases of C99's `pow`."""
    a = tl.abs(x)
    zero = a == 0.0
    edge = zero | (a == float("inf"))
    m = tl.where(edge, tl.where((y < 0.0) == zero, float("inf"), 0.0), _pow_of_positive(a, y))
    integer = tl.floor(y) == y
    odd = integer & (tl.floor(y * 0.5) != y * 0.5)
    m = tl.where(odd, _with_sign_of(m, x), m)
    m = tl.where(integer | edge | (x >= 0.0), m, float("nan"))
    m = tl.where((x != x) | (y != y), x + y, m)
    return tl.where((x == 1.0) | (y == 0.0), 1.0, m)
