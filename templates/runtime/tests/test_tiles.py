"""The device functions of addressing against plain Python: what ops with small tensors do not reach."""

from __future__ import annotations

import itertools
import math

import torch
import triton
import triton.language as tl

from .._tiles import coordinates, offsets
from ._call import DEVICE, Fault, needs_kernels

UNIT_COLUMNS, UNIT_ROWS, ZERO_COLUMNS, ZERO_ROWS, FOLDED = 1, 2, 3, 4, 5
IN_ELEMENTS = 8  # strides as they are, whatever the unit

_ROWS, _COLUMNS, _FOLD = 64, 8, 3


@triton.jit
def _addresses(
    rows_ptr,
    result_ptr,
    n1,
    n2,
    n3,
    n4,
    n5,
    s0,
    s1,
    s2,
    s3,
    s4,
    s5,
    s6,
    LAYOUT: tl.constexpr,
    RANK: tl.constexpr,
    UNIT: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """The offsets of some rows, and of the first columns, in a tensor."""
    row = tl.arange(0, ROWS)[:, None]
    cols = tl.arange(0, COLUMNS)[None, :]
    at = coordinates(tl.load(rows_ptr + row), cols, n1, n2, n3, n4, n5, RANK, UNIT)
    found = offsets(at, (s0, s1, s2, s3, s4, s5, s6), LAYOUT, RANK, UNIT)
    tl.store(result_ptr + row * COLUMNS + cols, found + tl.zeros((ROWS, COLUMNS), tl.int64))


def _expected(row: int, column: int, sizes: list[int], strides: list[int], layout: int) -> int:
    """The offset by its definition: a row is a place in the outer dims, the innermost fastest."""
    if layout & 7 == ZERO_ROWS:
        return column
    places = []
    for size in reversed(sizes):
        places.append(row % size)
        row //= size
    places = [row, *reversed(places)]
    along = list(strides[:-2])
    if layout & 7 == UNIT_ROWS:
        along[-1] = 1
    columns = {UNIT_COLUMNS: 1, ZERO_COLUMNS: 0}.get(layout & 7, strides[-2])
    within = column * columns
    if layout & 7 == FOLDED:
        within = column // _FOLD * strides[-2] + column % _FOLD * strides[-1]
    return sum(place * stride for place, stride in zip(places, along)) + within


def check_offsets() -> None:
    """Every layout class in spaces of every rank, in units of 1 and of 16 elements."""
    for rank, unit, scale in itertools.product(range(2, 7), (1, 16), (0, IN_ELEMENTS)):
        for layout in (0, UNIT_COLUMNS, UNIT_ROWS, ZERO_COLUMNS, ZERO_ROWS, FOLDED):
            _check_offsets(rank, unit, layout + scale)


def _check_offsets(rank: int, unit: int, layout: int) -> None:
    generator = torch.Generator().manual_seed(rank)
    inner = list((3, 5, 2, 4)[: rank - 2])  # sizes of the row dims but the outermost
    strides = [1000003, *(50021, 4007, 211, 17, 3, 2)[6 - rank :]]
    rows = torch.randint(3 * math.prod([*inner, unit ** len(inner)]), (_ROWS,), generator=generator)
    unused = 6 - rank
    result = torch.full((_ROWS, _COLUMNS), -1, dtype=torch.int64, device=DEVICE)
    _addresses[(1,)](
        rows.to(DEVICE),
        result,
        *[1] * unused,
        *inner,
        _FOLD,
        strides[0],
        *[0] * unused,
        *strides[1:],
        LAYOUT=layout,
        RANK=rank,
        UNIT=unit,
        ROWS=_ROWS,
        COLUMNS=_COLUMNS,
    )
    scale = 1 if layout >= IN_ELEMENTS else unit
    sizes = [size * unit for size in inner]
    elements = [stride * scale for stride in strides]
    for row, column in itertools.product(range(_ROWS), range(_COLUMNS)):
        wanted = _expected(int(rows[row]), column, sizes, elements, layout)
        found = int(result[row, column])
        if found != wanted:
            place = f"row {int(rows[row])} and column {column}"
            raise Fault(
                f"rank {rank}, unit {unit}, layout {layout}: {found} at {place}, not {wanted}"
            )


def test_offsets() -> None:
    needs_kernels()
    check_offsets()
