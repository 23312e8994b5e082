"""Device functions of matrix products: which tile a program computes, where its elements lie, and one step of it.

A product has four groups of dims: the batch, the rows `m` (of the left operand alone), the columns `n` (of the right
one) and `k`, which is summed over. Each group is one position that splits into up to three coordinates, innermost
first. Sizes come as multiples of the group's `UNIT` and strides as multiples of 16, 8 or 1, which tells the
compiler what it needs for wide loads without a compilation for each shape.
"""

import triton
import triton.language as tl

from ._math_parts import INTERPRETED

# How tiles are multiplied: `n` across or down, on the matrix unit; row by row against whole rows; column by row.
DOT = tl.constexpr(0)
SWAPPED = tl.constexpr(1)
VECTOR = tl.constexpr(2)
OUTER = tl.constexpr(3)


@triton.jit
def product_tile(program, m_tiles, n_tiles, GROUP: tl.constexpr):
    """The batch, row and column of a tile: down `GROUP` rows before the next column, so that L2 serves both."""
    batch = program // (m_tiles * n_tiles)
    place = program % (m_tiles * n_tiles)
    first = place // (GROUP * n_tiles) * GROUP
    rows = min(m_tiles - first, GROUP)
    place = place % (GROUP * n_tiles)
    return batch, first + place % rows, place // rows


@triton.jit
def product_rows(tile, FORM: tl.constexpr, BLOCK: tl.constexpr):
    """The positions `m` of a tile: down, or across where the operands are swapped."""
    if FORM == DOT or FORM == OUTER:
        return tile * BLOCK + tl.arange(0, BLOCK)[:, None]
    else:
        return tile * BLOCK + tl.arange(0, BLOCK)[None, :]


@triton.jit
def product_columns(tile, FORM: tl.constexpr, BLOCK: tl.constexpr):
    """The positions `n` of a tile: across, or down where the operands are swapped."""
    if FORM == DOT or FORM == OUTER:
        return tile * BLOCK + tl.arange(0, BLOCK)[None, :]
    else:
        return tile * BLOCK + tl.arange(0, BLOCK)[:, None]


@triton.jit
def product_depths(start, FORM: tl.constexpr, BLOCK: tl.constexpr, WIDE: tl.constexpr):
    """The positions `k` of a step, as the left operand has them and as the right one does."""
    k = start + tl.arange(0, BLOCK)
    if WIDE:
        k = k.to(tl.int64)
    if FORM == DOT or FORM == OUTER:
        return k[None, :], k[:, None]
    elif FORM == SWAPPED:
        return k[:, None], k[None, :]
    else:
        return k[None, :], k[None, :]


@triton.jit
def group_at(position, n0, n1, RANK: tl.constexpr, UNIT: tl.constexpr):
    """A position's coordinates in its group, innermost first; `n0` and `n1` are the inner sizes."""
    if RANK == 1:
        return position, position, position
    else:
        inner = tl.cast(n0, position.dtype) * UNIT
        outer = position // inner
        if RANK == 2:
            return position % inner, outer, position
        else:
            middle = tl.cast(n1, position.dtype) * UNIT
            return position % inner, outer % middle, outer // middle


@triton.jit
def along_batch(at, strides, LAYOUT: tl.constexpr, RANK: tl.constexpr):
    """Offsets, in elements, of a batch's coordinates in a tensor."""
    return _along(at, strides, 4, LAYOUT, RANK)


@triton.jit
def along_m(at, strides, LAYOUT: tl.constexpr, RANK: tl.constexpr):
    """Offsets, in elements, of coordinates of `m` in a tensor."""
    return _along(at, strides, 1, LAYOUT, RANK)


@triton.jit
def along_n(at, strides, LAYOUT: tl.constexpr, RANK: tl.constexpr):
    """Offsets, in elements, of coordinates of `n` in a tensor."""
    return _along(at, strides, 2, LAYOUT, RANK)


@triton.jit
def along_k(at, strides, LAYOUT: tl.constexpr, RANK: tl.constexpr):
    """Offsets, in elements, of coordinates of `k` in a tensor."""
    return _along(at, strides, 3, LAYOUT, RANK)


@triton.jit
def _along(at, strides, AXIS: tl.constexpr, LAYOUT: tl.constexpr, RANK: tl.constexpr):
    """Offsets along a group. A layout class says along which one the tensor has stride 1, 0 for none; with 8 added
    its other strides are in elements, with 16 in multiples of 8, else in multiples of 16: which the position is
    multiplied with first, as it alone has 64 bits where they are needed."""
    SCALE: tl.constexpr = 8 if LAYOUT >= 16 else 1 if LAYOUT >= 8 else 16
    if LAYOUT & 7 == AXIS:
        result = at[0]
    else:
        result = at[0] * strides[0] * SCALE
    if RANK > 1:
        result += at[1] * strides[1] * SCALE
    if RANK > 2:
        result += at[2] * strides[2] * SCALE
    return result


@triton.jit
def product_piece(part, k_size, SPLIT: tl.constexpr, BLOCK: tl.constexpr):
    """The first position of `k` that a piece sums over, and where it ends."""
    if SPLIT == 1:
        return 0, k_size
    else:
        length = tl.cdiv(tl.cdiv(k_size, BLOCK), SPLIT) * BLOCK
        first = part * length
        return first, min(k_size, first + length)


@triton.jit
def depth_inside(k, last, EVEN: tl.constexpr):
    """Which positions `k` of a step are inside the piece."""
    if EVEN:
        return tl.full((1, 1), True, tl.int1)
    else:
        return k < last


