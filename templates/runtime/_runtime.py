"""What generated modules share: how a call is checked, planned, launched, and seen by PyTorch.

The device functions that kernels call are re-exported here, so that a generated module imports this file alone.
"""

from . import _versions  # before what older releases have no part of
from . import _eager as eager
from ._binding import DTYPES, Bound, Nonempty, Operator, Requirement, Scalar, Tensor, bind, dim
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
    log1p_unit,
    log2,
    normal_cdf,
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
from ._product_tiles import (
    along_batch,
    along_k,
    along_m,
    along_n,
    depth_inside,
    group_at,
    multiplied,
    operand_f8e4m3,
    operand_f8e5m2,
    part_of,
    partial_sum,
    product_columns,
    product_depths,
    product_piece,
    product_rows,
    product_sum,
    product_tile,
    product_zeros,
    spanned_right,
    store_partial,
    streamed_left,
    streamed_right,
)
from ._product_walk import ProductWalk
from ._products import BEYOND, ProductConfig, ProductKernel, band
from ._registration import PACKAGE, operate, register
from ._row_reductions import (
    exps_below,
    lane_counts,
    log_of_exps,
    mean_of,
    merge_all,
    merge_any,
    merge_argmax,
    merge_argmin,
    merge_exps,
    merge_max,
    merge_min,
    merge_prod,
    merge_squares,
    merge_sum,
    row_all,
    row_any,
    row_argmax,
    row_argmin,
    row_exps,
    row_max,
    row_min,
    row_prod,
    row_squares,
    row_sum,
    step_all,
    step_any,
    step_argmax,
    step_argmin,
    step_exps,
    step_max,
    step_min,
    step_prod,
    step_squares,
    step_sum,
)
from ._row_tiles import (
    below,
    block_at,
    col_coordinates,
    col_offsets,
    extent,
    piece_counts,
    pieces_of,
    positions_at,
    row_coordinates,
    row_offsets,
    tile_mask,
)
from ._rows import RowConfig, RowConfigs, RowKernel, RowTile, RowWalk
from ._tiles import coordinates, inside, mask_of, nibble, offsets, scalar, scalar64, step, tile
