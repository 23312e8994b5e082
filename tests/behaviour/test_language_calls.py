"""Calls: what is refused, and how; `out=`; and CPU tensors outside the interpreter, also under `torch.compile`."""

import importlib
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.behaviour.building import build_package

SPEC = """
op add(x: T[..., N], b: T[N] = 0, s: f32 = 1, n: i32 = 2, f: bool = true, const c: i32 = 1) -> y: T[..., N] {
  require N % c == 0 "c divides N"
  y = where(f, x * s + n, b) * c
}
op two(x: f32[M, N], v: f32[N]) -> (y: f32[N, M], z: i64[M]) { y = x * v z = index[M] }
op step(inout p: f32[M], g: f32[M]) -> q: f32[M] { q = p p = p - g }
op pick(t: f32[M], i: i64[M]) -> y: f32[M] { y = t[M: i] }
op blocks(x: f32[M, K], s: f32[M, K / 4], q: u4[M, K]) -> y: f32[M, K] { y = x * s * q }
"""


@pytest.fixture(scope="module")
def ops(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    return build_package(SPEC, tmp_path_factory.mktemp("calls"))


def zeros(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.zeros(shape, dtype=dtype, device="cuda" if torch.cuda.is_available() else "cpu")


#: A call, its error, and what the message names: the op first, then the parameter, what was given, what is accepted.
REFUSED: tuple[tuple[Callable[[Any], Any], type[Exception], str], ...] = (
    (lambda ops: ops.add([1.0]), TypeError, "add `x` Tensor list"),
    (lambda ops: ops.add(None), TypeError, "add `x` Tensor None"),
    (lambda ops: ops.add(zeros(3, dtype=torch.float64)), TypeError, "add `x` float64 float16, float32"),
    (
        lambda ops: ops.add(zeros(3), zeros(3, dtype=torch.float16)),
        TypeError,
        "add `b` float16 `x` float32 T",
    ),
    (lambda ops: ops.add(zeros(2, 4), zeros(5)), ValueError, "add N 4 `x` 5 `b`"),
    (lambda ops: ops.add(zeros()), ValueError, "add `x` at least 1 N ()"),
    (lambda ops: ops.two(zeros(1, 2, 3), zeros(3)), ValueError, "two `x` 2 M, N (1, 2, 3)"),
    (lambda ops: ops.add(zeros(4), c=3), ValueError, "add N % c == 0 c divides N N = 4 c = 3"),
    (lambda ops: ops.add(zeros(4), s="1"), TypeError, "add `s` number 0-d tensor '1' str"),
    (lambda ops: ops.add(zeros(4), s=zeros(1)), TypeError, "add `s` 0-d tensor (1,)"),
    (lambda ops: ops.add(zeros(4), n=1.0), TypeError, "add `n` integer i32 1.0 float"),
    (lambda ops: ops.add(zeros(4), n=2**31), ValueError, "add `n` 2147483648 i32"),
    (lambda ops: ops.add(zeros(4), n=torch.tensor(1.0)), TypeError, "add `n` i32 float32"),
    (lambda ops: ops.add(zeros(4), f="yes"), TypeError, "add `f` bool 'yes'"),
    (lambda ops: ops.add(zeros(4), c=torch.tensor(1)), TypeError, "add `c` Python number"),
    (lambda ops: ops.add(zeros(4).to_sparse()), TypeError, "add `x` strided layout"),
    (lambda ops: ops.add(zeros(4), torch.zeros(4, device="meta")), ValueError, "add `b` meta `x`"),
    (
        lambda ops: ops.blocks(zeros(2, 6), zeros(2, 1), zeros(2, 3, dtype=torch.uint8)),
        ValueError,
        "blocks K 6 `s` 4",
    ),
    (
        lambda ops: ops.blocks(zeros(2, 8), zeros(2, 2), zeros(2, 3, dtype=torch.uint8)),
        ValueError,
        "blocks K 8 6 `q`",
    ),
    (lambda ops: ops.blocks(zeros(2, 8), zeros(2, 2), zeros(2, 4)), TypeError, "blocks `q` float32 uint8"),
    (lambda ops: ops.add(zeros(3, 4), out=zeros(4, 3)), ValueError, "add `out` y (4, 3) (3, 4)"),
    (
        lambda ops: ops.add(zeros(3), out=zeros(3, dtype=torch.float16)),
        TypeError,
        "add `out` y float16 float32",
    ),
    (lambda ops: ops.two(zeros(2, 3), zeros(3), out=zeros(3, 2)), TypeError, "two `out`"),
    (lambda ops: ops.two(zeros(2, 3), zeros(3), out=(zeros(3, 2),)), TypeError, "two `out` 2 1"),
    (lambda ops: ops.two(zeros(2, 3), zeros(3), out=zeros(2, 3, 2)), TypeError, "two `out` tuple of 2"),
    (lambda ops: ops.two(zeros(2, 3), zeros(3), out=zeros()), TypeError, "two `out` tuple of 2"),
    (
        lambda ops: ops.add(zeros(4), out=zeros(1).expand(4)),
        ValueError,
        "add out (y) several of its elements",
    ),
    (lambda ops: ops.step(zeros(1).expand(4), zeros(4)), ValueError, "step `p` several of its elements"),
    (
        lambda ops: ops.step(zeros(4), zeros(4).requires_grad_()),
        RuntimeError,
        "step update in place gradients",
    ),
    (lambda ops: ops.add(zeros(4).requires_grad_(), out=zeros(4)), RuntimeError, "add `out=` gradients"),
    (lambda ops: ops.add(zeros(4).requires_grad_()).sum().backward(), RuntimeError, "add backward"),
)


@pytest.mark.parametrize(("call", "error", "words"), REFUSED, ids=[words for *_, words in REFUSED])
def test_a_refused_call_says_what_is_wrong(
    call: Callable[[Any], Any], error: type[Exception], words: str, ops: ModuleType
) -> None:
    with pytest.raises(error) as caught:
        call(ops)
    message = str(caught.value)
    assert message.startswith(words.partition(" ")[0] + ":")
    at = 0
    for word in words.split():
        at = message.find(word, at) + 1
        assert at > 0, (word, message)


def test_memory_that_overlaps_is_refused_before_anything_is_written(
    ops: ModuleType, device: torch.device
) -> None:
    memory = torch.arange(30.0, device=device)
    before = memory.clone()
    x = memory[:12].view(3, 4)
    calls: tuple[Callable[[], object], ...] = (
        lambda: ops.add(x, out=memory[1:13].view(3, 4)),
        lambda: ops.add(x, out=memory.as_strided((3, 4), (1, 3))),
        lambda: ops.add(x, s=memory[3], out=x),
        lambda: ops.step(memory[:5], memory[3:8]),
    )
    for call in calls:
        with pytest.raises(ValueError, match=r"^(add|step): .* shares memory with `[xsg]`"):
            call()
        assert torch.equal(memory, before)


def test_the_identical_view_may_be_written(ops: ModuleType, device: torch.device) -> None:
    x = torch.arange(8.0, device=device)[::2]
    assert ops.add(x, out=x) is x
    assert x.tolist() == [2.0, 4.0, 6.0, 8.0]
    at = torch.tensor([3, 2, -1, 0], device=device)
    assert ops.pick(x, at, out=x) is x
    assert x.tolist() == [8.0, 6.0, 0.0, 2.0]


def test_several_outs(ops: ModuleType, device: torch.device) -> None:
    memory = torch.full((6, 4), -1.0, device=device)
    y = memory[::2, ::2]
    z = torch.zeros(2, dtype=torch.int64, device=device)
    x, v = torch.arange(6.0, device=device).view(2, 3), torch.tensor([1.0, 2.0, 3.0], device=device)
    got = ops.two(x, v, out=(y, z))
    assert got[0] is y
    assert got[1] is z
    assert torch.equal(y, (x * v).t())
    assert z.tolist() == [0, 1]
    assert torch.equal(memory[1::2], torch.full((3, 4), -1.0, device=device))
    assert torch.equal(memory[:, 1::2], torch.full((6, 2), -1.0, device=device))


WITHOUT_INTERPRETER = """
import sys, torch
sys.path.insert(0, "{folder}")
import {package} as ops
import triton

assert not triton.knobs.runtime.interpret
x, v = torch.arange(6.0).view(2, 3).t().contiguous().t(), torch.tensor([1.0, 2.0, 3.0])
calls = [
    (lambda a, b: ops.add(a, b, 2.0, n=3), lambda: (x, v), x * 2 + 3),
    (lambda a, s: ops.add(a, s=s), lambda: (x, torch.tensor(3)), x * 3 + 2),
    (lambda a, b: ops.two(a, b)[0], lambda: (x, v), (x * v).t()),
    (lambda a, i: ops.pick(a, i), lambda: (v, torch.tensor([2, 5, -1])), torch.tensor([3.0, 0.0, 0.0])),
    (lambda a, g: (ops.step(a, g), a)[1], lambda: (v.clone(), torch.ones(3)), v - 1),
    (lambda a, o: ops.add(a, out=o), lambda: (x, torch.zeros(2, 3)), x + 2),
    (lambda a, s: ops.blocks(a, s, torch.full((1, 2), 0x21, dtype=torch.uint8)),
     lambda: (torch.ones(1, 4), torch.full((1, 1), 2.0)), torch.tensor([[2.0, 4.0, 2.0, 4.0]])),
]
for call, inputs, expected in calls:
    for form in (call, torch.compile(call, fullgraph=True, backend="aot_eager", dynamic=False)):
        got = form(*inputs())
        assert torch.equal(got, expected), (got, expected)
"""


def test_cpu_tensors_take_the_reference_and_compile(ops: ModuleType, tmp_path: Path) -> None:
    """Without the interpreter, and under `torch.compile` with no graph break."""
    assert ops.__file__ is not None
    folder = Path(ops.__file__).parent
    script = tmp_path / "script.py"
    script.write_text(WITHOUT_INTERPRETER.format(folder=folder.parent, package=folder.name))
    environment = {**os.environ, "TRITON_INTERPRET": "0"}
    run = subprocess.run(
        [sys.executable, script], env=environment, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr


def test_references_lay_results_out_as_kernels_do(tmp_path: Path) -> None:
    """Whatever strides their expressions would have."""
    spec = """
op causal(x: T[M, N]) -> y: T[M, N] { y = where(index[N] <= index[M], x, -inf) }
op drop(x: f32[M, N], seed: i64 = 3) -> (y: f32[M, N], z: f32[N, M]) { z = x  y = where(rand[M, N](seed) < 0.5, 0, x) }
op embed(table: f32[V, N], ids: i64[M]) -> y: f32[M, N] { y = table[V: ids] }
"""
    package = build_package(spec, tmp_path)
    launching = importlib.import_module(f"{package.__name__}._launching")
    square, table = torch.rand(4, 4), torch.rand(3, 5)
    ids = torch.tensor([0, 2, 1, 1])
    calls: tuple[tuple[str, dict[str, Any]], ...] = (
        ("causal", {"x": square}),
        ("causal", {"x": square.T}),
        ("drop", {"x": square.T[:3], "seed": 3}),
        ("embed", {"table": table.T.contiguous().T, "ids": ids}),
    )
    for name, given in calls:
        entry = importlib.import_module(f"{package.__name__}.{name}")._ENTRY
        kernels = entry.run(given)
        kernels = kernels if isinstance(kernels, tuple) else (kernels,)
        bound = launching.bind(entry.operator, tuple(given[spec.name] for spec in entry.operator.inputs), {})
        for one, other in zip(launching.call_reference(entry, bound, given), kernels, strict=True):
            assert one.stride() == other.stride(), name
            assert torch.equal(one, other)
