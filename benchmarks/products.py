"""Times of the checked-in products on a GPU, against the vendor's bare product, eager PyTorch and torch.compile.

    python benchmarks/products.py --check                   # values of every form and strategy, against f64
    python benchmarks/products.py --out benchmarks          # products.json and products.md, losses first
    python benchmarks/products.py --search --out DIR        # the planner's first pick against a search of its space
    python benchmarks/products.py --one-row --out DIR       # one row against weights in turn, nothing cleared between

Ratios are our time over the other's: above 1 is a loss. The limit of a row is the larger of its bytes over the copy
bandwidth and its operations over the rate of the largest bare product of the run.
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
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "4")

import torch
import torch.nn.functional as F  # noqa: N812 - its usual name

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

# ruff: noqa: E402, SLF001 - the path is set first; entries of generated modules take a config
from triton.testing import do_bench

from opgen.device.timing import copy_work, interleaved, machine
from opgen.emit import render
from opgen.pipeline import compile_specs
from opgen.plan.product_bands import fitting_configs
from opgen.plan.product_budget import Work
from opgen.plan.product_hints import Narrowed
from opgen.plan.product_model import Prepared, Shape, library_microseconds, microseconds
from opgen.plan.product_space import with_library
from opgen.source import Source
from opgen.targets import TARGETS

BF16, F16, F32 = torch.bfloat16, torch.float16, torch.float32
SEED = 20261129
OPS = (
    "linear_silu",
    "linear_bias",
    "linear_residual",
    "swiglu",
    "scores_causal",
    "linear_int8",
    "batched_linear",
)
WORKERS = 14


def built(folder: Path, targets: Sequence[str]) -> str:
    """The package of the ops that are timed, built for some targets; its name."""
    render.formatted = lambda text, origin: text
    sources = [Source(f"specs/{name}.op", (ROOT / "specs" / f"{name}.op").read_text()) for name in OPS]
    for path, text in compile_specs(sources, targets=tuple(targets), read=lambda path: sources[0]).files:
        (folder / "products_package" / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / "products_package" / path).write_text(text)
    sys.path.insert(0, str(folder))
    return "products_package"


def randn(*shape: int, dtype: torch.dtype) -> torch.Tensor:
    return torch.randn(shape, device="cuda", dtype=torch.float32).to(dtype)


# --- values -------------------------------------------------------------------------------------


def silu_arguments(m: int, n: int, k: int, dtype: torch.dtype) -> dict[str, torch.Tensor]:
    return {
        "x": randn(m, k, dtype=dtype),
        "w": randn(n, k, dtype=dtype) / math.sqrt(k),
        "b": randn(n, dtype=dtype),
    }


def _eager_silu(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return F.silu(F.linear(x, w, b))


def exact_silu(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return _eager_silu(x.double(), w.double(), b.double())


def error(got: torch.Tensor, want: torch.Tensor) -> float:
    """The largest error, in units of the result's type at the largest value."""
    scale = float(want.abs().max()) * torch.finfo(got.dtype).eps or 1.0
    return float((got.double() - want).abs().max()) / scale


