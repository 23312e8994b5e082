"""The largest error of each device function, in units in the last place, against a float64 oracle.

Measures the functions of `templates/runtime/_math.py`
and
those of `grammar/prelude.op` as formulas over the functions; on a GPU where there is one, else
under Triton's interpreter:

    python benchmarks/function_accuracy.py --json accuracy.json
    python benchmarks/function_accuracy.py --exhaustive exp tanh      # all 2^32 floats: on a GPU

A row gives the largest error where the result is normal, its limit, and the argument it was seen
at; the largest error where the result is subnormal, in units of the smallest normal float; and how
often a special argument (0, 1, infinite, NaN) gives a NaN, an infinity or a sign of zero that the
oracle has not, or any other argument a NaN.
"""

import argparse
import functools
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
import triton
import triton.language as tl

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.function_cases import CASES, DEVICE, Case, Tensors, device_function, unary_arguments

BLOCK = 1024 if DEVICE == "cuda" else 1 << 17


@triton.jit  # type: ignore[untyped-decorator]
def unary_kernel(x, y, n, function: tl.constexpr, block: tl.constexpr):  # type: ignore[no-untyped-def]
    """y = function(x), elementwise over n elements."""
    i = tl.program_id(0) * block + tl.arange(0, block)
    tl.store(y + i, function(tl.load(x + i, i < n)), i < n)


@triton.jit  # type: ignore[untyped-decorator]
def binary_kernel(x, z, y, n, function: tl.constexpr, block: tl.constexpr):  # type: ignore[no-untyped-def]
    """y = function(x, z), elementwise over n elements."""
    i = tl.program_id(0) * block + tl.arange(0, block)
    tl.store(y + i, function(tl.load(x + i, i < n), tl.load(z + i, i < n)), i < n)


def evaluate(function: Any, inputs: Tensors) -> torch.Tensor:
    """`function` of one or two tensors of one length, computed by a kernel; the result is where they are."""
    n = inputs[0].numel()
    y = torch.empty_like(inputs[0], device=DEVICE)
    kernel = unary_kernel if len(inputs) == 1 else binary_kernel
    kernel[(triton.cdiv(n, BLOCK),)](*(x.to(DEVICE) for x in inputs), y, n, function, BLOCK)
    return y.to(inputs[0].device)


@dataclass(frozen=True)
class Row:
    """What was seen of one function in one type, over `count` arguments."""

    name: str
    source: str
    dtype: str
    count: int
    ulp: float
    limit: float
    at: tuple[float, ...]
    subnormal: float
    edges_wrong: int
    edge: tuple[float, ...]

    @property
    def good(self) -> bool:
        """Whether the errors keep to their limits and no special value is wrong."""
        return self.ulp <= self.limit and self.subnormal <= 1.0 and self.edges_wrong == 0


def error_in_ulp(
    y: torch.Tensor, wanted: torch.Tensor, dtype: torch.dtype
) -> tuple[torch.Tensor, torch.Tensor]:
    """|y - wanted| in units in the last place of `wanted` in `dtype`, and whether `wanted` is
    subnormal there.

    The unit of a subnormal is the smallest normal float. In float32 an infinity counts as 2^128.
    """
    info = torch.finfo(dtype)
    top = info.max if dtype == torch.float64 else 2.0**128
    y, wanted = y.double().clamp(-top, top), wanted.clamp(-top, top)
    exponent = torch.frexp(wanted).exponent.clamp(max=128 if dtype == torch.float32 else 1024)
    small = wanted.abs() < info.tiny
    scale = torch.where(small, info.tiny, torch.exp2(exponent.double() - 1) * info.eps)
    return ((y - wanted).abs() / scale).nan_to_num(0.0), small


