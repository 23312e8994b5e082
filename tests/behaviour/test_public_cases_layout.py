"""Layout and indexing: failures that were reported in public against other kernels, with the right values."""

import itertools
from pathlib import Path

import pytest
import torch
from torch import Tensor

from tests.behaviour.building import build_module, build_package

GPU_ONLY = pytest.mark.skipif(not torch.cuda.is_available(), reason="too many elements for the interpreter")


def far_rows(dtype: torch.dtype, device: torch.device) -> Tensor:
    """A [3, 64] view whose last row starts 2^31 elements into its storage; only the rows are ever touched."""
    storage = torch.empty(2**31 + 64, dtype=dtype, device=device)
    view = storage.as_strided((3, 64), (2**30, 1))
    return view.copy_(torch.arange(3 * 64).view(3, 64) % 100)


@pytest.mark.parametrize("turned", [False, True])
def test_offsets_past_31_bits(turned: bool, tmp_path: Path, device: torch.device) -> None:
    """Row offset wraps in 32 bits (fla-org/flash-linear-attention#1080)."""
    module = build_module("op add_one(x: i8[...]) -> y: i8[...] { y = x + 1 }", tmp_path)
    x = far_rows(torch.int8, device)
    x = x.t() if turned else x
    assert torch.equal(module.add_one(x), x.contiguous() + 1)


def test_writes_past_31_bits(tmp_path: Path, device: torch.device) -> None:
    """Row offset wraps in 32 bits, in a result (linkedin/Liger-Kernel#803)."""
    module = build_module("op add_one(x: i8[...]) -> y: i8[...] { y = x + 1 }", tmp_path)
    x = torch.arange(3 * 64, device=device).view(3, 64).to(torch.int8)
    out = far_rows(torch.int8, device)
    module.add_one(x, out=out)
    assert torch.equal(out, x + 1)


@pytest.mark.parametrize("layout", ["rows", "columns"])
def test_block_offsets_past_31_bits(layout: str, tmp_path: Path, device: torch.device) -> None:
    """The block offset itself wraps: rows times the row stride inside a tile (unslothai/unsloth#6830)."""
    module = build_module("op dequantise(q: u8[...], s: f32) -> y: f16[...] { y = q * s }", tmp_path)
    storage = torch.empty(65537 * 32768, dtype=torch.uint8, device=device)
    q = storage.view(65537, 32768)[::65536, :40]  # rows 0 and 65536, which starts at 2^31
    q.copy_(torch.arange(80, device=device).view(2, 40))
    q = q if layout == "rows" else q.t()
    assert torch.equal(module.dequantise(q, 0.5), (q.float() * 0.5).half())


@pytest.mark.gpu
@GPU_ONLY
def test_more_than_31_bits_of_elements(tmp_path: Path, device: torch.device) -> None:
    """The block offset itself wraps, in a tensor of more than 2^31 elements (unslothai/unsloth#6830)."""
    needed = 65537 * 32768 * 3
    if torch.cuda.mem_get_info()[0] < needed:
        pytest.skip(f"needs {needed} bytes of GPU memory")
    module = build_module("op dequantise(q: u8[...], s: f32) -> y: f16[...] { y = q * s }", tmp_path)
    q = torch.empty(65537, 32768, dtype=torch.uint8, device=device)
    for row in (0, 65536):
        q[row] = torch.arange(32768, device=device) % 251
    y = module.dequantise(q, 0.5)
    for row in (0, 65536):
        assert torch.equal(y[row], (q[row].float() * 0.5).half())


@pytest.mark.parametrize("case", ["cut columns", "swapped batch and sequence"])
def test_a_unit_last_stride_is_not_contiguity(case: str, tmp_path: Path, device: torch.device) -> None:
    """A contiguity guard that looks only at the last dim (NVIDIA/TransformerEngine#2734)."""
    module = build_module("op shift(x: f32[..., N], b: f32[N]) -> y: f32[..., N] { y = x + b }", tmp_path)
    x = torch.arange(120.0, device=device)
    x = x[:64].view(4, 16)[:, :8] if case == "cut columns" else x.view(5, 3, 8).transpose(0, 1)
    b = torch.arange(8.0, device=device) / 16
    assert torch.equal(module.shift(x, b), x.contiguous() + b)


