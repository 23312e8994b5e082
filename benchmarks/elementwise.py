"""Times of the checked-in elementwise ops on a GPU, against eager PyTorch, torch.compile and Liger-Kernel.

    python benchmarks/elementwise.py --out benchmarks       # writes elementwise.json and elementwise.md
    python benchmarks/elementwise.py --sweep --out DIR      # the best block sizes and warps, elementwise_sweep.json

Every result is compared with an f64 evaluation before it is timed. The limit of a row is its bytes (each input read
once, each output written once) over the bandwidth of a large device-to-device copy, which takes its turn in the same
rounds. Ratios are our time over the other's: above 1 is a loss, and losses come first.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from statistics import median
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

BF16, F16, F32 = torch.bfloat16, torch.float16, torch.float32
ALL = (BF16, F32, F16)
LARGE_COPY_BYTES = 2**30
#: Places in memory at which each row is timed, in so many rounds each: on an H200 the ratio of two kernels' times, each
#: within 0.02 % three times in a run, went from 1.008 to 1.001 with tensors at another place.
_PLACES, _ROUNDS = 3, 3
DEVICE = os.environ.get("OPGEN_BENCHMARK_DEVICE", "cuda")
TINY = DEVICE == "cpu"  # a rehearsal of everything but the times

Arguments = tuple[Any, ...]


# --- the cases ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """An op over arguments of one element type.

    `eager` takes the same arguments; given f64 tensors it is also what results are checked against, unless
    `exact` is named. `read` gives the bytes that are read where that is not all of the tensors. `tiles` says which
    block sizes of a config its layout uses: "block", "tile" or "turned".
    """

    op: str
    label: str
    make: Callable[[torch.dtype], Arguments]
    eager: Callable[..., Tensor]
    exact: Callable[..., Tensor] | None = None
    read: Callable[[Arguments], int] | None = None
    liger: bool = False
    tiles: str = "block"

    @property
    def name(self) -> str:
        return f"{self.op} {self.label}".strip()


def randn(*shape: int, dtype: torch.dtype) -> Tensor:
    """Normal numbers; in a rehearsal every size is at most 16."""
    sizes = [min(size, 16) if TINY else size for size in shape]
    return torch.randn(sizes, dtype=dtype if dtype != torch.float64 else F32, device=DEVICE)


def positions_in(table_rows: int, *shape: int) -> Tensor:
    sizes = [min(size, 16) if TINY else size for size in shape]
    return torch.randint(min(table_rows, 16) if TINY else table_rows, sizes, device=DEVICE)


def one_tensor(rows: int, columns: int, *scalars: float) -> Callable[[torch.dtype], Arguments]:
    return lambda dtype: (randn(rows, columns, dtype=dtype), *scalars)


def two_tensors(rows: int, columns: int, *scalars: float) -> Callable[[torch.dtype], Arguments]:
    return lambda dtype: (randn(rows, columns, dtype=dtype), randn(rows, columns, dtype=dtype), *scalars)


def bias_arguments(dtype: torch.dtype) -> Arguments:
    return randn(16384, 8192, dtype=dtype), randn(8192, dtype=dtype), randn(16384, 8192, dtype=dtype)


def bias_arguments_turned(dtype: torch.dtype) -> Arguments:
    return randn(8192, 16384, dtype=dtype).t(), randn(8192, dtype=dtype), randn(16384, 8192, dtype=dtype)


def rope_arguments(dtype: torch.dtype) -> Arguments:
    return randn(4, 4096, 16, 128, dtype=dtype), randn(4096, 128, dtype=dtype), randn(4096, 128, dtype=dtype)


def rope_pairs_arguments(dtype: torch.dtype) -> Arguments:
    x = randn(4, 4096, 16, 128, dtype=dtype)
    half = x.shape[-1] // 2
    return x, randn(4096, half, dtype=dtype), randn(4096, half, dtype=dtype)


def mask_arguments(dtype: torch.dtype) -> Arguments:
    x = randn(6400, 4096, dtype=dtype)
    return x, torch.rand(x.shape, device=DEVICE) < 0.3, -3.0, 0.125


def embedding_arguments(dtype: torch.dtype) -> Arguments:
    tables = randn(50272, 2560, dtype=dtype), randn(2048, 2560, dtype=dtype)
    return positions_in(50272, 8, 1024), positions_in(2048, 1024), *tables


def embedding_read(arguments: Arguments) -> int:
    """The positions, and a row of a table for each."""
    ids, positions, tokens, _ = arguments
    row = tokens.shape[1] * tokens.element_size()
    count = ids.numel() + positions.numel()
    return int(count * (ids.element_size() + row))


def rope(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    half = x.shape[-1] // 2
    turned = torch.cat((-x[..., half:], x[..., :half]), -1)
    return x * cos.unsqueeze(-2) + turned * sin.unsqueeze(-2)


def rope_interleaved(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    turned = torch.stack((-x[..., 1::2], x[..., ::2]), -1).flatten(-2)
    wide_cos, wide_sin = (table.unsqueeze(-2).repeat_interleave(2, -1) for table in (cos, sin))
    return x * wide_cos + turned * wide_sin


def quantise(x: Tensor, scale: float) -> Tensor:
    return (x / scale).clamp(-448.0, 448.0).to(torch.float8_e4m3fn)


def quantise_exact(x: Tensor, scale: float) -> Tensor:
    return (x / scale).clamp(-448.0, 448.0)


def dropout_exact(x: Tensor, p: float, seed: int) -> Tensor:
    """The generated reference: its mask is the op's own, which PyTorch's dropout does not share."""
    reference: Callable[..., Tensor] = importlib.import_module("generated.dropout").reference
    return reference(x.float(), p, seed)


def embedding_add(ids: Tensor, positions: Tensor, tokens: Tensor, places: Tensor) -> Tensor:
    return F.embedding(ids, tokens) + F.embedding(positions, places)


def bias_gelu_residual(x: Tensor, bias: Tensor, residual: Tensor) -> Tensor:
    return F.gelu(x + bias, approximate="tanh") + residual


SWISH = Case("swish", "", one_tensor(32768, 4096, 1.0), lambda x, beta: x * torch.sigmoid(beta * x))
BIAS = Case("bias_gelu_residual", "", bias_arguments, bias_gelu_residual, tiles="tile")
BIAS_TURNED = Case(
    "bias_gelu_residual", "x transposed", bias_arguments_turned, bias_gelu_residual, tiles="turned"
)
SILU_MUL = Case("silu_mul", "", two_tensors(16384, 14336), lambda a, b: F.silu(a) * b, liger=True)
ROPE = Case("rope", "", rope_arguments, rope, tiles="tile")
DROPOUT = Case(
    "dropout", "", one_tensor(8192, 4096, 0.1, 1234), lambda x, p, seed: F.dropout(x, p), exact=dropout_exact
)

#: The rows at the sizes of the recorded comparison, and every other op at about 128 MB of traffic in bf16.
LARGE = (SWISH, BIAS, BIAS_TURNED, SILU_MUL)
OTHERS = (
    ROPE,
    Case("rope_interleaved", "", rope_pairs_arguments, rope_interleaved),
    DROPOUT,
    Case("quantise_fp8", "", one_tensor(10240, 4096, 0.0625), quantise, exact=quantise_exact),
    Case("embedding_add", "", embedding_arguments, embedding_add, read=embedding_read),
    Case(
        "masked_fill_scale",
        "",
        mask_arguments,
        lambda x, mask, value, scale: (x * scale).masked_fill(mask, value),
    ),
    Case("geglu", "", two_tensors(5376, 4096), lambda a, b: F.gelu(a) * b),
    Case("mish", "", one_tensor(8192, 4096), F.mish),
    Case("softplus", "", one_tensor(8192, 4096, 0.75), lambda x, beta: -F.logsigmoid(-beta * x) / beta),
    Case("softcap", "", one_tensor(8192, 4096, 30.0), lambda x, cap: cap * torch.tanh(x / cap)),
    Case("hardswish", "", one_tensor(8192, 4096), F.hardswish),
    Case("relu_squared", "", one_tensor(8192, 4096), lambda x: F.relu(x).square()),
    Case("lerp", "", two_tensors(5376, 4096, 0.3), torch.lerp),
    Case("gelu", "", one_tensor(8192, 4096), F.gelu),
    Case("gelu_tanh", "", one_tensor(8192, 4096), lambda x: F.gelu(x, approximate="tanh")),
)
SWEPT = (SWISH, BIAS, BIAS_TURNED, SILU_MUL, ROPE, DROPOUT)


def module(case: Case) -> Any:
    return importlib.import_module(f"generated.{case.op}")


def traffic(case: Case, arguments: Arguments, result: Tensor) -> int:
    """The fewest bytes that the op moves."""
    tensors = [value for value in arguments if isinstance(value, Tensor)]
    read = case.read(arguments) if case.read else sum(t.numel() * t.element_size() for t in tensors)
    return int(read + result.numel() * result.element_size())


def widened(arguments: Arguments) -> Arguments:
    """The floating-point tensors among the arguments in f64."""
    return tuple(
        value.double() if isinstance(value, Tensor) and value.is_floating_point() else value
        for value in arguments
    )


def bits(tensor: Tensor) -> Tensor:
    """The same memory as integers, whose equality is that of bits."""
    return tensor.view({1: torch.int8, 2: torch.int16, 4: torch.int32}[tensor.element_size()])


def poisoned(like: Tensor) -> Tensor:
    """Memory of the same layout, every bit set: NaN in every floating-point type."""
    out = torch.empty_like(like)
    bits(out).fill_(-1)
    return out


def check(case: Case, arguments: Arguments) -> str | None:
    """What is wrong with our results, into a fresh tensor and into a poisoned `out`, or None."""
    ours = getattr(module(case), case.op)
    expected = (case.exact or case.eager)(*widened(arguments))
    result = ours(*arguments)
    fault = disagreement(result, expected)
    if fault is None:
        out = poisoned(result)
        ours(*arguments, out=out)
        fault = None if torch.equal(bits(out), bits(result)) else "out= differs"
    return fault


# --- the measurement ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    """Times in microseconds; `faults` names contenders that failed or were skipped, and why."""

    case: str
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


def liger_silu_mul() -> tuple[Callable[..., Tensor] | None, str]:
    """Liger-Kernel's kernel, or why there is none."""
    if importlib.util.find_spec("liger_kernel") is None:
        return None, "liger_kernel is not installed"
    try:
        function = importlib.import_module("liger_kernel.ops.swiglu").LigerSiLUMulFunction
    except (ImportError, AttributeError) as error:
        return None, f"{type(error).__name__}: {error}"
    return function.apply, ""


