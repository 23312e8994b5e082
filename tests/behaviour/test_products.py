"""Matrix products against f64: sizes at edges of tiles, layouts, all forms and strategies, over results of NaN."""

from __future__ import annotations

import itertools
import os
import random
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - its usual name
from torch import Tensor

from opgen.plan.model import BEYOND, ProductBand, ProductConfig
from tests.behaviour.building import build_package
from tests.behaviour.closeness import assert_close

SPECS = """
op linear(x: T[..., K], w: T[N, K], b: T[N] = 0) -> y: T[..., N] { y = silu(x @ w + b) }
op plain(x: T[..., K], w: T[K, N]) -> y: T[..., N] { y = x @ w }
op gated(x: T[..., K], wg: T[N, K], wu: T[N, K]) -> y: T[..., N] { y = silu(x @ wg) * (x @ wu) }
op batched(q: T[..., M, K], k: T[..., N, K]) -> s: T[..., M, N] { s = where(index[N] <= index[M], q @ k, -inf) }
op vector(w: T[N, K], x: T[K]) -> y: T[N] { y = w @ x }
op dot(a: T[K], b: T[K]) -> y: T[] { y = a @ b }
op outer(a: T[M, K], b: T[N, K]) -> (y: T[M, N], t: f32[N, M]) { y = a @ b  t = y * 2.0 }
op prologue(x: T[M, K], s: T[K], w: T[N, K]) -> y: T[M, N] { y = cast(exp(x * s), T) @ w }
op heads(x: T[..., K], w: T[H, D, K]) -> y: T[..., H, D] { y = x @ w }
op mixed(a: i8[M, K], b: i8[N, K], c: f16[M, K], d: f16[N, K]) -> y: f32[M, N] { y = (a @ b) * (c @ d) }
op widths(a: T[M, K], b: T[N, K], c: S[M, K], d: S[N, K]) -> y: f32[M, N]
  for T in {bf16, f32}, S in {f16, f64} { y = (a @ b) - (c @ d) }
"""
SIZES = (0, 1, 2, 7, 15, 16, 17, 33, 64, 65, 130)
SEED = 20261129
#: How many triples of sizes are tried; all are 1331.
COUNT = int(os.environ.get("OPGEN_PRODUCT_SIZES", "10"))
#: Whether each triple is tried with every type, and every config that the table of sm_90 has; hours in the interpreter.
EVERY_CONFIG = os.environ.get("OPGEN_PRODUCT_CONFIGS") == "all"
#: The tile, and what else a config says: every form and strategy, smaller than the sizes.
CONFIGS: tuple[tuple[tuple[int, int, int], dict[str, Any]], ...] = (
    ((16, 16, 16), {}),
    ((32, 16, 32), {"group": 2}),
    ((16, 32, 16), {"form": "swapped"}),
    ((16, 32, 16), {"split": 3}),
    ((16, 16, 32), {"form": "swapped", "split": 2}),
    ((1, 16, 32), {"form": "vector"}),
    ((1, 4, 64), {"form": "vector", "split": 2}),
    ((16, 16, 1), {"form": "outer"}),
    ((16, 16, 16), {"strategy": "descriptors"}),
    ((16, 32, 32), {"strategy": "descriptors", "halves": True}),
    ((16, 32, 16), {"strategy": "descriptors", "form": "swapped"}),
    ((16, 16, 16), {"strategy": "library"}),
)
DTYPES = (torch.float16, torch.bfloat16, torch.float32)


