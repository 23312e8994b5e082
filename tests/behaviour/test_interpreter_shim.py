"""Float conversions of Triton's interpreter, as the generated tests correct them."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import triton.language as tl
from torch import Tensor
from triton.runtime import interpreter

from tests.behaviour.closeness import FORMATS, spacing
from tests.behaviour.oracle_package import load

ROOT = Path(__file__).resolve().parents[2]

shim = load("_interpreter")

NARROW = {
    torch.bfloat16: tl.bfloat16,
    torch.float8_e4m3fn: tl.float8e4nv,
    torch.float8_e5m2: tl.float8e5,
}


@pytest.fixture(autouse=True)
def corrected(monkeypatch: pytest.MonkeyPatch) -> None:
    """The corrected interpreter, for one test only."""
    monkeypatch.setattr(interpreter, "_convert_float", interpreter._convert_float)
    for name in ("cast_impl", "create_maxnumf", "create_minnumf", "create_clampf"):
        original = getattr(interpreter.InterpreterBuilder, name)
        monkeypatch.setattr(interpreter.InterpreterBuilder, name, original)
    monkeypatch.setattr(interpreter.ReduceOps, "min_max", interpreter.ReduceOps.min_max)
    monkeypatch.setattr(interpreter, "_rounds_to_nearest_even", False, raising=False)
    shim.install()


def _copy(x, y, n, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n), mask=i < n)


def copied(x: Tensor, dtype: torch.dtype) -> Tensor:
    """`x` stored into a tensor of another type by an interpreted kernel."""
    kernel: Any = interpreter.InterpretedFunction(_copy)
    y = torch.empty(x.shape, dtype=dtype)
    kernel[(1,)](x, y, x.numel(), BLOCK=1 << (x.numel() - 1).bit_length())
    return y


def numbers(generator: torch.Generator, dtype: torch.dtype) -> Tensor:
    """Numbers of all sizes, the ties of `dtype` and what is next to them, special values."""
    wide = torch.randn(3000, generator=generator) * torch.exp(torch.randn(3000, generator=generator) * 6)
    near = wide[:500].to(torch.float64)
    ties = ((torch.floor(near / spacing(near, dtype)) + 0.5) * spacing(near, dtype)).to(torch.float32)
    beside = [torch.nextafter(ties, torch.full_like(ties, end)) for end in (-torch.inf, torch.inf)]
    return torch.cat(
        [
            wide,
            ties,
            *beside,
            torch.tensor([0.0, -0.0, torch.inf, -torch.inf, torch.nan, 1e-45, 3.4e38]),
        ]
    )


def rounded(x: Tensor, dtype: torch.dtype) -> Tensor:
    """To nearest even in f64; f8 saturates."""
    wide, largest = x.to(torch.float64), FORMATS[dtype].largest
    step = spacing(torch.where(wide.isfinite(), wide, 0.0), dtype)
    near = torch.round(wide / step) * step
    if dtype in (torch.float8_e4m3fn, torch.float8_e5m2):
        return near.clamp(-largest, largest)
    return torch.where(near.abs() > largest, near * torch.inf, near)


@pytest.mark.parametrize("source", [torch.float32, torch.float16, torch.float64], ids=str)
@pytest.mark.parametrize("dtype", list(NARROW), ids=str)
def test_stores_round_to_nearest_even(
    dtype: torch.dtype, source: torch.dtype, generator: torch.Generator
) -> None:
    x = numbers(generator, dtype).to(source)
    actual = copied(x, dtype).to(torch.float64)
    expected = rounded(x, dtype)
    assert torch.equal(actual.isnan(), expected.isnan())
    assert torch.equal(
        torch.nan_to_num(actual, 0.0, 1e300, -1e300), torch.nan_to_num(expected, 0.0, 1e300, -1e300)
    )
    assert torch.equal(actual.signbit()[~actual.isnan()], expected.signbit()[~actual.isnan()])


@pytest.mark.parametrize("target", [torch.float32, torch.float16, torch.float64], ids=str)
@pytest.mark.parametrize("dtype", list(NARROW), ids=str)
def test_loads_widen_every_number_exactly(dtype: torch.dtype, target: torch.dtype) -> None:
    bits = 16 if dtype == torch.bfloat16 else 8
    every = (
        torch.arange(2**bits, dtype=torch.int32).to(torch.int16 if bits == 16 else torch.uint8).view(dtype)
    )
    actual, expected = copied(every, target), every.to(torch.float64).to(target)
    assert torch.equal(actual.isnan(), expected.isnan())
    assert torch.equal(actual[~actual.isnan()], expected[~actual.isnan()])


def test_integers_become_bf16() -> None:
    x = torch.tensor([0, 1, -3, 257, 259, 2**24 + 1], dtype=torch.int32)
    assert torch.equal(copied(x, torch.bfloat16), x.to(torch.float64).to(torch.bfloat16))


def _extremes(x, least, largest, ROWS: tl.constexpr, COLUMNS: tl.constexpr):  # type: ignore[no-untyped-def]
    rows, columns = tl.arange(0, ROWS), tl.arange(0, COLUMNS)
    values = tl.load(x + rows[:, None] * COLUMNS + columns[None, :])
    tl.store(least + rows, tl.min(values, axis=1))
    tl.store(largest + rows, tl.max(values, axis=1))


@pytest.mark.filterwarnings("error")
def test_rows_of_nan_are_reduced_without_a_warning() -> None:
    nan = float("nan")
    x = torch.tensor([[nan, nan], [nan, 2.0], [-1.0, 3.0], [float("-inf"), nan]])
    least, largest = torch.empty(4), torch.empty(4)
    kernel: Any = interpreter.InterpretedFunction(_extremes)
    kernel[(1,)](x, least, largest, ROWS=4, COLUMNS=2)
    inf = float("inf")
    torch.testing.assert_close(least, torch.tensor([nan, 2.0, -1.0, -inf]), equal_nan=True)
    torch.testing.assert_close(largest, torch.tensor([nan, 2.0, 3.0, -inf]), equal_nan=True)


def _of_two(x, y, least, largest, clamped, NAN: tl.constexpr, SIZE: tl.constexpr):  # type: ignore[no-untyped-def]
    at = tl.arange(0, SIZE)
    one, other = tl.load(x + at), tl.load(y + at)
    tl.store(clamped + at, tl.clamp(one, -1.0, 1.5, propagate_nan=NAN))
    tl.store(least + at, tl.minimum(one, other, propagate_nan=NAN))
    tl.store(largest + at, tl.maximum(one, other, propagate_nan=NAN))


@pytest.mark.parametrize("nan", [tl.PropagateNan.NONE, tl.PropagateNan.ALL])
def test_nan_of_two_is_lost_where_a_kernel_does_not_ask_for_it(nan: Any) -> None:
    x, y = torch.tensor([torch.nan, 1.0, torch.nan, 2.0]), torch.tensor([1.0, torch.nan, torch.nan, 3.0])
    least, largest, clamped = (torch.empty(4) for _ in range(3))
    kernel: Any = interpreter.InterpretedFunction(_of_two)
    kernel[(1,)](x, y, least, largest, clamped, NAN=nan, SIZE=4)
    keeps = nan is tl.PropagateNan.ALL
    expected = (torch.minimum, torch.maximum) if keeps else (torch.fmin, torch.fmax)
    for got, function in zip((least, largest), expected, strict=True):
        torch.testing.assert_close(got, function(x, y), rtol=0.0, atol=0.0, equal_nan=True)
    of_nan = torch.nan if keeps else -1.0
    torch.testing.assert_close(clamped, torch.tensor([of_nan, 1.0, of_nan, 1.5]), equal_nan=True)


def test_without_the_correction_stores_truncate() -> None:
    """In a process of its own, since other tests correct the interpreter of this one."""
    code = (
        "import torch; from tests.behaviour.test_interpreter_shim import copied; "
        "print(copied(torch.tensor([1.01171875]), torch.bfloat16).item())"
    )
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "1.0078125\n"  # the nearest is 1.015625


@pytest.mark.parametrize(
    "changed",
    [None, lambda input, input_dtype, output_dtype: input, lambda data, source, target, mode: data],
    ids=["absent", "fewer parameters", "other names"],
)
def test_other_internals_are_refused(
    changed: Callable[..., Any] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(interpreter, "_rounds_to_nearest_even", False)
    monkeypatch.setattr(interpreter, "_convert_float", changed)
    with pytest.raises(RuntimeError, match="has no _convert_float"):
        shim.install()


def test_an_entry_that_goes_another_way_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interpreter, "_rounds_to_nearest_even", False)

    def truncating(self: Any, src: Any, dst_type: Any) -> Any:
        return interpreter.TensorHandle((src.data.view(np.uint32) >> 16).astype(np.uint16), dst_type)

    monkeypatch.setattr(interpreter.InterpreterBuilder, "create_fp_trunc", truncating)
    with pytest.raises(RuntimeError, match="still does not round"):
        shim.install()
