"""Eager references with reductions and products, against PyTorch's f64 and i64 by position, on CPU tensors."""

import importlib
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.behaviour.building import build_references
from tests.behaviour.closeness import assert_close
from tests.behaviour.language import Row, drawn
from tests.behaviour.layouts import LAYOUTS

F64 = torch.float64


def softmax(x: Tensor, dim: int = -1) -> Tensor:
    return torch.softmax(x.double(), dim)


def outer(x: Tensor, at: int) -> Tensor:
    """Leading dims as one."""
    return x.double().reshape(-1, *x.shape[at:])


REDUCTIONS = (
    Row(
        "op rsum(x: T[M, N]) -> y: f32[M] { y = sum[N](x) }",
        {"x": "f16 4 37"},
        lambda x: x.double().sum(1),
        80,
    ),
    Row(
        "op csum(x: T[M, N]) -> y: T[N] { y = sum[M](x) }", {"x": "bf16 9 5"}, lambda x: x.double().sum(0), 20
    ),
    Row(
        "op all_of(x: T[M, N]) -> y: f32[] { y = sum[M, N](x) }",
        {"x": "f32 9 5"},
        lambda x: x.double().sum(),
        90,
    ),
    Row(
        "op means(x: T[B, C, H]) -> y: f32[C] { y = mean[B, H](x) }",
        {"x": "f32 3 4 5"},
        lambda x: x.double().mean((0, 2)),
        4,
    ),
    Row(
        "op prods(x: f32[M, N, P]) -> y: f32[N] { y = prod[M, P](x) }",
        {"x": "f32 2 3 4"},
        lambda x: x.double().prod(2).prod(0),
    ),
    Row(
        "op least(x: T[M, N]) -> (y: T[M], z: T[N]) { y = min[N](x) z = max[M](x) }",
        {"x": "f16 4 7 special"},
        lambda x: (x.double().amin(1), x.double().amax(0)),
    ),
    Row(
        "op whole(x: i32[M, N]) -> (s: i64[M], p: i64[N], m: i32[M]) { s = sum[N](x) p = prod[M](x) m = max[N](x) }",
        {"x": "i32 3 5 in -2000000000 .. 2000000000"},
        lambda x: (x.long().sum(1), x.long().prod(0), x.long().amax(1)),
    ),
    Row(
        "op bools(x: bool[M, N]) -> (a: bool[M], o: bool[N], s: i64[], m: bool[M]) "
        "{ a = all[N](x) o = any[M](x) s = sum[M, N](x) m = max[N](x) }",
        {"x": "bool 4 3"},
        lambda x: (x.all(1), x.any(0), x.sum(), x.any(1)),
    ),
    Row(
        "op places(x: T[B, M, N]) -> (p: i64[B], q: i64[M]) { p = argmax[M, N](x) q = argmin[B, N](x) }",
        {"x": "f32 2 5 4 special"},
        lambda x: (x.double().flatten(1).argmax(1), x.double().transpose(0, 1).flatten(1).argmin(1)),
    ),
    Row(
        "op turned_places(x: i32[M, N], g: i32[N, M]) -> p: i64[] { p = argmax[M, N](g + x) }",
        {"x": "i32 4 6 in 0 .. 1", "g": "i32 6 4 in 0 .. 1"},
        lambda x, g: (g.T + x).T.flatten().argmax(),
    ),
    Row(
        "op variance(x: T[M, N]) -> y: f32[M] { y = var[N](x) }",
        {"x": "f32 5 40 in 1000 .. 1001"},
        lambda x: x.double().var(1, correction=0),
        0.3,
    ),
    Row(
        "op lse(x: T[M, N]) -> y: f32[M] { y = logsumexp[N](x) }",
        {"x": "f32 5 40 in -200 .. 200"},
        lambda x: torch.logsumexp(x.double(), 1),
    ),
    Row(
        "op sm(x: T[..., C]) -> (y: T[..., C], m: f32[...]) { y = softmax[C](x) m = max[C](x) }",
        {"x": "f16 2 3 9"},
        lambda x: (softmax(x), x.double().amax(-1)),
        1,
    ),
    Row(
        "op first_dim(x: T[C, M]) -> y: T[C, M] { y = softmax[C](x) }",
        {"x": "f32 6 5"},
        lambda x: softmax(x, 0),
        1,
    ),
    Row(
        "op group(x: T[B, C, H, W], g: T[C]) -> y: T[B, C, H, W] "
        "{ y = (x - mean[C, H, W](x)) * rsqrt(var[C, H, W](x) + 1e-5) * g }",
        {"x": "f32 2 3 4 5", "g": "f32 3"},
        lambda x, g: torch.layer_norm(x.double(), (3, 4, 5)) * g[:, None, None].double(),
        20,
    ),
    Row(
        "op leading(x: T[..., C], y: T[..., C]) -> (a: f32[C], b: T[..., C]) "
        "{ a = sum[...](x) b = y * mean[...](x * y) }",
        {"x": "f32 3 4 5", "y": "f32 4 5"},
        lambda x, y: (outer(x, 2).sum(0), (y.double() * outer(x * y, 2).mean(0)).expand(x.shape)),
        60,
    ),
    Row(
        "op leading_too(x: T[..., C]) -> y: f32[...] { y = mean[C](x) - sum[..., C](x) }",
        {"x": "f32 2 3"},
        lambda x: x.double().mean(-1) - x.double().sum(),
        30,
    ),
    Row(
        "op no_leading(x: T[..., C]) -> (y: f32[C], z: i64[]) { y = sum[...](x) z = argmax[..., C](x) }",
        {"x": "f32 4"},
        lambda x: (x.double(), x.argmax()),
    ),
    Row(
        "op scaled(x: T[M, K], s: f32[M, K / 4]) -> (y: f32[M], z: f32[M], a: f32[K]) "
        "{ y = sum[K](x * s) z = sum[K / 4](s) a = max[M](s) }",
        {"x": "f16 3 8", "s": "f32 3 2"},
        lambda x, s: (
            (x.double() * s.double().repeat_interleave(4, 1)).sum(1),
            s.double().sum(1),
            s.double().amax(0).repeat_interleave(4),
        ),
        60,
    ),
    Row(
        "op left_out(x: T[..., M, N], b: T[N] = 2, c: T[..., N] = 3) -> y: f32[..., M] "
        "{ y = sum[N](x) * sum[N](b) + sum[N](c) }",
        {"x": "f32 3 4", "b": "f32 4", "c": "f32 2 4"},
        lambda x, b, c: x.double().sum(1) * b.double().sum() + c.double().sum(1)[:, None],
        300,
    ),
    Row(
        "op meets(x: T[M, N], y: T[N, M]) -> z: T[M, N] { z = x * max[N](y) - max[M](y) }",
        {"x": "f32 3 4", "y": "f32 4 3"},
        lambda x, y: x.double() * y.double().amax(0)[:, None] - y.double().amax(1),
        20,
    ),
    Row(
        "op same_dim(x: T[M, V], t: i64[M]) -> (y: f32[M], z: f32[V]) "
        "{ y = logsumexp[V](x) - x[V: t] z = sum[M](x) * max[M](x) }",
        {"x": "f32 4 6", "t": "i64 4 in 0 .. 5"},
        lambda x, t: (
            torch.logsumexp(x.double(), 1) - x.double()[range(4), t],
            x.double().sum(0) * x.double().amax(0),
        ),
        60,
    ),
    Row(
        "op finer(x: T[K], s: f32[M, K / 4]) -> y: f32[K] { y = x * max[M](s) - sum[K / 4, M](s) }",
        {"x": "f32 8", "s": "f32 3 2"},
        lambda x, s: x.double() * s.double().amax(0).repeat_interleave(4) - s.double().sum(),
        60,
    ),
    Row(
        "op gathers(x: T[M, N]) -> y: T[M] { y = x[N: argmax[N](x)] + cast(index[M], f32) }",
        {"x": "f32 3 9"},
        lambda x: x.double().amax(1) + torch.arange(3),
        8,
    ),
    Row(
        "op centred(x: T[M, N]) -> (y: f32[M, N], v: f32[M]) { c = x - mean[N](x) y = c v = sum[N](c * c) }",
        {"x": "f32 3 9"},
        lambda x: (x - x.double().mean(1, True), ((x - x.double().mean(1, True)) ** 2).sum(1)),
        150,
    ),
)

