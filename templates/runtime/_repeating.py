"""Launches of what was compiled before: a repeated call skips Triton's look at each argument, which takes most of its time.

The sizes and strides of all calls of one signature are the same; what a kernel is compiled for differs between them
by the alignment of the tensors, and by whether a scalar is a number or a tensor.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
import triton

#: Triton compiles for tensors whose address is a multiple of 16 bytes, and for others.
_ALIGNMENT = 16


class Repeated:
    """The `via` of the calls of one signature on one GPU: launches each kernel, the first time through Triton."""

    def __init__(self, device: torch.device) -> None:
        self._device = device.index
        self._compiled: dict[Any, tuple[Any, tuple[Any, ...]]] = {}

    def __call__(self, kernel: Any) -> _OnGrid:
        return _OnGrid(self, kernel)

    def launch(self, kernel: Any, grid: tuple[int, ...], *arguments: Any, **constants: Any) -> None:
        """`kernel[grid](…)`; compile-time numbers and options come by name, behind all that varies."""
        tensors = [_kind(one) for one in arguments if isinstance(one, torch.Tensor)]
        key = (kernel, *map(type, arguments), *tensors, *constants.values())
        found = self._compiled.get(key)
        if found is None:
            compiled = kernel[grid](*arguments, **constants)
            if compiled is not None:
                rest = (constants[name] for name in kernel.arg_names[len(arguments) :])
                self._compiled[key] = compiled, tuple(rest)
            return
        compiled, rest = found
        stream = triton.runtime.driver.active.get_current_stream(self._device)
        arguments += rest
        compiled.run(
            *grid,
            *(1,) * (3 - len(grid)),
            stream,
            compiled.function,
            compiled.packed_metadata,
            compiled.launch_metadata(grid, stream, *arguments),
            triton.knobs.runtime.launch_enter_hook,
            triton.knobs.runtime.launch_exit_hook,
            *arguments,
        )


def _kind(argument: torch.Tensor) -> Any:
    """What a kernel is compiled for, of a tensor whose layout does not change."""
    return argument.dtype if argument.data_ptr() % _ALIGNMENT == 0 else (argument.dtype,)


class _OnGrid:
    """A kernel that waits for its grid."""

    __slots__ = ("_kernel", "_repeated")

    def __init__(self, repeated: Repeated, kernel: Any) -> None:
        self._repeated = repeated
        self._kernel = kernel

    def __getitem__(self, grid: tuple[int, ...]) -> Callable[..., None]:
        return functools.partial(self._repeated.launch, self._kernel, grid)
