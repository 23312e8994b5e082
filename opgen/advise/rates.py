"""What the predictions rest on: shares of a target's peak rates that real kernels reach, and times of launches.

One table, each row with its source. All were measured on an H200 and are taken for every target; the peaks are those of
`opgen.targets`.
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

COPY_SHARE = Rate(
    4270 / 4800,
    "of peak bandwidth",
    f"{_H200}: copies of 89 MB to 1.1 GB take 4.4 us, and a second for each 4,270 GB",
)
OPERAND_SHARE = Rate(
    0.90,
    "of copy bandwidth",
    f"{_H200}: products of 1 to 64 rows, by the bytes of their right operand",
)
L2_FACTOR = Rate(
    2.0, "times copy bandwidth", f"{_H200}: rows of 65,536 that are read again take so much longer"
)
SM_FACTOR = Rate(
    2.2,
    "times its part of copy bandwidth",
    f"{_H200}: what a multiprocessor moves where others have nothing to do; products of 44 to 64 tiles",
)
LATENCY = Rate(
    1.36,
    "us",
    f"{_H200}: of memory under load, from rows of 2,648 and 4,272 columns, which have too few bytes on their way",
)
VECTOR_SHARE = Rate(
    0.83,
    "of peak f32 rate",
    f"{_H200}: fitted to 70 kernels of rows, with what the table of primitives says that each function costs",
)
PLAIN_SHARE = Rate(
    0.75, "of peak f32 rate", f"{_H200}: exact products of f32, 2,048 x 4,096 x 4,096, reach 50 TFLOP/s"
)
MATRIX_SHARE = Rate(
    0.84, "of peak matrix rate", f"{_H200}: what the largest tile of ours reaches in one wave"
)
LIBRARY_PEAK = Rate(
    1.6,
    "of peak matrix rate",
    f"{_H200}: fitted to 52 products; a tile of m x n of the library's reaches this times h / (h + half size), "
    "with h = m n / (m + n)",
)
LIBRARY_HALF_SIZE = Rate(64, "elements", "the half size of that")
LIBRARY_SHARE = Rate(0.82, "of peak matrix rate", f"{_H200}: the most that a tile of the library's reaches")
CALL = Rate(3.1, "us", f"{_H200}: between two events, beside the kernels: one kernel takes 5.7, three 10.9")
KERNEL = Rate(2.6, "us", f"{_H200}: start, first load and end of a kernel")
PRODUCT_FILL = Rate(0.6, "us", f"{_H200}: until the first tiles of a product are loaded")
PRODUCT_RAMP = Rate(
    3.0,
    "us",
    f"{_H200}: until memory is at its rate for a product; those of 1 to 64 rows take 9.3 and their bytes",
)
WRITE = Rate(0.05, "ns", f"{_H200}: an element of the library's tile, at its end")
ROW_STEP = Rate(0.5, "us", f"{_H200}: fitted to F.layer_norm: a program's next load of a row it walks")
ROW_JOIN = Rate(1.3, "us", f"{_H200}: fitted to F.layer_norm: joining what the threads of a row have reduced")
FUSED_JOIN = Rate(0.5, "us", f"{_H200}: the same in a kernel of ours")
CAST_SHARE = Rate(0.7, "of copy bandwidth", f"{_H200}: PyTorch's kernels that change an element type")
FUSED_CALL = Rate(15.3, "us", f"{_H200}: host time of a launch, 13.3, and of an allocation, 2.0")
EAGER_CALL = Rate(10.0, "us", f"{_H200}: host time of an eager F.silu")

TABLE: dict[str, Rate] = {
    "copy": COPY_SHARE,
    "operands": OPERAND_SHARE,
    "L2": L2_FACTOR,
    "one multiprocessor": SM_FACTOR,
    "latency": LATENCY,
    "instructions": VECTOR_SHARE,
    "exact f32 products": PLAIN_SHARE,
    "matrix unit": MATRIX_SHARE,
    "library, peak": LIBRARY_PEAK,
    "library, half size": LIBRARY_HALF_SIZE,
    "library": LIBRARY_SHARE,
    "call": CALL,
    "kernel": KERNEL,
    "product, fill": PRODUCT_FILL,
    "product, ramp": PRODUCT_RAMP,
    "product, write": WRITE,
    "row, step": ROW_STEP,
    "row, join": ROW_JOIN,
    "row, join, fused": FUSED_JOIN,
    "cast": CAST_SHARE,
    "host, fused": FUSED_CALL,
    "host, eager": EAGER_CALL,
}


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
    return target.f32_rate * PLAIN_SHARE.value * 1e6


def instructions_per_microsecond(target: Target) -> float:
    """f32 instructions of elementwise work: the peak counts a fused multiply-add as two operations."""
    return target.f32_rate / 2 * 1e6 * VECTOR_SHARE.value
