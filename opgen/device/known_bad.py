"""Combinations of GPU, driver and libraries that are known not to work, or not fully: one row each, with its source."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from opgen.device.machine import Gpu, Machine, version_numbers

OLDEST_TRITON = (3, 6)
_OLDEST_TORCH = (2, 11)
_OLDEST_CAPABILITY = 75
#: The driver that each major version of CUDA needs at least, on Linux.
_LEAST_DRIVER = {11: 450, 12: 525, 13: 580}


class Weight(Enum):
    """How much a combination takes away: nothing runs on the GPU, or some things do not."""

    BROKEN = "broken"
    LIMITED = "limited"


@dataclass(frozen=True)
class Combination:
    """A known combination. `applies` gives what of this machine it is about, or None.

    `source` is a public address, or "measured" with the versions that it was seen on.
    """

    code: str
    weight: Weight
    applies: Callable[[Machine], str | None]
    consequence: str
    remedy: str
    source: str


# --- the libraries ------------------------------------------------------------------------------


def _torch_broken(machine: Machine) -> str | None:
    return machine.torch.fault and f"torch is installed and cannot be imported: {machine.torch.fault}"


def _triton_broken(machine: Machine) -> str | None:
    return machine.triton.fault and f"triton is installed and cannot be imported: {machine.triton.fault}"


def _torch_missing(machine: Machine) -> str | None:
    missing = machine.torch.version is None and machine.torch.fault is None
    return "torch is not installed" if missing else None


def _triton_missing(machine: Machine) -> str | None:
    missing = machine.triton.version is None and machine.triton.fault is None
    return f"torch {machine.torch.version} without triton" if missing and machine.torch.version else None


def _triton_old(machine: Machine) -> str | None:
    old = machine.triton.version is not None and not machine.triton.at_least(*OLDEST_TRITON)
    return f"triton {machine.triton.version}" if old else None


def _torch_old(machine: Machine) -> str | None:
    old = machine.torch.version is not None and not machine.torch.at_least(*_OLDEST_TORCH)
    return f"torch {machine.torch.version}" if old else None


def _no_descriptors(machine: Machine) -> str | None:
    lacks = machine.triton.facts.get("descriptors") is False
    return f"triton {machine.triton.version} has no tl.make_tensor_descriptor" if lacks else None


def _numpy_and_interpreter(machine: Machine) -> str | None:
    triton, numpy = machine.triton.version, machine.numpy.version
    if triton is None or numpy is None or machine.triton.at_least(3, 7):
        return None
    return f"triton {triton} with numpy {numpy}" if machine.numpy.at_least(2, 4) else None


def _numpy_missing(machine: Machine) -> str | None:
    missing = machine.triton.version is not None and machine.numpy.version is None
    return f"triton {machine.triton.version}, and numpy is {machine.numpy.text}" if missing else None


def _other_triton(machine: Machine) -> str | None:
    pinned, found = machine.torch_pins, machine.triton.version
    differs = pinned and found and version_numbers(pinned) != version_numbers(found)
    return (
        f"torch {machine.torch.version} asks for triton {pinned}, and {found} is installed"
        if differs
        else None
    )


def _other_system(machine: Machine) -> str | None:
    return None if machine.system.startswith("Linux") else machine.system


# --- the GPU ------------------------------------------------------------------------------------


def _driver_old(machine: Machine) -> str | None:
    built_for = machine.torch.facts.get("cuda")
    if not built_for or machine.driver is None:
        return None
    major = version_numbers(built_for)[0]
    least = _LEAST_DRIVER.get(major)
    if least is None or version_numbers(machine.driver)[0] >= least:
        return None
    return f"torch built for CUDA {built_for} needs a driver from {least} on, and this is {machine.driver}"


def _torch_without_gpu(machine: Machine) -> str | None:
    about = machine.torch
    lacks = about.version is not None and not about.facts.get("cuda") and not about.facts.get("hip")
    return (
        f"{machine.gpus[0].name}, and torch {about.version} is a CPU build"
        if machine.gpus and lacks
        else None
    )


def _torch_without_architecture(machine: Machine) -> str | None:
    built = machine.torch.facts.get("architectures") or []
    for gpu in machine.gpus:
        if built and not any(_runs(one, gpu.architecture) for one in built):
            return f"{gpu.name} ({gpu.architecture}), and torch is built for {', '.join(built)}"
    return None


def _runs(built: str, architecture: str) -> bool:
    """Whether code built for an architecture runs on another: machine code on later minors, `compute_` on all later."""
    have, own = _capability(built), _capability(architecture)
    if have is None or own is None:
        return built == architecture
    if built.startswith("compute_"):
        return have <= own
    return have // 10 == own // 10 and have <= own


def _capability(architecture: str) -> int | None:
    """90 of `sm_90`, `sm_90a` and `compute_90`; None for a GPU of another maker."""
    match = re.fullmatch(r"(?:sm|compute)_(\d+)[a-z]?", architecture)
    return int(match[1]) if match else None


def _found(machine: Machine, condition: Callable[[Gpu], bool]) -> str | None:
    return next((f"{gpu.name} ({gpu.architecture})" for gpu in machine.gpus if condition(gpu)), None)


def _volta(machine: Machine) -> str | None:
    return _found(machine, lambda gpu: (_capability(gpu.architecture) or 999) < _OLDEST_CAPABILITY)


def _turing(machine: Machine) -> str | None:
    if machine.triton.version is not None and not machine.triton.at_least(3, 3):
        return None
    return _found(machine, lambda gpu: gpu.architecture == "sm_75")


def _blackwell(machine: Machine) -> str | None:
    if machine.triton.version is None or machine.triton.at_least(3, 3):
        return None
    name = _found(machine, lambda gpu: (_capability(gpu.architecture) or 0) >= 120)
    return name and f"{name} with triton {machine.triton.version}"


def _no_compiler(machine: Machine) -> str | None:
    if not machine.gpus or machine.triton.version is None:
        return None
    if machine.c_compiler is None:
        return "no C compiler: neither CC nor gcc nor clang"
    return None if machine.has_python_headers else "Python.h is missing"


COMBINATIONS: tuple[Combination, ...] = (
    Combination(
        "torch-broken",
        Weight.BROKEN,
        _torch_broken,
        "no generated op can be called",
        "reinstall it: pip install --force-reinstall 'torch>=2.11'",
        "measured: the import was tried in a process of its own",
    ),
    Combination(
        "triton-broken",
        Weight.BROKEN,
        _triton_broken,
        "no generated op can be called",
        "reinstall it: pip install --force-reinstall 'triton>=3.6'",
        "measured: the import was tried in a process of its own",
    ),
    Combination(
        "torch-missing",
        Weight.LIMITED,
        _torch_missing,
        "opgen builds specs; generated ops cannot be called here",
        "pip install 'opgen[run]'",
        "https://pytorch.org/get-started/locally/",
    ),
    Combination(
        "triton-missing",
        Weight.BROKEN,
        _triton_missing,
        "generated modules cannot be imported: CPU builds of torch do not bring Triton",
        "pip install 'triton>=3.6'",
        "measured: torch 2.13.0+cpu installs no triton",
    ),
    Combination(
        "triton-old",
        Weight.BROKEN,
        _triton_old,
        "generated kernels are written for Triton 3.6 and later, and tested on no earlier one",
        "pip install --upgrade 'triton>=3.6', with the torch that asks for it",
        "https://github.com/triton-lang/triton/releases",
    ),
    Combination(
        "torch-old",
        Weight.BROKEN,
        _torch_old,
        "generated modules are written for torch 2.11 and later, and tested on no earlier one",
        "pip install --upgrade 'torch>=2.11'",
        "https://github.com/pytorch/pytorch/blob/main/RELEASE.md",
    ),
    Combination(
        "triton-not-pinned",
        Weight.LIMITED,
        _other_triton,
        "generated ops run; torch.compile is tested with the pinned Triton alone",
        "install the Triton that torch asks for, unless you know why not",
        "https://github.com/pytorch/pytorch/pull/186814",
    ),
    Combination(
        "system",
        Weight.LIMITED,
        _other_system,
        "Triton publishes wheels for Linux alone; its interpreter gave empty results on macOS",
        "run kernels on Linux, or with the triton-windows fork; `opgen build` works anywhere",
        "https://github.com/triton-lang/triton/issues/4440",
    ),
    Combination(
        "descriptors",
        Weight.LIMITED,
        _no_descriptors,
        "kernels with tensor descriptors do not compile",
        "pip install --upgrade 'triton>=3.6'",
        "https://github.com/triton-lang/triton/issues/7499",
    ),
    Combination(
        "interpreter-numpy",
        Weight.LIMITED,
        _numpy_and_interpreter,
        "Triton's interpreter fails on loops over run-time bounds; compiled kernels are not concerned",
        "pip install 'numpy<2.4', or Triton 3.7 and later",
        "https://github.com/triton-lang/triton/issues/9171",
    ),
    Combination(
        "interpreter-without-numpy",
        Weight.LIMITED,
        _numpy_missing,
        "Triton's interpreter (TRITON_INTERPRET=1) does not start; compiled kernels are not concerned",
        "pip install 'numpy>=2.1'",
        "measured: triton 3.7.1 imports numpy in triton/runtime/interpreter.py",
    ),
    Combination(
        "driver-old",
        Weight.BROKEN,
        _driver_old,
        "torch sees no GPU",
        "install a newer driver, or the torch built for the CUDA that this driver offers",
        "https://docs.nvidia.com/deploy/cuda-compatibility/minor-version-compatibility.html",
    ),
    Combination(
        "torch-for-cpu",
        Weight.BROKEN,
        _torch_without_gpu,
        "tensors cannot be put on the GPU",
        "install torch for your CUDA or ROCm: https://pytorch.org/get-started/locally/",
        "measured: pip install torch==2.13.0 may resolve to a CPU build",
    ),
    Combination(
        "torch-without-architecture",
        Weight.BROKEN,
        _torch_without_architecture,
        "PyTorch's own kernels, which allocate and copy around ours, fail with `no kernel image is available`",
        "install a torch built for a CUDA that knows this GPU (12.8 and later for sm_100 and sm_120)",
        "https://github.com/pytorch/pytorch/issues/167244",
    ),
    Combination(
        "before-turing",
        Weight.BROKEN,
        _volta,
        "opgen has no target for it: Triton dropped the code for GPUs before compute capability 7.5",
        "call the generated `reference` functions, which are plain PyTorch",
        "https://github.com/triton-lang/triton/pull/5099",
    ),
    Combination(
        "turing-matrix-unit",
        Weight.LIMITED,
        _turing,
        "Triton 3.3 and later have no matrix unit on sm_75: products go to the library",
        "nothing to do",
        "https://github.com/triton-lang/triton/pull/5066",
    ),
    Combination(
        "blackwell-old-triton",
        Weight.BROKEN,
        _blackwell,
        "the compiler stops with `computeCapability not supported`",
        "pip install --upgrade 'triton>=3.6'",
        "https://github.com/triton-lang/triton/issues/6087",
    ),
    Combination(
        "launcher",
        Weight.BROKEN,
        _no_compiler,
        "Triton builds a launcher with a C compiler when a kernel first runs, and cannot",
        "install gcc and the headers of this Python (python3-dev), or set CC",
        "https://github.com/apple/ml-cross-entropy/issues/5",
    ),
)
