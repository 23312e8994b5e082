"""Reductions of eager references that `torch` has for one dim only, refuses over nothing, or warns of.

Each reduces the dims at the places `axes`, counted from the right, and keeps them with one element.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch


def merged(tensor: torch.Tensor, named: int) -> torch.Tensor:
    """A tensor with all leading dims, those before the last `named`, as one; with one element where there are none."""
    leading = tensor.shape[: tensor.dim() - named]
    return tensor.reshape(math.prod(leading), *tensor.shape[len(leading) :])


def max_over(x: torch.Tensor, axes: Sequence[int]) -> torch.Tensor:
    """The largest; NaN where any is."""
    return torch.amax(x, axes, keepdim=True) if _has_any(x, axes) else _nothing(x, axes)


def min_over(x: torch.Tensor, axes: Sequence[int]) -> torch.Tensor:
    """The smallest; NaN where any is."""
    return torch.amin(x, axes, keepdim=True) if _has_any(x, axes) else _nothing(x, axes)


def argmax_over(x: torch.Tensor, axes: Sequence[int]) -> torch.Tensor:
    """The first position of the largest, row-major over the axes in their order; a NaN is the largest."""
    return _flat(x, axes, torch.argmax) if _has_any(x, axes) else _nothing(x, axes).long()


def argmin_over(x: torch.Tensor, axes: Sequence[int]) -> torch.Tensor:
    """The first position of the smallest, row-major over the axes in their order; a NaN is the smallest."""
    return _flat(x, axes, torch.argmin) if _has_any(x, axes) else _nothing(x, axes).long()


def prod_over(x: torch.Tensor, axes: Sequence[int]) -> torch.Tensor:
    """The product; 1 of nothing."""
    return _flat(x, axes, torch.prod)


def var_over(x: torch.Tensor, axes: Sequence[int]) -> torch.Tensor:
    """The population variance; NaN of nothing."""
    return (x - x.mean(axes, keepdim=True)).square().mean(axes, keepdim=True)


def _has_any(x: torch.Tensor, axes: Sequence[int]) -> bool:
    return all(x.shape[axis] for axis in axes)


def _nothing(x: torch.Tensor, axes: Sequence[int]) -> torch.Tensor:
    """What stands for the result of a reduction over nothing: no element of a result depends on it."""
    places = {axis % x.dim() for axis in axes}
    return x.new_zeros([1 if place in places else size for place, size in enumerate(x.shape)])


def _flat(
    x: torch.Tensor, axes: Sequence[int], function: Callable[[torch.Tensor, int], torch.Tensor]
) -> torch.Tensor:
    """A reduction of one dim over several, row-major in their order."""
    places = [axis % x.dim() for axis in axes]
    others = [place for place in range(x.dim()) if place not in places]
    kept = [1 if place in places else size for place, size in enumerate(x.shape)]
    return function(x.permute(*others, *places).flatten(len(others)), -1).reshape(kept)
