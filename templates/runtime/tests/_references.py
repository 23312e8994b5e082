"""The eager reference, and the spec's own: both must lie in the oracle's intervals."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from .. import _runtime as rt
from ._blocks import widest
from ._call import compare, evaluate
from ._cases import Call, Case, make_arguments
from ._check import Report
from ._drawing import Maker, beyond_calls, broadcast_calls, everywhere, scaled_calls, tie_calls
from ._functions import cast, open_roundings
from ._leaves import exact
from ._memory import gapped, swapped
from ._values import Value

CPU = torch.device("cpu")

_SHAPES = ((1,), (70,), (3, 33), (2, 3, 4), (2, 2, 3, 10), (0,))

_MANY = 3000
"""Elements of a call that comes near every threshold; it is quick without kernels."""

_SHARES = (-0.49, 0.49)
"""Of the distance between two numbers: rounded up, and down."""

_NOISE = 1e-12
"""Of the reference's own rounding in f64, relative to the largest number that it starts from."""


def check_reference(case: Case) -> None:
    """The eager reference, which CPU tensors take, gives what the oracle allows."""
    exact = bool(case.contractions)  # f32 products are rounded once, from f64
    report = Report(f"{case.name}, eager reference", may_be_exact=exact)
    further = (tie_calls, scaled_calls, beyond_calls, _between_calls)
    for call in (*_calls(case), *(call for made in further for call in made(case))):
        arguments = make_arguments(case, call, CPU)
        expected = evaluate(case, arguments)
        found = case.entry.reference(*(arguments.given[spec.name] for spec in case.parameters))
        found = found if isinstance(found, tuple) else (found,)
        for spec, result in zip(case.targets, found):
            compare(case, call, spec, result, expected[spec.name], report)
    report.settle()


def _calls(case: Case) -> Iterator[Call]:
    maker = Maker(case)
    for shape in _SHAPES * 2:
        yield from maker.call(shape, everywhere(case, swapped if len(shape) > 2 else gapped))
    for _ in case.choices() if not case.reductions else ():
        yield from maker.call((_MANY,), {})
    yield from broadcast_calls(case, maker)


def _between_calls(case: Case) -> Iterator[Call]:
    """Scalars between two f32 numbers at the end of their range, in f32, beside products of one term: to round them, or
    not, weighs most there."""
    ends = {
        one.name: torch.tensor(one.range[1], dtype=torch.float32)
        for one in case.scalars
        if one.type == "f32" and one.range and not one.const
    }
    maker, types = Maker(case, inner=(1,)), widest(case)
    for share in _SHARES if ends and not case.reductions else ():
        numbers = {name: _between(end, share) for name, end in ends.items()}
        for call in maker.call((_MANY,), {}, types=types):
            yield dataclasses.replace(call, numbers={**call.numbers, **numbers}, special=0.0)


def _between(end: Tensor, share: float) -> float:
    """A number beside the greatest f32 number below an end, by a share of the distance to it."""
    below = torch.nextafter(end, torch.full_like(end, -math.inf)).double()
    return float(below + share * (end.double() - below))


def check_independent(case: Case, independent: Callable[..., Any]) -> None:
    """The spec's own reference, evaluated in f64, lies in the oracle's intervals, widened by their radius.

    Compared where it is finite. It need not repeat the rounding points inside the formula, which are left open.
    """
    maker = Maker(case)
    for shape in _SHAPES * 2:
        for call in maker.call(shape, {}):
            call = dataclasses.replace(call, special=0.0, as_tensors=frozenset())
            arguments = make_arguments(case, call, CPU)
            with open_roundings():
                expected = evaluate(case, arguments)
            given = [
                _as_read(spec, value)
                for spec, value in zip(case.parameters, arguments.values(case), strict=True)
            ]
            found = independent(*given)
            found = found if isinstance(found, tuple) else (found,)
            noise = _NOISE * max([1.0, *(_largest(value) for value in given)])
            targets = case.results or case.targets
            for spec, result in zip(targets, found):
                dtype = case.dtype(spec, call.types)
                room = _widened(expected[spec.name], noise)
                stored = cast(exact(torch.as_tensor(result)), dtype)
                compare_finite(case, call, spec, stored, room, dtype)


def compare_finite(
    case: Case, call: Call, spec: Any, found: Value, allowed: Value, dtype: torch.dtype
) -> None:
    """Compares where the reference is finite."""
    finite = found.value.isfinite() if found.is_float else torch.ones_like(found.nan)
    shape = torch.broadcast_shapes(found.shape, allowed.shape)
    kept = finite.expand(shape)
    allowed = allowed.map(lambda tensor: tensor.expand(shape)[kept])
    compare(case, call, spec, found.value.expand(shape)[kept].to(dtype), allowed, None)


def _widened(value: Value, noise: float) -> Value:
    """The interval with room for what the reference computes otherwise."""
    if not value.is_float:
        return value
    room = torch.where(value.radius.isfinite(), value.radius, 0.0) + noise
    return dataclasses.replace(value, lo=value.lo - room, hi=value.hi + room)


def _as_read(spec: Any, value: Any) -> Any:
    """A value as kernels read it, in f64: a float scalar is rounded to its declared type."""
    if isinstance(value, Tensor):
        return value.to(torch.float64) if value.is_floating_point() else value
    return (
        torch.tensor(value, dtype=rt.DTYPES[spec.type]).item()
        if isinstance(value, float)
        else value
    )


def _largest(value: object) -> float:
    if isinstance(value, Tensor):
        return float(value.abs().max()) if value.is_floating_point() and value.numel() else 0.0
    number = float(value) if isinstance(value, int | float) else 0.0
    return abs(number) if math.isfinite(number) else 0.0
