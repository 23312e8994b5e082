"""Device functions of addressing: where the elements of a tile lie in each tensor.

A strided kernel walks a space of up to six dims. The last is the tile's columns, or the last two where the last has
few elements; the others are flattened to its rows. Sizes and strides come as multiples of `UNIT` elements (16, 8 or 4 where all sizes are, else 1), which
tells the compiler what it needs for wide loads without a compilation for each shape.
"""

import triton
import triton.language as tl

# Layout classes of a tensor in a tile; `_layout.py` says which is which. With 8 added its strides are in elements; a
# folded one has 16 times the exponent added where the last dim's size is a power of two.
UNIT_COLUMNS = tl.constexpr(1)
UNIT_ROWS = tl.constexpr(2)
ZERO_COLUMNS = tl.constexpr(3)
ZERO_ROWS = tl.constexpr(4)
FOLDED = tl.constexpr(5)


@triton.jit
def scalar(value, dtype: tl.constexpr):
    """A run-time scalar as `dtype`: a number, or a pointer to a 0-d tensor."""
    if hasattr(value, "dtype") and value.dtype.is_ptr():
        value = tl.load(value)
    return tl.cast(value, dtype)


@triton.jit
def scalar64(high, low, dtype: tl.constexpr):
    """A run-time i64 or f64 as `dtype`: the 32-bit halves of its bits, or a pointer to a 0-d tensor as `high`."""
    if hasattr(high, "dtype") and high.dtype.is_ptr():
        return tl.load(high).to(dtype)
    else:
        bits = (tl.cast(high, tl.int64) << 32) | (tl.cast(low, tl.int64) & 0xFFFFFFFF)
        return bits.to(dtype, bitcast=True)


@triton.jit
def in_elements(count, UNIT: tl.constexpr, positions):
    """A size or a stride, passed in units, in elements: with as many bits as the positions that it meets."""
    return tl.cast(count, positions.dtype) * tl.cast(UNIT, positions.dtype)


@triton.jit
def moved(positions, stride, UNIT: tl.constexpr):
    """The offsets, in elements, of positions along a dim, whose stride is passed in units."""
    return positions * in_elements(stride, UNIT, positions)


@triton.jit
def divided(n, size, by):
    """`n // size` and `n % size` of n >= 0, where 32 bits do by a product with `by`, which the host makes of the size.

    `by` is the number `divider` of `_elementwise.py`; None divides as it is.
    """
    if by is None or n.dtype == tl.int64:
        quotient = n // size
    else:
        product = (n.to(tl.uint32) * 2).to(tl.uint64) * (by & 0xFFFFFFFF)
        quotient = ((product >> 32) >> ((by >> 32) & 31)).to(tl.int32)
    return quotient, n - quotient * size


