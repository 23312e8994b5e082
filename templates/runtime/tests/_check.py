"""Comparison of a kernel's output with the oracle's `Value`, and a report on the bounds.

An output element passes when it lies between the interval's ends, each rounded to the output's
type: the store is a rounding point too. Integers and bools pass as one of the interval's; NaN
passes where NaN may be; a zero must have the interval's sign where that is certain.

A bound that could hide a lost rounding is no bound. `Report.settle` fails when
  * more than 5 % of the elements rest on an undecided decision;
  * without reductions, more than 25 % of the stores to a type narrower than the compute type are
    undecided: a lost rounding shows where both ends round to one number, so most of them must;
  * more than 5 % of the elements have wide bounds, and these are loose. Wide is more than 32 units
    in the last place of the compute type, and for a narrower output one more of its own (half for
    the store, half for the interval). Loose is: of the wide, decided and normal elements, none errs
    by more than 1/32 of its bound (1 / (8 sqrt(K)) where K terms are reduced, one reduction after
    the other). Bound and error are both measured after the store, from the f64 evaluation, and
    judged from 64 such elements on, those of one call that are equal counting once;
  * fewer than half of the elements are held to a finite bound, or to one special value.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from ._functions import cast
from ._intervals import F64, SMALLEST_NORMAL
from ._values import Value, converted

MOST_SLACK = 0.05
MOST_OPEN_STORES = 0.25
LOOSEST = 32.0
LOOSEST_REDUCTION = 8.0
NARROW_ULPS = 32
FEWEST = 64
FEWEST_FOR_SLACK = 512
"""Fewer elements, as of a few drawn calls, are too few for a share: one row can be most of it."""


@dataclass
class Report:
    """The figures of one test; `terms` is the length of its longest reduction.

    `may_be_exact` says that what is measured need not round where the bounds leave room for it.
    """

    name: str
    terms: int = 1
    may_be_exact: bool = False
    elements: int = 0
    slack: float = 0.0
    stores: float = 0.0
    bounded: int = 0
    wide: int = 0
    judged: int = 0
    closest: float = 0.0

    def settle(self) -> None:
        """Prints the figures; raises `AssertionError` for bounds that could hide an error."""
        print(self.summary())
        if self.elements < FEWEST:
            return
        count = self.elements
        if count >= FEWEST_FOR_SLACK:
            assert self.slack <= MOST_SLACK * count, f"{self.name}: too much slack: {self.summary()}"
        if self.terms == 1:
            assert (
                self.stores <= MOST_OPEN_STORES * count
            ), f"{self.name}: too many open stores: {self.summary()}"
        assert self.bounded >= count / 2, f"{self.name}: too few bounds: {self.summary()}"
        if self.wide > MOST_SLACK * count and self.judged > FEWEST and not self.may_be_exact:
            assert self.tightness <= self.loosest, f"{self.name}: loose bounds: {self.summary()}"

    @property
    def tightness(self) -> float:
        """The bound over the largest error seen; infinite where no error was seen."""
        return 1 / self.closest if self.closest else math.inf

    @property
    def loosest(self) -> float:
        return (
            LOOSEST if self.terms == 1 else max(LOOSEST, LOOSEST_REDUCTION * math.sqrt(self.terms))
        )

    def summary(self) -> str:
        """One line of figures."""
        count = max(self.elements, 1)
        return (
            f"{self.name}: {self.elements} elements, {self.slack / count:.2%} with slack, "
            f"{self.stores / count:.2%} between two stored numbers, "
            f"{self.wide / count:.2%} with wide bounds, "
            f"bound / largest error = {self.tightness:.3g} there (at most {self.loosest:.3g})"
        )

    def add(self, actual: Tensor, expected: Value, stored: Value) -> None:
        """Counts the elements of one comparison; `stored` is `expected` after the store."""
        self.elements += actual.numel()
        self.slack += float(expected.slack.sum())
        if actual.numel() == 0 or not stored.is_float:
            self.bounded += actual.numel()
            return
        self.stores += float((stored.slack - expected.slack).sum())
        bound = torch.maximum(stored.hi - expected.value, expected.value - stored.lo)
        finite = bound.isfinite()
        self.bounded += int((finite | (stored.lo == stored.hi) | stored.lo.isnan()).sum())
        normal = expected.value.abs() >= SMALLEST_NORMAL[expected.kind]
        measurable = normal & (expected.kind == "f32")  # f64 is held against its equal
        wide = finite & measurable & (bound > _widest_narrow_bound(expected, actual.dtype))
        self.wide += int(wide.sum())
        seen = wide & (expected.slack == 0) & ~actual.isnan()
        self.judged += len(expected.value[seen].unique())
        errors = (actual.to(F64) - expected.value).abs()[seen] / bound[seen]
        if errors.numel():
            self.closest = max(self.closest, float(errors.max()))


def check(
    actual: Tensor, expected: Value, dtype: torch.dtype, *, name: str, report: Report | None = None
) -> None:
    """Raises `AssertionError` unless `expected` allows each element of a kernel's output.

    `dtype` is the element type that the output must have; `expected` broadcasts to its shape.
    """
    assert actual.dtype == dtype, f"{name}: the output has type {actual.dtype}, not {dtype}"
    shape = torch.broadcast_shapes(expected.shape, actual.shape)
    assert (
        shape == actual.shape
    ), f"{name}: the output has shape {list(actual.shape)}, expected {list(expected.shape)}"
    expected = expected.map(lambda tensor: tensor.expand(actual.shape))
    assert not expected.slack.isinf().any(), f"{name}: an element rests on an extreme of nothing"
    stored = cast(expected, dtype)
    wrong = _distance(actual, stored)
    if bool((wrong > 0).any()):
        raise AssertionError(_failure(name, actual, expected, stored, wrong))
    if report is not None:
        computed = expected if expected.is_float else converted(expected, stored.kind)
        report.add(actual, computed, stored)


def _distance(actual: Tensor, stored: Value) -> Tensor:
    """How far each element lies outside its interval (f64); infinite for a wrong kind of number."""
    if not stored.is_float:
        given = actual.to(torch.int64)
        lo, hi = stored.lo.to(torch.int64), stored.hi.to(torch.int64)
        return torch.where(
            (given < lo) | (given > hi), (given.to(F64) - stored.value.to(F64)).abs() + 1, 0.0
        )
    given = actual.to(F64) if actual.dtype == torch.float64 else actual.to(torch.float32).to(F64)
    outside = torch.maximum(stored.lo - given, given - stored.hi)
    outside = torch.where((given >= stored.lo) & (given <= stored.hi), 0.0, outside)
    outside = torch.where(outside.isnan(), math.inf, outside)
    outside = torch.where(given.isnan(), torch.where(stored.nan, 0.0, math.inf), outside)
    certain_zero = (
        (stored.lo == 0) & (stored.hi == 0) & (stored.lo.signbit() == stored.hi.signbit())
    )
    wrong_sign = certain_zero & (given == 0) & (given.signbit() != stored.lo.signbit())
    return torch.where(wrong_sign, math.inf, outside)


def _failure(name: str, actual: Tensor, expected: Value, stored: Value, wrong: Tensor) -> str:
    """The message for the worst element: the one farthest outside its interval."""
    place = tuple(int(i) for i in torch.unravel_index(wrong.argmax(), wrong.shape))
    lo, hi, value = (tensor[place].item() for tensor in (stored.lo, stored.hi, expected.value))
    allowed = f"{lo!r}" if lo == hi else f"{lo!r} .. {hi!r}"
    allowed += " or nan" if bool(stored.nan[place]) else ""
    return (
        f"{name}: {int((wrong > 0).sum())} of {wrong.numel()} elements are wrong; the worst is at "
        f"{list(place)}: got {actual[place].item()!r}, expected {value!r}, allowed {allowed}"
    )


def _widest_narrow_bound(expected: Value, dtype: torch.dtype) -> Tensor:
    """How far from `expected.value` a stored result may be before its bound counts as wide."""
    store = 0.0 if dtype == torch.float32 else _unit(expected.value, dtype)
    return NARROW_ULPS * _unit(expected.value, torch.float32) + store


def _unit(x: Tensor, dtype: torch.dtype) -> Tensor:
    """The unit in the last place of a type at `x`, at least that of its smallest normal number."""
    info = torch.finfo(dtype)
    size = x.abs().clamp(info.smallest_normal, info.max)
    return torch.exp2(torch.floor(torch.log2(size))) * info.eps
