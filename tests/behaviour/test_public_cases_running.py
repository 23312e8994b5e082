"""Calls, devices, in-place updates and PyTorch's machinery: failures that were reported in public."""

import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import torch

from tests.behaviour.building import build_module

SWISH = "op swish(x: T[...], beta: f32 = 1.0) -> y: T[...] { y = x * sigmoid(beta * x) }"
GATE = "op gate(a: T[...], b: T[...]) -> y: T[...] { y = silu(a) * b }"
LEAKY = "op leaky_(inout x: f32[...], slope: f32) { x = where(x < 0, x * slope, x) }"

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
needs_two_gpus = pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")


def run_without_interpreter(code: str, *paths: Path) -> str:
    """What a fresh Python prints, with kernels compiled rather than interpreted."""
    environment = {
        "PATH": "/usr/bin:/bin",
        "PYTHONPATH": ":".join(map(str, paths)),
        "HOME": str(paths[0]),
    }
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_in_place_updates_happen_once(tmp_path: Path, device: torch.device) -> None:
    """Tuning runs an in-place kernel many times (triton-lang/triton#781): the first call is right, too."""
    module = build_module(LEAKY, tmp_path)
    for _ in range(2):
        x = torch.full((1003,), -8.0, device=device)
        assert module.leaky_(x, 0.5) is x
        assert x.eq(-4.0).all()


def test_in_place_updates_raise_the_version(tmp_path: Path, device: torch.device) -> None:
    """In-place forward destroys what another op saved, unseen by autograd (linkedin/Liger-Kernel#272)."""
    module = build_module(LEAKY, tmp_path)
    x = torch.full((5,), -8.0, device=device)
    before = x._version
    module.leaky_(x, 0.5)
    assert x._version > before
    a = torch.full((5,), 0.5, device=device, requires_grad=True)
    b = torch.exp(a)
    with torch.no_grad():
        module.leaky_(b, 0.5)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        b.sum().backward()


def test_in_place_updates_refuse_gradients(tmp_path: Path, device: torch.device) -> None:
    """In-place forward of a tensor with a history (linkedin/Liger-Kernel#272): an error, no wrong number."""
    module = build_module(LEAKY, tmp_path)
    b = torch.exp(torch.zeros(3, device=device, requires_grad=True))
    with pytest.raises(RuntimeError, match="leaky_"):
        module.leaky_(b, 0.5)
    assert b.eq(1.0).all()


def test_in_place_updates_of_overlapping_memory_are_refused(tmp_path: Path, device: torch.device) -> None:
    """A written tensor of stride 0 (flagos-ai/FlagGems#6017 in reverse): several elements are one."""
    module = build_module(LEAKY, tmp_path)
    with pytest.raises(ValueError, match=r"leaky_.*`x`"):
        module.leaky_(torch.full((1,), -8.0, device=device).expand(4), 0.5)


def test_autocast_leaves_pointwise_types_alone(tmp_path: Path, device: torch.device) -> None:
    """Autocast and dtype leaks (bghira/SimpleTuner#3002): pointwise ops keep the types that they declare."""
    module = build_module(SWISH, tmp_path)
    for dtype in (torch.float32, torch.bfloat16):
        x = torch.ones(4, dtype=dtype, device=device)
        with torch.autocast(device.type, torch.bfloat16):
            assert module.swish(x).dtype == dtype


def test_generated_code_reaches_libdevice_in_one_place(tmp_path: Path) -> None:
    """Math functions that move between versions (triton-lang/triton#4938, RightNow-AI/autokernel#19).

    One device function calls one of them, where kernels are compiled; in the interpreter it divides.
    """
    functions = "tanh(x) + erf(x) + exp(x) + log1p(abs(x)) + sin(x) + rsqrt(abs(x) + 1) + x ** 2.5"
    build_module(f"op many(x: T[...]) -> y: T[...] {{ y = {functions} }}", tmp_path)
    sources = [path for path in tmp_path.rglob("*.py") if "tests" not in path.parts]
    assert sources
    namespaces = re.compile(r".*(?:libdevice|tl\.math|tl\.extra|triton\.ops).*")
    found = {path.name: namespaces.findall(path.read_text()) for path in sources}
    assert {name: lines for name, lines in found.items() if lines} == {
        "_math_parts.py": [
            "from triton.language.extra import libdevice",
            "        return libdevice.fast_dividef(x, d)",
        ]
    }


@pytest.mark.gpu
@needs_gpu
@pytest.mark.parametrize("alone", ["a", "b"])
def test_one_operand_on_the_cpu(alone: str, tmp_path: Path) -> None:
    """CPU tensors into a GPU kernel (AnswerDotAI/ModernBERT#152): the error says which argument is where."""
    module = build_module(GATE, tmp_path)
    operands = {name: torch.zeros(4, device="cpu" if name == alone else "cuda") for name in ("a", "b")}
    with pytest.raises(ValueError, match=r"gate: `b`.*cpu|gate: `b`.*cuda.*`a`.*cpu"):
        module.gate(**operands)


