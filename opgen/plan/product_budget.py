"""What a product's config needs of a GPU, against what this has: shared memory, registers, threads, least tiles.

Shared memory was read from what Triton 3.7.1 compiles (`benchmarks/vet.md` compares all of it): a pipelined loop holds
`stages` buffers of both operands' tiles, as they are loaded, where the matrix unit reads them from shared memory by
itself, as on sm_90 and sm_100 for tiles of at least 64 rows; one less elsewhere; one alone on sm_75, which has no
asynchronous copies. Operands that are computed, and those of plain multiplications, pass through it once more as they
are multiplied. A persistent loop keeps its buffers while a tile is written, of which a part at a time is exchanged.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from opgen.plan.model import ProductConfig
from opgen.targets import Target

#: Classes of types that each target's matrix unit reads from shared memory by itself, f32 as tf32.
_ASYNCHRONOUS = {"sm_90": ("half", "f8", "i8", "f32"), "sm_100": ("half", "f8", "f32")}
#: The least rows of a tile that it takes, as the operand that lies down.
_ASYNCHRONOUS_ROWS = 64
#: Bytes beside the buffers: barriers, and what layout changes of a row or a column take.
_BESIDE = {"sm_100": 1024}
_BESIDE_ELSEWHERE = 512
#: The part of a tile that is exchanged at a time before it is written, where that is not all of it, and up to how many
#: columns it is, unless finished in halves; tiles with their columns down are turned on the way, of which sm_100
#: exchanges a half or these bytes.
_EXCHANGED_PART = {"sm_100": 4, "sm_120": 2}
_EXCHANGED_WHOLE = {"sm_120": 64}
_EXCHANGED_PART_AMD = 4
_EXCHANGED_PART_RDNA = 2
_EXCHANGED_TURNED = 8192
#: Elements of a thread that are exchanged at a time where a tile is added up column by row, and bytes beside them.
_OUTER_ELEMENTS = 16
_BESIDE_OUTER = 2048
#: Targets where Triton 3.8 and 3.9 hold all buffers, with gaps of this share of them (`benchmarks/triton_versions.md`).
_PADDED_LATER, _PADDED_SHARE = ("gfx950",), 32
#: Bytes that the search sets aside where a tile is added up without a matrix unit.
_RESERVED = 4096
#: Bytes that a thread loads at a time: a row that has less for each changes its layout before it is multiplied.
_WIDEST_LOAD = 16
#: Bytes of a widened row that each lane of AMD's exchanges at a time.
_THREAD_EXCHANGE_AMD = 32
#: Registers of a thread, and those that addresses, loop counters and the epilogue take beside sums and operands. A
#: 128x256x64 tile of 8 warps needs 255 and spills on sm_80, 128x128x32 of 4 warps takes 242 and does not.
_THREAD_REGISTERS = 255
_OTHER_REGISTERS = 60
#: Those kept free of what a thread can have.
_FREE_REGISTERS = 15
#: The same where rows are multiplied without a matrix unit.
_OTHER_REGISTERS_VECTOR = 48
#: Registers that hold a step's operands where the matrix unit reads them from registers, as before sm_90.
_OPERAND_REGISTERS = 32
#: Vector and accumulation registers of a lane of CDNA, which its waves on one of four SIMDs share; and those that a row
#: without matrix instructions finds use for.
_LANE_REGISTERS = 512
_LANE_REGISTERS_VECTOR = 400
_SIMDS = 4
#: Sums of a thread that leave room for drawing a random number with each; half of them where a wave of CDNA has 256
#: registers. Twice as many spill 2,992 bytes on sm_100; of rows that are not aligned 64 spill 760 on sm_86 and 1,120 on
#: sm_120.
_DRAWN_SUMS, _DRAWN_SUMS_FEWER = 64, {"sm_86": 48, "sm_120": 48}
#: Sums of a thread in a tile of plain multiplications: 32x256x16 and 64x128x16 of 4 warps spill 808 and 720 bytes on
#: sm_90 where rows are not aligned, two products of 32x128x32 632 on sm_100, of 64x64x32 392 on sm_86, one of 64x128x16
#: 1,688 on gfx1100.
_PLAIN_SUMS = {"sm_86": 48, "sm_90": 32, "sm_100": 24, "gfx1100": 32}
#: Positions of k whose operands a plain multiplication widens at a time: 64 of 32 x 128 spill 1,584 bytes on sm_80, 32
#: of 64 x 64 spill 384 on sm_120.
_WIDENED_STEP, _WIDENED_STEP_SHORTER = 32, {"sm_120": 16}
#: Instructions for an element of an epilogue, and sums of a thread that leave room for it. Those in tensor memory come
#: back all at once: on sm_100, 128 spill up to 4,672 bytes where erfc is taken of them, finished in halves 1,456. For
#: gelu, 128 spill 640 to 1,288 bytes on the others of NVIDIA, but for 8 warps and short steps on sm_90, and 64 spill
#: 360 on gfx950. On sm_75, where none has a matrix unit, 64 spill 912.
_COSTLY_SUMS = {
    "sm_75": ((32, 32),),
    "gfx950": ((24, 64), (32, 48)),
    **dict.fromkeys(("sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120"), ((32, 64),)),
}
#: Warps, and positions of k in a step, up to which and above which sm_90 has no room for it.
_ONE_GROUP, _SHORT_STEP = 4, 32
#: Sums of a thread of i8 products that are added up column by row.
_OUTER_SUMS_I8 = 32
#: Sums of a thread that RDNA's matrix unit leaves room for: it holds each operand twice.
_RDNA_SUMS = 64
#: Bytes of an i8 that is multiplied, as it passes through shared memory.
_WIDENED_I8 = 2


@dataclass(frozen=True)
class Work:
    """What a product does whatever its config: widths in bytes of the multiplied type, of an element of each side's
    operands as they are loaded and, where they are computed, as they are multiplied, of the sums and of the results;
    and how many products share a tile. `left_copy` and `right_copy` are the bytes of what is computed, `tile_bytes`
    those of the widest element of a whole tile that is read when it is finished.

    `operations` are the instructions for an element then, `draws` says that random numbers are taken, `is_turned`
    that the right operand's columns are contiguous, `is_scattered` that rows are not read in wide pieces.
    """

    name: str
    width: int
    left_bytes: int
    right_bytes: int
    sum_bytes: int
    out_bytes: int
    products: int = 1
    has_prologue: bool = False
    left_copy: int = 0
    right_copy: int = 0
    tile_bytes: int = 0
    operations: int = 0
    draws: bool = False
    is_turned: bool = False
    is_scattered: bool = False


@dataclass(frozen=True)
class Excess:
    """Why a config does not fit: a reason with its figure and the limit."""

    reason: str
    figure: int
    limit: int


def shared_bytes(config: ProductConfig, work: Work, target: Target) -> int:
    """Shared memory of a program, an upper bound."""
    m, n, _ = config.tile
    beside = _BESIDE.get(target.name, _BESIDE_ELSEWHERE)
    if config.form == "vector":
        return n * config.warps * work.sum_bytes + _exchanged_row(config, work, target)
    if config.form == "outer":
        element = work.sum_bytes if config.split > 1 else max(work.out_bytes, 2)
        if target.name == "sm_75" and element == 2:  # bf16 results pass through shared memory whole
            return m * n * element + _BESIDE_ELSEWHERE
        elements = min(m * n, _OUTER_ELEMENTS * config.warps * target.warp_size)
        is_tall = m > 4 * n and not work.is_scattered
        return elements // (2 if is_tall else 1) * element + _BESIDE_OUTER
    operands = _operands(config, work, target)
    if config.strategy == "descriptors":
        return operands + _exchanged(config, work, target) + beside
    return max(operands, _exchanged(config, work, target)) + beside


def _exchanged_row(config: ProductConfig, work: Work, target: Target) -> int:
    """Bytes of a row that changes its layout to that of the right operand, which is loaded in another way."""
    _, n, k = config.tile
    if work.is_scattered:
        return k * work.sum_bytes
    element = _WIDENED_I8 if work.width == 1 else work.sum_bytes
    if _is_widened(work):
        at_a_time = _THREAD_EXCHANGE_AMD * config.warps * target.warp_size
        return min(k * element, at_a_time) if target.is_amd else k * element
    if work.is_turned:
        return k * work.sum_bytes * (8 if target.is_amd else min(n, 8)) // 8
    is_short = k * work.width < _WIDEST_LOAD * config.warps * target.warp_size
    return k * element if is_short else 0


def _operands(config: ProductConfig, work: Work, target: Target) -> int:
    """The buffers of both operands, and the operands as they are multiplied where they pass through once more."""
    m, n, k = config.tile
    left, right = work.left_copy, work.right_copy
    if _is_plain(config, work) and work.has_prologue:
        left, right = left or work.left_bytes, right or work.right_bytes
        if target.is_amd:  # not pipelined, and one takes the place of the other
            return max(m * left, n * right) * k
    elif _is_plain(config, work) and target.is_amd:
        left, right = 0, 0  # widened on the way to where they are multiplied
    loaded = m * (work.left_bytes - work.left_copy) + n * (work.right_bytes - work.right_copy)
    return (loaded * _buffers(config, work, target) + m * left + n * right) * k


def _is_widened(work: Work) -> bool:
    """Whether an operand is multiplied in another width than it is loaded in."""
    sides = ((work.left_bytes, work.left_copy), (work.right_bytes, work.right_copy))
    return any(copied and loaded != 2 * copied for loaded, copied in sides)


def _is_plain(config: ProductConfig, work: Work) -> bool:
    """Whether a tile is made of plain multiplications: no matrix unit multiplies f32 exactly."""
    return work.name == "f32" and config.precision == "ieee"


def _buffers(config: ProductConfig, work: Work, target: Target) -> int:
    if target.name == "sm_75":
        return 1
    return config.stages if _is_asynchronous(config, work, target) else max(config.stages - 1, 1)


def _is_asynchronous(config: ProductConfig, work: Work, target: Target) -> bool:
    """Whether the matrix unit reads both operands from shared memory while the program goes on."""
    known = work.name in _ASYNCHRONOUS.get(target.name, ()) and not _is_plain(config, work)
    return known and _rows_down(config) >= _ASYNCHRONOUS_ROWS


def _is_rounded(config: ProductConfig, work: Work, target: Target) -> bool:
    """Whether Triton gives exact f32 products to the matrix unit, which rounds to tf32: of widened operands alone."""
    return target.name == "sm_100" and _is_plain(config, work) and work.left_copy + work.right_copy > 0


def _rows_down(config: ProductConfig) -> int:
    """The rows of a tile as the matrix unit has it."""
    return config.tile[1] if config.form == "swapped" else config.tile[0]


def _exchanged(config: ProductConfig, work: Work, target: Target) -> int:
    """Bytes of a tile, or of half of it, that threads exchange at a time so that each moves what lies together."""
    m, n, _ = config.tile
    out = work.sum_bytes if config.split > 1 else work.out_bytes
    reads_too = config.form == "swapped" or work.is_scattered
    element = max(out, work.tile_bytes) if reads_too else out
    if target.name == "sm_100" and work.is_scattered:
        element = max(element, work.sum_bytes)
    written = m * n * element // (2 if config.halves else 1)
    if work.is_scattered:
        return written
    if target.is_amd:
        return written // (_EXCHANGED_PART_RDNA if target.name == "gfx1100" else _EXCHANGED_PART_AMD)
    is_kept = config.strategy != "descriptors" and target.name not in _ASYNCHRONOUS
    if config.form == "dot" and is_kept and out >= work.sum_bytes:
        return 0  # written as the matrix unit leaves it
    if config.form == "dot":
        is_whole = n <= _EXCHANGED_WHOLE.get(target.name, 0) and not config.halves
        return written // (1 if is_whole else _EXCHANGED_PART.get(target.name, 1))
    if target.name == "sm_100" and _is_asynchronous(config, work, target):
        return min(written, max(written // 2, _EXCHANGED_TURNED))
    return written


def reserved_bytes(config: ProductConfig, work: Work, target: Target) -> int:
    """Shared memory that the search sets aside for a program: room for whole tiles and all stages, which other releases
    of the compiler may take; never less than `shared_bytes`."""
    m, n, k = config.tile
    known = shared_bytes(config, work, target)
    if config.form in ("vector", "outer"):
        return max(m * n * work.sum_bytes + _RESERVED, known)
    buffers = (m * work.left_bytes + n * work.right_bytes) * k * _reserved_stages(config, target)
    written = m * n * work.out_bytes // (2 if config.halves else 1)
    whole = buffers + written if config.strategy == "descriptors" else max(buffers, written)
    return max(whole + _BESIDE.get(target.name, _BESIDE_ELSEWHERE), known)


def _reserved_stages(config: ProductConfig, target: Target) -> int:
    if target.name == "sm_75":
        return 1
    return config.stages if target.name in _ASYNCHRONOUS else max(config.stages - 1, 1)


def _later_bytes(config: ProductConfig, work: Work, target: Target) -> int:
    """Shared memory of a program as Triton 3.8 and 3.9 compile it, where that is more; 0 elsewhere."""
    if target.name not in _PADDED_LATER or config.form not in ("dot", "swapped"):
        return 0
    m, n, k = config.tile
    buffers = (m * work.left_bytes + n * work.right_bytes) * k * config.stages
    return buffers + buffers // _PADDED_SHARE


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


def _most_registers(config: ProductConfig, work: Work, target: Target) -> int:
    """Registers of a thread, at most: several products of one row are loaded side by side, and sums come back from
    tensor memory all at once where a tile is not finished in halves."""
    registers = thread_registers(config, work, target)
    m, n, k = config.tile
    threads = config.warps * target.warp_size
    if config.form == "vector" and work.products > 1:
        beside = n * k // threads * work.products * (work.sum_bytes + work.width) // 4
        return max(registers, beside + _OTHER_REGISTERS_VECTOR)
    if config.strategy == "descriptors" and work.tile_bytes > work.width:
        pointers = replace(
            config, strategy="pointers", halves=False
        )  # for calls that descriptors cannot serve
        registers = max(registers, thread_registers(pointers, work, target))
    if target.name == "sm_100" and config.form in ("dot", "swapped"):
        finished = m * n * work.products * work.sum_bytes // 4 // threads // (2 if config.halves else 1)
        return max(registers, finished + _OTHER_REGISTERS)
    return registers


def _register_limit(config: ProductConfig, target: Target) -> int:
    """Registers that a thread can have."""
    if target.is_amd and target.warp_size == 64:
        if config.form == "vector":
            return _LANE_REGISTERS_VECTOR
        return _LANE_REGISTERS // max(config.warps // _SIMDS, 1) - _FREE_REGISTERS
    return _THREAD_REGISTERS - _FREE_REGISTERS


def _most_sums(config: ProductConfig, work: Work, target: Target) -> int:
    """Sums that a thread has room for beside what else it holds; as good as any number where registers alone decide."""
    most = [_THREAD_REGISTERS * _SIMDS]
    if config.form == "vector":
        return most[0]
    if target.name != "sm_90" or (config.warps <= _ONE_GROUP and config.tile[2] > _SHORT_STEP):
        most += [sums for costly, sums in _COSTLY_SUMS.get(target.name, ()) if work.operations >= costly]
    if config.form == "outer":
        return min(*most, _OUTER_SUMS_I8) if work.width == 1 else min(most)
    if work.draws:
        is_shared = target.is_amd and target.warp_size == 64 and config.warps > _SIMDS
        most.append(_DRAWN_SUMS_FEWER.get(target.name, _DRAWN_SUMS) // (2 if is_shared else 1))
    if _is_plain(config, work) and target.name in _PLAIN_SUMS:
        most.append(_PLAIN_SUMS[target.name])
    if target.name == "gfx1100":
        most.append(_RDNA_SUMS)
    return min(most)


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
        is_widened = work.left_copy + work.right_copy > 0 and not work.has_prologue
        step = _WIDENED_STEP_SHORTER.get(target.name, _WIDENED_STEP)
        if k > step and is_widened and _is_plain(config, work):
            return Excess("positions of k that are widened at a time", k, step)
        rows = _rows_down(config)
        if rows >= _ASYNCHRONOUS_ROWS and _is_rounded(config, work, target):
            return Excess("rows of a tile that is multiplied exactly", rows, _ASYNCHRONOUS_ROWS // 2)
    if m * n < threads // 4 and config.form == "dot":
        return Excess("threads for the elements of a tile", threads, 4 * m * n)
    shared = max(reserved_bytes(config, work, target), _later_bytes(config, work, target))
    if shared > target.shared_bytes:
        return Excess("bytes of shared memory", shared, target.shared_bytes)
    registers = _most_registers(config, work, target)
    limit = _register_limit(config, target)
    if registers > limit:
        return Excess("registers of a thread", registers, limit)
    sums, most = m * n * work.products // threads, _most_sums(config, work, target)
    if sums > most:
        return Excess("sums of a thread", sums, most)
    return None
