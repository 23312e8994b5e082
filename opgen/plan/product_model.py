"""Predicts the time of a product: the larger of what the matrix unit and what memory takes, by waves of tiles.

The constants were fitted to sweeps on an H200 (`benchmarks/products.md`); on other targets they scale with its rates,
and only the order that they give to configs is used.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from opgen.plan.model import ProductConfig
from opgen.plan.product_budget import Work, reserved_bytes, thread_registers
from opgen.targets import Target

#: A tile of m x n reaches this times h / (h + _HALF_SIZE) of the peak rate, with h = m n / (m + n); at most
#: _BEST_SHARE.
_PEAK_SHARE = 1.78
_HALF_SIZE = 96.0
_BEST_SHARE = 0.84
#: What loads through pointers reach of that, and tiles of more rows than columns; and FMA of its own peak.
_POINTERS = 0.90
_ROWS_OVER_COLUMNS = 0.93
_FMA_SHARE = 0.35
_OUTER_SHARE = 0.30
#: Share of memory's peak rate that each way of multiplying reaches, and bytes in flight on a multiprocessor for half
#: of it.
_MEMORY_SHARE = {"vector": 0.95, "pointers": 0.74, "descriptors": 0.76}
_HALF_FLIGHT = 18000.0
#: What a row's step of `vector` costs in memory's rate for each doubling of its columns beyond these.
_VECTOR_COLUMNS, _VECTOR_LOSS = 1024, 0.08
#: What reading the left row again for every `n` rows of the right operand costs, in rows.
_VECTOR_LEFT = 0.35
#: Nanoseconds that writing an element of a tile takes where no other tile of the multiprocessor hides it.
_WRITE = 0.16
#: Registers that the compiler does not need of what is set aside for halves on sm_90, where tiles find room beside each
#: other: 128x128x32 of 4 warps takes 167, 64x128x64 106, 64x64x64 72.
_SPARE_REGISTERS = 36
#: L2 gives a multiprocessor this many times its share of memory's rate.
_L2_OVER_MEMORY = 2.4
#: What two products beside each other with swapped operands take over what one of both would.
_SWAPPED_TWICE = 1.25
#: Microseconds: a launch, the first loads of a tile, a second kernel.
_LAUNCH = 6.0
_FILL = 1.2
_SECOND_KERNEL = 5.0
#: What the vendor's product reaches of the peak rate, and of memory's.
_LIBRARY_SHARE = 0.80
_LIBRARY_MEMORY_SHARE = 0.70


@dataclass(frozen=True)
class Shape:
    """The sizes of a product."""

    m: int
    n: int
    k: int


def rate(work: Work, target: Target, precision: str) -> float:
    """The matrix rate for a class of types, in TFLOP/s; 0 where the target has no unit for it."""
    rates = target.matrix_rates
    match work.name:
        case "half":
            return rates["f16"]
        case "f8":
            return rates["f8e4m3"] or rates["f16"]
        case "f32":
            return rates["f32"] if precision != "ieee" else 0.0
        case "f64":
            return rates["f64"] if target.name in ("sm_80", "sm_90", "gfx90a", "gfx950") else 0.0
        case "i8":
            return rates["i8"]
    return 0.0


def plain_rate(work: Work, target: Target) -> float:
    """The rate without a matrix unit, in TFLOP/s: f64 at half of f32's on data-centre parts, 1/64 elsewhere."""
    if work.name == "f64":
        return target.f32_rate / (2 if target.name in ("sm_80", "sm_90", "sm_100") or target.is_amd else 64)
    return target.f32_rate * (0.25 if work.name == "int" else 1.0)


@dataclass(frozen=True)
class Prepared:
    """What of a config's time does not depend on the shape: tiles of a multiprocessor at once, operations and bytes a
    microsecond, the bytes that a tile has in flight, what it takes for each position of k, and to write it."""

    config: ProductConfig
    resident: int
    tile_rate: float
    memory_rate: float
    flight: float
    operations: float
    loads: float
    written: float

    def is_behind(self, other: Prepared) -> bool:
        """Whether another config of the same tile is at least as good in everything."""
        return (
            other.resident >= self.resident
            and other.tile_rate >= self.tile_rate
            and other.memory_rate >= self.memory_rate
            and other.flight >= self.flight
        )


