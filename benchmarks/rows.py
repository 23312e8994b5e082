"""Times of the checked-in row ops on a GPU, against eager PyTorch, torch.compile and Liger-Kernel.

    python benchmarks/rows.py --out benchmarks       # writes rows.json and rows.md
    python benchmarks/rows.py --search --out DIR     # the planner's pick against other tiles, rows_search.md

Every result is compared with an f64 evaluation before it is timed. The limit of a row is its bytes (each input read
once, each output written once) over the bandwidth of a large device-to-device copy, which takes its turn in the same
rounds. Ratios are our time over the other's: above 1 is a loss, and losses come first.
"""

from __future__ import annotations

import argparse
import importlib
import itertools
import json
import math
import multiprocessing
import os
import random
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

# One kernel is compiled at a time: a pool of processes would only cost its start.
os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")

import torch
import torch.nn.functional as F  # noqa: N812 - its usual name
from torch import Tensor

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

# ruff: noqa: E402
from opgen.device.closeness import disagreement
from opgen.device.table import markdown_table, text_table
from opgen.device.timing import copy_work, interleaved, machine

BF16, F32 = torch.bfloat16, torch.float32
LARGE_COPY_BYTES = 2**30
PACKAGE = os.environ.get("OPGEN_BENCHMARK_PACKAGE", "generated")
DEVICE = os.environ.get("OPGEN_BENCHMARK_DEVICE", "cuda")
TINY = DEVICE == "cpu"  # a rehearsal of everything but the times

Arguments = tuple[Any, ...]
Results = tuple[Tensor, ...]


# --- the cases ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """An op over rows. `eager` takes the same arguments; given f64 tensors it is what results are checked against."""

    op: str
    make: Callable[[int, int, torch.dtype], Arguments]
    eager: Callable[..., Any]
    liger: Callable[..., Callable[..., Any]] | None = None
    by_row: tuple[int, ...] = (0,)  # the arguments that have the rows as their first dim


def randn(*shape: int, dtype: torch.dtype) -> Tensor:
    return torch.randn(shape, dtype=F32, device=DEVICE).to(dtype)


def rows_alone(rows: int, columns: int, dtype: torch.dtype) -> Arguments:
    return (randn(rows, columns, dtype=dtype),)


def rows_and_weights(count: int) -> Callable[[int, int, torch.dtype], Arguments]:
    def make(rows: int, columns: int, dtype: torch.dtype) -> Arguments:
        return randn(rows, columns, dtype=dtype), *(randn(columns, dtype=dtype) for _ in range(count))

    return make


def two_rows_and_weight(rows: int, columns: int, dtype: torch.dtype) -> Arguments:
    return randn(rows, columns, dtype=dtype), randn(rows, columns, dtype=dtype), randn(columns, dtype=dtype)


def logits_and_targets(rows: int, columns: int, dtype: torch.dtype) -> Arguments:
    return randn(rows, columns, dtype=dtype), torch.randint(columns, (rows,), device=DEVICE)


