"""Kernels move 16 bytes at a time also where sizes are multiples of 8 elements alone, elementwise ones of 4."""

import importlib
import re

import pytest
import torch

from opgen.device.offline import compile_recorded, record
from opgen.targets import TARGETS

CASES: dict[str, tuple[str, torch.dtype, dict[str, tuple[int, ...]], dict[str, float], int]] = {
    "dense, a multiple of 16": ("swish", torch.bfloat16, {"x": (19587, 560)}, {"beta": 1.0}, 16),
    "dense, a multiple of 8": ("swish", torch.bfloat16, {"x": (19587, 568)}, {"beta": 1.0}, 16),
    "dense, a multiple of 4": ("swish", torch.float32, {"x": (1039, 7180)}, {"beta": 1.0}, 16),
    "rows of a multiple of 8": (
        "bias_gelu_residual",
        torch.bfloat16,
        {"x": (1039, 7176), "bias": (7176,), "residual": (1039, 7176)},
        {},
        16,
    ),
    "rows of a multiple of 4": (
        "bias_gelu_residual",
        torch.bfloat16,
        {"x": (1039, 7180), "bias": (7180,), "residual": (1039, 7180)},
        {},
        8,
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_stores_are_wide(case: str) -> None:
    name, dtype, shapes, scalars, wanted = CASES[case]
    tensors = {key: torch.empty(shape, dtype=dtype, device="meta") for key, shape in shapes.items()}
    target = TARGETS["sm_90"]
    (launch,) = record(importlib.import_module(f"generated.{name}"), tensors, scalars)
    text = compile_recorded(launch, target).asm["ptx"]
    moved = re.findall(r"(ld|st)\.global(?:\.L1::\w+)?(?:\.v(\d))?\.[bu](\d+)", text)
    widths = [(kind, int(count or 1) * int(bits) // 8) for kind, count, bits in moved]
    assert {width for kind, width in widths if kind == "st"} == {wanted}
    # A tile's part of the bias, 256 elements, goes to 128 threads: 4 bytes each.
    assert [width for _, width in widths if width < 8] == [4] * ("bias" in shapes)


@pytest.mark.parametrize(
    ("depth", "copies", "alone"),
    [(272, True, False), (264, True, False), (265, False, True)],
    ids=["a multiple of 16", "a multiple of 8", "odd"],
)
def test_operands_of_products_are_read_wide(depth: int, copies: bool, alone: bool) -> None:
    """16 bytes at a time by asynchronous copies, or else element by element."""
    module = importlib.import_module("generated.linear_silu")
    x, w = (torch.empty((rows, depth), dtype=torch.bfloat16, device="meta") for rows in (256, 520))
    config = module.rt.ProductConfig((64, 64, 32), warps=4, stages=3)
    (launch,) = record(module, {"x": x, "w": w, "b": None}, {}, config=config)
    text = compile_recorded(launch, TARGETS["sm_90"]).asm["ptx"]
    assert ("cp.async.cg" in text) == copies
    assert ("ld.global.b16" in text) == alone
