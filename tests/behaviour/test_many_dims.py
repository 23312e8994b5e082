"""Spaces of more dims than kernels walk: layouts that do not merge, and tensors that broadcast against each other."""

from types import ModuleType

import pytest
import torch
from torch import Tensor

from tests.behaviour.building import build_package

SPECS = """
op product(x: T[...], y: T[...]) -> z: T[...] { z = x * y }
op rows(x: f32[..., C], s: f32[..., C], n: f32 = 2.0) -> (w: f32[C, 2], z: f32[..., C]) { w = 1.5 z = x * s * n }
op named(a: f32[A, B, C, D, E, F, G], b: f32[B, D, F]) -> (y: f32[G, A, B, C, D, E, F], z: f32[B, D, F]) {
  y = a * b z = b + 1
}
op update(inout x: f32[...], y: f32[...]) -> s: f32[...] { x = x + y s = y * 2 }
op named_update(inout a: f32[A, B, C, D, E, F, G], b: f32[B, D, F]) { a = a - b }
op numbered(x: f32[...], y: f32[...], seed: i64) -> (z: f32[...], p: f32[...]) {
  z = x * y p = rand[...](seed) + x * 0
}
"""
LEFT, RIGHT = (2, 1, 3, 1, 2, 1, 2, 1), (1, 3, 1, 2, 1, 2, 1, 3)
FULL = torch.broadcast_shapes(LEFT, RIGHT)
NAMED, PART = (2, 3, 2, 2, 3, 2, 2), (3, 2, 2)


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    return build_package(SPECS, tmp_path_factory.mktemp("many"))


def drawn(shape: tuple[int, ...], device: torch.device, dtype: torch.dtype = torch.float32) -> Tensor:
    """Small whole numbers, whose sums and products are exact."""
    return torch.randint(-9, 10, shape, device=device).to(dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_tensors_that_broadcast_in_turn(
    package: ModuleType, device: torch.device, dtype: torch.dtype
) -> None:
    x, y = drawn(LEFT, device, dtype), drawn(RIGHT, device, dtype)
    for left, right in ((x, y), (y, x), (x.movedim(0, 4), y.movedim(0, 4)), (x.expand(FULL), y)):
        expected = left * right
        got = package.product(left, right)
        assert torch.equal(got, expected)
        assert got.stride() == expected.stride()


def test_leading_dims_before_named_ones(package: ModuleType, device: torch.device) -> None:
    x, s = drawn((*LEFT, 5), device), drawn((*RIGHT, 5), device)
    w, z = package.rows(x, s, 3.0)
    assert torch.equal(z, x * s * 3)
    assert torch.equal(w, torch.full((5, 2), 1.5, device=device))


def test_out_of_any_layout(package: ModuleType, device: torch.device) -> None:
    x, y = drawn(LEFT, device), drawn(RIGHT, device)
    for out in (
        torch.empty(FULL, device=device),
        torch.empty(FULL[::-1], device=device).permute(*range(7, -1, -1)),
    ):
        assert package.product(x, y, out=out) is out
        assert torch.equal(out, x * y)


def test_named_dims_that_broadcast_in_turn(package: ModuleType, device: torch.device) -> None:
    a, b = drawn(NAMED, device), drawn(PART, device)
    over = b[None, :, None, :, None, :, None]
    y, z = package.named(a, b)
    assert torch.equal(y, (a * over).movedim(-1, 0))
    assert y.stride() == (a * over).movedim(-1, 0).stride()
    assert torch.equal(z, b + 1)


def test_updates_in_place(package: ModuleType, device: torch.device) -> None:
    x, y = drawn(FULL, device), drawn(RIGHT, device)
    for target in (x.clone(), torch.empty(FULL[::-1], device=device).permute(*range(7, -1, -1)).copy_(x)):
        s = package.update(target, y)
        assert torch.equal(target, x + y)
        assert torch.equal(s, (y * 2).expand(FULL))
    a, b = drawn(NAMED, device), drawn(PART, device)
    expected = a - b[None, :, None, :, None, :, None]
    assert package.named_update(a, b) is a
    assert torch.equal(a, expected)


def test_random_numbers_are_the_same(package: ModuleType, device: torch.device) -> None:
    """They depend on positions in the full space, however it is walked."""
    x, y = drawn(LEFT, device), drawn(RIGHT, device)
    z, p = package.numbered(x, y, 7)
    flat = package.numbered(x.expand(FULL).reshape(-1), y.expand(FULL).reshape(-1), 7)[1]
    assert torch.equal(z, x * y)
    assert torch.equal(p, flat.reshape(FULL))


def test_the_registered_operator(package: ModuleType, device: torch.device) -> None:
    x, y = drawn(LEFT, device), drawn(RIGHT, device)
    assert torch.equal(package.product(x.requires_grad_(), y).detach(), x.detach() * y)
