"""Matrix products as the language's page allows them: forms, types and dims, in several layouts."""

import importlib
from types import ModuleType

import pytest
import torch

from tests.behaviour.building import build_package
from tests.behaviour.language import Row, check

ROWS = (
    Row(
        "op leading_dots(x: f32[..., K], v: f32[..., K]) -> y: f32[...] { y = x @ v }",
        {"x": "f32 7", "v": "f32 7"},
        lambda x, v: x.double() @ v.double(),
        magnitude=112.0,
    ),
    Row(
        "op vector_first(v: f32[K], x: f32[..., K]) -> y: f32[...] { y = v @ x }",
        {"v": "f32 7", "x": "f32 2 3 7"},
        lambda v, x: x.double() @ v.double(),
        magnitude=112.0,
    ),
    *(
        Row(
            f"op may_be_left_out{number}(x: T[M, K], w: T[N, K], d: T[N, K] = 1.1) -> y: f32[M, N] {{\n"
            "  y = x @ w + x @ d }",
            {"x": f"{dtype} 3 {depth}", "w": f"{dtype} 5 {depth}", "d": None},
            lambda x, w, d: x.double() @ (w.double() + 1.1).mT,
            magnitude=32.0 * depth,
        )
        for number, (dtype, depth) in enumerate((("f16", 7), ("f32", 7), ("f16", 128)))  # 128: whole steps
    ),
    Row(
        "op groups_of_heads(q: f16[B, H, S, D], k: f16[B, H / 2, L, D]) -> (s: f32[B, H, S, L], t: f32[L, B, S, H]) {\n"
        "  s = q @ k t = k @ q }",
        {"q": "f16 2 4 3 7", "k": "f16 2 2 5 7"},
        lambda q, k: (
            q.double() @ k.double().repeat_interleave(2, 1).mT,
            (q.double() @ k.double().repeat_interleave(2, 1).mT).permute(3, 0, 2, 1),
        ),
        magnitude=112.0,
    ),
)


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    return build_package("\n".join(row.spec for row in ROWS), tmp_path_factory.mktemp("products"))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_products(row: Row, package: ModuleType, device: torch.device) -> None:
    check(
        row,
        importlib.import_module(f"{package.__name__}.{row.name}"),
        ("contiguous", "transposed", "stepped"),
        device,
    )
