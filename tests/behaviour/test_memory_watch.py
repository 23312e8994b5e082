"""The watch over what the interpreter reads and writes, of several generated packages in one process."""

import importlib
from pathlib import Path
from typing import Any

import pytest
import torch
import triton.language as tl
from triton.runtime import interpreter

from tests.behaviour.building import build_package


def _copy(x, y, n, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n), mask=i < n)


def _copy_all(x, y, n, FILL: tl.constexpr, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    i = tl.arange(0, BLOCK)
    if FILL:
        tl.store(y + i, tl.load(x + i, mask=i < n, other=0))
    else:
        tl.store(y + i, tl.load(x + i, mask=i < n))


@pytest.fixture
def watches(tmp_path: Path) -> tuple[Any, Any]:
    """The watches of two packages; a process has one interpreter, which both of them patch."""
    packages = [build_package("op f(x: f32[N]) -> y: f32[N] { y = x }", tmp_path) for _ in range(2)]
    first, second = (importlib.import_module(f"{package.__name__}.tests._watch") for package in packages)
    return first, second


def test_each_package_sees_what_its_kernels_touch(watches: tuple[Any, Any]) -> None:
    kernel: Any = interpreter.InterpretedFunction(_copy)
    for watch in watches:
        memory = torch.zeros(16)
        with watch.watched() as seen:
            kernel[(2,)](torch.ones(8), memory[:7], 8, BLOCK=4)
        assert seen.faults == ["writes at 1 addresses outside its tensors"]
        assert memory.tolist() == [1.0] * 7 + [0.0] * 9


def test_each_package_runs_the_last_programs_of_a_grid(watches: tuple[Any, Any]) -> None:
    kernel: Any = interpreter.InterpretedFunction(_copy)
    for watch in watches:
        result = torch.zeros(16)
        with watch.last_programs(1):
            kernel[(4,)](torch.ones(16), result, 16, BLOCK=4)
        assert result.tolist() == [0.0] * 12 + [1.0] * 4


_TYPES = [
    *(torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2),
    *(torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool),
]


@pytest.mark.parametrize("dtype", _TYPES, ids=str)
def test_lanes_that_a_load_leaves_out_are_undefined(watches: tuple[Any, Any], dtype: torch.dtype) -> None:
    kernel: Any = interpreter.InterpretedFunction(_copy_all)
    memory = torch.zeros(8, dtype=dtype)
    with watches[0].watched() as seen:
        kernel[(1,)](torch.ones(8).to(dtype), memory, 5, FILL=False, BLOCK=8)
    assert seen.faults == []
    assert memory[:5].float().tolist() == [1.0] * 5
    left_out = memory[5:].double()
    if dtype.is_floating_point:
        assert left_out.isnan().all()
    else:
        largest = True if dtype == torch.bool else torch.iinfo(dtype).max
        assert memory[5:].tolist() == ([1, largest, 1] if dtype.is_signed else [largest] * 3)


@pytest.mark.parametrize(("count", "block"), [(5, 8), (0, 8), (0, 1)])
def test_lanes_that_a_load_fills_hold_what_it_says(watches: tuple[Any, Any], count: int, block: int) -> None:
    kernel: Any = interpreter.InterpretedFunction(_copy_all)
    memory = torch.ones(8)
    with watches[0].watched():
        kernel[(1,)](torch.ones(8), memory, count, FILL=True, BLOCK=block)
    assert memory[:block].tolist() == [1.0] * count + [0.0] * (block - count)


def test_other_internals_are_refused(watches: tuple[Any, Any]) -> None:
    with pytest.raises(RuntimeError, match="what kernels read cannot be watched"):
        watches[0]._require_known_load(lambda self, ptrs, mask, other, flags: None)
