"""What generated modules share: how a call is checked, planned, launched, and seen by PyTorch.

The device functions that kernels call are re-exported here, so that a generated module imports this file alone.
"""

from __future__ import annotations

import contextlib
import functools
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import triton

from . import _eager as eager
from ._binding import (
    DTYPES,
    Bound,
    Operator,
    Requirement,
    Scalar,
    Tensor,
    bind,
    bind_scalar,
    check_outputs,
)
from ._elementwise import Access, Config, Launch, Walk, check_written, plan, result_strides
from ._math import (
    cos,
    erf,
    erfc,
    exp,
    exp2,
    expm1,
    log,
    log1p,
    log2,
    pow,
    rsqrt,
    sigmoid,
    sin,
    sqrt,
    tanh,
)
from ._math_exact import (
    ceil,
    clamp,
    decode_f8e4m3,
    decode_f8e5m2,
    div,
    encode_f8e4m3,
    encode_f8e5m2,
    floor,
    floor_div,
    floor_mod,
    isfinite,
    isinf,
    isnan,
    maximum,
    minimum,
    neg,
    round_even,
    round_to,
    sign,
    to_int,
    trunc,
    uniform,
)
from ._tiles import coordinates, inside, mask_of, nibble, offsets, scalar, scalar64, step, tile

#: Whether kernels run in Triton's interpreter, on CPU tensors.
INTERPRETED: bool = triton.knobs.runtime.interpret

_REMEMBERED_CALLS = 4096
_MISSING = object()
_CPU = torch.device("cpu")
#: The namespace of the registered operators.
PACKAGE = (__package__ or "opgen").replace(".", "_")


Arguments = Mapping[str, Any]
Tensors = Mapping[str, "torch.Tensor | None"]


@dataclass(frozen=True)
class Kernel:
    """One launch: its walk, its launcher, and its configs by target and bytes of the widest element."""

    walk: Walk
    launch: Callable[..., None]
    configs: Mapping[str, Mapping[int, Config]]


@dataclass(frozen=True)
class Variant:
    """The kernels for some choices of the op's type variables; no choices means all."""

    kernels: tuple[Kernel, ...]
    choices: tuple[tuple[torch.dtype, ...], ...] = ()


@dataclass(frozen=True)
class Entry:
    """An op as its module declares it.

    `parameters` are the names in the order of the public function. `prepared` remembers checked calls by their
    signature, and `ready` those that can be launched without another look at their arguments.
    """

    operator: Operator
    parameters: tuple[str, ...]
    variants: tuple[Variant, ...]
    reference: Callable[..., Any]
    prepared: dict[Any, Any] = field(default_factory=dict, repr=False, compare=False)
    ready: dict[Any, Any] = field(default_factory=dict, repr=False, compare=False)

    def call(self, *values: Any, out: Any = None) -> Any:
        """Calls the op with its parameters in order: at once where the same signature was called before."""
        signature = None if out is not None else _signature(values)
        prepared = self.ready.get(signature)
        if prepared is not None:
            return _single(_launch(prepared, values, ()))
        result = run(self, dict(zip(self.parameters, values)), out)
        if signature is not None:
            self._remember(signature, values)
        return result

    def _remember(self, signature: tuple[Any, ...], values: tuple[Any, ...]) -> None:
        """Keeps the plan of a call that was launched as it came: fresh results, and no scalar to convert."""
        op = self.operator
        arguments = dict(zip(self.parameters, values))
        tensors = {spec.name: arguments[spec.name] for spec in op.inputs}
        consts = {spec.name: arguments[spec.name] for spec in op.scalars if spec.const}
        device = next(tensor.device for tensor in tensors.values() if tensor is not None)
        if not runs_kernels(device) or any(spec.written for spec in op.inputs):
            return
        for spec in op.scalars:
            if bind_scalar(op, spec, arguments[spec.name], device) is not arguments[spec.name]:
                return
        prepared = _remembered(self, ("launch", None), tensors, consts, lambda: None)
        if prepared is not None:
            if len(self.ready) >= _REMEMBERED_CALLS:
                self.ready.clear()
            self.ready[signature] = prepared

    def run(self, arguments: Arguments, out: Any = None, config: Config | None = None) -> Any:
        """Calls the op; see the function `run`."""
        return run(self, arguments, out, config)

    def kernels(self, types: Mapping[str, torch.dtype]) -> tuple[Kernel, ...]:
        """The kernels that serve a choice of the type variables."""
        choice = tuple(types[name] for name in self.operator.variables)
        return next(one.kernels for one in self.variants if not one.choices or choice in one.choices)