def same_edge(y: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
    """Whether both are NaN, or agree on being infinite and, where the wanted value is a zero, on
    its sign.
    """
    infinite = y.isinf() == wanted.isinf()
    zero = (wanted != 0) | (y.signbit() == wanted.signbit())
    return torch.where(wanted.isnan() | y.isnan(), wanted.isnan() & y.isnan(), infinite & zero)


def measure_batch(case: Case, function: Any, dtype: torch.dtype, inputs: Tensors) -> Row:
    """Compare `function` with the oracle of `case` on one batch of arguments.

    Subnormal arguments, which a function may read as zero, count for special values alone.
    """
    y, wanted = evaluate(function, inputs), case.oracle(*(x.double() for x in inputs))
    special = torch.ones_like(y, dtype=torch.bool)
    subnormal = torch.zeros_like(special)
    for x in inputs:
        special &= (x == 0) | (x.abs() == 1) | ~x.isfinite()
        subnormal |= (x != 0) & (x.abs() < torch.finfo(dtype).tiny)
    wrong = torch.where(special, ~same_edge(y, wanted.to(dtype)), y.isnan() != wanted.isnan()) & ~subnormal
    error, small = error_in_ulp(y, wanted, dtype)
    normal = torch.where(small | subnormal, 0.0, error)
    worst, first = int(normal.argmax()), int(wrong.int().argmax())
    return Row(
        name=case.name,
        source=case.source,
        dtype=str(dtype).removeprefix("torch."),
        count=y.numel(),
        ulp=float(normal[worst]),
        limit=case.limit,
        at=tuple(float(x[worst]) for x in inputs),
        subnormal=float(torch.where(small & ~subnormal, error, 0.0).max()),
        edges_wrong=int(wrong.sum()),
        edge=tuple(float(x[first]) for x in inputs) if bool(wrong.any()) else (),
    )


def merged(a: Row, b: Row) -> Row:
    """One row for the arguments of two."""
    worse = a if a.ulp >= b.ulp else b
    return replace(
        worse,
        count=a.count + b.count,
        subnormal=max(a.subnormal, b.subnormal),
        edges_wrong=a.edges_wrong + b.edges_wrong,
        edge=a.edge or b.edge,
    )


def every_float32(batch: int) -> Iterator[Tensors]:
    """All 2^32 floats."""
    for start in range(-(1 << 31), 1 << 31, batch):
        bits = torch.arange(start, start + batch, dtype=torch.int64, device=DEVICE)
        yield (bits.to(torch.int32).view(torch.float32),)


def measure(case: Case, dtype: torch.dtype, count: int, exhaustive: bool) -> Row:
    """Measure one function on `count` drawn arguments, or on all floats if it is a unary one of
    float32.
    """
    if exhaustive and dtype == torch.float32 and case.arguments is unary_arguments:
        batches = every_float32(min(1 << 26, 16 * count))
    else:
        batches = iter([tuple(x.to(DEVICE) for x in case.arguments(count, dtype))])
    function = device_function(case)
    return functools.reduce(merged, (measure_batch(case, function, dtype, inputs) for inputs in batches))


def report(row: Row) -> str:
    """A line of the table."""
    at = ", ".join(f"{a:.9g}" for a in row.at) + (f"; edge {row.edge}" if row.edge else "")
    return (
        f"{row.name:12s} {row.source:11s} {row.dtype:8s} {row.count:10d} {row.ulp:10.3f}"
        f" {row.limit:6.1f} {row.subnormal:9.2g} {row.edges_wrong:6d}  {at}"
        f"{'' if row.good else '  <--'}"
    )


def main() -> None:
    """Print the table and write it as JSON where asked."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", help="the functions to measure (all)")
    parser.add_argument("--count", type=int, default=1 << 20, help="arguments for each function")
    parser.add_argument("--exhaustive", action="store_true", help="unary float32 functions on all floats")
    parser.add_argument("--json", type=Path, help="file to write")
    options = parser.parse_args()
    started = time.perf_counter()
    device = torch.cuda.get_device_name() if DEVICE == "cuda" else "interpreter"
    versions = {"device": device, "triton": triton.__version__, "torch": torch.__version__}
    print(f"{device}, triton {triton.__version__}, torch {torch.__version__}, {sys.version.split()[0]}")
    print("function     source      type          count        ulp  limit subnormal  edges  at")
    rows = []
    for case in CASES:
        if options.names and case.name not in options.names:
            continue
        for dtype in case.dtypes:
            count = options.count if dtype == torch.float32 else options.count // 8
            rows.append(measure(case, dtype, count, options.exhaustive))
            print(report(rows[-1]), flush=True)
    print(f"{time.perf_counter() - started:.1f} s")
    if options.json:
        options.json.write_text(
            json.dumps({**versions, "rows": [asdict(row) for row in rows]}, indent=1) + "\n"
        )


if __name__ == "__main__":
    main()
