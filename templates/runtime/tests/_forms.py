"""The forms of a call: fresh results and their strides, in place, left-out arguments, nothing to compute, refusals."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from .. import _runtime as rt
from ._call import (
    DEVICE,
    Fault,
    check_call,
    compare,
    evaluate,
    needs_kernels,
    target_shapes,
    watching,
)
from ._cases import Arguments, Call, Case, TensorSpec, make_arguments
from ._drawing import Maker, everywhere, scales
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

Run = Callable[[Arguments], Any]


def check_results(case: Case) -> None:
    """What a call returns where no `out=` is given; where an input is `out=`; where nothing is to be computed."""
    needs_kernels()
    maker = Maker(case)
    layouts: tuple[Layout, ...] = (contiguous, transposed, swapped, channels_last, gapped, expanded)
    for number, layout in enumerate(layouts):
        for call in maker.call(_SHAPES[number % 3], everywhere(case, layout), config=None):
            _check_fresh(case, call)
        first = case.tensors[0].name
        alone = {name: one for name, one in everywhere(case, layout).items() if name == first}
        for call in maker.call(_SHAPES[(number + 1) % 3], alone):
            _check_fresh(case, call)
    for shape in ((0,), (3, 0), (0, 5), (2, 0, 3)):
        for call in maker.call(shape, {}, config=None):
            check_call(case, call)
            _check_fresh(case, call)
    several_tiles = (40, 33)  # in which a gathered table of 40 rows may be the result, too
    for call in Maker(case, inner=several_tiles[:1]).call(several_tiles, {}, integers=(0, 3)):
        _check_in_place(case, replace(call, left_out=frozenset()))
    _check_refusals(case)


def check_entrances(case: Case) -> None:
    """The public function, also with what may be left out left out, and the operator that PyTorch knows."""
    needs_kernels()
    for scale in scales(case):
        maker = Maker(case)
        for call in (one for _ in range(4) for one in maker.call((3, 40), {}, config=None, scale=scale)):
            for seed in (1, 2):  # the second call of a signature takes a shorter way
                again = replace(call, seed=seed)
                _check_returned(case, again, lambda given: case.function(**given.given))
            _check_returned(
                case, call, lambda given: case.operator(*_operator_arguments(case, given))
            )
            _check_defaults(case, call)


def _check_returned(case: Case, call: Call, run: Run) -> None:
    """Values of what a call returns; an operator returns nothing for what it updates."""
    arguments = make_arguments(case, call, DEVICE)
    expected = evaluate(case, arguments)
    with watching(case, call):
        returned = run(arguments)
    results = returned if isinstance(returned, tuple) else (returned,)
    if not case.results:
        results = tuple(arguments.given[spec.name] for spec in case.targets)
    for spec, result in zip(case.results or case.targets, results):
        compare(case, call, spec, result, expected[spec.name], None)


def _operator_arguments(case: Case, arguments: Arguments) -> Iterator[Any]:
    """What PyTorch's operator takes: a number and an optional tensor for each scalar that is no `const`."""
    scalars = {spec.name for spec in case.scalars if not spec.const}
    for spec in case.parameters:
        value = arguments.given[spec.name]
        if spec.name not in scalars:
            yield value
        elif isinstance(value, Tensor):
            yield type(value.item())(0)
            yield value
        else:
            yield value
            yield None


def _check_fresh(case: Case, call: Call) -> None:
    """Values, types, shapes and strides of results that the op allocates, and that it returns what it updates."""
    arguments = make_arguments(case, call, DEVICE)
    expected = evaluate(case, arguments)
    with watching(case, call):
        returned = case.entry.run(arguments.given, None, call.config)
    results = returned if isinstance(returned, tuple) else (returned,)
    shapes = target_shapes(case, call)
    for spec, result in zip(case.results or case.targets, results):
        if tuple(result.shape) != shapes[spec.name]:
            _fail(
                case,
                call,
                f"{spec.name} has shape {list(result.shape)}, not {list(shapes[spec.name])}",
            )
        compare(case, call, spec, result, expected[spec.name], None)
        if spec.updated and result is not arguments.given[spec.name]:
            _fail(case, call, f"the returned {spec.name} is not the tensor that was updated")
        wanted = None if spec.updated else expected_strides(case, call, spec, arguments.given)
        if wanted is not None and result.stride() != wanted:
            _fail(case, call, f"{spec.name} has strides {result.stride()}, not {wanted}")


