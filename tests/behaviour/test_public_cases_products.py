"""Matrix products: failures that were reported in public against other kernels, with the right values."""

from __future__ import annotations

import itertools
from types import ModuleType

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - its usual name

from tests.behaviour.building import build_package

SPECS = """
op product(a: T[..., K], b: T[K, N]) -> y: f32[..., N] { y = a @ b }
op linear_gelu(x: T[..., K], w: T[K, N], b: T[N]) -> y: T[..., N] { y = gelu(x @ w + b) }
op eights(x: i8[M, K], w: i8[K, N], s: f32[M]) -> y: f32[M, N] { y = (x @ w) * s }
op batched(a: T[B, M, K], b: T[B, K, N]) -> y: T[B, M, N] { y = a @ b }
"""


@pytest.fixture(scope="module")
def ops(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    return build_package(SPECS, tmp_path_factory.mktemp("public_products"))


def whole(*shape: int, device: torch.device, dtype: torch.dtype = torch.float16) -> torch.Tensor:
    """Small integers, whose products are exact in f32."""
    return torch.randint(-4, 5, shape).to(device, dtype)


@pytest.mark.parametrize("size", [(33, 1, 17), (5, 65, 3), (1, 1001, 99)], ids=str)
def test_depth_that_no_block_divides(
    size: tuple[int, int, int], ops: ModuleType, device: torch.device
) -> None:
    """K = 1000 right, K = 1001 wrong (triton-lang/triton#630, #934, #1760); NaN behind the last column of A."""
    m, k, n = size
    memory = torch.full((m, k + 7), torch.nan, dtype=torch.float16, device=device)
    a, b = memory[:, :k], whole(k, n, device=device)
    a.copy_(whole(m, k, device=device))
    assert torch.equal(ops.product(a, b), a.float() @ b.float())


def test_sizes_of_zero(ops: ModuleType, device: torch.device) -> None:
    """An empty sum is zero, and the bias remains (linkedin/Liger-Kernel, empty inputs after others)."""
    zeros = ops.product(torch.ones(3, 0, device=device), torch.ones(0, 4, device=device))
    assert torch.equal(zeros, torch.zeros(3, 4, device=device))
    bias = torch.tensor([1.0, -1.0, 0.0, 2.0], device=device)
    got = ops.linear_gelu(torch.ones(3, 0, device=device), torch.ones(0, 4, device=device), bias)
    assert torch.allclose(got, F.gelu(bias).expand(3, 4), rtol=1e-6)
    assert ops.product(torch.ones(0, 4, device=device), torch.ones(4, 5, device=device)).shape == (0, 5)
    assert ops.product(torch.ones(4, 4, device=device), torch.ones(4, 0, device=device)).shape == (4, 0)


def test_tiles_below_the_least_one(ops: ModuleType, device: torch.device) -> None:
    """Sizes below what the matrix unit takes (pytorch/helion#467)."""
    for dtype in (torch.float16, torch.float32):
        for m, n, k in itertools.product((1, 2, 17), (1, 7, 16), (1, 15, 17)):
            a, b = whole(m, k, device=device, dtype=dtype), whole(k, n, device=device, dtype=dtype)
            assert torch.equal(ops.product(a, b), a.float() @ b.float())


def test_full_f32_products(ops: ModuleType, device: torch.device) -> None:
    """f32 silently multiplied as tf32 (triton-lang/triton#1800, #2042, #5895)."""
    a, b = torch.randn(48, 1024).to(device), torch.randn(1024, 32).to(device)
    want = a.double() @ b.double()
    assert float((ops.product(a, b) - want).norm() / want.norm()) < 1e-6


def test_bias_is_added_once(ops: ModuleType, device: torch.device) -> None:
    """The bias in the product's epilogue and again behind it: gelu(2) in the place of gelu(1)."""
    x, w, b = torch.zeros(2, 8, device=device), torch.ones(8, 3, device=device), torch.ones(3, device=device)
    assert torch.allclose(ops.linear_gelu(x, w, b), torch.full((2, 3), 0.8413447, device=device), rtol=1e-6)


def test_eight_bit_integers_are_summed_in_32_bits(ops: ModuleType, device: torch.device) -> None:
    """All ones with K = 128 gave -128; scales are by row."""
    x, w = (torch.ones(shape, dtype=torch.int8, device=device) for shape in ((4, 128), (128, 8)))
    scale = torch.tensor([1.0, 2.0, 3.0, 4.0], device=device)
    assert torch.equal(ops.eights(x, w, scale), (128 * scale)[:, None].expand(4, 8))


def test_a_batch_of_65537(ops: ModuleType) -> None:
    """Grid axes y and z end at 65,535 (fla-org/flash-linear-attention#172): all tiles lie on axis x."""
    module = __import__(f"{ops.__name__}.batched", fromlist=["_ENTRY"])
    kernel = module._ENTRY.variants[0].kernels[0]
    a, b = (
        torch.empty(shape, dtype=torch.float16, device="meta") for shape in ((65537, 4, 8), (65537, 8, 4))
    )
    bound = module.rt.bind(module._OPERATOR, (a, b), {})
    y = torch.empty((65537, 4, 4), dtype=torch.float16, device="meta")
    assert kernel.prepare(bound, {"a": a, "b": b, "y": y}, None).grid == (65537,)