def check_silu(job: tuple[str, str, tuple[int, int, int], torch.dtype]) -> list[str]:
    """What is wrong with one op at one size: every form and strategy."""
    folder, package, (m, n, k), dtype = job
    sys.path.insert(0, folder)
    silu = importlib.import_module(f"{package}.linear_silu")
    config = silu.rt.ProductConfig
    forms = [
        None,
        config((128, 128, 64), 8, 3),
        config((128, 128, 64), 8, 3, strategy="descriptors"),
        config((128, 256, 64), 8, 4, 16, strategy="descriptors", halves=True),
        config((16, 64, 128), 4, 6, form="swapped", strategy="descriptors"),
        config((16, 64, 128), 4, 4, form="swapped", split=4),
        config((1, 2, 1024), 4, 1, form="vector"),
        config((32, 32, 1), 4, 1, form="outer"),
        config((64, 64, 32), 4, 3, strategy="library"),
    ]
    arguments = silu_arguments(m, n, max(k, 1), dtype)
    if k == 0:
        arguments["x"], arguments["w"] = arguments["x"][:, :0], arguments["w"][:, :0]
    if dtype is F16:
        arguments["w"] = arguments["w"].t().contiguous().t()
    want = exact_silu(**arguments)
    wrong: list[str] = []
    for one in forms:
        if dtype is F32 and one is not None and (one.tile[1] == 256 or one.tile[2] == 128 or one.stages > 3):
            continue
        out = torch.full((m, n), float("nan"), dtype=dtype, device="cuda")
        try:
            silu._ENTRY.run(arguments, out=out, config=one)
            off = error(out, want)
        except Exception as failure:  # noqa: BLE001 - told
            wrong.append(f"{(m, n, k)} {dtype} {one}: {type(failure).__name__} {str(failure)[:200]}")
            continue
        if not off < (1.0 if dtype is not F32 else 16.0 + k / 16):
            wrong.append(f"{(m, n, k)} {dtype} {one}: {off:.2f} units off")
    return wrong


def check_others(job: tuple[str, str, str]) -> list[str]:
    """What is wrong with gated, batched and integer products."""
    folder, package, op = job
    sys.path.insert(0, folder)
    module = importlib.import_module(f"{package}.{op}")
    config = module.rt.ProductConfig
    found: list[tuple[str, dict[str, torch.Tensor], torch.Tensor, Any]] = []
    if op == "swiglu":
        for order in ((2, 0), (0, 2)):
            memory = randn(3 * 520 * 264, dtype=BF16) / 16
            gate, up = (memory[at * 520 * 264 :][: 520 * 264].view(520, 264) for at in order)
            x = randn(300, 264, dtype=BF16)
            want = F.silu(x.double() @ gate.double().T) * (x.double() @ up.double().T)
            configs = (
                None,
                config((128, 128, 64), 8, 3, 16, strategy="descriptors"),
                config((64, 64, 64), 4, 3),
            )
            given = {"x": x, "w_gate": gate, "w_up": up}
            found += [(f"swiglu {order}", given, want, one) for one in configs]
    elif op == "batched_linear":
        x, w, b = randn(3, 70, 72, dtype=BF16), randn(3, 72, 136, dtype=BF16), randn(3, 136, dtype=BF16)
        want = torch.baddbmm(b.double().unsqueeze(1), x.double(), w.double())
        configs = (
            None,
            config((64, 128, 64), 4, 3, strategy="descriptors"),
            config((64, 64, 32), 4, 3, strategy="library"),
        )
        found += [("batched", {"x": x, "w": w, "b": b}, want, one) for one in configs]
    else:
        x8, w8 = (
            torch.randint(-128, 128, shape, dtype=torch.int8, device="cuda")
            for shape in ((100, 256), (144, 256))
        )
        scales = torch.rand(100, device="cuda") / 100, torch.rand(144, device="cuda") / 10
        b = randn(144, dtype=F16)
        want = (x8.double() @ w8.double().T) * scales[0].double()[:, None] * scales[1].double() + b.double()
        given = {"x": x8, "w": w8, "x_scale": scales[0], "w_scale": scales[1], "b": b}
        configs = (None, config((64, 64, 64), 4, 3), config((64, 64, 128), 4, 3, strategy="descriptors"))
        found += [("int8", given, want, one) for one in configs]
    wrong: list[str] = []
    for label, arguments, want, one in found:
        try:
            off = error(module._ENTRY.run(arguments, config=one), want)
        except Exception as failure:  # noqa: BLE001 - told
            wrong.append(f"{label} {one}: {type(failure).__name__} {str(failure)[:200]}")
            continue
        if not off < 1.5:
            wrong.append(f"{label} {one}: {off:.2f} units off")
    return wrong


