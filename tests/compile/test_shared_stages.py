"""What several jobs of `opgen vet` have in common is made once, and is what each alone would make."""

from __future__ import annotations

import gc
import importlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from triton import knobs
from triton._C.libtriton import ir, llvm
from triton.compiler import ASTSource

from opgen.device import front_end, libraries, optimised, twins, vet_worker
from opgen.device.assembly import figures_of
from opgen.device.offline import Alignment, Job, Recorded, compile_job, job_of, source_of
from opgen.targets import TARGETS

pytestmark = pytest.mark.compile

KERNELS = """
import triton
import triton.language as tl


@triton.jit
def row(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n).to(tl.float32)
    total = tl.sum(x * x) / tl.num_programs(0)
    tl.store(y_ptr + at, (tl.exp2(x) * tl.rsqrt(total)).to(y_ptr.dtype.element_ty), mask=at < n)


@triton.jit
def product(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    place = at[:, None] * n + at[None, :]
    x = tl.load(x_ptr + place)
    tl.store(y_ptr + place, tl.dot(x, x).to(y_ptr.dtype.element_ty))
"""


@pytest.fixture(autouse=True)
def plain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Triton as it is, but for its cache; and again after a worker's change of it."""
    monkeypatch.setattr(llvm, "link_extern_libs", llvm.link_extern_libs)
    monkeypatch.setattr(llvm, "optimize_module", llvm.optimize_module)
    monkeypatch.setattr(llvm.module, "__str__", llvm.module.__str__)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "shared_kernels.py").write_text(KERNELS)
    sys.modules.pop("shared_kernels", None)
    threshold = gc.get_threshold()
    with knobs.cache.scope(), knobs.compilation.scope(), knobs.runtime.scope():
        knobs.cache.dir = str(tmp_path / "triton")
        yield
    gc.unfreeze()
    gc.set_threshold(*threshold)


def job(kernel: str, target: str, dtype: torch.dtype = torch.float16, block: int = 64) -> Job:
    tensors = [torch.empty(4096, dtype=dtype, device="meta") for _ in range(2)]
    found = getattr(importlib.import_module("shared_kernels"), kernel)
    return job_of(Recorded(found, (*tensors, 4096), {"BLOCK": block}), TARGETS[target], Alignment.DIVISIBLE)


def alone(one: Job) -> Any:
    kernel = getattr(importlib.import_module(one.module), one.kernel)
    return compile_job(source_of(kernel, one), one, TARGETS[one.target])


def in_turn(jobs: Sequence[Job], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What a worker compiles of jobs, one after another."""
    made: list[Any] = []
    monkeypatch.setattr(vet_worker, "figures_of", lambda compiled, target: made.append(compiled))
    (tmp_path / "shared").mkdir()
    do = vet_worker.compiling(vet_worker.Place(str(tmp_path), str(tmp_path / "shared")))
    for one in jobs:
        do(one)
    return made


def front_ends(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The targets for which the front end runs, as it does."""
    found: list[str] = []
    make = ASTSource.make_ir

    def made(self: Any, target: Any, options: Any, codegen_fns: Any, module_map: Any, context: Any) -> Any:
        found.append(self.fn.__name__)
        return make(self, target, options, codegen_fns, module_map, context)

    monkeypatch.setattr(ASTSource, "make_ir", made)
    return found


@pytest.mark.parametrize(
    ("kernel", "dtype"), [("row", torch.float16), ("product", torch.bfloat16), ("product", torch.float32)]
)
def test_it_is_what_each_alone_would_be(
    kernel: str, dtype: torch.dtype, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = [job(kernel, target, dtype) for target in TARGETS]
    knobs.compilation.disable_line_info = True
    expected = [alone(one) for one in jobs]
    made = in_turn(jobs, tmp_path, monkeypatch)
    for one, first, second in zip(jobs, expected, made, strict=True):
        target = TARGETS[one.target]
        form = "amdgcn" if target.is_amd else "ptx"
        assert first.asm[form] == second.asm[form], one.target
        assert figures_of(first, target) == figures_of(second, target)


def test_targets_that_give_the_front_end_the_same_share_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = front_ends(monkeypatch)
    in_turn([job("row", target) for target in TARGETS], tmp_path, monkeypatch)
    assert ran == ["row"]


def test_a_product_whose_precision_is_the_targets_own_is_shared_by_vendor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NVIDIA's default is tf32 and AMD's is not; sm_90 sums f8 products differently, and others not at all."""
    ran = front_ends(monkeypatch)
    targets = ("sm_80", "sm_86", "gfx90a", "gfx1100")
    in_turn([job("product", target, torch.float32) for target in targets], tmp_path, monkeypatch)
    assert len(ran) == 2


def test_optimised_texts_and_small_libraries_are_shared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_turn([job("row", target) for target in ("sm_75", "sm_86", "sm_89", "gfx942")], tmp_path, monkeypatch)
    assert len(list((tmp_path / "shared").glob("*.llz"))) == 1
    texts = [path.read_text() for path in (tmp_path / "shared").glob("*.ll")]
    assert len(texts) == 2
    assert {text.count("\ndefine ") for text in texts} == {1, 2}  # one of AMD's; of NVIDIA's, exp2 and rsqrt


@pytest.mark.skipif(
    not twins.is_known(), reason="this release of Triton compiles differently for these targets"
)
@pytest.mark.parametrize(("dtype", "runs"), [(torch.float16, 1), (torch.float8_e5m2, 3)])
def test_one_ptx_is_made_for_twins_but_not_of_8_bit_floats(
    dtype: torch.dtype, runs: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[str] = []
    assemble = llvm.translate_to_asm

    def assembled(text: str, triple: str, processor: str, *given: Any) -> Any:
        ran.append(processor)
        return assemble(text, triple, processor, *given)

    monkeypatch.setattr(llvm, "translate_to_asm", assembled)
    in_turn([job("row", target, dtype) for target in ("sm_80", "sm_86", "sm_89")], tmp_path, monkeypatch)
    assert len(ran) == runs


def test_releases_without_these_parts_compile_plainly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = [job("row", target) for target in ("sm_80", "sm_90")]
    monkeypatch.delattr(ir, "parse_mlir_module")
    monkeypatch.setattr(optimised, "_READ", ("0.",))
    monkeypatch.setattr(twins, "_READ", ("0.",))
    assert [part.is_known() for part in (front_end, libraries, optimised, twins)] == [False] * 4
    ran = front_ends(monkeypatch)
    made = in_turn(jobs, tmp_path, monkeypatch)
    assert ran == ["row", "row"]
    assert all(one.asm["cubin"] for one in made)
    assert [path.name for path in (tmp_path / "shared").iterdir() if not path.is_dir()] == []
