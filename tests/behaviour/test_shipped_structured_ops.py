"""The shipped ops with named dims, gathers, masks or random numbers, against oracles written by hand."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from tests.behaviour import shipped
from tests.behaviour.closeness import assert_close
from tests.behaviour.layouts import LAYOUTS
from tests.behaviour.shipped import HALVES_AND_SINGLE, draw, public

every_dtype = pytest.mark.parametrize("dtype", HALVES_AND_SINGLE, ids=str)
every_layout = pytest.mark.parametrize("layout", LAYOUTS)


@every_dtype
@every_layout
def test_bias_gelu_residual(
    dtype: torch.dtype, layout: str, device: torch.device, generator: torch.Generator
) -> None:
    x, residual = (LAYOUTS[layout](draw((2, 3, 5, 7), dtype, generator).to(device)) for _ in range(2))
    bias = LAYOUTS[layout](draw((7,), dtype, generator).to(device))
    expected, magnitude = shipped.bias_gelu_residual(*(t.cpu().double() for t in (x, bias, residual)))
    assert_close(public("bias_gelu_residual")(x, bias, residual), expected, magnitude=magnitude)


@pytest.mark.parametrize(
    "shapes", [((7,), (3, 7)), ((4, 1, 7), (3, 7)), ((0, 7), (0, 7)), ((5, 0), (5, 0))], ids=str
)
def test_bias_gelu_residual_broadcasts_leading_dims(
    shapes: tuple[tuple[int, ...], tuple[int, ...]],
    device: torch.device,
    generator: torch.Generator,
) -> None:
    x, residual = (draw(shape, torch.float16, generator).to(device) for shape in shapes)
    bias = draw(x.shape[-1:], torch.float16, generator).to(device)
    expected, magnitude = shipped.bias_gelu_residual(*(t.cpu().double() for t in (x, bias, residual)))
    assert_close(public("bias_gelu_residual")(x, bias, residual), expected, magnitude=magnitude)


def test_bias_gelu_residual_names_the_dim_that_differs(device: torch.device) -> None:
    x, bias = torch.zeros(2, 8, device=device), torch.zeros(1, device=device)  # named dims do not stretch
    with pytest.raises(ValueError, match=r"bias_gelu_residual.*N.*8.*1"):
        public("bias_gelu_residual")(x, bias, x)


every_rotation = pytest.mark.parametrize(
    ("name", "expected_by", "divisor"),
    [("rope", shipped.rope, 1), ("rope_interleaved", shipped.rope_interleaved, 2)],
    ids=["rope", "rope_interleaved"],
)


@every_rotation
@pytest.mark.parametrize("tables", HALVES_AND_SINGLE, ids=str)
@every_dtype
@pytest.mark.parametrize("layout", ["contiguous", "transposed", "swapped", "sliced", "stepped", "expanded"])
def test_rotary_embeddings(
    name: str,
    expected_by: Callable[..., tuple[Tensor, Tensor]],
    divisor: int,
    tables: torch.dtype,
    dtype: torch.dtype,
    layout: str,
    device: torch.device,
    generator: torch.Generator,
) -> None:
    x = LAYOUTS[layout](draw((2, 5, 3, 8), dtype, generator).to(device))
    cos, sin = (draw((5, 8 // divisor), tables, generator, 1.0).to(device) for _ in range(2))
    cos, sin = LAYOUTS[layout](cos), LAYOUTS["sliced" if layout == "contiguous" else "contiguous"](sin)
    expected, magnitude = expected_by(*(t.cpu().double() for t in (x, cos, sin)))
    actual = public(name)(x, cos, sin)
    assert actual.dtype == dtype
    assert_close(actual, expected, magnitude=magnitude)


@every_rotation
@pytest.mark.parametrize(
    "leading", [((), ()), ((2,), (1,)), ((2,), (2,)), ((3, 2), (2,)), ((0,), ())], ids=str
)
def test_rotary_tables_broadcast_over_the_batch(
    name: str,
    expected_by: Callable[..., tuple[Tensor, Tensor]],
    divisor: int,
    leading: tuple[tuple[int, ...], tuple[int, ...]],
    device: torch.device,
    generator: torch.Generator,
) -> None:
    x = draw((*leading[0], 4, 3, 6), torch.bfloat16, generator).to(device)
    cos, sin = (
        draw((*leading[1], 4, 6 // divisor), torch.float32, generator, 1.0).to(device) for _ in range(2)
    )
    expected, magnitude = expected_by(*(t.cpu().double() for t in (x, cos, sin)))
    assert_close(public(name)(x, cos, sin), expected, magnitude=magnitude)


@pytest.mark.parametrize(("name", "divisor"), [("rope", 1), ("rope_interleaved", 2)])
def test_rotary_embeddings_take_heads_first_through_a_view(
    name: str, divisor: int, device: torch.device, generator: torch.Generator
) -> None:
    heads_first = draw((2, 3, 5, 8), torch.float32, generator).to(device)  # [B, H, S, D]
    cos, sin = (draw((5, 8 // divisor), torch.float32, generator, 1.0).to(device) for _ in range(2))
    viewed = public(name)(heads_first.transpose(1, 2), cos, sin)
    copied = public(name)(heads_first.transpose(1, 2).contiguous(), cos, sin)
    torch.testing.assert_close(
        viewed, copied, rtol=0, atol=1e-6
    )  # the compiler may fuse other products into sums
    assert viewed.transpose(1, 2).is_contiguous()


@pytest.mark.parametrize("name", ["rope", "rope_interleaved"])
def test_rotary_embeddings_need_an_even_dim(name: str, device: torch.device) -> None:
    x = torch.zeros(4, 3, 5, device=device)
    table = torch.zeros(4, 5 if name == "rope" else 2, device=device)
    with pytest.raises(ValueError, match=rf"{name}.*D"):
        public(name)(x, table, table)


@every_dtype
@every_layout
@pytest.mark.parametrize("p", [0.0, 0.1, 0.5, 1.0])
def test_dropout(
    p: float, dtype: torch.dtype, layout: str, device: torch.device, generator: torch.Generator
) -> None:
    x = LAYOUTS[layout](draw((3, 2, 5, 7), dtype, generator).to(device))
    p_f32 = shipped.as_f32(p)
    kept = torch.tensor(shipped.philox_uniform(42, x.numel()), dtype=torch.float64).view(x.shape) >= p_f32
    expected = torch.where(kept, x.cpu().double() / (1 - p_f32), 0.0)
    assert_close(public("dropout")(x, p, 42), expected)


@pytest.mark.parametrize("seed", [0, -1, 2**31, 2**32 + 5, 2**63 - 1, -(2**63)])
def test_dropout_uses_all_bits_of_the_seed(seed: int, device: torch.device) -> None:
    kept = torch.tensor(shipped.philox_uniform(seed, 300), dtype=torch.float64) >= 0.5
    ones = torch.ones(300, device=device)
    for given in (seed, torch.tensor(seed), torch.tensor(seed, device=device)):
        assert torch.equal(public("dropout")(ones, 0.5, given).cpu() == 2, kept)


def test_dropout_drops_what_is_not_finite(device: torch.device) -> None:
    x = torch.tensor([float("nan"), float("inf"), -float("inf"), 1.0], device=device)
    assert torch.equal(public("dropout")(x, 1.0, 3), torch.zeros(4, device=device))
    assert torch.equal(public("dropout")(x[1:], 0.0, 3), x[1:])


def test_dropout_keeps_the_share_that_it_should(device: torch.device) -> None:
    y = public("dropout")(torch.ones(64, 1000, device=device), 0.3, 7)
    kept = y[y != 0]
    assert abs(kept.numel() / y.numel() - 0.7) < 5 * math.sqrt(0.3 * 0.7 / y.numel())
    assert_close(kept, torch.full(kept.shape, 1 / (1 - shipped.as_f32(0.3)), dtype=torch.float64))


@every_dtype
@every_layout
@pytest.mark.parametrize("value", [-1e9, float("-inf"), 0.0])
def test_masked_fill_scale(
    value: float, dtype: torch.dtype, layout: str, device: torch.device, generator: torch.Generator
) -> None:
    x = LAYOUTS[layout](draw((2, 3, 5, 7), dtype, generator).to(device))
    mask = LAYOUTS[layout]((torch.rand((2, 3, 5, 7), generator=generator) < 0.4).to(device))
    expected = torch.where(mask.cpu(), value, x.cpu().double() * 0.125)
    assert_close(public("masked_fill_scale")(x, mask, value, 0.125), expected)


def test_masked_fill_scale_does_not_leak_the_other_branch(device: torch.device) -> None:
    x = torch.tensor([float("nan"), float("inf"), 2.0, -0.0], device=device)
    mask = torch.tensor([True, True, False, False], device=device)
    assert_close(public("masked_fill_scale")(x, mask, 5.0), torch.tensor([5.0, 5.0, 2.0, -0.0]).double())


def test_masked_fill_scale_broadcasts_a_causal_mask(device: torch.device, generator: torch.Generator) -> None:
    scores = draw((2, 3, 6, 6), torch.float16, generator).to(device)
    mask = torch.ones(6, 6, dtype=torch.bool, device=device).triu(1)
    expected = (scores.cpu().double() * 0.5).masked_fill(mask.cpu(), float("-inf"))
    assert_close(public("masked_fill_scale")(scores, mask, float("-inf"), 0.5), expected)


@every_dtype
@every_layout
def test_embedding_add(
    dtype: torch.dtype, layout: str, device: torch.device, generator: torch.Generator
) -> None:
    tokens, places = (LAYOUTS[layout](draw((rows, 5), dtype, generator).to(device)) for rows in (11, 6))
    ids = LAYOUTS[layout](torch.randint(-3, 14, (3, 4), generator=generator).to(device))
    positions = torch.arange(4, device=device) + 4  # the last two are outside
    expected, magnitude = shipped.embedding_add(
        ids.cpu(), positions.cpu().expand(3, 4), tokens.cpu().double(), places.cpu().double()
    )
    assert_close(public("embedding_add")(ids, positions, tokens, places), expected, magnitude=magnitude)


@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (1,)], ids=str)
@pytest.mark.parametrize("rows", [0, 1, 4])
def test_embedding_add_of_empty_ids_and_tables(
    shape: tuple[int, ...], rows: int, device: torch.device, generator: torch.Generator
) -> None:
    table = draw((rows, 3), torch.float32, generator).to(device)
    ids = torch.zeros(shape, dtype=torch.int64, device=device)
    expected, _ = shipped.embedding_add(ids.cpu(), ids.cpu(), table.cpu().double(), table.cpu().double())
    assert_close(public("embedding_add")(ids, ids, table, table), expected)


@pytest.mark.parametrize("outside", [-1, 4, 2**31, 2**40, -(2**63), 2**63 - 1])
def test_embedding_add_reads_zeros_outside(outside: int, device: torch.device) -> None:
    table = torch.ones(4, 3, device=device)
    ids = torch.tensor([outside, 3], device=device)
    assert_close(
        public("embedding_add")(ids, torch.zeros_like(ids), table, table),
        torch.tensor([[1.0] * 3, [2.0] * 3], dtype=torch.float64),
    )
