"""One call of an op: in guarded memory, watched, and compared with the oracle."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from typing import Any
from unittest import mock

import pytest
import torch
from torch import Tensor

from .. import _products, _rows, _runtime as rt
from ._cases import Arguments, Call, Case, TensorSpec, make_arguments
from ._check import Report, check
from ._memory import guarded_output
from ._values import Value

DEVICE = torch.device("cuda" if torch.cuda.is_available() and not rt.INTERPRETED else "cpu")


class Fault(AssertionError):
    """A wrong value, or a touched sentinel."""


def needs_kernels() -> None:
    """Skips a test where kernels cannot run."""
    if not rt.runs_kernels(DEVICE):
        pytest.skip("no GPU: set TRITON_INTERPRET=1 to run the kernels in Triton's interpreter")


def check_call(case: Case, call: Call, report: Report | None = None) -> None:
    """Calls the op on guarded tensors, into guarded results; checks values, sentinels and inputs."""
    arguments = make_arguments(case, call, DEVICE)
    expected = evaluate(case, arguments)
    shapes = target_shapes(case, call)
    outputs = tuple(
        guarded_output(
            shapes[spec.name], call.layout(spec.name), 1, case.dtype(spec, call.types), DEVICE
        )
        for spec in case.results
    )
    out = tuple(one.tensor for one in outputs) or None
    with watching(case, call):
        case.entry.run(arguments.given, out, call.config)
    for spec, output in zip(case.results, outputs):
        compare(case, call, spec, output.tensor, expected[spec.name], report)
        _raise_for(case, call, f"around the result {spec.name}", output.fault(written=True))
    for spec in case.tensors:
        given_tensor = arguments.tensors[spec.name]
        if given_tensor is None:
            continue
        if spec.updated:
            compare(case, call, spec, given_tensor.tensor, expected[spec.name], report)
        where = f"around {spec.name}" if spec.updated else f"in or around the input {spec.name}"
        _raise_for(case, call, where, given_tensor.fault(written=spec.updated))


def evaluate(case: Case, arguments: Arguments) -> dict[str, Value]:
    """What a call may give, by target."""
    values = case.oracle(*arguments.values(case))
    values = values if isinstance(values, tuple) else (values,)
    return {spec.name: value for spec, value in zip(case.targets, values)}


def target_shapes(case: Case, call: Call) -> dict[str, tuple[int, ...]]:
    """The full shapes of what a call writes."""
    leading: tuple[int, ...] = ()
    for spec in case.tensors:
        if spec.has_leading and spec.name not in call.left_out:
            shape = call.shape(spec)
            leading = torch.broadcast_shapes(leading, shape[: len(shape) - len(spec.named)])
    return {
        spec.name: (
            *(leading if spec.has_leading else ()),
            *(dim.size(call.sizes) for dim in spec.named),
        )
        for spec in case.targets
    }


@contextlib.contextmanager
def watching(case: Case, call: Call) -> Iterator[None]:
    """In the interpreter, every access of the kernels inside must lie in a tensor that they were given."""
    if not rt.INTERPRETED:
        with _planned_for(call.multiprocessors):
            yield
        return
    from ._watch import watched

    with _planned_for(call.multiprocessors), watched() as watch:
        yield
    for fault in watch.faults[:1]:
        raise Fault(f"{case.name}: a kernel {fault}; in the call with {call}")


@contextlib.contextmanager
def _planned_for(multiprocessors: int | None) -> Iterator[None]:
    """Plans launches for a GPU of so many multiprocessors."""
    with contextlib.ExitStack() as stack:
        for module in (_products, _rows) if multiprocessors else ():
            stack.enter_context(
                mock.patch.object(module, "multiprocessors_of", return_value=multiprocessors)
            )
        yield


def compare(
    case: Case, call: Call, spec: TensorSpec, actual: Tensor, expected: Value, report: Report | None
) -> None:
    """Raises `Fault` unless a result is what the oracle allows."""
    dtype = case.dtype(spec, call.types)
    if report is not None:
        report.terms = max(report.terms, case.terms(call))
        report.may_be_exact |= case.narrows
    if dtype in case.tolerance:
        room = case.tolerance[dtype] * (1 + expected.value.abs())
        expected = dataclasses.replace(expected, lo=expected.lo - room, hi=expected.hi + room)
        report = None
    if actual.dtype == torch.bool and bool((actual.view(torch.uint8) > 1).any()):
        raise Fault(
            f"{case.name}.{spec.name}: a bool that was not written; in the call with {call}"
        )
    with _as_fault(call):
        check(actual.cpu(), expected, dtype, name=f"{case.name}.{spec.name}", report=report)


@contextlib.contextmanager
def _as_fault(call: Call) -> Iterator[None]:
    try:
        yield
    except AssertionError as error:
        raise Fault(f"{error}; in the call with {call}") from None


def _raise_for(case: Case, call: Call, where: str, fault: str | None) -> None:
    if fault is not None:
        raise Fault(f"{case.name}: memory {where} was touched: {fault}; in the call with {call}")
