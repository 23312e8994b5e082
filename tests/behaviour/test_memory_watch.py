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
