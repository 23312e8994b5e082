"""`opgen vet` finds what is wrong: defects planted into generated modules and into a plain product kernel."""

from __future__ import annotations

import importlib
import itertools
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from opgen.cli import main
from opgen.device import units, vet
from opgen.device.calls import Skipped
from opgen.device.estimates import Estimator
from opgen.device.offline import Alignment, Recorded, job_of
from opgen.device.vet import Counts, Planned, Row
from opgen.emit import render
from opgen.pipeline import compile_specs
from opgen.source import Source
from opgen.targets import TARGETS
from tests.behaviour.building import write_package

pytestmark = pytest.mark.compile

_numbers = itertools.count()

SPEC = """
op planted(x: T[...]) -> y: T[...] for T in {f16, f32} {
  y = x * 2
}
"""


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPGEN_CACHE_DIR", str(tmp_path / "cache"))


def imported(name: str, parent: Path) -> ModuleType:
    sys.path.insert(0, str(parent))
    try:
        importlib.invalidate_caches()
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(parent))


def build(tmp_path: Path, change: Callable[[str], str] = str) -> ModuleType:
    """The module of the spec, its text changed before it is imported."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(render, "formatted", lambda text, origin: text)
        made = compile_specs([Source("planted.op", SPEC)], read=lambda path: Source(path, ""))
    folder = tmp_path / f"vetted_{next(_numbers)}"
    for path, text in made.files:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        changed = change(text) if path == "planted.py" else text
        assert change is str or path != "planted.py" or changed != text, "the defect was not planted"
        (folder / path).write_text(changed)
    return imported(f"{folder.name}.planted", tmp_path)


def vetted(
    module: ModuleType, tmp_path: Path, targets: Sequence[str], sample: int | None = None
) -> tuple[tuple[Row, ...], Counts]:
    skipped: list[Any] = []
    jobs = list(vet.plan_jobs(module, Estimator(None, {}), targets, skipped))
    assert skipped == []
    return vet.run(jobs, str(tmp_path), jobs=1, sample=sample, progress=lambda done, total: None)


def wrong(rows: Sequence[Row]) -> list[str]:
    return [error for row in rows for error in row.errors]


def test_nothing_is_wrong_with_what_is_generated(tmp_path: Path) -> None:
    module = build(tmp_path)
    rows, counts = vetted(module, tmp_path, ("sm_90", "gfx942"))
    assert wrong(rows) == []
    assert {row.planned.job.kernel for row in rows} == {"_planted_dense", "_planted_strided"}
    assert {row.planned.alignment for row in rows} == set(Alignment)
    assert {row.planned.types for row in rows} == {"float16", "float32"}
    assert counts.run == counts.unique == len(rows)
    assert counts.total > counts.unique
    aligned = [
        row
        for row in rows
        if row.planned.alignment is Alignment.DIVISIBLE and "dense" in row.planned.job.kernel
    ]
    assert {row.figures.load_bytes for row in aligned if row.figures} == {16}
    again, counts = vetted(build(tmp_path), tmp_path, ("sm_90", "gfx942"))
    assert (counts.run, counts.cached) == (0, len(rows))
    assert [row.figures for row in again] == [row.figures for row in rows]


def test_a_sample_covers_kernels_and_targets(tmp_path: Path) -> None:
    rows, counts = vetted(build(tmp_path), tmp_path, ("sm_80", "sm_90"), sample=4)
    assert (counts.run, counts.left) == (4, counts.unique - 4)
    assert {(row.planned.job.kernel, row.planned.job.target) for row in rows} == {
        (kernel, target) for kernel in ("_planted_dense", "_planted_strided") for target in ("sm_80", "sm_90")
    }


def test_what_is_left_when_the_time_is_over_is_done_by_the_next_run(tmp_path: Path) -> None:
    jobs = list(vet.plan_jobs(build(tmp_path), Estimator(None, {}), ("sm_80",), []))

    def ran(is_over: bool) -> Counts:
        def progress(done: int, total: int) -> None:
            pass

        run = vet.run(jobs, str(tmp_path), jobs=1, sample=6, is_over=lambda: is_over, progress=progress)
        return run[1]

    first, second = ran(True), ran(False)
    assert (first.run, first.cached, first.left) == (1, 0, first.unique - 1)
    assert (second.run, second.cached, second.left) == (5, 1, second.unique - 6)


def test_too_many_warps_for_a_target_of_wide_waves(tmp_path: Path) -> None:
    module = build(tmp_path, lambda text: text.replace("warps=1", "warps=32").replace("warps=2", "warps=32"))
    rows, _ = vetted(module, tmp_path, ("gfx942", "gfx1100"))
    found = {row.planned.job.target for row in rows if row.errors}
    assert found == {"gfx942"}
    assert "2048 threads, and gfx942 runs 1024 in a program" in wrong(rows)


def test_exp_of_a_half(tmp_path: Path) -> None:
    module = build(tmp_path, lambda text: text.replace("x * 2.0", "tl.exp(x)").replace(".to(tl.float32)", ""))
    rows, _ = vetted(module, tmp_path, ("sm_90",))
    assert {row.planned.types for row in rows if row.errors} == {"float16"}
    assert all("does not compile" in error and "fp16" in error for error in wrong(rows))


def test_a_method_of_an_argument_that_is_one(tmp_path: Path) -> None:
    module = build(tmp_path, lambda text: text.replace("at < numel", "at < numel.to(tl.int64)"))
    rows, _ = vetted(module, tmp_path, ("sm_90",))
    found = [row for row in rows if row.errors]
    assert found
    assert {row.planned.alignment for row in found} == {Alignment.ONE}
    assert {row.planned.job.kernel for row in found} == {"_planted_dense"}


@pytest.mark.parametrize(
    ("spec", "target", "endings"),
    [
        (
            "op one(x: T[..., C]) -> y: T[..., C] { y = softmax[C](x) }",
            "sm_90",
            {"resident", "looped", "split"},
        ),
        (
            "op one(x: T[M, K], w: T[N, K]) -> y: T[M, N] { y = x @ w }",
            "sm_90",
            {"stream", "tiles", "finish"},
        ),
        ("op one(x: T[M, K], w: T[N, K]) -> y: T[M, N] { y = x @ w }", "gfx942", {"tiles", "finish"}),
    ],
    ids=["rows", "product", "product without descriptors"],
)
def test_every_strategy_is_vetted(spec: str, target: str, endings: set[str], tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(render, "formatted", lambda text, origin: text)
        made = compile_specs([Source("one.op", spec)], read=lambda path: Source(path, ""), targets=(target,))
    folder = tmp_path / f"vetted_{next(_numbers)}"
    for path, text in made.files:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    module = imported(f"{folder.name}.one", tmp_path)
    (op,) = made.specs[0].ops
    estimator = Estimator(op.ir, {plan.target: plan for plan in op.plans})
    jobs = list(vet.plan_jobs(module, estimator, (target,), []))
    assert {one.job.kernel.rpartition("_")[2] for one in jobs} == endings
    assert {one.alignment for one in jobs} == set(Alignment)
    multiplying = [one for one in jobs if one.job.kernel.endswith(("_tiles", "_stream"))]
    assert all(one.estimate is not None for one in multiplying)
    assert len({one.config for one in jobs}) > 3


def test_sizes_that_an_op_refuses_are_skipped(tmp_path: Path) -> None:
    spec = "op even(x: f32[N]) -> y: f32[N] { require N % 16 == 0 y = x * 2 }"
    module = imported(f"{write_package(spec, tmp_path / 'refusing').__name__}.even", tmp_path)
    skipped: list[Skipped] = []
    jobs = list(vet.plan_jobs(module, Estimator(None, {}), ("sm_90",), skipped))
    assert skipped == [Skipped("even, other sizes", "no sizes that were tried meet what the op requires")]
    assert {one.alignment for one in jobs} == {Alignment.DIVISIBLE, Alignment.ONE}


def test_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.opgen]\n")
    (tmp_path / "planted.op").write_text(SPEC)
    monkeypatch.chdir(tmp_path)
    command = ["vet", "planted.op", "--target", "sm_90", "--jobs", "1", "--sample", "3"]
    assert main([*command, "--json", "all.json", "--md", "tables.md"]) == 0
    out, err = capsys.readouterr()
    assert "_planted_dense" in out
    assert "3 run, 0 cached" in out.splitlines()[-1]
    assert "vetting: 3/3" in err
    told = json.loads(Path("all.json").read_text())
    assert told["jobs"]["run"] == len(told["rows"]) == 3
    assert all(row["figures"]["registers"] > 0 and row["errors"] == [] for row in told["rows"])
    page = Path("tables.md").read_text()
    assert "Made by `opgen vet planted.op --target sm_90 --sample 3 --md tables.md`" in page
    assert "| _planted_dense | sm_90 |" in page
    assert "3 compiled jobs, 2 configs of a kernel on a target; " in page
    assert main([*command, "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert [row["figures"] for row in printed["rows"]] == [row["figures"] for row in told["rows"]]
    assert printed["jobs"] == {**told["jobs"], "run": 0, "cached": 3}
    monkeypatch.setattr(vet, "SPILL_BOUND", -1)
    assert main(command) == 1
    out, _ = capsys.readouterr()
    assert "0 bytes spilled by a thread, and the bound is -1" in out
    assert "0 run, 3 cached" in out.splitlines()[-1]


# --- products -----------------------------------------------------------------------------------

PRODUCT = '''
import triton
import triton.language as tl


@triton.jit
def product(a_ptr, b_ptr, c_ptr, K, a_s, b_s, BLOCK: tl.constexpr, DEPTH: tl.constexpr, PRECISION: tl.constexpr):
    """c = a @ b for one tile."""
    at = tl.arange(0, BLOCK)
    depth = tl.arange(0, DEPTH)
    total = tl.zeros((BLOCK, BLOCK), tl.float32)
    for start in range(0, K, DEPTH):
        a = tl.load(a_ptr + at[:, None] * a_s + (start + depth)[None, :])
        b = tl.load(b_ptr + (start + depth)[:, None] * b_s + at[None, :])
        total = tl.dot(a.to(b.dtype), b, total, input_precision=PRECISION)
    tl.store(c_ptr + at[:, None] * b_s + at[None, :], total.to(c_ptr.dtype.element_ty))
'''


def product_rows(
    tmp_path: Path,
    targets: Sequence[str],
    *,
    dtype: torch.dtype = torch.bfloat16,
    left: torch.dtype | None = None,
    block: int = 128,
    depth: int = 64,
    stages: int = 3,
    warps: int = 8,
    precision: str = "ieee",
    estimate: Callable[[str], int | None] = lambda target: None,
) -> dict[str, Row]:
    name = f"product_{next(_numbers)}"
    (tmp_path / f"{name}.py").write_text(PRODUCT)
    kernel = imported(name, tmp_path).product
    dtypes = (left or dtype, dtype, dtype)
    tensors = [torch.empty((block, 4096), dtype=one, device="meta") for one in dtypes]
    arguments = (*tensors, 4096, 4096, 4096)
    keywords = {
        "BLOCK": block,
        "DEPTH": depth,
        "PRECISION": precision,
        "num_warps": warps,
        "num_stages": stages,
    }
    launch = Recorded(kernel, arguments, keywords)
    planned = [
        Planned(
            op="product",
            types=str(dtype),
            layout="",
            alignment=Alignment.DIVISIBLE,
            config="",
            estimate=estimate(target),
            is_tight=True,
            job=job_of(launch, TARGETS[target]),
        )
        for target in targets
    ]
    rows, _ = vet.run(planned, str(tmp_path), jobs=1, sample=None, progress=lambda done, total: None)
    return {row.planned.job.target: row for row in rows}


def test_more_shared_memory_than_a_target_has(tmp_path: Path) -> None:
    rows = product_rows(tmp_path, ("sm_80", "sm_89", "sm_90", "sm_120"), stages=5)
    assert [rows[name].errors for name in ("sm_80", "sm_90")] == [(), ()]
    for name in ("sm_89", "sm_120"):
        assert rows[name].errors == (f"131072 bytes of shared memory, and {name} has 101376",)


def test_a_tile_under_the_least_of_a_product(tmp_path: Path) -> None:
    rows = product_rows(tmp_path, ("sm_90",), depth=8)
    (error,) = rows["sm_90"].errors
    assert "does not compile" in error
    assert "K >= 16" in error


def test_spills(tmp_path: Path) -> None:
    rows = product_rows(tmp_path, ("sm_80",), block=256, stages=2, warps=4)
    (error,) = rows["sm_80"].errors
    assert f"bytes spilled by a thread, and the bound is {vet.SPILL_BOUND}" in error


def test_the_matrix_unit_is_seen(tmp_path: Path) -> None:
    targets = ("sm_75", "sm_80", "sm_90", "sm_100", "gfx942", "gfx1100")
    rows = product_rows(tmp_path, targets, block=64, depth=32)
    units = {name: row.figures.unit for name, row in rows.items() if row.figures}
    assert units == {
        "sm_75": None,
        "sm_80": "mma",
        "sm_90": "wgmma",
        "sm_100": "tcgen05",
        "gfx942": "mfma",
        "gfx1100": "wmma",
    }
    assert all(row.errors == () for row in rows.values())


def test_a_product_that_should_use_the_matrix_unit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """sm_75 has no unit for f32: where the table says that it has one, that is an error."""

    def errors() -> tuple[str, ...]:
        rows = product_rows(tmp_path, ("sm_75",), dtype=torch.float32, block=32, depth=32, precision="tf32")
        return rows["sm_75"].errors

    assert errors() == ()
    monkeypatch.setitem(units.UNITS["f32"], "sm_75", "mma")
    assert errors() == ("a product of f32 tf32 uses no matrix unit, and sm_75 has mma",)


def test_an_exact_product_that_the_matrix_unit_rounds(tmp_path: Path) -> None:
    """Triton 3.7.1 gives f32 products to the unit of sm_100, as tf32, where an operand was widened."""

    def errors(left: torch.dtype) -> tuple[str, ...]:
        rows = product_rows(tmp_path, ("sm_100",), dtype=torch.float32, left=left, block=64, depth=32)
        return rows["sm_100"].errors

    assert errors(torch.float32) == ()
    assert errors(torch.bfloat16) == ("an exact product of f32 uses tcgen05, which rounds to tf32 on sm_100",)


@pytest.mark.parametrize(("offset", "is_right"), [(-16, False), (0, True), (4000, True), (40000, False)])
def test_estimates_are_upper_bounds(offset: int, is_right: bool, tmp_path: Path) -> None:
    exact = 3 * (128 * 64 + 64 * 128) * 2
    row = product_rows(tmp_path, ("sm_90",), estimate=lambda target: exact + offset)["sm_90"]
    assert row.figures is not None
    assert row.figures.shared_bytes == exact
    assert (row.errors == ()) is is_right, row.errors
