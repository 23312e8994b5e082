"""Copies of tensors, for calls whose layouts no kernel reads in place."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from ._binding import Operator, Tensor

Tensors = Mapping[str, "torch.Tensor | None"]


def same(copies: Tensors, tensors: Tensors) -> bool:
    """Whether no tensor had to be copied."""
    return all(copies[name] is tensor for name, tensor in tensors.items())


def dense_copies(
    op: Operator, tensors: Tensors, leading: tuple[int, ...] | None
) -> dict[str, torch.Tensor | None]:
    """The tensors, dense in the order of the first target's dims, and of these leading sizes if there are any."""
    target = (*op.results, *(spec for spec in op.inputs if spec.written))[0]
    return {
        spec.name: None
        if (tensor := tensors[spec.name]) is None
        else _dense_copy(tensor if leading is None else _expanded(tensor, spec, leading), spec, target)
        for spec in op.inputs
    }


def _expanded(tensor: torch.Tensor, own: Tensor, leading: tuple[int, ...]) -> torch.Tensor:
    """The tensor with these sizes in place of its leading ones."""
    shape = (*leading, *tensor.shape[tensor.dim() - len(own.dims) + 1 :])
    return tensor.expand(shape) if own.has_ellipsis and tensor.shape != shape else tensor


def _dense_copy(tensor: torch.Tensor, own: Tensor, target: Tensor) -> torch.Tensor:
    """The tensor where it is dense in the order of another's dims, else a copy that is."""
    named = own.parsed[1:] if own.has_ellipsis else own.parsed
    leading = tensor.dim() - len(named)
    places = {(one.name, one.times): place for place, one in enumerate(target.parsed)}
    order = sorted(range(len(named)), key=lambda at: places.get((named[at].name, named[at].times), -1))
    dims = (*range(leading), *(leading + at for at in order))
    turned = tensor.permute(dims)
    if turned.is_contiguous():
        return tensor
    return turned.contiguous().permute(tuple(dims.index(at) for at in range(tensor.dim())))


def laid_out(tensor: torch.Tensor, strides: tuple[int, ...]) -> torch.Tensor:
    """The tensor where it has these strides, but for those of single elements; else a copy that has."""
    if all(size == 1 or own == wanted for size, own, wanted in zip(tensor.shape, tensor.stride(), strides)):
        return tensor
    copy = torch.empty_strided(tensor.shape, strides, dtype=tensor.dtype, device=tensor.device)
    return copy.copy_(tensor)