def _as_it_is(kernel: Any) -> Any:
    return kernel


def run(entry: Entry, arguments: Arguments, out: Any = None, config: Config | None = None) -> Any:
    """Calls an op: checks the arguments, then launches its kernels, or takes the reference on CPU tensors.

    Under `torch.compile`, `torch.func`, autograd and for tensor subclasses the registered operator is called
    instead. `config` forces one config on every kernel.
    """
    op = entry.operator
    tensors = {spec.name: arguments[spec.name] for spec in op.inputs}
    consts = {spec.name: bind_scalar(op, spec, arguments[spec.name], _CPU) for spec in op.scalars if spec.const}
    bound = _remembered(entry, ("bound",), tensors, consts, lambda: bind(op, tuple(tensors.values()), consts))
    scalars = {
        spec.name: bind_scalar(op, spec, arguments[spec.name], bound.device) for spec in op.scalars if not spec.const
    }
    outputs = _outputs(op, bound, out)
    written = [tensors[spec.name] for spec in op.inputs if spec.written] + list(outputs or ())
    if written:
        tensors = _check_writes(op, tensors, scalars, outputs)
    if config is None and _needs_operator((*tensors.values(), *scalars.values())):
        results = _call_operator(entry, {**tensors, **scalars, **consts})
    elif not runs_kernels(bound.device):
        results = _call_reference(entry, {**tensors, **scalars, **consts})
    else:
        results = compute(entry, tensors, scalars, consts, outputs=outputs, config=config)
        outputs = None
        for tensor in written:
            torch.autograd.graph.increment_version(tensor)
    if outputs is not None:
        for output, result in zip(outputs, results):
            output.copy_(result)
        results = outputs
    return _returned(op, tensors, results)


def compute(
    entry: Entry,
    tensors: Tensors,
    scalars: Arguments,
    consts: Arguments,
    *,
    outputs: Sequence[torch.Tensor] | None = None,
    config: Config | None = None,
    via: Callable[[Any], Any] = _as_it_is,
) -> tuple[torch.Tensor, ...]:
    """Allocates the results of a checked call (unless `outputs` are given) and launches its kernels.

    `via` wraps each kernel, for those who want to see the launches: the registered operator's are PyTorch's to see.
    """
    op = entry.operator
    written = dict(zip((spec.name for spec in op.results), outputs or ()))
    key = ("launch", config, *((tensor.shape, tensor.stride()) for tensor in written.values()))
    prepared = _remembered(
        entry, key, tensors, consts, lambda: _prepare(entry, tensors, consts, written, config)
    )
    if prepared is None:
        return _compute_on_copies(entry, tensors, scalars, consts, written, config, via)
    values = {**tensors, **scalars, **consts}
    return _launch(prepared, [values[name] for name in entry.parameters], tuple(written.values()), via)


def _launch(
    prepared: _Prepared,
    values: Sequence[Any],
    outputs: tuple[torch.Tensor, ...],
    via: Callable[[Any], Any] = _as_it_is,
) -> tuple[torch.Tensor, ...]:
    """Launches a planned call; `values` are the op's parameters in order, and no `outputs` are given for new ones."""
    device = prepared.bound.device
    if not outputs:
        outputs = tuple(
            [torch.empty_strided(*layout, dtype=dtype, device=device) for *layout, dtype in prepared.results]
        )
    with _on(device):
        for kernel, launch in prepared.launches:
            kernel.launch(via, launch, prepared.bound.sizes, *values, *outputs)
    return outputs


