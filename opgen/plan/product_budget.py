"""What a product's config needs of a GPU, against what this has: shared memory, registers, threads, least tiles.

Shared memory was read from what Triton 3.7.1 compiles (see the tests in `tests/compile`): a pipelined loop holds
`stages` buffers of both operands' tiles on sm_90 and sm_100, one less on other NVIDIA and on AMD GPUs, one alone on
sm_75, which has no asynchronous copies; a persistent loop keeps them while a tile is written, which takes the tile (or
half of it) in the result's type besides.
"""

from __future__ import annotations

from dataclasses import dataclass

from opgen.plan.model import ProductConfig
from opgen.targets import Target

#: Bytes beside the buffers: barriers, and what reductions and layout changes take.
_BESIDE = {"sm_100": 1024}
_BESIDE_ELSEWHERE = 512
#: What warps exchange at most to add up a row, or to change the layout of a column, bytes.
_EXCHANGED = 4096
#: Registers of a thread, and those that addresses, loop counters and the epilogue take beside sums and operands. A
#: 128x256x64 tile of 8 warps needs 255 and spills on sm_80, 128x128x32 of 4 warps takes 242 and does not.
_THREAD_REGISTERS = 255
_OTHER_REGISTERS = 60
#: Registers that hold a step's operands where the matrix unit reads them from registers, as before sm_90.
_OPERAND_REGISTERS = 32
#: Sums of a thread that RDNA's matrix unit leaves room for: it holds each operand twice.
_RDNA_SUMS = 64


@dataclass(frozen=True)
class Work:
    """What a product does whatever its config: widths in bytes of the multiplied type, of an element of each side's
    operands as they are loaded, of the sums and of the results; and how many products share a tile."""

    name: str
    width: int
    left_bytes: int
    right_bytes: int
    sum_bytes: int
    out_bytes: int
    products: int = 1
    has_prologue: bool = False


@dataclass(frozen=True)
class Excess:
    """Why a config does not fit: a reason with its figure and the limit."""

    reason: str
    figure: int
    limit: int


def shared_bytes(config: ProductConfig, work: Work, target: Target) -> int:
    """Shared memory of a program, an upper bound."""
    m, n, k = config.tile
    if config.form in ("vector", "outer"):
        return m * n * work.sum_bytes + _EXCHANGED
    buffers = (m * work.left_bytes + n * work.right_bytes) * k * _buffers(config, target)
    written = m * n * work.out_bytes // (2 if config.halves else 1)
    beside = _BESIDE.get(target.name, _BESIDE_ELSEWHERE)
    if config.strategy == "descriptors":
        return buffers + written + beside
    return max(buffers, written) + beside


def _buffers(config: ProductConfig, target: Target) -> int:
    if target.name == "sm_75":
        return 1
    copies_whole_tiles = target.has_descriptors and target.name != "sm_120"
    return config.stages if copies_whole_tiles else max(config.stages - 1, 1)


def thread_registers(config: ProductConfig, work: Work, target: Target) -> int:
    """Registers of a thread, about."""
    m, n, k = config.tile
    threads = config.warps * target.warp_size
    if config.form == "vector":
        return n * k * (work.sum_bytes + work.width * 2) // 4 // threads + _OTHER_REGISTERS
    sums = m * n * work.products * work.sum_bytes // 4 // threads
    if config.form == "outer":
        return sums + 4 * (m + n) * work.sum_bytes // 4 // (threads // 8) + _OTHER_REGISTERS
    loads = (m * work.left_bytes + n * work.right_bytes) * k // 16 // threads
    if config.strategy == "descriptors":
        loads = 0
    held = 0 if target.name in ("sm_90", "sm_100") and work.width <= 2 else _OPERAND_REGISTERS
    if target.name == "sm_100" and work.width <= 2:
        sums //= 2  # they lie in tensor memory until they are written
    return sums + 2 * loads + held + _OTHER_REGISTERS


def excess(config: ProductConfig, work: Work, target: Target) -> Excess | None:
    """The first limit of a target that a config passes, None where it fits."""
    m, n, k = config.tile
    threads = config.warps * target.warp_size
    least = 16 if work.width > 1 else 32
    if threads > target.max_threads:
        return Excess("threads", threads, target.max_threads)
    if config.form in ("dot", "swapped"):
        if k < least:
            return Excess("least block of k", k, least)
        if min(m, n) < 16:
            return Excess("least tile", min(m, n), 16)
    if m * n < threads // 4 and config.form == "dot":
        return Excess("threads for the elements of a tile", threads, 4 * m * n)
    shared = shared_bytes(config, work, target)
    if shared > target.shared_bytes:
        return Excess("bytes of shared memory", shared, target.shared_bytes)
    registers = thread_registers(config, work, target)
    limit = 2 * _THREAD_REGISTERS if target.is_amd and target.warp_size == 64 else _THREAD_REGISTERS - 15
    if registers > limit:
        return Excess("registers of a thread", registers, limit)
    if target.name == "gfx1100" and config.form in ("dot", "swapped"):
        sums = m * n * work.products // threads
        if sums > _RDNA_SUMS:
            return Excess("sums of a thread", sums, _RDNA_SUMS)
    return None
