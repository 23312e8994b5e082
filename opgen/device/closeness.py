"""Whether a measured op computed the right thing: its results against more exact ones."""

from __future__ import annotations

import torch
from torch import Tensor

#: Half the spacing of neighbouring numbers over the number itself: the relative error of one rounding.
_ROUNDING = {
    torch.float64: 2.0**-53,
    torch.float32: 2.0**-24,
    torch.float16: 2.0**-11,
    torch.bfloat16: 2.0**-8,
    torch.float8_e4m3fn: 2.0**-4,
    torch.float8_e5m2: 2.0**-3,
}
#: Half the smallest subnormal of the narrow types; below it relative errors mean nothing.
_SMALLEST = {torch.float16: 2.0**-25, torch.float8_e4m3fn: 2.0**-10, torch.float8_e5m2: 2.0**-17}
_F8E4M3_LARGEST = 448.0
#: Errors of f32 arithmetic before the rounding, in units of f32, of a sum of `n` terms: this times sqrt(n).
_F32_UNITS = 32 * 2.0**-23
#: The share of integers and bools that may differ: decisions (`<`, `round`) that fall otherwise in f32 than in f64.
_DECISIONS = 1e-3


def disagreement(result: Tensor, expected: Tensor, *, terms: int = 1) -> str | None:
    """What is wrong with a result, or None.

    `expected` comes from more exact arithmetic. A float may differ by the
    rounding to its type and by f32 errors relative to the result and to the root mean square of all results;
    `terms` is the length of the longest sum behind an element. NaN and infinities must meet their like. Two roundings
    are allowed where `expected` has the result's type, and on the CPU, where Triton's interpreter truncates.
    """
    if result.shape != expected.shape:
        return f"shape {tuple(result.shape)} instead of {tuple(expected.shape)}"
    if not result.dtype.is_floating_point:
        return _different_integers(result, expected)
    wanted = expected.to(torch.float64)
    if result.dtype == torch.float8_e4m3fn:  # a cast to it saturates, which PyTorch's does not
        wanted = wanted.clamp(-_F8E4M3_LARGEST, _F8E4M3_LARGEST)
    got = result.to(torch.float64)
    rounded = wanted.to(torch.float32).to(result.dtype).to(torch.float64)
    finite = wanted.isfinite() & rounded.isfinite()
    inner = torch.where(finite, wanted, 0.0)
    scale = inner.abs() + inner.square().mean().sqrt()
    roundings = 2 if expected.dtype == result.dtype or result.device.type == "cpu" else 1
    bound = 1.01 * roundings * (_ROUNDING[result.dtype] * inner.abs() + _SMALLEST.get(result.dtype, 0.0))
    bound += _F32_UNITS * terms**0.5 * scale
    like = (got == rounded) | (got.isnan() & rounded.isnan())
    wrong = ~torch.where(finite, (got - inner).abs() <= bound, like)
    return _told(wrong, got, wanted)


def _different_integers(result: Tensor, expected: Tensor) -> str | None:
    wrong = result.to(torch.float64) != expected.to(torch.float64)
    return _told(wrong, result, expected) if wrong.sum().item() > _DECISIONS * wrong.numel() else None


def _told(wrong: Tensor, got: Tensor, wanted: Tensor) -> str | None:
    if not wrong.any():
        return None
    at = tuple(wrong.nonzero()[0].tolist())
    counts = f"{int(wrong.sum())} of {wrong.numel()} elements are wrong"
    return f"{counts}, first at {at}: {got[at].item()!r} instead of {wanted[at].item()!r}"