def check(folder: str, package: str) -> list[str]:
    """What is wrong with values: forms, strategies, types and layouts, at sizes that nothing divides."""
    sizes = ((300, 520, 264), (16, 1024, 512), (1, 4096, 4096), (1000, 777, 333), (17, 33, 1), (5, 40, 0))
    jobs = [(folder, package, size, dtype) for size in sizes for dtype in (BF16, F16, F32)]
    others = [(folder, package, op) for op in ("swiglu", "batched_linear", "linear_int8")]
    with multiprocessing.get_context("spawn").Pool(WORKERS) as pool:
        first, second = pool.map_async(check_silu, jobs, 1), pool.map_async(check_others, others, 1)
        return [line for found in (*first.get(), *second.get()) for line in found]


# --- the search ---------------------------------------------------------------------------------

#: Jobs that the configs of a size are compiled in.
_PARTS = 4


def drawn_sizes(count: int) -> list[tuple[int, int, int]]:
    """Sizes by a fixed seed, log-uniform: rows from 1 to 16384, columns and depths from 256 to 16384 in eights."""
    drawn = random.Random(SEED)  # noqa: S311 - sizes, not secrets

    def size(least: int, step: int) -> int:
        return round(math.exp(drawn.uniform(math.log(least), math.log(16384))) / step) * step

    return [(size(1, 1), size(256, 8), size(256, 8)) for _ in range(count)]


def runtime_config(module: ModuleType, one: Any) -> Any:
    return module.rt.ProductConfig(**{name: getattr(one, name) for name in one.__dataclass_fields__})


def _compile(job: tuple[str, str, list[Any], tuple[int, int, int]]) -> None:
    """Compiles configs in a process of its own, for Triton's cache on disk."""
    folder, package, found, (m, n, k) = job
    sys.path.insert(0, folder)
    silu = importlib.import_module(f"{package}.linear_silu")
    arguments = silu_arguments(m, n, k, BF16)
    for one in found:
        try:
            silu._ENTRY.run(arguments, config=runtime_config(silu, one))
        except Exception as failure:  # noqa: BLE001 - told again by whoever times it
            print("compile", one, type(failure).__name__, str(failure)[:150])


def search(
    folder: str, package: str, sizes: Sequence[tuple[int, int, int]], best: int, seconds: float
) -> list[dict[str, Any]]:
    """The first pick's time over the best one's of a search, by size."""
    silu = importlib.import_module(f"{package}.linear_silu")
    target = TARGETS[silu.rt.target_of(torch.device("cuda"))]
    work = Work("half", 2, 2, 2, 4, 2)
    fitting, _ = fitting_configs(work, target, Narrowed())
    chosen = {size: _candidates(fitting, size, work, target, best) for size in sizes}
    for found in chosen.values():
        found.append(replace(found[0], config=with_library(found[0].config)))
    started = time.time()
    jobs = [
        (folder, package, [one.config for one in found[at::_PARTS]], size)
        for size, found in chosen.items()
        for at in range(_PARTS)
    ]
    with multiprocessing.get_context("spawn").Pool(WORKERS) as pool:
        pool.map(_compile, jobs, 1)
    count = sum(map(len, chosen.values()))
    print(f"{count} configs of {len(chosen)} sizes compiled in {time.time() - started:.0f} s", flush=True)
    rows: list[dict[str, Any]] = []
    for size in sizes:
        if time.time() - started > seconds:
            break
        shape = Shape(*size)

        def predicted(one: Prepared, shape: Shape = shape) -> float:
            if one.config.strategy == "library":
                return library_microseconds(shape, work, target)
            return microseconds(one, shape, work, target)

        arguments = silu_arguments(*size, BF16)
        want = exact_silu(**arguments)
        timed: list[tuple[float, Any]] = []
        for one in chosen[size]:
            config = runtime_config(silu, one.config)
            try:
                off = error(silu._ENTRY.run(arguments, config=config), want)
                if not off < 1.0:
                    print("WRONG", size, one.config, off)
                    continue
                timed.append((measured(launcher(silu, arguments, config)), one))
            except Exception as failure:  # noqa: BLE001 - a search tells what it skips
                print("skip", one.config, type(failure).__name__, str(failure)[:150])
        timed.sort(key=lambda item: item[0])
        runs = [launcher(silu, arguments, None)]
        runs += [launcher(silu, arguments, runtime_config(silu, one.config)) for _, one in timed[:3]]
        x, w, b = arguments.values()
        runs += [partial(F.linear, x, w), partial(_eager_silu, x, w, b)]
        times = interleaved({str(at): run for at, run in enumerate(runs)}, rounds=3)  # the card gets hot
        first, *leading, bare, eager = times.values()
        rows.append(
            {
                "size": size,
                "first": first,
                "best": min(first, *leading),
                "bare": bare,
                "eager": eager,
                "top": [(round(t, 1), round(predicted(one), 1), asdict(one.config)) for t, one in timed[:6]],
                "all": [(round(t, 2), round(predicted(one), 2), asdict(one.config)) for t, one in timed],
            }
        )
    return rows


