"""The operators that PyTorch sees: under `torch.compile`, autograd and functional transforms."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import torch

from ._binding import bind
from ._launching import INTERPRETED, Arguments, Declared, as_it_is, call_reference, compute, runs_kernels

#: The namespace of the registered operators.
PACKAGE = (__package__ or "opgen").replace(".", "_")


def call_operator(entry: Declared, values: Arguments) -> tuple[torch.Tensor, ...]:
    """The results of the registered operator for checked arguments by name."""
    registered = getattr(getattr(torch.ops, PACKAGE), entry.operator.registered).default
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


def operate(entry: Declared, *arguments: Any) -> Any:
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
    bound = bind(op, tuple(tensors.values()), consts)
    device = bound.device
    recorded = torch._C._len_torch_dispatch_stack() > 0 or torch.compiler.is_compiling()
    if device.type == "cuda" or (runs_kernels(device) and not recorded):
        numbers = {name: values[name] for name in scalars}
        via = as_it_is if INTERPRETED else torch.library.wrap_triton
        results = compute(entry, tensors, numbers, consts, via=via)
    else:
        results = call_reference(entry, bound, values)
    return single(results)


def register(entry: Declared) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Registers a function as the operator `PACKAGE::name`; a backward through it raises and names the op."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        op = entry.operator
        mutated = _mutated(entry, function)
        name = f"{PACKAGE}::{op.registered}"
        registered = torch.library.triton_op(name, function, mutates_args=mutated)
        if not mutated:
            registered.register_autograd(functools.partial(_backward, op.name), setup_context=_save)
        return function

    return decorate


def _mutated(entry: Declared, function: Callable[..., Any]) -> tuple[str, ...]:
    """The parameters of a registered function that it updates in place; a scalar has two."""
    op = entry.operator
    scalars = {spec.name for spec in op.scalars if not spec.const}
    written = {spec.name for spec in op.inputs if spec.written}
    doubled = [name for name in entry.parameters for _ in range(2 if name in scalars else 1)]
    names = inspect.signature(function).parameters
    return tuple(own for own, name in zip(names, doubled, strict=True) if name in written)


def _save(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    ctx.save_for_backward(*(value if isinstance(value, torch.Tensor) else None for value in inputs))


def _backward(op: str, ctx: Any, *grads: Any) -> Any:
    return tuple(
        _no_gradient(value, op) if needed else None
        for value, needed in zip(ctx.saved_tensors, ctx.needs_input_grad)
    )


@torch.library.custom_op(f"{PACKAGE}_runtime::no_gradient", mutates_args=())
def _no_gradient(like: torch.Tensor, op: str) -> torch.Tensor:
    raise RuntimeError(f"{op}: this op has no backward; call it under torch.no_grad() or detach its inputs")


@_no_gradient.register_fake
def _(like: torch.Tensor, op: str) -> torch.Tensor:
    return torch.empty_like(like)


def single(results: tuple[Any, ...]) -> Any:
    if not results:
        return None
    return results[0] if len(results) == 1 else results
