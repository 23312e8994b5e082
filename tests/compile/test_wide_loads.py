"""Elementwise kernels move 16 bytes at a time also where sizes are multiples of 8 elements alone, or of 4."""

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
    assert min(width for _, width in widths) >= 8