@triton.jit
def tile(n_rows, n_cols, by0, UNIT: tl.constexpr, WIDE: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """This program's rows `[1, ROWS]` and columns `[COLUMNS, 1]`, and which of each are inside the space.

    The columns are the first axis: along it the compiler lays neighbouring threads where it knows nothing of a
    tensor's steps, as of every second column or of elements at computed places.
    """
    program = tl.program_id(0)
    if WIDE:
        program = program.to(tl.int64)
    width = in_elements(n_cols, UNIT, program)
    row_tile, col_tile = divided(program, tl.cdiv(width, COLUMNS), by0)
    rows = row_tile * ROWS + tl.arange(0, ROWS)[None, :]
    cols = col_tile * COLUMNS + tl.arange(0, COLUMNS)[:, None]
    return rows, cols, rows < n_rows, cols < width


@triton.jit
def coordinates(rows, cols, n1, n2, n3, n4, n5, by1, by2, by3, by4, RANK: tl.constexpr, UNIT: tl.constexpr):
    """The coordinates of a tile in the dims of the space, outermost first.

    `n1` to `n4` are inner sizes, and `by1` to `by4` divide by them. Behind the columns come their two parts, where a
    last dim of `n5` elements was folded into them.
    """
    i0 = rows
    i1 = rows
    i2 = rows
    i3 = rows
    i4 = rows
    if RANK > 2:
        i0, i4 = divided(i0, in_elements(n4, UNIT, rows), by4)
    if RANK > 3:
        i0, i3 = divided(i0, in_elements(n3, UNIT, rows), by3)
    if RANK > 4:
        i0, i2 = divided(i0, in_elements(n2, UNIT, rows), by2)
    if RANK > 5:
        i0, i1 = divided(i0, in_elements(n1, UNIT, rows), by1)
    return i0, i1, i2, i3, i4, cols, cols // n5, cols % n5


@triton.jit
def offsets(at, strides, LAYOUT: tl.constexpr, RANK: tl.constexpr, UNIT: tl.constexpr):
    """Offsets, in elements, of the coordinates `at` in a tensor of the seven `strides`.

    `strides[0]` belongs to the outermost dim, `strides[4]` to the innermost row dim, `strides[5]` to the
    columns; a space of fewer dims leaves out those after the first. In folded columns `strides[5]` belongs to their
    outer part and `strides[6]` to their inner one. A tensor that does not move along the rows or
    the columns has offsets `[COLUMNS, 1]` or `[1, ROWS]`.
    """
    KIND: tl.constexpr = LAYOUT & 7
    if KIND == ZERO_ROWS:
        return at[5]
    else:
        SCALE: tl.constexpr = 1 if LAYOUT & 8 else UNIT
        result = _row_offsets(at, strides, KIND, RANK, SCALE)
        if KIND == UNIT_COLUMNS:
            result += at[5]
        elif KIND == FOLDED:
            EXPONENT: tl.constexpr = LAYOUT >> 4
            if EXPONENT > 0:
                outer, inner = at[5] >> EXPONENT, at[5] & ((1 << EXPONENT) - 1)
            else:
                outer, inner = at[6], at[7]
            result += moved(outer, strides[5], SCALE)
            result += moved(inner, strides[6], SCALE)
        elif KIND != ZERO_COLUMNS:
            result += moved(at[5], strides[5], SCALE)
        return result


@triton.jit
def _row_offsets(at, strides, KIND: tl.constexpr, RANK: tl.constexpr, SCALE: tl.constexpr):
    """The rows' part of the offsets, `[1, ROWS]`."""
    if KIND == UNIT_ROWS and RANK == 2:
        result = at[0]
    else:
        result = moved(at[0], strides[0], SCALE)
    if RANK > 2:
        if KIND == UNIT_ROWS:
            result += at[4]
        else:
            result += moved(at[4], strides[4], SCALE)
    if RANK > 3:
        result += moved(at[3], strides[3], SCALE)
    if RANK > 4:
        result += moved(at[2], strides[2], SCALE)
    if RANK > 5:
        result += moved(at[1], strides[1], SCALE)
    return result


@triton.jit
def mask_of(row_mask, col_mask, LAYOUT: tl.constexpr):
    """Which offsets of a tensor are inside the space, in the shape that `offsets` gives them."""
    KIND: tl.constexpr = LAYOUT & 7
    if KIND == ZERO_ROWS:
        return col_mask
    elif KIND == ZERO_COLUMNS:
        return row_mask
    else:
        return row_mask & col_mask


@triton.jit
def step(index, stride, UNIT: tl.constexpr):
    """The offset of gathered positions, in elements; `stride` counts in `UNIT` elements, 0 means 1."""
    if UNIT == 0:
        return index
    else:
        return index * (tl.cast(stride, tl.int64) * UNIT)


@triton.jit
def inside(index, size, UNIT: tl.constexpr):
    """Whether gathered positions are inside a dim of `size * UNIT` elements."""
    return (index >= 0) & (index < tl.cast(size, tl.int64) * UNIT)


@triton.jit
def nibble(bytes, position, SIGNED: tl.constexpr):
    """The 4-bit integers at `position` of the bytes that hold them, low nibble first, as i32."""
    value = (bytes.to(tl.int32) >> ((position & 1) * 4).to(tl.int32)) & 15
    if SIGNED:
        value = (value ^ 8) - 8
    return value
