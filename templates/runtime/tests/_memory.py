"""Tensors in guarded memory: any strides, poison around what is read, sentinels around what is
written.

A layout is a function from a shape to strides, in elements.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

Shape = tuple[int, ...]
Layout = Callable[[Shape], Shape]

_MARGIN = 64
"""Elements before and after a tensor in its storage: what an access one block too far may touch."""

_UNWRITTEN, _SENTINEL = 0xFF, 0xA5
"""Bytes of an output before the call: NaN (-1 for integers) where it is to be written, a pattern elsewhere."""


# -- layouts ---------------------------------------------------------------------------------------


def strides_in_order(shape: Shape, order: Sequence[int], room: int = 0, step: int = 1) -> Shape:
    """Strides of a tensor whose dims, fastest first, are `order`.

    Each dim has `room` more elements in memory than are read, and the fastest dim the stride
    `step`.
    """
    strides = [0] * len(shape)
    for dim in order:
        strides[dim] = step
        step *= max(shape[dim], 1) + room
    return tuple(strides)


def _last_first(shape: Shape) -> list[int]:
    return list(range(len(shape)))[::-1]


def contiguous(shape: Shape) -> Shape:
    return strides_in_order(shape, _last_first(shape))


def transposed(shape: Shape) -> Shape:
    """The first dim is the fastest, the last the slowest."""
    return strides_in_order(shape, range(len(shape)))


def swapped(shape: Shape) -> Shape:
    """The last two dims are swapped in memory."""
    order = _last_first(shape)
    return strides_in_order(shape, [*order[1:2], *order[:1], *order[2:]])


def moved(shape: Shape) -> Shape:
    """The first dim is the fastest in memory, the others follow."""
    order = _last_first(shape)
    return strides_in_order(shape, [*order[-1:], *order[:-1]])


def channels_last(shape: Shape) -> Shape:
    """The second dim is the fastest, as in images of [batch, channels, height, width]."""
    order = _last_first(shape)
    return strides_in_order(shape, [*order[-2:-1], *order[:-2], *order[-1:]])


def sliced(shape: Shape) -> Shape:
    """The first columns of a wider tensor."""
    *rows, columns = shape or (1,)
    return strides_in_order((*rows, columns + 5), range(len(rows), -1, -1))[: len(shape)]


def stepped(shape: Shape) -> Shape:
    """Every third column."""
    return strides_in_order(shape, _last_first(shape), step=3)


def gapped(shape: Shape) -> Shape:
    """Part of a tensor that is larger in every dim, so that no two dims are one run."""
    return strides_in_order(shape, _last_first(shape), room=1)


def gapped_at(place: int) -> Layout:
    """The same, with the last dim as the `place`-th from the fastest."""

    def layout(shape: Shape) -> Shape:
        last, *order = _last_first(shape) or [0]
        order.insert(place, last)
        step = 1 if place == 0 else 2  # a dim of unit stride would be taken out of its place
        return strides_in_order(shape, order[: len(shape)], room=1, step=step)

    layout.__name__ = f"gapped_at_{place}"
    return layout


def gapped_moved(shape: Shape) -> Shape:
    """The same, with the first dim as the fastest and of unit stride."""
    order = _last_first(shape)
    return strides_in_order(shape, [*order[-1:], *order[:-1]], room=1)


def gapped_transposed(shape: Shape) -> Shape:
    """The same, transposed, and with a step."""
    return strides_in_order(shape, range(len(shape)), room=1, step=2)


def aligned(shape: Shape) -> Shape:
    """Part of a tensor that is 16 elements larger in every dim."""
    return strides_in_order(shape, _last_first(shape), room=16)


def aligned_transposed(shape: Shape) -> Shape:
    """The same with the last two dims swapped in memory."""
    order = _last_first(shape)
    return strides_in_order(shape, [*order[1:2], *order[:1], *order[2:]], room=16)


def paged(shape: Shape) -> Shape:
    """Rows that begin at multiples of 16 elements."""
    *rows, columns = shape or (1,)
    page = (*rows, -(-columns // 16) * 16)
    return strides_in_order(page, _last_first(page))[: len(shape)]


def paged_apart(shape: Shape) -> Shape:
    """The same, 16 elements farther apart."""
    *rows, columns = shape or (1,)
    return paged((*rows, columns + 16))[: len(shape)]


def paged_across(shape: Shape) -> Shape:
    """Columns that begin at multiples of 16 elements, two or more apart; every third element where there is one dim."""
    if len(shape) < 2:
        return stepped(shape)
    *outer, rows, columns = shape
    last, row, *others = _last_first(shape)
    return strides_in_order((*outer, -(-rows // 16) * 16 + 16, columns), (row, last, *others))


def aligned_stepped(shape: Shape) -> Shape:
    """Every sixteenth column of such a part."""
    return strides_in_order(shape, _last_first(shape), room=16, step=16)


def expanded(shape: Shape) -> Shape:
    """Stride 0 along the first dim."""
    return tuple(0 if dim == 0 else stride for dim, stride in enumerate(contiguous(shape)))


def expanded_columns(shape: Shape) -> Shape:
    """Stride 0 along the last dim."""
    return tuple(0 if dim == len(shape) - 1 else stride for dim, stride in enumerate(gapped(shape)))


DISTINCT: tuple[Layout, ...] = (
    contiguous,
    transposed,
    swapped,
    moved,
    channels_last,
    sliced,
    stepped,
    gapped,
    gapped_transposed,
    aligned,
    aligned_transposed,
    aligned_stepped,
    paged,
)
"""Layouts in which no two elements are one: those of outputs."""

SHARING: tuple[Layout, ...] = (expanded, expanded_columns)

LAYOUTS = (*DISTINCT, *SHARING)


# -- guarded tensors -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Guarded:
    """A tensor, the storage around it, and what that held before the call, byte by byte."""

    tensor: Tensor
    storage: Tensor
    before: Tensor

    def fault(self, *, written: bool) -> str | None:
        """What the call has changed beside the tensor, or anywhere unless it is `written`; None if
        nothing.
        """
        changed = (_bytes(self.storage) != self.before).any(-1)
        if written:
            _view_like(changed, self.tensor).fill_(False)
        places = changed.nonzero().flatten() - self.tensor.storage_offset()
        if not len(places):
            return None
        last = _span(self.tensor.shape, self.tensor.stride()) - 1
        return f"{len(places)} elements were overwritten, the first at {int(places[0])} (it spans 0 .. {last})"


def guarded_input(values: Tensor, layout: Layout, offset: int = 0) -> Guarded:
    """The values in a layout, with poison around them; a dim of stride 0 keeps its first element."""
    storage, tensor = _room(tuple(values.shape), layout, offset, values.dtype, values.device)
    storage.fill_(_poison(values.dtype))
    distinct = tuple(slice(0, 1 if stride == 0 else None) for stride in tensor.stride())
    tensor[distinct].copy_(values[distinct])
    return Guarded(tensor, storage, _bytes(storage).clone())


def guarded_output(
    shape: Shape, layout: Layout, offset: int, dtype: torch.dtype, device: torch.device
) -> Guarded:
    """A tensor to be written, with sentinels around it."""
    storage, tensor = _room(shape, layout, offset, dtype, device)
    octets = _bytes(storage).fill_(_SENTINEL)
    inside = torch.zeros(len(storage), dtype=torch.bool, device=device)
    _view_like(inside, tensor).fill_(True)
    octets[inside] = _UNWRITTEN
    return Guarded(tensor, storage, octets.clone())


def guarded_update(values: Tensor, layout: Layout, offset: int = 0) -> Guarded:
    """A tensor that is read and then updated in place, with sentinels around it."""
    made = guarded_output(tuple(values.shape), layout, offset, values.dtype, values.device)
    made.tensor.copy_(values)
    return Guarded(made.tensor, made.storage, _bytes(made.storage).clone())


def _room(
    shape: Shape, layout: Layout, offset: int, dtype: torch.dtype, device: torch.device
) -> tuple[Tensor, Tensor]:
    """A storage, and a tensor of the layout inside it."""
    strides = layout(shape)
    span = _span(shape, strides)
    storage = torch.empty(2 * _MARGIN + offset + span, dtype=dtype, device=device)
    return storage, storage.as_strided(shape, strides, _MARGIN + offset)


def _span(shape: Sequence[int], strides: Sequence[int]) -> int:
    """Elements from the first to the last, both included."""
    return 0 if 0 in shape else sum((size - 1) * stride for size, stride in zip(shape, strides)) + 1


def _view_like(storage: Tensor, tensor: Tensor) -> Tensor:
    return storage.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())


def _bytes(storage: Tensor) -> Tensor:
    return storage.view(torch.uint8).reshape(len(storage), storage.element_size())


def _poison(dtype: torch.dtype) -> float:
    """What shows in a result when it is read: NaN, or the largest integer."""
    if dtype.is_floating_point:
        return math.nan
    return True if dtype == torch.bool else torch.iinfo(dtype).max
