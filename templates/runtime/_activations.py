"""Activations that a formula over the elementary functions would make slower, or inexact in a tail.

As in `_math.py`, every float32 result is within 4 units in the last place wherever it is normal,
and NaN, infinities and signed zeros come out as in PyTorch.
"""

import triton
import triton.language as tl

from ._math import log1p, sigmoid
from ._math_parts import (
    at_most,
    clip,
    exp_reduced,
    gaussian,
    leading_half,
    minus_multiple_of_ln2,
    polynomial,
    power_of_two,
    reciprocal,
    scaled_erfc,
)


@triton.jit
def softplus(x):
    """log(1 + e^x) as max(x, 0) + log1p(e^-|x|)."""
    above = tl.maximum(x, 0.0, propagate_nan=tl.PropagateNan.ALL)
    if x.dtype == tl.float64:
        return above + log1p(tl.exp(-tl.abs(x)))
    else:
        below = tl.maximum(-tl.abs(x), -88.0)
        n, scale = power_of_two(below * 1.4426950408889634)
        t = exp_reduced(minus_multiple_of_ln2(below, n)) * scale
        # log(1 + t) / t on [0, 1] (error of the fit 2^-27.5), less the leading 1
        # fmt: off
        p = polynomial(t, (
            -0.00330559141, 0.0201467294, -0.0575560853, 0.106696017, -0.153489381, 0.196931645,
            -0.249581546, 0.333304703, -0.499999315,
        ))
        # fmt: on
        return p * t * t + t + above


@triton.jit
def _gate(x, z, high, low):
    """x sigmoid(z) in float32, with z = high + low, where that sum would be rounded.

    Accurate also where sigmoid(z) is subnormal, while |x| < 2^64.
    """
    n, scale = power_of_two(z * -1.4426950408889634, 63)
    r = minus_multiple_of_ln2(-high, n) - low
    # d = 2^-64 (1 + e^-z); 2^-64 / d is the sigmoid, and the 2^-64 goes to the factor that stays
    # normal with it.
    scaled = reciprocal(exp_reduced(r) * scale + 5.421010862427522e-20)
    large = tl.abs(x) > 1.0
    y = tl.where(large, x * 5.421010862427522e-20, x) * tl.where(
        large, scaled, scaled * 5.421010862427522e-20
    )
    return tl.where(z <= -132.0, x * 0.0, y)


@triton.jit
def silu(x):
    """x sigmoid(x)."""
    if x.dtype == tl.float64:
        return x * sigmoid(x)
    else:
        z = clip(x, -132.0, 40.0)
        return _gate(x, z, z, 0.0)


@triton.jit
def swish(x, beta):
    """x sigmoid(beta x), the product beta x taken without rounding."""
    if x.dtype == tl.float64:
        return x * sigmoid(beta * x)
    else:
        z = clip(beta * x, -132.0, 40.0)
        x_lead = leading_half(x)
        beta_lead = leading_half(beta)
        high = beta_lead * x_lead
        low = beta_lead * (x - x_lead) + (beta - beta_lead) * x
        # Past the bounds of z only z counts.
        inside = z == beta * x
        return _gate(x, z, tl.where(inside, high, z), tl.where(inside, low, 0.0))


@triton.jit
def mish(x):
    """x tanh(log(1 + e^x)).

    With e = e^-|x| it is x (1 - 2 e^2 / (1 + 2 e + 2 e^2)) for x > 0, x e (1 - (e + e^2) / (2 + 2 e
    + e^2)) for x < 0.
    """
    negative = x < 0.0
    if x.dtype == tl.float64:
        e = tl.exp(-tl.abs(x))
        lost = tl.where(
            negative, (e + e * e) / (2.0 + e * (2.0 + e)), 2.0 * e * e / (1.0 + 2.0 * e * (1.0 + e))
        )
        return x * tl.where(negative, e, 1.0) * (1.0 - lost)
    else:
        a = at_most(tl.abs(x), 110.0)
        n, scale = power_of_two(a * -1.4426950408889634, 159)
        p = exp_reduced(minus_multiple_of_ln2(-a, n))
        # e = 2^-32 scale p, the power of two last on x, as it may be subnormal.
        e = (p * scale) * 2.3283064365386963e-10
        lost = tl.where(negative, e * e + e, e * e * 2.0)
        total = tl.where(negative, e * (e + 2.0) + 2.0, e * (e + 1.0) * 2.0 + 1.0)
        kept = 1.0 - lost * reciprocal(total)
        return tl.where(negative, ((x * scale) * (p * kept)) * 2.3283064365386963e-10, x * kept)


@triton.jit
def gelu(x):
    """`x` times the normal distribution function of `x`, accurate in its tail."""
    bound: tl.constexpr = 40.0 if x.dtype == tl.float64 else 13.27
    a = at_most(tl.abs(x), bound)
    q, scale = gaussian(a, 0.5)
    # x comes before the power of two, as without it the rest may be subnormal; bounded to avoid inf
    # * 0.
    y = (at_most(x, bound) * (scaled_erfc(a, 0.7071067811865476) * 0.5)) * scale
    y = y * q + y
    return tl.where(x > 0.0, x - y, y)
