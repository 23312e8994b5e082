"""Values moved between spaces of named dims: repeated blocks, and gathers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor

from ._leaves import align
from ._origin import first_of
from ._values import Value, certain


def spread(x: Value, axis: int, times: int) -> Value:
    """`x` with each element along a dim repeated, as a dim `K / 128` meets `K`; a lone one broadcasts."""
    if x.value.ndim == 0 or x.shape[axis] == 1:
        return x
    return x.map(lambda tensor: tensor.repeat_interleave(times, axis))


def take(x: Value, dims: str, at: Mapping[str, Value], onto: str) -> Value:
    """The elements of `x`, over `dims`, with the coordinates in `at` replaced by integers; zero
    outside.

    The result and the values of `at` are over `onto`; leading dims broadcast from the right. Before
    a tail lies what its first element is. Raises `ValueError` for a coordinate that rests on an open
    decision.
    """
    names = dims.split()
    leading = x.value.ndim - sum(name != "..." for name in names)
    places: list[Tensor] = []
    outside = torch.zeros((), dtype=torch.bool)
    open_ones = [name for name, value in at.items() if not torch.equal(value.lo, value.hi)]
    if open_ones:
        raise ValueError(f"a gather along {open_ones} at positions that rest on open decisions")
    columns = sum(name != "..." for name in onto.split())
    for axis in range(leading):
        size = x.shape[axis]
        places.append(torch.arange(size).reshape(size, *(1,) * (leading - 1 - axis + columns)))
    for axis, name in enumerate((name for name in names if name != "..."), leading):
        size = x.shape[axis]
        first = first_of(size) if name in at else 0
        along = at[name].value if name in at else align(_positions(size), name, onto).value
        outside = outside | (along < 0) | (along >= first + size)
        places.append((along - first).clamp(0, max(size - 1, 0)))
    return _masked(x, places, outside)


def _positions(size: int) -> Value:
    return certain(torch.arange(size), "i64")


def _masked(x: Value, places: list[Tensor], outside: Tensor) -> Value:
    """The elements of `x` at `places`, and zeros where that is outside."""
    if math.prod(x.shape) == 0:
        shape = torch.broadcast_shapes(outside.shape, *(place.shape for place in places))
        return certain(torch.zeros((), dtype=x.value.dtype).expand(shape), x.kind)
    found = x.map(lambda tensor: tensor[tuple(places)])
    value, lo, hi, nan, slack = (
        torch.where(outside, torch.zeros((), dtype=tensor.dtype), tensor)
        for tensor in (found.value, found.lo, found.hi, found.nan, found.slack)
    )
    return replace(found, value=value, lo=lo, hi=hi, nan=nan, slack=slack)
