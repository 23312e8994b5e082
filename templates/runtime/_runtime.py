"""What generated modules share: how a call is checked, planned, launched, and seen by PyTorch.

The device functions that kernels call are re-exported here, so that a generated module imports this file alone.
"""

from . import _eager as eager
from ._binding import DTYPES, Bound, Operator, Requirement, Scalar, Tensor, bind, dim
from ._calling import Entry, run
from ._elementwise import Access, Config, Launch, Walk, plan
from ._launching import INTERPRETED, Kernel, Variant, compute, runs_kernels, target_of
from ._math import (
    cos,
    erf,
    erfc,
    exp,
    exp2,
    expm1,
    log,
    log1p,
    log2,
    pow,
    rsqrt,
    sigmoid,
    sin,
    sqrt,
    tanh,
)
from ._math_exact import (
    ceil,
    clamp,
    decode_f8e4m3,
    decode_f8e5m2,
    div,
    encode_f8e4m3,
    encode_f8e5m2,
    floor,
    floor_div,
    floor_mod,
    isfinite,
    isinf,
    isnan,
    maximum,
    minimum,
    neg,
    round_even,
    round_to,
    sign,
    to_int,
    trunc,
    uniform,
)
from ._passing import f8, flag, halves, in_units, stride_unit, unit
from ._registration import PACKAGE, operate, register
from ._tiles import coordinates, inside, mask_of, nibble, offsets, scalar, scalar64, step, tile
