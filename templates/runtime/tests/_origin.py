"""Where positions start: at zero, but for the tail of tensors that are too large to be looked at as a whole."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch
from torch import Tensor

_tails: list[tuple[int, int]] = []


@contextlib.contextmanager
def only_tail(count: int, first: int) -> Iterator[None]:
    """Spaces of `count` positions are, inside, the end of a larger one, in which they start at `first`."""
    _tails.append((count, first))
    try:
        yield
    finally:
        _tails.pop()


def positions(count: int, device: torch.device | None = None) -> Tensor:
    """The positions in a space of so many: `int64 [count]`."""
    return torch.arange(count, device=device) + first_of(count)


def first_of(count: int) -> int:
    """Where the positions in a space of so many start."""
    return sum(first for length, first in _tails if count == length)
