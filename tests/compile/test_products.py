"""Every config that product tables name compiles for its target, in the shared memory that the planner counted.

A sample, unless `OPGEN_ALL_CONFIGS=1` is set: every sixth pair of op and target, and one of its configs in turn.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from dataclasses import replace
from types import ModuleType
from typing import Any

import pytest
import torch

from opgen.device.offline import compile_recorded, record
from opgen.plan.model import ProductConfig
from opgen.plan.product_budget import Work, shared_bytes
from opgen.targets import TARGETS
from tests.behaviour.building import build_package

SPECS = """
op linear(x: T[..., K], w: T[N, K], b: T[N] = 0) -> y: T[..., N] { y = silu(x @ w + b) }
op gated(x: T[..., K], wg: T[N, K], wu: T[N, K]) -> y: T[..., N] { y = silu(x @ wg) * (x @ wu) }
op doubles(x: f64[M, K], w: f64[N, K]) -> y: f64[M, N] { y = x @ w }
op eights(x: i8[M, K], w: i8[N, K], s: f32[N]) -> y: f32[M, N] { y = (x @ w) * s }
op floats8(x: f8e4m3[M, K], w: f8e4m3[N, K]) -> y: bf16[M, N] { y = x @ w }
op integers(x: i32[M, K], w: i32[N, K]) -> y: i32[M, N] { y = x @ w }
op prologue(x: T[M, K], s: T[K], w: T[N, K]) -> y: T[M, N] { y = cast(exp(x * s), T) @ w }
op narrow(x: T[M, K], w: i4[N, K], s: f32[N]) -> y: T[M, N] { y = (x @ w) * s }
"""
#: By op and class of types: the element type of x, and what the planner is told of the product.
CASES = {
    ("linear", "half"): (torch.bfloat16, Work("half", 2, 2, 2, 4, 2)),
    ("linear", "f32"): (torch.float32, Work("f32", 4, 4, 4, 4, 4)),
    ("gated", "half"): (torch.float16, Work("half", 2, 2, 4, 4, 2, 2)),
    ("doubles", "f64"): (torch.float64, Work("f64", 8, 8, 8, 8, 8)),
    ("eights", "i8"): (torch.int8, Work("i8", 1, 1, 1, 4, 4)),
    ("floats8", "f8"): (torch.float8_e4m3fn, Work("f8", 1, 1, 1, 4, 2)),
    ("integers", "int"): (torch.int32, Work("int", 4, 4, 4, 4, 4)),
    ("prologue", "half"): (torch.float16, Work("half", 2, 6, 2, 4, 2, 1, True, left_copy=2)),
    ("narrow", "half"): (torch.bfloat16, Work("half", 2, 2, 3, 4, 2, right_copy=2)),
}
ALL = os.environ.get("OPGEN_ALL_CONFIGS") == "1"


@pytest.fixture(scope="module")
def ops(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    return build_package(SPECS, tmp_path_factory.mktemp("compiled_products"))


def arguments(op: str, dtype: torch.dtype, rows: int) -> dict[str, torch.Tensor | None]:
    def tensor(*shape: int, of: torch.dtype = dtype) -> torch.Tensor:
        return torch.empty(shape, dtype=of, device="meta")

    x, w = tensor(rows, 512), tensor(1024, 512)
    match op:
        case "linear":
            return {"x": x, "w": w, "b": tensor(1024)}
        case "gated":
            return {"x": x, "wg": w, "wu": w}
        case "eights":
            return {"x": x, "w": w, "s": tensor(1024, of=torch.float32)}
        case "prologue":
            return {"x": x, "s": tensor(512), "w": w}
        case "narrow":
            return {"x": x, "w": tensor(1024, 256, of=torch.uint8), "s": tensor(1024, of=torch.float32)}
    return {"x": x, "w": w}


def emitted(module: ModuleType, target: str, kind: str) -> Iterator[Any]:
    """The configs that a module's table names for a target and a class of types, each once."""
    yield from dict.fromkeys(one for band in module._CONFIGS[target][kind] for one in band.configs)


def pairs() -> list[tuple[tuple[str, str], str]]:
    """Cases and targets: all of them, or every sixth, so that each case and each target has its turn."""
    found = list(itertools.product(CASES, TARGETS))
    return found if ALL else [pair for place, pair in enumerate(found) if place % 6 == 0]


@pytest.mark.compile
@pytest.mark.parametrize(
    ("case", "name"), pairs(), ids=lambda part: part if isinstance(part, str) else "-".join(part)
)
def test_emitted_configs_compile(
    case: tuple[str, str], name: str, ops: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    (op, kind), target = case, TARGETS[name]
    dtype, work = CASES[case]
    module = __import__(f"{ops.__name__}.{op}", fromlist=["_ENTRY"])
    if target.has_f8 and not target.is_amd:
        monkeypatch.setattr(module.rt, "f8", lambda tensor: tensor)
    configs = list(emitted(module, target.name, kind))
    assert configs
    turn = (list(CASES).index(case) + list(TARGETS).index(target.name)) % len(configs)
    for config in configs if ALL else configs[turn : turn + 1]:
        own = ProductConfig(**{name: getattr(config, name) for name in ProductConfig.__dataclass_fields__})
        pointers = replace(config, strategy="pointers") if config.strategy == "library" else config
        for launch in record(module, arguments(op, dtype, 64), {}, config=pointers):
            shared = compile_recorded(launch, target).metadata.shared
            assert shared <= target.shared_bytes
            if "finish" not in launch.kernel.fn.__name__:
                assert shared <= shared_bytes(own, work, target), (own, shared)


@pytest.mark.compile
@pytest.mark.parametrize(
    ("depth", "tile"),
    [(512, (128, 256, 64)), (511, (128, 128, 32))],
    ids=["wide", "element by element"],
)
def test_operands_that_are_read_element_by_element_take_small_tiles(
    depth: int, tile: tuple[int, int, int], ops: ModuleType
) -> None:
    """A step of 64 of them would take 288 registers of a thread for addresses and values, beside 128 sums."""
    module = __import__(f"{ops.__name__}.linear", fromlist=["_ENTRY"])
    x, w = (torch.empty((rows, depth), dtype=torch.bfloat16, device="meta") for rows in (256, 1024))
    config = module.rt.ProductConfig((128, 256, 64), 8, 3)
    (launch,) = record(module, {"x": x, "w": w, "b": None}, {}, config=config)
    assert tuple(launch.keywords[f"BLOCK_{side}"] for side in "MNK") == tile
    assert compile_recorded(launch, TARGETS["sm_90"]).metadata.shared > 0
