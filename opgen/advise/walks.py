"""How kernels walk what they reduce, as PyTorch's sources and opgen's plans have it, and the time that this takes."""

from __future__ import annotations

import math
from dataclasses import dataclass

from opgen.advise import rates
from opgen.advise.counts import Kernel
from opgen.plan.model import RowBand, RowConfig
from opgen.targets import Target

_THREADS = 2048
"""That a multiprocessor runs at a time."""

_ROW_OF_WARP = 2048
"""Columns that PyTorch's softmax gives to one warp."""

_BESIDE_TILE = 32
"""Registers of a thread beside the elements of a row that it holds."""


@dataclass(frozen=True)
class _Walk:
    """PyTorch's kernel for a row: how often it goes through it, how often it reads that from memory, how often it joins
    what its threads have reduced, the threads of its block, and the elements that each takes at a time."""

    passes: int
    reads: int
    joins: int
    threads: int
    vector: int


def _walk(name: str, columns: int) -> _Walk:
    """PyTorch 2.11: `layer_norm_kernel.cu`, `PersistentSoftmax.cuh`, `SoftMax.cu` and `Reduce.cuh`."""
    if name == "layer_norm":
        return _Walk(passes=2, reads=2, joins=1, threads=128, vector=4)
    if name == "rms_norm":  # joins one number, not mean, squares and count
        return _Walk(passes=2, reads=1, joins=0, threads=128, vector=4)
    if name in ("softmax", "log_softmax"):
        if columns <= _ROW_OF_WARP:
            return _Walk(passes=1, reads=1, joins=2, threads=32, vector=8)
        return _Walk(passes=3, reads=2, joins=2, threads=min(1024, power_of_two(columns / 8)), vector=8)
    threads = max(32, min(512, power_of_two(columns / 8)))
    return _Walk(passes=1, reads=1, joins=1, threads=threads, vector=4)


def eager_rows(kernel: Kernel, target: Target) -> float:
    """Microseconds of PyTorch's kernel for rows: its bytes, and the steps of its blocks, which partly overlap."""
    walk = _walk(kernel.what, kernel.columns)
    read = kernel.bytes // 2 if walk.reads > 1 else 0  # as many as it writes
    memory = (kernel.bytes + (walk.reads - 1) * read) / rates.bytes_per_microsecond(target)
    steps = walk.passes * -(-kernel.columns // (walk.threads * walk.vector))
    waves = -(-kernel.rows // (target.multiprocessors * (_THREADS // walk.threads)))
    waiting = waves * (steps * rates.ROW_STEP.value + walk.joins * rates.ROW_JOIN.value)
    instructions = kernel.instructions / rates.instructions_per_microsecond(target)
    return max(math.hypot(memory, waiting), instructions)


def fused_rows(kernel: Kernel, config: RowConfig | None, target: Target) -> float:
    """Microseconds of opgen's kernel for rows.

    A row in registers is rounded up to a power of two, and what one program computes hides only the loads of the others
    on its multiprocessor, whose rows are all that is on its way there. A longer one is read again, from L2.
    """
    memory = kernel.bytes / rates.bytes_per_microsecond(target)
    instructions = kernel.instructions / rates.instructions_per_microsecond(target)
    if config is None:
        return max(memory, instructions)
    band = next((one for one in config.along if one.serves(kernel.columns)), config.along[-1])
    is_resident = band.longest >= kernel.columns
    columns = power_of_two(kernel.columns) if is_resident else band.columns or band.elements
    tile_rows = max(band.elements // columns, 1)
    tiles = -(-kernel.rows // tile_rows)
    if 4 * tiles <= target.multiprocessors and kernel.columns >= config.split:
        return max(memory, instructions) + rates.KERNEL.value  # in pieces, which a second kernel joins
    busy, resident = tiles / target.multiprocessors, _resident(band, target)
    padded = -(-kernel.columns // columns) * columns / max(kernel.columns, 1)
    instructions *= padded * math.ceil(busy) / busy
    memory /= min(1.0, busy * rates.SM_FACTOR.value)
    if not is_resident:
        again = kernel.rows * kernel.columns * config.width
        memory += again / (rates.bytes_per_microsecond(target) * rates.L2_FACTOR.value)
    elif busy > resident:
        memory /= _flight_share(resident * tile_rows * kernel.columns * config.width, target)
    shorter, longer = sorted((memory, instructions))
    return longer + shorter / resident + kernel.joins * rates.FUSED_JOIN.value


def _flight_share(on_their_way: int, target: Target) -> float:
    """The share of memory's rate that so many bytes on their way to one multiprocessor reach."""
    needed = rates.LATENCY.value * rates.bytes_per_microsecond(target) / target.multiprocessors
    return min(1.0, on_their_way / needed)


def _resident(band: RowBand, target: Target) -> int:
    """Programs of a multiprocessor at a time."""
    threads = band.warps * target.warp_size
    registers = _BESIDE_TILE + band.elements // threads
    most = band.programs or _THREADS // threads
    return max(1, min(most, _THREADS // threads, target.registers // (threads * registers)))


def power_of_two(count: float) -> int:
    return 1 << max(math.ceil(count) - 1, 0).bit_length()
