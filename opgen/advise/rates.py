"""What the predictions rest on: shares of a target's peak rates that real kernels reach, and times of launches.

One table, each row with its source. The shares were measured on an H200 and are taken for every target; the peaks are
those of `opgen.targets`.
"""

from __future__ import annotations

from dataclasses import dataclass

from opgen.targets import Target


@dataclass(frozen=True)
class Rate:
    """A figure, its unit, and where it comes from."""

    value: float
    unit: str
    source: str


_H200 = "one NVIDIA H200, torch 2.11, Triton 3.6, bf16"

COPY_SHARE = Rate(4172 / 4800, "of peak bandwidth", f"{_H200}: a large copy moves 4,172 GB/s of 4,800")
ROW_SHARE = Rate(0.90, "of copy bandwidth", f"{_H200}: the best plain row kernels reach 0.79 to 0.99")
MATRIX_SHARE = Rate(
    790 / 989, "of peak matrix rate", f"{_H200}: the bare product reaches up to 790 TFLOP/s of 989"
)
LIBRARY_SHARE = Rate(0.93, "of that rate", f"{_H200}: fitted to the library's product at seven large sizes")
FUSED_SHARE = Rate(0.97, "of that rate", f"{_H200}: fitted to plain persistent kernels at the same sizes")
VECTOR_SHARE = Rate(0.67, "of peak f32 rate", f"{_H200}: fitted to gelu, mish, softplus, softcap, dropout")
FEW_ROWS_LIBRARY = Rate(
    0.74, "of copy bandwidth", f"{_H200}: 1 to 64 rows take 41 us, 28 of them for their bytes"
)
FEW_ROWS_FUSED = Rate(0.77, "of copy bandwidth", f"{_H200}: 1 to 64 rows take 39.5 us with operands swapped")
ONE_ROW_FUSED = Rate(0.94, "of copy bandwidth", f"{_H200}: one row takes 33 us in the matrix-vector form")
LAUNCH = Rate(3.0, "us", f"{_H200}: a kernel with nothing to do takes 3 to 5 on the device")
FUSED_CALL = Rate(15.3, "us", f"{_H200}: host time of a launch, 13.3, and of an allocation, 2.0")
EAGER_CALL = Rate(10.0, "us", f"{_H200}: host time of an eager F.silu")

TABLE: dict[str, Rate] = {
    "copy": COPY_SHARE,
    "rows": ROW_SHARE,
    "matrix unit": MATRIX_SHARE,
    "library": LIBRARY_SHARE,
    "fused product": FUSED_SHARE,
    "instructions": VECTOR_SHARE,
    "few rows, library": FEW_ROWS_LIBRARY,
    "few rows, fused": FEW_ROWS_FUSED,
    "one row, fused": ONE_ROW_FUSED,
    "launch": LAUNCH,
    "host, fused": FUSED_CALL,
    "host, eager": EAGER_CALL,
}

#: Shares of copy bandwidth that PyTorch's own row kernels reach, from two sizes of each.
EAGER_ROWS = {"softmax": 0.40, "log_softmax": 0.40, "layer_norm": 0.59}
OTHER_EAGER_ROWS = 0.80

#: Tiles that product libraries choose from, with the share of the matrix rate that one reaches. Measured on an H200:
#: 128 x 128 is 10 to 20 % slower than 128 x 256; the smaller ones are assumed.
TILES: tuple[tuple[int, int, float], ...] = (
    (128, 256, 1.0),
    (128, 128, 0.85),
    (64, 256, 0.80),
    (64, 128, 0.65),
    (64, 64, 0.45),
)


def bytes_per_microsecond(target: Target) -> float:
    """What a large copy moves."""
    return target.bandwidth * 1e3 * COPY_SHARE.value


def has_matrix_unit(target: Target, dtype: str) -> bool:
    """Whether Triton multiplies an element type on a matrix unit; `f32 ieee`, exact f32, never."""
    return target.matrix_rates.get(dtype, 0) > 0


def matrix_operations_per_microsecond(target: Target, dtype: str) -> float:
    """Operations of products of an element type; those of the plain f32 units where there is no matrix unit."""
    if has_matrix_unit(target, dtype):
        return target.matrix_rates[dtype] * MATRIX_SHARE.value * 1e6
    return target.f32_rate * VECTOR_SHARE.value * 1e6


def instructions_per_microsecond(target: Target) -> float:
    """f32 instructions of elementwise work: the peak counts a fused multiply-add as two operations."""
    return target.f32_rate / 2 * 1e6 * VECTOR_SHARE.value