@pytest.mark.gpu
@needs_two_gpus
def test_the_tensors_device_is_used(tmp_path: Path) -> None:
    """Launch on the current device instead of the tensor's (linkedin/Liger-Kernel#1303)."""
    module = build_module(GATE, tmp_path)
    a, b = torch.randn(1000, device="cuda:1"), torch.randn(1000, device="cuda:1")
    with torch.cuda.device(0):
        got = module.gate(a, b)
        assert torch.cuda.current_device() == 0
    assert got.device == a.device
    torch.testing.assert_close(got.cpu(), module.gate(a.to("cuda:0"), b.to("cuda:0")).cpu(), rtol=0, atol=0)
    with pytest.raises(ValueError, match=r"gate: `b`.*cuda:1.*`a`.*cuda:0"):
        module.gate(a.to("cuda:0"), b)


@pytest.mark.gpu
@needs_gpu
@pytest.mark.parametrize("warm", [False, True])
def test_capture_of_a_first_call(warm: bool, tmp_path: Path) -> None:
    """First call inside CUDA graph capture (triton-lang/triton#10596)."""
    module = build_module(SWISH, tmp_path)
    x = torch.randn(1000, device="cuda")
    stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        if warm:
            module.swish(x)
        with torch.cuda.graph(graph, stream=stream):
            y = module.swish(x)
    torch.cuda.current_stream().wait_stream(stream)
    x.copy_(torch.randn(1000, device="cuda"))
    graph.replay()
    torch.cuda.synchronize()
    torch.testing.assert_close(y, x * torch.sigmoid(x), rtol=1e-6, atol=1e-7)


def test_distributed_tensors_are_refused() -> None:
    """Distributed tensors (linkedin/Liger-Kernel#826, NVIDIA/TransformerEngine#2688): never the local shard alone."""
    root = Path(__file__).parents[2]
    assert run_without_interpreter(DISTRIBUTED, root).strip() == "refused"


DISTRIBUTED = """
    import torch
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor
    from generated import rms_norm

    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    mesh = init_device_mesh("cpu", (1,))
    x, weight = torch.randn(4, 8), torch.randn(8)
    for placement in (Shard(0), Shard(1)):
        placed = distribute_tensor(x, mesh, [placement])
        for given in (weight, distribute_tensor(weight, mesh, [Replicate()])):
            try:
                rms_norm(placed, given)
            except TypeError as error:
                assert str(error).startswith(f"rms_norm: `x` is a distributed tensor placed as {placement}"), error
            else:
                raise AssertionError(placement)
        assert torch.equal(rms_norm(placed.to_local(), weight), rms_norm(x, weight))
    dist.destroy_process_group()
    print("refused")
"""


OLDER = """
    import sys
    import triton

    triton.__version__ = "3.2.0"
    sys.modules["triton.tools.tensor_descriptor"] = None  # which came later
    try:
        import generated
    except ImportError as error:
        print(error)
"""


def test_an_older_triton_is_named() -> None:
    """APIs that are not there yet (bitsandbytes-foundation/bitsandbytes#1492, unslothai/unsloth#4744)."""
    root = Path(__file__).parents[2]
    expected = "this package needs triton 3.6 or later, and 3.2.0 is installed"
    assert run_without_interpreter(OLDER, root).strip() == expected


TRACED = """
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode
    from generated import swish

    device = "cuda" if torch.cuda.is_available() else "cpu"
    layouts = [torch.randn(4, 6), torch.randn(6, 4).t(), torch.randn(2, 3, 5).permute(2, 0, 1)]
    function = lambda x: swish(x * 2, 0.5) + 1
    launched = __import__("generated.swish", fromlist=["_ENTRY"])._ENTRY.ready
    launched[torch.float64, torch.Size([7]), float] = None
    for dynamic in (False, True):
        torch._dynamo.reset()
        compiled = torch.compile(function, fullgraph=True, dynamic=dynamic, backend="aot_eager")
        for x in layouts[1:]:
            x = x.to(device)
            got, wanted = compiled(x), function(x)
            assert got.stride() == wanted.stride(), (got.stride(), wanted.stride())
            torch.testing.assert_close(got, wanted, rtol=1e-6, atol=1e-6)
    launched.update({(torch.float64, one.shape, float): None for one in layouts})
    with torch.compiler.set_stance("fail_on_recompile"):
        compiled(x)
    launched.clear()

    for x in layouts:
        real = swish(x)
        with FakeTensorMode() as mode:
            fake = swish(mode.from_tensor(x))
            assert (fake.shape, fake.stride(), fake.dtype) == (real.shape, real.stride(), real.dtype)
        meta = swish(torch.empty_strided(x.shape, x.stride(), device="meta"))
        assert (meta.shape, meta.stride(), meta.device.type) == (real.shape, real.stride(), "meta")
    print("same")
"""


def test_traced_calls_equal_eager_ones() -> None:
    """torch.compile traces into the kernel with fake tensors (pytorch/pytorch#121526, Dao-AILab/quack#18).

    One graph for static and dynamic shapes, whatever else is launched meanwhile, and fake strides as real ones
    (linkedin/Liger-Kernel#174).
    """
    root = Path(__file__).parents[2]
    assert run_without_interpreter(TRACED, root).strip() == "same"
