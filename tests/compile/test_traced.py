"""Calls as PyTorch's compiler traces them, on fake tensors of a GPU: no kernel is compiled or run.

Where sizes are unknown, the guards say for which ones a compiled graph holds. They may be ranges and divisors; a size
that is pinned to a number would mean a new graph for each.
"""

import importlib
from types import ModuleType
from typing import Any

import pytest
import sympy
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext

import generated
from opgen.device.calls import Call, calls
from opgen.device.launches import standing_in
from opgen.targets import TARGETS
from tests.behaviour.building import build_package

#: What no shipped op has.
SPECS = """
op batches(q: T[B, H, S, D], k: T[B, H, K, D]) -> y: T[B, H, S, K] { y = q @ k * 0.125 }
op chained(q: T[B, S, D], k: T[B, P, D], v: T[B, P, E]) -> y: T[B, S, E] { p: T = softmax[P](q @ k) y = p @ v }
op deep(x: T[M, K], w: T[N, K]) -> y: T[M, N] { y = x @ w tile { split = 4 } }
op packed(w: i4[N, K], s: T[N, K / 32]) -> y: T[N, K] { y = w * s }
op paged(cache: T[P, H, D], table: i32[B, S]) -> y: T[B, S, H, D] { y = cache[P: table] }
op updated(inout p: f32[...], inout m: f32[...], g: T[...]) { m = 0.9 * m + g  p = p - m }
op whole(x: T[B, C, H, W], g: T[C] = 1) -> (y: T[B, C, H, W], i: i64[C]) {
  i = argmax[B, H, W](x)
  y = (x - mean[B, H, W](x)) * g
}
"""
OPS = ("batches", "chained", "deep", "packed", "paged", "updated", "whole")
_ORDERINGS = (sympy.Lt, sympy.Le, sympy.Gt, sympy.Ge)
DIMS = pytest.mark.parametrize(
    "dim", [DimDynamic.STATIC, DimDynamic.DYNAMIC], ids=lambda dim: str(dim.name).lower()
)


def faked(tensor: torch.Tensor, mode: Any, dim: DimDynamic) -> torch.Tensor:
    """A fake tensor on a GPU, like one of the meta device."""
    context = StatelessSymbolicContext(dynamic_sizes=[dim] * tensor.dim())
    sizes = mode.from_tensor(torch.empty(tensor.shape, device="meta"), symbolic_context=context).shape
    order = sorted(range(tensor.dim()), key=tensor.stride)
    with mode:
        dense = torch.empty([sizes[place] for place in reversed(order)], dtype=tensor.dtype, device="cuda")
        return dense.permute([list(reversed(order)).index(place) for place in range(tensor.dim())])


def pinned(environment: ShapeEnv) -> list[Any]:
    """Guards by which a size is one number alone, and not a multiple of one."""
    found = [guard.expr for guard in environment.guards if isinstance(guard.expr, sympy.Eq)]
    return [one for one in found if len(one.free_symbols) == 1 and not one.atoms(sympy.Function)]


def ordered(environment: ShapeEnv) -> list[Any]:
    """Guards by which a size is not larger than another one."""
    found = [guard.expr for guard in environment.guards if isinstance(guard.expr, _ORDERINGS)]
    return [one for one in found if one.lhs.is_Symbol and one.rhs.is_Symbol]


def check_traced(module: ModuleType, call: Call, dim: DimDynamic) -> None:
    registration = importlib.import_module(f"{module.__name__.rpartition('.')[0]}._registration")
    environment = ShapeEnv()
    mode = FakeTensorMode(shape_env=environment)
    given = {
        name: faked(value, mode, dim) if isinstance(value, torch.Tensor) else value
        for name, value in {**call.tensors, **call.scalars, **call.consts}.items()
    }
    with standing_in(module, TARGETS["sm_90"]), mode:
        results = registration.call_operator(module._ENTRY, given)
    assert all(result.device.type == "cuda" for result in results)
    assert not pinned(environment), call.label
    assert not ordered(environment), call.label


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    return build_package(SPECS, tmp_path_factory.mktemp("traced"))


@pytest.mark.compile
@DIMS
@pytest.mark.parametrize("name", generated.__all__)
def test_calls_are_traced(name: str, dim: DimDynamic, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)  # as builds without CUDA have none
    module = importlib.import_module(f"generated.{name}")
    tried = [call for call in calls(module, []) if call.is_even]
    apart = max(len(tried) // (1 if dim is DimDynamic.STATIC else 2), 1)
    for call in tried[::apart]:
        check_traced(module, call, dim)


@pytest.mark.compile
@DIMS
@pytest.mark.parametrize("name", OPS)
def test_calls_of_other_kinds_are_traced(
    name: str, dim: DimDynamic, package: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    module = importlib.import_module(f"{package.__name__}.{name}")
    tried = [call for call in calls(module, []) if call.is_even]
    check_traced(module, tried[0], dim)


@pytest.mark.compile
def test_a_short_last_dim_is_not_pinned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Columns of few elements are folded; that they are a power of two does not count where it is a symbol."""
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    environment = ShapeEnv()
    mode = FakeTensorMode(shape_env=environment)
    context = StatelessSymbolicContext(dynamic_sizes=[DimDynamic.DYNAMIC] * 3)
    given = mode.from_tensor(torch.empty(100, 48, 16, device="meta"), symbolic_context=context)
    rows, step, columns = given.shape
    module = importlib.import_module("generated.swish")
    registration = importlib.import_module("generated._registration")
    with standing_in(module, TARGETS["sm_90"]), mode:
        x = torch.empty_strided((rows, columns), (step, 1), dtype=torch.float32, device="cuda")
        (y,) = registration.call_operator(module._ENTRY, {"x": x, "beta": 1.0})
    assert y.shape == x.shape
    assert not pinned(environment)
