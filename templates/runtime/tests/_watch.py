"""Watches the memory that kernels touch in Triton's interpreter.

An access outside the tensors that a kernel was launched with is left out and reported: on a GPU it
would be an illegal access, or go unnoticed. Lanes that a load leaves out are undefined there, and
hold `poison` here. `last_programs` runs a part of a grid that is too long to run as a whole.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from torch import Tensor
from triton.runtime import interpreter

_LOAD = ["self", "ptrs", "mask", "other", "cache_modifier", "eviction_policy", "is_volatile"]
"""The parameters of the interpreter's masked load, which fills in zeros where `other` is None.

Triton's frontend passes it None also for a single 0, whose truth it asks for.
"""


@dataclass
class Watch:
    """The bytes that the running kernel may touch, and what kernels did beside them."""

    ranges: list[tuple[int, int]] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    def inside(self, addresses: Any, mask: Any, kind: str) -> Any:
        """The mask without the addresses that the kernel may not touch; those are reported."""
        allowed = np.zeros_like(mask)
        for start, end in self.ranges:
            allowed |= (addresses >= start) & (addresses < end)
        outside = int((mask & ~allowed).sum())
        if outside:
            self.faults.append(f"{kind} at {outside} addresses outside its tensors")
        return mask & allowed


@dataclass
class _State:
    """What the patched interpreter looks at; the generated packages of a process share one."""

    watches: list[Watch] = field(default_factory=list)
    lasts: list[int] = field(default_factory=list)
    first_program: int = 0


@contextlib.contextmanager
def watched() -> Iterator[Watch]:
    """Watches the kernels that run inside."""
    watches = _installed().watches
    watches.append(Watch())
    try:
        with np.errstate(all="ignore"):
            yield watches[-1]
    finally:
        watches.pop()


@contextlib.contextmanager
def last_programs(count: int) -> Iterator[None]:
    """Of each grid inside, only the last programs run."""
    state = _installed()
    state.lasts.append(count)
    try:
        yield
    finally:
        state.lasts.pop()
        state.first_program = 0


def _range(tensor: Tensor) -> tuple[int, int]:
    """The addresses from a tensor's first byte to the one past its last."""
    if tensor.numel() == 0:
        return 0, 0
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride()))
    return tensor.data_ptr(), tensor.data_ptr() + (last + 1) * tensor.element_size()


def poison(dtype: np.dtype[Any], shape: tuple[int, ...]) -> Any:
    """What stands in lanes that a load leaves out: NaN, True, or in turn a large odd number and 1.

    1 may be a position inside a tensor, which no access may then depend on. The types that NumPy lacks are
    stored as unsigned numbers, of which the largest is a NaN.
    """
    if dtype.kind == "f":
        return dtype.type(np.nan)
    if dtype.kind == "i":
        return np.resize(np.array([np.iinfo(dtype).max, 1], dtype), shape)
    return dtype.type(True if dtype.kind == "b" else np.iinfo(dtype).max)


def _require_known_load(load: Any) -> None:
    found = list(inspect.signature(load).parameters)
    if found != _LOAD:
        raise RuntimeError(
            f"triton.runtime.interpreter has no create_masked_load({', '.join(_LOAD)}) but {found}: "
            "what kernels read cannot be watched"
        )


def _installed() -> _State:
    """The state of this process's interpreter, which the first call patches."""
    builder, executor = interpreter.InterpreterBuilder, interpreter.GridExecutor
    present: _State | None = getattr(builder, "_watched_state", None)
    if present is not None:
        return present
    _require_known_load(builder.create_masked_load)
    state = _State()
    load, store = builder.create_masked_load, builder.create_masked_store
    device_call = interpreter.InterpretedFunction.__call__
    patched: set[str | None] = set()
    program_id, init_arguments = builder.create_get_program_id, executor._init_args_hst

    def watched_load(self: Any, ptrs: Any, mask: Any, other: Any, *rest: Any, **named: Any) -> Any:
        allowed = _checked(state, ptrs, mask, "reads")
        loaded = load(self, ptrs, allowed, other, *rest, **named)
        if state.watches and other is None and loaded.data.size > 1:  # else it may have been 0
            lanes = getattr(allowed, "data", allowed)
            loaded.data = np.where(lanes, loaded.data, poison(loaded.data.dtype, loaded.data.shape))
        return loaded

    def watched_store(self: Any, ptrs: Any, value: Any, mask: Any, *rest: Any, **named: Any) -> Any:
        return store(self, ptrs, value, _checked(state, ptrs, mask, "writes"), *rest, **named)

    def shifted_program_id(self: Any, axis: int) -> Any:
        number = program_id(self, axis)
        if axis == 0:
            number.data = number.data + np.int32(state.first_program)
        return number

    def call_device_function(self: Any, *args: Any, **kwargs: Any) -> Any:
        """Without patching Triton's language anew for each of them: once a launch is enough."""
        module = self.fn.__globals__.get("__name__")
        if module not in patched:
            patched.add(module)
            return device_call(self, *args, **kwargs)
        return self.rewrite()(*args, **kwargs)

    def watched_arguments(self: Any, args: Any, kwargs: Any) -> Any:
        patched.clear()
        if state.lasts:
            count = min(state.lasts[-1], self.grid[0])
            state.first_program, self.grid = self.grid[0] - count, (count,)
        if state.watches:
            given = [
                getattr(one, "base", one) for one in (*args, *kwargs.values())
            ]  # of descriptors
            state.watches[-1].ranges = [_range(one) for one in given if isinstance(one, Tensor)]
        return init_arguments(self, args, kwargs)

    def nothing_to_restore(self: Any, *arguments: Any) -> None:
        """Kernels work on the CPU tensors themselves; to copy a storage onto itself would touch all
        of it.
        """

    builder.create_masked_load, builder.create_masked_store = watched_load, watched_store
    builder.create_get_program_id = shifted_program_id
    interpreter.InterpretedFunction.__call__ = call_device_function
    executor._init_args_hst, executor._restore_args_dev = watched_arguments, nothing_to_restore
    # Assertions against integer overflow, which compiled kernels have in debug builds only.
    quick = replace(interpreter.interpreter_builder.options, sanitize_overflow=False)
    interpreter.interpreter_builder.options = quick
    builder._watched_state = state
    return state


def _checked(state: _State, ptrs: Any, mask: Any, kind: str) -> Any:
    if not state.watches:
        return mask
    watch = state.watches[-1]
    if isinstance(mask, np.ndarray):  # of an access through a descriptor
        return watch.inside(ptrs.data, mask, kind)
    allowed = watch.inside(ptrs.data, mask.data, kind)
    return interpreter.TensorHandle(allowed, mask.dtype)