PRODUCTS = (
    Row(
        "op linear(x: T[..., K], w: T[N, K], b: T[N] = 0) -> y: T[..., N] { y = x @ w + b }",
        {"x": "f16 2 3 17", "w": "f16 5 17"},
        lambda x, w: x.double() @ w.double().T,
        150,
    ),
    Row(
        "op plain(x: T[M, K], w: T[K, N]) -> y: f32[M, N] { y = x @ w }",
        {"x": "f32 4 9", "w": "f32 9 3"},
        lambda x, w: x.double() @ w.double(),
        100,
    ),
    Row(
        "op vector(x: T[M, K], v: T[K]) -> y: f32[M] { y = x @ v }",
        {"x": "f32 4 9", "v": "f32 9"},
        lambda x, v: x.double() @ v.double(),
        100,
    ),
    Row(
        "op dot(x: T[K], v: T[K]) -> y: f32[] { y = x @ v }",
        {"x": "f32 9", "v": "f32 9"},
        lambda x, v: x.double() @ v.double(),
        100,
    ),
    Row(
        "op batched(q: T[B, H, M, D], k: T[B, H, N, D]) -> y: f32[B, H, M, N] { y = q @ k }",
        {"q": "bf16 2 3 4 5", "k": "bf16 2 3 6 5"},
        lambda q, k: q.double() @ k.double().mT,
        80,
    ),
    Row(
        "op batched_leading(q: T[..., M, D], k: T[..., D, N]) -> y: f32[..., M, N] { y = q @ k }",
        {"q": "f32 2 1 4 5", "k": "f32 3 5 6"},
        lambda q, k: q.double() @ k.double(),
        80,
    ),
    Row(
        "op turned(a: T[..., B, M, K], b: T[..., N, K, P, B]) -> y: f32[..., B, M, N, P] { y = a @ b }",
        {"a": "f32 2 3 4 5", "b": "f32 2 6 5 2 3"},
        lambda a, b: torch.einsum("lbmk,lnkpb->lbmnp", a.double(), b.double()),
        80,
    ),
    Row(
        "op right_leading(w: T[N, K], x: T[..., K]) -> y: f32[..., N] { y = w @ x }",
        {"w": "f32 4 5", "x": "f32 2 3 5"},
        lambda w, x: x.double() @ w.double().T,
        80,
    ),
    Row(
        "op last(a: T[B, K], b: T[N, B, K, P]) -> y: f32[B, P, N] { y = a @ b }",
        {"a": "f32 3 5", "b": "f32 4 3 5 2"},
        lambda a, b: torch.einsum("bk,nbkp->bpn", a.double(), b.double()),
        80,
    ),
    Row(
        "op quantised(a: i8[M, K], b: i8[N, K]) -> y: i32[M, N] { y = a @ b }",
        {"a": "i8 3 70 in -128 .. 127", "b": "i8 4 70 in -128 .. 127"},
        lambda a, b: a.long() @ b.long().T,
    ),
    Row(
        "op wraps(a: i32[M, K], b: i32[K, N]) -> y: i32[M, N] { y = a @ b }",
        {"a": "i32 3 5 in -2000000000 .. 2000000000", "b": "i32 5 2 in -2000000000 .. 2000000000"},
        lambda a, b: (a.long() @ b.long()).int(),
    ),
    Row(
        "op longs(a: i64[M, K], b: i64[K, N]) -> y: i64[M, N] { y = a @ b }",
        {"a": "i64 3 5 in -4000000000 .. 4000000000", "b": "i64 5 2 in -4000000 .. 4000000"},
        lambda a, b: (a[:, :, None] * b).sum(1),
    ),
    Row(
        "op doubles(a: f64[M, K], b: f64[K, N]) -> y: f64[M, N] { y = a @ b }",
        {"a": "f64 3 50", "b": "f64 50 2"},
        lambda a, b: a @ b,
        1e-6,
    ),
    Row(
        "op swiglu(x: T[..., K], g: T[N, K], u: T[N, K]) -> y: T[..., N] { y = silu(x @ g) * (x @ u) }",
        {"x": "f32 3 4", "g": "f32 5 4", "u": "f32 5 4"},
        lambda x, g, u: torch.nn.functional.silu(x.double() @ g.double().T) * (x.double() @ u.double().T),
        2000,
    ),
    Row(
        "op attention(q: T[B, M, D], k: T[B, N, D], v: T[B, N, D]) -> o: f32[B, M, D] { o = softmax[N](q @ k) @ v }",
        {"q": "f32 2 3 4 in -1 .. 1", "k": "f32 2 5 4 in -1 .. 1", "v": "f32 2 5 4"},
        lambda q, k, v: softmax(q.double() @ k.double().mT) @ v.double(),
        20,
    ),
    Row(
        "op rounds(x: T[M, N], w: T[N, K]) -> y: f32[M, K] { y = cast(x * 2, f16) @ cast(w, f16) }",
        {"x": "f32 3 4 in 0 .. 2", "w": "f32 4 2 in 0 .. 2"},
        lambda x, w: (x.double() * 2).half().double() @ w.half().double(),
        60,
    ),
    Row(
        "op blocks(x: T[M, K], w: i8[N, K], s: f32[N, K / 4]) -> y: f32[M, N] { y = x @ (w * s) }",
        {"x": "f32 3 8", "w": "i8 5 8", "s": "f32 5 2"},
        lambda x, w, s: x.double() @ (w.double() * s.double().repeat_interleave(4, 1)).T,
        50000,
    ),
    Row(
        "op of_means(x: T[M, H, K], w: T[N, K]) -> y: f32[M, N] { y = mean[H](x) @ w }",
        {"x": "f32 3 2 5", "w": "f32 4 5"},
        lambda x, w: x.double().mean(1) @ w.double().T,
        80,
    ),
)


