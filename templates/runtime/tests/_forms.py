"""The forms of a call: fresh results and their strides, `out=`, in place, left-out arguments, nothing to compute."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from ._call import (
    DEVICE,
    Fault,
    check_call,
    compare,
    evaluate,
    needs_kernels,
    run_watched,
    target_shapes,
)
from ._cases import Arguments, Call, Case, TensorSpec, make_arguments
from ._drawing import Maker, everywhere
from ._memory import (
    Guarded,
    Layout,
    channels_last,
    contiguous,
    expanded,
    gapped,
    guarded_update,
    swapped,
    transposed,
)

_SHAPES = ((70,), (5, 33), (2, 3, 4, 5))


def check_results(case: Case) -> None:
    """What a call returns where no `out=` is given, and where it is; where an input is `out=`; where nothing is."""
    needs_kernels()
    maker = Maker(case)
    layouts: tuple[Layout, ...] = (contiguous, transposed, swapped, channels_last, gapped, expanded)
    for number, layout in enumerate(layouts):
        for call in maker.call(_SHAPES[number % 3], everywhere(case, layout), config=None):
            _check_fresh(case, call)
        for call in maker.call(_SHAPES[(number + 1) % 3], {case.tensors[0].name: layout}, config=None):
            _check_fresh(case, call)
    for shape in ((0,), (3, 0), (0, 5), (2, 0, 3)):
        for call in maker.call(shape, {}, config=None):
            check_call(case, call)
            _check_fresh(case, call)
    for call in maker.call((5, 33), {}):
        _check_in_place(case, call)
        _check_defaults(case, call)


def _check_fresh(case: Case, call: Call) -> None:
    """Values, types, shapes and strides of results that the op allocates, and that it returns what it updates."""
    arguments = make_arguments(case, call, DEVICE)
    expected = evaluate(case, arguments)
    returned = run_watched(case, call, arguments, None)
    results = returned if isinstance(returned, tuple) else (returned,)
    shapes = target_shapes(case, call)
    for spec, result in zip(case.targets if not case.results else case.results, results):
        if tuple(result.shape) != shapes[spec.name]:
            _fail(case, call, f"{spec.name} has shape {list(result.shape)}, not {list(shapes[spec.name])}")
        compare(case, call, spec, result, expected[spec.name], None)
        if spec.updated and result is not arguments.given[spec.name]:
            _fail(case, call, f"the returned {spec.name} is not the tensor that was updated")
        wanted = None if spec.updated else pytorch_strides(case, call, spec, arguments.given)
        if wanted is not None and result.stride() != wanted:
            _fail(case, call, f"{spec.name} has strides {result.stride()}, PyTorch gives {wanted}")


def pytorch_strides(
    case: Case, call: Call, result: TensorSpec, given: Mapping[str, Any]
) -> tuple[int, ...] | None:
    """The strides that PyTorch's elementwise op over the tensors, in this order, gives a result.

    None where PyTorch has no such op: for more than three tensors, and for tensors of other dims than the result's.
    """
    operands = []
    shape = target_shapes(case, call)[result.name]
    for spec in case.tensors:
        tensor = given[spec.name]
        if tensor is None:
            continue
        if spec.packed or not set(spec.named) <= set(result.named):
            return None
        operands.append(_over(spec, tensor, result))
    if not 1 <= len(operands) <= 3:
        return None
    like = [torch.empty_strided(o.shape, o.stride(), device=DEVICE) for o in operands]
    like = [one.expand(torch.broadcast_shapes(one.shape, (1,) * len(shape))) for one in like]
    if len(like) == 1:
        made = like[0].abs()
    else:
        made = like[0] + like[1] if len(like) == 2 else torch.addcmul(*like)
    return made.stride() if tuple(made.shape) == shape else None


def _over(spec: TensorSpec, tensor: Tensor, result: TensorSpec) -> Tensor:
    """A tensor as a view over the dims of a result, with size 1 for those that it lacks."""
    leading = tensor.dim() - len(spec.named)
    order = [leading + spec.named.index(dim) for dim in result.named if dim in spec.named]
    view = tensor.permute(*range(leading), *order)
    for place, dim in enumerate(result.named):
        if dim not in spec.named:
            view = view.unsqueeze(leading + place)
    return view


def _check_in_place(case: Case, call: Call) -> None:
    """Each input that has the type and the shape of the one result takes it."""
    if len(case.results) != 1:
        return
    result = case.results[0]
    shape = target_shapes(case, call)[result.name]
    for spec in case.tensors:
        fits = call.shape(spec) == shape and spec.name not in call.left_out and not spec.updated
        if not fits or case.dtype(spec, call.types) != case.dtype(result, call.types) or spec.packed:
            continue
        arguments = make_arguments(case, call, DEVICE)
        expected = evaluate(case, arguments)
        guarded = guarded_update(arguments.given[spec.name].clone(), contiguous)
        shared = _with_tensor(arguments, spec.name, guarded)
        returned = run_watched(case, call, shared, guarded.tensor)
        if returned is not guarded.tensor:
            _fail(case, call, f"out={spec.name} is not what is returned")
        compare(case, call, result, guarded.tensor, expected[result.name], None)
        fault = guarded.fault(written=True)
        if fault is not None:
            _fail(case, call, f"memory around out={spec.name} was touched: {fault}")


def _with_tensor(arguments: Arguments, name: str, guarded: Guarded) -> Arguments:
    return replace(
        arguments,
        tensors={**arguments.tensors, name: guarded},
        given={**arguments.given, name: guarded.tensor},
    )


def _check_defaults(case: Case, call: Call) -> None:
    """The public function, called with what has no default."""
    optional = [spec.name for spec in case.tensors if spec.optional]
    defaults = {spec.name: spec.default for spec in case.scalars if spec.default is not None}
    if not optional and not defaults:
        return
    plain = replace(call, left_out=frozenset(optional), numbers={**call.numbers, **defaults})
    arguments = make_arguments(case, plain, DEVICE)
    given = {
        name: value
        for name, value in arguments.given.items()
        if name not in defaults and name not in optional
    }
    returned = case.function(**given)
    results = returned if isinstance(returned, tuple) else (returned,)
    expected = evaluate(case, replace(arguments, tensors={**arguments.tensors}))
    for spec, result in zip(case.results or case.targets, results):
        compare(case, plain, spec, result, expected[spec.name], None)


def _fail(case: Case, call: Call, what: str) -> None:
    raise Fault(f"{case.name}: {what}; in the call with {call}")
