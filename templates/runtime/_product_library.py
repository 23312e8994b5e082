"""Products of the vendor's library."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import torch

from ._product_walk import GROUPS, Group, ProductWalk

#: Settings of cuBLAS with which it gives the same bits twice; without one of them PyTorch refuses its products where only
#: deterministic algorithms are allowed.
_DETERMINISTIC = (":4096:8", ":16:8")


def may_multiply(dtype: torch.dtype) -> bool:
    """Whether the vendor's products are what the settings of PyTorch allow, and exact."""
    refused = torch.are_deterministic_algorithms_enabled() and (
        os.environ.get("CUBLAS_WORKSPACE_CONFIG") not in _DETERMINISTIC
    )
    return not refused and _multiplies_exactly(dtype)


def _multiplies_exactly(dtype: torch.dtype) -> bool:
    """Whether the vendor's products are true ones, summed in f32 at least: not while a switch of PyTorch's lets those of
    f32 be of tf32, or those of f16 be summed in f16."""
    if dtype is torch.float16:
        return not torch.backends.cuda.matmul.allow_fp16_accumulation
    if dtype is not torch.float32:
        return True
    try:
        return torch.get_float32_matmul_precision() == "highest"
    except RuntimeError:  # set by the newer switches alone
        return torch.backends.cuda.matmul.fp32_precision in ("none", "ieee")


def library_product(
    a: torch.Tensor, b: torch.Tensor, dtype: torch.dtype, out: torch.Tensor | None = None
) -> torch.Tensor:
    """The vendor's batched product of `[m, k]` and `[n, k]`, summed and returned in `dtype`."""
    if a.device.type != "meta" and torch.is_autocast_enabled(a.device.type):  # it would multiply in another type
        with torch.autocast(a.device.type, enabled=False):
            return library_product(a, b, dtype, out)
    multiply, b = torch.bmm, b.transpose(1, 2)
    if a.shape[0] == 1:  # its plain product is often the faster one
        multiply, a, b = torch.mm, a.squeeze(0), b.squeeze(0)
        out = None if out is None else out.squeeze(0)
    if a.dtype != dtype and a.device.type == "cuda":
        return multiply(a, b, out_dtype=dtype, out=out)
    return multiply(a.to(dtype), b.to(dtype), out=out)


def matrices_of(
    walk: ProductWalk, left: tuple[str, ...], right: tuple[str, ...], products: int, groups: Mapping[str, Group]
) -> tuple[tuple[Any, ...], ...]:
    """The operands as batches of matrices, `[m, k]` and `[n, k]`: sizes and strides; none where some are not one."""
    names = [access.tensor for access in walk.accesses]
    counts = {len(left), len(right)}
    if not counts <= {1, products} or any(len(groups[name].sizes) > 1 for name in GROUPS):
        return ()
    sides = []
    for side, tensors in (("m", left), ("n", right)):
        taken = [groups["batch"], groups[side], groups["k"]]
        sizes = tuple(group.size for group in taken)
        sides.append(
            tuple((sizes, tuple(group.strides[names.index(one)][0] for group in taken)) for one in tensors)
        )
    return tuple(sides)