def launcher(module: ModuleType, arguments: dict[str, torch.Tensor], config: Any) -> Callable[[], None]:
    """A launch without the look at its arguments, which would take longer than short kernels."""
    kernel, (x, w, b) = module._ENTRY.variants[0].kernels[0], arguments.values()
    out = torch.empty((len(x), len(w)), dtype=x.dtype, device=x.device)
    bound = module.rt.bind(module._OPERATOR, (x, w, b), {})
    figures = kernel.prepare(bound, {**arguments, "y": out}, config)
    repeated = importlib.import_module(f"{module.__package__}._repeating").Repeated(bound.device)
    return lambda: kernel.launch(repeated, figures, bound.sizes, x, w, b, out)


def measured(run: Callable[[], Any]) -> float:
    """Microseconds, the median."""
    return 1e3 * float(do_bench(run, warmup=4, rep=12, return_mode="median"))


def _candidates(
    fitting: Sequence[Prepared], size: tuple[int, int, int], work: Work, target: Any, best: int
) -> list[Prepared]:
    """The best by prediction, and of the others the best of each form, strategy and tile."""
    ordered = sorted(fitting, key=lambda one: microseconds(one, Shape(*size), work, target))
    leaders: dict[Any, Prepared] = {}
    limit = 2.2 * microseconds(ordered[0], Shape(*size), work, target)
    for one in ordered:
        key = (one.config.form, one.config.strategy, one.config.tile, one.config.split > 1)
        if microseconds(one, Shape(*size), work, target) < limit:
            leaders.setdefault(key, one)
    extra = list(leaders.values())[:best]
    return list({repr(one.config): one for one in (*ordered[:best], *extra)}.values())


_COMPARED = """Times in microseconds of public calls on the GPU's clock, the contenders in turn; losses first.
`bare` is the vendor's product without the epilogue (of both products of a gated op).
Made by `python benchmarks/products.py --compare --autotune --out DIR`, which times max-autotune of nine rows."""
_ONE_ROW = """linear_silu, microseconds of one call of a graph of many; the limit is the
time in which a copy moves as much. Made by `python benchmarks/products.py --one-row --out DIR`."""
_SEARCHED = """linear_silu in bf16, microseconds of launches.
Made by `python benchmarks/products.py --search --sizes 20 --best {best} --out DIR`: sizes by the seed {seed},
log-uniform; of each the {best} best configs by prediction, the best of every other form, strategy and tile, and the
vendor's product ({count} in all); the pick and the three fastest again in turn."""