def tokens_and_mask(rows: int, columns: int, dtype: torch.dtype) -> Arguments:
    """As many sequences of 512 tokens as have the elements."""
    count = max(rows // 512, 1)
    mask = torch.rand((count, 512), device=DEVICE) < 0.8
    return randn(count, 512, columns, dtype=dtype), mask


def layer_norm(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return F.layer_norm(x, (x.shape[-1],), weight, bias, 1e-5)


def rms_norm(x: Tensor, weight: Tensor) -> Tensor:
    return F.rms_norm(x, (x.shape[-1],), weight, 1e-6)


def add_rms_norm(x: Tensor, residual: Tensor, weight: Tensor) -> Results:
    total = x.float() + residual.float() if x.dtype != torch.float64 else x + residual
    return rms_norm(total, weight.to(total.dtype)).to(x.dtype), total.to(x.dtype)


def cross_entropy(logits: Tensor, target: Tensor) -> Results:
    wide = logits if logits.dtype == torch.float64 else logits.float()
    lse = torch.logsumexp(wide, 1)
    return lse - wide.gather(1, target[:, None])[:, 0], lse


def mean_pool(x: Tensor, mask: Tensor) -> Tensor:
    wide = x if x.dtype == torch.float64 else x.float()
    total = torch.where(mask.unsqueeze(-1), wide, 0).sum(-2)
    return (total / mask.to(total.dtype).sum(-1, keepdim=True).clamp(min=1)).to(x.dtype)


def row_quantise_int8(x: Tensor) -> Results:
    wide = x if x.dtype == torch.float64 else x.float()
    scale = wide.abs().amax(-1).clamp(min=1e-12) / 127
    return (wide / scale.unsqueeze(-1)).round().clamp(-127, 127).to(torch.int8), scale


def liger(module: str, function: str, *further: Any) -> Callable[..., Callable[..., Any]]:
    """A Liger-Kernel function over the arguments of a case."""

    def find() -> Callable[..., Any]:
        apply = getattr(importlib.import_module(f"liger_kernel.ops.{module}"), function).apply
        return lambda *arguments: apply(*arguments, *further)

    return find


CASES = {
    one.op: one
    for one in (
        Case("rms_norm", rows_and_weights(1), rms_norm, liger("rms_norm", "LigerRMSNormFunction", 1e-6)),
        Case(
            "layer_norm", rows_and_weights(2), layer_norm, liger("layer_norm", "LigerLayerNormFunction", 1e-5)
        ),
        Case("layer_norm_swish", rows_and_weights(2), lambda *given: F.silu(layer_norm(*given))),
        Case("softmax", rows_alone, lambda x: torch.softmax(x, -1), liger("softmax", "LigerSoftmaxFunction")),
        Case("add_rms_norm", two_rows_and_weight, add_rms_norm, by_row=(0, 1)),
        Case("cross_entropy", logits_and_targets, cross_entropy, by_row=(0, 1)),
        Case("row_quantise_int8", rows_alone, row_quantise_int8),
        Case("mean_pool", tokens_and_mask, mean_pool, by_row=(0, 1)),
    )
}
ELEMENTS = 2**26
LENGTHS = (1024, 4096, 8192, 16384, 32768, 65536)
SHORTER_AND_LONGER = (64, 256, 131072, 262144)
NORMS = ("rms_norm", "layer_norm", "layer_norm_swish", "softmax")
#: What is measured, first to last: the op, rows, columns and type.
PLAN: tuple[tuple[str, int, int, torch.dtype], ...] = (
    *((op, ELEMENTS // n, n, BF16) for op in NORMS for n in LENGTHS),
    ("layer_norm_swish", 8192, 16384, BF16),
    ("rms_norm", 4096, 32768, BF16),
    ("softmax", 4096, 32768, BF16),
    ("softmax", 65536, 1000, BF16),
    ("softmax", 1, 1048577, BF16),
    ("rms_norm", 4, 1048576, BF16),
    ("rms_norm", 16, 4096, BF16),
    ("add_rms_norm", 16384, 4096, BF16),
    ("cross_entropy", 4096, 50257, BF16),
    ("cross_entropy", 4096, 128256, BF16),
    ("row_quantise_int8", 16384, 4096, BF16),
    ("mean_pool", 65536, 1024, BF16),
    *((op, ELEMENTS // n, n, F32) for op in NORMS for n in LENGTHS),
    *((op, ELEMENTS // n, n, dtype) for dtype in (BF16, F32) for op in NORMS for n in SHORTER_AND_LONGER),
)
#: And what is measured of matrices that are transposed, so that their rows lie across memory.
ACROSS: tuple[tuple[str, int, int, torch.dtype], ...] = tuple(
    (op, ELEMENTS // n, n, dtype)
    for dtype in (BF16, F32)
    for op in ("rms_norm", "softmax", "layer_norm_swish")
    for n in (64, 256, 1024, 4096, 16384)
)
SEED = 20261129


def drawn() -> tuple[tuple[str, int, torch.dtype], ...]:
    """What is searched: six row lengths for each norm and for cross_entropy, half of them in bf16, half in f32.

    By a fixed seed, and log-uniform: those of norms from 64 to 65536 in eights, vocabularies from 1024 to 131072.
    """
    draw = random.Random(SEED)  # noqa: S311 - sizes, not secrets

    def length(least: int, most: int) -> float:
        return math.exp(draw.uniform(math.log(least), math.log(most)))

    norms = [
        (op, round(length(64, 65536) / 8) * 8, (BF16, F32)[turn // len(NORMS) % 2])
        for turn, op in enumerate(NORMS * 6)
    ]
    return (*norms, *(("cross_entropy", round(length(1024, 131072)), (BF16, F32)[at % 2]) for at in range(6)))


def entry_of(op: str) -> Any:
    return importlib.import_module(f"{PACKAGE}.{op}")._ENTRY  # noqa: SLF001 - the way to force a config


def tupled(results: Any) -> Results:
    return results if isinstance(results, tuple) else (results,)


def ours(op: str, arguments: Arguments) -> Callable[[], Any]:
    function = getattr(importlib.import_module(f"{PACKAGE}.{op}"), op)
    return lambda: function(*arguments)


def traffic(arguments: Arguments, results: Results) -> int:
    """The fewest bytes that the op moves."""
    tensors = [value for value in (*arguments, *results) if isinstance(value, Tensor)]
    return sum(t.numel() * t.element_size() for t in tensors)


def widened(value: Any) -> Any:
    """A floating-point tensor in f64; anything else as it is."""
    return value.double() if isinstance(value, Tensor) and value.is_floating_point() else value


def check(case: Case, arguments: Arguments, results: Results, columns: int) -> str | None:
    """What is wrong with results, or None; of many rows the first and the last ones are looked at."""
    some = max(min(2**22 // columns, 512), 2)
    faults = []
    for place in (slice(0, some), slice(-some, None)):
        cut = [widened(v[place] if number in case.by_row else v) for number, v in enumerate(arguments)]
        for got, wanted in zip(results, tupled(case.eager(*cut)), strict=True):
            fault = disagreement(got[place], wanted, terms=columns)
            faults += [fault] if fault else []
    return faults[0] if faults else None


# --- the measurement ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    """Times in microseconds; `faults` names contenders that failed or were skipped, and why."""

    op: str
    rows: int
    columns: int
    dtype: str
    bytes: int
    limit: float
    times: dict[str, float]
    faults: dict[str, str]

    @property
    def of_limit(self) -> float:
        """The share of the copy bandwidth that ours reaches."""
        return self.limit / self.times["ours"] if "ours" in self.times else 0.0

    def ratio(self, other: str) -> float | None:
        times = self.times
        return times["ours"] / times[other] if "ours" in times and other in times else None

    @property
    def worst(self) -> float:
        """Our time over the best contender's; a wrong result is the worst of all."""
        if "ours" not in self.times:
            return float("inf")
        return max(self.ratio(other) or 0.0 for other in ("eager", "compile", "liger"))


def transposed(arguments: Arguments) -> Arguments:
    """The arguments with the elements of their matrices in the order of columns."""
    return tuple(v.t().contiguous().t() if v.dim() == 2 else v for v in arguments)


def measure(
    op: str, rows: int, columns: int, dtype: torch.dtype, large_copy: Callable[[], Any], across: bool
) -> Row:
    case = CASES[op]
    if TINY:
        rows, columns = min(rows, 4), min(columns, 40)
    arguments = case.make(rows, columns, dtype)
    if across:
        arguments = transposed(arguments)
    torch.compiler.reset()
    compiled = torch.compile(case.eager)
    works: dict[str, Callable[[], Any]] = {
        "ours": ours(op, arguments),
        "eager": lambda: case.eager(*arguments),
        "compile": lambda: compiled(*arguments),
    }
    faults: dict[str, str] = {}
    if case.liger is not None:
        try:
            function = case.liger()
            works["liger"] = lambda: function(*arguments)
        except (ImportError, AttributeError) as error:
            faults["liger"] = f"{type(error).__name__}: {error}"
    results: Results = ()
    for name, work in list(works.items()):
        try:
            found = tupled(work())
        except Exception as error:  # noqa: BLE001 - a contender may fail in any way; the row says how
            faults[name] = f"{type(error).__name__}: {error}".splitlines()[0]
            del works[name]
            continue
        results = results or found
    if "ours" in works:
        fault = check(case, arguments, results, columns)
        if fault is not None:
            faults["ours"] = f"wrong: {fault}"
            del works["ours"]
    moved = traffic(arguments, results)
    works = {"copy": copy_work(moved, DEVICE), "large copy": large_copy, **works}
    times = dict.fromkeys(works, 1.0) if TINY else interleaved(works, rounds=4)
    limit = moved * times["large copy"] / LARGE_COPY_BYTES
    return Row(
        _label(op, across), rows, columns, str(dtype).removeprefix("torch."), moved, limit, times, faults
    )


COLUMNS = (
    "op", "rows", "columns", "type", "limit", "copy", "eager", "compile", "liger", "ours",
    "of limit", "/eager", "/compile", "/liger",
)  # fmt: skip


def cells(row: Row) -> tuple[str, ...]:
    def time_of(name: str) -> str:
        return f"{row.times[name]:.1f}" if name in row.times else "-"

    def ratio(name: str) -> str:
        found = row.ratio(name)
        return f"{found:.3f}" if found else "-"

    return (
        row.op,
        str(row.rows),
        str(row.columns),
        row.dtype,
        f"{row.limit:.1f}",
        *map(time_of, ("copy", "eager", "compile", "liger", "ours")),
        f"{row.of_limit:.3f}",
        *map(ratio, ("eager", "compile", "liger")),
    )


def run_comparison(out: Path | None, only: str, seconds: float) -> bool:
    """Measures the rows for which there is time, writes the records and prints the table; whether all were right."""
    begun = time.monotonic()
    large_copy = copy_work(64 if TINY else LARGE_COPY_BYTES, DEVICE)
    rows: list[Row] = []
    plan = [*((*one, False) for one in PLAN), *((*one, True) for one in ACROSS)]
    plan = [one for one in plan if only in one[0]]
    for op, count, columns, dtype, across in plan:
        if time.monotonic() - begun > seconds:
            break
        start = time.monotonic()
        rows.append(measure(op, count, columns, dtype, large_copy, across))
        print(f"{op} {count} x {columns} {dtype}: {time.monotonic() - start:.1f} s", flush=True)
        if not TINY:
            torch.cuda.empty_cache()
    left = [_name(*one) for one in plan[len(rows) :]]
    about = {**machine(), "copy_gb_per_s": round(copy_bandwidth(rows), 1)}
    rows.sort(key=lambda row: -row.worst)
    title, faults, table = parts(about, rows)
    if out is not None:
        records = [{**asdict(row), "of_limit": row.of_limit} for row in rows]
        write(out / "rows.json", json.dumps({"machine": about, "rows": records}, indent=1) + "\n")
        write(out / "rows.md", page(title, faults, table, left))
    print("\n".join([title, *faults, text_table(COLUMNS, table)]))
    print(f"{len(rows)} of {len(plan)} rows were measured")
    return not any("ours" in row.faults for row in rows)


def _name(op: str, rows: int, columns: int, dtype: torch.dtype, across: bool) -> str:
    return f"{_label(op, across)} {rows} x {columns} {str(dtype).removeprefix('torch.')}"


def _label(op: str, across: bool) -> str:
    return f"{op}, transposed" if across else op


def parts(about: dict[str, Any], rows: Sequence[Row]) -> tuple[str, list[str], list[tuple[str, ...]]]:
    """A title, what failed, and the cells of a table."""
    faults = [
        f"{row.op} {row.rows} x {row.columns}: {name}: {why}"
        for row in rows
        for name, why in row.faults.items()
    ]
    title = ", ".join(f"{key} {value}" for key, value in about.items())
    return title, faults, [cells(row) for row in rows]


def page(title: str, faults: Sequence[str], table: Sequence[tuple[str, ...]], left: Sequence[str]) -> str:
    """The record of a run, and what it did not come to."""
    notes = "".join(f"\n- {fault}" for fault in faults)
    missing = f"\nNot measured, as the time given was over: {'; '.join(left)}.\n" if left else ""
    text = (
        f"# Row ops\n\n{title}. Times in microseconds.\n\n{markdown_table(COLUMNS, table)}\n{notes}{missing}"
    )
    return text.rstrip("\n") + "\n"


def copy_bandwidth(rows: Iterable[Row]) -> float:
    """GB/s of the large copy: the median of the rows'."""
    found = sorted(LARGE_COPY_BYTES / row.times["large copy"] / 1e3 for row in rows if row.times)
    return found[len(found) // 2] if found else 0.0


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


# --- the search ---------------------------------------------------------------------------------

Figures = tuple[str, int, int, int, int, int]  # strategy, rows, columns, warps, programs, stages


def figures(columns: int) -> list[Figures]:
    """The tiles of the search for a row length: 8 to 64 elements for a thread."""
    whole = 1 << (columns - 1).bit_length()
    found: list[Figures] = []
    for rows, warps in itertools.product((1, 2, 4, 8, 16, 32), (1, 2, 4, 8, 16, 32)):
        if 8 <= rows * whole // (32 * warps) <= 64 and (rows == 1 or rows * whole <= 8192):
            found.append(("resident", rows, whole, warps, 0, 1))
            if whole >= 32768:
                found.append(("resident", rows, whole, warps, 64 // warps, 1))
    for block, warps in itertools.product((1024, 2048, 4096, 8192, 16384), (1, 2, 4, 8, 16, 32)):
        if block <= whole and 8 <= block // (32 * warps) <= 32:
            found.append(("looped", 1, block, warps, 0, 1))
            if whole >= 32768:
                found.append(("looped", 1, block, warps, 32 // warps, 1))
    return found


def tile_of(chosen: Figures) -> Any:
    strategy, rows, columns, warps, programs, stages = chosen
    runtime = importlib.import_module(f"{PACKAGE}._runtime")
    return runtime.RowTile(strategy, rows, columns, warps, programs, stages)


def forced(op: str, arguments: Arguments, chosen: Figures) -> Callable[[], Any]:
    """A call with one tile."""
    entry, tile = entry_of(op), tile_of(chosen)
    function = getattr(importlib.import_module(f"{PACKAGE}.{op}"), op)
    defaults = function.__defaults__ or ()
    count = len(entry.parameters) - len(arguments)
    named = dict(zip(entry.parameters, (*arguments, *defaults[len(defaults) - count :]), strict=True))
    return lambda: entry.run(named, None, config=tile)


def tried(job: tuple[str, int, torch.dtype, tuple[Figures, ...]]) -> dict[Figures, str]:
    """Runs tiles on a few rows in a process of its own, so that Triton's cache has their kernels; what was wrong."""
    op, columns, dtype, chosen = job
    arguments = CASES[op].make(4 if TINY else 64, columns, dtype)
    wrong: dict[Figures, str] = {}
    for one in chosen:
        try:
            fault = check(CASES[op], arguments, tupled(forced(op, arguments, one)()), columns)
        except Exception as error:  # noqa: BLE001 - a tile may fail in any way; the report says how
            fault = f"{type(error).__name__}: {error}".splitlines()[0]
        if fault is not None:
            wrong[one] = f"{op} {columns} {one}: {fault}"
    return wrong


def try_all(plan: Sequence[tuple[str, int, torch.dtype]]) -> list[dict[Figures, str]]:
    """What was wrong with the tiles of each case, by several processes."""
    start = time.monotonic()
    parts = 3
    jobs = [(op, n, dtype, tuple(figures(n)[part::parts])) for op, n, dtype in plan for part in range(parts)]
    if TINY:
        found = [tried(job) for job in jobs]
    else:
        workers = min(15, os.cpu_count() or 1)
        with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
            found = list(pool.map(tried, jobs))
    print(f"compiled in {time.monotonic() - start:.0f} s", flush=True)
    return [
        {tile: why for one in found[at : at + parts] for tile, why in one.items()}
        for at in range(0, len(found), parts)
    ]


def alike(found: Results, wanted: Results) -> bool:
    """Whether a tile gives on all rows what the pick gives, which is checked against f64."""
    loose = {BF16: 2**-6, F32: 1e-4}
    return all(
        torch.allclose(one.float(), other.float(), loose[one.dtype], loose[one.dtype], equal_nan=True)
        for one, other in zip(found, wanted, strict=True)
    )


SEARCHED = ("op", "rows", "columns", "type", "limit", "pick", "best", "best / pick", "the fastest tile")


def run_search(out: Path | None, only: str) -> bool:
    """The planner's pick against every tile of the search, by case; whether none failed."""
    plan = [(op, 48 if TINY else n, dtype) for op, n, dtype in drawn() if only in op]
    wrong = try_all(plan)
    large_copy = copy_work(64 if TINY else LARGE_COPY_BYTES, DEVICE)
    found: list[tuple[float, tuple[str, ...]]] = []
    tiles = 0
    for (op, columns, dtype), failed in zip(plan, wrong, strict=True):
        rows = 4 if TINY else ELEMENTS // columns
        arguments = CASES[op].make(rows, columns, dtype)
        results = tupled(ours(op, arguments)())
        fault = check(CASES[op], arguments, results, columns)
        if fault is not None:
            raise AssertionError(f"{op} {rows} x {columns}: {fault}")
        works = {"copy": large_copy, "pick": ours(op, arguments)}
        for one in figures(columns):
            strategy, own_rows, block, warps, programs, _ = one
            kept = f", {programs} programs a multiprocessor" if programs else ""
            name, work = f"{strategy} {own_rows} x {block}, {warps} warps{kept}", forced(op, arguments, one)
            if one not in failed and not alike(tupled(work()), results):
                failed[one] = f"{op} {rows} x {columns} {one}: not as the pick"
            if one not in failed:
                works[name] = work
        times = dict.fromkeys(works, 1.0) if TINY else interleaved(works, rounds=2)
        limit = traffic(arguments, results) * times.pop("copy") / LARGE_COPY_BYTES
        tiles += len(figures(columns))
        best = min(times, key=times.__getitem__)
        if not TINY:  # once more, in turn
            again = interleaved({name: works[name] for name in ("pick", best)}, rounds=4)
            times |= again
        share = min(times[best] / times["pick"], 1.0)
        dtype_name = str(dtype).removeprefix("torch.")
        times_text = (f"{limit:.1f}", f"{times['pick']:.1f}", f"{times[best]:.1f}", f"{share:.3f}")
        found.append((share, (op, str(rows), str(columns), dtype_name, *times_text, best)))
        del works, arguments, results
    found.sort()
    mean = math.exp(sum(math.log(share) for share, _ in found) / len(found))
    faults = [why for one in wrong for why in one.values()]
    table = [line for _, line in found]
    told = f"Geometric mean of best over pick: {mean:.3f}; {tiles} tiles, of which {len(faults)} failed."
    if out is not None:
        title = ", ".join(f"{key} {value}" for key, value in machine().items())
        head = f"# Row ops: the planner's pick against a search\n\n{title}. Times in microseconds.\n\n"
        notes = "".join(f"- {fault}\n" for fault in faults)
        write(out / "rows_search.md", f"{head}{markdown_table(SEARCHED, table)}\n\n{told}\n{notes}")
    print("\n".join([*faults[:10], text_table(SEARCHED, table), told]))
    return not faults


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, metavar="DIR", help="where the records go")
    parser.add_argument(
        "--search", action="store_true", help="time the planner's pick against other tiles instead"
    )
    parser.add_argument("--seconds", type=float, default=1e9, help="after which no further row is measured")
    parser.add_argument("--only", default="", metavar="TEXT", help="only the ops with this in their name")
    options = parser.parse_args()
    if not TINY and not torch.cuda.is_available():
        parser.error("a GPU is needed, and PyTorch sees none")
    torch.manual_seed(20240229)
    with torch.no_grad():
        if options.search:
            right = run_search(options.out, options.only)
        else:
            right = run_comparison(options.out, options.only, options.seconds)
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
