"""Copies of a call's arguments that lie in memory alike each time."""

from __future__ import annotations

from typing import Any

import torch

_ALIGNMENT = 64
"""Bytes at whose multiples tensors begin in memory."""


def copies(given: dict[str, Any]) -> dict[str, Any]:
    """Copies of arguments, tensors one after the other in one storage: which of two lies lower may decide how a product
    of both rounds."""
    result = {key: one.clone() if isinstance(one, torch.Tensor) else one for key, one in given.items()}
    tensors = {key: one for key, one in result.items() if isinstance(one, torch.Tensor)}
    room = [-(-one.untyped_storage().nbytes() // _ALIGNMENT) * _ALIGNMENT for one in tensors.values()]
    storage = torch.empty(sum(room), dtype=torch.uint8)
    for (key, one), own in zip(tensors.items(), storage.split(room), strict=True):
        placed = own.view(one.dtype).as_strided(one.shape, one.stride(), own.storage_offset() // one.itemsize)
        result[key] = placed.copy_(one)
    return result