@triton.jit
def product_zeros(DTYPE: tl.constexpr, FORM: tl.constexpr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    """The sums of a tile before the first step."""
    if FORM == DOT or FORM == OUTER:
        return tl.zeros((M, N), dtype=DTYPE)
    elif FORM == SWAPPED:
        return tl.zeros((N, M), dtype=DTYPE)
    else:
        return tl.zeros((N, K), dtype=DTYPE)


@triton.jit
def multiplied(left, right, total, FORM: tl.constexpr, PRECISION: tl.constexpr):
    """The sums after one more step."""
    if FORM == DOT:
        return _dot(left, right, total, PRECISION)
    elif FORM == SWAPPED:
        return _dot(right, left, total, PRECISION)
    else:
        return total + left.to(total.dtype) * right.to(total.dtype)


@triton.jit
def product_sum(total, FORM: tl.constexpr):
    """The sums of a tile after the last step, over its positions `m` and `n`."""
    if FORM == VECTOR:
        return tl.sum(total, 1, keep_dims=True)
    else:
        return total


@triton.jit
def _dot(left, right, total, PRECISION: tl.constexpr):
    """`total + left @ right`, f8 summed in true f32."""
    if INTERPRETED and left.dtype == tl.bfloat16:  # it multiplies the integers that it holds them in
        left = left.to(tl.float32)
        right = right.to(tl.float32)
    return tl.dot(
        left, right, total, input_precision=PRECISION, max_num_imprecise_acc=0, out_dtype=total.dtype
    )


@triton.jit
def operand_f8e4m3(value):
    """Loaded f8e4m3 as it is multiplied: as it is where the GPU has the type, else its bytes as exact f16."""
    if value.dtype == tl.uint8:
        low = (value & 0x7F).to(tl.uint16)
        bits = ((value & 0x80).to(tl.uint16) << 8) | (low << 7)
        small = bits.to(tl.float16, bitcast=True) * 256.0
        return tl.where(low == 0x7F, float("nan"), small).to(tl.float16)
    else:
        return value


@triton.jit
def operand_f8e5m2(value):
    """The bytes of f8e5m2 as exact f16, of which they are the upper half."""
    return (value.to(tl.uint16) << 8).to(tl.float16, bitcast=True)


@triton.jit
def part_of(total, part: tl.constexpr, PARTS: tl.constexpr):
    """One of the halves of a tile's columns, or (`PARTS` 1) the tile."""
    if PARTS == 1:
        return total
    else:
        rows: tl.constexpr = total.shape[0]
        columns: tl.constexpr = total.shape[1]
        left, right = tl.split(tl.permute(tl.reshape(total, (rows, 2, columns // 2)), (0, 2, 1)))
        if part == 0:
            return left
        else:
            return right


@triton.jit
def store_partial(partial_ptr, total, place, m, n, m_size, n_size, m_ok, n_ok):
    """Stores a tile of sums over a piece of `k` as the matrix at `place` of the partial sums."""
    row = (place.to(tl.int64) * m_size + m) * n_size
    tl.store(partial_ptr + (row + n), total, mask=m_ok & n_ok)


@triton.jit
def partial_sum(partial_ptr, place, step, m, n, m_size, n_size, m_ok, n_ok, PARTS: tl.constexpr):
    """The sum of a tile's partial sums in the order of `k`; they are `step` matrices apart."""
    at = partial_ptr + ((place.to(tl.int64) * m_size + m) * n_size + n)
    total = tl.load(at, mask=m_ok & n_ok, other=0)
    for part in range(1, PARTS):
        total += tl.load(at + part * tl.cast(step, tl.int64) * m_size * n_size, mask=m_ok & n_ok, other=0)
    return total


@triton.jit
def streamed_left(
    descriptor, batch, row, start, TURNED: tl.constexpr, BATCHED: tl.constexpr, FORM: tl.constexpr
):
    """A tile of the left operand that a descriptor reads; `TURNED` ones have their rows contiguous in memory."""
    return _streamed(descriptor, batch, row, start, TURNED, BATCHED, FORM == SWAPPED)


@triton.jit
def streamed_right(
    descriptor, batch, row, start, TURNED: tl.constexpr, BATCHED: tl.constexpr, FORM: tl.constexpr
):
    """A tile of the right operand that a descriptor reads; `TURNED` ones have their columns contiguous in memory."""
    return _streamed(descriptor, batch, row, start, TURNED, BATCHED, FORM == DOT)


@triton.jit
def _streamed(
    descriptor, batch, row, start, TURNED: tl.constexpr, BATCHED: tl.constexpr, ACROSS: tl.constexpr
):
    """A tile with its rows down or (`ACROSS`) across."""
    if TURNED:
        if BATCHED:
            loaded = descriptor.load([batch, start, row])
        else:
            loaded = descriptor.load([start, row])
    elif BATCHED:
        loaded = descriptor.load([batch, row, start])
    else:
        loaded = descriptor.load([row, start])
    if BATCHED:
        loaded = loaded.reshape(loaded.shape[1], loaded.shape[2])
    if TURNED == ACROSS:
        return loaded
    else:
        return loaded.T


@triton.jit
def spanned_right(descriptor, row, start):
    """The tiles of two right operands that one descriptor spans, side by side."""
    loaded = descriptor.load([0, row, start])
    return loaded.reshape(2 * loaded.shape[1], loaded.shape[2]).T
