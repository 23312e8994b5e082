"""Calls as PyTorch's compiler traces them, on fake tensors of a GPU: no kernel is compiled or run.

Where sizes are unknown, the guards say for which ones a compiled graph holds. They may be ranges and divisors; a size
that is pinned to a number would mean a new graph for each.
"""

import importlib
from typing import Any

import pytest
import sympy
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext

import generated
from opgen.device.calls import calls
from opgen.device.launches import standing_in
from opgen.targets import TARGETS


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


@pytest.mark.compile
@pytest.mark.parametrize(
    "dim", [DimDynamic.STATIC, DimDynamic.DYNAMIC], ids=lambda dim: str(dim.name).lower()
)
@pytest.mark.parametrize("name", generated.__all__)
def test_calls_are_traced(name: str, dim: DimDynamic, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)  # as builds without CUDA have none
    module = importlib.import_module(f"generated.{name}")
    call_operator = importlib.import_module("generated._registration").call_operator
    tried = [call for call in calls(module, []) if call.is_even]
    for call in tried[:: max(len(tried) // 3, 1)]:
        environment = ShapeEnv()
        mode = FakeTensorMode(shape_env=environment)
        given = {
            name: faked(value, mode, dim) if isinstance(value, torch.Tensor) else value
            for name, value in {**call.tensors, **call.scalars, **call.consts}.items()
        }
        with standing_in(module, TARGETS["sm_90"]), mode:
            results = call_operator(module._ENTRY, given)
        assert all(result.device.type == "cuda" for result in results)
        assert not pinned(environment), call.label
