"""The device functions of partial sums against plain Python: sums of more elements than 32 bits count."""

from __future__ import annotations

import contextlib

import pytest
import torch
import triton
import triton.language as tl

from .. import _runtime as rt
from .._product_tiles import partial_sum, store_partial
from ._call import DEVICE, Fault, needs_kernels
from ._wide import NoMemoryError, reserved

_SIDE = 16
_PARTS = 3


@triton.jit
def _stored_and_summed(
    partial_ptr,
    result_ptr,
    first,
    step,
    m_first,
    n_first,
    m_size,
    n_size,
    PARTS: tl.constexpr,
    SIDE: tl.constexpr,
):
    """A tile of each part, stored as matrices `step` apart from the first on, then their sum."""
    first = tl.program_id(0) + first
    step = tl.program_id(0) + step
    row, column = tl.arange(0, SIDE)[:, None], tl.arange(0, SIDE)[None, :]
    m, n = m_first + row, n_first + column
    m_ok, n_ok = m < m_size, n < n_size
    for part in range(PARTS):
        tile = (part * SIDE + row) * SIDE + column + 1.0
        store_partial(
            partial_ptr, tile, first + part * step, m, n, m_size, n_size, m_ok, n_ok
        )
    total = partial_sum(
        partial_ptr, first, step, m, n, m_size, n_size, m_ok, n_ok, PARTS
    )
    tl.store(result_ptr + row * SIDE + column, total)


def check_partial_sums() -> None:
    """Small matrices, some between those that are summed; then matrices of 2^30 elements."""
    for first, step, m_size, n_size in (
        (0, 1, 20, 24),
        (2, 5, 33, 17),
        (2, 1, 2**15, 2**15),
    ):
        _check_partial_sums(first, step, m_size, n_size)


def _check_partial_sums(first: int, step: int, m_size: int, n_size: int) -> None:
    count = first + (_PARTS - 1) * step + 1
    matrices = reserved(count * m_size * n_size, torch.float32).view(
        count, m_size, n_size
    )
    result = torch.full((_SIDE, _SIDE), -1.0, device=DEVICE)
    inside = _SIDE - 3  # of the last tile
    m_first, n_first = m_size - inside, n_size - inside
    with _watching():
        _stored_and_summed[(1,)](
            matrices,
            result,
            first,
            step,
            m_first,
            n_first,
            m_size,
            n_size,
            PARTS=_PARTS,
            SIDE=_SIDE,
        )
    tiles = torch.arange(_PARTS * _SIDE**2, device=DEVICE) + 1.0
    tiles = tiles.view(_PARTS, _SIDE, _SIDE)[:, :inside, :inside]
    stored = matrices[first::step, m_first:, n_first:]
    if not torch.equal(stored, tiles):
        raise Fault(f"matrices {first}, {first + step}, ... of {m_size} by {n_size} hold other tiles")
    if not torch.equal(result[:inside, :inside], tiles.sum(0)) or bool(result[inside:].any()):
        raise Fault(
            f"the tiles of matrices {first}, {first + step}, ... of {m_size} by {n_size} have another sum"
        )


@contextlib.contextmanager
def _watching():
    """In the interpreter, no access may lie outside the kernel's tensors."""
    if not rt.INTERPRETED:
        yield
        return
    from ._watch import watched

    with watched() as watch:
        yield
    for fault in watch.faults[:1]:
        raise Fault(f"a kernel {fault}")


def test_partial_sums() -> None:
    needs_kernels()
    try:
        check_partial_sums()
    except NoMemoryError as reason:
        pytest.skip(str(reason))
