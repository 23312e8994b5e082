"""Every kind of reduction, in every way to walk rows, against PyTorch in f64 and i64."""

from __future__ import annotations

import importlib
from types import ModuleType

import pytest
import torch
from torch import Tensor

from tests.behaviour.building import build_package
from tests.behaviour.closeness import assert_close
from tests.behaviour.rows import LENGTHS, WALKS, call

SPEC = """
op floats(x: T[M, N]) -> (
  total: f32[M], average: f32[M], product: f32[M], least: T[M], most: T[M], spread: f32[M], lse: f32[M]
) for T in {f16, bf16, f32}
{
  total = sum[N](x)  average = mean[N](x)  product = prod[N](x)  least = min[N](x)  most = max[N](x)
  spread = var[N](x)  lse = logsumexp[N](x)
}
op doubles(x: f64[M, N]) -> (
  total: f64[M], average: f64[M], product: f64[M], least: f64[M], most: f64[M], spread: f64[M], lse: f64[M]
)
{
  total = sum[N](x)  average = mean[N](x)  product = prod[N](x)  least = min[N](x)  most = max[N](x)
  spread = var[N](x)  lse = logsumexp[N](x)
}
op integers(x: T[M, N]) -> (
  total: i64[M], product: i64[M], least: i64[M], most: i64[M], average: f64[M], first: i64[M], last: i64[M]
) for T in {i64, i32, i16, i8, u8}
{
  total = sum[N](x)  product = prod[N](x)  least = min[N](x)  most = max[N](x)
  average = mean[N](x)  first = argmax[N](x)  last = argmin[N](x)
}
op conditions(x: bool[M, N]) -> (some: bool[M], every: bool[M], count: i64[M], product: i64[M])
{
  some = any[N](x)  every = all[N](x)  count = sum[N](x)  product = prod[N](x)
}
op sums(x: f32[M, N]) -> (total: f32[M], lse: f32[M]) { total = sum[N](x)  lse = logsumexp[N](x) }
op positions(x: T[M, N]) -> (first: i64[M], last: i64[M]) for T in {f64, f32, bf16}
{
  first = argmax[N](x)  last = argmin[N](x)
}
"""


@pytest.fixture(scope="module")
def ops(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    return build_package(SPEC, tmp_path_factory.mktemp("kinds"))


def module(ops: ModuleType, name: str) -> ModuleType:
    return importlib.import_module(f"{ops.__name__}.{name}")


def draw(generator: torch.Generator, count: int, length: int, dtype: torch.dtype) -> Tensor:
    """Normal numbers near 1 in size, so that products of many stay in range."""
    numbers = torch.randn((count, length), generator=generator, dtype=torch.float64)
    return (torch.exp(numbers * 0.05) * torch.sign(numbers + 0.5)).to(dtype)


def of_floats(x: Tensor) -> tuple[Tensor, ...]:
    x = x.double()
    return (
        x.sum(1), x.mean(1), x.prod(1), x.amin(1), x.amax(1), x.var(1, correction=0), x.logsumexp(1)
    )  # fmt: skip


def magnitudes(x: Tensor) -> tuple[Tensor | None, ...]:
    x = x.double()
    square = x.square().mean(1)
    return x.abs().sum(1), x.abs().mean(1), None, None, None, square, x.logsumexp(1).abs() + 1


walks = pytest.mark.parametrize("walk", WALKS)


@walks
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str)
def test_reductions_of_floats(
    walk: str, dtype: torch.dtype, ops: ModuleType, device: torch.device, generator: torch.Generator
) -> None:
    op = module(ops, "doubles" if dtype == torch.float64 else "floats")
    for length in LENGTHS if walk == "own choice" else LENGTHS[3::3]:
        x = draw(generator, 3, length, dtype)
        results = call(op, x.to(device), walk=walk)
        for got, wanted, size in zip(results, of_floats(x), magnitudes(x), strict=True):
            if dtype == torch.float64:
                torch.testing.assert_close(got.cpu(), wanted, rtol=1e-12, atol=1e-12)
            else:  # the roundings of a product of n terms add up, those of a sum by halves do not
                assert_close(got, wanted, ulps=8 + length / 2, magnitude=size)


