"""Numerics: failures that were reported in public against other kernels, with the right values."""

import math
from pathlib import Path
from types import ModuleType

import pytest
import torch

from tests.behaviour.building import build_module, build_package

NAN, INF = math.nan, math.inf

every_float = pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)


def same(got: torch.Tensor, expected: list[float]) -> bool:
    """Equality with NaN equal to itself and zeros compared with their signs."""
    wanted = torch.tensor(expected, dtype=got.dtype)
    signs = (got.cpu().signbit() == wanted.signbit()) | wanted.isnan()
    return torch.equal(got.cpu().nan_to_num(12345.0), wanted.nan_to_num(12345.0)) and bool(signs.all())


@pytest.fixture(scope="module")
def extrema(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    text = """
    op relu_of(x: T[...]) -> y: T[...] { y = relu(x) }
    op at_least(x: T[...]) -> y: T[...] { y = clamp(x, 0.5, inf) }
    op between(x: T[...]) -> y: T[...] { y = clamp(x, -1, 1) }
    op larger(a: T[...], b: T[...]) -> y: T[...] { y = max(a, b) }
    op smaller(a: T[...], b: T[...]) -> y: T[...] { y = min(a, b) }
    """
    return build_package(text, tmp_path_factory.mktemp("extrema"))


@every_float
def test_nan_passes_through_relu_clamp_and_extrema(
    dtype: torch.dtype, extrema: ModuleType, device: torch.device
) -> None:
    """NaN lost by relu, clamp and maximum (pytorch/pytorch#93784, NVIDIA/TensorRT-LLM#18082)."""

    def line(*values: float) -> torch.Tensor:
        return torch.tensor(values, dtype=dtype, device=device)

    assert same(extrema.relu_of(line(-0.0, NAN, -1.0, 2.0)), [-0.0, NAN, 0.0, 2.0])
    assert same(extrema.at_least(line(NAN, -2.0, 3.0)), [NAN, 0.5, 3.0])
    assert same(extrema.between(line(NAN, -2.0, 3.0, 0.5)), [NAN, -1.0, 1.0, 0.5])
    for op in (extrema.larger, extrema.smaller):
        assert same(op(line(NAN, 1.0, NAN), line(1.0, NAN, NAN)), [NAN, NAN, NAN])


@every_float
def test_relu_keeps_the_sign_of_zero(dtype: torch.dtype, extrema: ModuleType, device: torch.device) -> None:
    """relu of negative zero is negative zero, as in eager (pytorch/pytorch#196039)."""
    x = torch.tensor([-0.0, 0.0], dtype=dtype, device=device)
    assert extrema.relu_of(x).signbit().tolist() == [True, False]


def test_soft_capping_of_large_logits(tmp_path: Path, device: torch.device) -> None:
    """tanh written as a ratio of exponentials overflows (vllm-project/vllm#56578)."""
    module = build_module("op cap(x: T[...], c: f32) -> y: T[...] { y = c * tanh(x / c) }", tmp_path)
    x = torch.tensor([1000.0, 3000, 5000, 1e4, -1e4, 4400], device=device)
    assert module.cap(x, 50.0).tolist() == [50.0, 50.0, 50.0, 50.0, -50.0, 50.0]


def test_tanh_is_accurate_near_zero(tmp_path: Path, device: torch.device) -> None:
    """tanh as 2 * sigmoid(2 x) - 1 cancels near 0 (vllm-project/vllm#56578)."""
    module = build_module("op tanh_of(x: T[...]) -> y: T[...] { y = tanh(x) }", tmp_path)
    x = torch.logspace(-30, 1, 500).float()
    x = torch.cat((x, -x))
    expected = torch.tanh(x.double())
    error = (module.tanh_of(x.to(device)).cpu().double() - expected).abs() / expected.abs()
    assert error.max().item() < 5e-7  # 4 units in the last place


def test_softplus_of_large_values(tmp_path: Path, device: torch.device) -> None:
    """softplus as log(1 + exp(x)) overflows (NVIDIA/TensorRT-LLM#12810)."""
    module = build_module("op softplus_of(x: T[...]) -> y: T[...] { y = softplus(x) }", tmp_path)
    x = torch.tensor([5.0, 10, 11, 12, 88, 1000, -20], dtype=torch.float16, device=device)
    assert module.softplus_of(x).tolist() == [5.0078125, 10.0, 11.0, 12.0, 88.0, 1000.0, 0.0]
    wide = torch.tensor([-80.0, -20.0, 0.0, 20.0, 1e38], device=device)
    expected = torch.tensor([math.exp(-80), 2.0611536e-09, math.log(2), 20.0 + 2.0611536e-09, 1e38])
    torch.testing.assert_close(module.softplus_of(wide).cpu(), expected, rtol=5e-7, atol=0)


def test_the_two_forms_of_gelu(tmp_path: Path, device: torch.device) -> None:
    """The wrong gelu: one name for two functions (vllm-project/vllm#41574)."""
    text = """
    op exact(x: T[...]) -> y: T[...] { y = gelu(x) }
    op approximate(x: T[...]) -> y: T[...] { y = gelu_tanh(x) }
    """
    ops = build_package(text, tmp_path)
    x = torch.tensor([1.0, 2.7, -2.7, -1e4, -INF], device=device)
    wide = torch.tensor([1.0, 2.7, -2.7], dtype=torch.float32).double()
    erf_form = 0.5 * wide * (1 + torch.erf(wide / math.sqrt(2)))
    tanh_form = 0.5 * wide * (1 + torch.tanh(math.sqrt(2 / math.pi) * (wide + 0.044715 * wide**3)))
    for op, form, at_one in (
        (ops.exact, erf_form, 0.8413447),
        (ops.approximate, tanh_form, 0.8411920),
    ):
        y = op(x).cpu()
        torch.testing.assert_close(y[:3].double(), form, rtol=1e-6, atol=0)
        assert y[0].item() == pytest.approx(at_one, rel=1e-6)
        assert same(y[3:], [-0.0, NAN])


def test_bf16_is_computed_as_numbers(tmp_path: Path, device: torch.device) -> None:
    """bfloat16 arithmetic on raw bits in the interpreter (triton-lang/triton#10945, #11584)."""
    module = build_module("op double_of(x: bf16[...]) -> y: bf16[...] { y = x * 2 }", tmp_path)
    x = torch.tensor([2.5, -5.0], dtype=torch.bfloat16, device=device)
    assert module.double_of(x).tolist() == [5.0, -10.0]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_functions_take_halves(dtype: torch.dtype, tmp_path: Path, device: torch.device) -> None:
    """exp and others on f16: the compiler takes f32 and f64 only (triton-lang/triton#241)."""
    names = {
        "exp": torch.exp,
        "log": torch.log,
        "sigmoid": torch.sigmoid,
        "rsqrt": torch.rsqrt,
        "erf": torch.erf,
    }
    text = "\n".join(f"op {name}_of(x: T[...]) -> y: T[...] {{ y = {name}(x) }}" for name in names)
    ops = build_package(text, tmp_path)
    x = torch.tensor([0.25, 1.0, 2.0, 7.5], dtype=dtype)
    for name, function in names.items():
        got = getattr(ops, f"{name}_of")(x.to(device)).cpu()
        expected = function(x.double())
        # One unit in the last place: the interpreter truncates bf16 where the compiler rounds.
        assert ((got.double() - expected).abs() <= torch.finfo(dtype).eps * expected.abs()).all(), name


@pytest.mark.parametrize("element", ["i4", "u4"])
def test_packed_weights_in_every_position(element: str, tmp_path: Path, device: torch.device) -> None:
    """Offset into packed weights not divided by the packing factor (SiriusNEO/Triton-Puzzles-Lite#6)."""
    text = f"op unpack(w: {element}[N, K], s: f32[N]) -> y: f32[N, K] {{ y = w * s }}"
    module = build_module(text, tmp_path)
    stored = torch.arange(3 * 128).view(3, 128) % 16  # low nibble first
    packed = (stored[:, ::2] | stored[:, 1::2] << 4).to(torch.uint8)
    values = torch.where(stored > 7, stored - 16, stored) if element == "i4" else stored
    scales = torch.tensor([1.0, 0.5, -2.0])
    got = module.unpack(packed.to(device), scales.to(device))
    assert torch.equal(got.cpu(), values * scales[:, None])


def test_a_declared_rounding_point_rounds(tmp_path: Path, device: torch.device) -> None:
    """Round before or after the weight: the spec's casts decide (InternLM/lmdeploy#4133)."""
    text = """
    op once(x: bf16[...], w: bf16[...], s: f32) -> y: f32[...] { y = x * s * w }
    op twice(x: bf16[...], w: bf16[...], s: f32) -> y: f32[...] { h: bf16 = x * s  y = h * w }
    op written_as_cast(x: T[...], w: T[...], s: f32) -> y: f32[...] { y = cast(x * s, T) * w }
    """
    ops = build_package(text, tmp_path)
    s = 1 / math.sqrt((3 + 4) / 4 + 1e-6)  # the reciprocal root mean square of [1, 1, 1, 2]
    x = torch.tensor([1.0, 1.0, 1.0, 2.0], dtype=torch.bfloat16, device=device)
    w = torch.full((4,), 3.0, dtype=torch.bfloat16, device=device)
    # Results are f32, since the interpreter's stores of bf16 truncate; PyTorch rounds them to nearest.
    assert ops.once(x, w, s).bfloat16().tolist() == [2.265625, 2.265625, 2.265625, 4.53125]
    for op in (ops.twice, ops.written_as_cast):
        assert op(x, w, s).tolist() == [2.2734375, 2.2734375, 2.2734375, 4.546875]
        assert op(x, w, s).bfloat16().tolist() == [2.28125, 2.28125, 2.28125, 4.5625]
