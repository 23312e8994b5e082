"""The device functions of reductions against plain Python, at positions that rows of few elements do not have."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from .._row_reductions import (
    highest,
    lowest,
    merge_argmax,
    merge_argmin,
    row_argmax,
    row_argmin,
    step_argmax,
    step_argmin,
)
from ._call import DEVICE, Fault, needs_kernels

_TERMS = ((1, 3, 3, 2), (0, 3, -5, -5))
"""Of one row, in two steps of lanes; its extremes are there twice."""


@triton.jit
def _places(terms_ptr, result_ptr, first, LANES: tl.constexpr):
    """The places of a row's largest and least element: of its first half, and of all of it, which lanes gather."""
    lane = tl.arange(0, LANES)[None, :]
    every = lane >= 0
    position = tl.cast(first, tl.int64) + lane
    term = tl.load(terms_ptr + lane)
    later = tl.load(terms_ptr + LANES + lane)
    _, largest = row_argmax(term, position, every)
    _, least = row_argmin(term, position, every)
    nowhere = tl.full((1, LANES), 0, tl.int64) + highest(tl.int64)
    most = tl.zeros((1, LANES), tl.float32) + lowest(tl.float32)
    top, top_at = step_argmax(most, nowhere, term, position, every)
    top, top_at = step_argmax(top, top_at, later, position + LANES, every)
    _, top_at = merge_argmax(top, top_at)
    low, low_at = step_argmin(-most, nowhere, term, position, every)
    low, low_at = step_argmin(low, low_at, later, position + LANES, every)
    _, low_at = merge_argmin(low, low_at)
    own = tl.zeros((1, 1), tl.int32)
    tl.store(result_ptr + own, largest)
    tl.store(result_ptr + 1 + own, least)
    tl.store(result_ptr + 2 + own, top_at)
    tl.store(result_ptr + 3 + own, low_at)


def check_places() -> None:
    """The first of equal extremes, at positions of 32 bits and beyond."""
    terms = torch.tensor(_TERMS, dtype=torch.float32, device=DEVICE)
    for first in (0, 2**31 - 2, 2**33):
        result = torch.full((4,), -1, dtype=torch.int64, device=DEVICE)
        _places[(1,)](terms, result, first, LANES=len(_TERMS[0]))
        wanted = [first + place for place in (1, 0, 1, 6)]
        if result.tolist() != wanted:
            raise Fault(f"places from {first} on: {result.tolist()}, not {wanted}")


def test_places() -> None:
    needs_kernels()
    check_places()
