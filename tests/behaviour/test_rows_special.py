"""Rows that hold NaN and infinities, large means, tiny values, and rows of nothing."""

from __future__ import annotations

import importlib
import math
from types import ModuleType

import pytest
import torch
from torch import Tensor

from tests.behaviour.building import build_package
from tests.behaviour.rows import WALKS, call

NAN, INF = math.nan, math.inf
SPEC = """
op probabilities(x: f32[M, C]) -> (y: f32[M, C], logs: f32[M, C])
{ y = softmax[C](x)  logs = log_softmax[C](x) }
op log_sums(x: T[M, C]) -> y: T[M] for T in {f32, f64} { y = logsumexp[C](x) }
op normal(x: f32[M, C], eps: f32 = 1e-5) -> (y: f32[M, C], spread: f32[M])
{ y = normalize[C](x, eps)  spread = var[C](x) }
op scaled(x: f32[M, C], eps: f32 = 1e-6) -> y: f32[M, C] { y = rms_norm[C](x, eps) }
op extrema(x: f32[M, C]) -> (least: f32[M], most: f32[M]) { least = min[C](x)  most = max[C](x) }
op empty_sums(x: f32[M, C]) -> (
  total: f32[M], product: f32[M], average: f32[M], spread: f32[M], some: bool[M], every: bool[M], lse: f32[M],
  y: f32[M, C]
)
{
  total = sum[C](x)  product = prod[C](x)  average = mean[C](x)  spread = var[C](x)
  some = any[C](x > 0)  every = all[C](x > 0)  lse = logsumexp[C](x)  y = x - total
}
op best(x: f32[M, C]) -> y: i64[M] { y = argmax[C](x) }
"""
walks = pytest.mark.parametrize("walk", WALKS)


@pytest.fixture(scope="module")
def ops(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    return build_package(SPEC, tmp_path_factory.mktemp("special"))


def run(ops: ModuleType, name: str, x: Tensor, walk: str) -> tuple[Tensor, ...]:
    results = call(importlib.import_module(f"{ops.__name__}.{name}"), x, walk=walk)
    return tuple(result.cpu() for result in results)


def rows_with(length: int, *places: tuple[int, float], rest: float | None = None) -> Tensor:
    x = torch.linspace(-3, 3, length) if rest is None else torch.full((length,), rest)
    for place, value in places:
        x[place] = value
    return x


def special_rows(length: int) -> Tensor:
    """Infinities and NaN at both ends, in all of a row, and in all of its first tiles."""
    last = length - 1
    return torch.stack(
        [
            rows_with(length, rest=-INF),
            rows_with(length, (last, 1.0), rest=-INF),
            rows_with(length, (0, INF)),
            rows_with(length, (last, INF), (0, -INF)),
            rows_with(length, (last, NAN)),
            rows_with(length, (0, NAN), (last, INF)),
            rows_with(length, (0, -INF), (last, -INF)),
            rows_with(length, (0, 80.0), (last, 100.0)),
        ]
    )


@walks
@pytest.mark.parametrize("length", [2, 140])
def test_softmax_and_logsumexp(walk: str, length: int, ops: ModuleType, device: torch.device) -> None:
    x = special_rows(length)
    y, logs = run(ops, "probabilities", x.to(device), walk)
    torch.testing.assert_close(y.double(), x.double().softmax(1), rtol=2e-6, atol=1e-38, equal_nan=True)
    torch.testing.assert_close(logs.double(), x.double().log_softmax(1), rtol=2e-6, atol=2e-6, equal_nan=True)
    for wide, tolerance in ((x, 2e-6), (x.double(), 1e-13)):
        (sums,) = run(ops, "log_sums", wide.to(device), walk)
        expected = x.double().logsumexp(1)
        torch.testing.assert_close(sums.double(), expected, rtol=tolerance, atol=tolerance, equal_nan=True)


@walks
def test_extrema_keep_nan(walk: str, ops: ModuleType, device: torch.device) -> None:
    x = special_rows(140)
    least, most = run(ops, "extrema", x.to(device), walk)
    torch.testing.assert_close(least, x.amin(1), rtol=0, atol=0, equal_nan=True)
    torch.testing.assert_close(most, x.amax(1), rtol=0, atol=0, equal_nan=True)


@walks
def test_large_means(walk: str, ops: ModuleType, device: torch.device, generator: torch.Generator) -> None:
    for x in (
        torch.tensor([[40000.0, 40001, 40002, 40003]]),
        1000 + torch.randn((2, 129), generator=generator),
        torch.cat((torch.full((1, 300), 256.0), torch.full((1, 1), 255.0)), 1),
    ):
        y, spread = run(ops, "normal", x.to(device), walk)
        centred = x.double() - x.double().mean(1, keepdim=True)
        variance = centred.square().mean(1)
        torch.testing.assert_close(spread.double(), variance, rtol=1e-5, atol=0)
        scale = (variance[:, None] + 1e-5).rsqrt()
        two_units = float(x.abs().max()) * 2**-22  # of the mean
        torch.testing.assert_close(y.double(), centred * scale, rtol=0, atol=two_units * float(scale.max()))


@walks
def test_tiny_rows_and_rows_of_zeros(walk: str, ops: ModuleType, device: torch.device) -> None:
    x = torch.zeros((3, 70))
    x[1] = 1e-4
    x[2] = 1e-30
    (y,) = run(ops, "scaled", x.to(device), walk)
    wanted = x.double() * (x.double().square().mean(1, keepdim=True) + 1e-6).rsqrt()
    torch.testing.assert_close(y.double(), wanted, rtol=1e-6, atol=0)


@walks
def test_rows_of_nothing(walk: str, ops: ModuleType, device: torch.device) -> None:
    for count in (0, 3):
        results = run(ops, "empty_sums", torch.empty((count, 0), device=device), walk)
        expected = (0.0, 1.0, NAN, NAN, False, True, -INF)
        for got, wanted in zip(results, expected, strict=False):
            torch.testing.assert_close(got, torch.full_like(got, wanted), rtol=0, atol=0, equal_nan=True)
        assert results[-1].shape == (count, 0)
    none = run(ops, "empty_sums", torch.empty((0, 5), device=device), walk)
    assert [tuple(one.shape) for one in none] == [(0,)] * 7 + [(0, 5)]


@pytest.mark.parametrize(("name", "reduction"), [("extrema", "min"), ("best", "argmax")])
def test_no_extremum_of_nothing(name: str, reduction: str, ops: ModuleType, device: torch.device) -> None:
    with pytest.raises(ValueError, match=f"{name}: `{reduction}` over C"):
        run(ops, name, torch.empty((3, 0), device=device), "own choice")
    assert run(ops, name, torch.empty((0, 0), device=device), "own choice")[0].shape == (0,)


def test_rows_of_nothing_have_results_of_nothing(ops: ModuleType, device: torch.device) -> None:
    y, logs = run(ops, "probabilities", torch.empty((3, 0), device=device), "own choice")
    assert y.shape == logs.shape == (3, 0)
