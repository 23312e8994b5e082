"""Tuning of products at run time: what is timed, for whom the choice holds, and what becomes of configs that fail."""

import importlib
from collections.abc import Callable
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import pytest
import torch
from triton.runtime.errors import OutOfResources

from opgen.device.offline import record
from tests.behaviour.building import build_package

SPEC = """
op linear(x: T[M, K], w: T[N, K]) -> y: T[M, N] for T in {f16, f32} { y = x @ w }
op accumulate_(inout y: f32[M, N], x: f32[M, K], w: f32[N, K]) { y = y + x @ w }
"""


@dataclass
class Clock:
    """Stands for `do_bench`: launches twice, and counts milliseconds as it is told to."""

    time_of: Callable[[Any], float]
    timed: list[Any] = field(default_factory=list)

    def __call__(self, launch: Any, rep: int) -> float:
        config = launch.args[1].config
        self.timed.append(config)
        milliseconds = self.time_of(config)
        for _ in range(2):
            launch()
        return milliseconds


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    return build_package(SPEC, tmp_path_factory.mktemp("tuning"))


@pytest.fixture
def tuned(package: ModuleType, monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[Any], float]], Clock]:
    """Has the package time its configs by this clock; forgets what was chosen and planned before."""

    def install(time_of: Callable[[Any], float]) -> Clock:
        clock = Clock(time_of)
        monkeypatch.setattr(importlib.import_module(f"{package.__name__}._products"), "tunes", lambda _: True)
        monkeypatch.setattr(importlib.import_module(f"{package.__name__}._product_tuning"), "do_bench", clock)
        for name in package.__all__:
            entry = importlib.import_module(f"{package.__name__}.{name}")._ENTRY
            for memory in (
                entry.prepared,
                entry.ready,
                *(one.tuned for v in entry.variants for one in v.kernels),
            ):
                memory.clear()
        return clock

    return install


def operands(device: torch.device, m: int = 20, dtype: torch.dtype = torch.float32) -> tuple[Any, ...]:
    generator = torch.Generator().manual_seed(7)
    shapes = ((m, 48), (40, 48))
    return tuple(torch.randint(-4, 5, one, generator=generator).to(device, dtype) for one in shapes)


def test_each_config_is_timed_once_for_a_bucket(
    package: ModuleType, tuned: Any, device: torch.device
) -> None:
    """Tuning again for every new length (fla-org/flash-linear-attention#1147)."""
    clock = tuned(lambda config: 1.0)
    for m in (17, 32):
        x, w = operands(device, m, torch.float16)
        assert torch.equal(package.linear(x, w), (x.float() @ w.float().t()).half())
    assert len(clock.timed) == len(set(clock.timed)) > 1
    count = len(clock.timed)
    package.linear(*operands(device, 33, torch.float16))
    assert len(clock.timed) > count


def test_the_fastest_config_is_launched(package: ModuleType, tuned: Any, device: torch.device) -> None:
    clock = tuned(lambda config: 1.0 + (config.split == 1))
    x, w = operands(device, dtype=torch.float16)
    package.linear(x, w)
    best = next(config for config in clock.timed if config.split > 1)
    module = importlib.import_module(f"{package.__name__}.linear")
    launched, _ = record(module, {"x": x, "w": w}, {})
    constants = launched.keywords
    assert tuple(constants[f"BLOCK_{axis}"] for axis in "MNK") == best.tile
    assert (constants["SPLIT"], constants["num_warps"]) == (best.split, best.warps)


def test_element_types_have_choices_of_their_own(
    package: ModuleType, tuned: Any, device: torch.device
) -> None:
    """One dtype's config reused for another (triton-lang/triton#2534)."""
    clock = tuned(lambda config: 1.0)
    package.linear(*operands(device))
    count = len(clock.timed)
    x, w = operands(device, dtype=torch.float16)
    assert torch.equal(package.linear(x, w), (x.float() @ w.float().t()).half())
    assert len(clock.timed) > count


def test_what_is_updated_in_place_is_updated_once(
    package: ModuleType, tuned: Any, device: torch.device
) -> None:
    """Tuning runs an in-place kernel many times (triton-lang/triton#781)."""
    clock = tuned(lambda config: 1.0)
    x, w = operands(device)
    y = torch.ones(20, 40, device=device)
    package.accumulate_(y, x, w)
    assert clock.timed
    assert torch.equal(y, 1 + x @ w.t())


def test_configs_that_fail_are_left_out(package: ModuleType, tuned: Any, device: torch.device) -> None:
    """One bad config ends the tuning (pytorch/helion#1942)."""

    def out_of_resources(config: Any) -> float:
        if config.form == "vector" or config.split > 1:
            return 1.0
        raise OutOfResources(200_000, 101_376, "shared memory")

    tuned(out_of_resources)
    x, w = operands(device, 17, torch.float16)
    with pytest.warns(UserWarning, match=r"linear: .* configs are left out: .*200000"):
        assert torch.equal(package.linear(x, w), (x.float() @ w.float().t()).half())
    package.linear(x, w)  # and says so once


def test_no_config_is_left(package: ModuleType, tuned: Any, device: torch.device) -> None:
    def out_of_resources(config: Any) -> float:
        raise OutOfResources(200_000, 101_376, "shared memory")

    tuned(out_of_resources)
    with pytest.raises(RuntimeError, match=r"linear: no config .* can be launched: .*200000.*101376"):
        package.linear(*operands(device))
