"""Float conversions for Triton's interpreter that round to nearest even, and its other departures from GPUs.

Triton's own truncate f32 to bf16 and f8, and read the NaNs of f8 as numbers. `install()` replaces
them; f8 saturates (`satfinite` of the PTX `cvt` to `e4m3x2` and `e5m2x2`). The maximum of NaN and a
number is the number, unless a kernel asks for NaN (PTX `max.f32`), which shows where one forgot to. NumPy is
kept from warning where all that is reduced is NaN, which is an error to who runs tests so. `RuntimeError` is
raised where Triton's internals are not the ones it knows, rather than leave wrong conversions in place.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import triton.language as tl
from triton.runtime import interpreter

# Of a type that NumPy lacks: the interpreter's bits, the same bits for torch, and torch's type.
_STORED_AS: dict[str, tuple[Any, Any, torch.dtype]] = {
    "bf16": (np.uint16, np.int16, torch.bfloat16),
    "fp8e4nv": (np.uint8, np.uint8, torch.float8_e4m3fn),
    "fp8e5": (np.uint8, np.uint8, torch.float8_e5m2),
}
_LARGEST = {"fp8e4nv": 448.0, "fp8e5": 57344.0}
_PLAIN = {"fp16": np.float16, "fp32": np.float32, "fp64": np.float64}
_PARAMETERS = {
    "_convert_float": ["input", "input_dtype", "output_dtype", "rounding_mode"],
    "cast_impl": ["self", "src", "dst_type"],
    "min_max": ["self", "input", "val_reduce_op", "idx_reduce_op"],
    "create_maxnumf": ["self", "lhs", "rhs"],
    "create_minnumf": ["self", "lhs", "rhs"],
    "create_clampf": ["self", "arg", "lo", "hi", "propagate_nans"],
}
_QUIET = {np.nanmax: np.fmax.reduce, np.nanmin: np.fmin.reduce}

_FLOATS = {*_STORED_AS, *_PLAIN}

Array = np.ndarray[Any, np.dtype[Any]]


def install() -> None:
    """Patches the interpreter of this process; a second call changes nothing."""
    if getattr(interpreter, "_rounds_to_nearest_even", False):
        return
    _require_known_internals()
    original = interpreter._convert_float
    interpreter._convert_float = _convert_float(original)
    interpreter.InterpreterBuilder.cast_impl = _cast_impl(interpreter.InterpreterBuilder.cast_impl)
    interpreter.ReduceOps.min_max = _min_max(interpreter.ReduceOps.min_max)
    interpreter.InterpreterBuilder.create_maxnumf = _of_two(np.fmax)
    interpreter.InterpreterBuilder.create_minnumf = _of_two(np.fmin)
    interpreter.InterpreterBuilder.create_clampf = _clamp(interpreter.InterpreterBuilder.create_clampf)
    interpreter._rounds_to_nearest_even = True
    _require_rounding()


def to_f64(data: Array, name: str) -> Array:
    """Numbers of the Triton type `name`, as the interpreter stores them, as f64."""
    if name not in _STORED_AS:
        return data.astype(np.float64)
    _, bits, dtype = _STORED_AS[name]
    view: Array = data.view(bits)
    wide: Array = torch.from_numpy(np.ascontiguousarray(view)).view(dtype).to(torch.float64).numpy()
    return wide


def from_f64(numbers: Array, name: str) -> Array:
    """f64 numbers rounded to the Triton type `name`, as the interpreter stores them."""
    if name not in _STORED_AS:
        with np.errstate(over="ignore"):
            plain: Array = numbers.astype(_PLAIN[name])
        return plain
    stored, bits, dtype = _STORED_AS[name]
    if name in _LARGEST:
        numbers = np.clip(numbers, -_LARGEST[name], _LARGEST[name])
    narrow = torch.from_numpy(_rounded_to_odd(numbers)).to(dtype)
    data: Array = narrow.view(getattr(torch, bits.__name__)).numpy().view(stored)
    return data


def _rounded_to_odd(numbers: Array) -> Array:
    """f64 to f32, with an odd last bit where inexact: a second rounding is then right."""
    with np.errstate(over="ignore"):
        near = np.atleast_1d(numbers.astype(np.float32))
    toward = np.where(near > numbers, np.float32(-np.inf), np.float32(np.inf))
    even = (near.view(np.int32) & 1) == 0
    inexact = (near != numbers) & np.isfinite(near)
    odd: Array = np.where(inexact & even, np.nextafter(near, toward), near)
    return np.reshape(odd, numbers.shape)


def _convert_float(original: Callable[..., Array]) -> Callable[..., Array]:
    toward_zero = interpreter._ir.ROUNDING_MODE.RTZ

    def convert(
        input: Array, input_dtype: tl.dtype, output_dtype: tl.dtype, rounding_mode: Any
    ) -> Array:
        if {input_dtype.name, output_dtype.name} <= _FLOATS and rounding_mode != toward_zero:
            return from_f64(to_f64(input, input_dtype.name), output_dtype.name)
        return original(input, input_dtype, output_dtype, rounding_mode)

    return convert


def _cast_impl(original: Callable[..., Any]) -> Callable[..., Any]:
    """The cast of the interpreter's builder, which knows bf16 together with f32 only."""

    def cast(self: Any, src: Any, dst_type: Any) -> Any:
        source, target = src.dtype.scalar, dst_type.scalar
        if target.name in _FLOATS and source.name != target.name:
            return interpreter.TensorHandle(
                from_f64(to_f64(src.data, source.name), target.name), target
            )
        if source.name in _STORED_AS and source.name != target.name:
            src = interpreter.TensorHandle(to_f64(src.data, source.name), tl.float64)
        return original(self, src, dst_type)

    return cast


