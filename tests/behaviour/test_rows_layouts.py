"""Reductions over dims anywhere in a tensor, of any rank and layout, with work before, between and after them."""

from __future__ import annotations

import importlib
from types import ModuleType

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - its usual name
from torch import Tensor

from tests.behaviour.building import build_package
from tests.behaviour.layouts import LAYOUTS
from tests.behaviour.rows import call

SPEC = """
op last(x: f32[..., C], w: f32[C] = 1) -> (y: f32[..., C], scale: f32[...])
{
  scale = rsqrt(mean[C](x * x) + 1e-6)
  y = x * scale * w
}
op leading(x: f32[..., C]) -> y: f32[..., C] { y = x - max[...](x) }
op middle(x: f32[A, B, C], keep: bool[A, B]) -> (y: f32[A, C], p: f32[A, B, C])
{
  e = where(keep, exp(x - max[B](x)), 0)
  y = sum[B](e)
  p = e / y
}
op images(x: f32[N, C, H, W], gamma: f32[C]) -> (y: f32[N, C, H, W], mean_of: f32[N, C])
{
  mean_of = mean[H, W](x)
  y = (x - mean_of) * rsqrt(var[H, W](x) + 1e-5) * gamma
}
op batches(x: f32[N, C, S]) -> y: f32[N, C, S]
{
  centred = x - mean[N, S](x)
  y = centred * rsqrt(mean[N, S](centred * centred) + 1e-5)
}
op everything(x: f32[...]) -> (y: f32[], place: i64[])  { y = sum[...](x)  place = argmax[...](x) }
op place_in_two(x: f32[H, N, W]) -> y: i64[N] { y = argmax[H, W](x) }
op blocks(x: f32[M, K], s: f32[M, K / 4]) -> y: f32[M] { y = sum[K](x * s) }
op weighted(x: f32[M, K]) -> y: f32[M] { y = sum[K](x * (index[K] + index[M])) / K }
op gathered(x: f32[N, C], at: i64[N], temperature: f32 = 2.0) -> (y: f32[N, C], own: f32[N])
{
  z = x / temperature
  own = logsumexp[C](z) - x[C: at] / temperature
  y = z - x[C: at]
}
op in_place(inout x: f32[M, C]) { x = softmax[C](x) }
op packed(q: u4[M, K], s: f32[M]) -> y: f32[M] { y = sum[K](q) * s }
op constants(x: f32[M, C], const mean_too: bool = true) -> y: f32[M]
{ y = where(mean_too, mean[C](x), sum[C](x)) }
"""
WALKED = pytest.mark.parametrize("walk", ["own choice", "several looped", "split in 5"])
LAID_OUT = pytest.mark.parametrize("layout", LAYOUTS)


