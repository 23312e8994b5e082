"""Products of eager references: by dim name, and in the precision that specs ask for, whatever PyTorch is set to."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch


def matmul(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """`torch.matmul` of tensors of one compute type: f32 ones multiply and add in f64, and are rounded once.

    PyTorch's switches for reduced precision (`allow_tf32`, `set_float32_matmul_precision`) hold for f32 products alone.
    Integers wrap, as they do where CUDA, which has no product for them, adds up outer products.
    """
    if left.dtype == torch.float32:
        return torch.matmul(left.double(), right.double()).float()
    if left.is_floating_point() or left.device.type == "cpu":
        return torch.matmul(left, right)
    return _sum_of_outer_products(left, right)


def _sum_of_outer_products(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    if left.dim() == 1:
        return _sum_of_outer_products(left.unsqueeze(0), right).squeeze(0 if right.dim() == 1 else -2)
    if right.dim() == 1:
        return _sum_of_outer_products(left, right.unsqueeze(-1)).squeeze(-1)
    batch = torch.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    total = left.new_zeros((*batch, left.shape[-2], right.shape[-1]))
    for k in range(left.shape[-1]):
        total += left[..., k : k + 1] * right[..., k : k + 1, :]
    return total


def contract(
    left: torch.Tensor,
    left_dims: Sequence[str],
    right: torch.Tensor,
    right_dims: Sequence[str],
    over: str,
    dims: Sequence[str],
) -> torch.Tensor:
    """The sum of products over a dim, as a tensor over `dims`; what both operands carry beside it are batch dims."""
    batch = [name for name in left_dims if name in right_dims and name != over]
    rows = [name for name in left_dims if name not in right_dims]
    columns = [name for name in right_dims if name not in left_dims]
    first, row_sizes, _ = _stacked(left, left_dims, batch, rows, [over])
    second, _, column_sizes = _stacked(right, right_dims, batch, [over], columns)
    product = matmul(first, second)
    product = product.reshape((*product.shape[:-2], *row_sizes, *column_sizes))
    axes = _axes(product.dim(), (*batch, *rows, *columns))
    return product.permute([axis for name in dims for axis in axes[name]])


def _stacked(
    tensor: torch.Tensor, dims: Sequence[str], batch: list[str], rows: list[str], columns: list[str]
) -> tuple[torch.Tensor, list[int], list[int]]:
    """A tensor as a stack of matrices, whose rows and columns are dims taken together, and the sizes of these."""
    axes = _axes(tensor.dim(), dims)
    places = [[axis for name in group for axis in axes[name]] for group in (batch, rows, columns)]
    sizes = [[tensor.shape[axis] for axis in group] for group in places]
    matrices = tensor.permute(sum(places, [])).reshape(*sizes[0], math.prod(sizes[1]), math.prod(sizes[2]))
    return matrices, sizes[1], sizes[2]


def _axes(rank: int, dims: Sequence[str]) -> dict[str, list[int]]:
    """The axes of a tensor of this rank that each of its dims has: `...` has all that the others leave."""
    axes: dict[str, list[int]] = {}
    at = 0
    for name in dims:
        count = rank - len(dims) + 1 if name == "..." else 1
        axes[name] = list(range(at, at + count))
        at += count
    return axes