@pytest.fixture(scope="module")
def ops(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    return build_package(SPECS, tmp_path_factory.mktemp("products"))


def module(ops: ModuleType, name: str) -> ModuleType:
    return __import__(f"{ops.__name__}.{name}", fromlist=["_ENTRY"])


def configs(of: ModuleType) -> Iterator[Any]:
    """No config, which takes that of the table, and each of `CONFIGS`."""
    yield None
    for tile, further in CONFIGS:
        yield of.rt.ProductConfig(tile, warps=4, stages=2, **further)


def emitted(of: ModuleType, dtype: torch.dtype) -> list[Any]:
    """The different configs of a module's own table for sm_90."""
    bands = of._CONFIGS["sm_90"]["f32" if dtype is torch.float32 else "half"]
    return list(dict.fromkeys(one for band in bands for one in band.configs))


def randn(*shape: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    return torch.randn(shape).to(device, dtype)


def run(
    of: ModuleType, config: Any, shapes: list[tuple[tuple[int, ...], torch.dtype]], **tensors: Tensor
) -> Any:
    """The op's results, written over NaN."""
    device = next(one.device for one in tensors.values() if one is not None)
    out = tuple(torch.full(shape, torch.nan, dtype=dtype, device=device) for shape, dtype in shapes)
    of._ENTRY.run(tensors, out=out if len(out) > 1 else out[0], config=config)
    return out if len(out) > 1 else out[0]


def check(got: Tensor, want: Tensor, depth: int, magnitude: Tensor | None = None) -> None:
    """Sums of `depth` products in f32, each term of a size near `magnitude`."""
    scale = want.abs() + 1 if magnitude is None else magnitude + 1
    assert_close(got, want, ulps=8.0 + depth, magnitude=scale)


def triples() -> list[tuple[int, int, int]]:
    drawn = list(itertools.product(SIZES, SIZES, SIZES))
    random.Random(SEED).shuffle(drawn)
    return drawn


@pytest.mark.parametrize("size", triples()[:COUNT], ids=str)
def test_sizes_at_the_edges_of_tiles(
    size: tuple[int, int, int], ops: ModuleType, device: torch.device
) -> None:
    """Each size with the table's own config, and with one of the others in turn; or with every one."""
    (m, n, k), number = size, triples().index(size)
    of = module(ops, "linear")
    for dtype in DTYPES if EVERY_CONFIG else (DTYPES[number % 3],):
        x, w, b = (randn(*shape, dtype=dtype, device=device) for shape in ((m, k), (n, k), (n,)))
        want = F.silu(F.linear(x.double(), w.double(), b.double()))
        magnitude = x.double().abs() @ w.double().abs().T + b.double().abs()
        known = list(configs(of))
        turns = [*known, *emitted(of, dtype)] if EVERY_CONFIG else [None, known[1 + number % len(CONFIGS)]]
        for config in turns:
            check(run(of, config, [((m, n), dtype)], x=x, w=w, b=b), want, k, magnitude)


@pytest.mark.parametrize("number", range(len(CONFIGS) + 1))
def test_every_config_at_uneven_sizes(number: int, ops: ModuleType, device: torch.device) -> None:
    of = module(ops, "linear")
    config, dtype = list(configs(of))[number], DTYPES[number % 3]
    for m, n, k in ((17, 33, 40), (1, 35, 33)):
        x, w = randn(m, k, dtype=dtype, device=device), randn(n, k, dtype=dtype, device=device)
        want = F.silu(x.double() @ w.double().T)
        check(
            run(of, config, [((m, n), dtype)], x=x, w=w, b=None),
            want,
            k,
            x.double().abs() @ w.double().abs().T,
        )


def views(dtype: torch.dtype, device: torch.device) -> Iterator[tuple[str, Tensor, Tensor]]:
    """Operands [18, 40] and [36, 40] in one layout after another."""
    x, w = randn(18, 40, dtype=dtype, device=device), randn(36, 40, dtype=dtype, device=device)
    yield "contiguous", x, w
    yield "transposed", x.t().contiguous().t(), w.t().contiguous().t()
    yield "stepped", randn(36, 83, dtype=dtype, device=device)[::2, 1:80:2], w
    yield "sliced", randn(20, 48, dtype=dtype, device=device)[1:19, 8:48], w[:, :40]
    yield "expanded rows", x[:1].expand(18, 40), w
    yield "expanded columns", x, w[:, :1].expand(36, 40)
    yield "offset", randn(18 * 40 + 3, dtype=dtype, device=device)[3:].view(18, 40), w


@pytest.mark.parametrize("number", range(len(CONFIGS) + 1))
def test_layouts(number: int, ops: ModuleType, device: torch.device) -> None:
    of = module(ops, "linear")
    config, dtype = list(configs(of))[number], DTYPES[(number + 1) % 3]
    known = list(views(dtype, device))
    for at in (number, number + 3):  # two for each config, so that together they have all
        _, x, w = known[at % len(known)]
        want = F.silu(x.double() @ w.double().T)
        check(
            run(of, config, [((18, 36), dtype)], x=x, w=w, b=None),
            want,
            40,
            x.double().abs() @ w.double().abs().T,
        )


@pytest.mark.parametrize("number", range(len(CONFIGS) + 1))
def test_gated_products_share_their_tile(number: int, ops: ModuleType, device: torch.device) -> None:
    """The two weights in either order in memory: one descriptor spans both, but where they are the same tensor."""
    of = module(ops, "gated")
    config = list(configs(of))[number]
    memory = randn(3 * 40 * 32, dtype=torch.float16, device=device)
    low, high = memory[: 40 * 32].view(40, 32), memory[2 * 40 * 32 :].view(40, 32)
    x = randn(18, 32, dtype=torch.float16, device=device)
    spans = config is not None and config.strategy == "descriptors"
    for gate, up in ((low, high), (high, low), (low, low)) if spans else ((low, high),):
        a, b = x.double() @ gate.double().T, x.double() @ up.double().T
        got = run(of, config, [((18, 40), torch.float16)], x=x, wg=gate, wu=up)
        check(got, F.silu(a) * b, 64, (1 + a.abs() + 32) * (1 + b.abs() + 32))


@pytest.mark.parametrize("number", [0, 2, 5])
def test_products_of_different_types(number: int, ops: ModuleType, device: torch.device) -> None:
    """Whole numbers, whose sums and products are exact in every type."""
    pairs = ((torch.int8, torch.float16), (torch.bfloat16, torch.float16), (torch.bfloat16, torch.float64))
    for first, second in pairs:
        of = module(ops, "mixed" if first is torch.int8 else "widths")
        a, b = (torch.randint(-9, 10, (rows, 34)).to(device, first) for rows in (18, 20))
        c, d = (torch.randint(-9, 10, (rows, 34)).to(device, second) for rows in (18, 20))
        got = run(of, list(configs(of))[number], [((18, 20), torch.float32)], a=a, b=b, c=c, d=d)
        left, right = a.double() @ b.double().T, c.double() @ d.double().T
        assert torch.equal(got.double(), left * right if first is torch.int8 else left - right)


@pytest.mark.parametrize("number", range(len(CONFIGS) + 1))
def test_batches_are_masked_and_broadcast(number: int, ops: ModuleType, device: torch.device) -> None:
    of = module(ops, "batched")
    config = list(configs(of))[number]
    q, k = (randn(*shape, dtype=torch.float16, device=device) for shape in ((2, 3, 19, 24), (3, 21, 24)))
    sums = q.double() @ k.double().transpose(-1, -2)
    allowed = torch.arange(21, device=device) <= torch.arange(19, device=device)[:, None]
    want = torch.where(allowed, sums, -torch.inf)
    check(run(of, config, [((2, 3, 19, 21), torch.float16)], q=q, k=k), want, 24, sums.abs() + 24)


def test_leading_dims_in_any_order(ops: ModuleType, device: torch.device) -> None:
    """Three leading dims that do not merge, and four, which are read from copies."""
    of = module(ops, "linear")
    w = randn(20, 24, dtype=torch.float32, device=device)
    for x in (
        randn(3, 2, 5, 24, dtype=torch.float32, device=device).permute(1, 2, 0, 3),
        randn(2, 3, 2, 2, 2, 24, dtype=torch.float32, device=device).permute(3, 1, 4, 0, 2, 5)[
            ..., ::2, :, :
        ],
        randn(24, dtype=torch.float32, device=device),
    ):
        check(of.linear(x, w), F.silu(x.double() @ w.double().T), 24, torch.tensor(64.0))


def test_vectors_and_heads(ops: ModuleType, device: torch.device) -> None:
    w, v = randn(35, 70, dtype=torch.float32, device=device), randn(70, dtype=torch.float32, device=device)
    check(ops.vector(w, v), w.double() @ v.double(), 70, torch.tensor(70.0))
    check(ops.dot(v, w[0]), v.double() @ w[0].double(), 70, torch.tensor(70.0))
    x, by_head = (
        randn(2, 5, 24, dtype=torch.float16, device=device),
        randn(3, 7, 24, dtype=torch.float16, device=device),
    )
    want = torch.einsum("abk,hdk->abhd", x.double(), by_head.double())
    check(ops.heads(x, by_head), want, 24, torch.tensor(24.0))


def test_several_results_of_other_layouts(ops: ModuleType, device: torch.device) -> None:
    a, b = (
        randn(18, 40, dtype=torch.float16, device=device),
        randn(33, 40, dtype=torch.float16, device=device),
    )
    y, t = ops.outer(a, b)
    want = a.double() @ b.double().T
    check(y, want, 40, want.abs() + 40)
    check(t, 2 * want.T, 40, 2 * want.T.abs() + 80)


def test_prologue_is_masked_along_the_sum(ops: ModuleType, device: torch.device) -> None:
    """exp(0) is not zero: what lies behind the end of the sum must not count."""
    x, s, w = (randn(*shape, dtype=torch.float32, device=device) for shape in ((18, 37), (37,), (20, 37)))
    left = torch.exp(x.double() * s.double())
    check(ops.prologue(x, s, w), left @ w.double().T, 37, left @ w.double().abs().T)


def test_sum_over_nothing_gives_the_epilogue_of_zeros(ops: ModuleType, device: torch.device) -> None:
    x, w = torch.empty(3, 0, device=device), torch.empty(4, 0, device=device)
    b = torch.tensor([1.0, -2.0, 0.0, 4.0], device=device)
    assert torch.allclose(ops.linear(x, w, b), F.silu(b).expand(3, 4))
    assert torch.equal(ops.plain(x, w.t()), torch.zeros(3, 4, device=device))
    assert ops.linear(torch.empty(0, 5, device=device), torch.ones(4, 5, device=device)).shape == (0, 4)


def test_f32_is_multiplied_in_full(ops: ModuleType, device: torch.device) -> None:
    """Products that tf32 would round: 1 + 2^-20 keeps its last bit."""
    x = torch.full((16, 16), 1 + 2.0**-20, device=device)
    w = torch.eye(16, device=device)
    assert torch.equal(ops.plain(x, w), x)


def test_no_value_stands_outside_what_is_read(ops: ModuleType, device: torch.device) -> None:
    """NaN behind the last valid k, m and n of each operand's memory."""
    of = module(ops, "plain")
    for config in list(configs(of))[1::2]:
        x = torch.full((40, 64), torch.nan, device=device)
        w = torch.full((64, 64), torch.nan, device=device)
        x[:18, :37], w[:37, :33] = (
            randn(18, 37, dtype=torch.float32, device=device),
            randn(37, 33, dtype=torch.float32, device=device),
        )
        got = run(of, config, [((18, 33), torch.float32)], x=x[:18, :37], w=w[:37, :33])
        check(got, x[:18, :37].double() @ w[:37, :33].double(), 37, torch.tensor(64.0))


def test_splits_give_the_same_bits_twice(ops: ModuleType, device: torch.device) -> None:
    of = module(ops, "linear")
    x, w = (
        randn(17, 130, dtype=torch.float32, device=device),
        randn(33, 130, dtype=torch.float32, device=device),
    )
    config = of.rt.ProductConfig((16, 32, 16), warps=4, stages=2, split=4)
    first, second = (of._ENTRY.run({"x": x, "w": w, "b": None}, config=config) for _ in range(2))
    assert torch.equal(first, second)


def test_a_band_serves_every_size_in_it_with_one_kernel(ops: ModuleType) -> None:
    """Calls of other sizes in a band differ in numbers alone that compile nothing."""
    of = module(ops, "linear")
    kernel = of._ENTRY.variants[0].kernels[0]
    seen: set[str] = set()
    for m in range(1025, 1225):
        x, w = (torch.empty(shape, dtype=torch.float16, device="meta") for shape in ((m, 512), (4096, 512)))
        tensors = {"x": x, "w": w, "b": None}
        bound = of.rt.bind(of._OPERATOR, (x, w, None), {})
        layouts = {**tensors, "y": torch.empty((m, 4096), dtype=torch.float16, device="meta")}
        figures = kernel.prepare(bound, layouts, None)
        seen.add(repr((figures.constants, figures.layouts, sorted(figures.persistent.items()))))
    assert len(seen) == 1


def planned(
    ops: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    m: int,
    n: int,
    k: int,
    dtype: torch.dtype,
    op: str = "linear",
) -> Any:
    """The figures of a call on a GPU of sm_90 with 132 multiprocessors."""
    of = module(ops, op)
    products = sys.modules[f"{ops.__name__}._products"]
    monkeypatch.setattr(products, "multiprocessors_of", lambda device: 132)
    monkeypatch.setattr(products, "for_target", lambda configs, device: configs["sm_90"])
    x, w, y = (torch.empty(shape, dtype=dtype, device="meta") for shape in ((m, k), (n, k), (m, n)))
    tensors = {"x": x, "w": w, "b": None} if op == "linear" else {"x": x, "wg": w, "wu": w}
    bound = of.rt.bind(of._OPERATOR, tuple(tensors.values()), {})
    return of._ENTRY.variants[0].kernels[0].prepare(bound, {**tensors, "y": y}, None)


@pytest.mark.parametrize(
    ("m", "n", "k", "is_left"),
    [
        (512, 11008, 4096, True),  # 172 tiles of 128 x 256: 35 % of two waves idle
        (512, 14336, 4096, False),  # 224 tiles: 15 %
        (512, 11008, 512, False),  # the sums' way through memory would take longer
        (200, 2064, 512, False),  # so would the start of further kernels
        (1536, 1344, 6272, False),  # 132 tiles of 128 x 128
        (1600, 1344, 6272, True),  # 143 of them, or 78 of 128 x 256
    ],
)
def test_waves_that_idle_are_left_to_the_vendor(
    m: int, n: int, k: int, is_left: bool, ops: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    figures = planned(ops, monkeypatch, m, n, k, torch.bfloat16)
    assert bool(figures.matrices) == is_left


def test_every_band_has_the_same_rivals(ops: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bucket of sizes may lie in two bands, and keeps the place of the fastest among them."""
    monkeypatch.setattr(sys.modules[f"{ops.__name__}._products"], "tunes", lambda device: True)
    drawn = ((100, 4096), (300, 4096), (300, 11008), (5000, 11008))
    found = [planned(ops, monkeypatch, m, n, 512, torch.bfloat16).rivals for m, n in drawn]
    assert len({tuple(one.config for one in rivals) for rivals in found}) == 1
    assert sum(bool(one.matrices) for one in found[0]) == 1


@pytest.mark.parametrize(
    ("k", "dtype", "op", "is_left"),
    [
        (4096, torch.bfloat16, "linear", True),
        (2048, torch.bfloat16, "linear", False),  # the sums' way through memory would take longer
        (4096, torch.float16, "linear", False),  # a switch that is set later may change its sums
        (4096, torch.bfloat16, "gated", False),  # two sums would be stacked
    ],
)
def test_traced_products_are_left_to_the_vendor(
    k: int, dtype: torch.dtype, op: str, is_left: bool, ops: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They have no descriptors."""
    monkeypatch.setattr(sys.modules[f"{ops.__name__}._products"], "is_traced", lambda: True)
    assert bool(planned(ops, monkeypatch, 4096, 4096, k, dtype, op).matrices) == is_left


@pytest.mark.parametrize("narrow", [False, True])
def test_the_plan_and_the_runtime_choose_the_same(narrow: bool, ops: ModuleType) -> None:
    rt = module(ops, "linear").rt
    how = f"dot descriptors halves{' narrow' * narrow}"
    own = rt.band(512, rt.BEYOND, how, (128, 256, 64), 8, 4, 4, idle=824)
    half = ProductConfig((128, 128, 64), 8, 5) if narrow else None
    config = ProductConfig((128, 256, 64), 8, 4)
    plan = ProductBand(512, BEYOND, (512, 4096, 4096), ((config, 1.0),), 824, narrow=half)
    drawn = random.Random(SEED)
    sizes = [(drawn.randint(1, 3), *(drawn.randint(1, 9000) for _ in "mnk"), 132) for _ in range(500)]
    found = [own.idles(*one) for one in sizes]
    assert found == [plan.is_better_left(*one) for one in sizes]
    assert len(set(found)) == 2
    taken, planned = (
        [chosen.fitting(b, m, n, count) for b, m, n, _, count in sizes] for chosen in (own, plan)
    )
    tiles = [(config.tile, cost) for config, cost in taken]
    assert tiles == [(config.tile, cost) for config, cost in planned]
    assert len({tile for tile, _ in tiles}) == 1 + narrow


def test_narrow_tiles_are_taken_where_they_fill_waves(ops: ModuleType) -> None:
    """On 132 multiprocessors 8 x 56 tiles come to 4 waves, of which the last is short; 8 x 112 to 7."""
    rt = module(ops, "linear").rt
    own = rt.band(1024, rt.BEYOND, "dot descriptors halves narrow", (128, 256, 64), 8, 4, 4)
    assert own.fitting(1, 1024, 14336, 132)[0].tile == (128, 128, 64)
    assert own.fitting(1, 1024, 12544, 132)[0].tile == (128, 256, 64)
    assert own.own[1].stages == 5
    assert not own.own[1].halves


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_autocast_does_not_reach_the_vendors_product(
    dtype: torch.dtype, ops: ModuleType, device: torch.device
) -> None:
    of = module(ops, "linear")
    x, w = (randn(rows, 70, dtype=dtype, device=device) for rows in (40, 33))
    other = torch.float16 if dtype is torch.bfloat16 and device.type == "cuda" else torch.bfloat16
    for config in (None, of.rt.ProductConfig((16, 32, 16), warps=4, stages=2, strategy="library")):
        plain = of._ENTRY.run({"x": x, "w": w, "b": None}, config=config)
        with torch.autocast(device.type, other):
            got = of._ENTRY.run({"x": x, "w": w, "b": None}, config=config)
        assert got.dtype == dtype
        assert torch.equal(got, plain)


def test_settings_that_keep_products_from_the_vendor(
    ops: ModuleType, monkeypatch: pytest.MonkeyPatch, device: torch.device
) -> None:
    """Sums of halves in f16 would lose bits; and cuBLAS has no deterministic products without a setting of its own."""
    of = module(ops, "linear")
    x, w = (randn(rows, 70, dtype=torch.float16, device=device) for rows in (40, 33))
    config = of.rt.ProductConfig((16, 32, 16), warps=4, stages=2, strategy="library")
    multiplied: list[Any] = []
    products = sys.modules[f"{ops.__name__}._products"]
    vendor = products.library_product

    def watched(*arguments: Any, **keywords: Any) -> Any:
        multiplied.append(arguments)
        return vendor(*arguments, **keywords)

    monkeypatch.setattr(products, "library_product", watched)
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)

    def uses_vendor() -> bool:
        multiplied.clear()
        of._ENTRY.run({"x": x, "w": w, "b": None}, config=config)
        return bool(multiplied)

    assert uses_vendor()
    torch.backends.cuda.matmul.allow_fp16_accumulation = True
    try:
        assert not uses_vendor()
    finally:
        torch.backends.cuda.matmul.allow_fp16_accumulation = False
    torch.use_deterministic_algorithms(True)
    try:
        assert not uses_vendor()
        assert not planned(ops, monkeypatch, 512, 11008, 4096, torch.bfloat16).matrices
        monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        assert uses_vendor()
    finally:
        torch.use_deterministic_algorithms(False)


def test_more_than_32_bits(ops: ModuleType) -> None:
    """Tensors whose strides reach past 2^31 are addressed with 64 bits, others with 32."""
    of = module(ops, "linear")
    kernel = of._ENTRY.variants[0].kernels[0]

    def wide(rows: int, stride: int) -> bool:
        x = torch.empty_strided((rows, 64), (stride, 1), dtype=torch.float16, device="meta")
        w = torch.empty((32, 64), dtype=torch.float16, device="meta")
        bound = of.rt.bind(of._OPERATOR, (x, w, None), {})
        layouts = {
            "x": x,
            "w": w,
            "b": None,
            "y": torch.empty((rows, 32), dtype=torch.float16, device="meta"),
        }
        return bool(kernel.prepare(bound, layouts, None).constants["WIDE"])

    assert not wide(2**15, 2**15)
    assert wide(2**15, 2**17)
    assert wide(2**27, 64)


def test_a_wide_stride_is_read_where_it_is(ops: ModuleType, device: torch.device) -> None:
    """The last row lies 2^31 elements behind the first."""
    storage = torch.empty(0, dtype=torch.float16, device=device).untyped_storage()
    try:
        storage.resize_(2 * (2**31 + 64))
    except RuntimeError:
        pytest.skip("no room for 4 GiB of untouched memory")
    x = torch.empty(0, dtype=torch.float16, device=device).set_(storage, 0, (2, 32), (2**31 + 16, 1))
    x.copy_(randn(2, 32, dtype=torch.float16, device=device))
    w = randn(16, 32, dtype=torch.float16, device=device)
    check(ops.linear(x, w), F.silu(x.double() @ w.double().T), 32, torch.tensor(32.0))
