"""The device functions of row kernels against plain Python, with figures that ops with small tensors do not reach."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import torch
import triton
import triton.language as tl

from .._row_tiles import block_at, extent, piece_counts, positions_at
from ._call import DEVICE, Fault, needs_kernels

_SIZE = 8

_BEYOND = 2**31 + 7
"""More than 32 bits hold."""


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


def test_figures() -> None:
    needs_kernels()
    check_figures()
