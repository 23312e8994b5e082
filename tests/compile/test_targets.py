"""Every elementwise kernel of the shipped ops compiles for every target, on a machine with no GPU.

`test_products.py` compiles products with their configs, and `opgen vet` everything. All pairs of kernel and target are
covered; of each pair's layouts and element types one is taken in turn, so that together the pairs cover all of them.
"""

from __future__ import annotations

import importlib
import itertools
from types import ModuleType
from typing import Any

import pytest
import torch

import generated
from opgen.device.offline import Recorded, compile_recorded, record
from opgen.targets import TARGETS

SIZES = {"N": 256, "D": 64, "V": 100, "P": 50, "S": 16, "H": 4}


def arguments(module: ModuleType, leading: tuple[int, ...], choice: int, turned: bool) -> dict[str, Any]:
    """Tensors of the meta device for an op's parameters, and a number for each scalar."""
    op = module._ENTRY.operator
    types = {name: known[choice % len(known)] for name, known in op.variables.items()}
    result: dict[str, Any] = {}
    for number, spec in enumerate(op.inputs):
        shape = [
            size
            for one in spec.parsed
            for size in (leading if one.name == "..." else (one.size(SIZES[one.name]),))
        ]
        dtype = types.get(spec.element) or module.rt.DTYPES[spec.element]
        tensor = torch.empty(shape, dtype=dtype, device="meta")
        if turned and number == 0 and tensor.dim() > 1:
            tensor = tensor.transpose(-1, -2).contiguous().transpose(-1, -2)
        result[spec.name] = tensor
    return result


def launches(name: str) -> list[Recorded]:
    """The launches of an op over layouts and element types."""
    module = importlib.import_module(f"generated.{name}")
    op = module._ENTRY.operator
    scalars = {spec.name: 0.5 if spec.type.startswith(("f", "bf")) else 3 for spec in op.scalars}
    widest = max((len(types) for types in op.variables.values()), default=1)
    found: list[Recorded] = []
    for choice, (leading, turned) in itertools.product(range(widest), [((4096,), False), ((64, 33), True)]):
        tensors = arguments(module, leading, choice, turned)
        found += record(module, tensors, {key: value for key, value in scalars.items() if key not in tensors})
    return found


def is_elementwise(name: str) -> bool:
    module = importlib.import_module(f"generated.{name}")
    kernels = [kernel for variant in module._ENTRY.variants for kernel in variant.kernels]
    return all(isinstance(kernel, module.rt.Kernel) for kernel in kernels)


@pytest.mark.compile
@pytest.mark.parametrize("name", [name for name in generated.__all__ if is_elementwise(name)])
def test_kernels_compile_for_every_target(name: str) -> None:
    found = launches(name)
    assert found
    for number, target in enumerate(TARGETS.values()):
        compiled = compile_recorded(found[number % len(found)], target)
        assert compiled.metadata.shared <= target.shared_bytes
