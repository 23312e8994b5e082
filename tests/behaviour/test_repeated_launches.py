"""Kept launches, made again for other tensors and numbers, take the arguments that new ones would."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from types import ModuleType
from typing import Any

import pytest
import torch
import triton

from generated import _launching, _repeating
from opgen.device.calls import calls

NAMES = sorted(importlib.import_module("generated").__all__)
STREAM = 7


@dataclass
class Kernel:
    """Stands for a kernel, and for what it is compiled to; remembers launches by their grid and arguments."""

    arg_names: list[str]
    function: str
    packed_metadata: str = "metadata"
    launched: list[tuple[Any, ...]] = field(default_factory=list)
    repeated: list[tuple[Any, ...]] = field(default_factory=list)

    def __getitem__(self, grid: tuple[int, ...]) -> Any:
        def launch(*arguments: Any, **constants: Any) -> Kernel:
            rest = (constants[name] for name in self.arg_names[len(arguments) :])
            self.launched.append((*grid, *(1,) * (3 - len(grid)), *arguments, *rest))
            return self

        return launch

    def run(self, *arguments: Any) -> None:
        assert arguments[3:9] == (STREAM, self.function, self.packed_metadata, None, None, None)
        self.repeated.append((*arguments[:3], *arguments[9:]))


class Driver:
    """Stands for Triton's."""

    class active:  # noqa: N801 - as Triton names it
        @staticmethod
        def get_current_stream(device: int | None) -> int:
            return STREAM


@pytest.fixture
def kernels(name: str, monkeypatch: pytest.MonkeyPatch) -> list[Kernel]:
    """What stands for the kernels of an op."""
    of, found = importlib.import_module(f"generated.{name}"), []
    for text, kernel in list(vars(of).items()):
        if (
            text.startswith(f"_{name}_")
            and not text.endswith(("_formula", "_write"))
            and hasattr(kernel, "arg_names")
        ):
            found.append(Kernel(kernel.arg_names, text))
            monkeypatch.setattr(of, text, found[-1])
    monkeypatch.setattr(triton.runtime, "driver", Driver)
    return found


def plans(of: ModuleType) -> Iterator[tuple[Any, list[list[Any]]]]:
    """Planned calls of an op, and the arguments of two calls each: parameters, results and temporaries."""
    entry, device = of._ENTRY, torch.device("cpu")
    for call in calls(of, []):
        given, prepared = [], None
        for turn in range(2):
            scalars = {
                name: value + turn / 3 if isinstance(value, float) else value
                for name, value in call.scalars.items()
            }
            tensors = {
                name: None
                if meta is None
                else torch.empty_strided(meta.shape, meta.stride(), dtype=meta.dtype, device=device)
                for name, meta in call.tensors.items()
            }
            prepared = _launching._prepare(entry, tensors, call.consts, {}, None)
            assert prepared is not None, call
            new, temporaries = _launching.allocated(prepared, ())
            known = {**tensors, **scalars, **call.consts}
            given.append([*(known[one] for one in entry.parameters), *new, *temporaries])
        yield prepared, given


def same(one: Any, other: Any, given: list[Any]) -> bool:
    """Whether two arguments are one: a tensor, both scratch alike, descriptors of one tensor, equal numbers."""
    if isinstance(one, torch.Tensor):
        layouts = [(each.shape, each.stride(), each.dtype) for each in (one, other)]
        is_given = any(one is each for each in given)
        return (
            one is other
            if is_given
            else layouts[0] == layouts[1] and not any(other is each for each in given)
        )
    if hasattr(one, "block_shape"):
        return one.base is other.base and {**vars(one), "base": 0} == {**vars(other), "base": 0}
    return type(one) is type(other) and bool(one == other)


@pytest.mark.parametrize("name", NAMES)
def test_kept_launches_take_the_arguments_of_new_ones(name: str, kernels: list[Kernel]) -> None:
    of = importlib.import_module(f"generated.{name}")
    compared = 0
    for prepared, (first, second) in plans(of):
        kept = _repeating.keep(partial(_launching.launch_kernels, prepared), first)
        if kept is None or not all(figures.is_repeatable for _, figures in prepared.launches):
            continue
        for kernel in kernels:
            kernel.launched.clear()
            kernel.repeated.clear()
        kept.repeat(second, torch.device("cpu"))
        _launching.launch_kernels(prepared, _launching.as_it_is, second)
        for kernel in kernels:
            for repeated, launched in zip(kernel.repeated, kernel.launched, strict=True):
                assert len(repeated) == len(launched)
                assert all(map(partial(same, given=second), repeated, launched)), (repeated, launched)
                compared += 1
    operator = of._ENTRY.operator
    has_integers = any(one.type not in ("f32", "f64") for one in operator.scalars)
    passes_bytes = any(
        one.element.startswith("f8") for one in operator.results
    )  # here, as on GPUs before sm_89
    assert compared > 0 or has_integers or passes_bytes, "no call of the op keeps its launches"
