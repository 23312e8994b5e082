"""How many programs of a kernel a multiprocessor can hold at a time.

NVIDIA: the table of technical specifications by compute capability of the CUDA C++ programming guide; registers are
given to warps in units of 256, and from sm_80 on each block takes 1 KiB of shared memory for the system.
AMD: waves and vector registers of a SIMD from the LLVM user guide for the AMDGPU backend; a compute unit has four
SIMDs (CDNA) or two (RDNA).
"""

from __future__ import annotations

from dataclasses import dataclass

from opgen.targets import Target


@dataclass(frozen=True)
class Residency:
    """What a multiprocessor holds: warps, blocks, bytes of shared memory, and those that each block takes besides.

    `simds` share the warps; `lane_registers` are those of a lane of one SIMD, given in steps of `granule`. NVIDIA's
    registers are 64 K for all.
    """

    warps: int
    blocks: int
    shared_bytes: int
    reserved_bytes: int = 1024
    simds: int = 4
    lane_registers: int = 512
    granule: int = 8


_RESIDENCIES = {
    "sm_75": Residency(32, 16, 65536, reserved_bytes=0),
    "sm_80": Residency(64, 32, 167936),
    "sm_86": Residency(48, 16, 102400),
    "sm_89": Residency(48, 24, 102400),
    "sm_90": Residency(64, 32, 233472),
    "sm_100": Residency(64, 32, 233472),
    "sm_120": Residency(48, 24, 102400),
    "gfx90a": Residency(32, 32, 65536, reserved_bytes=0),
    "gfx942": Residency(32, 32, 65536, reserved_bytes=0),
    "gfx950": Residency(32, 32, 163840, reserved_bytes=0),
    "gfx1100": Residency(32, 32, 65536, reserved_bytes=0, simds=2, lane_registers=1536, granule=24),
}


def occupancy(target: Target, warps: int, registers: int, shared_bytes: int) -> float:
    """The share of a multiprocessor's warps that programs of `warps` warps can fill: 0 where not one fits.

    `registers` are those of a thread, `shared_bytes` those of a program.
    """
    has = _RESIDENCIES[target.name]
    fitting = [has.blocks, has.warps // warps, _by_registers(target, has, warps, registers)]
    if shared_bytes:
        fitting.append(has.shared_bytes // (shared_bytes + has.reserved_bytes))
    return max(min(fitting), 0) * warps / has.warps


def _by_registers(target: Target, has: Residency, warps: int, registers: int) -> int:
    if target.is_amd:
        taken = -(-max(registers, 1) // has.granule) * has.granule
        per_simd = min(has.lane_registers // taken, has.warps // has.simds)
        return per_simd * has.simds // warps
    taken = -(-max(registers, 1) * target.warp_size // 256) * 256
    return target.registers // taken // warps
