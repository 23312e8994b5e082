"""Operands as tensor descriptors read them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from triton.tools.tensor_descriptor import TensorDescriptor

from ._layout import LARGEST_INT32
from ._passing import descriptor
from ._product_walk import Group

#: Bytes between two tensors of one descriptor, and those that a block of it may have along a dim.
FARTHEST = 2**40
_Ints = tuple[int, ...]


@dataclass(frozen=True)
class Stream:
    """An operand as a descriptor reads it; its rows are `turned` where they are contiguous."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    block: tuple[int, ...]
    turned: bool


def described(base: torch.Tensor, shape: _Ints, strides: _Ints, block: _Ints) -> TensorDescriptor:
    """A descriptor that reads zeros outside of its tensor."""
    fields = {"base": base, "shape": list(shape), "strides": list(strides), "block_shape": list(block)}
    return descriptor({**fields, "padding": "zero", "round_f32_to_tf32": False})


def stream_of(
    groups: Mapping[str, Group], tensor: Any, place: int, side: str, rows: int, depth: int
) -> Stream | None:
    """An operand for a descriptor, or None where its layout has none: in 16-byte strides, one of them 1."""
    taken = (groups["batch"], groups[side], groups["k"])
    if any(len(group.sizes) > 1 for group in taken):
        return None
    sizes = tuple(group.size for group in taken)
    steps = tuple(group.strides[place][0] for group in taken)
    turned = steps[2] != 1
    order = (0, 2, 1) if turned else (0, 1, 2)
    shape, strides, block = (tuple(own[at] for at in order) for own in (sizes, steps, (1, rows, depth)))
    width = tensor.dtype.itemsize
    if sizes[0] == 1:
        shape, strides, block = shape[1:], strides[1:], block[1:]
    if strides[-1] != 1 or block[-1] * width < 16 or max(block) > 256:
        return None
    if any(size > LARGEST_INT32 - max(block) for size in shape):
        return None
    if any(stride * width % 16 or stride <= 0 or stride * width >= FARTHEST for stride in strides[:-1]):
        return None
    return Stream(shape, strides, block, turned)
