"""Comparison with an f64 result: a bound for each element that follows from the types alone."""

from dataclasses import dataclass

import torch
from torch import Tensor

F32_UNIT = 2.0**-23  #: the spacing of f32 at 1
F32_TINY = 2.0**-126  #: the smallest normal f32; functions may read smaller values as zero


@dataclass(frozen=True)
class Format:
    """Bits of the significand (the hidden one too), exponent of the smallest normal, largest number."""

    significand: int
    lowest: int
    largest: float


FORMATS = {
    torch.float64: Format(53, -1022, torch.finfo(torch.float64).max),
    torch.float32: Format(24, -126, torch.finfo(torch.float32).max),
    torch.float16: Format(11, -14, 65504.0),
    torch.bfloat16: Format(8, -126, torch.finfo(torch.bfloat16).max),
    torch.float8_e4m3fn: Format(4, -6, 448.0),
    torch.float8_e5m2: Format(3, -14, 57344.0),
}


def spacing(value: Tensor, dtype: torch.dtype) -> Tensor:
    """The distance of neighbouring numbers of `dtype` at each (f64) value."""
    form = FORMATS[dtype]
    exponent = torch.where(value == 0, form.lowest, torch.frexp(value).exponent - 1)
    return torch.exp2((exponent.clamp(min=form.lowest) - (form.significand - 1)).to(torch.float64))


def rounding(dtype: torch.dtype, device: torch.device) -> float:
    """The largest error of one store, in units of `spacing`.

    Triton's interpreter truncates f32 to bf16 and to f8 where the compiler rounds to nearest.
    """
    truncates = device.type == "cpu" and dtype in (
        torch.bfloat16,
        torch.float8_e4m3fn,
        torch.float8_e5m2,
    )
    return 1.0 if truncates else 0.5


def assert_close(
    actual: Tensor, expected: Tensor, *, ulps: float = 8.0, magnitude: Tensor | None = None
) -> None:
    """Asserts that floats are `expected` (f64), up to one rounding and `ulps` units of f32 of `magnitude`.

    `magnitude` is the sum of the absolute terms where `expected` may be small by cancellation; by default it
    is `|expected|`. NaN meets NaN only; where the rounded result overflows it must be that infinity.
    """
    assert tuple(actual.shape) == tuple(expected.shape), (actual.shape, expected.shape)
    dtype, device = actual.dtype, actual.device
    got, expected = actual.cpu().to(torch.float64), expected.cpu()
    scale = expected.abs() if magnitude is None else magnitude.cpu().expand_as(expected).abs()
    finite = expected.isfinite() & (expected.abs() < FORMATS[dtype].largest)
    inner = torch.where(finite, expected, 0.0)
    bound = rounding(dtype, device) * spacing(inner, dtype) * (1 + 1e-9) + F32_TINY
    bound += ulps * F32_UNIT * torch.where(finite & scale.isfinite(), scale, 0.0)
    rounded = expected.to(dtype).to(torch.float64)
    exact = (got == rounded) | (got.isnan() & rounded.isnan())
    wrong = ~torch.where(finite, (got - inner).abs() <= bound, exact)
    if wrong.any():
        at = tuple(wrong.nonzero()[0].tolist())
        raise AssertionError(
            f"{int(wrong.sum())} of {wrong.numel()} elements are wrong, first at {at}: "
            f"got {got[at].item()!r}, expected {expected[at].item()!r} +- {bound[at].item():.3g} ({dtype})"
        )


def assert_zero_signs(actual: Tensor, expected: Tensor) -> None:
    """Asserts that zeros have the sign of the (f64) results that round to them."""
    got = actual.cpu().to(torch.float64)
    zero = (got == 0) & (expected.cpu().to(actual.dtype).to(torch.float64) == 0)
    wrong = zero & (got.signbit() != expected.cpu().signbit())
    assert not wrong.any(), f"zeros of the wrong sign at {wrong.nonzero().tolist()}"