@walks
@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8], ids=str)
def test_reductions_of_integers(
    walk: str, dtype: torch.dtype, ops: ModuleType, device: torch.device, generator: torch.Generator
) -> None:
    for length in (1, 17, 129):
        low = 0 if dtype == torch.uint8 else -3
        x = torch.randint(low, 4, (3, length), generator=generator).to(dtype)
        wide = x.long()
        results = call(module(ops, "integers"), x.to(device), walk=walk)
        expected = wide.sum(1), wide.prod(1), wide.amin(1), wide.amax(1), wide.double().mean(1)
        for got, wanted in zip(results[:4], expected[:4], strict=True):
            assert torch.equal(got.cpu(), wanted)
        assert_close(results[4].float(), expected[4], magnitude=torch.ones(3))
        assert torch.equal(results[5].cpu(), first_of(wide, wide.amax(1)))
        assert torch.equal(results[6].cpu(), first_of(wide, wide.amin(1)))


def first_of(x: Tensor, values: Tensor) -> Tensor:
    """The first position of each row's value."""
    return (x == values[:, None]).int().argmax(1)


@walks
def test_sums_of_integers_have_64_bits(walk: str, ops: ModuleType, device: torch.device) -> None:
    x = torch.full((2, 65), 2**31 - 1, dtype=torch.int32, device=device)
    x[1] *= -1
    results = call(module(ops, "integers"), x, walk=walk)
    assert results[0].tolist() == [65 * (2**31 - 1), -65 * (2**31 - 1)]
    large = torch.tensor([[2**62, -(2**63), 2**63 - 1, 5]], device=device)
    results = call(module(ops, "integers"), large, walk=walk)
    assert [results[at].item() for at in (2, 3, 5, 6)] == [-(2**63), 2**63 - 1, 2, 1]


@walks
def test_conditions(walk: str, ops: ModuleType, device: torch.device) -> None:
    for length in (1, 17, 129):
        x = torch.zeros((4, length), dtype=torch.bool)
        x[1] = True
        x[2, -1] = True
        x[3, 1:] = True
        some, every, count, product = call(module(ops, "conditions"), x.to(device), walk=walk)
        assert torch.equal(some.cpu(), x.any(1))
        assert torch.equal(every.cpu(), x.all(1))
        assert torch.equal(count.cpu(), x.sum(1))
        assert torch.equal(product.cpu(), x.long().prod(1))


@walks
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)
def test_positions_of_ties_and_of_nan(
    walk: str, dtype: torch.dtype, ops: ModuleType, device: torch.device, generator: torch.Generator
) -> None:
    """The first position of a tie; a NaN wins, and the first of several."""
    for length in (2, 17, 130):
        x = torch.randint(-2, 3, (6, length), generator=generator).to(dtype)
        x[1] = -torch.inf
        x[2] = torch.inf
        x[3, length // 2 :] = torch.nan
        x[4, length - 1] = torch.nan
        first, last = call(module(ops, "positions"), x.to(device), walk=walk)
        best, worst = x.amax(1, keepdim=True), x.amin(1, keepdim=True)
        assert torch.equal(first.cpu(), ((x == best) | x.isnan()).int().argmax(1))
        assert torch.equal(last.cpu(), ((x == worst) | x.isnan()).int().argmax(1))


@pytest.mark.parametrize("walk", ["own choice", "looped"])
def test_long_rows(walk: str, ops: ModuleType, device: torch.device, generator: torch.Generator) -> None:
    for length in (4096, 5000):
        x = draw(generator, 2, length, torch.float32)
        results = call(module(ops, "floats"), x.to(device), walk=walk)
        for got, wanted, size in zip(results, of_floats(x), magnitudes(x), strict=True):
            assert_close(got, wanted, ulps=8 + length / 2, magnitude=size)


def test_a_row_of_more_than_a_block_can_have(ops: ModuleType, device: torch.device) -> None:
    """1,048,577 columns: more than the largest block of Triton's."""
    x = torch.zeros((1, 2**20 + 1), device=device)
    x[0, -1] = 3.0
    total, lse = call(module(ops, "sums"), x)
    assert total.item() == 3.0
    assert lse.item() == pytest.approx(13.862963, rel=1e-6)


@pytest.mark.parametrize("walk", ["looped", "split in 5"])
def test_the_same_bits_from_run_to_run(
    walk: str, ops: ModuleType, device: torch.device, generator: torch.Generator
) -> None:
    x = torch.randn((2, 701), generator=generator).to(device)
    first, second = (call(module(ops, "sums"), x, walk=walk) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))
