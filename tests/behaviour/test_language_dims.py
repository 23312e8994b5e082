"""Broadcasting by dim name, dims of several forms, gathers, positions and random numbers, in several layouts."""

import importlib
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.behaviour.building import build_package
from tests.behaviour.language import Row, check
from tests.behaviour.layouts import LAYOUTS


def spread(x: Tensor, count: int, dim: int = -1) -> Tensor:
    """Each element `count` times: a dim `K / count` over `K`."""
    return x.double().repeat_interleave(count, dim)


def take(table: Tensor, *at: Tensor) -> Tensor:
    """The elements at positions along the first dims, one broadcast index for each; zero outside."""
    at = torch.broadcast_tensors(*(index.long() for index in at))
    inside = torch.ones(at[0].shape, dtype=torch.bool)
    for index, size in zip(at, table.shape, strict=False):
        inside &= (index >= 0) & (index < size)
    rest = table.shape[len(at) :]
    result = torch.zeros((*at[0].shape, *rest), dtype=torch.float64)
    for place in np.ndindex(*at[0].shape):
        if inside[place]:
            result[place] = table[tuple(int(index[place]) for index in at)].double()
    return result


def nibbles(packed: Tensor, signed: bool = False) -> Tensor:
    """4-bit integers, two to a byte, the low ones first."""
    pairs = [[byte & 15, byte >> 4] for byte in packed.reshape(-1).tolist()]
    values = torch.tensor(pairs, dtype=torch.int64).reshape(*packed.shape[:-1], -1)
    return values - 16 * (values > 7) if signed else values


def uniform(seed: int, *shape: int) -> Tensor:
    """Philox-4x32-10 over row-major positions, in Python's integers (Salmon et al., SC11)."""
    result = []
    for position in range(int(np.prod(shape))):
        key = [seed & 0xFFFFFFFF, seed >> 32 & 0xFFFFFFFF]
        word = [position & 0xFFFFFFFF, position >> 32, 0, 0]
        for _ in range(10):
            a, b = 0xD2511F53 * word[0], 0xCD9E8D57 * word[2]
            word = [b >> 32 ^ word[1] ^ key[0], b & 0xFFFFFFFF, a >> 32 ^ word[3] ^ key[1], a & 0xFFFFFFFF]
            key = [(key[0] + 0x9E3779B9) & 0xFFFFFFFF, (key[1] + 0xBB67AE85) & 0xFFFFFFFF]
        first = word[0] - (word[0] >> 31 << 32)
        first = first if first >= 0 else -first - 1
        result.append(float(np.float32(first) * np.float32(4.6566127342e-10)))
    return torch.tensor(result, dtype=torch.float64).reshape(shape)


def steps(count: int, *behind: int) -> Tensor:
    """0 to `count` - 1 along the dim before those `behind`, which have size 1."""
    return torch.arange(count).reshape(-1, *behind)


