"""Reductions as the language has them, in several layouts: what is reduced, what is kept, and what comes of it."""

import importlib
from types import ModuleType

import pytest
import torch

from tests.behaviour.building import build_package
from tests.behaviour.language import Row, check

ROWS = (
    Row(
        "op centred(x: f32[A]) -> y: f32[A] { y = x - mean[A](x) }",
        {"x": "f32 129"},
        lambda x: x.double() - x.double().mean(),
        magnitude=8.0,
    ),
    Row(
        "op below_largest(x: f32[A, B]) -> (y: f32[B, A], i: i64[]) { y = x - max[A, B](x) i = argmax[B, A](x) }",
        {"x": "f32 5 7"},
        lambda x: ((x.double() - x.double().max()).mT, x.argmax()),
        magnitude=8.0,
    ),
    Row(
        "op scaled_in_place(inout x: f32[A]) { x = x / sum[A](x * x) }",
        {"x": "f32 40"},
        lambda x: x.double() / x.double().square().sum(),
    ),
    Row(
        "op share(x: bf16[...]) -> y: f32[...] { y = exp(x - logsumexp[...](x)) }",
        {"x": "bf16 2 3 5"},
        lambda x: x.double().flatten().softmax(0).reshape(x.shape),
        magnitude=4.0,
    ),
    *(
        Row(
            f"op tiles{number}(x: f32[M, C]) -> (y: f32[M, C], l: f32[M], v: f32[M]) {{\n"
            f"  y = softmax[C](x) l = logsumexp[C](x) v = var[C](x) tile {{ {hints} }} }}",
            {"x": "f32 5 37"},
            lambda x: (x.double().softmax(1), x.double().logsumexp(1), x.double().var(1, correction=0)),
            magnitude=8.0,
        )
        for number, hints in enumerate(
            ("C = 1", "C = 2, M = 4", "M = 2, C = 16, persistent = true, stages = 3")
        )
    ),
    Row(
        "op tall(x: f32[M, C]) -> y: f32[M, C] { y = x - max[C](x) tile { M = 256 } }",
        {"x": "f32 2 6000"},
        lambda x: x.double() - x.double().amax(1, keepdim=True),
        magnitude=8.0,
    ),
    Row(
        "op counted(x: f32[M]) -> (y: f32[M], n: i64[]) { y = x * sum[5](index[5]) n = sum[M](index[M]) }",
        {"x": "f32 4"},
        lambda x: (x.double() * 10, torch.tensor(6)),
    ),
)


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    return build_package("\n".join(row.spec for row in ROWS), tmp_path_factory.mktemp("rows"))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_values_in_several_layouts(row: Row, package: ModuleType, device: torch.device) -> None:
    layouts = ("contiguous", "transposed", "sliced", "stepped")
    check(row, importlib.import_module(f"{package.__name__}.{row.name}"), layouts, device)