def test_stride_zero_keeps_off_the_fast_path(tmp_path: Path, device: torch.device) -> None:
    """A fast path that ignores stride 0 (flagos-ai/FlagGems#6017)."""
    module = build_module("op times(a: f32[...], b: f32[...]) -> y: f32[...] { y = a * b }", tmp_path)
    a = torch.arange(1280.0 * 24, device=device).view(1280, 24)
    v = torch.arange(1280.0, device=device)  # ends with its storage, so that reading on would leave it
    b = v.view(1280, 1).expand(1280, 24)
    assert torch.equal(module.times(a, b), a * v[:, None])
    assert torch.equal(module.times(b, a), a * v[:, None])


BROADCASTS = (((7, 1), (1, 9)), ((3, 1, 5), (4, 1)), ((1,), (6,)), ((2, 3), (2, 1)), ((), (2, 2)))


@pytest.mark.parametrize(("left", "right"), BROADCASTS, ids=str)
def test_sizes_of_one_broadcast(
    left: tuple[int, ...], right: tuple[int, ...], tmp_path: Path, device: torch.device
) -> None:
    """Broadcasting of size-1 dims inside generated pointwise code (flagos-ai/FlagGems#6238)."""
    text = """
    op add(a: f32[...], b: f32[...]) -> y: f32[...] { y = a + b }
    op less(a: f32[...], b: f32[...]) -> y: bool[...] { y = a < b }
    """
    a = torch.arange(float(torch.Size(left).numel()), device=device).view(left)
    b = torch.arange(float(torch.Size(right).numel()), device=device).view(right) * 0.75
    module = build_package(text, tmp_path)
    for got, expected in ((module.add(a, b), a + b), (module.less(a, b), a < b)):
        assert (got.shape, got.dtype) == (expected.shape, expected.dtype)
        assert torch.equal(got, expected)


def test_sizes_that_do_not_broadcast_are_named(tmp_path: Path, device: torch.device) -> None:
    """Broadcasting of 3 against 4 is an error that names both (flagos-ai/FlagGems#6404)."""
    module = build_module("op add(a: f32[...], b: f32[...]) -> y: f32[...] { y = a + b }", tmp_path)
    with pytest.raises(ValueError, match=r"add.*`a`.*`b`.*3.*4"):
        module.add(torch.zeros(3, device=device), torch.zeros(4, device=device))


def test_zero_sizes_before_and_after_a_launch(tmp_path: Path, device: torch.device) -> None:
    """Zero-size tensors, also when the kernel is compiled already (flagos-ai/FlagGems#335)."""
    text = "op gate(a: T[..., N], b: T[..., N]) -> y: T[..., N] { y = silu(a) * b }"
    module = build_module(text, tmp_path)
    empties = [torch.zeros(shape, device=device) for shape in ((0, 7), (4, 0), (0,))]
    for _ in range(2):
        for empty in empties:
            got = module.gate(empty, empty)
            assert (got.shape, got.dtype, got.device) == (empty.shape, empty.dtype, empty.device)
        assert module.gate(torch.zeros(2, 7, device=device), torch.ones(2, 7, device=device)).eq(0).all()


def test_every_order_of_dims(tmp_path: Path, device: torch.device) -> None:
    """A transposed batch and sequence, in all orders of four dims (NVIDIA/TransformerEngine#2734)."""
    module = build_module("op negate(x: f32[...]) -> y: f32[...] { y = -x }", tmp_path)
    x = torch.arange(2.0 * 3 * 4 * 5, device=device).view(2, 3, 4, 5)
    for order in itertools.permutations(range(4)):
        view = x.permute(order)
        got = module.negate(view)
        assert torch.equal(got, -view)
        assert got.stride() == (-view).stride()


@pytest.mark.parametrize(
    ("shape", "turned"),
    [
        ((65537, 1), False),
        *(
            pytest.param(shape, True, marks=(pytest.mark.gpu, GPU_ONLY))
            for shape in ((65537, 3), (3, 65537), (70000, 8))
        ),
        *(
            pytest.param(shape, False, marks=(pytest.mark.gpu, GPU_ONLY))
            for shape in ((65537, 3), (3, 65537), (8, 300000))
        ),
    ],
    ids=str,
)
def test_more_rows_than_a_grid_axis_holds(
    shape: tuple[int, int], turned: bool, tmp_path: Path, device: torch.device
) -> None:
    """Grid axes y and z stop at 65535 (fla-org/flash-linear-attention#172)."""
    module = build_module("op shift(x: f16[M, N], b: f16[N]) -> y: f16[M, N] { y = x + b }", tmp_path)
    x = (torch.arange(shape[0] * shape[1], device=device) % 128).half().view(shape)
    x = x.t().contiguous().t() if turned else x
    b = torch.arange(shape[1], device=device).remainder(64).half()
    assert torch.equal(module.shift(x, b), x + b)
