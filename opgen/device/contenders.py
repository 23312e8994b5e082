"""The ways to compute an op that are measured against each other, and the check that ours is right."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - the name that a spec's reference knows it by
from torch import Tensor

from opgen.device.closeness import disagreement
from opgen.device.inputs import Case, summed_terms, torch_dtype
from opgen.ir.nodes import Op, Result, TensorParam

Function = Callable[..., Any]
Arguments = Mapping[str, Any]
Tensors = tuple[Tensor, ...]

#: The integer type of each size in bytes, for writing bits.
_BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def written(op: Op) -> tuple[TensorParam, ...]:
    """The parameters that are updated in place."""
    return tuple(param for param in op.tensors if param.inout)


def returned_by_reference(op: Op) -> tuple[TensorParam | Result, ...]:
    """What references give, in order: the results, then the new values of what is updated in place."""
    return (*op.results, *written(op))


def spec_reference(op: Op) -> Function | None:
    """The spec's `reference` as a function of the parameters, where it gives all that the op gives."""
    if op.reference is None or (op.results and written(op)):
        return None
    names = ", ".join(param.name for param in op.params)
    text = f"def reference({names}):\n    return (\n{op.reference}\n)"
    scope: dict[str, Any] = {"torch": torch, "F": F, "math": math}
    exec(compile(text, f"<reference of {op.name}>", "exec"), scope)  # noqa: S102 - Python that the spec's author wrote
    found: Function = scope["reference"]
    return found


def eager(case: Case, module: Any) -> Function:
    """The op in eager PyTorch: the spec's reference, or else the generated one, in the op's own types.

    It takes the arguments by position, gives the results in their declared types, and updates what is `inout`.
    """
    function = spec_reference(case.op) or module.reference
    op = case.op
    dtypes = [torch_dtype(case.element(one.element)) for one in returned_by_reference(op)]
    places = [
        place for place, param in enumerate(op.params) if isinstance(param, TensorParam) and param.inout
    ]
    count = len(op.results)

    def finished(*arguments: Any) -> Tensors:
        values = _as_tuple(function(*arguments))
        values = tuple(value.to(dtype) for value, dtype in zip(values, dtypes, strict=True))
        for place, value in zip(places, values[count:], strict=True):
            arguments[place].copy_(value)
        return values[:count]

    return finished


def compiled(function: Function) -> Function:
    """The function under `torch.compile` in its default mode, compiled afresh."""
    torch.compiler.reset()
    found: Function = torch.compile(function)
    return found


def checked_against(op: Op) -> str:
    """What results are compared with, in words."""
    return "the spec's reference in f64" if spec_reference(op) else "the generated reference in f32"


def fault(case: Case, module: Any, arguments: Arguments) -> str | None:
    """What is wrong with the op's results for these arguments, or None. Results are written over NaN."""
    expected = _expected(case, module, arguments)
    op = case.op
    own = {name: value.clone() if isinstance(value, Tensor) else value for name, value in arguments.items()}
    function: Function = getattr(module, op.name)
    results = _as_tuple(function(*own.values()))
    if op.results:
        results = tuple(poisoned(result) for result in results)
        own |= {param.name: arguments[param.name].clone() for param in written(op)}
        function(*own.values(), out=results[0] if len(results) == 1 else results)
    found = (*results, *(own[param.name] for param in written(op))) if op.results else results
    names = [one.name for one in returned_by_reference(op)]
    terms = summed_terms(case)
    for name, result, wanted in zip(names, found, expected, strict=True):
        wrong = disagreement(result, wanted, terms=terms)
        if wrong is not None:
            return f"{name}: {wrong}"
    return None


def _expected(case: Case, module: Any, arguments: Arguments) -> Tensors:
    """The results, then the new values of what is `inout`, from more exact arithmetic."""
    function = spec_reference(case.op)
    if function is not None:
        wide = [
            value.to(torch.float64) if isinstance(value, Tensor) and value.is_floating_point() else value
            for value in arguments.values()
        ]
        return _as_tuple(function(*wide))
    names = {param.name for param in case.op.tensors if _takes_f32(case.op, param)}
    values = [value.to(torch.float32) if name in names else value for name, value in arguments.items()]
    return _as_tuple(module.reference(*values))


def _takes_f32(op: Op, param: TensorParam) -> bool:
    """Whether a tensor's element type is a variable that may be f32, and nothing wider."""
    types = [variable.types for variable in op.variables if variable.name == param.element.variable]
    return any(
        {"f32"} <= {dtype.name for dtype in one} and all(dtype.name != "f64" for dtype in one)
        for one in types
    )


def poisoned(like: Tensor) -> Tensor:
    """Memory of the same layout with every bit set: NaN in every floating-point type."""
    out = torch.empty_like(like)
    out.view(_BITS[out.element_size()]).fill_(255 if out.element_size() == 1 else -1)
    return out


def _as_tuple(returned: Any) -> Tensors:
    return tuple(returned) if isinstance(returned, (tuple, list)) else (returned,)
