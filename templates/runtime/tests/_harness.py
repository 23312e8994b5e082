"""What the generated tests share: an op is called in guarded memory, and compared with its oracle.

A test file declares a `Case` and runs the checks below. All of them raise `Fault`, an `AssertionError` that names the
call, where a value is outside the oracle's interval or memory beside a result was touched.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from torch import Tensor

from .. import _runtime as rt
from ._cases import Arguments, Call, Case, ScalarSpec, TensorSpec, make_arguments
from ._check import Report, check
from ._drawing import block_calls, calls, config_calls, layout_calls, rank_calls
from ._memory import guarded_output
from ._values import Value

__all__ = [
    "Case",
    "ScalarSpec",
    "TensorSpec",
    "check_blocks",
    "check_configs",
    "check_drawn",
    "check_layouts",
    "check_ranks",
]

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")

_LARGEST_SPACE = {"cpu": 1500, "cuda": 200_000}
"""Elements of a drawn call; the interpreter is slow."""

_IN_CI = bool(os.environ.get("CI"))

_DRAWN = settings(
    deadline=None,  # the first call of a kernel compiles it
    max_examples=int(os.environ.get("OPGEN_EXAMPLES", "30" if rt.INTERPRETED else "100")),
    derandomize=_IN_CI,
    suppress_health_check=[HealthCheck.too_slow] if _IN_CI else [],
    print_blob=True,
)
"""How much hypothesis draws; the environment variable `OPGEN_EXAMPLES` asks for more or fewer calls."""


class Fault(AssertionError):
    """A wrong value, or a touched sentinel."""


# -- the checks -------------------------------------------------------------------------------------------------


def check_blocks(case: Case) -> None:
    """Sizes at the edges of blocks and tiles."""
    check_all(case, "blocks", block_calls(case))


def check_layouts(case: Case) -> None:
    """Transposed, sliced, stepped, expanded and other layouts, of all tensors and of each."""
    check_all(case, "layouts", layout_calls(case))


def check_ranks(case: Case) -> None:
    """Spaces of up to seven dims none of which merge, also in multiples of 16 elements."""
    check_all(case, "ranks", rank_calls(case))


def check_configs(case: Case) -> None:
    """Every config of every target, forced."""
    check_all(case, "configs", config_calls(case))


def check_drawn(case: Case) -> None:
    """Any calls, drawn by hypothesis."""
    report = _report(case, "drawn calls")

    @_DRAWN
    @given(calls(case, _LARGEST_SPACE[DEVICE.type]))
    def each(call: Call) -> None:
        check_call(case, call, report)

    _needs_kernels()
    each()
    _settle(case, report)


def check_all(case: Case, purpose: str, made: Iterable[Call]) -> None:
    """The calls, one after the other, and what their bounds were worth."""
    _needs_kernels()
    report = _report(case, purpose)
    count = 0
    for call in made:
        check_call(case, call, report)
        count += 1
    assert count, f"{case.name}: no {purpose} fit what the op requires"
    _settle(case, report)


# -- one call ---------------------------------------------------------------------------------------------------


def check_call(case: Case, call: Call, report: Report | None = None) -> None:
    """Calls the op on guarded tensors, into guarded results; checks values, sentinels and inputs."""
    arguments = make_arguments(case, call, DEVICE)
    expected = evaluate(case, arguments)
    shapes = target_shapes(case, call)
    outputs = tuple(
        guarded_output(shapes[spec.name], call.layout(spec.name), 1, case.dtype(spec, call.types), DEVICE)
        for spec in case.results
    )
    out = tuple(one.tensor for one in outputs) or None
    run_watched(case, call, arguments, out)
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
        spec.name: (*(leading if spec.has_leading else ()), *(dim.size(call.sizes) for dim in spec.named))
        for spec in case.targets
    }


def run_watched(case: Case, call: Call, arguments: Arguments, out: Any) -> Any:
    """The op's results; in the interpreter, every access must lie inside a tensor of its kernel."""
    if not rt.INTERPRETED:
        return case.entry.run(arguments.given, out, call.config)
    from ._watch import watched

    with watched() as watch:
        results = case.entry.run(arguments.given, out, call.config)
    for fault in watch.faults[:1]:
        raise Fault(f"{case.name}: a kernel {fault}; in the call with {call}")
    return results


def compare(
    case: Case, call: Call, spec: TensorSpec, actual: Tensor, expected: Value, report: Report | None
) -> None:
    """Raises `Fault` unless a result is what the oracle allows."""
    dtype = case.dtype(spec, call.types)
    if dtype in case.tolerance:
        room = case.tolerance[dtype] * (1 + expected.value.abs())
        expected = dataclasses.replace(expected, lo=expected.lo - room, hi=expected.hi + room)
        report = None
    if actual.dtype == torch.bool and bool((actual.view(torch.uint8) > 1).any()):
        raise Fault(f"{case.name}.{spec.name}: a bool that was not written; in the call with {call}")
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


# -- reports ----------------------------------------------------------------------------------------------------


def _needs_kernels() -> None:
    if not rt.runs_kernels(DEVICE):
        pytest.skip("no GPU: set TRITON_INTERPRET=1 to run the kernels in Triton's interpreter")


def _report(case: Case, purpose: str) -> Report:
    return Report(f"{case.name}, {purpose}")


def _settle(case: Case, report: Report) -> None:
    if report.elements or not case.tolerance:
        report.settle()
