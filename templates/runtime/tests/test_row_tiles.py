"""The device functions of row kernels against plain Python, with figures that ops with small tensors do not reach."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
import torch
import triton
import triton.language as tl

from .._row_tiles import (
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
from ._call import DEVICE, Fault, needs_kernels

_SIZE = 8

_BEYOND = 2**31 + 7
"""More than 32 bits hold."""

_POSITIONS, _UNUSED = 16, 7919

_INNER, _STRIDES = (3, 5, 2), (100003, 5021, 407, 21)
"""Sizes of dims but the outermost, and strides, of which those of fewer dims are the last."""

_WIDE_STRIDES = (7 * 2**28, 5 * 2**28, 6 * 2**28, 3 * 2**28)
"""Each within 32 bits as it is passed, and beyond once it is multiplied."""

_UNITS = ((16, 0), (1, 1), (1, 2), (1, 3), (16, 4))
"""In how many elements sizes come, and a layout's hundreds: strides in 16, 8, 4, 2 or 1."""


@triton.jit
def _figures(
    result_ptr,
    units,
    first,
    number,
    factor,
    count,
    length,
    UNIT: tl.constexpr,
    WIDE: tl.constexpr,
    SIZE: tl.constexpr,
):
    """Rows of numbers: an extent, positions from a first one and those in a block, multiplied, and columns of pieces."""
    place = tl.arange(0, SIZE)
    zeros = tl.zeros((SIZE,), tl.int64)
    tl.store(result_ptr + place, extent(units, UNIT, WIDE) + zeros)
    tl.store(result_ptr + SIZE + place, positions_at(first, SIZE, WIDE) * factor + zeros)
    tl.store(result_ptr + 2 * SIZE + place, block_at(number, SIZE, WIDE) * factor + zeros)
    pieces = piece_counts(count, length, SIZE)
    tl.store(result_ptr + 3 * SIZE + place[None, :], pieces + zeros[None, :])


def check_figures() -> None:
    """Figures within 32 bits and, in a wide launch, beyond: as they are passed, or only once they are multiplied."""
    for unit, wide in itertools.product((1, 16), (False, True)):
        for units, first, number, count, length in (
            (5, 0, 3, 21, 5),
            (1000, 48, 0, 24, 3),
            (3, 7, 1, 0, 4),
        ):
            _check_figures(units, (first, number, 1), (count, length), unit, wide)
    for units, *positions in ((2**28, _BEYOND, 2**29, 1), (2**31 - 1, 2, 3, 2**30)):
        _check_figures(units, positions, (5 * 2**30 + 5, 2**30), 16, True)


def _check_figures(
    units: int, positions: Sequence[int], pieces: Sequence[int], unit: int, wide: bool
) -> None:
    """`positions` are the first one, the number of a block and a factor; `pieces` all columns and those of a piece."""
    (first, number, factor), (count, length) = positions, pieces
    result = torch.full((4, _SIZE), -1, dtype=torch.int64, device=DEVICE)
    _figures[(1,)](result, units, *positions, *pieces, UNIT=unit, WIDE=wide, SIZE=_SIZE)
    wanted = {
        "extent": [units * unit] * _SIZE,
        "positions": [(first + at) * factor for at in range(_SIZE)],
        "block": [(number * _SIZE + at) * factor for at in range(_SIZE)],
        "pieces": [min(max(count - at * length, 0), length) for at in range(_SIZE)],
    }
    for found, (name, expected) in zip(result.tolist(), wanted.items()):
        if found != expected:
            raise Fault(f"{name} of unit {unit}, wide {wide}: {found}, not {expected}")


@triton.jit
def _along_rows(
    positions_ptr,
    result_ptr,
    n1,
    n2,
    n3,
    s0,
    s1,
    s2,
    s3,
    LAYOUT: tl.constexpr,
    RANK: tl.constexpr,
    UNIT: tl.constexpr,
    COUNT: tl.constexpr,
    POSITION: tl.constexpr,
):
    """The offsets of some rows in a tensor; computed as `POSITION`, a type of integers."""
    place = tl.arange(0, COUNT)[:, None]
    rows = tl.load(positions_ptr + place).to(POSITION)
    i0, i1, i2, i3 = row_coordinates(rows, n1, n2, n3, RANK, UNIT)
    # What a space of fewer dims has no use for must not matter.
    i1, i2, i3 = i1 + (RANK < 4) * 977, i2 + (RANK < 3) * 977, i3 + (RANK < 2) * 977
    found = row_offsets((i0, i1, i2, i3), (s0, s1, s2, s3), LAYOUT, RANK)
    tl.store(result_ptr + place, found + tl.zeros((COUNT, 1), POSITION))