References = Callable[[str], Callable[..., Any]]


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> References:
    spec = "\n".join(row.spec for row in (*REDUCTIONS, *PRODUCTS))
    return build_references(spec, tmp_path_factory.mktemp("references"))


def compare(row: Row, results: Any, expected: Any) -> None:
    results = results if isinstance(results, tuple) else (results,)
    expected = expected if isinstance(expected, tuple) else (expected,)
    for result, wanted in zip(results, expected, strict=True):
        assert result.is_contiguous()
        if result.dtype.is_floating_point:
            magnitude = None if row.magnitude is None else torch.full(result.shape, row.magnitude, dtype=F64)
            assert_close(result, wanted.double(), magnitude=magnitude)
        else:
            assert torch.equal(result, wanted.to(result.dtype)), (result, wanted)


@pytest.mark.parametrize("layout", ["contiguous", "transposed", "sliced"])
@pytest.mark.parametrize("row", [*REDUCTIONS, *PRODUCTS], ids=lambda row: row.name)
def test_references(row: Row, layout: str, reference: References) -> None:
    generator = torch.Generator().manual_seed(11)
    inputs = {name: drawn(words, generator) for name, words in row.inputs.items()}
    given = {name: LAYOUTS[layout](value) for name, value in inputs.items()}
    compare(row, reference(row.name)(**given), row.expected(**inputs))


