"""Which kernel and which tile an elementwise call takes, and what its kernels divide by."""

import importlib

import pytest
import torch

from generated._binding import bind
from generated._elementwise import Config, Launch, divider, plan, result_strides

CONFIG = Config(block=1024, warps=4, tile=(8, 256), turned=(64, 32), tile_warps=4, turned_warps=2)


def launch_of(op: str, *tensors: torch.Tensor) -> Launch:
    """The launch of an op's first kernel over its tensors and a fresh result."""
    entry = importlib.import_module(f"generated.{op}")._ENTRY
    bound = bind(entry.operator, tensors, {})
    names = [spec.name for spec in entry.operator.inputs]
    spec = entry.operator.results[0]
    strides = result_strides(entry.operator, bound, tensors, spec)
    result = torch.empty_strided(bound.shape(spec), strides, dtype=tensors[-1].dtype, device="meta")
    arguments = {**dict(zip(names, tensors, strict=True)), spec.name: result}
    launch = plan(entry.variants[0].kernels[0].walk, bound, arguments, CONFIG)
    assert launch is not None
    return launch


def meta(*shape: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    return torch.empty(shape, dtype=dtype, device="meta")


def test_one_layout_is_walked_in_the_order_of_memory() -> None:
    assert launch_of("swish", meta(48, 64).t()).dense


def test_a_tensor_that_is_read_across_turns_the_tile() -> None:
    launch = launch_of("bias_gelu_residual", meta(512, 1024).t(), meta(512), meta(1024, 512))
    assert (launch.tile, launch.warps) == (CONFIG.turned, CONFIG.turned_warps)


def test_a_tensor_of_rows_alone_does_not_turn_the_tile() -> None:
    """The ids of [B, S] have their unit stride along the rows, and are the same for all columns."""
    ids, positions = (meta(*shape, dtype=torch.int64) for shape in ((8, 128), (128,)))
    launch = launch_of("embedding_add", ids, positions, meta(1000, 512), meta(128, 512))
    assert (launch.tile, launch.warps) == (CONFIG.tile, CONFIG.tile_warps)


def test_kernels_divide_by_the_tiles_of_a_row_and_by_inner_sizes() -> None:
    ids, positions = (meta(*shape, dtype=torch.int64) for shape in ((8, 48), (48,)))
    launch = launch_of("embedding_add", ids, positions, meta(1000, 640), meta(48, 640))
    assert launch.space[-5:] == tuple(map(divider, (3, 1, 1, 1, 48)))


@pytest.mark.parametrize("size", [1, 2, 3, 7, 48, 2**30, 2**31 - 1])
def test_a_divider_has_more_than_32_bits_and_fits_in_64(size: int) -> None:
    assert 2**32 <= divider(size) < 2**63


def test_a_divider_divides_all_numbers_of_31_bits() -> None:
    for size in (1, 2, 3, 5, 7, 48, 641, 65537, 2**30 + 1, 2**31 - 1):
        multiplier, shift = divider(size) & 0xFFFFFFFF, (divider(size) >> 32) - 32
        for n in (
            0,
            1,
            size - 1,
            size,
            (2**31 - 1) // size * size - 1,
            (2**31 - 1) // size * size,
            2**31 - 1,
        ):
            assert n * multiplier >> (31 + shift) == n // size