IDS = "in -2 .. 7"
ROWS = (
    Row(
        "op rows(x: T[M, N], r: f32[M]) -> y: T[M, N] { y = x * r }",
        {"x": "bf16 3 5", "r": "f32 3"},
        lambda x, r: x.double() * r.double()[:, None],
    ),
    Row(
        "op turned(x: f32[..., A, B], g: f32[B, A]) -> y: f32[..., B, A] { y = x * g }",
        {"x": "f32 2 3 5", "g": "f32 5 3"},
        lambda x, g: x.double().mT * g.double(),
    ),
    Row(
        "op outer(a: f32[M], b: f32[N]) -> (y: f32[M, N], z: f32[N, M], s: i64[M]) {\n"
        "  y = a * b z = a * b s = index[M] }",
        {"a": "f32 4", "b": "f32 3"},
        lambda a, b: (torch.outer(a.double(), b.double()), torch.outer(b.double(), a.double()), steps(4)),
    ),
    Row(
        "op lead(x: f32[..., C], q: f32[...]) -> (y: f32[..., C], z: f32[C, 3]) { y = x * q z = 1.5 }",
        {"x": "f32 4 1 5", "q": "f32 2 1 3"},
        lambda x, q: (x.double() * q.double()[..., None], torch.tensor(1.5)),
    ),
    Row(
        "op five(a: f32[A, B, C, D, E], b: f32[E, D, C, B, A]) -> y: f32[C, A, E, B, D] { y = a * b }",
        {"a": "f32 2 3 2 3 2", "b": "f32 2 3 2 3 2"},
        lambda a, b: (a.double() * b.double().permute(4, 3, 2, 1, 0)).permute(2, 0, 4, 1, 3),
    ),
    Row(
        "op seven(a: f32[A, B, C, D, E, F, G], b: f32[G, F, E, D, C, B, A]) ->\n"
        "y: f32[B, A, C, E, D, G, F] { y = a * b }",
        {"a": "f32 2 3 2 2 3 2 2", "b": "f32 2 2 3 2 2 3 2"},
        lambda a, b: (a.double() * b.double().permute(6, 5, 4, 3, 2, 1, 0)).permute(1, 0, 2, 4, 3, 6, 5),
    ),
    Row(
        "op fixed(x: f32[M]) -> y: f32[M, 3] { y = x * index[3] }",
        {"x": "f32 4"},
        lambda x: x.double()[:, None] * steps(3),
    ),
    Row(
        "op blocks(a: f32[K / 4], b: f32[M, K / 2], c: f32[K]) -> y: f32[K, M] { y = a * b * c + index[K / 4] }",
        {"a": "f32 3", "b": "f32 2 6", "c": "f32 12"},
        lambda a, b, c: (spread(a, 4) * spread(b, 2) * c.double() + spread(steps(3), 4)).mT,
        magnitude=64.0,
    ),
    Row(
        "op coarser(x: f32[M, K], a: f32[M, K / 4]) -> (y: f32[M, K], z: f32[K / 4, M]) { y = x * a z = a * K }",
        {"x": "f32 3 8", "a": "f32 3 2"},
        lambda x, a: (x.double() * spread(a, 4), a.double().mT * 8),
    ),
    Row(
        "op both_blocks(a: f32[M / 2, K / 4], x: f32[M, K]) -> y: f32[M, K] { y = x * a }",
        {"a": "f32 3 2", "x": "f32 6 8"},
        lambda a, x: x.double() * spread(spread(a, 4), 2, 0),
    ),
    Row(
        "op halves(x: f32[M, K * 2], g: f32[2 * K]) -> (y: f32[M, K], z: f32[K * 2, K]) {\n"
        "  y = x[K * 2: index[K]] * x[K * 2: index[K] + K] z = g * index[K] }",
        {"x": "f32 3 10", "g": "f32 10"},
        lambda x, g: (x[:, :5].double() * x[:, 5:].double(), g.double()[:, None] * steps(5)),
    ),
    Row(
        "op pairs(x: f32[M, D * 2]) -> y: f32[M, D, 2] { y = x[D * 2: index[D] * 2 + index[2]] }",
        {"x": "f32 3 8"},
        lambda x: x.double().reshape(3, 4, 2),
    ),
    Row(
        "op packed(w: i4[N, K], z: u4[N, K / 2], f: i4[K, 4]) -> (y: f32[N, K], q: i8[K, 4]) { y = w * z q = f }",
        {"w": "u8 3 4", "z": "u8 3 2", "f": "u8 8 2"},
        lambda w, z, f: (nibbles(w, True) * spread(nibbles(z), 2), nibbles(f, True)),
    ),
    Row(
        "op packed_rows(t: i4[V, K * 2], i: i64[M]) -> y: f32[K * 2, M] { y = t[V: i] }",
        {"t": "u8 5 6", "i": f"i64 4 {IDS}"},
        lambda t, i: take(nibbles(t, True), i).mT,
    ),
    Row(
        "op packed_elements(t: u4[V, K], i: i32[M]) -> (y: i32[M], z: i32[V, M]) { y = t[K: i, V: 1] z = t[K: i] }",
        {"t": "u8 5 3", "i": f"i32 1 {IDS}"},
        lambda t, i: (take(nibbles(t), torch.tensor([1]), i).long(), take(nibbles(t).mT, i).mT.long()),
    ),
    Row(
        "op table(t: f32[V, E], i: i64[..., P]) -> y: f32[..., P, E] { y = t[V: i] }",
        {"t": "f32 5 3", "i": f"i64 2 4 {IDS}"},
        lambda t, i: take(t, i),  # noqa: PLW0108 - inputs come by name
    ),
    Row(
        "op empty_table(t: f32[V, E], i: u8[P]) -> y: f32[P, E] { y = t[V: i] }",
        {"t": "f32 0 3", "i": "u8 4"},
        lambda t, i: torch.zeros(4, 3),
    ),
    Row(
        "op two_coordinates(x: f32[M, N], i: i32[P], j: i16[Q]) -> y: f32[Q, P] { y = x[N: j, M: i] }",
        {"x": "f32 5 6", "i": f"i32 4 {IDS}", "j": f"i16 3 {IDS}"},
        lambda x, i, j: take(x, i, j[:, None]),
    ),
    Row(
        "op nested(x: f32[M], p: i64[M]) -> y: f32[M] { y = x[M: p[M: index[M] - 1]] - x }",
        {"x": "f32 6", "p": f"i64 6 {IDS}"},
        lambda x, p: take(x, take(p, steps(6) - 1)) - x.double(),
        magnitude=8.0,
    ),
    Row(
        "op row_choice(x: f32[..., M, N], i: i64[..., M]) -> y: f32[..., M] { y = x[N: i] }",
        {"x": "f32 2 3 4", "i": f"i64 2 3 {IDS}"},
        lambda x, i: take(x, steps(2, 1), steps(3), i),
    ),
    Row(
        "op far(t: f32[V], i: i64[M]) -> y: f32[M] { y = t[V: i * 4294967296] + t[V: -i] }",
        {"t": "f32 5", "i": "i64 6 in -3 .. 3"},
        lambda t, i: take(t, i << 32) + take(t, -i),
        magnitude=8.0,
    ),
    Row(
        "op bytes(q: f8e4m3[V], r: f8e5m2[V], i: i32[M]) -> y: f32[M] { y = q[V: i] * r[V: i] }",
        {"q": "f8e4m3 5", "r": "f8e5m2 5", "i": f"i32 6 {IDS}"},
        lambda q, r, i: take(q.float(), i) * take(r.float(), i),
    ),
    Row(
        "op positions(x: f32[M, N]) -> (y: i64[N, M], z: f32[M, N]) {\n"
        "  y = index[M] * N + index[N] z = x * (index[N] // 2 - M % 2) }",
        {"x": "f32 3 5"},
        lambda x: (steps(15).reshape(3, 5).mT, x.double() * (steps(5) // 2 - 1)),
    ),
    *(
        Row(
            f"op draws{number}(x: f32[..., M, N], seed: i64 = 3) -> (y: f32[..., M, N], z: f32[M, N]) {{\n"
            "  y = rand[..., N](seed) + 0 * x z = rand[N, M](seed + 1) + rand[M](7) }",
            {"x": "f32 2 3 5", "seed": seed},
            lambda x, seed: (
                uniform(int(seed), 2, 5)[:, None],
                uniform(int(seed) + 1, 5, 3).mT + uniform(7, 3)[:, None],
            ),
        )
        for number, seed in enumerate((0, -1, 2**40 + 7, -(2**63), torch.tensor(12345)))
    ),
)


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    return build_package("\n".join(row.spec for row in ROWS), tmp_path_factory.mktemp("dims"))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_values_in_several_layouts(row: Row, package: ModuleType, device: torch.device) -> None:
    layouts = ("contiguous", "transposed", "sliced", "stepped", "expanded_columns")
    check(row, importlib.import_module(f"{package.__name__}.{row.name}"), layouts, device)


@pytest.mark.parametrize(
    ("op", "shapes"),
    [
        ("turned", ((2, 0, 5), (5, 0))),
        ("outer", ((0,), (3,))),
        ("blocks", ((0,), (2, 0), (0,))),
        ("fixed", ((0,),)),
        ("coarser", ((0, 8), (0, 2))),
    ],
)
def test_sizes_of_zero(op: str, shapes: Any, package: ModuleType, device: torch.device) -> None:
    """An empty result is returned, and every other result is still written."""
    results = getattr(package, op)(*(torch.ones(shape, device=device) for shape in shapes))
    results = results if isinstance(results, tuple) else (results,)
    assert all(result.numel() == 0 for result in results)


def test_another_result_is_written_beside_an_empty_one(package: ModuleType, device: torch.device) -> None:
    y, z = package.lead(torch.ones(0, 5, device=device), torch.ones(1, device=device))
    assert (y.shape, z.tolist()) == ((0, 5), [[1.5] * 3] * 5)


BINARY = (
    (("M", "N"), ("N", "M")),
    (("M", "N"), ("M",)),
    (("N",), ("M", "N")),
    (("...", "M", "N"), ("N", "M")),
)


@pytest.mark.parametrize("dims", BINARY, ids=str)
def test_strides_are_those_of_pytorch(
    dims: tuple[tuple[str, ...], tuple[str, ...]], tmp_path: Path, device: torch.device
) -> None:
    """A result has the strides of PyTorch's own op over the tensors in parameter order, permuted to the result."""
    left, right = dims
    lead = [name for name in left if name == "..."]
    shape = ", ".join([*lead, "N", "M"])
    spec = f"op f(a: f32[{', '.join(left)}], b: f32[{', '.join(right)}]) -> y: f32[{shape}] {{ y = a * b }}"
    op = build_package(spec, tmp_path).f
    sizes = {"...": 2, "M": 3, "N": 5}

    def over(x: Tensor, own: tuple[str, ...]) -> Tensor:
        """The view over the dims of the result, as a user would write it."""
        order = [own.index(name) for name in (*lead, "N", "M") if name in own]
        x = x.permute(order)
        return x if "M" in own else x.as_strided((*x.shape, 1), (*x.stride(), 0))

    layouts = [LAYOUTS[name] for name in ("contiguous", "swapped", "transposed", "sliced", "expanded")]
    for first in layouts:
        for second in layouts:
            a = first(torch.randn([sizes[name] for name in left], device=device))
            b = second(torch.randn([sizes[name] for name in right], device=device))
            expected = over(a, left) * over(b, right)
            got = op(a, b)
            assert torch.equal(got, expected)
            assert got.stride() == expected.stride(), (a.stride(), b.stride())
