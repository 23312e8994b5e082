"""Predicted times of the ways to compute an op on a target, what binds the fused one, and the verdict."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from opgen.advise import rates
from opgen.advise.counts import total_bytes, total_operations
from opgen.advise.setting import Setting
from opgen.advise.times import eager_time, fused_time, library_time
from opgen.advise.work import Work, work
from opgen.targets import Target

_WORTH_IT = 1.05
"""What a kernel must gain at least to be worth having: the model's predictions are typically off by more."""


class Bound(Enum):
    """The resource that a kernel's time is spent on."""

    BANDWIDTH = "bandwidth"
    MATRIX = "matrix unit"
    INSTRUCTIONS = "f32 instructions"
    LAUNCH = "launch"


class Verdict(Enum):
    FUSE = "fuse"
    EPILOGUE = "fuse the epilogue"
    LIBRARY = "use the library"
    GRAPH = "capture a graph"
    LEAVE = "leave it"


@dataclass(frozen=True)
class Times:
    """Predicted microseconds on the device; `library` is None where the op has no product."""

    eager: float
    library: float | None
    fused: float

    @property
    def best_other(self) -> float:
        return min(self.eager, self.library) if self.library is not None else self.eager


@dataclass(frozen=True)
class Advice:
    """What is advised for an op at some sizes on a target.

    `intensity` is operations per byte of the fused kernels, `ridge` where the target's bandwidth and its rate for this
    op meet, `limit` the roofline's bound in microseconds. `inside` is the verdict where launches cost nothing: what a
    graph should have in it, where to capture one is advised, else the verdict itself.
    """

    setting: Setting
    target: Target
    work: Work
    intensity: float
    ridge: float
    limit: float
    times: Times
    bound: Bound
    verdict: Verdict
    inside: Verdict
    reason: str


def advise(setting: Setting, target: Target) -> Advice:
    """The advice for an op at some sizes on a target."""
    counted = work(setting)
    moved, operations = total_bytes(counted.fused), total_operations(counted.fused)
    spent = _spent(counted, target)
    compute = max(spent[Bound.MATRIX], spent[Bound.INSTRUCTIONS])
    times = Times(
        eager=eager_time(counted, target),
        library=library_time(counted, target),
        fused=fused_time(setting, counted, target),
    )
    bound = max(spent, key=lambda resource: spent[resource])
    inside, reason = _inside(counted, target, times, bound)
    is_alone = inside is Verdict.LEAVE and len(counted.eager) == 1
    verdict = Verdict.GRAPH if bound is Bound.LAUNCH and not is_alone else inside
    if verdict is not inside:
        reason = f"{_too_small(len(counted.eager))}; inside it, {inside.value}: {reason}"
    per_byte = rates.bytes_per_microsecond(target)
    return Advice(
        setting=setting,
        target=target,
        work=counted,
        intensity=operations / moved if moved else 0.0,
        ridge=operations / compute / per_byte if compute else 0.0,
        limit=max(spent[Bound.BANDWIDTH], compute),
        times=times,
        bound=bound,
        verdict=verdict,
        inside=inside,
        reason=reason,
    )


def _spent(counted: Work, target: Target) -> dict[Bound, float]:
    """Microseconds that the fused kernels need of each resource at least; what they need of one overlaps the others."""

    def multiplying(*, on_unit: bool) -> float:
        return sum(
            one.operations / rates.matrix_operations_per_microsecond(target, one.dtype)
            for one in counted.products
            if rates.has_matrix_unit(target, one.dtype) is on_unit
        )

    plain = sum(kernel.instructions for kernel in counted.fused)
    return {
        Bound.BANDWIDTH: total_bytes(counted.fused) / rates.bytes_per_microsecond(target),
        Bound.MATRIX: multiplying(on_unit=True),
        Bound.INSTRUCTIONS: plain / rates.instructions_per_microsecond(target) + multiplying(on_unit=False),
        Bound.LAUNCH: rates.CALL.value + rates.KERNEL.value * len(counted.fused),
    }


# --- the verdict --------------------------------------------------------------------------------


def _inside(counted: Work, target: Target, times: Times, bound: Bound) -> tuple[Verdict, str]:
    """The verdict where launches cost nothing, and its reason in words."""
    gain = times.best_other / times.fused
    name = counted.eager[0].what if len(counted.eager) == 1 else None
    if name is not None and gain < _WORTH_IT:
        return Verdict.LEAVE, f"PyTorch runs it as one kernel already (`{name}`): there is nothing to fuse"
    if counted.products:
        return _product_verdict(counted, target, gain, bound)
    if gain < _WORTH_IT:
        return Verdict.LEAVE, f"{len(counted.eager)} kernels of eager take no longer than a fused one would"
    if name is not None:
        return (
            Verdict.FUSE,
            f"PyTorch's one kernel (`{name}`) is slow here: expect {gain:.1f} times the speed",
        )
    by = {Bound.BANDWIDTH: "a memory-bound chain", Bound.LAUNCH: "a short chain"}
    what = by.get(bound, f"a chain that is bound by {bound.value}")
    moved = total_bytes(counted.eager) / max(total_bytes(counted.fused), 1)
    kernels = f"{len(counted.eager)} kernels of eager move {moved:.1f} times the bytes"
    return Verdict.FUSE, f"{what}: {kernels}; expect {gain:.1f} times the speed"


def _too_small(kernels: int) -> str:
    eager = kernels * rates.EAGER_CALL.value
    return (
        f"too small: the work takes less than its launches. {kernels} kernels of eager cost the host about "
        f"{eager:.0f} us, one fused call {rates.FUSED_CALL.value:.0f}; what saves time is to capture a CUDA graph"
    )


def _product_verdict(counted: Work, target: Target, gain: float, bound: Bound) -> tuple[Verdict, str]:
    without_unit = [one.dtype for one in counted.products if not rates.has_matrix_unit(target, one.dtype)]
    if without_unit and bound is not Bound.BANDWIDTH:
        return Verdict.LIBRARY, (
            f"Triton has no matrix unit for {without_unit[0]} on {target.name}: the product is the library's, which "
            "the generated module calls, too; the times here take plain instructions for both"
        )
    if gain >= 1.0:
        return Verdict.EPILOGUE, (
            "the product dominates, and what follows it is free inside its kernel: "
            f"{gain:.2f} times the speed of the best other way"
        )
    return Verdict.LIBRARY, (
        "the product dominates, and the library's is faster than ours by more than the epilogue costs "
        f"({1 / gain:.2f} times)"
    )