def expected_strides(
    case: Case, call: Call, result: TensorSpec, given: Mapping[str, Any]
) -> tuple[int, ...] | None:
    """The strides of a new result: contiguous ones where it needs a reduction or a contraction, else PyTorch's."""
    if result.contiguous:
        return torch.empty(target_shapes(case, call)[result.name], device="meta").stride()
    return pytorch_strides(case, call, result, given)


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
    like = [torch.empty_strided(one.shape, one.stride(), device=DEVICE) for one in operands]
    if len(like) == 1:
        made = like[0].abs()
    else:
        made = like[0] + like[1] if len(like) == 2 else torch.addcmul(*like)
    return made.stride() if tuple(made.shape) == shape else None


def _over(spec: TensorSpec, tensor: Tensor, result: TensorSpec) -> Tensor:
    """A tensor as a view over the dims of a result, with size 1 for those that it lacks."""
    leading = tensor.dim() - len(spec.named)
    order = [leading + spec.named.index(dim) for dim in result.named if dim in spec.named]
    view = tensor.permute([*range(leading), *order])
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
        if (
            not fits
            or case.dtype(spec, call.types) != case.dtype(result, call.types)
            or spec.packed
        ):
            continue
        arguments = make_arguments(case, call, DEVICE)
        expected = evaluate(case, arguments)
        guarded = guarded_update(arguments.given[spec.name].clone(), contiguous)
        shared = _with_tensor(arguments, spec.name, guarded)
        with watching(case, call):
            returned = case.entry.run(shared.given, guarded.tensor, call.config)
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
    """The public function and the eager reference, called with what has no default; integers are near a default one."""
    optional = [spec.name for spec in case.tensors if spec.optional]
    defaults = {spec.name: spec.default for spec in case.scalars if spec.default is not None}
    if not optional and not defaults:
        return
    near = next((number for number in defaults.values() if type(number) is int), None)
    plain = replace(
        call,
        left_out=frozenset(optional),
        numbers={**call.numbers, **defaults},
        as_tensors=frozenset(),
        integers=call.integers if near is None else (near - 1, near + 1),
    )
    names = [spec.name for spec in case.parameters if spec.name not in {*optional, *defaults}]
    for function in (case.function, case.entry.reference):
        if case.results or function is case.function:
            _check_returned(
                case, plain, lambda given, f=function: f(*(given.given[name] for name in names))
            )


def _check_refusals(case: Case) -> None:
    """Sizes that do not meet what the op requires are refused."""
    for call in Maker(case).call((4, 33), {}):
        for name in case.names:
            for size in range(1, 40):
                sizes = {**call.sizes, name: size}
                if case.accepts(sizes, call.numbers) or not case.divides(sizes):
                    continue
                refused = replace(call, sizes=sizes)
                try:
                    case.entry.run(make_arguments(case, refused, DEVICE).given, None, call.config)
                except ValueError as error:
                    if f"{name} = {size}" not in str(error):
                        _fail(case, refused, f"what was given is not told: {error}")
                    continue
                _fail(case, refused, "sizes that the op's requirements exclude were accepted")
    _check_extremes_of_nothing(case)


def _check_extremes_of_nothing(case: Case) -> None:
    """Calls and references refuse to reduce over nothing what has no value then."""
    for one in case.entry.operator.nonempty:
        for text in one.dims:
            for call in Maker(case).call((4, 33), {}):
                name = rt.dim(text).name
                sizes = call.sizes if text == "..." else {**call.sizes, name: 0}
                empty = replace(call, sizes=sizes, leading=(0,) if text == "..." else call.leading)
                if not case.is_refused(empty) or not case.accepts(sizes, call.numbers):
                    continue
                given = make_arguments(case, empty, DEVICE).given
                ordered = [given[spec.name] for spec in case.parameters]
                for run in (case.function, case.entry.reference):
                    try:
                        run(*ordered)
                    except ValueError:
                        continue
                    _fail(case, empty, f"the {one.reduction} of nothing was accepted")


def _fail(case: Case, call: Call, what: str) -> None:
    raise Fault(f"{case.name}: {what}; in the call with {call}")