def _min_max(original: Callable[..., Any]) -> Callable[..., Any]:
    """The least or largest of numbers; NaN, without a warning, where there is nothing else."""

    def reduce(self: Any, input: Any, val_reduce_op: Any, idx_reduce_op: Any = None) -> Any:  # noqa: A002
        return original(self, input, _QUIET.get(val_reduce_op, val_reduce_op), idx_reduce_op)

    return reduce


def _of_two(operation: np.ufunc) -> Callable[..., Any]:
    """The greater or lesser of two numbers as GPUs give it where a kernel asks for no NaN: of NaN and a number, the number."""

    def create(self: Any, lhs: Any, rhs: Any) -> Any:
        return self.binary_op(lhs, rhs, operation)

    return create


def _clamp(original: Callable[..., Any]) -> Callable[..., Any]:
    """The same of a clamp: of NaN, the lower bound."""

    def create(self: Any, arg: Any, lo: Any, hi: Any, propagate_nans: Any) -> Any:
        if propagate_nans is not tl.PropagateNan.NONE:
            return original(self, arg, lo, hi, propagate_nans)
        return self.binary_op(self.binary_op(arg, lo, np.fmax), hi, np.fmin)

    return create


def _require_known_internals() -> None:
    builder = getattr(interpreter, "InterpreterBuilder", None)
    reductions = getattr(interpreter, "ReduceOps", None)
    places = [(interpreter, "_convert_float"), (builder, "cast_impl"), (reductions, "min_max")]
    places += [(builder, name) for name in ("create_maxnumf", "create_minnumf", "create_clampf")]
    for owner, name in places:
        function = getattr(owner, name, None)
        found = list(inspect.signature(function).parameters) if callable(function) else None
        if found != _PARAMETERS[name]:
            raise RuntimeError(
                f"triton.runtime.interpreter has no {name}({', '.join(_PARAMETERS[name])}) but "
                f"{found}: it cannot be corrected"
            )


def _require_rounding() -> None:
    """Converts numbers whose neighbours are known through the interpreter's own entry points."""
    builder = interpreter.interpreter_builder
    source = interpreter.TensorHandle(
        np.array([1.01171875, 3.4e38, np.nan], dtype=np.float32), tl.float32
    )
    bits = builder.create_fp_trunc(source, tl.bfloat16).data.tolist()[:2]
    octets = builder.create_fp_to_fp(
        source, tl.float8e4nv, interpreter._ir.ROUNDING_MODE.RTNE
    ).data.tolist()
    if bits != [0x3F82, 0x7F80] or octets[:2] != [0x38, 0x7E] or octets[2] & 0x7F != 0x7F:
        raise RuntimeError(
            f"the interpreter still does not round to nearest even: {bits}, {octets}"
        )