def contenders(
    case: Case, compiled: Callable[..., Any], arguments: Arguments
) -> tuple[dict[str, Callable[[], Any]], dict[str, str]]:
    """What is timed, warm, and why others are not."""
    ours = getattr(module(case), case.op)
    works: dict[str, Callable[[], Any]] = {
        "eager": lambda: case.eager(*arguments),
        "compile": lambda: compiled(*arguments),
        "ours": lambda: ours(*arguments),
    }
    faults: dict[str, str] = {}
    if case.liger:
        liger, why = liger_silu_mul()
        if liger is not None:
            works["liger"] = partial(liger, *arguments)
        else:
            faults["liger"] = why
    for name, work in list(works.items()):
        try:
            work()
        except Exception as error:  # noqa: BLE001 - a contender may fail in any way; the row says how
            faults[name] = f"{type(error).__name__}: {error}".splitlines()[0]
            del works[name]
    return works, faults


def measure_or_tell(case: Case, dtype: torch.dtype, large_copy: Callable[[], Any]) -> Row:
    """A row; one that says why there are no times where the op fails."""
    try:
        return measure(case, dtype, large_copy)
    except Exception as error:  # noqa: BLE001 - the other rows are still worth having
        fault = f"{type(error).__name__}: {error}".splitlines()[0]
        return Row(case.name, str(dtype).removeprefix("torch."), 0, 0.0, {}, {"ours": fault})


