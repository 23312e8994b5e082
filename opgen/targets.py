"""The GPU targets: what the planner and the compiler need to know of each, with sources.

Shared memory is the opt-in limit for one block, in bytes; bandwidth is the vendor's peak in GB/s; matrix rates are
dense TFLOP/s (TOP/s for i8) by operand type, with f32 accumulation where the vendor states both. Figures are of the
part named in `part`, from its maker's datasheet or architecture white paper, shared-memory limits and warp sizes
from the CUDA C++ programming guide (table of technical specifications per compute capability) and AMD's CDNA and RDNA
instruction set guides. A rate of 0 means that Triton has no matrix unit for the type there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Target:
    """A GPU target. `registers` are 32-bit registers of a multiprocessor; `tile_bytes` is what one program of a
    memory-bound kernel should move to keep enough loads in flight (bytes)."""

    name: str
    part: str
    multiprocessors: int
    warp_size: int
    max_threads: int
    registers: int
    shared_bytes: int
    bandwidth: int
    f32_rate: float
    matrix_rates: Mapping[str, float]
    has_f8: bool
    has_descriptors: bool
    tile_bytes: int

    @property
    def is_amd(self) -> bool:
        return self.name.startswith("gfx")


def _rates(f16: float, f32: float = 0, i8: float = 0, f8: float = 0, f64: float = 0) -> dict[str, float]:
    return {"f16": f16, "bf16": f16, "f32": f32, "i8": i8, "f8e4m3": f8, "f8e5m2": f8, "f64": f64}


def _nvidia(
    name: str,
    part: str,
    multiprocessors: int,
    shared_bytes: int,
    bandwidth: int,
    f32_rate: float,
    rates: dict[str, float],
    *,
    tile_bytes: int = 8192,
) -> Target:
    generation = int(name[3:])
    return Target(
        name=name,
        part=part,
        multiprocessors=multiprocessors,
        warp_size=32,
        max_threads=1024,
        registers=65536,
        shared_bytes=shared_bytes,
        bandwidth=bandwidth,
        f32_rate=f32_rate,
        matrix_rates=rates,
        has_f8=generation >= 89,
        has_descriptors=generation >= 90,
        tile_bytes=tile_bytes,
    )


def _amd(
    name: str,
    part: str,
    multiprocessors: int,
    warp_size: int,
    shared_bytes: int,
    bandwidth: int,
    f32_rate: float,
    rates: dict[str, float],
    *,
    has_f8: bool,
) -> Target:
    return Target(
        name=name,
        part=part,
        multiprocessors=multiprocessors,
        warp_size=warp_size,
        max_threads=1024,
        registers=131072,
        shared_bytes=shared_bytes,
        bandwidth=bandwidth,
        f32_rate=f32_rate,
        matrix_rates=rates,
        has_f8=has_f8,
        has_descriptors=False,
        tile_bytes=8192,
    )


_ROWS = (
    _nvidia("sm_75", "T4", 40, 65536, 320, 8.1, _rates(0)),
    _nvidia("sm_80", "A100 80GB SXM", 108, 166912, 2039, 19.5, _rates(312, 156, 624, 0, 19.5)),
    _nvidia("sm_86", "RTX 3090", 82, 101376, 936, 35.6, _rates(71, 35.6, 284)),
    _nvidia("sm_89", "RTX 4090", 128, 101376, 1008, 82.6, _rates(165.2, 82.6, 660.6, 330.3)),
    _nvidia("sm_90", "H200 SXM", 132, 232448, 4800, 67, _rates(989, 494, 1979, 1979, 67)),
    _nvidia("sm_100", "B200", 148, 232448, 8000, 80, _rates(2250, 1100, 4500, 4500)),
    _nvidia("sm_120", "RTX 5090", 170, 101376, 1792, 104.8, _rates(209.5, 104.8, 838, 419)),
    _amd(
        "gfx90a",
        "MI250X, one die",
        110,
        64,
        65536,
        1638,
        23.9,
        _rates(191.5, 47.9, 191.5, 0, 47.9),
        has_f8=False,
    ),
    _amd("gfx942", "MI300X", 304, 64, 65536, 5300, 163.4, _rates(1307, 653, 2615, 2615, 163.4), has_f8=True),
    _amd("gfx950", "MI355X", 256, 64, 163840, 8000, 157.3, _rates(2516, 157, 5033, 5033, 78.6), has_f8=True),
    _amd("gfx1100", "RX 7900 XTX", 96, 32, 65536, 960, 61.4, _rates(122.8, 0, 122.8), has_f8=False),
)

TARGETS: dict[str, Target] = {row.name: row for row in _ROWS}
