"""What `opgen advise` counts of an op without a reference is what PyTorch launches for the generated one."""

from pathlib import Path

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from opgen.advise.setting import settings
from opgen.advise.work import work
from opgen.device.load import load_sources
from opgen.source import Source

#: What takes no kernel: views, and what only allocates or asks for sizes.
VIEWS = set(
    "view reshape expand unsqueeze squeeze transpose permute t alias detach _unsafe_view empty".split()
)

SPEC = """
op rms(x: T[..., C], weight: T[C], eps: f32 = 1e-6) -> y: T[..., C] { y = rms_norm[C](x, eps) * weight }
op centred(x: T[..., C]) -> y: T[..., C] { y = x - mean[C](x) }
op scaled(x: T[..., C], s: f32[C], b: T[C]) -> y: T[..., C] { y = (x * s + b) * x }
"""


class _Launches(TorchDispatchMode):  # type: ignore[misc]  # PyTorch has no types here
    """Counts the operators that reach PyTorch's kernels."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        name = func.overloadpacket.__name__
        if name not in VIEWS:
            self.names.append(name)
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize(("name", "shapes"), [("rms", (8,)), ("centred", ()), ("scaled", (8, 8))])
def test_kernels_of_the_generated_reference(name: str, shapes: tuple[int, ...]) -> None:
    def read(path: str) -> Source:
        return Source(path, Path(path).read_text(encoding="utf-8"))

    build, package = load_sources([Source("counted.op", SPEC)], read)
    module = __import__(f"{package.__name__}.{name}", fromlist=[name])
    op = next(op.ir for spec in build.specs for op in spec.ops if op.ir.name == name)
    fixed = {"scaled": torch.float32}
    tensors = [torch.ones(4, 8, dtype=torch.bfloat16)]
    for place, size in enumerate(shapes):
        tensors.append(
            torch.ones(size, dtype=fixed.get(name, torch.bfloat16) if place == 0 else torch.bfloat16)
        )
    with _Launches() as seen:
        module.reference(*tensors)
    (setting,) = settings(op, ["...=4", "C=8"], ["bf16"])
    assert len(work(setting).eager) == len(seen.names), seen.names