def test_left_out_tensors_are_reduced_in_their_full_shape(reference: References) -> None:
    x = torch.tensor([[1.0], [2.0]]).expand(2, 5)
    y = reference("left_out")
    assert y(x, None, torch.ones(2, 5)).tolist() == [[55.0, 105.0]] * 2
    assert y(x, torch.ones(5), None).tolist() == [40.0, 65.0]


INF, NAN = float("inf"), float("nan")


@pytest.mark.parametrize(
    ("values", "lse", "largest", "mean"),
    [
        ((-INF, -INF), -INF, -INF, -INF),
        ((INF, INF), INF, INF, INF),
        ((INF, -INF), INF, INF, NAN),
        ((1.0, NAN), NAN, NAN, NAN),
        ((1e38, -3e38), 1e38, 1e38, -1e38),
        ((1e4, 1e4), 1e4 + 0.6931472, 1e4, 1e4),
    ],
)
def test_special_rows(
    values: tuple[float, ...], lse: float, largest: float, mean: float, reference: References
) -> None:
    x = torch.tensor([values])
    for name, expected in (("lse", lse), ("means", mean)):
        given = x if name == "lse" else x[..., None].mT
        assert_close(reference(name)(given), torch.tensor([expected], dtype=F64))
    assert_close(reference("sm")(x)[1], torch.tensor([largest], dtype=F64))