def _signature(values: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """What the plan of a call depends on, or None for one that needs a closer look: traced, recorded, converted."""
    if (
        torch.compiler.is_compiling()
        or torch._C._len_torch_dispatch_stack()
        or torch._C._functorch.peek_interpreter_stack() is not None
    ):
        return None
    grad = torch.is_grad_enabled()
    key: list[Any] = []
    for value in values:
        kind = type(value)
        if kind is torch.Tensor or kind is torch.nn.Parameter:
            if grad and value.requires_grad:
                return None
            key += (value.dtype, value.shape, value.stride(), value.device)
        elif kind is float or value is None:
            key.append(kind)
        else:
            return None
    return tuple(key)


@dataclass(frozen=True)
class _Prepared:
    """A call signature, planned: what to allocate (shape, strides, type) and what to launch."""

    bound: Bound
    results: tuple[tuple[tuple[int, ...], tuple[int, ...], torch.dtype], ...]
    launches: tuple[tuple[Kernel, Launch], ...]


def _prepare(
    entry: Entry, tensors: Tensors, consts: Arguments, outputs: Tensors, config: Config | None
) -> _Prepared | None:
    """Plans a call; None where some kernel's space has too many dims to read the tensors in place."""
    op = entry.operator
    bound = bind(op, tuple(tensors.values()), consts)
    results = tuple(
        (bound.shape(spec), result_strides(op, bound, tuple(tensors.values()), spec), bound.dtype(spec))
        for spec in op.results
    )
    layouts = {
        spec.name: outputs.get(spec.name, _Layout(shape, strides))
        for spec, (shape, strides, _) in zip(op.results, results)
    }
    launches: list[tuple[Kernel, Launch]] = []
    for kernel in entry.kernels(bound.types):
        chosen = config or _choose(kernel, bound, tensors, results)
        try:
            launch = plan(kernel.walk, bound, {**tensors, **layouts}, chosen)
        except NotImplementedError:
            return None
        if launch is not None:
            launches.append((kernel, launch))
    return _Prepared(bound, results, tuple(launches))


class _Layout:
    """The shape and strides of a result that is not allocated yet, read as from a tensor."""

    def __init__(self, shape: tuple[int, ...], strides: tuple[int, ...]) -> None:
        self.shape = shape
        self._strides = strides

    def stride(self) -> tuple[int, ...]:
        return self._strides


def _choose(kernel: Kernel, bound: Bound, tensors: Tensors, results: Sequence[Any]) -> Config:
    """The config for the device, by the bytes of the widest element that moves."""
    target = target_of(bound.device)
    table = kernel.configs.get(target) or kernel.configs[_nearest(target, kernel.configs)]
    widths = [tensor.dtype.itemsize for tensor in tensors.values() if tensor is not None]
    width = max(widths + [dtype.itemsize for _, _, dtype in results])
    return table[min((known for known in table if known >= width), default=max(table))]


def _nearest(target: str, configs: Mapping[str, Any]) -> str:
    """The table's target for a device that it does not name: the newest of the same family not above it."""
    family = target[:3]
    same = sorted(name for name in configs if name[:3] == family)
    below = [name for name in same if (len(name), name) <= (len(target), target)]
    return below[-1] if below else same[0] if same else sorted(configs)[0]


@functools.cache
def target_of(device: torch.device) -> str:
    """The target name of a device, such as `sm_90` or `gfx942`."""
    if device.type != "cuda" or not torch.cuda.is_available():
        return "sm_80"
    if torch.version.hip is not None:
        return str(torch.cuda.get_device_properties(device).gcnArchName).split(":")[0]
    major, minor = torch.cuda.get_device_capability(device)
    return f"sm_{major}{minor}"


def _compute_on_copies(
    entry: Entry,
    tensors: Tensors,
    scalars: Arguments,
    consts: Arguments,
    outputs: Mapping[str, torch.Tensor],
    config: Config | None,
    via: Callable[[Any], Any],
) -> tuple[torch.Tensor, ...]:
    """The same over dense copies: for layouts of more than six dims that do not merge."""
    op = entry.operator
    copies = {name: None if tensor is None else _dense_copy(tensor) for name, tensor in tensors.items()}
    if all(
        copies[name] is tensor or tensor is None for name, tensor in tensors.items()
    ) and not outputs:
        raise NotImplementedError(
            f"{op.name}: the shapes {[tuple(tensor.shape) for tensor in tensors.values() if tensor is not None]} "
            "broadcast against each other in more than six dims; expand and copy one of them first"
        )
    results = compute(entry, copies, scalars, consts, config=config, via=via)
    for spec in op.inputs:
        tensor, copy = tensors[spec.name], copies[spec.name]
        if spec.written and tensor is not None and copy is not None and copy is not tensor:
            tensor.copy_(copy)
    for output, result in zip(outputs.values(), results):
        output.copy_(result)
    return tuple(outputs.values()) or results


def _dense_copy(tensor: torch.Tensor) -> torch.Tensor:
    return tensor if tensor.is_contiguous() else tensor.contiguous()


def _remembered(
    entry: Entry, kind: tuple[Any, ...], tensors: Tensors, consts: Arguments, make: Callable[[], Any]
) -> Any:
    """`make()`, remembered by the layout of the tensors; never while symbolic sizes may be around."""
    if torch.compiler.is_compiling() or torch._C._len_torch_dispatch_stack():
        return make()
    try:
        key = (
            *kind,
            *consts.values(),
            *(
                None if tensor is None else (tensor.dtype, tensor.shape, tensor.stride(), tensor.device)
                for tensor in tensors.values()
            ),
        )
    except (AttributeError, RuntimeError, TypeError):
        return make()  # something that is no strided tensor, which `make` refuses
    found = entry.prepared.get(key, _MISSING)
    if found is _MISSING:
        found = make()
        if len(entry.prepared) >= _REMEMBERED_CALLS:
            entry.prepared.clear()
        entry.prepared[key] = found
    return found


def _outputs(op: Operator, bound: Bound, out: Any) -> tuple[torch.Tensor, ...] | None:
    """`out=` as a tuple of checked tensors."""
    if out is None:
        return None
    outputs = (out,) if len(op.results) == 1 and not isinstance(out, tuple | list) else tuple(out)
    if len(outputs) != len(op.results):
        raise TypeError(f"{op.name}: `out` needs {len(op.results)} tensors, but has {len(outputs)}")
    check_outputs(op, bound, outputs)
    return outputs


def _check_writes(
    op: Operator, tensors: Tensors, scalars: Arguments, outputs: tuple[torch.Tensor, ...] | None
) -> dict[str, torch.Tensor | None]:
    """Checks what a call writes; inputs whose old values are read across elements are copied."""
    read = [*tensors.values(), *scalars.values()]
    if torch.is_grad_enabled() and any(isinstance(one, torch.Tensor) and one.requires_grad for one in read):
        way = "`out=`" if outputs else "an update in place"
        raise RuntimeError(f"{op.name}: {way} does not record gradients, but an input requires them")
    if torch.compiler.is_compiling() or torch._C._len_torch_dispatch_stack():
        return dict(tensors)
    written = [(spec.name, tensors[spec.name]) for spec in op.inputs if spec.written]
    written += [(f"out ({spec.name})", tensor) for spec, tensor in zip(op.results, outputs or ())]
    tensor_scalars = [(name, value) for name, value in scalars.items() if isinstance(value, torch.Tensor)]
    shared = check_written(op, written, [*tensors.items(), *tensor_scalars])
    names = {spec.name for spec in op.inputs if spec.written}
    return {
        name: tensor.clone() if tensor is not None and name in shared and name not in names else tensor
        for name, tensor in tensors.items()
    }


def _needs_operator(values: Sequence[Any]) -> bool:
    """Whether PyTorch must see the op: tracing, functional transforms, modes, subclasses, gradients."""
    if torch.compiler.is_compiling():
        tensors = [value for value in values if isinstance(value, torch.Tensor)]
        return any(tensor.device.type != "cpu" or tensor.requires_grad for tensor in tensors)
    if torch._C._len_torch_dispatch_stack() or torch._C._functorch.peek_interpreter_stack() is not None:
        return True
    grad = torch.is_grad_enabled()
    for value in values:
        if isinstance(value, torch.Tensor):
            if type(value) is not torch.Tensor and type(value) is not torch.nn.Parameter:
                return True
            if grad and value.requires_grad:
                return True
    return False


def runs_kernels(device: torch.device) -> bool:
    """Whether tensors of a device go to the kernels; others take the eager reference."""
    return device.type == "cuda" or (INTERPRETED and device.type == "cpu")


def _call_operator(entry: Entry, values: Arguments) -> tuple[torch.Tensor, ...]:
    registered = getattr(getattr(torch.ops, PACKAGE), entry.operator.name).default
    arguments: list[Any] = []
    scalars = {spec.name: spec for spec in entry.operator.scalars if not spec.const}
    for name in entry.parameters:
        value = values[name]
        if name not in scalars:
            arguments.append(value)
        elif isinstance(value, torch.Tensor):
            arguments += [scalars[name].placeholder, value]
        else:
            arguments += [value, None]
    results = registered(*arguments)
    return results if isinstance(results, tuple) else () if results is None else (results,)


def _call_reference(entry: Entry, values: Arguments) -> tuple[torch.Tensor, ...]:
    """The reference's results; what it computes for tensors updated in place is copied into them."""
    op = entry.operator
    results = entry.reference(*(values[name] for name in entry.parameters))
    results = results if isinstance(results, tuple) else (results,)
    updated = [spec for spec in op.inputs if spec.written]
    for spec, new in zip(updated, results[len(op.results) :] if op.results else results):
        values[spec.name].copy_(new)
    return results[: len(op.results)]


def operate(entry: Entry, *arguments: Any) -> Any:
    """The body of the registered operator: a Python number and an optional tensor stand for each scalar."""
    op = entry.operator
    scalars = {spec.name for spec in op.scalars if not spec.const}
    values: dict[str, Any] = {}
    rest = iter(arguments)
    for name in entry.parameters:
        value = next(rest)
        if name in scalars:
            tensor = next(rest)
            value = value if tensor is None else tensor
        values[name] = value
    tensors = {spec.name: values[spec.name] for spec in op.inputs}
    consts = {spec.name: values[spec.name] for spec in op.scalars if spec.const}
    device = bind(op, tuple(tensors.values()), consts).device
    recorded = torch._C._len_torch_dispatch_stack() > 0 or torch.compiler.is_compiling()
    if device.type == "cuda" or (runs_kernels(device) and not recorded):
        numbers = {name: values[name] for name in scalars}
        via = _as_it_is if INTERPRETED else torch.library.wrap_triton
        results = compute(entry, tensors, numbers, consts, via=via)
    else:
        results = _call_reference(entry, values)
    return _single(results)


def register(entry: Entry) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Registers a function as the operator `PACKAGE::name`; a backward through it raises and names the op."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        op = entry.operator
        mutated = tuple(spec.name for spec in op.inputs if spec.written)
        registered = torch.library.triton_op(f"{PACKAGE}::{op.name}", function, mutates_args=mutated)
        if not mutated:
            registered.register_autograd(functools.partial(_backward, op.name), setup_context=_save)
        return function

    return decorate


def _save(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    ctx.save_for_backward(*(value if isinstance(value, torch.Tensor) else None for value in inputs))


def _backward(op: str, ctx: Any, *grads: Any) -> Any:
    return tuple(
        _no_gradient(value, op) if needed else None
        for value, needed in zip(ctx.saved_tensors, ctx.needs_input_grad)
    )


@torch.library.custom_op(f"{PACKAGE}::no_gradient", mutates_args=())
def _no_gradient(like: torch.Tensor, op: str) -> torch.Tensor:
    raise RuntimeError(f"{op}: this op has no backward; call it under torch.no_grad() or detach its inputs")


@_no_gradient.register_fake
def _(like: torch.Tensor, op: str) -> torch.Tensor:
    return torch.empty_like(like)


def _returned(op: Operator, tensors: Tensors, results: tuple[torch.Tensor, ...]) -> Any:
    """What the public function returns: the results, or the tensors updated in place where there are none."""
    if op.results:
        return _single(results)
    return _single(tuple(tensors[spec.name] for spec in op.inputs if spec.written))


def _single(results: tuple[Any, ...]) -> Any:
    if not results:
        return None
    return results[0] if len(results) == 1 else results


def halves(value: int | float | torch.Tensor) -> tuple[int | torch.Tensor, int]:
    """The signed 32-bit halves of an i64's or f64's bits: arguments whose type no value changes. A tensor stays."""
    if isinstance(value, torch.Tensor):
        return value, 0
    bits = int.from_bytes(struct.pack("<d", value), "little", signed=True) if isinstance(value, float) else value
    low = bits & 0xFFFFFFFF
    return bits >> 32, low - (low >> 31 << 32)


def f8(tensor: torch.Tensor | None) -> torch.Tensor | None:
    """A tensor of f8 as kernels take it: as it is for e4m3 on GPUs that have it (sm_89 and later), else its bytes.

    The bytes are decoded and encoded in integer arithmetic; Triton's own conversions are refused on older GPUs,
    saturate for e5m2, and truncate in the interpreter.
    """
    if tensor is None or (tensor.dtype == torch.float8_e4m3fn and _has_e4m3(tensor.device)):
        return tensor
    return tensor.view(torch.uint8)


@functools.cache
def _has_e4m3(device: torch.device) -> bool:
    if device.type != "cuda" or torch.version.hip is not None or not torch.cuda.is_available():
        return False
    return torch.cuda.get_device_capability(device) >= (8, 9)


def unit(count: int) -> int:
    """The number of elements that a size or a stride is passed to a kernel in: 16 where that divides it."""
    return 1 if count % 16 else 16


def in_units(count: int) -> int:
    """A size or a stride in its own `unit`."""
    return count // unit(count)


def stride_unit(stride: int) -> int:
    """The `unit` of a stride, or 0 for a stride of 1, which the compiler is to know."""
    return 0 if stride == 1 else unit(stride)


def _on(device: torch.device) -> contextlib.AbstractContextManager[Any]:
    """Makes a GPU current for a launch, if it is not."""
    if device.type != "cuda" or device.index == torch.cuda.current_device():
        return contextlib.nullcontext()
    return torch.cuda.device(device)
