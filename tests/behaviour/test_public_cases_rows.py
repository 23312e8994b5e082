"""Row reductions: failures that were reported in public against other kernels, with the right values."""

from __future__ import annotations

import importlib
import math
from types import ModuleType

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - its usual name

from tests.behaviour.building import build_package

SPEC = """
op softmax_of(x: T[..., C]) -> y: T[..., C] { y = softmax[C](x) }
op layer_norm_of(x: f32[..., C], eps: f32 = 1e-5) -> y: f32[..., C] { y = normalize[C](x, eps) }
op rms_norm_of(x: T[..., C], w: T[C] = 1, eps: f32 = 1e-6) -> y: T[..., C] { y = rms_norm[C](x, eps) * w }
op rms_norm_mixed(x: T[..., C], w: W[C]) -> y: T[..., C] for T in {bf16, f32}, W in {bf16, f32}
{ y = rms_norm[C](x, 1e-6) * w }
op rounded_first(x: bf16[..., C], w: bf16[C]) -> y: bf16[..., C]
{
  normal: bf16 = rms_norm[C](x, 1e-6)
  y = normal * w
}
op spread_of(x: f32[M, C]) -> y: f32[M] { y = var[C](x) }
op quantised(x: f32[M, K]) -> (q: f8e4m3[M, K], scale: f32[M])
{
  scale = max(max[K](abs(x)), 1e-12) / 448
  q = cast(x / scale, f8e4m3)
}
op largest(x: f32[M, K]) -> y: f32[M] { y = max[K](abs(x)) }
"""


