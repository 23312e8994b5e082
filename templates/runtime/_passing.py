"""Arguments of launches: numbers and tensors in the form that kernels take them in."""

from __future__ import annotations

import functools
import struct
from collections.abc import Mapping
from typing import Any

import torch
from triton.tools.tensor_descriptor import TensorDescriptor


def descriptor(fields: Mapping[str, Any]) -> TensorDescriptor:
    """A descriptor of what is known to have one: its own check would take longer than the launch."""
    made = object.__new__(TensorDescriptor)
    made.__dict__ = dict(fields)
    return made


def halves(value: int | float | torch.Tensor) -> tuple[int | torch.Tensor, int]:
    """The signed 32-bit halves of an i64's or f64's bits: arguments whose type no value changes. A tensor stays."""
    if isinstance(value, torch.Tensor):
        return value, 0
    bits = int.from_bytes(struct.pack("<d", value), "little", signed=True) if isinstance(value, float) else value
    low = bits & 0xFFFFFFFF
    return bits >> 32, low - (low >> 31 << 32)


def flag(value: bool | torch.Tensor) -> int | torch.Tensor:
    """A bool as 0 or 1: an argument of a type that the interpreter takes as well. A tensor stays."""
    return int(value) if isinstance(value, bool) else value


def f8(tensor: torch.Tensor | None) -> torch.Tensor | None:
    """A tensor of f8 as kernels take it: as it is for e4m3 on GPUs that have it (sm_89 and later), else its bytes.

    The bytes are decoded and encoded in integer arithmetic; Triton's own conversions are refused on older GPUs,
    saturate for e5m2, and truncate in the interpreter.
    """
    if tensor is None or (tensor.dtype == torch.float8_e4m3fn and _has_e4m3(tensor.device)):
        return tensor
    return tensor.view(torch.uint8)


@functools.cache
def _has_e4m3(device: torch.device) -> bool:
    if device.type != "cuda" or torch.version.hip is not None or not torch.cuda.is_available():
        return False
    return torch.cuda.get_device_capability(device) >= (8, 9)


def unit(count: int) -> int:
    """The number of elements that a size or a stride is passed to a kernel in: 16 where that divides it."""
    return 1 if count % 16 else 16


def in_units(count: int) -> int:
    """A size or a stride in its own `unit`."""
    return count // unit(count)


def stride_unit(stride: int) -> int:
    """The `unit` of a stride, or 0 for a stride of 1, which the compiler is to know."""
    return 0 if stride == 1 else unit(stride)
