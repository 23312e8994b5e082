"""Watches the memory that a kernel touches in Triton's interpreter.

An access outside the tensors of a call is left out and reported: on a GPU it would be an illegal access, or go
unnoticed. `first_program` runs a part of a grid that is too long to run as a whole.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from torch import Tensor
from triton.runtime import interpreter


@dataclass
class Watch:
    """The byte ranges that a call may read and write, and what it did beside them."""

    readable: list[tuple[int, int]]
    writable: list[tuple[int, int]]
    faults: list[str] = field(default_factory=list)

    def inside(self, addresses: Any, mask: Any, *, writes: bool) -> Any:
        """The mask without the addresses that the call may not touch; those are reported."""
        allowed = np.zeros_like(mask)
        for start, end in self.writable if writes else self.readable:
            allowed |= (addresses >= start) & (addresses < end)
        outside = mask & ~allowed
        if outside.any():
            kind = "writes" if writes else "reads"
            self.faults.append(f"{kind} at {int(outside.sum())} addresses outside the tensors")
        return mask & allowed


_watches: list[Watch] = []
_first_programs: list[int] = [0]


@contextlib.contextmanager
def watched(read: Sequence[Tensor], written: Sequence[Tensor]) -> Iterator[Watch]:
    """Watches the kernels that run inside; they may read all these tensors and write the latter."""
    _install()
    writable = [_range(tensor) for tensor in written]
    watch = Watch([*(_range(tensor) for tensor in read), *writable], writable)
    _watches.append(watch)
    try:
        with np.errstate(all="ignore"):
            yield watch
    finally:
        _watches.pop()


@contextlib.contextmanager
def first_program(number: int) -> Iterator[None]:
    """Kernels inside see their programs numbered from `number` on."""
    _first_programs.append(number)
    try:
        yield
    finally:
        _first_programs.pop()


def _range(tensor: Tensor) -> tuple[int, int]:
    """The addresses from a tensor's first byte to the one past its last."""
    if tensor.numel() == 0:
        return 0, 0
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride()))
    return tensor.data_ptr(), tensor.data_ptr() + (last + 1) * tensor.element_size()


def _install() -> None:
    """Patches the interpreter of this process; a second call changes nothing."""
    builder = interpreter.InterpreterBuilder
    if getattr(builder, "_is_watched", False):
        return
    load, store = builder.create_masked_load, builder.create_masked_store
    program_id = builder.create_get_program_id

    def watched_load(self: Any, ptrs: Any, mask: Any, *rest: Any) -> Any:
        return load(self, ptrs, _checked(ptrs, mask, writes=False), *rest)

    def watched_store(self: Any, ptrs: Any, value: Any, mask: Any, *rest: Any) -> Any:
        return store(self, ptrs, value, _checked(ptrs, mask, writes=True), *rest)

    def shifted_program_id(self: Any, axis: int) -> Any:
        number = program_id(self, axis)
        if axis == 0:
            number.data = number.data + np.int32(_first_programs[-1])
        return number

    def nothing_to_restore(self: Any, *arguments: Any) -> None:
        """Kernels work on the CPU tensors themselves; to copy a storage onto itself would touch all of it."""

    builder.create_masked_load = watched_load
    builder.create_masked_store = watched_store
    builder.create_get_program_id = shifted_program_id
    interpreter.GridExecutor._restore_args_dev = nothing_to_restore
    builder._is_watched = True


def _checked(ptrs: Any, mask: Any, *, writes: bool) -> Any:
    if not _watches:
        return mask
    allowed = _watches[-1].inside(ptrs.data, mask.data, writes=writes)
    return interpreter.TensorHandle(allowed, mask.dtype)
