"""Compiles generated kernels for a GPU that is not there: records launches, then runs Triton's compiler on them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import torch
from triton import compile as triton_compile
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from opgen.targets import Target

_POINTERS = {
    torch.float64: "*fp64",
    torch.float32: "*fp32",
    torch.float16: "*fp16",
    torch.bfloat16: "*bf16",
    torch.int64: "*i64",
    torch.int32: "*i32",
    torch.int16: "*i16",
    torch.int8: "*i8",
    torch.uint8: "*u8",
    torch.bool: "*i1",
}
_OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg")


@dataclass(frozen=True)
class Recorded:
    """A launch that was not made: the kernel and what it was called with."""

    kernel: Any
    arguments: tuple[Any, ...]
    keywords: Mapping[str, Any]


def record(
    module: ModuleType,
    tensors: Mapping[str, torch.Tensor | None],
    scalars: Mapping[str, Any],
    config: Any = None,
) -> tuple[Recorded, ...]:
    """The launches that a generated op would make for tensors of the meta device, which hold no memory."""
    entry = module._ENTRY  # noqa: SLF001 - the declaration of the op, with its kernels
    found: list[Recorded] = []

    def via(kernel: Any) -> _Recorder:
        return _Recorder(kernel, found)

    module.rt.compute(entry, tensors, scalars, {}, config=config, via=via)
    return tuple(found)


@dataclass(frozen=True)
class _Recorder:
    kernel: Any
    found: list[Recorded]

    def __getitem__(self, grid: Any) -> Callable[..., None]:
        def launch(*arguments: Any, **keywords: Any) -> None:
            self.found.append(Recorded(self.kernel, arguments, keywords))

        return launch


def compile_recorded(launch: Recorded, target: Target) -> Any:
    """The compiled kernel of a launch, as Triton gives it: `asm`, `metadata.shared` (bytes), …

    Pointers count as divisible by 16, and other integers by what they are, as Triton's own launcher sees them.
    """
    names = [param.name for param in launch.kernel.params]
    values = dict(zip(names, launch.arguments, strict=False))  # the rest is given by name
    options = {name: value for name, value in launch.keywords.items() if name in _OPTIONS}
    values |= {name: value for name, value in launch.keywords.items() if name not in _OPTIONS}
    signature: dict[str, str] = {}
    constants: dict[tuple[int, ...], Any] = {}
    attributes: dict[tuple[int, ...], Any] = {}
    for place, param in enumerate(launch.kernel.params):
        value = values[param.name]
        signature[param.name] = kind = "constexpr" if param.is_constexpr else _kind(value)
        if kind == "constexpr":
            constants[(place,)] = value
        elif kind.startswith("*") or _is_known_multiple(param, value):
            attributes[(place,)] = [["tt.divisibility", 16]]
    source = ASTSource(launch.kernel, signature, constants, attributes)
    return triton_compile(source, target=gpu_target(target), options=options)


def gpu_target(target: Target) -> GPUTarget:
    """A target as Triton names it."""
    if target.is_amd:
        return GPUTarget("hip", target.name, target.warp_size)
    return GPUTarget("cuda", int(target.name.removeprefix("sm_")), target.warp_size)


def _kind(value: Any) -> str:
    if value is None:
        return "constexpr"
    if isinstance(value, torch.Tensor):
        return _POINTERS[value.dtype]
    if isinstance(value, bool):
        return "i1"
    if isinstance(value, int):
        return "i32" if -(2**31) <= value < 2**31 else "i64"
    return "fp32"


def _is_known_multiple(param: Any, value: Any) -> bool:
    return isinstance(value, int) and not param.do_not_specialize and value % 16 == 0