@triton.jit
def _along_columns(
    positions_ptr,
    result_ptr,
    m1,
    m2,
    s4,
    s5,
    s6,
    LAYOUT: tl.constexpr,
    RANK: tl.constexpr,
    UNIT: tl.constexpr,
    COUNT: tl.constexpr,
    POSITION: tl.constexpr,
):
    """The same of some columns."""
    place = tl.arange(0, COUNT)[None, :]
    cols = tl.load(positions_ptr + place).to(POSITION)
    j0, j1, j2 = col_coordinates(cols, m1, m2, RANK, UNIT)
    j1, j2 = j1 + (RANK < 3) * 977, j2 + (RANK < 2) * 977
    found = col_offsets((j0, j1, j2), (s4, s5, s6), LAYOUT, RANK)
    tl.store(result_ptr + place, found + tl.zeros((1, COUNT), POSITION))


@dataclass(frozen=True)
class _Group:
    """The dims along the rows or the columns: a kernel that takes so many, and where a layout has its kind."""

    kernel: Any
    most: int
    place: int


def check_offsets() -> None:
    """Every layout of rows and of columns in spaces of every rank; figures beyond 32 bits."""
    for group in (_Group(_along_rows, 4, 10), _Group(_along_columns, 3, 1)):
        for rank, (unit, shift) in itertools.product(range(1, group.most + 1), _UNITS):
            inner, strides = _INNER[: rank - 1], _STRIDES[-rank:]
            for kind in range(3):
                _check_offsets(group, (100 * shift, kind), unit, inner, strides, tl.int64)
            _check_offsets(group, (100 * shift, 2), unit, inner, strides, tl.int32)
            if unit > 1:
                _check_offsets(group, (100 * shift, 2), unit, inner, _WIDE_STRIDES[-rank:], tl.int64)
                for place, size in enumerate(inner):
                    wide = (*inner[:place], size * 2**28, *inner[place + 1 :])
                    _check_offsets(group, (100 * shift, 2), unit, wide, strides, tl.int64)


@triton.jit
def _shape(result_ptr, stride, LAYOUT: tl.constexpr, COUNT: tl.constexpr):
    """How many axes, and elements, the offsets of rows have in a tensor of which one stride is read."""
    rows = tl.arange(0, COUNT)[:, None]
    found = row_offsets((rows * 0, rows, rows, rows), (stride, 0, 0, 0), LAYOUT, 2)
    tl.store(result_ptr, len(found.shape))
    tl.store(result_ptr + 1, tl.sum(found * 0 + 1))


def check_offsets_of_a_tile() -> None:
    """Rows that all lie in the innermost dim, along which a tensor does not move: one offset for all of them."""
    for layout, count in ((32, 1), (22, _POSITIONS)):
        shape = torch.zeros(2, dtype=torch.int32, device=DEVICE)
        _shape[(1,)](shape, 3, LAYOUT=layout, COUNT=_POSITIONS)
        if shape.tolist() != [2, count]:
            raise Fault(f"layout {layout}: {shape.tolist()} axes and elements, not {[2, count]}")
    rows = _Group(_along_rows, 4, 10)
    for rank, first in itertools.product((2, 3, 4), (0, 1, 7)):
        inner, outer = _INNER[: rank - 1], _STRIDES[-rank:-1]
        size = inner[-1] * _POSITIONS
        positions = torch.arange(_POSITIONS) + first * size + size // 2 // _POSITIONS * _POSITIONS
        for shift, position in itertools.product(range(5), (tl.int64, tl.int32)):
            _check_offsets(
                rows, (100 * shift, 3), _POSITIONS, inner, (*outer, 0), position, positions, unread=_UNUSED
            )
        _check_offsets(rows, (0, 3), _POSITIONS, inner, (*_WIDE_STRIDES[-rank:-1], 0), tl.int64, positions)