def page(title: str, told: str, table: str) -> str:
    """A record: what was measured where, and how."""
    versions = ", ".join(f"{key} {value}" for key, value in machine().items())
    return f"# {title}\n\n{versions}. {told}\n\n{table}\n"


def search_text(rows: Sequence[Mapping[str, Any]]) -> str:
    """A Markdown table, losses first, and the mean."""
    share = {tuple(row["size"]): row["best"] / row["first"] for row in rows}
    mean = math.exp(sum(map(math.log, share.values())) / len(share))
    lines = [
        "| M x N x K | pick | best | best / pick | bare | eager | the fastest config |",
        "|" + " --- |" * 7,
    ]
    for row in sorted(rows, key=lambda one: share[tuple(one["size"])]):
        config, size = row["top"][0][2], tuple(row["size"])
        words = f"{config['form']} {config['strategy']} {'x'.join(map(str, config['tile']))}"
        words += f", {config['warps']} warps, {config['stages']} stages"
        words += f", k in {config['split']} pieces" if config["split"] > 1 else ""
        first, best, bare, eager = (f"{row[name]:.1f}" for name in ("first", "best", "bare", "eager"))
        sizes = "x".join(map(str, size))
        lines.append(f"| {sizes} | {first} | {best} | {share[size]:.2f} | {bare} | {eager} | {words} |")
    return "\n".join([*lines, "", f"Geometric mean of best over pick: {mean:.3f}."])


# --- the comparison -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    """One op at one size: median microseconds by contender; `weights` says how many copies of the weights rotate."""

    op: str
    size: tuple[int, int, int]
    dtype: str
    times: dict[str, float]