@pytest.fixture(scope="module")
def ops(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    return build_package(SPEC, tmp_path_factory.mktemp("layouts"))


def run(ops: ModuleType, name: str, *arguments: object, walk: str) -> tuple[Tensor, ...]:
    return call(importlib.import_module(f"{ops.__name__}.{name}"), *arguments, walk=walk)


def close(results: tuple[Tensor, ...], *expected: Tensor) -> None:
    for got, wanted in zip(results, expected, strict=True):
        assert got.is_contiguous()
        torch.testing.assert_close(got.cpu().double(), wanted.double(), rtol=2e-5, atol=2e-5)


@WALKED
@LAID_OUT
@pytest.mark.parametrize("shape", [(37,), (5, 33), (2, 3, 20), (2, 2, 3, 17), (1, 2, 1, 3, 18)], ids=str)
def test_last_dim_of_any_rank(
    shape: tuple[int, ...],
    layout: str,
    walk: str,
    ops: ModuleType,
    device: torch.device,
    generator: torch.Generator,
) -> None:
    if walk != "own choice" and layout not in ("swapped", "sliced", "expanded_columns"):
        pytest.skip("one walk is enough for the other layouts")
    x = LAYOUTS[layout](torch.randn(shape, generator=generator))
    w = torch.randn(shape[-1], generator=generator)
    scale = (x.double().square().mean(-1) + 1e-6).rsqrt()
    expected = x.double() * scale.unsqueeze(-1)
    close(run(ops, "last", x.to(device), walk=walk), expected, scale)
    close(run(ops, "last", x.to(device), w.to(device), walk=walk), expected * w, scale)


@WALKED
@LAID_OUT
def test_leading_dims(
    layout: str, walk: str, ops: ModuleType, device: torch.device, generator: torch.Generator
) -> None:
    for shape in ((33,), (40, 6), (5, 3, 4)):
        x = LAYOUTS[layout](torch.randn(shape, generator=generator)).to(device)
        close(run(ops, "leading", x, walk=walk), x.cpu() - x.cpu().reshape(-1, shape[-1]).amax(0))


@WALKED
@LAID_OUT
def test_middle_dim(
    layout: str, walk: str, ops: ModuleType, device: torch.device, generator: torch.Generator
) -> None:
    x = LAYOUTS[layout](torch.randn((3, 19, 5), generator=generator)).to(device)
    keep = torch.rand((3, 19), generator=generator) < 0.7
    keep[:, 0] = True
    e = torch.where(keep[:, :, None], (x.cpu() - x.cpu().amax(1, keepdim=True)).double().exp(), 0)
    close(run(ops, "middle", x, keep.to(device), walk=walk), e.sum(1), e / e.sum(1, keepdim=True))


@WALKED
@LAID_OUT
def test_two_dims_of_images(
    layout: str, walk: str, ops: ModuleType, device: torch.device, generator: torch.Generator
) -> None:
    x = LAYOUTS[layout](torch.randn((2, 3, 5, 7), generator=generator))
    gamma = torch.randn(3, generator=generator)
    expected = F.group_norm(x.double(), 3, gamma.double(), None, 1e-5)
    close(run(ops, "images", x.to(device), gamma.to(device), walk=walk), expected, x.mean((2, 3)))


@WALKED
@LAID_OUT
def test_dims_around_a_kept_one(
    layout: str, walk: str, ops: ModuleType, device: torch.device, generator: torch.Generator
) -> None:
    x = LAYOUTS[layout](torch.randn((4, 3, 9), generator=generator))
    if not x.stride(0):
        x = x + torch.arange(4.0)[:, None, None]
    expected = F.batch_norm(x.double(), None, None, training=True, eps=1e-5)
    close(run(ops, "batches", x.to(device), walk=walk), expected)


@WALKED
@LAID_OUT
def test_all_dims(
    layout: str, walk: str, ops: ModuleType, device: torch.device, generator: torch.Generator
) -> None:
    for shape in ((), (1,), (61,), (3, 4, 5)):
        x = LAYOUTS[layout](torch.randint(-9, 9, shape, generator=generator).float())
        total, place = run(ops, "everything", x.to(device), walk=walk)
        assert total.item() == x.sum().item()
        assert place.item() == x.argmax().item() or x.flatten()[place] == x.max()
        assert place.item() == (x.flatten() == x.max()).int().argmax().item()


@WALKED
@LAID_OUT
def test_first_position_is_row_major_in_the_values_order(
    layout: str, walk: str, ops: ModuleType, device: torch.device, generator: torch.Generator
) -> None:
    x = LAYOUTS[layout](torch.randint(-2, 2, (5, 3, 6), generator=generator).float())
    flat = x.permute(1, 0, 2).flatten(1)
    expected = (flat == flat.amax(1, keepdim=True)).int().argmax(1)
    assert torch.equal(run(ops, "place_in_two", x.to(device), walk=walk)[0].cpu(), expected)


@WALKED
def test_what_comes_into_terms(
    walk: str, ops: ModuleType, device: torch.device, generator: torch.Generator
) -> None:
    """Block scales, positions, sizes, gathers, scalars, constants and packed numbers."""
    x = torch.randn((3, 36), generator=generator)
    s = torch.randn((3, 9), generator=generator)
    close(run(ops, "blocks", x.to(device), s.to(device), walk=walk), (x * s.repeat_interleave(4, 1)).sum(1))
    positions = torch.arange(36) + torch.arange(3)[:, None]
    close(run(ops, "weighted", x.to(device), walk=walk), (x.double() * positions).sum(1) / 36)
    at = torch.tensor([0, 35, 36])
    own = torch.cat((x, torch.zeros(3, 1)), 1).gather(1, at[:, None])
    expected = (x / 2).double().logsumexp(1) - own[:, 0] / 2
    close(run(ops, "gathered", x.to(device), at.to(device), walk=walk), x / 2 - own, expected)
    q = torch.randint(0, 256, (3, 18), generator=generator).to(torch.uint8)
    total = (q & 15).sum(1) + (q >> 4).sum(1)
    close(run(ops, "packed", q.to(device), s[:, 0].contiguous().to(device), walk=walk), total * s[:, 0])
    close(run(ops, "constants", x.to(device), walk=walk), x.mean(1))
    close(run(ops, "constants", x.to(device), False, walk=walk), x.sum(1))


@WALKED
def test_in_place(walk: str, ops: ModuleType, device: torch.device, generator: torch.Generator) -> None:
    for layout in ("contiguous", "transposed", "stepped"):
        x = LAYOUTS[layout](torch.randn((5, 35), generator=generator).to(device))
        expected = x.cpu().double().softmax(1)
        run(ops, "in_place", x, walk=walk)
        torch.testing.assert_close(x.cpu().double(), expected, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("walk", ["own choice", "several looped"])
def test_more_dims_than_a_kernel_walks(
    walk: str, ops: ModuleType, device: torch.device, generator: torch.Generator
) -> None:
    x = torch.randn((3,) * 7, generator=generator)[..., ::2, :][:, ::2, :, ::2].permute(5, 1, 3, 0, 2, 4, 6)
    scale = (x.double().square().mean(-1) + 1e-6).rsqrt()
    close(run(ops, "last", x.to(device), walk=walk), x.double() * scale.unsqueeze(-1), scale)


SUM_OF_LEADING = """
op sum_of_leading(x: T[..., C], y: T[..., C]) -> (a: f32[C], b: T[..., C]) { a = sum[...](x)  b = y * sum[...](x) }
"""


@pytest.mark.parametrize(
    ("x_leading", "y_leading"),
    [((4,), (3, 4)), ((3, 4), (4,)), ((3, 1), (3, 4)), ((), (2, 2)), ((3, 4), (3, 4))],
)
def test_a_sum_over_leading_dims_is_over_those_of_its_own_tensor(
    tmp_path_factory: pytest.TempPathFactory,
    device: torch.device,
    x_leading: tuple[int, ...],
    y_leading: tuple[int, ...],
) -> None:
    package = build_package(SUM_OF_LEADING, tmp_path_factory.mktemp("leading"))
    x, y = (torch.randint(-9, 10, (*lead, 5), device=device).float() for lead in (x_leading, y_leading))
    a, b = package.sum_of_leading(x, y)
    total = x.reshape(-1, 5).sum(0)
    assert torch.equal(a, total)
    assert torch.equal(b, (y * total).expand(*torch.broadcast_shapes(x_leading, y_leading), 5))
