"""The device functions of addressing against plain Python: what ops with small tensors do not reach."""

from __future__ import annotations

import itertools
import math

import torch
import triton
import triton.language as tl

from .._elementwise import divider
from .._tiles import coordinates, divided, inside, offsets, step
from ._call import DEVICE, Fault, needs_kernels

UNIT_COLUMNS, UNIT_ROWS, ZERO_COLUMNS, ZERO_ROWS, FOLDED = 1, 2, 3, 4, 5
IN_ELEMENTS = 8  # strides as they are, whatever the unit

_ROWS, _COLUMNS, _FOLD = 64, 8, 3
_FOLDED_IN_TWO, _FOLDED_IN_FOUR = FOLDED + 16, FOLDED + 32
_UNUSED = 7919


@triton.jit
def _addresses(
    rows_ptr,
    result_ptr,
    n1,
    n2,
    n3,
    n4,
    n5,
    by1,
    by2,
    by3,
    by4,
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
    POSITION: tl.constexpr,
):
    """The offsets of some rows, and of the first columns, in a tensor; computed as `POSITION`, a type of integers."""
    row = tl.arange(0, ROWS)[None, :]
    cols = tl.arange(0, COLUMNS)[:, None].to(POSITION)
    i0, i1, i2, i3, i4, column, outer, inner = coordinates(
        tl.load(rows_ptr + row).to(POSITION), cols, n1, n2, n3, n4, n5, by1, by2, by3, by4, RANK, UNIT
    )
    # What a space of fewer dims has no use for must not matter.
    i1, i2 = i1 + (RANK < 6) * 977, i2 + (RANK < 5) * 977
    i3, i4 = i3 + (RANK < 4) * 977, i4 + (RANK < 3) * 977
    at = (i0, i1, i2, i3, i4, column, outer, inner)
    found = offsets(at, (s0, s1, s2, s3, s4, s5, s6), LAYOUT, RANK, UNIT)
    tl.store(result_ptr + row * COLUMNS + cols, found + tl.zeros((COLUMNS, ROWS), POSITION))


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
        fold = 1 << (layout >> 4) if layout >> 4 else _FOLD
        within = column // fold * strides[-2] + column % fold * strides[-1]
    return sum(place * stride for place, stride in zip(places, along)) + within


@triton.jit
def _gathered(
    index_ptr,
    step_ptr,
    inside_ptr,
    stride,
    size,
    STRIDE_UNIT: tl.constexpr,
    SIZE_UNIT: tl.constexpr,
    COUNT: tl.constexpr,
):
    """The steps of some positions along a gathered dim, and which are inside."""
    place = tl.arange(0, COUNT)
    index = tl.load(index_ptr + place)
    tl.store(step_ptr + place, step(index, stride, STRIDE_UNIT))
    tl.store(inside_ptr + place, inside(index, size, SIZE_UNIT).to(tl.int64))


def check_offsets() -> None:
    """Every layout class in spaces of every rank, in units of 1 and of 16 elements; figures beyond 32 bits."""
    for rank, unit, scale in itertools.product(range(2, 7), (1, 16), (0, IN_ELEMENTS)):
        for layout in (0, UNIT_COLUMNS, UNIT_ROWS, ZERO_COLUMNS, ZERO_ROWS, FOLDED):
            _check_offsets(rank, unit, layout + scale)
        for layout in (_FOLDED_IN_TWO, _FOLDED_IN_FOUR):
            _check_offsets(rank, unit, layout + scale)
        for layout in (0, FOLDED, _FOLDED_IN_TWO):
            _check_offsets(rank, unit, layout + scale, stride=2**28)
        for place in range(rank - 2):
            _check_offsets(rank, unit, scale, size=(place, 2**28))


