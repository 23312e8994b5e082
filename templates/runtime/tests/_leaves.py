"""Where a formula's values come from, and how they are laid out by dim name."""

from __future__ import annotations

import torch
from torch import Tensor

from ._integers import wrap
from ._intervals import F64
from ._origin import first_of, positions
from ._values import Value, certain, literal


def exact(tensor: Tensor) -> Value:
    """The value of an input tensor of any element type, as a kernel widens it when it reads."""
    tensor = tensor.detach()
    if tensor.dtype == torch.bool:
        return certain(tensor, "bool")
    if tensor.dtype == torch.float64:
        return certain(tensor, "f64")
    if tensor.is_floating_point():
        return certain(tensor.to(torch.float32).to(F64), "f32")
    return certain(tensor.to(torch.int64), "i64" if tensor.dtype == torch.int64 else "i32")


def exact_nibbles(tensor: Tensor, *, signed: bool) -> Value:
    """The value of a packed `i4` or `u4` input: uint8 `[..., n]` to `i32 [..., 2 n]`, low first."""
    bits = tensor.to(torch.int64)
    nibbles = torch.stack((bits & 15, bits >> 4), -1).flatten(-2)
    return certain(wrap(nibbles, 4, signed), "i32")


def scalar(number: bool | int | float, kind: str, device: torch.device | None = None) -> Value:
    """A run-time scalar of type `f32`, `f64`, `i32`, `i64` or `bool`, rounded once to it; 0-d."""
    return literal(number, kind, device)


def filled(x: Value, *sizes: int) -> Value:
    """A 0-d value as one of these sizes, for a left-out tensor whose elements count."""
    return x.map(lambda tensor: tensor.expand(sizes))


def index(size: int, device: torch.device | None = None) -> Value:
    """The positions along a dim: `i64 [size]`."""
    return certain(positions(size, device), "i64")


def length(size: int, device: torch.device | None = None) -> Value:
    """The size of a dim: `i64`, 0-d."""
    return literal(first_of(size) + size, "i64", device)


def align(x: Value, dims: str, onto: str) -> Value:
    """`x` with its dims permuted, and dims of size 1 put in, so that it broadcasts by position.

    `dims` and `onto` are names between spaces, `...` for any number of leading dims and a dash for
    one of one element that goes: `align(x, "K - M", "... M N K")`. Every other name in `dims` must
    be in `onto`; `...` comes first in both. A 0-d value stands for any dims and stays as it is.
    """
    return x.map(lambda tensor: _aligned(tensor, dims.split(), onto.split()))


def _aligned(tensor: Tensor, dims: list[str], onto: list[str]) -> Tensor:
    if tensor.ndim == 0:
        return tensor
    missing = {*dims} - {*onto, "-"}
    if missing:
        raise ValueError(f"{sorted(missing)} of {dims} not in {onto}")
    names = [name for name in dims if name != "..."]
    leading = tensor.ndim - len(names)
    tensor = tensor.squeeze([leading + place for place, name in enumerate(names) if name == "-"])
    names = [name for name in names if name != "-"]
    if leading < 0 or (leading and "..." not in dims):
        raise ValueError(f"a tensor of {tensor.ndim} dims cannot be {dims}")
    order = [leading + names.index(name) for name in onto if name in names]
    tensor = tensor.permute([*range(leading), *order])
    for position, name in enumerate(name for name in onto if name != "..."):
        if name not in names:
            tensor = tensor.unsqueeze(leading + position)
    return tensor
