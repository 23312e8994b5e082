"""Every shipped op against an oracle written by hand: values, layouts, shapes, special values, errors."""

import itertools
import math
from functools import reduce

import pytest
import torch
from torch import Tensor

from tests.behaviour import shipped
from tests.behaviour.closeness import assert_close, assert_zero_signs
from tests.behaviour.layouts import LAYOUTS
from tests.behaviour.shipped import (
    BY_NAME,
    HALVES_AND_SINGLE,
    POINTWISE,
    Pointwise,
    draw,
    oracle,
    public,
)

SHAPE = (3, 4, 5, 7)
OTHER_SHAPES = ((), (1,), (0,), (4, 0, 3), (1023,), (1025,), (2, 3, 1, 2, 3, 1, 5))

every_op = pytest.mark.parametrize("op", POINTWISE, ids=lambda op: op.name)
every_dtype = pytest.mark.parametrize("dtype", HALVES_AND_SINGLE, ids=str)
every_layout = pytest.mark.parametrize("layout", LAYOUTS)


def check(op: Pointwise, tensors: tuple[Tensor, ...], *, signs: bool = False) -> None:
    actual = public(op.name)(*tensors, *op.scalars.values())
    expected, magnitude = oracle(op, tensors)
    assert actual.dtype == (op.result or tensors[0].dtype)
    assert actual.device == tensors[0].device
    assert_close(actual, expected, ulps=op.ulps, magnitude=magnitude)
    if signs:
        assert_zero_signs(actual, expected)


@every_op
@every_dtype
@every_layout
def test_values_for_every_layout(
    op: Pointwise, dtype: torch.dtype, layout: str, device: torch.device, generator: torch.Generator
) -> None:
    check(
        op,
        tuple(LAYOUTS[layout](draw(SHAPE, dtype, generator).to(device)) for _ in range(op.tensors)),
    )


@every_op
@pytest.mark.parametrize("shape", OTHER_SHAPES, ids=str)
def test_scalars_empty_tensors_and_block_edges(
    op: Pointwise, shape: tuple[int, ...], device: torch.device, generator: torch.Generator
) -> None:
    check(op, tuple(draw(shape, torch.float16, generator).to(device) for _ in range(op.tensors)))


@every_op
@every_dtype
def test_special_values(op: Pointwise, dtype: torch.dtype, device: torch.device) -> None:
    values = shipped.MODERATE + shipped.ENDS + (shipped.FAR if op.tensors == 1 else ())
    line = torch.tensor(values, dtype=dtype, device=device)
    tensors = tuple(grid.contiguous() for grid in torch.meshgrid(*[line] * op.tensors, indexing="ij"))
    check(op, tensors, signs=True)


@every_op
def test_mixed_layouts_and_broadcasting(
    op: Pointwise, device: torch.device, generator: torch.Generator
) -> None:
    shapes = ((4, 1, 6), (5, 1))[: op.tensors]
    for first, second in itertools.product(("contiguous", "transposed", "expanded"), ("sliced", "offset")):
        layouts = (LAYOUTS[first], LAYOUTS[second])
        tensors = [draw(shape, torch.bfloat16, generator).to(device) for shape in shapes]
        check(op, tuple(layout(tensor) for layout, tensor in zip(layouts, tensors, strict=False)))


@every_op
@pytest.mark.parametrize(
    "layout", ["contiguous", "transposed", "swapped", "channels_last", "sliced", "stepped"]
)
def test_results_are_strided_as_by_pytorch(
    op: Pointwise, layout: str, device: torch.device, generator: torch.Generator
) -> None:
    tensors = [LAYOUTS[layout](draw(SHAPE, torch.float32, generator).to(device)) for _ in range(op.tensors)]
    pytorch: Tensor = reduce(torch.add, tensors, torch.zeros((), device=device))
    assert public(op.name)(*tensors, *op.scalars.values()).stride() == pytorch.stride()


@every_op
@pytest.mark.parametrize("layout", ["contiguous", "transposed", "sliced"])
def test_out(op: Pointwise, layout: str, device: torch.device, generator: torch.Generator) -> None:
    tensors = tuple(draw(SHAPE, torch.float32, generator).to(device) for _ in range(op.tensors))
    out = LAYOUTS[layout](torch.zeros(SHAPE, dtype=op.result or torch.float32, device=device))
    returned = public(op.name)(*tensors, *op.scalars.values(), out=out)
    assert returned is out
    expected, magnitude = oracle(op, tensors)
    assert_close(out, expected, ulps=op.ulps, magnitude=magnitude)


@every_op
def test_inputs_are_left_as_they_were(
    op: Pointwise, device: torch.device, generator: torch.Generator
) -> None:
    tensors = tuple(draw((5, 9), torch.float32, generator).to(device) for _ in range(op.tensors))
    before = [tensor.clone() for tensor in tensors]
    public(op.name)(*tensors, *op.scalars.values())
    assert all(torch.equal(tensor, old) for tensor, old in zip(tensors, before, strict=True))


@every_op
def test_unaccepted_types_are_named(op: Pointwise, device: torch.device) -> None:
    wrong = torch.zeros(3, dtype=torch.float64, device=device)
    with pytest.raises(TypeError, match=rf"{op.name}.*float64"):
        public(op.name)(*[wrong] * op.tensors, *op.scalars.values())


@pytest.mark.parametrize("name", [op.name for op in POINTWISE if op.tensors == 2])
def test_shapes_that_do_not_broadcast_are_named(name: str, device: torch.device) -> None:
    a, b = torch.zeros(3, device=device), torch.zeros(4, device=device)
    with pytest.raises(ValueError, match=rf"{name}.*3.*4"):
        public(name)(a, b, *BY_NAME[name].scalars.values())


@pytest.mark.parametrize("beta", [-2.0, 0.0, 1.0, 3])
def test_swish_slopes(beta: float, device: torch.device, generator: torch.Generator) -> None:
    x = draw((37,), torch.float32, generator).to(device)
    wide = x.cpu().double()
    expected = wide / (1 + torch.exp(-beta * wide))
    magnitude = expected.abs() * (1 + (beta * wide).abs())
    assert_close(public("swish")(x, beta), expected, magnitude=magnitude)
    assert_close(public("swish")(x, beta=torch.tensor(float(beta))), expected, magnitude=magnitude)
    assert_close(public("swish")(x, torch.tensor(float(beta), device=device)), expected, magnitude=magnitude)


def test_swish_has_a_default_slope(device: torch.device) -> None:
    x = torch.tensor([1.0, -2.0], device=device)
    expected = [1 / (1 + math.exp(-1)), -2 / (1 + math.exp(2))]
    assert_close(public("swish")(x), torch.tensor(expected, dtype=torch.float64))