def prepared(config: ProductConfig, work: Work, target: Target, precision: str) -> Prepared:
    """A config with what its rates are on a target."""
    m, n, k = config.tile
    threads = config.warps * target.warp_size
    by_shared = target.shared_bytes // max(reserved_bytes(config, work, target), 1)
    is_plain = work.name == "half" and work.products == 1 and not work.has_prologue
    spare = _SPARE_REGISTERS if target.name == "sm_90" and is_plain and config.form != "vector" else 0
    by_registers = target.registers // (max(thread_registers(config, work, target) - spare, 32) * threads)
    resident = max(1, min(by_shared, by_registers, 2048 // threads, 16))
    if config.strategy == "descriptors":
        resident = 1
    unit = rate(work, target, precision)
    share = _share(config, unit)
    if resident == 1 and config.strategy != "descriptors":
        share *= 0.95  # nothing hides the first loads of its tiles
    loads = float(m * work.left_bytes + n * work.right_bytes)
    stages = max(config.stages - 1, 1) if config.form in ("dot", "swapped") else 1
    reached = _MEMORY_SHARE["vector" if config.form == "vector" else config.strategy]
    if config.form == "vector":
        reached *= (1 - _VECTOR_LOSS * max(math.log2(k / _VECTOR_COLUMNS), 0.0)) * n / (n + _VECTOR_LEFT)
    return Prepared(
        config=config,
        resident=resident,
        tile_rate=share * (unit or plain_rate(work, target)) * 1e6 / target.multiprocessors,
        memory_rate=target.bandwidth * 1e3 * reached,
        flight=loads * 4
        if config.form == "outer"
        else n * work.right_bytes * k
        if config.form == "vector"
        else loads * k * stages,
        operations=2.0 * m * n * work.products,
        loads=loads,
        written=m * n * _WRITE * 1e-3 if resident == 1 or target.name == "sm_90" else 0.0,
    )


def _share(config: ProductConfig, unit: float) -> float:
    """Which share of the peak rate a tile reaches."""
    m, n, _ = config.tile
    if config.form == "outer":
        return _OUTER_SHARE * min(1.0, m * n / 1024)
    if config.form == "vector":
        return _OUTER_SHARE
    if not unit:
        return _FMA_SHARE * min(1.0, m * n / 4096)
    size = m * n / (m + n)
    share = min(_PEAK_SHARE * size / (size + _HALF_SIZE), _BEST_SHARE)
    if config.strategy == "pointers":
        share *= _POINTERS
    if m > n and config.form == "dot":
        share *= _ROWS_OVER_COLUMNS
    if (config.warps == 8 and m * n < 128 * 128) or (config.warps == 4 and m * n > 128 * 128):
        share *= 0.85
    return share


def microseconds(one: Prepared, shape: Shape, work: Work, target: Target) -> float:
    """The predicted time of a product of a shape."""
    config = one.config
    m, n, _ = config.tile
    tiles = -(-shape.m // m) * -(-shape.n // n) * config.split
    waves = -(-tiles // (target.multiprocessors * one.resident))
    depth = -(-shape.k // config.split)
    together = min(one.resident, -(-tiles // target.multiprocessors))
    flight = one.flight * together
    memory_rate = one.memory_rate * flight / (flight + _HALF_FLIGHT)
    written = one.written if together == 1 else 0.0
    compute = waves * (one.operations * depth * together / one.tile_rate + written)
    busy = min(1.0, tiles / target.multiprocessors)
    through_l2 = tiles * depth * one.loads / (memory_rate * _L2_OVER_MEMORY * busy)
    moved = (
        shape.k * (shape.m * work.left_bytes + shape.n * work.right_bytes)
        + shape.m * shape.n * work.out_bytes
    )
    from_memory = moved / (memory_rate * min(1.0, busy * 2))
    time = max(compute, through_l2, from_memory) + _LAUNCH + _FILL * min(waves, 4) / one.resident
    if config.split > 1:
        sums = shape.m * shape.n * work.sum_bytes * work.products * config.split
        time += _SECOND_KERNEL + 2 * sums / (memory_rate * _L2_OVER_MEMORY)
    if config.form == "swapped" and work.products > 1:
        time *= _SWAPPED_TWICE
    return time * (0.99 if config.halves else 1.0)


def library_microseconds(shape: Shape, work: Work, target: Target) -> float:
    """The predicted time of the vendor's product and the kernel behind it."""
    peak = rate(work, target, "tf32" if work.name != "f32" else "ieee") or plain_rate(work, target)
    if target.name == "sm_75" and work.name == "half":
        peak = 65.0  # the vendor's library has the T4's matrix unit, which Triton has not
    compute = 2.0 * shape.m * shape.n * shape.k * work.products / (peak * 1e6 * _LIBRARY_SHARE)
    memory_rate = target.bandwidth * 1e3 * _LIBRARY_MEMORY_SHARE
    moved = shape.k * (shape.m * work.left_bytes + shape.n * work.right_bytes)
    sums = shape.m * shape.n * work.products * work.sum_bytes
    behind = (2 * sums + shape.m * shape.n * work.out_bytes) / memory_rate
    return max(compute, moved / memory_rate) + behind + _LAUNCH + _SECOND_KERNEL