def measure(case: Case, dtype: torch.dtype, large_copy: Callable[[], Any]) -> Row:
    """A row: of the times at several places in memory, the medians."""
    torch.compiler.reset()
    compiled = torch.compile(case.eager)
    ours = getattr(module(case), case.op)
    kept: list[Arguments] = []
    found: list[dict[str, float]] = []
    faults: dict[str, str] = {}
    moved = 0
    for _ in range(_PLACES):
        arguments = case.make(dtype)
        kept.append(arguments)  # so that the next ones lie elsewhere
        moved = traffic(case, arguments, ours(*arguments))
        works, faults = contenders(case, compiled, arguments)
        fault = check(case, arguments)
        if fault is not None:
            faults["ours"] = f"wrong: {fault}"
            works.pop("ours", None)
        works = {"copy": copy_work(moved, DEVICE), "large copy": large_copy, **works}
        found.append(dict.fromkeys(works, 1.0) if TINY else interleaved(works, rounds=_ROUNDS))
    known = [name for name in found[0] if all(name in times for times in found)]
    times = {name: median(one[name] for one in found) for name in known}
    limit = moved * times["large copy"] / LARGE_COPY_BYTES
    return Row(case.name, str(dtype).removeprefix("torch."), moved, limit, times, faults)


COLUMNS = (
    "op", "type", "MB", "limit", "copy", "eager", "compile", "liger", "ours",
    "of limit", "/eager", "/compile", "/liger",
)  # fmt: skip


