"""Names beyond ASCII, which assemblers of GPUs refuse in what they are given."""

import importlib
from pathlib import Path

import pytest
import torch

from opgen.device.launches import standing_in
from opgen.device.offline import compile_recorded, record
from opgen.emit.names import module_name
from opgen.targets import TARGETS, Target
from tests.behaviour.building import build_package

SPEC = """
op é(ß: f32[N], ü: f32 = 1.0) -> ö: f32[N] { ö = ß * ü }
op ñ(ß: f32[É, N]) -> ö: f32[É] { ö = sum[N](ß) }
op 積(ß: f32[É, N], ü: f32[K, N]) -> ö: f32[É, K] { ö = ß @ ü }
"""


@pytest.mark.compile
@pytest.mark.parametrize("target", [TARGETS["sm_90"], TARGETS["gfx942"]], ids=lambda target: target.name)
def test_kernels_compile(tmp_path: Path, target: Target) -> None:
    package = build_package(SPEC, tmp_path)
    for op in package.__all__:
        module = importlib.import_module(f"{package.__name__}.{module_name(op)}")
        given = {
            spec.name: torch.empty((64,) * len(spec.dims), device="meta")
            for spec in module._ENTRY.operator.inputs
        }
        with standing_in(module, target):
            launches = record(module, given, {spec.name: 1.0 for spec in module._ENTRY.operator.scalars})
        assert launches
        for launch in launches:
            compile_recorded(launch, target)
