"""Reductions over a dim beside ones over a part of it, such as `K / 4` beside `K`, against sums of whole numbers."""

from collections.abc import Callable
from types import ModuleType

import pytest
import torch
from torch import Tensor

from tests.behaviour.building import build_package

SPECS = """
op finer(x: f32[M, K], s: f32[M, K / 4]) -> (a: f32[M], y: f32[M, K]) { a = sum[K / 4](s)  y = x * a }
op shares(x: f32[M, K], s: f32[M, K / 4]) -> y: f32[M, K] { y = x * s / sum[K / 4](s) }
op coarser(x: f32[M, K], s: f32[K / 4]) -> y: f32[M, K / 4] { y = sum[K](x) * s }
op own_scales(x: f32[M, K], s: f32[M, K / 4]) -> y: f32[M, K] { y = x * sum[K](x * s) - s }
op three(x: f32[M, K], s: f32[M, K / 4], t: f32[K / 2]) -> y: f32[M, K / 2] { y = t * max[K](x * s) - sum[K / 4](s) }
op kept(x: f32[M, K], s: f32[K / 4, M]) -> (y: f32[K], z: f32[K / 4]) { y = sum[M](x) * sum[M](s)  z = max[M](s) }
op in_turn(x: f32[M, K], s: f32[K / 4, M]) -> y: f32[K / 4] { y = sum[M](s * sum[K](x)) }
op picked(x: f32[M, K], s: f32[M, K / 4], i: i32[M, K / 4]) -> (y: f32[M], z: f32[M]) {
  y = sum[K / 4](x[K: i] * s)  z = s[K / 4: argmax[K](x) // 4]
}
op product(x: f32[M, K], w: f32[N, K], s: f32[M, K / 4]) -> y: f32[M, N] { y = (x * s) @ w * sum[K / 4](s) }
"""


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    return build_package(SPECS, tmp_path_factory.mktemp("divided"))


def drawn(generator: torch.Generator, *shape: int) -> Tensor:
    """Small whole numbers, of which f32 holds all sums and products here."""
    return torch.randint(1, 4, shape, generator=generator).float()


def spread(s: Tensor, size: int, dim: int = -1) -> Tensor:
    """Each element as often as it covers elements of the whole dim."""
    return s.repeat_interleave(size, dim)


def finer(x: Tensor, s: Tensor) -> tuple[Tensor, Tensor]:
    a = s.sum(1)
    return a, x * a[:, None]


def shares(x: Tensor, s: Tensor) -> Tensor:
    return x * spread(s, 4) / s.sum(1)[:, None]


def coarser(x: Tensor, s: Tensor) -> Tensor:
    return x.sum(1)[:, None] * s[0]


def own_scales(x: Tensor, s: Tensor) -> Tensor:
    scales = spread(s, 4)
    return x * (x * scales).sum(1)[:, None] - scales


def kept(x: Tensor, s: Tensor) -> tuple[Tensor, Tensor]:
    return x.sum(0) * spread(s.sum(0), 4), s.amax(0)


def in_turn(x: Tensor, s: Tensor) -> Tensor:
    return (s * x.sum(1)[:, None]).sum(0)


ARGUMENTS: dict[str, Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]] = {
    "coarser": lambda x, s: (x, s[0]),
    "kept": lambda x, s: (x, s.T),
    "in_turn": lambda x, s: (x, s.T),
}


@pytest.mark.parametrize("size", [4, 36, 2_000])
@pytest.mark.parametrize("formula", [finer, shares, coarser, own_scales, kept, in_turn])
def test_beside_the_whole_dim(
    package: ModuleType,
    device: torch.device,
    generator: torch.Generator,
    formula: Callable[[Tensor, Tensor], Tensor | tuple[Tensor, Tensor]],
    size: int,
) -> None:
    x, s = drawn(generator, 3, size), drawn(generator, 3, size // 4)
    name = formula.__name__
    both = x.to(device), s.to(device)
    arguments = ARGUMENTS[name](*both) if name in ARGUMENTS else both
    got, want = getattr(package, name)(*arguments), formula(x.double(), s.double())
    for one, exact in zip(
        *(each if isinstance(each, tuple) else (each,) for each in (got, want)), strict=True
    ):
        torch.testing.assert_close(one.cpu().double(), exact, rtol=2e-7 if name == "shares" else 0, atol=0)


def test_three_of_one_family(package: ModuleType, device: torch.device, generator: torch.Generator) -> None:
    x, s, t = drawn(generator, 5, 40), drawn(generator, 5, 10), drawn(generator, 20)
    want = t * (x * spread(s, 4)).amax(1)[:, None] - s.sum(1)[:, None]
    assert torch.equal(package.three(x.to(device), s.to(device), t.to(device)).cpu(), want)


def test_looked_up(package: ModuleType, device: torch.device, generator: torch.Generator) -> None:
    x, s = drawn(generator, 5, 40), drawn(generator, 5, 10)
    places = torch.randint(0, 40, (5, 10), generator=generator)
    y, z = package.picked(x.to(device), s.to(device), places.to(device, torch.int32))
    assert torch.equal(y.cpu(), (x.gather(1, places) * s).sum(1))
    assert torch.equal(z.cpu(), s.gather(1, x.argmax(1, keepdim=True) // 4).squeeze(1))


def test_product(package: ModuleType, device: torch.device, generator: torch.Generator) -> None:
    x, w, s = drawn(generator, 5, 40), drawn(generator, 7, 40), drawn(generator, 5, 10)
    want = (x * spread(s, 4)) @ w.T * s.sum(1)[:, None]
    assert torch.equal(package.product(x.to(device), w.to(device), s.to(device)).cpu(), want)