def cells(row: Row) -> tuple[str, ...]:
    def time_of(name: str) -> str:
        return f"{row.times[name]:.1f}" if name in row.times else "-"

    def ratio(name: str) -> str:
        found = row.ratio(name)
        return f"{found:.3f}" if found else "-"

    return (
        row.case,
        row.dtype,
        f"{row.bytes / 1e6:.0f}",
        f"{row.limit:.1f}",
        *map(time_of, ("copy", "eager", "compile", "liger", "ours")),
        f"{row.of_limit:.3f}",
        *map(ratio, ("eager", "compile", "liger")),
    )


def run_comparison(out: Path | None, only: str) -> bool:
    """Measures every row, writes the records and prints the table; whether all results were right."""
    large_copy = copy_work(64 if TINY else LARGE_COPY_BYTES, DEVICE)
    plan = [(case, dtype) for case in LARGE for dtype in ALL] + [(case, BF16) for case in OTHERS]
    rows = []
    for case, dtype in plan:
        if only in case.name:
            start = time.monotonic()
            rows.append(measure_or_tell(case, dtype, large_copy))
            print(f"{case.name} {dtype}: {time.monotonic() - start:.1f} s", flush=True)
            if not TINY:
                torch.cuda.empty_cache()
    rows.sort(key=lambda row: -row.worst)
    about = {**machine(), "copy_gb_per_s": round(copy_bandwidth(rows), 1)}
    table = [cells(row) for row in rows]
    faults = [f"{row.case} {row.dtype}: {name}: {why}" for row in rows for name, why in row.faults.items()]
    title = ", ".join(f"{key} {value}" for key, value in about.items())
    if out is not None:
        records = [{**asdict(row), "of_limit": row.of_limit} for row in rows]
        write(out / "elementwise.json", json.dumps({"machine": about, "rows": records}, indent=1) + "\n")
        notes = "".join(f"\n- {fault}" for fault in faults)
        text = f"# Elementwise ops\n\n{title}. Times in microseconds.\n\n{markdown_table(COLUMNS, table)}\n{notes}"
        write(out / "elementwise.md", text.rstrip("\n") + "\n")
    print("\n".join([title, *faults, text_table(COLUMNS, table)]))
    return not any("ours" in row.faults for row in rows)


