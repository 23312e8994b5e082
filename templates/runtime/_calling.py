"""How a public function calls its op: at once, or with a look at its arguments, as a launch, an operator or eagerly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch.autograd import forward_ad

from ._binding import Bound, Operator, bind_scalar, check_outputs
from ._elementwise import Config, check_written
from ._launching import (
    REMEMBERED_CALLS,
    Arguments,
    Declared,
    Prepared,
    Tensors,
    allocated,
    bound_of,
    call_reference,
    compute,
    launch,
    launch_kernels,
    on,
    recalled,
    runs_kernels,
)
from ._layout import is_traced, last_offset
from ._registration import call_operator, single
from ._repeating import Kept, keep, may_repeat

_CPU = torch.device("cpu")


class Entry(Declared):
    """An op that can be called."""

    def call(self, *values: Any, out: Any = None) -> Any:
        """Calls the op with its parameters in order: at once where the same signature was called before."""
        outputs = () if out is None else out if type(out) is tuple else (out,)
        signature = _signature((*values, *outputs))
        ready = None if signature is None else self.ready.get(signature)  # traced: its size would be a guard
        if ready is not None and (out is None or (outputs and ready.is_apart(values, outputs))):
            results = ready.launch(values, outputs)
            for tensor in outputs:
                torch.autograd.graph.increment_version(tensor)
            return single(results)
        result = run(self, dict(zip(self.parameters, values)), out)
        if signature is not None:
            _remember(self, signature, values, outputs)
        return result

    def run(self, arguments: Arguments, out: Any = None, config: Config | None = None) -> Any:
        """Calls the op with its arguments by name; see the function `run`."""
        return run(self, arguments, out, config)


def run(entry: Declared, arguments: Arguments, out: Any = None, config: Config | None = None) -> Any:
    """Calls an op: checks the arguments, then launches its kernels, or takes the reference on CPU tensors.

    Under `torch.compile`, `torch.func`, autograd and for tensor subclasses the registered operator is called
    instead. `config` forces one config on every kernel, a tuple one on each.
    """
    op = entry.operator
    tensors = {spec.name: arguments[spec.name] for spec in op.inputs}
    _refuse_distributed(op, tensors)
    _refuse_tangents(op, tensors)
    consts = {spec.name: bind_scalar(op, spec, arguments[spec.name], _CPU) for spec in op.scalars if spec.const}
    bound = bound_of(entry, tensors, consts)
    scalars = {
        spec.name: bind_scalar(op, spec, arguments[spec.name], bound.device) for spec in op.scalars if not spec.const
    }
    tensors = {name: _resolved(op, name, tensor) for name, tensor in tensors.items()}
    outputs = _outputs(op, bound, out)
    written = [tensors[spec.name] for spec in op.inputs if spec.written] + list(outputs or ())
    if written:
        tensors = _check_writes(op, tensors, scalars, outputs)
    if config is None and _needs_operator((*tensors.values(), *scalars.values())):
        results = call_operator(entry, {**tensors, **scalars, **consts})
    elif torch.compiler.is_compiling() or not runs_kernels(bound.device):
        results = call_reference(entry, bound, {**tensors, **scalars, **consts})
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


def _refuse_distributed(op: Operator, tensors: Tensors) -> None:
    """Raises `TypeError` for tensors that lie on several devices: what of them is here need not be whole rows."""
    for name, tensor in tensors.items():
        placements = getattr(tensor, "placements", None) if type(tensor) is not torch.Tensor else None
        if placements is not None and not torch.compiler.is_compiling():
            placed = ", ".join(map(str, placements))
            raise TypeError(
                f"{op.name}: `{name}` is a distributed tensor placed as {placed}, and plain tensors are accepted; "
                f"redistribute it and pass `{name}.to_local()`"
            )


def _refuse_tangents(op: Operator, tensors: Tensors) -> None:
    """Raises `RuntimeError` for tensors with a forward-mode tangent, which would be lost without a word."""
    if torch.compiler.is_compiling() or forward_ad._current_level < 0:
        return
    for name, tensor in tensors.items():
        if isinstance(tensor, torch.Tensor) and forward_ad.unpack_dual(tensor).tangent is not None:
            raise RuntimeError(f"{op.name}: `{name}` has a forward-mode tangent, and ops have no forward derivative")


def _resolved(op: Operator, name: str, tensor: torch.Tensor | None) -> torch.Tensor | None:
    """A tensor whose memory holds its values: a view that negates lazily (of a conjugate's imaginary part) is copied.

    Raises `ValueError` for such a view that is updated in place.
    """
    if tensor is None or torch.compiler.is_compiling() or not tensor.is_neg():
        return tensor  # traced calls go through PyTorch's dispatcher, which resolves such views itself
    if any(spec.written and spec.name == name for spec in op.inputs):
        raise ValueError(f"{op.name}: `{name}` is updated in place, but is a lazily negated view; copy it first")
    return tensor.resolve_neg()


def _signature(values: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """What the plan of a call depends on, or None for one that needs a closer look: traced, recorded, converted."""
    if is_traced() or torch._C._functorch.peek_interpreter_stack() is not None or forward_ad._current_level >= 0:
        return None
    grad = torch.is_grad_enabled()
    key: list[Any] = []
    for value in values:
        kind = type(value)
        if kind is torch.Tensor or kind is torch.nn.Parameter:
            if (grad and value.requires_grad) or value.is_neg():
                return None
            key += (value.dtype, value.shape, value.stride(), value.device)
        elif kind is float or value is None:
            key.append(kind)
        else:
            return None
    return tuple(key)


@dataclass
class _Ready:
    """A call signature that can be launched at once, and the bytes that its tensors span, by argument.

    Its launches are `kept` from the second call on, as long as nothing says that it `keeps` none.
    """

    prepared: Prepared
    spans: tuple[int, ...]
    output_spans: tuple[int, ...]
    keeps: bool
    kept: Kept | None = None

    def launch(self, values: tuple[Any, ...], outputs: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        """The results of a call, in `outputs` where they are given."""
        if not self.keeps or not may_repeat((*values, *outputs)):
            return launch(self.prepared, values, outputs)
        outputs, temporaries = allocated(self.prepared, outputs)
        given, device = (*values, *outputs, *temporaries), self.prepared.bound.device
        with on(device):
            if self.kept is None:
                self.kept = keep(partial(launch_kernels, self.prepared), given)
                self.keeps = self.kept is not None
            else:
                self.kept.repeat(given, device)
        return outputs

    def is_apart(self, values: Sequence[Any], outputs: Sequence[torch.Tensor]) -> bool:
        """Whether the outputs share no memory with the inputs, nor with each other, as their addresses tell."""
        taken = [(value.data_ptr(), span) for value, span in zip(values, self.spans) if span]
        for tensor, span in zip(outputs, self.output_spans):
            start = tensor.data_ptr()
            if any(start < other + length and other < start + span for other, length in taken):
                return False
            taken.append((start, span))
        return True


def _span(value: Any) -> int:
    """Bytes from the first to behind the last element of a tensor; 0 for all else."""
    if not isinstance(value, torch.Tensor) or value.numel() == 0:
        return 0
    return (last_offset(value.shape, value.stride()) + 1) * value.element_size()


def _remember(
    entry: Declared, signature: tuple[Any, ...], values: tuple[Any, ...], outputs: tuple[torch.Tensor, ...]
) -> None:
    """Keeps the plan of a call that was launched as it came: no scalar to convert, nothing updated in place."""
    op = entry.operator
    arguments = dict(zip(entry.parameters, values))
    tensors = {spec.name: arguments[spec.name] for spec in op.inputs}
    consts = {spec.name: arguments[spec.name] for spec in op.scalars if spec.const}
    device = next(tensor.device for tensor in tensors.values() if tensor is not None)
    if not runs_kernels(device) or any(spec.written for spec in op.inputs) or consts:
        return  # a signature says nothing of the values of constants
    for spec in op.scalars:
        if bind_scalar(op, spec, arguments[spec.name], device) is not arguments[spec.name]:
            return
    layouts = ((tensor.shape, tensor.stride()) for tensor in outputs)
    prepared = recalled(entry, ("launch", None, *layouts), tensors, consts)
    if prepared is not None:
        if len(entry.ready) >= REMEMBERED_CALLS:
            entry.ready.clear()
        spans = tuple(map(_span, values)), tuple(map(_span, outputs))
        entry.ready[signature] = _Ready(prepared, *spans, keeps=prepared.is_repeatable)


def _outputs(op: Operator, bound: Bound, out: Any) -> tuple[torch.Tensor, ...] | None:
    """`out=` as a tuple of checked tensors."""
    if out is None:
        return None
    outputs = tuple(out) if isinstance(out, tuple | list) else (out,)
    if len(outputs) != len(op.results):
        needed = "a tensor" if len(op.results) == 1 else f"a tuple of {len(op.results)} tensors"
        raise TypeError(f"{op.name}: `out` must be {needed}, but has {len(outputs)}")
    check_outputs(op, bound, outputs)
    return outputs


def _check_writes(
    op: Operator, tensors: Tensors, scalars: Arguments, outputs: tuple[torch.Tensor, ...] | None
) -> dict[str, torch.Tensor | None]:
    """Checks what a call writes; an input that is written as well, and read across elements, is copied."""
    read = [*tensors.values(), *scalars.values()]
    if torch.is_grad_enabled() and any(isinstance(one, torch.Tensor) and one.requires_grad for one in read):
        way = "`out=`" if outputs else "an update in place"
        raise RuntimeError(f"{op.name}: {way} does not record gradients, but an input requires them")
    if is_traced():
        return dict(tensors)
    written = [(spec.name, tensors[spec.name]) for spec in op.inputs if spec.written]
    written += [(f"out ({spec.name})", tensor) for spec, tensor in zip(op.results, outputs or ())]
    tensor_scalars = [(name, value) for name, value in scalars.items() if isinstance(value, torch.Tensor)]
    shared = check_written(op, written, [*tensors.items(), *tensor_scalars])
    read_across = {spec.name for spec in op.inputs if spec.across and not spec.written}
    return {
        name: tensor.clone() if tensor is not None and name in shared & read_across else tensor
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


def _returned(op: Operator, tensors: Tensors, results: tuple[torch.Tensor, ...]) -> Any:
    """What the public function returns: the results, or the tensors updated in place where there are none."""
    if op.results:
        return single(results)
    return single(tuple(tensors[spec.name] for spec in op.inputs if spec.written))
