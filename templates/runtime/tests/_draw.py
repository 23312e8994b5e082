"""Random tensors and numbers of any element type, with special values among them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from .. import _runtime as rt

Range = tuple[float, float]

_WIDTHS = (1e-3, 1.0, 1.0, 10.0, 100.0)
"""Standard deviations of normal numbers: most functions vary most near 1."""

_HALVES = (0.5, -0.5, 1.5, -1.5, 2.5, -2.5, 1.0, -1.0, 2.0, 3.0, -3.0)

_THRESHOLDS = (0.0, *_HALVES, -2.0, 4.0, -4.0, 6.0, -6.0, 20.0)
"""Numbers near which functions change their form."""

_NEAR, _HOW_NEAR = 0.15, 0.01
"""The share of numbers near thresholds, and their standard deviation as a part of the threshold."""

_MEANS = (0.0, 0.0, 1.0, 1.0, 30.0)
"""Standard deviations of the means of rows; sums of products of the largest would leave few digits to what follows."""

_FACTOR_BITS = 100.0
"""What the exponents of many factors, whichever their signs, add up to at most."""

_FAR = 300.0
"""How far below zero: there `exp` is zero in f32, unless the largest of the row is taken off."""

_FEWEST_ROWS = 4
"""Of a tensor in which some are special."""


def special_floats(dtype: torch.dtype) -> Tensor:
    """Zeros, infinities, NaN, the extremes of a type and of its subnormals, and ties of rounding."""
    info = torch.finfo(dtype)
    smallest = info.smallest_normal * info.eps
    values = [0.0, -0.0, math.inf, -math.inf, math.nan, info.max, -info.max, info.smallest_normal]
    values += [smallest, -smallest, 3 * smallest, *_HALVES]
    return torch.tensor(values, dtype=torch.float64).to(dtype)


def draw_tensor(
    shape: tuple[int, ...],
    dtype: torch.dtype,
    generator: torch.Generator,
    limits: Range | None,
    special: float,
) -> Tensor:
    """A tensor of random values, within `limits` if there are any; else a share of them is
    `special`.
    """
    if dtype == torch.bool:
        return torch.rand(shape, generator=generator) < 0.5
    if not dtype.is_floating_point:
        return _draw_integers(shape, dtype, generator, limits, special)
    if limits is not None:
        low, high = limits
        numbers = torch.rand(shape, generator=generator, dtype=torch.float64) * (high - low) + low
        return numbers.to(dtype)
    numbers = torch.randn(shape, generator=generator, dtype=torch.float64)
    numbers *= torch.tensor(_WIDTHS, dtype=torch.float64)[_pick(len(_WIDTHS), shape, generator)]
    near = torch.rand(shape, generator=generator) < _NEAR
    numbers = torch.where(near, _draw_near_thresholds(shape, generator), numbers)
    specials = special_floats(dtype).to(torch.float64)
    chosen = specials[_pick(len(specials), shape, generator)]
    return torch.where(torch.rand(shape, generator=generator) < special, chosen, numbers).to(dtype)


def _draw_near_thresholds(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    thresholds = torch.tensor(_THRESHOLDS, dtype=torch.float64)
    chosen = thresholds[_pick(len(thresholds), shape, generator)]
    step = _HOW_NEAR * chosen.abs().clamp(min=0.5)
    return chosen + step * torch.randn(shape, generator=generator, dtype=torch.float64)


def draw_rows(
    shape: tuple[int, ...],
    axes: Sequence[int],
    dtype: torch.dtype,
    generator: torch.Generator,
    limits: Range | None,
    special: float,
    width: float = 1.0,
    factors: int = 0,
) -> Tensor:
    """A tensor whose rows, which lie along `axes`, differ in scale and mean; a few of them are special.

    `width` is the scale of factors, whose products are summed. Where so many `factors` are multiplied, they are near 1
    or -1, so that their product is a normal number in any order.

    Special elements anywhere would leave no row without one.
    """
    if limits is not None or not dtype.is_floating_point:
        return draw_tensor(shape, dtype, generator, limits, special)
    rows = tuple(1 if axis in axes else size for axis, size in enumerate(shape))
    numbers = torch.randn(shape, generator=generator, dtype=torch.float64)
    mean = _MEANS[int(_pick(len(_MEANS) if width == 1.0 else 4, (), generator))]
    numbers = numbers * torch.exp(torch.randn(rows, generator=generator) / 2)
    numbers = (numbers + mean * torch.randn(rows, generator=generator)) * width
    if factors:
        spread = min(_FACTOR_BITS / factors, 1.0) * torch.tanh(numbers.abs() - 1)
        numbers = torch.copysign(torch.exp2(spread), numbers)
    if math.prod(rows) >= _FEWEST_ROWS and math.prod(shape):
        numbers = _with_special_rows(numbers, rows, axes, generator, special)
    return numbers.to(dtype)


def _with_special_rows(
    numbers: Tensor,
    rows: tuple[int, ...],
    axes: Sequence[int],
    generator: torch.Generator,
    special: float,
) -> Tensor:
    """Some rows of one number or of NaN, with one infinity or NaN, or far below zero."""
    lone = torch.ones(numbers.shape, dtype=torch.bool)
    for axis in axes:
        size = numbers.shape[axis]
        place = torch.arange(size).reshape(-1, *(1,) * (numbers.ndim - 1 - axis))
        lone = lone & (place == _pick(size, rows, generator))
    whole = torch.ones_like(lone)
    chosen = torch.where(
        torch.rand(rows, generator=generator) < special, _pick(7, rows, generator), -1
    )
    for kind, (value, places) in enumerate(
        (
            (-math.inf, whole),
            (math.nan, lone),
            (math.inf, lone),
            (-math.inf, lone),
            (0.0, whole),
            (math.nan, whole),
        )
    ):
        numbers = torch.where((chosen == kind) & places, value, numbers)
    return torch.where(chosen == 6, numbers - _FAR, numbers)


def _draw_integers(
    shape: tuple[int, ...],
    dtype: torch.dtype,
    generator: torch.Generator,
    limits: Range | None,
    special: float,
) -> Tensor:
    info = torch.iinfo(dtype)
    if limits is not None:
        low, high = int(limits[0]), int(limits[1])
        return torch.randint(low, high + 1, shape, generator=generator, dtype=torch.int64).to(dtype)
    small = torch.randint(-3, 20, shape, generator=generator)
    medium = torch.randint(-300, 300, shape, generator=generator)
    extremes = torch.tensor([info.min, info.min + 1, info.max, info.max - 1])
    extreme = extremes[_pick(len(extremes), shape, generator)]
    share = torch.rand(shape, generator=generator)
    numbers = torch.where(share < 0.7, small, medium)
    return torch.where(share > 1 - special, extreme, numbers).to(dtype)


def _pick(count: int, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    return torch.randint(count, shape, generator=generator)


def draw_number(
    kind: str, generator: torch.Generator, limits: Range | None, special: float
) -> bool | int | float:
    """A Python number for a scalar of type `kind`; of a float type it need not be one of its numbers."""
    dtype = rt.DTYPES[kind]
    if special == 0.0 and dtype.is_floating_point:
        dtype = torch.float64
    return draw_tensor((), dtype, generator, limits, special).item()
