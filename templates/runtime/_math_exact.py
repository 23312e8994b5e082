"""Operations with one right answer, for Triton kernels, on blocks or scalars.

Comparisons that keep NaN and signed zeros, rounding to integers and to narrower types, division
with its quotient and remainder by Python's sign rule, and random numbers. They give the same bits
on every target and under Triton's interpreter. Floating-point arguments are float32 or float64.
"""

import triton
import triton.language as tl

from ._math_parts import with_sign_of


@triton.jit
def isnan(x):
    """Whether `x` is NaN."""
    return x != x


@triton.jit
def isinf(x):
    """Whether `x` is infinite."""
    return tl.abs(x) == float("inf")


@triton.jit
def isfinite(x):
    """Whether `x` is neither infinite nor NaN."""
    return tl.abs(x) < float("inf")


@triton.jit
def maximum(x, y):
    """The larger of two values; NaN if either is."""
    return tl.maximum(x, y, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def minimum(x, y):
    """The smaller of two values; NaN if either is."""
    return tl.minimum(x, y, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def clamp(x, low, high):
    """min(max(x, low), high); NaN if any of the three is; a zero on a bound keeps its sign."""
    x = tl.where(low != low, low, tl.where(x < low, low, x))
    return tl.where(high != high, high, tl.where(x > high, high, x))


@triton.jit
def neg(x):
    """-x, also for zeros: Triton's own minus is 0 - x, which makes +0 of +0."""
    return x * -1


@triton.jit
def sign(x):
    """-1, 0 or 1 in the type of `x`; 0 for NaN, as in PyTorch."""
    return (x > 0).to(x.dtype) - (x < 0).to(x.dtype)


@triton.jit
def floor(x):
    """The largest integer that is not above `x`; GPUs may take negative subnormals for zeros."""
    down = tl.floor(x)
    return tl.where((x < 0.0) & (down == 0.0), -1.0, down)


@triton.jit
def ceil(x):
    """The smallest integer that is not below `x`; GPUs may take positive subnormals for zeros."""
    up = tl.ceil(x)
    return tl.where((x > 0.0) & (up == 0.0), 1.0, up)


@triton.jit
def trunc(x):
    """`x` without its fraction."""
    return tl.where(x < 0.0, tl.ceil(x), tl.floor(x))


@triton.jit
def round_even(x):
    """The nearest integer, halves to even: a sum with 2^23 (2^52) has no fraction bits."""
    a = tl.abs(x)
    if x.dtype == tl.float64:
        rounded = tl.where(a < 4503599627370496.0, (a + 4503599627370496.0) - 4503599627370496.0, a)
    else:
        rounded = tl.where(a < 8388608.0, (a + 8388608.0) - 8388608.0, a)
    return with_sign_of(rounded, x)


@triton.jit
def to_int(x, dtype: tl.constexpr):
    """`x` as an integer of type `dtype`: truncated toward zero, saturated, 0 for NaN."""
    bits: tl.constexpr = dtype.primitive_bitwidth - dtype.is_int_signed()
    low: tl.constexpr = -(2.0**bits) * dtype.is_int_signed()
    limit: tl.constexpr = 2.0**bits
    largest: tl.constexpr = 2**bits - 1
    inside = tl.where(x < limit, tl.maximum(x, low), 0.0).to(dtype)
    return tl.where(x >= limit, largest, inside).to(dtype)


@triton.jit
def _round_significand(x, fraction_bits: tl.constexpr, least_exponent: tl.constexpr):
    """Float32 |x| < 2^100 rounded to `fraction_bits`, or to a multiple of 2^(least_exponent -
    fraction_bits).

    The sum with 1.5 * 2^(23 - fraction_bits) times the power of two in `x` has just those bits
    left.
    """
    exponent = x.to(tl.int32, bitcast=True) & 0x7F800000
    exponent = tl.maximum(exponent, (least_exponent + 127) << 23)
    shift = (exponent + (((23 - fraction_bits) << 23) + 0x400000)).to(tl.float32, bitcast=True)
    return (x + shift) - shift


@triton.jit
def _to_f32_sticky(x):
    """Float64 `x` as a float32, its last bit set if any bit was lost: a second rounding is then
    right.
    """
    y = x.to(tl.float32)
    back = y.to(tl.float64)
    bits = y.to(tl.int32, bitcast=True)
    bits = tl.where(tl.abs(back) > tl.abs(x), bits - 1, bits)
    bits = tl.where((back != x) & (x == x), bits | 1, bits)
    return bits.to(tl.float32, bitcast=True)


@triton.jit
def _round_bf16(x):
    """Float32 `x` rounded to bfloat16, halves to even, as a float32."""
    bits = x.to(tl.int32, bitcast=True)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) & -0x10000
    return tl.where(x != x, x, rounded.to(tl.float32, bitcast=True))


@triton.jit
def _round_f8e4m3(x):
    """Float32 `x` rounded to float8 e4m3, halves to even, saturated at 448, as a float32."""
    bounded = minimum(maximum(x, -448.0), 448.0)
    return with_sign_of(_round_significand(bounded, 3, -6), x)


@triton.jit
def _round_f8e5m2(x):
    """Float32 `x` rounded to float8 e5m2, halves to even, infinite from 61440 on, as a float32."""
    bounded = minimum(maximum(x, -65536.0), 65536.0)
    y = with_sign_of(_round_significand(bounded, 2, -14), x)
    return tl.where(tl.abs(y) == 65536.0, y * float("inf"), y)


@triton.jit
def round_to(x, dtype: tl.constexpr):
    """`x` rounded once, to nearest even, to a storage type, and widened (float64 stays)."""
    if dtype == tl.float64:
        return x.to(tl.float64)
    elif dtype == tl.float32:
        return x.to(tl.float32)
    elif dtype == tl.float16:
        return x.to(tl.float16).to(tl.float32)
    else:
        if x.dtype == tl.float64:
            y = _to_f32_sticky(x)
        else:
            y = x
        if dtype == tl.bfloat16:
            return _round_bf16(y)
        elif dtype == tl.float8e4nv:
            return _round_f8e4m3(y)
        else:
            tl.static_assert(dtype == tl.float8e5, "not a storage type")
            return _round_f8e5m2(y)


@triton.jit
def encode_f8e4m3(x, dtype: tl.constexpr = tl.uint8):
    """`x` rounded to float8 e4m3 (saturating at 448, NaN kept): as `dtype` where the GPU has it, or its bits, a uint8."""
    if dtype == tl.uint8:
        y = round_to(x, tl.float8e4nv)
        # 2^-8 y has in float16 the same exponent field and the same leading fraction bits as y has in e4m3.
        half = (y * 0.00390625).to(tl.float16).to(tl.int16, bitcast=True)
        code = ((half >> 8) & 0x80) | tl.where(y != y, 0x7F, (half >> 7) & 0x7F)
        return code.to(tl.uint8)
    elif x.dtype == tl.float64:
        return _to_f32_sticky(x).to(dtype)
    else:
        return x.to(dtype)


@triton.jit
def decode_f8e4m3(value):
    """The float32 value of float8 e4m3, or of its bits, a uint8."""
    if value.dtype == tl.uint8:
        code = value.to(tl.int16)
        half = ((code & 0x80) << 8) | ((code & 0x7F) << 7)
        y = half.to(tl.int16).to(tl.float16, bitcast=True).to(tl.float32) * 256.0
        return tl.where((code & 0x7F) == 0x7F, float("nan"), y)
    else:
        return value.to(tl.float32)


@triton.jit
def encode_f8e5m2(x):
    """The bits, a uint8, of `x` rounded to float8 e5m2, which is the upper byte of a float16."""
    half = round_to(x, tl.float8e5).to(tl.float16)
    return (half.to(tl.int16, bitcast=True) >> 8).to(tl.uint8)


@triton.jit
def decode_f8e5m2(bits):
    """The float32 value of float8 e5m2 `bits`, a uint8."""
    return (bits.to(tl.int16) << 8).to(tl.float16, bitcast=True).to(tl.float32)


@triton.jit
def div(x, y):
    """The quotient of two floats, one of which may be a Python number, within 2.5 units in the last place."""
    if (x + y).dtype == tl.float64:
        return x / y
    else:
        y = tl.cast(y, tl.float32)
        if (x + y).shape == y.shape:
            return x / y
        else:
            return _div_by_few(x, y)


@triton.jit
def _div_by_few(x, y):
    """`x / y` for divisors that each serve many of x: two products for each of these, the second with a reciprocal.

    The first is with a power of two where a reciprocal would not be a normal number, and with 1 elsewhere.
    """
    size = tl.abs(y)
    scale = tl.where(size < 1.1754943508222875e-38, 18446744073709551616.0, 1.0)
    scale = tl.where(size < 8.507059173023462e37, scale, 5.421010862427522e-20)
    return (x * scale) * (1.0 / (y * scale))


@triton.jit
def _any(condition):
    """Whether a block of bools holds a true one; a scalar is itself."""
    if condition.type.is_block():
        return tl.max(condition.to(tl.int32), axis=None) != 0
    else:
        return condition


@triton.jit
def _rounded_leading(x, dropped: tl.constexpr):
    """`x` rounded to a significand with its last `dropped` bits zero; NaN stays, of which a carry could make a zero."""
    if x.dtype == tl.float64:
        bits = (x.to(tl.int64, bitcast=True) + (1 << (dropped - 1))) & -(1 << dropped)
        rounded = bits.to(tl.float64, bitcast=True)
    else:
        bits = (x.to(tl.int32, bitcast=True) + (1 << (dropped - 1))) & -(1 << dropped)
        rounded = bits.to(tl.float32, bitcast=True)
    return tl.where(x != x, x, rounded)


@triton.jit
def _subtract_multiple(r, b):
    """`r` less a near multiple of b > 0, exactly: within 3/4 b of zero if |r| < 2^10 b, else far
    closer.

    The quotient is cut to 11 bits (24 in float64) and `b` into halves, so that nothing is rounded.
    """
    if r.dtype == tl.float64:
        far: tl.constexpr = 2.0**-900
        quotient_dropped: tl.constexpr = 29
        half_dropped: tl.constexpr = 27
    else:
        far: tl.constexpr = 2.0**-100
        quotient_dropped: tl.constexpr = 13
        half_dropped: tl.constexpr = 12
    scale: tl.constexpr = 2.0**-30
    # Where the quotient would overflow, a larger multiple of b goes first; where a product would, all are scaled.
    for _ in tl.static_range(2):
        b = tl.where(tl.abs(r) * far >= b, b / far, b)
    large = tl.abs(r) * far > 1.0
    r = tl.where(large, r * scale, r)
    b = tl.where(large, b * scale, b)
    q = round_even(_rounded_leading(div(r, b), quotient_dropped))
    lead = _rounded_leading(b, half_dropped)
    r = (r - q * lead) - q * (b - lead)
    return tl.where(large, r / scale, r)


@triton.jit
def _fmod(x, y):
    """The exact remainder of x / y with the quotient truncated, as C's `fmod`."""
    b = tl.abs(y)
    r = _subtract_multiple(tl.abs(x), b)
    while _any(tl.abs(r) >= b):
        r = tl.where(tl.abs(r) >= b, _subtract_multiple(r, b), r)
    r = tl.where(r < 0.0, r + b, r)
    r = tl.where((b == float("inf")) & isfinite(x), tl.abs(x), r)
    return with_sign_of(r, x)


@triton.jit
def floor_mod(x, y):
    """The remainder with the sign of `y`, as `torch.remainder`; on two integers or two floats of
    one type.
    """
    x, y = tl.broadcast(x, y)
    if x.dtype.is_floating():
        m = _fmod(x, y)
    else:
        m = x % y
    return tl.where((m != 0) & ((m < 0) != (y < 0)), m + y, m)


@triton.jit
def _exact_quotient(x, y):
    """The correctly rounded quotient of two floats."""
    if x.dtype == tl.float64:
        return x / y
    else:
        return tl.div_rn(x, y)


@triton.jit
def floor_div(x, y):
    """The quotient rounded down, as `torch.floor_divide`; on two integers or two floats of one
    type.
    """
    x, y = tl.broadcast(x, y)
    if x.dtype.is_floating():
        m = _fmod(x, y)
        q = _exact_quotient(x - m, y)
        q = tl.where((m != 0.0) & ((m < 0.0) != (y < 0.0)), q - 1.0, q)
        # q is an integer but for rounding
        down = tl.floor(q)
        down = tl.where(q - down > 0.5, down + 1.0, down)
        exact = _exact_quotient(x, y)
        down = tl.where(q == 0.0, with_sign_of(tl.abs(q), exact), down)
        return tl.where(y == 0.0, exact, down)
    else:
        q = x // y
        m = x - q * y
        return tl.where((m != 0) & ((m < 0) != (y < 0)), q - 1, q)


@triton.jit
def uniform(seed, position):
    """A float32 in [0, 1): Philox-4x32-10 of `position` under the 64-bit key `seed`, mapped as
    `tl.rand` does.
    """
    position = position.to(tl.int64)
    low = position.to(tl.uint32)
    word, _, _, _ = tl.philox(seed, low, (position >> 32).to(tl.uint32), low * 0, low * 0)
    return tl.uint_to_uniform_float(word)