EMPTY = {
    "rsum": ((2, 0), 0.0),
    "means": ((0, 1, 3), NAN),
    "prods": ((2, 1, 0), 1.0),
    "lse": ((2, 0), -INF),
    "variance": ((2, 0), NAN),
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", EMPTY)
def test_reductions_over_nothing(name: str, reference: References) -> None:
    shape, expected = EMPTY[name]
    result = reference(name)(torch.ones(shape))
    assert_close(result, torch.full(result.shape, expected, dtype=F64))


@pytest.mark.parametrize(
    ("name", "shapes", "message"),
    [
        ("least", [(2, 0)], "least: `min` over N has no value, because N is 0"),
        ("least", [(0, 2)], "least: `max` over M has no value, because M is 0"),
        ("places", [(2, 0, 3)], "places: `argmax` over M has no value, because M is 0"),
        ("sm", [(2, 0)], "sm: `max` over C has no value, because C is 0"),
        ("no_leading", [(0, 3)], r"no_leading: `argmax` over \.\.\. has no value, because \.\.\. is 0"),
        ("attention", [(1, 2, 3), (1, 0, 3), (1, 0, 3)], "attention: `max` over N has no value"),
    ],
)
def test_extremes_of_nothing_are_refused(
    name: str, shapes: list[tuple[int, ...]], message: str, reference: References
) -> None:
    with pytest.raises(ValueError, match=message):
        reference(name)(*(torch.ones(shape) for shape in shapes))


def test_extremes_that_no_element_needs_are_not_computed(reference: References) -> None:
    assert reference("first_dim")(torch.ones(0, 3)).shape == (0, 3)
    assert [one.shape for one in reference("least")(torch.ones(0, 0))] == [(0,), (0,)]
    assert [one.shape for one in reference("places")(torch.ones(0, 0, 0))] == [(0,), (0,)]
    assert reference("attention")(*[torch.ones(0, 0, 4)] * 3).shape == (0, 0, 4)


def test_a_product_over_nothing_gives_the_epilogue_of_zeros(reference: References) -> None:
    y = reference("linear")(torch.ones(2, 0), torch.ones(3, 0), torch.arange(3.0))
    assert y.tolist() == [[0.0, 1.0, 2.0]] * 2
    assert reference("turned")(torch.ones(1, 2, 3, 0), torch.ones(1, 4, 0, 5, 2)).eq(0).all()
    assert reference("linear")(torch.ones(0, 4), torch.ones(3, 4), None).shape == (0, 3)


def test_precision_switches_change_nothing(reference: References) -> None:
    x, w = torch.randn(20, 300), torch.randn(10, 300)
    default = torch.get_float32_matmul_precision()
    expected = reference("linear")(x, w, None)
    try:
        torch.set_float32_matmul_precision("medium")
        assert torch.equal(reference("linear")(x, w, None), expected)
    finally:
        torch.set_float32_matmul_precision(default)
    assert_close(expected, x.double() @ w.double().T)


SHAPES = (
    ((3,), (3,)),
    ((4, 3), (3,)),
    ((3,), (3, 2)),
    ((4, 3), (3, 2)),
    ((5, 1, 4, 3), (2, 3, 2)),
    ((2, 0), (0, 3)),
)


@pytest.mark.parametrize(("left", "right"), SHAPES)
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_outer_products_add_up_to_integer_products(
    left: tuple[int, ...], right: tuple[int, ...], dtype: torch.dtype, reference: References
) -> None:
    """What references do on GPUs, for which PyTorch has no integer product."""
    products = importlib.import_module(reference("longs").__module__.rpartition(".")[0] + "._eager_products")
    limits = torch.iinfo(dtype)
    a, b = (torch.randint(limits.min, limits.max, shape, dtype=dtype) for shape in (left, right))
    assert torch.equal(products._sum_of_outer_products(a, b), torch.matmul(a, b))