def _check_offsets(
    group: _Group,
    hundreds_and_kind: tuple[int, int],
    unit: int,
    inner: Sequence[int],
    strides: Sequence[int],
    position: Any,
    positions: torch.Tensor | None = None,
    unread: int = 0,
) -> None:
    """`unread` is passed for a stride of 0 along the innermost dim, which no kernel reads."""
    hundreds, kind = hundreds_and_kind
    layout = hundreds + kind * group.place + abs(2 - kind) * (11 - group.place)
    sizes = [size * unit for size in inner]
    generator = torch.Generator().manual_seed(len(strides))
    if positions is None:
        positions = torch.randint(3 * math.prod(sizes), (_POSITIONS,), generator=generator)
    along = [stride * (16 >> hundreds // 100) for stride in strides]
    if unread:
        strides = (*strides[:-1], unread)
    if kind == 1:
        along[-1], strides = 1, (*strides[:-1], _UNUSED)
    wanted = [_offset(one, sizes, along) if kind else 0 for one in positions.tolist()]
    outer, *others = strides
    unused = [_UNUSED] * (group.most - len(strides))
    result = torch.full((_POSITIONS,), -1, dtype=torch.int64, device=DEVICE)
    group.kernel[(1,)](
        positions.to(DEVICE),
        result,
        *unused,
        *inner,
        outer,
        *unused,
        *others,
        LAYOUT=layout,
        RANK=len(strides),
        UNIT=unit,
        COUNT=_POSITIONS,
        POSITION=position,
    )
    if result.tolist() != wanted:
        where = f"sizes {sizes}, layout {layout} as {position}"
        raise Fault(f"{where}: {result.tolist()} at {positions.tolist()}, not {wanted}")


def _offset(position: int, sizes: Sequence[int], strides: Sequence[int]) -> int:
    """The offset by its definition: a position is a place in the dims, the innermost fastest."""
    offset = 0
    for size, stride in zip(reversed(sizes), reversed(strides)):
        offset += position % size * stride
        position //= size
    return offset + position * strides[0]


@triton.jit
def _masks(rows_ptr, columns_ptr, result_ptr, LAYOUT: tl.constexpr, SIZE: tl.constexpr):
    """Which elements of a tile are inside, by a tensor's layout."""
    row = tl.arange(0, SIZE)[:, None]
    column = tl.arange(0, SIZE)[None, :]
    rows, columns = tl.load(rows_ptr + row) != 0, tl.load(columns_ptr + column) != 0
    found = tile_mask(rows, columns, LAYOUT).to(tl.int32)
    tl.store(result_ptr + row * SIZE + column, found + tl.zeros((SIZE, SIZE), tl.int32))


def check_masks() -> None:
    """A tensor that does not move along the rows, or the columns, is inside whichever are; or not within a tile's rows."""
    rows, columns = [0, 1, 1, 0, 1, 0, 0, 1], [1, 1, 0, 1, 0, 1, 0, 0]
    for shift, by_row, by_column in itertools.product(range(5), range(4), range(3)):
        if by_row in (0, 3) and by_column == 0:
            continue
        layout = 100 * shift + 10 * by_row + by_column
        result = torch.full((_SIZE, _SIZE), -1, dtype=torch.int32, device=DEVICE)
        given = (torch.tensor(one, dtype=torch.int32, device=DEVICE) for one in (rows, columns))
        _masks[(1,)](*given, result, LAYOUT=layout, SIZE=_SIZE)
        wanted = [
            [int((row or by_row in (0, 3)) and (column or by_column == 0)) for column in columns]
            for row in rows
        ]
        if result.tolist() != wanted:
            raise Fault(f"layout {layout}: {result.tolist()}, not {wanted}")


@triton.jit
def _counts(result_ptr, first, count, ALL: tl.constexpr, SIZE: tl.constexpr):
    """How many positions, from a first one on, are below a count, and which."""
    place = tl.arange(0, SIZE)
    found = below(first + place, count, ALL)
    tl.store(result_ptr, tl.sum(tl.where(found, 1, 0)))
    tl.store(result_ptr + 1 + place, tl.where(found, 1, 0) + tl.zeros((SIZE,), tl.int32))


def check_below() -> None:
    """Positions before, at and behind a count; where all are said to be below, it is not asked."""
    for first, count, everywhere in itertools.product((0, 5), (0, 1, 7, 8, 13), (False, True)):
        result = torch.full((1 + _SIZE,), -1, dtype=torch.int32, device=DEVICE)
        _counts[(1,)](result, first, count, ALL=everywhere, SIZE=_SIZE)
        wanted = [int(everywhere or first + at < count) for at in range(_SIZE)]
        if result.tolist() != [sum(wanted), *wanted]:
            raise Fault(f"{count} from {first} on, all {everywhere}: {result.tolist()}")


@triton.jit
def _pieces(
    pointer, result_ptr, n_rows, splits, nothing, ROWS: tl.constexpr, SPLITS: tl.constexpr
):
    """The pieces of the first rows."""
    rows = tl.arange(0, ROWS)[:, None]
    place = rows * SPLITS + tl.arange(0, SPLITS)[None, :]
    found = pieces_of(pointer, rows, rows < n_rows, splits, nothing, SPLITS)
    tl.store(result_ptr + place, found + tl.zeros((ROWS, SPLITS), tl.int32))


def check_pieces() -> None:
    """Fewer rows and pieces than a tile has, as many, and none; the numbers before and behind them are not read."""
    for n_rows, splits in itertools.product((0, 1, 3, 4), (0, 1, 5, _SIZE)):
        numbers = torch.arange(1, 1 + 8 * _SIZE, dtype=torch.int32)
        result = torch.full((4, _SIZE), -1, dtype=torch.int32, device=DEVICE)
        given = numbers.to(DEVICE)[_SIZE:]
        _pieces[(1,)](given, result, n_rows, splits, -9, ROWS=4, SPLITS=_SIZE)
        wanted = [
            [
                1 + _SIZE + row * splits + piece if row < n_rows and piece < splits else -9
                for piece in range(_SIZE)
            ]
            for row in range(4)
        ]
        if result.tolist() != wanted:
            raise Fault(f"{n_rows} rows of {splits} pieces: {result.tolist()}, not {wanted}")


@pytest.mark.parametrize(
    "check",
    (check_figures, check_offsets, check_offsets_of_a_tile, check_masks, check_below, check_pieces),
)
def test_device_functions(check: Callable[[], None]) -> None:
    needs_kernels()
    check()
