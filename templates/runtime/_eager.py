"""What eager references need beyond `torch`: alignment by dim name, casts, integer division, Philox numbers.

Reductions and products are re-exported here, so that `rt.eager` has all of it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch

from ._binding import Bound, dim
from ._eager_products import contract, matmul
from ._eager_reductions import argmax_over, argmin_over, max_over, merged, min_over, prod_over, var_over

__all__ = [
    "align",
    "argmax_over",
    "argmin_over",
    "cast",
    "clamp",
    "contract",
    "finish",
    "floor_div",
    "fma",
    "full",
    "gather",
    "matmul",
    "max_over",
    "maximum",
    "merged",
    "min_over",
    "minimum",
    "mod",
    "normal_cdf",
    "position",
    "prod_over",
    "scalar",
    "size",
    "uniform",
    "unpack",
    "var_over",
]

_PHILOX_KEYS = (0x9E3779B9, 0xBB67AE85)
_PHILOX_FACTORS = (0xD2511F53, 0xCD9E8D57)
_WORD = 0xFFFFFFFF


def scalar(value: float | torch.Tensor, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """A scalar argument as a 0-d tensor of its compute type."""
    if isinstance(value, torch.Tensor):
        return value.to(device=device, dtype=dtype)
    return torch.full((), value, dtype=dtype, device=device)


def full(value: float, dtype: torch.dtype, dims: Sequence[str], bound: Bound) -> torch.Tensor:
    """A number for each element of a left-out tensor over named dims."""
    return torch.full(bound.extents([dim(text) for text in dims]), value, dtype=dtype, device=bound.device)


def align(tensor: torch.Tensor, dims: Sequence[str | None], space: Sequence[str]) -> torch.Tensor:
    """A tensor over `dims` as a view over the dims of `space`, with size 1 for those that it lacks.

    None among `dims` is a place of one element. Where the space has `K` and the tensor `K / 128`, each element is
    repeated 128 times. A 0-d tensor, which stands for a tensor that was left out, stays as it is.
    """
    slots = [text for text in dims if text != "..."]
    leading = tensor.dim() - len(slots)
    if leading < 0:
        return tensor
    tensor = tensor.squeeze([leading + place for place, text in enumerate(slots) if text is None])
    named = [dim(text) for text in slots if text is not None]
    order: list[int] = []
    missing: list[int] = []
    for place, one in enumerate(dim(text) for text in space if text != "..."):
        at = next((at for at, own in enumerate(named) if (own.name, own.times) == (one.name, one.times)), None)
        if at is None:
            missing.append(leading + place)
            continue
        order.append(leading + at)
        if named[at].over != one.over and tensor.shape[leading + at] != 1:
            tensor = tensor.repeat_interleave(named[at].over // one.over, dim=leading + at)
    tensor = tensor.permute((*range(leading), *order))
    for place in missing:
        tensor = tensor.unsqueeze(place)
    return tensor


def finish(
    value: torch.Tensor, own: Sequence[str | None], dims: Sequence[str], bound: Bound, *, contiguous: bool
) -> torch.Tensor:
    """A value over `own` as a fresh tensor over the dims of a result, spread to its full shape."""
    spread = align(value, own, dims).expand(bound.extents([dim(text) for text in dims]))
    return spread.clone(memory_format=torch.contiguous_format if contiguous else torch.preserve_format)


def size(bound: Bound, text: str) -> torch.Tensor:
    """The size of a dim as an i64 0-d tensor."""
    return torch.full((), bound.extents((dim(text),))[0], dtype=torch.int64, device=bound.device)


def position(bound: Bound, dims: Sequence[str]) -> torch.Tensor:
    """The row-major position over `dims` as i64."""
    shape = bound.extents([dim(text) for text in dims])
    return torch.arange(math.prod(shape), device=bound.device).reshape(shape)


def gather(
    table: torch.Tensor, dims: Sequence[str], space: Sequence[str], coordinates: Mapping[str, torch.Tensor]
) -> torch.Tensor:
    """The elements of a tensor over `dims` with some coordinates replaced by values over `space`; zero outside."""
    total = sum(text != "..." for text in space)
    leading = table.dim() - sum(text != "..." for text in dims)
    index: list[torch.Tensor] = []
    outside = torch.zeros((), dtype=torch.bool, device=table.device)
    for place in range(leading):
        steps = torch.arange(table.shape[place], device=table.device)
        index.append(steps.reshape(-1, *(1,) * (leading - 1 - place + total)))
    for at, text in enumerate(text for text in dims if text != "..."):
        size = table.shape[leading + at]
        if text in coordinates:
            position = coordinates[text].to(torch.int64)
            outside = outside | (position < 0) | (position >= size)
            index.append(position.clamp(0, max(size - 1, 0)))
        else:
            index.append(align(torch.arange(size, device=table.device), (text,), space))
    if table.numel() == 0:
        shape = torch.broadcast_shapes(*(one.shape for one in index), outside.shape)
        return torch.zeros(shape, dtype=table.dtype, device=table.device)
    return torch.where(outside, torch.zeros((), dtype=table.dtype, device=table.device), table[tuple(index)])


def unpack(packed: torch.Tensor, *, signed: bool) -> torch.Tensor:
    """The 4-bit integers of a byte tensor, low nibble first, along the last dim, as i32."""
    value = torch.stack((packed & 15, packed >> 4), dim=-1).flatten(-2).to(torch.int32)
    return (value ^ 8) - 8 if signed else value


def minimum(*values: torch.Tensor | float) -> torch.Tensor:
    return _fold(torch.minimum, values)


def maximum(*values: torch.Tensor | float) -> torch.Tensor:
    return _fold(torch.maximum, values)


def _fold(function, values: Sequence[torch.Tensor | float]) -> torch.Tensor:  # type: ignore[no-untyped-def]
    like = next(value for value in values if isinstance(value, torch.Tensor))
    tensors = [
        value if isinstance(value, torch.Tensor) else torch.full((), value, dtype=like.dtype, device=like.device)
        for value in values
    ]
    result = tensors[0]
    for other in tensors[1:]:
        result = function(result, other)
    return result


def clamp(value: torch.Tensor, low: torch.Tensor | float, high: torch.Tensor | float) -> torch.Tensor:
    return minimum(maximum(value, low), high)


def floor_div(left: torch.Tensor | int, right: torch.Tensor | int) -> torch.Tensor:
    """Division rounded down; by zero an integer gives some integer instead of an error."""
    left, right = _tensors(left, right)
    if not right.is_floating_point():
        right = torch.where(right == 0, torch.ones_like(right), right)
    return torch.floor_divide(left, right)


def mod(left: torch.Tensor | int, right: torch.Tensor | int) -> torch.Tensor:
    """The remainder with the sign of the divisor; by zero an integer gives some integer."""
    left, right = _tensors(left, right)
    if not right.is_floating_point():
        right = torch.where(right == 0, torch.ones_like(right), right)
    return torch.remainder(left, right)


def _tensors(left: torch.Tensor | float, right: torch.Tensor | float) -> tuple[torch.Tensor, torch.Tensor]:
    like = left if isinstance(left, torch.Tensor) else right
    assert isinstance(like, torch.Tensor)
    return (
        torch.as_tensor(left, dtype=like.dtype, device=like.device),
        torch.as_tensor(right, dtype=like.dtype, device=like.device),
    )


def fma(a: torch.Tensor, b: torch.Tensor | float, c: torch.Tensor | float) -> torch.Tensor:
    """`a * b + c`, rounded once in f32 (through f64, where the product is exact)."""
    a, b = _tensors(a, b)
    a, c = _tensors(a, c)
    if a.dtype == torch.float32:
        return (a.double() * b.double() + c.double()).float()
    return a * b + c


def normal_cdf(x: torch.Tensor) -> torch.Tensor:
    """The probability that a standard normal number lies below `x`: erfc(-x / sqrt(2)) / 2, by way of f64.

    What the rounding of -x / sqrt(2) loses would be magnified in the tail, so it counts to first order. sqrt(1/2)
    is the sum of two numbers, the first of 24 bits.
    """
    wide = x.double()
    lead = wide.float().double()
    t = wide * -0.7071067811865476
    lost = (lead * -0.7071067690849304 - t) - (wide - lead) * 0.7071067690849304 - wide * 1.210161710447897e-08
    correction = lost * torch.exp(-t * t) * (-2 / math.sqrt(math.pi))
    return (0.5 * (torch.erfc(t) + correction.nan_to_num(0.0, 0.0, 0.0))).to(x.dtype)


def cast(value: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """A spec's cast: floats to integers truncate and saturate (NaN gives 0), to f8e4m3 saturate, to bool are != 0."""
    if dtype == torch.bool:
        return value != 0
    if dtype == torch.float8_e4m3fn and value.is_floating_point():
        return torch.clamp(value, -448.0, 448.0).to(dtype)
    if value.is_floating_point() and not dtype.is_floating_point:
        limits = torch.iinfo(dtype)
        low, high = value < limits.min, value >= 2.0 ** (limits.bits - (limits.min < 0))
        inside = torch.where(low | high | torch.isnan(value), torch.zeros_like(value), value).to(dtype)
        inside = torch.where(low, torch.full_like(inside, limits.min), inside)
        return torch.where(high, torch.full_like(inside, limits.max), inside)
    return value.to(dtype)