def _check_offsets(
    rank: int, unit: int, layout: int, *, stride: int = 1, size: tuple[int, int] = (0, 1)
) -> None:
    """`stride` is a factor of all strides, `size` one of the inner size at a place."""
    generator = torch.Generator().manual_seed(rank)
    inner = list((3, 5, 2, 4)[: rank - 2])  # sizes of the row dims but the outermost
    if inner:
        inner[size[0]] *= size[1]
    strides = [one * stride for one in (1000003, *(50021, 4007, 211, 17, 3, 2)[6 - rank :])]
    rows = torch.randint(3 * math.prod([*inner, unit ** len(inner)]), (_ROWS,), generator=generator)
    unused = 6 - rank
    sizes = [size * unit for size in inner]
    is_short = stride == size[1] == 1
    for position, dividers in ((tl.int64, [None] * 4), (tl.int32, [divider(one) for one in [1] * unused + sizes])):
        if position == tl.int32 and not is_short:
            continue
        result = torch.full((_ROWS, _COLUMNS), -1, dtype=torch.int64, device=DEVICE)
        _addresses[(1,)](
            rows.to(DEVICE),
            result,
            *[1] * unused,
            *inner,
            _FOLD,
            *dividers,
            strides[0],
            *[_UNUSED] * unused,
            *strides[1:],
            LAYOUT=layout,
            RANK=rank,
            UNIT=unit,
            ROWS=_ROWS,
            COLUMNS=_COLUMNS,
            POSITION=position,
        )
        scale = 1 if layout & IN_ELEMENTS else unit
        elements = [stride * scale for stride in strides]
        for row, column in itertools.product(range(_ROWS), range(_COLUMNS)):
            wanted = _expected(int(rows[row]), column, sizes, elements, layout)
            found = int(result[row, column])
            if found != wanted:
                place = f"row {int(rows[row])} and column {column} as {position}"
                raise Fault(f"rank {rank}, unit {unit}, layout {layout}: {found} at {place}, not {wanted}")


@triton.jit
def _division(n_ptr, quotient_ptr, rest_ptr, size, by, COUNT: tl.constexpr):
    """The quotients and the rests of some numbers."""
    place = tl.arange(0, COUNT)
    quotient, rest = divided(tl.load(n_ptr + place), size, by)
    tl.store(quotient_ptr + place, quotient)
    tl.store(rest_ptr + place, rest)


def check_divided() -> None:
    """Divisions of 32-bit numbers, by a product and as they are, where a quotient steps and at the greatest numbers."""
    largest = 2**31 - 1
    for size in (1, 2, 3, 5, 7, 12, 641, 4095, 4096, 4097, 65537, 2**30 - 1, 2**30, 2**30 + 1, largest):
        greatest = largest // size * size
        numbers = [0, 1, size - 1, size, greatest - 1, greatest, largest - 1, largest]
        n = torch.tensor(numbers, dtype=torch.int32)
        for by in (divider(size), None):
            quotients, rests = (torch.full_like(n, -7, device=DEVICE) for _ in range(2))
            _division[(1,)](n.to(DEVICE), quotients, rests, size, by, COUNT=len(numbers))
            for one, quotient, rest in zip(numbers, quotients.tolist(), rests.tolist()):
                if (quotient, rest) != divmod(one, size):
                    raise Fault(f"{one} by {size} ({by}): {quotient}, {rest}, not {divmod(one, size)}")


def check_gathered() -> None:
    """Positions of 32 and 64 bits along a gathered dim; its stride and its size may need more than 32 bits."""
    figures = ((1, 5, 3), (1, 2**31, 2**31), (16, 5, 3), (16, 2**27, 2**27), (16, 5, 2**33))
    for unit, stride, size in figures:
        limit = size * unit
        near = [-1, 0, 1, limit - 1, limit, limit + 1, -limit]
        for dtype in (torch.int32, torch.int64):
            fitting = [one for one in near if abs(one) < 2**31 or dtype == torch.int64]
            _check_gathered(torch.tensor(fitting + [1] * (8 - len(fitting)), dtype=dtype), stride, size, unit)
    _check_gathered(torch.arange(8, dtype=torch.int32) * 2**27, 1, 2**30, 0)


def _check_gathered(index: torch.Tensor, stride: int, size: int, unit: int) -> None:
    """A unit of 0 stands for a stride of one element."""
    steps, insides = (torch.full(index.shape, -7, device=DEVICE) for _ in range(2))
    size_unit = max(unit, 1)
    _gathered[(1,)](index.to(DEVICE), steps, insides, stride, size, unit, size_unit, COUNT=len(index))
    for place, one in enumerate(index.tolist()):
        wanted = (one * stride * size_unit, int(0 <= one < size * size_unit))
        found = (int(steps[place]), int(insides[place]))
        if found != wanted:
            raise Fault(f"unit {unit}, stride {stride}, size {size}: {found} at {one}, not {wanted}")


def test_offsets() -> None:
    needs_kernels()
    check_offsets()


def test_divided() -> None:
    needs_kernels()
    check_divided()


def test_gathered() -> None:
    needs_kernels()
    check_gathered()
