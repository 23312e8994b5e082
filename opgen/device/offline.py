"""Compiles generated kernels for a GPU that is not there: records launches, then runs Triton's compiler on them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from hashlib import sha256
from types import ModuleType
from typing import Any

import torch
import triton.language as tl
from triton import JITFunction
from triton import compile as triton_compile
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from opgen.targets import Target

_ELEMENTS = {
    torch.float64: "fp64",
    torch.float32: "fp32",
    torch.float16: "fp16",
    torch.bfloat16: "bf16",
    torch.float8_e4m3fn: "fp8e4nv",
    torch.float8_e5m2: "fp8e5",
    torch.int64: "i64",
    torch.int32: "i32",
    torch.int16: "i16",
    torch.int8: "i8",
    torch.uint8: "u8",
    torch.bool: "i1",
}
_DIVISOR = 16

Place = tuple[int, ...]


class Alignment(Enum):
    """What the compiler is told of pointers and integers, as Triton's own launcher tells it from a call's values."""

    DIVISIBLE = "divisible by 16"  # pointers, and the integers that are
    ONE = "equal to 1"  # every integer is 1, which PyTorch's compiler makes a constant whatever a kernel says
    NEITHER = "neither"  # nothing is a multiple of 16; what was recorded as 1 is


@dataclass(frozen=True)
class Recorded:
    """A launch that was not made: the kernel and what it was called with."""

    kernel: Any
    arguments: tuple[Any, ...]
    keywords: Mapping[str, Any]


@dataclass(frozen=True)
class Job:
    """All that a compilation depends on: the kernel's text with that of what it calls (`source`, a digest), the type
    of each parameter, the constants, the parameters that are multiples of 16, the options and the target."""

    module: str
    kernel: str
    source: str
    signature: tuple[tuple[str, str], ...]
    constants: tuple[tuple[Place, Any], ...]
    divisible: tuple[Place, ...]
    options: tuple[tuple[str, Any], ...]
    target: str

    @property
    def key(self) -> str:
        """A digest of it; the same for the same kernel in a package of another name."""
        return sha256(repr(replace(self, module="")).encode()).hexdigest()

    def option(self, name: str, default: int) -> int:
        return int(dict(self.options).get(name, default))


def record(
    module: ModuleType,
    tensors: Mapping[str, torch.Tensor | None],
    scalars: Mapping[str, Any],
    config: Any = None,
    *,
    consts: Mapping[str, Any] | None = None,
    entry: Any = None,
) -> tuple[Recorded, ...]:
    """The launches that a generated op would make for tensors of the meta device, which hold no memory.

    `entry` stands for the module's own declaration of the op, if given.
    """
    entry = entry or module._ENTRY  # noqa: SLF001 - the declaration of the op, with its kernels
    found: list[Recorded] = []

    def via(kernel: Any) -> _Recorder:
        return _Recorder(kernel, found)

    module.rt.compute(entry, tensors, scalars, consts or {}, config=config, via=via)
    return tuple(found)


@dataclass(frozen=True)
class _Recorder:
    kernel: Any
    found: list[Recorded]

    def __getitem__(self, grid: Any) -> Callable[..., None]:
        def launch(*arguments: Any, **keywords: Any) -> None:
            self.found.append(Recorded(self.kernel, arguments, keywords))

        return launch


def job_of(launch: Recorded, target: Target, alignment: Alignment = Alignment.DIVISIBLE) -> Job:
    """What Triton's launcher would compile for a launch on a target."""
    params = launch.kernel.params
    names = {param.name for param in params}
    values = dict(zip((param.name for param in params), launch.arguments, strict=False))
    values |= {name: value for name, value in launch.keywords.items() if name in names}
    signature: list[tuple[str, str]] = []
    constants: list[tuple[Place, Any]] = []
    divisible: list[Place] = []
    for place, param in enumerate(params):
        value = values.get(param.name, param.default)
        kind = "constexpr" if param.is_constexpr else _kind(value)
        if _is_specialised_one(param, value, alignment):
            kind, value = "constexpr", 1
        if kind == "constexpr":
            constants.append(((place,), value))
        elif alignment is not Alignment.NEITHER and _is_multiple(param, kind, value):
            divisible.append((place,))
        signature.append((param.name, kind))
    return Job(
        launch.kernel.fn.__module__,
        launch.kernel.fn.__name__,
        _digest(launch.kernel),
        tuple(signature),
        tuple(constants),
        tuple(divisible),
        tuple(sorted((name, value) for name, value in launch.keywords.items() if name not in names)),
        target.name,
    )


@functools.cache
def _digest(kernel: Any) -> str:
    """A digest of a kernel's text and of that of what it calls, with the constants that these name.

    Unlike Triton's `cache_key`, it does not change with the lines at which these stand in their files.
    """
    texts: dict[str, str] = {}
    waiting = [kernel]
    while waiting:
        one = waiting.pop()
        name = f"{one.fn.__module__.rpartition('.')[2]}.{one.fn.__name__}"
        if name in texts:
            continue
        named = {key: one.fn.__globals__.get(key) for key in sorted(set(one.fn.__code__.co_names))}
        waiting += [value for value in named.values() if isinstance(value, JITFunction)]
        constants = {key: value.value for key, value in named.items() if isinstance(value, tl.constexpr)}
        texts[name] = f"{one.src} {constants}"
    return sha256(repr(sorted(texts.items())).encode()).hexdigest()


def source_of(kernel: Any, job: Job) -> ASTSource:
    """A job's kernel with its types and constants, as Triton's compiler takes it."""
    attributes = {place: [["tt.divisibility", _DIVISOR]] for place in job.divisible}
    return ASTSource(kernel, dict(job.signature), dict(job.constants), attributes)


def compile_job(source: ASTSource, job: Job, target: Target) -> Any:
    """The compiled kernel as Triton gives it: `asm`, `metadata.shared` (bytes), …"""
    return triton_compile(source, target=gpu_target(target), options=dict(job.options))


def compile_recorded(launch: Recorded, target: Target) -> Any:
    """The compiled kernel of a launch; pointers count as divisible by 16, and integers by what they are."""
    job = job_of(launch, target)
    return compile_job(source_of(launch.kernel, job), job, target)


def gpu_target(target: Target) -> GPUTarget:
    """A target as Triton names it."""
    if target.is_amd:
        return GPUTarget("hip", target.name, target.warp_size)
    return GPUTarget("cuda", int(target.name.removeprefix("sm_")), target.warp_size)


def _kind(value: Any) -> str:
    if value is None:
        return "constexpr"
    if isinstance(value, torch.Tensor):
        return f"*{_ELEMENTS[value.dtype]}"
    if hasattr(value, "block_shape"):  # a tensor descriptor made by the host
        block = ", ".join(map(str, value.block_shape))
        return f"tensordesc<{_ELEMENTS[value.base.dtype]}[{block}]>"
    if isinstance(value, bool):
        return "i1"
    if isinstance(value, int):
        return "i32" if -(2**31) <= value < 2**31 else "i64"
    return "fp32"


def _is_specialised_one(param: Any, value: Any, alignment: Alignment) -> bool:
    if isinstance(value, bool) or not isinstance(value, int) or param.is_constexpr:
        return False
    return alignment is Alignment.ONE or (value == 1 and not param.do_not_specialize)


def _is_multiple(param: Any, kind: str, value: Any) -> bool:
    if param.do_not_specialize_on_alignment:
        return False
    if kind.startswith("*"):
        return True
    is_integer = isinstance(value, int) and not isinstance(value, bool)
    return is_integer and not param.do_not_specialize and value % _DIVISOR == 0
