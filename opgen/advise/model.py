"""Predicted times of the ways to compute an op on a target, what binds the fused one, and the verdict."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from opgen.advise import rates
from opgen.advise.setting import Setting
from opgen.advise.work import Kernel, Product, Work, total_bytes, total_operations, work
from opgen.targets import Target

_FEW_ROWS = 64
_WORTH_IT = 1.05
_WORTH_IT_OF_ONE = 1.2
"""What a kernel must gain at least to be worth having: the model is no better than that. More is asked where PyTorch
has one kernel, which no generated one has to be kept in step with."""


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
    op meet, `limit` the roofline's bound in microseconds.
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
    reason: str


def advise(setting: Setting, target: Target) -> Advice:
    """The advice for an op at some sizes on a target."""
    counted = work(setting)
    moved, operations = total_bytes(counted.fused), total_operations(counted.fused)
    spent = _spent(counted, target)
    compute = max(spent[Bound.MATRIX], spent[Bound.INSTRUCTIONS])
    times = Times(
        eager=sum(_time(kernel, target, is_ours=False) for kernel in counted.eager),
        library=sum(_time(kernel, target, is_ours=not kernel.products) for kernel in counted.library)
        if counted.library
        else None,
        fused=sum(_time(kernel, target, is_ours=True) for kernel in counted.fused),
    )
    bound = max(spent, key=lambda resource: spent[resource])
    verdict, reason = _verdict(counted, target, times, bound)
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
        reason=reason,
    )


# --- times --------------------------------------------------------------------------------------


def _time(kernel: Kernel, target: Target, *, is_ours: bool) -> float:
    """A kernel's microseconds: the slowest of what it moves, multiplies and computes, and its launch."""
    memory = kernel.bytes / (rates.bytes_per_microsecond(target) * _memory_share(kernel, is_ours=is_ours))
    products = sum(_product_time(product, target) for product in kernel.products)
    products /= (rates.FUSED_SHARE if is_ours else rates.LIBRARY_SHARE).value
    instructions = kernel.instructions / rates.instructions_per_microsecond(target)
    return rates.LAUNCH.value + max(memory, products, instructions)


def _memory_share(kernel: Kernel, *, is_ours: bool) -> float:
    """The share of copy bandwidth that a kernel reaches where bandwidth binds it."""
    if kernel.reduces:
        return rates.ROW_SHARE.value if is_ours else rates.EAGER_ROWS.get(kernel.what, rates.OTHER_EAGER_ROWS)
    rows = min((min(one.m, one.n) for one in kernel.products), default=_FEW_ROWS + 1)
    if rows > _FEW_ROWS:
        return 1.0
    if not is_ours:
        return rates.FEW_ROWS_LIBRARY.value
    return (rates.ONE_ROW_FUSED if rows == 1 else rates.FEW_ROWS_FUSED).value


def _product_time(product: Product, target: Target) -> float:
    """A product's microseconds on the matrix unit: whole waves of tiles, for the tile that takes the least."""
    rate = rates.matrix_operations_per_microsecond(target, product.dtype)
    if min(product.m, product.n) <= _FEW_ROWS:  # pieces of k fill the GPU where tiles do not
        return product.operations / rate
    best = float("inf")
    for rows, columns, share in rates.TILES:
        tiles = product.batch * -(-product.m // rows) * -(-product.n // columns)
        waves = -(-tiles // target.multiprocessors)
        operations = 2 * rows * columns * product.k * waves * target.multiprocessors
        best = min(best, operations / (rate * share))
    return best


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
        Bound.LAUNCH: rates.LAUNCH.value * len(counted.fused),
    }


# --- the verdict --------------------------------------------------------------------------------


def _verdict(counted: Work, target: Target, times: Times, bound: Bound) -> tuple[Verdict, str]:
    """The verdict, and its reason in words."""
    gain = times.best_other / times.fused
    name = counted.eager[0].what if len(counted.eager) == 1 else None
    if name is not None and gain < _WORTH_IT_OF_ONE:
        return Verdict.LEAVE, f"PyTorch runs it as one kernel already (`{name}`): there is nothing to fuse"
    if bound is Bound.LAUNCH:
        return Verdict.GRAPH, _too_small(len(counted.eager))
    if counted.products:
        return _product_verdict(counted, target, gain, bound)
    if gain < _WORTH_IT:
        return Verdict.LEAVE, f"{len(counted.eager)} kernels of eager take no longer than a fused one would"
    if name is not None:
        return (
            Verdict.FUSE,
            f"PyTorch's one kernel (`{name}`) is slow here: expect {gain:.1f} times the speed",
        )
    what = "a memory-bound chain" if bound is Bound.BANDWIDTH else f"a chain that is bound by {bound.value}"
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
