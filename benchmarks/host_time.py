"""Host time of a call on small tensors: what the processor spends before a kernel is on its way.

    python benchmarks/host_time.py --json FILE

The clock runs while calls are made, and the GPU is waited for outside it only; batches are short enough that its queue
does not fill. Medians over batches, the contenders in turn. A call of an op allocates its result, as eager does; the
bare launch has the plan, the grid and the result from before.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

# One kernel is compiled at a time: a pool of processes would only cost its start.
os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")

import torch
import torch.nn.functional as F  # noqa: N812 - its usual name
import triton
import triton.language as tl
from torch import Tensor

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

# ruff: noqa: E402
from opgen.device.table import text_table
from opgen.device.timing import machine

SHAPE = (1, 4096)
BLOCK = 4096
BATCHES, CALLS = 60, 100
Work = Callable[[], Any]


@triton.jit  # type: ignore[untyped-decorator]
def bare_silu(x_ptr, y_ptr, n, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def] # noqa: N803
    """silu, without anything around it."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n).to(tl.float32)
    tl.store(y_ptr + at, x * tl.sigmoid(x), mask=at < n)


@triton.jit  # type: ignore[untyped-decorator]
def bare_silu_mul(a_ptr, b_ptr, y_ptr, n, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def] # noqa: N803
    """silu(a) * b, without anything around it."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(a_ptr + at, mask=at < n).to(tl.float32)
    b = tl.load(b_ptr + at, mask=at < n).to(tl.float32)
    tl.store(y_ptr + at, a * tl.sigmoid(a) * b, mask=at < n)


def launch(kernel: Any, *tensors: Tensor) -> None:
    """`kernel[grid](…)` as one would write it by hand."""
    n = tensors[0].numel()
    kernel[(triton.cdiv(n, BLOCK),)](*tensors, n, BLOCK=BLOCK)


def silu_mul(a: Tensor, b: Tensor) -> Tensor:
    return F.silu(a) * b


def contenders() -> dict[str, dict[str, Work]]:
    """For each op, what is timed."""
    generated = importlib.import_module("generated")
    a, b = (torch.randn(SHAPE, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    y = torch.empty_like(a)
    beta = torch.tensor(1.0, device="cuda")
    return {
        "swish": {
            "ours": partial(generated.swish, a),
            "ours, out=": partial(generated.swish, a, out=y),
            "ours, beta a tensor": partial(generated.swish, a, beta),
            "eager": partial(F.silu, a),
            "compile": partial(torch.compile(F.silu), a),
            "bare launch": partial(launch, bare_silu, a, y),
        },
        "silu_mul": {
            "ours": partial(generated.silu_mul, a, b),
            "ours, out=": partial(generated.silu_mul, a, b, out=y),
            "eager": partial(silu_mul, a, b),
            "compile": partial(torch.compile(silu_mul), a, b),
            "bare launch": partial(launch, bare_silu_mul, a, b, y),
        },
        "allocation": {"torch.empty_like": partial(torch.empty_like, a)},
    }


def host_times(works: dict[str, Work]) -> dict[str, float]:
    """Median microseconds of a call."""
    for work in works.values():
        for _ in range(CALLS):
            work()
    batches: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(BATCHES):
        for name, work in works.items():
            torch.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(CALLS):
                work()
            batches[name].append((time.perf_counter() - start) / CALLS * 1e6)
    return {name: median(found) for name, found in batches.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", type=Path, metavar="FILE", help="where the times go, too")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        parser.error("a GPU is needed, and PyTorch sees none")
    with torch.no_grad():
        found = {op: host_times(works) for op, works in contenders().items()}
    about = machine()
    if options.json is not None:
        record = {"machine": about, "shape": SHAPE, "microseconds": found}
        options.json.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    rows = [
        (op, name, f"{spent:.1f}", f"{times['ours'] / spent:.2f}" if "ours" in times else "-")
        for op, times in found.items()
        for name, spent in times.items()
    ]
    print(", ".join(f"{key} {value}" for key, value in about.items()))
    print(text_table(("op", "contender", "microseconds", "ours over it"), rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
