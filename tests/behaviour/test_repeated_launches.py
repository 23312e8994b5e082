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
from opgen.device.launches import standing_in
from opgen.targets import TARGETS
from tests.behaviour.building import build_package

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
    """Planned calls of an op on sm_90, and the arguments of two calls each: parameters, results and temporaries."""
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
            with standing_in(of, TARGETS["sm_90"]):
                prepared = _launching._prepare(entry, tensors, call.consts, {}, None)
            assert prepared is not None, call
            new, temporaries = _launching.allocated(prepared, ())
            known = {**tensors, **scalars, **call.consts}
            given.append([*(known[one] for one in entry.parameters), *new, *temporaries])
        yield prepared, given


def same(one: Any, other: Any, given: list[Any], scratch: dict[int, int]) -> bool:
    """Whether two arguments are one: a tensor, scratch in the same place, descriptors of one tensor, equal numbers."""
    if isinstance(one, torch.Tensor):
        if any(one is each or other is each for each in given):
            return one is other
        layouts = [(each.shape, each.stride(), each.dtype) for each in (one, other)]
        return layouts[0] == layouts[1] and scratch.setdefault(id(one), id(other)) == id(other)
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
        scratch: dict[int, int] = {}
        is_same = partial(same, given=second, scratch=scratch)
        for kernel in kernels:
            for repeated, launched in zip(kernel.repeated, kernel.launched, strict=True):
                assert len(repeated) == len(launched)
                assert all(map(is_same, repeated, launched)), (repeated, launched)
                compared += 1
        assert len(set(scratch.values())) == len(scratch)
    operator = of._ENTRY.operator
    has_integers = any(one.type not in ("f32", "f64") for one in operator.scalars)
    passes_bytes = any(one.element.startswith("f8") for one in operator.results)  # as on GPUs before sm_89
    assert compared > 0 or has_integers or passes_bytes, "no call of the op keeps its launches"


OPS = """
op scale_by(x: T[..., N], const c: f32 = 1) -> y: T[..., N] { y = x * c }
op lead(x: f32[...], b: f32[...]) -> y: f32[...] { y = b + sum[...](x) }
op shift(x: T[..., N], by: f32 = 1) -> y: T[..., N] { y = x + by }
"""


@pytest.fixture(scope="module")
def ops(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    return build_package(OPS, tmp_path_factory.mktemp("repeated"))


def test_constants_and_numbers_are_those_of_each_call(ops: ModuleType, device: torch.device) -> None:
    x = torch.arange(32.0, device=device).view(2, 16)
    for c in (0.5, 0.25, 2.0, 4.0):
        assert torch.equal(ops.scale_by(x, c), x * c)
        assert torch.equal(ops.shift(x, c), x + c)


def test_addresses_and_results_may_change(ops: ModuleType, device: torch.device) -> None:
    memory = torch.arange(33.0, device=device)
    aligned, shifted = memory[:32].view(2, 16), memory[1:].view(2, 16)
    out = torch.empty(2, 16, device=device)
    for x in (aligned, aligned, shifted, aligned, shifted, aligned):
        assert torch.equal(ops.shift(x, 2.0), x + 2)
        assert torch.equal(ops.shift(x, 3.0, out=out), x + 3)
    with pytest.raises(TypeError, match="out"):
        ops.shift(aligned, 2.0, out=())


def test_calls_of_the_reference_stay_calls_of_the_reference(ops: ModuleType, device: torch.device) -> None:
    """A reduction over leading dims that broadcast, which no kernel computes."""
    x, b = torch.ones(1, 2, device=device), torch.zeros(3, 2, device=device)
    for _ in range(3):
        assert torch.equal(ops.lead(x, b), torch.full((3, 2), 2.0, device=device))


def test_constants_have_no_signature(ops: ModuleType, device: torch.device) -> None:
    """What a kernel is compiled for must not be found by the type of a number."""
    entry = importlib.import_module(f"{ops.__name__}.scale_by")._ENTRY
    ops.scale_by(torch.ones(4, 16, device=device), 3.0)
    assert not entry.ready


@pytest.mark.filterwarnings(
    "ignore:`torch.jit.script`:DeprecationWarning"
)  # PyTorch's own, of its first dual tensor
def test_forward_tangents_are_refused(ops: ModuleType, device: torch.device) -> None:
    x = torch.ones(2, 16, device=device)
    ops.shift(x)
    ops.shift(x)
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(x, torch.ones_like(x))
        with pytest.raises(RuntimeError, match="shift: `x` has a forward-mode tangent"):
            ops.shift(dual)
        assert torch.equal(ops.shift(x), x + 1)


def test_one_row_that_ends_near_32_bits_is_wide() -> None:
    """The count of its tiles would overflow."""
    swish = importlib.import_module("generated.swish")
    for size, wide in ((2**31 - 8, True), (2**31 - 4096 - 8, False)):
        x = torch.empty(size, dtype=torch.bfloat16, device="meta")
        prepared = _launching._prepare(swish._ENTRY, {"x": x}, {}, {}, None)
        assert prepared is not None
        ((_, figures),) = prepared.launches
        assert (figures.dense, figures.wide) == (False, wide)