@pytest.fixture(scope="module")
def ops(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    return build_package(SPEC, tmp_path_factory.mktemp("rows"))


def test_rows_that_no_single_stride_describes(
    ops: ModuleType, device: torch.device, generator: torch.Generator
) -> None:
    """A contiguity guard that looks only at the last dim (NVIDIA/TransformerEngine#2734)."""
    base = torch.randn((4, 16), generator=generator).to(device)
    turned = torch.randn((5, 3, 8), generator=generator).to(device).transpose(0, 1)
    for x in (base[:, :8], turned):
        expected = x.cpu().double().softmax(-1)
        torch.testing.assert_close(ops.softmax_of(x).cpu().double(), expected, rtol=1e-6, atol=1e-7)
        expected = F.rms_norm(x.cpu().double(), (8,), eps=1e-6)
        torch.testing.assert_close(ops.rms_norm_of(x).cpu().double(), expected, rtol=1e-6, atol=1e-7)


def test_no_rows(ops: ModuleType, device: torch.device) -> None:
    """A launch of no blocks is refused (flagos-ai/FlagGems#335, #5298)."""
    for count in (2, 0):
        x = torch.ones((count, 8), device=device)
        assert ops.rms_norm_of(x).shape == (count, 8)


def test_variance_counts_no_padding(
    ops: ModuleType, device: torch.device, generator: torch.Generator
) -> None:
    """Lanes outside of a row that become -mean after centring (linkedin/Liger-Kernel#518)."""
    y = ops.layer_norm_of(torch.tensor([[10.0, 11, 12]], device=device))
    assert y.tolist()[0] == pytest.approx([-1.2247, 0.0, 1.2247], abs=1e-4)
    for count in (1, 17, 127, 129, 1000):
        x = 1000 + torch.randn((2, count), generator=generator)
        expected = F.layer_norm(x.double(), (count,), eps=1e-5)
        torch.testing.assert_close(
            ops.layer_norm_of(x.to(device)).cpu().double(), expected, rtol=0, atol=5e-4
        )


def test_softmax_of_negative_logits(ops: ModuleType, device: torch.device) -> None:
    """Padding with zero wins the maximum (vllm-project/vllm#55009)."""
    y = ops.softmax_of(torch.full((1, 3), -1000.0, device=device))
    assert y.tolist()[0] == pytest.approx([1 / 3] * 3, rel=1e-6)


def test_variance_of_numbers_far_from_zero(ops: ModuleType, device: torch.device) -> None:
    """The mean of squares less the square of the mean cancels (triton-lang/triton#6413)."""
    y = ops.layer_norm_of(torch.tensor([[40000.0, 40001, 40002, 40003]], device=device))
    assert y.tolist()[0] == pytest.approx([-1.3416, -0.4472, 0.4472, 1.3416], abs=1e-4)
    x = torch.full((1, 10240), 256.0)
    x[0, 77] = 255.0
    assert ops.spread_of(x.to(device)).item() == pytest.approx(x.double().var(correction=0).item(), rel=1e-4)


def test_eps_stands_under_the_root(ops: ModuleType, device: torch.device) -> None:
    """eps outside of the square root (fla-org/flash-linear-attention#507)."""
    y = ops.rms_norm_of(torch.full((1, 4), 1e-4, device=device))
    assert y.tolist()[0] == pytest.approx([1e-4 / math.sqrt(1e-8 + 1e-6)] * 4, rel=1e-5)
    assert ops.rms_norm_of(torch.zeros((1, 4), device=device)).tolist() == [[0.0] * 4]
    y = ops.rms_norm_of(torch.full((1, 4), 3.0, device=device), eps=0.0)
    assert y.tolist()[0] == pytest.approx([1.0] * 4, rel=1e-6)


def test_where_a_norm_rounds(ops: ModuleType, device: torch.device) -> None:
    """Rounding before or after the weight (InternLM/lmdeploy#4133)."""
    x = torch.tensor([[1.0, 1, 1, 2]], dtype=torch.bfloat16, device=device)
    w = torch.full((4,), 3.0, dtype=torch.bfloat16, device=device)
    truncated = device.type == "cpu"  # the interpreter's stores
    first, last = ops.rounded_first(x, w).tolist()[0], ops.rms_norm_of(x, w).tolist()[0]
    assert first == [2.28125, 2.28125, 2.28125, 4.5625] or (
        truncated and first[0] == pytest.approx(2.28, abs=0.02)
    )
    assert last == [2.265625, 2.265625, 2.265625, 4.53125]


@pytest.mark.parametrize("types", [(torch.bfloat16, torch.float32), (torch.float32, torch.bfloat16)], ids=str)
def test_weights_of_another_type(
    types: tuple[torch.dtype, torch.dtype], ops: ModuleType, device: torch.device, generator: torch.Generator
) -> None:
    """A weight's bytes read as the activation's type (sgl-project/sglang#32807)."""
    x = torch.randn((4, 64), generator=generator).to(types[0])
    w = torch.randn(64, generator=generator).to(types[1])
    y = ops.rms_norm_mixed(x.to(device), w.to(device))
    assert y.dtype == types[0]
    expected = F.rms_norm(x.double(), (64,), w.double(), 1e-6)
    tolerance = 2.0**-7 if types[0] == torch.bfloat16 else 1e-5
    torch.testing.assert_close(y.cpu().double(), expected, rtol=tolerance, atol=1e-5)


def test_rows_of_zeros_are_quantised(
    ops: ModuleType, device: torch.device, generator: torch.Generator
) -> None:
    """A scale of zero, and a width that leaves lanes unfilled (huggingface/kernels-community#681, ROCm/aiter#4288)."""
    x = torch.randn((3, 13), generator=generator)
    x[0] = 0
    x[2] = 0
    x[2, 5] = 448
    q, scale = ops.quantised(x.to(device))
    assert q[0].float().abs().max().item() == 0
    assert math.isfinite(scale[0].item())
    assert scale[0].item() > 0
    assert torch.equal(ops.largest(x.to(device)).cpu(), x.abs().amax(1))
    assert q[2].float().tolist() == x[2].tolist()


@pytest.mark.parametrize("columns", [65537, 131072])
def test_rows_longer_than_a_block(columns: int, ops: ModuleType, device: torch.device) -> None:
    """One block for each row, and a row too long for it (pytorch/pytorch#167050, triton-lang/triton#2858)."""
    x = torch.zeros((1, columns), device=device)
    x[0, -1] = 5.0
    y = ops.softmax_of(x)
    assert y[0, -1].item() == pytest.approx(math.exp(5) / (math.exp(5) + columns - 1), rel=1e-5)
    assert y.sum().item() == pytest.approx(1.0, rel=1e-4)


def test_many_rows_stay_on_the_first_grid_axis(ops: ModuleType) -> None:
    """Grid axes y and z stop at 65535 (fla-org/flash-linear-attention#172)."""
    module = importlib.import_module(f"{ops.__name__}.softmax_of")
    entry, runtime = module._ENTRY, module.rt
    x = torch.empty((70000, 8), device="meta")
    grids = []
    for walk in (("resident", 1, 16, 1), ("looped", 1, 16, 1), ("split", 1, 16, 1, 0, 1, 9)):
        bound = runtime.bind(entry.operator, (x,))
        (kernel,) = entry.variant(bound.types).kernels
        grids.append(kernel.prepare(bound, {"x": x, "y": x}, runtime.RowTile(*walk)).grid)
    assert grids == [(70000,), (70000,), (70000, 1)]