def uniform(seed: torch.Tensor | int, position: torch.Tensor) -> torch.Tensor:
    """Philox-4x32-10 keyed with `seed`, counter (position mod 2^32, position div 2^32, 0, 0), as f32 in [0, 1).

    Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (SC11). The first word becomes a float as
    `tl.rand` does: as a signed integer, its complement where negative, times the float below 2^-31.
    """
    seed = torch.as_tensor(seed, dtype=torch.int64, device=position.device)
    keys = [seed & _WORD, (seed >> 32) & _WORD]
    zero = torch.zeros_like(position)
    counter = [position & _WORD, (position >> 32) & _WORD, zero, zero]
    for _ in range(10):
        high0, low0 = _multiply(counter[0], _PHILOX_FACTORS[0])
        high1, low1 = _multiply(counter[2], _PHILOX_FACTORS[1])
        counter = [high1 ^ counter[1] ^ keys[0], low1, high0 ^ counter[3] ^ keys[1], low0]
        keys = [(key + step) & _WORD for key, step in zip(keys, _PHILOX_KEYS)]
    signed = counter[0].to(torch.int32)
    word = torch.where(counter[0] > 0x7FFFFFFF, -(counter[0] - 0x100000000) - 1, signed)
    return word.to(torch.float32) * 4.6566127342e-10


def _multiply(word: torch.Tensor, factor: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The high and low 32 bits of a product of two 32-bit words, in 64-bit signed arithmetic."""
    low = word * (factor & 0xFFFF)
    high = word * (factor >> 16) + (low >> 16)
    return high >> 16, ((high & 0xFFFF) << 16) | (low & 0xFFFF)