def int8_contenders(ours: Callable[..., Any], m: int, n: int, k: int) -> dict[str, Callable[[], Any]]:
    """A product of 8-bit integers that is scaled by row and by column, in bf16; sums are exact."""
    x, w = (torch.randint(-127, 128, (rows, k), dtype=torch.int8, device="cuda") for rows in (m, n))
    x_scale, w_scale = (torch.rand(rows, device="cuda") / k for rows in (m, n))
    b = randn(n, dtype=BF16)

    def eager(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return (torch._int_mm(x, w.t()) * x_scale[:, None] * w_scale + b).to(BF16)

    off = error(ours(x, w, x_scale, w_scale, b), eager(x, w).double())
    if not off < 1.5:
        raise AssertionError(f"linear_int8 {m}x{n}x{k}: {off:.2f} units off")
    compiled = torch.compile(eager, dynamic=False)
    return {
        "ours": lambda: ours(x, w, x_scale, w_scale, b),
        "bare": lambda: torch._int_mm(x, w.t()),
        "eager": lambda: eager(x, w),
        "compiled": lambda: compiled(x, w),
    }


def contenders(
    package: str, op: str, size: tuple[int, int, int], dtype: torch.dtype, autotune: bool
) -> dict[str, Callable[[], Any]]:
    m, n, k = size
    module = importlib.import_module(f"{package}.{op}")
    if dtype is torch.int8:
        return int8_contenders(getattr(module, op), m, n, k)
    x = randn(m, k, dtype=dtype)
    copies = -(-_ROTATED_BYTES // (n * k * dtype.itemsize)) if m == 1 else 1
    weights = [randn(n, k, dtype=dtype) / math.sqrt(k) for _ in range(copies)]
    ups = [randn(n, k, dtype=dtype) / math.sqrt(k) for _ in range(copies)]
    b, residual = randn(n, dtype=dtype), randn(m, n, dtype=dtype)
    turn = iter(range(10**9))

    def pick() -> int:
        return next(turn) % copies

    eager: Callable[..., Any]
    arguments: Callable[[int], tuple[torch.Tensor, ...]]
    bare: Callable[[int], Any]
    if op == "swiglu":
        eager = lambda x, w, up: F.silu(F.linear(x, w)) * F.linear(x, up)  # noqa: E731
        arguments = lambda at: (x, weights[at], ups[at])  # noqa: E731
        bare = lambda at: (F.linear(x, weights[at]), F.linear(x, ups[at]))  # noqa: E731
    elif op == "linear_residual":
        eager = lambda x, w, r, b: F.linear(x, w, b) + r  # noqa: E731
        arguments = lambda at: (x, weights[at], residual, b)  # noqa: E731
        bare = lambda at: F.linear(x, weights[at])  # noqa: E731
    else:
        act: Callable[[torch.Tensor], torch.Tensor] = F.silu if op == "linear_silu" else (lambda value: value)
        eager = lambda x, w, b: act(F.linear(x, w, b))  # noqa: E731
        arguments = lambda at: (x, weights[at], b)  # noqa: E731
        bare = lambda at: F.linear(x, weights[at])  # noqa: E731
    ours = getattr(module, op)
    want = eager(*(one.double() for one in arguments(0)))
    off = error(ours(*arguments(0)), want)
    if not off < (1.5 if dtype is not F32 else 64):
        raise AssertionError(f"{op} {size} {dtype}: {off:.2f} units off")
    compiled = torch.compile(eager, dynamic=False)
    found: dict[str, Callable[[], Any]] = {
        "ours": lambda: ours(*arguments(pick())),
        "bare": lambda: bare(pick()),
        "eager": lambda: eager(*arguments(pick())),
        "compiled": lambda: compiled(*arguments(pick())),
    }
    if autotune:
        tuned = torch.compile(eager, dynamic=False, mode="max-autotune-no-cudagraphs")
        try:
            tuned(*arguments(0))
        except RuntimeError as failed:  # what Inductor raises; the other contenders are timed all the same
            print(f"max-autotune of {op} {size}: {failed}")
        else:
            found["max-autotune"] = lambda: tuned(*arguments(pick()))
    return found


#: Bytes of the weights that take turns where one row is multiplied: far more than any L2 cache holds.
_ROTATED_BYTES = 4 * 10**8

#: Rows of the left operand, and the other two sizes, of which all pairs are timed.
M_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 4096)
NK_SIZES = ((4096, 4096), (14336, 4096), (4096, 14336), (11008, 4096))
#: What is compared, first to last: the op, M, N and K, and the type of x.
CASES = tuple(dict.fromkeys((
    ("linear_silu", (1, 14336, 4096), BF16), ("linear_residual", (1, 4096, 14336), BF16),
    ("linear_silu", (16, 4096, 4096), BF16), ("linear_silu", (16, 14336, 4096), BF16),
    ("swiglu", (16, 14336, 4096), BF16), ("linear_silu", (64, 14336, 4096), BF16),
    ("linear_silu", (256, 14336, 4096), BF16), ("linear_silu", (512, 14336, 4096), BF16),
    ("swiglu", (1024, 14336, 4096), BF16), ("linear_silu", (1024, 4096, 4096), BF16),
    ("linear_silu", (2048, 11008, 1024), BF16), ("linear_silu", (4096, 4096, 4096), BF16),
    ("linear_silu", (2048, 16384, 4096), BF16), ("swiglu", (4096, 14336, 4096), BF16),
    ("linear_residual", (4096, 4096, 14336), BF16), ("linear_silu", (8192, 8192, 8192), BF16),
    ("linear_bias", (16, 4096, 4096), F32), ("linear_bias", (2048, 4096, 4096), F16),
    ("linear_bias", (2048, 4096, 4096), F32), ("swiglu", (8192, 8192, 8192), BF16),
    ("linear_silu", (16384, 14336, 4096), BF16), ("linear_int8", (4096, 14336, 4096), torch.int8),
    *(("linear_silu", (m, *nk), BF16) for m in M_SIZES for nk in NK_SIZES),
    *(("linear_silu", (m, *nk), F16) for m in M_SIZES for nk in NK_SIZES),
)))  # fmt: skip
#: Of these, what `--autotune` times max-autotune for, which takes long to compile: they come last.
TUNED = frozenset((
    ("linear_silu", (2048, 16384, 4096), BF16), ("linear_silu", (8192, 8192, 8192), BF16),
    ("linear_silu", (16384, 14336, 4096), BF16), ("linear_silu", (512, 14336, 4096), BF16),
    ("linear_silu", (64, 14336, 4096), BF16), ("linear_silu", (16, 14336, 4096), BF16),
    ("linear_silu", (1, 14336, 4096), BF16), ("linear_residual", (1, 4096, 14336), BF16),
    ("swiglu", (4096, 14336, 4096), BF16),
))  # fmt: skip


def compare(package: str, seconds: float, autotune: bool, sizes: Sequence[tuple[int, int, int]]) -> list[Row]:
    """All contenders in turn, by case; of some sizes alone, where these are given."""
    started = time.time()
    rows: list[Row] = []
    for op, size, dtype in sorted(CASES, key=TUNED.__contains__):
        if sizes and size not in sizes:
            continue
        if time.time() - started > seconds:
            print(f"{len(rows)} of {len(CASES)} rows were measured in the time given")
            break
        found = contenders(package, op, size, dtype, autotune and (op, size, dtype) in TUNED)
        rows.append(Row(op, size, str(dtype).removeprefix("torch."), interleaved(found)))
        torch.compiler.reset()
    return rows


def one_row(package: str) -> tuple[float, list[Row]]:
    """The bandwidth of a copy in bytes a microsecond, and one row by calls that a graph holds one after another.

    Nothing is cleared between them: what clears L2 leaves lines that are written back while the weights are read, and a
    call then moves half as much again. The weights take turns, and are in no cache when their turn comes.
    """
    rows: list[Row] = []
    for dtype, nk in itertools.product((BF16, F16), NK_SIZES):
        found = contenders(package, "linear_silu", (1, *nk), dtype, autotune=False)
        samples: dict[str, list[float]] = {name: [] for name in found}
        graphs = {name: _graph(run) for name, run in found.items()}
        for _ in range(5):
            for name, graph in graphs.items():
                samples[name].append(_replayed(graph))
        times = {name: statistics.median(own) for name, own in samples.items()}
        rows.append(Row("linear_silu", (1, *nk), str(dtype).removeprefix("torch."), times))
        torch.compiler.reset()
    count = 2**30
    return count / _replayed(_graph(copy_work(count))), rows


_CALLS = 60


def _graph(run: Callable[[], Any]) -> torch.cuda.CUDAGraph:
    """A graph of some calls."""
    for _ in range(3):
        run()
    graph = torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        for _ in range(_CALLS):
            run()
    return graph


def _replayed(graph: torch.cuda.CUDAGraph) -> float:
    """Microseconds of one of the graph's calls."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    graph.replay()
    end.record()
    torch.cuda.synchronize()
    return float(1e3 * start.elapsed_time(end) / _CALLS)


def one_row_text(bandwidth: float, rows: Sequence[Row]) -> str:
    """A Markdown table with the share of a copy's bandwidth that the weights are read at."""
    names = list(rows[0].times)
    lines = [
        "| M x N x K | type | limit | " + " | ".join(names) + " | share of copy bandwidth |",
        "|" + " --- |" * (len(names) + 4),
    ]
    for row in rows:
        _, n, k = row.size
        limit = n * k * 2 / bandwidth
        times = " | ".join(f"{row.times[name]:.1f}" for name in names)
        size = "x".join(map(str, row.size))
        lines.append(f"| {size} | {row.dtype} | {limit:.1f} | {times} | {limit / row.times['ours']:.3f} |")
    return "\n".join(lines)


def text(rows: Sequence[Row]) -> str:
    """A Markdown table, losses first."""
    names = list(dict.fromkeys(name for row in rows for name in row.times))
    lines = [
        "| op | M x N x K | type | " + " | ".join(names) + " | over the best other |",
        "|" + " --- |" * (len(names) + 4),
    ]

    def ratio(row: Row) -> float:
        return row.times["ours"] / min(
            time for name, time in row.times.items() if name not in ("ours", "bare")
        )

    for row in sorted(rows, key=ratio, reverse=True):
        times = " | ".join(f"{row.times[name]:.1f}" if name in row.times else "-" for name in names)
        lines.append(
            f"| {row.op} | {'x'.join(map(str, row.size))} | {row.dtype} | {times} | {ratio(row):.3f} |"
        )
    return "\n".join(lines)


def _size(asked: str) -> tuple[int, int, int]:
    """A size as 16x4096x4096."""
    m, n, k = map(int, asked.split("x"))
    return m, n, k


def _pick_text(took: float, predicted: float, config: Mapping[str, Any]) -> str:
    """A config of the search with its microseconds, measured and predicted."""
    words = f"{config['form'][:4]} {config['strategy'][:4]} {config['tile']}"
    figures = f"w{config['warps']} s{config['stages']} /{config['split']}"
    return f"{took} ({predicted}) {words} {figures} {'h' if config['halves'] else ''}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for flag in ("--check", "--search", "--autotune", "--compare", "--one-row"):
        parser.add_argument(flag, action="store_true")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--sizes", type=int, default=20)
    parser.add_argument("--best", type=int, default=40)
    parser.add_argument(
        "--size",
        action="append",
        default=[],
        help="a size to search or compare, as 16x4096x4096; several by repeating it",
    )
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--package", type=Path, help="a folder that holds the built package already")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        major, minor = torch.cuda.get_device_capability()
        if options.package:
            sys.path.insert(0, str(options.package))
        folder = str(options.package or temporary)
        package = "products_package" if options.package else built(Path(folder), [f"sm_{major}{minor}"])
        if options.check:
            wrong = check(folder, package)
            print("\n".join(wrong) or "all values are right", flush=True)
        if options.search:
            sizes = [_size(one) for one in options.size] or drawn_sizes(options.sizes)
            rows = search(folder, package, sizes, options.best, options.seconds)
            for row in rows:
                times = " ".join(f"{name} {row[name]:.1f}" for name in ("first", "best", "bare", "eager"))
                top = "; ".join(_pick_text(*pick) for pick in row["top"][:3])
                print(f"{row['size']}: {times} | {top}")
            shares = [row["best"] / row["first"] for row in rows]
            print(
                "geometric mean of best over first pick:",
                round(math.exp(sum(map(math.log, shares)) / len(shares)), 4),
            )
            if options.out:
                (options.out / "products_search.json").write_text(json.dumps(rows))
                count = sum(len(row["all"]) for row in rows)
                told = _SEARCHED.format(best=options.best, seed=SEED, count=count)
                found_page = page("Products: the planner's pick against a search", told, search_text(rows))
                (options.out / "products_search.md").write_text(found_page)
        if options.one_row:
            bandwidth, singles = one_row(package)
            print(one_row_text(bandwidth, singles), flush=True)
            if options.out:
                one_row_page = page(
                    "One row against weights in turn", _ONE_ROW, one_row_text(bandwidth, singles)
                )
                (options.out / "products_one_row.md").write_text(one_row_page)
        if options.compare or not (options.check or options.search or options.one_row):
            asked = [] if options.search else [_size(one) for one in options.size]
            found = compare(package, options.seconds, options.autotune, asked)
            print(text(found), flush=True)
            if options.out:
                (options.out / "products.json").write_text(
                    json.dumps([asdict(row) for row in found], indent=1)
                )
                compared = page("Matrix products with epilogues", _COMPARED, text(found))
                (options.out / "products.md").write_text(compared)


if __name__ == "__main__":
    main()
