"""The same values behind other strides and offsets, with poison in the memory between them."""

from collections.abc import Callable

import torch
from torch import Tensor


def poison(dtype: torch.dtype) -> float | int | bool:
    """A value that shows in a result when memory outside a view is read: NaN, or a large number."""
    if dtype.is_floating_point:
        return float("nan")
    return True if dtype == torch.bool else torch.iinfo(dtype).max


def _room(t: Tensor, shape: tuple[int, ...]) -> Tensor:
    return torch.full(shape, poison(t.dtype), dtype=t.dtype, device=t.device)


def contiguous(t: Tensor) -> Tensor:
    return t.contiguous()


def transposed(t: Tensor) -> Tensor:
    """The first dim is the fastest in memory."""
    return t.movedim(0, -1).contiguous().movedim(-1, 0) if t.dim() else t


def swapped(t: Tensor) -> Tensor:
    """The last two dims are swapped in memory."""
    return t.mT.contiguous().mT if t.dim() > 1 else t


def sliced(t: Tensor) -> Tensor:
    """Columns cut out of a wider tensor."""
    if not t.dim():
        return t
    view = _room(t, (*t.shape[:-1], t.shape[-1] + 5))[..., 2 : 2 + t.shape[-1]]
    return view.copy_(t)


def stepped(t: Tensor) -> Tensor:
    """Every third column."""
    if not t.dim():
        return t
    view = _room(t, (*t.shape[:-1], 3 * t.shape[-1]))[..., ::3]
    return view.copy_(t)


def offset(t: Tensor) -> Tensor:
    """Contiguous, but one element past an aligned address."""
    return _room(t, (t.numel() + 2,))[1:-1].view(t.shape).copy_(t)


def channels_last(t: Tensor) -> Tensor:
    return t.contiguous(memory_format=torch.channels_last) if t.dim() == 4 else t


def expanded(t: Tensor) -> Tensor:
    """Stride 0 along the first dim; the values are those of its first element."""
    return t[:1].clone().expand(t.shape) if t.dim() and t.shape[0] else t


def expanded_columns(t: Tensor) -> Tensor:
    """Stride 0 along the last dim; the values are those of its first column."""
    return t[..., :1].clone().expand(t.shape) if t.dim() and t.shape[-1] else t


LAYOUTS: dict[str, Callable[[Tensor], Tensor]] = {
    layout.__name__: layout
    for layout in (
        contiguous,
        transposed,
        swapped,
        sliced,
        stepped,
        offset,
        channels_last,
        expanded,
        expanded_columns,
    )
}
