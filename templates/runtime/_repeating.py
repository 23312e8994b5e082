"""Launches of what was compiled before: a repeated call skips Triton's look at each argument, which takes most of its time.

The sizes and strides of all calls of one signature are the same; what a kernel is compiled for differs between them
by the alignment of the tensors, and by whether a scalar is a number or a tensor. Where neither differs, whole launches are
kept: all that changes is which tensors and numbers they take.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import triton
from triton.tools.tensor_descriptor import TensorDescriptor

from ._passing import descriptor

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
                self._compiled[key] = compiled, _behind(kernel, arguments, constants)
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


def _behind(kernel: Any, arguments: tuple[Any, ...], constants: Mapping[str, Any]) -> tuple[Any, ...]:
    """The compile-time numbers that a compiled kernel is passed behind its arguments; options are not among them."""
    return tuple(constants[name] for name in kernel.arg_names[len(arguments) :])


def _kind(argument: torch.Tensor) -> Any:
    """What a kernel is compiled for, of a tensor whose layout does not change."""
    return argument.dtype if argument.data_ptr() % _ALIGNMENT == 0 else (argument.dtype,)


class _OnGrid:
    """A kernel that waits for its grid."""

    __slots__ = ("_kernel", "_via")

    def __init__(self, via: Repeated | _Keeping, kernel: Any) -> None:
        self._via = via
        self._kernel = kernel

    def __getitem__(self, grid: tuple[int, ...]) -> Callable[..., None]:
        return functools.partial(self._via.launch, self._kernel, grid)


# --- whole launches -----------------------------------------------------------------------------


@dataclass(frozen=True)
class _Launch:
    """A launch as it was made. `filled` are places among the arguments with that of the tensor or number which belongs
    there among those of a call, `described` the same for descriptors of tensors."""

    compiled: Any
    grid: tuple[int, ...]
    arguments: tuple[Any, ...]
    filled: tuple[tuple[int, int], ...]
    described: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Kept:
    """The launches of a call, and the tensors that only they see: shapes, strides, types."""

    launches: tuple[_Launch, ...]
    scratch: tuple[tuple[Any, ...], ...]

    def repeat(self, given: Sequence[Any], device: torch.device) -> None:
        """Makes the launches again, on the current stream of a GPU that is the current one."""
        stream = triton.runtime.driver.active.get_current_stream(device.index)
        if self.scratch:
            made = (torch.empty_strided(*layout, dtype=dtype, device=device) for *layout, dtype in self.scratch)
            given = (*given, *made)
        for one in self.launches:
            compiled, arguments = one.compiled, list(one.arguments)
            for place, source in one.filled:
                arguments[place] = given[source]
            for place, source in one.described:
                arguments[place] = descriptor({**vars(arguments[place]), "base": given[source]})
            compiled.run(*one.grid, stream, compiled.function, compiled.packed_metadata, None, None, None, *arguments)


def may_repeat(given: Sequence[Any]) -> bool:
    """Whether kept launches serve a call: all tensors are aligned, and no profiler wants to see launches."""
    for one in given:
        if isinstance(one, torch.Tensor) and one.data_ptr() % _ALIGNMENT:
            return False
    enter, leave = triton.knobs.runtime.launch_enter_hook, triton.knobs.runtime.launch_exit_hook
    return not (getattr(enter, "calls", enter) or getattr(leave, "calls", leave))


def keep(launch: Callable[[Any, Sequence[Any]], None], given: Sequence[Any]) -> Kept | None:
    """Makes the launches of a call and keeps them; None where they depend on more than `given`, its tensors and floats.

    `launch` takes a `via` and what stands for `given`: each once, so that its places among the arguments are known.
    """
    stand_ins = [
        one.detach() if isinstance(one, torch.Tensor) else one * 1.0 if isinstance(one, float) else one for one in given
    ]
    keeping = _Keeping(stand_ins)
    launch(keeping, stand_ins)
    return keeping.kept()


class _Keeping:
    """The `via` of launches that are kept."""

    def __init__(self, given: Sequence[Any]) -> None:
        self._sources = [one for one in given if one is not None]
        self._places = {id(one): place for place, one in enumerate(given) if one is not None}
        self._numbers = {place for place, one in enumerate(given) if isinstance(one, float)}
        self._is_known = all(isinstance(one, torch.Tensor | float) for one in self._sources)
        self._memory = {_memory(one) for one in self._sources if isinstance(one, torch.Tensor)}
        self._count = len(given)
        self._launches: list[_Launch] = []
        self._scratch: list[tuple[Any, ...]] = []

    def __call__(self, kernel: Any) -> _OnGrid:
        return _OnGrid(self, kernel)

    def kept(self) -> Kept | None:
        """What was launched, where all numbers are arguments as they are, and all tensors are given ones or scratch."""
        taken = {source for one in self._launches for _, source in one.filled}
        is_whole = self._is_known and bool(self._launches) and self._numbers <= taken
        return Kept(tuple(self._launches), tuple(self._scratch)) if is_whole else None

    def launch(self, kernel: Any, grid: tuple[int, ...], *arguments: Any, **constants: Any) -> None:
        """`kernel[grid](…)`, kept."""
        compiled = kernel[grid](*arguments, **constants)
        fixed, filled, described = list(arguments), [], []
        for place, one in enumerate(arguments):
            base = one.base if isinstance(one, TensorDescriptor) else one
            if isinstance(base, torch.Tensor | float) and id(base) not in self._places:
                self._add(base)
            if id(base) not in self._places or base is None:
                continue
            (filled if base is one else described).append((place, self._places[id(base)]))
            fixed[place] = None if base is one else descriptor({**vars(one), "base": None})
        rest = _behind(kernel, arguments, constants)
        whole_grid = (*grid, *(1,) * (3 - len(grid)))
        self._is_known &= compiled is not None
        self._launches.append(_Launch(compiled, whole_grid, (*fixed, *rest), tuple(filled), tuple(described)))

    def _add(self, base: Any) -> None:
        """Takes a tensor with memory of its own for scratch; nothing else that is not known can be filled in again."""
        if not isinstance(base, torch.Tensor) or _memory(base) in self._memory:
            self._is_known = False
            return
        self._sources.append(base)
        self._memory.add(_memory(base))
        self._places[id(base)] = self._count + len(self._scratch)
        self._scratch.append((base.shape, base.stride(), base.dtype))


def _memory(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()
