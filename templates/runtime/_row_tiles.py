"""Device functions of row kernels: where the elements of a tile lie in each tensor.

The rows of a tile run over the dims that are kept (up to four after merging), its columns over those that are reduced
(up to three). A tensor's layout is two digits: how it moves along the rows, then along the columns. 0 is not at all, 1
with stride 1 along the innermost dim, 2 with any strides; along the rows, 3 is with any strides but not within a tile,
whose rows all lie in the innermost dim. The hundreds say in what its strides come: 0 in multiples of 16 elements, 1 of
8, 2 of 4, 3 of 2, 4 of 1.
"""

import triton
import triton.language as tl

from ._tiles import in_elements, moved


@triton.jit
def extent(count, UNIT: tl.constexpr, WIDE: tl.constexpr):
    """A size of the space, passed in units, in elements: with 64 bits in a wide launch."""
    if WIDE:
        return tl.cast(count, tl.int64) * UNIT
    else:
        return count * UNIT


@triton.jit
def row_coordinates(rows, n1, n2, n3, RANK: tl.constexpr, UNIT: tl.constexpr):
    """The coordinates of rows in the kept dims, outermost first; `n1` to `n3` are inner sizes, in `UNIT` elements."""
    i0 = rows
    i1 = rows
    i2 = rows
    i3 = rows
    if RANK > 1:
        size_n3 = in_elements(n3, UNIT, rows)
        i3 = i0 % size_n3
        i0 = i0 // size_n3
    if RANK > 2:
        size_n2 = in_elements(n2, UNIT, rows)
        i2 = i0 % size_n2
        i0 = i0 // size_n2
    if RANK > 3:
        size_n1 = in_elements(n1, UNIT, rows)
        i1 = i0 % size_n1
        i0 = i0 // size_n1
    return i0, i1, i2, i3


@triton.jit
def col_coordinates(cols, m1, m2, RANK: tl.constexpr, UNIT: tl.constexpr):
    """The coordinates of columns in the reduced dims, outermost first; `m1` and `m2` are inner sizes, in `UNIT`."""
    j0 = cols
    j1 = cols
    j2 = cols
    if RANK > 1:
        size_m2 = in_elements(m2, UNIT, cols)
        j2 = j0 % size_m2
        j0 = j0 // size_m2
    if RANK > 2:
        size_m1 = in_elements(m1, UNIT, cols)
        j1 = j0 % size_m1
        j0 = j0 // size_m1
    return j0, j1, j2


@triton.jit
def row_offsets(at, strides, LAYOUT: tl.constexpr, RANK: tl.constexpr):
    """The rows' part of a tensor's offsets, `[ROWS, 1]`, in elements; 0 where it does not move along them.

    `[1, 1]` where it does not move within a tile.
    """
    KIND: tl.constexpr = LAYOUT // 10 % 10
    SCALE: tl.constexpr = 16 >> LAYOUT // 100
    if KIND == 0:
        return 0
    else:
        if KIND == 1 and RANK == 1:
            result = at[0]
        else:
            result = moved(at[0], strides[0], SCALE)
        if RANK > 1:
            if KIND == 1:
                result += at[3]
            elif KIND != 3:
                result += moved(at[3], strides[3], SCALE)
        if RANK > 2:
            result += moved(at[2], strides[2], SCALE)
        if RANK > 3:
            result += moved(at[1], strides[1], SCALE)
        if KIND == 3:
            result = tl.max(result, 0, keep_dims=True)
        return result


@triton.jit
def col_offsets(at, strides, LAYOUT: tl.constexpr, RANK: tl.constexpr):
    """The columns' part of a tensor's offsets, `[1, COLUMNS]`, in elements; 0 where it does not move along them."""
    KIND: tl.constexpr = LAYOUT % 10
    SCALE: tl.constexpr = 16 >> LAYOUT // 100
    if KIND == 0:
        return 0
    else:
        if KIND == 1 and RANK == 1:
            result = at[0]
        else:
            result = moved(at[0], strides[0], SCALE)
        if RANK > 1:
            if KIND == 1:
                result += at[2]
            else:
                result += moved(at[2], strides[2], SCALE)
        if RANK > 2:
            result += moved(at[1], strides[1], SCALE)
        return result


@triton.jit
def tile_mask(row_mask, col_mask, LAYOUT: tl.constexpr):
    """Which of a tensor's offsets are inside the space, in the shape that the offsets have."""
    if LAYOUT % 10 == 0:
        return row_mask
    elif LAYOUT // 10 % 10 == 0 or LAYOUT // 10 % 10 == 3:
        return col_mask
    else:
        return row_mask & col_mask


@triton.jit
def positions_at(first, COUNT: tl.constexpr, WIDE: tl.constexpr):
    """`COUNT` positions from the first on, of 64 bits where `WIDE`."""
    positions = first + tl.arange(0, COUNT)
    if WIDE:
        positions = positions.to(tl.int64)
    return positions


@triton.jit
def below(positions, count, ALL: tl.constexpr):
    """Which positions are below a count; `ALL` says that all are."""
    if ALL:
        return tl.full(positions.shape, True, tl.int1)
    else:
        return positions < count


@triton.jit
def block_at(number, SIZE: tl.constexpr, WIDE: tl.constexpr):
    """The positions in one of consecutive blocks, of 64 bits where `WIDE`."""
    if WIDE:
        number = tl.cast(number, tl.int64)
    return number * SIZE + tl.arange(0, SIZE)


@triton.jit
def pieces_of(pointer, rows, row_mask, splits, nothing, SPLITS: tl.constexpr):
    """What the pieces of each row gave, in order, `[ROWS, SPLITS]`; `nothing` behind the last."""
    pieces = tl.arange(0, SPLITS)[None, :]
    return tl.load(pointer + rows * splits + pieces, mask=row_mask & (pieces < splits), other=nothing)


@triton.jit
def piece_counts(count, length, SPLITS: tl.constexpr):
    """How many columns each piece of a row has, `[1, SPLITS]`: `length`, less in the last, none behind it."""
    firsts = tl.arange(0, SPLITS)[None, :].to(tl.int64) * length
    return tl.minimum(tl.maximum(count - firsts, 0), length)