def copy_bandwidth(rows: Iterable[Row]) -> float:
    """GB/s of the large copy: the median of the rows'."""
    found = sorted(LARGE_COPY_BYTES / row.times["large copy"] / 1e3 for row in rows if row.times)
    return found[len(found) // 2] if found else 0.0


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


# --- the sweep ----------------------------------------------------------------------------------

BLOCKS = (512, 1024, 2048, 4096, 8192)
WARPS = (2, 4, 8, 16)
TILES = ((1, 1024), (1, 2048), (1, 4096), (2, 1024), (4, 512), (4, 1024), (8, 256))
TURNED = ((32, 32), (64, 64), (32, 64), (64, 32), (128, 32), (32, 128), (64, 128), (128, 64))
FIELDS = {"block": BLOCKS, "tile": TILES, "turned": TURNED}
Figures = tuple[Any, int]  # a value of the field that the case's layout uses, and the warps


def figures(case: Case) -> list[Figures]:
    return [(value, warps) for value in FIELDS[case.tiles] for warps in WARPS]


def config(case: Case, chosen: Figures) -> Any:
    runtime = importlib.import_module("generated._runtime")
    fields: dict[str, Any] = {"block": 1024, "tile": (1, 1024), "turned": (32, 32)}
    value, warps = chosen
    return runtime.Config(**{**fields, case.tiles: value}, warps=warps)


def forced(case: Case, arguments: Arguments, out: Tensor, chosen: Figures) -> Callable[[], Any]:
    """A call with one config."""
    entry = module(case)._ENTRY  # noqa: SLF001 - the way to force a config
    named = dict(zip(entry.parameters, arguments, strict=True))
    settings = config(case, chosen)
    return lambda: entry.run(named, out, config=settings)


def precompile(job: tuple[int, torch.dtype, tuple[Figures, ...]]) -> None:
    """Runs configs once in a process of its own, so that Triton's cache on disk has their kernels."""
    place, dtype, chosen = job
    case = SWEPT[place]
    arguments = case.make(dtype)
    out = getattr(module(case), case.op)(*arguments)
    for one_config in chosen:
        try:
            forced(case, arguments, out, one_config)()
        except Exception:  # noqa: BLE001, S112 - the measuring process meets the same error and tells it
            continue


OWN_CHOICE = "own choice"


@dataclass(frozen=True)
class Swept:
    """The time of a call, in microseconds, with one config or with the op's own choice."""

    config: str
    time: float
    of_copy: float


def sweep_case(
    case: Case, dtype: torch.dtype, large_copy: Callable[[], Any]
) -> tuple[list[Swept], list[str]]:
    """All configs, the fastest first, and what failed. A config that gives other bits than the op is no config."""
    arguments = case.make(dtype)
    ours = getattr(module(case), case.op)
    result = ours(*arguments)
    works = {"copy": large_copy, OWN_CHOICE: lambda: ours(*arguments, out=result)}
    faults = []
    for value, warps in figures(case):
        name = f"{case.tiles} {value} x {warps} warps"
        out = poisoned(result)
        try:
            forced(case, arguments, out, (value, warps))()
            assert torch.equal(bits(out), bits(result)), "another result than the op's own choice"
        except Exception as error:  # noqa: BLE001 - a config may fail in any way; the report says how
            faults.append(f"{case.name} {dtype} {name}: {type(error).__name__}: {error}".splitlines()[0])
            continue
        works[name] = forced(case, arguments, result, (value, warps))
    times = dict.fromkeys(works, 1.0) if TINY else interleaved(works, rounds=3)
    limit = traffic(case, arguments, result) * times.pop("copy") / LARGE_COPY_BYTES
    found = [Swept(name, spent, limit / spent) for name, spent in times.items()]
    return sorted(found, key=lambda one_config: one_config.time), faults


def sweep_lines(case: Case, dtype: torch.dtype, found: list[Swept]) -> list[tuple[str, ...]]:
    """The five fastest configs and the op's own choice, as cells."""
    best = [one_config for one_config in found if one_config.config != OWN_CHOICE][:5]
    own = [one_config for one_config in found if one_config.config == OWN_CHOICE]
    name = case.name, str(dtype).removeprefix("torch.")
    return [(*name, one.config, f"{one.time:.1f}", f"{one.of_copy:.3f}") for one in (*best, *own)]


def precompile_all(chosen: list[tuple[int, torch.dtype]]) -> None:
    """Compiles all configs of the cases in several processes."""
    start = time.monotonic()
    jobs = [(p, d, tuple(figures(SWEPT[p])[part::4])) for p, d in chosen for part in range(4)]
    workers = min(12, os.cpu_count() or 1)
    with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        list(pool.map(precompile, jobs))
    print(f"compiled in {time.monotonic() - start:.0f} s", flush=True)


def run_sweep(out: Path | None, only: str) -> bool:
    """Times every config of the swept cases, writes all and prints the best; whether none failed."""
    chosen = [
        (place, dtype) for place, case in enumerate(SWEPT) for dtype in (BF16, F32) if only in case.name
    ]
    if not TINY:
        precompile_all(chosen)
    large_copy = copy_work(64 if TINY else LARGE_COPY_BYTES, DEVICE)
    lines: list[tuple[str, ...]] = []
    faults: list[str] = []
    records = []
    for place, dtype in chosen:
        case = SWEPT[place]
        found, failed = sweep_case(case, dtype, large_copy)
        faults += failed
        lines += sweep_lines(case, dtype, found)
        configs = [asdict(one_config) for one_config in found]
        records.append({"case": case.name, "dtype": str(dtype), "field": case.tiles, "configs": configs})
    if out is not None:
        write(out / "elementwise_sweep.json", json.dumps({"machine": machine(), "cases": records}) + "\n")
    columns = ("op", "type", "config", "time", "of copy")
    print("\n".join([f"{len(faults)} configs failed", *faults[:10], text_table(columns, lines)]))
    return not faults


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, metavar="DIR", help="where the records go")
    parser.add_argument("--sweep", action="store_true", help="time block sizes and warps instead")
    parser.add_argument("--only", default="", metavar="TEXT", help="only the cases with this in their name")
    options = parser.parse_args()
    if not TINY and not torch.cuda.is_available():
        parser.error("a GPU is needed, and PyTorch sees none")
    torch.manual_seed(20240229)
    with torch.no_grad():
        right = (run_sweep if options.sweep else run_comparison)(options.out, options.only)
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
