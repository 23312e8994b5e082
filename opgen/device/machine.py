"""What this machine has: GPUs, driver, PyTorch, Triton, NumPy; each library asked in a process of its own.

Nothing here imports torch or triton: a library that is missing, that raises when imported, or that takes its process
down is a finding, not the end.
"""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from shutil import which
from typing import Any

from opgen.targets import TARGETS, Target

_SECONDS_TO_IMPORT = 120
_SECONDS_TO_ASK = 20

#: Run with `python -c`; the last line that each prints is JSON.
_TORCH = """
import json, torch
gpus = []
seen = torch.cuda.is_available()
for index in range(torch.cuda.device_count() if seen else 0):
    about = torch.cuda.get_device_properties(index)
    hip = torch.version.hip is not None
    gpus.append([about.name, about.gcnArchName.split(":")[0] if hip else f"sm_{about.major}{about.minor}"])
print(json.dumps({"version": torch.__version__, "cuda": torch.version.cuda, "hip": torch.version.hip,
                  "architectures": torch.cuda.get_arch_list(), "gpus": gpus}))
"""
_TRITON = """
import json, triton
import triton.language as tl
print(json.dumps({"version": triton.__version__, "descriptors": hasattr(tl, "make_tensor_descriptor"),
                  "compilers": sorted(triton.backends.backends)}))
"""
_NUMPY = "import json, numpy; print(json.dumps({'version': numpy.__version__}))"
_PIN = """
import json, re
from importlib.metadata import requires
found = [re.match(r"triton\\s*==\\s*([\\w.]+)", one) for one in requires("torch") or ()]
print(json.dumps({"triton": next((one[1] for one in found if one), None)}))
"""

PROGRAMS = {"torch": _TORCH, "triton": _TRITON, "numpy": _NUMPY}


@dataclass(frozen=True)
class Library:
    """A library of this Python: its version, or why it cannot be imported; neither where it is not installed."""

    version: str | None = None
    fault: str | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def text(self) -> str:
        if self.fault is not None:
            return f"broken: {self.fault}"
        return self.version or "not installed"

    def at_least(self, *wanted: int) -> bool:
        """Whether it works and its version is not below `wanted`."""
        return self.version is not None and version_numbers(self.version) >= wanted


@dataclass(frozen=True)
class Gpu:
    """A GPU by its maker's name, and its architecture as targets are named: `sm_90`, `gfx942`."""

    name: str
    architecture: str


@dataclass(frozen=True)
class Machine:
    """`driver_cuda` is the newest CUDA that the driver offers; `torch_pins` the Triton that PyTorch asks for."""

    system: str
    python: str
    gpus: tuple[Gpu, ...] = ()
    driver: str | None = None
    driver_cuda: str | None = None
    torch: Library = Library()
    torch_pins: str | None = None
    triton: Library = Library()
    numpy: Library = Library()
    c_compiler: str | None = None
    has_python_headers: bool = True
    is_interpreted: bool = False


def version_numbers(text: str) -> tuple[int, ...]:
    """The leading numbers of a version: `2.13.0+cpu` is (2, 13, 0)."""
    match = re.match(r"\d+(\.\d+)*", text)
    return tuple(int(part) for part in match[0].split(".")) if match else ()


def probe(python: str = sys.executable) -> Machine:
    """This machine, with the libraries of the Python at this path. Takes as long as importing torch and triton."""
    torch = ask(python, PROGRAMS["torch"])
    seen = tuple(Gpu(name, architecture) for name, architecture in torch.facts.get("gpus", ()))
    driver, driver_cuda, known = _nvidia()
    return Machine(
        system=f"{platform.system()} {platform.machine()}",
        python=platform.python_version(),
        gpus=seen or known,
        driver=driver,
        driver_cuda=driver_cuda,
        torch=torch,
        torch_pins=ask(python, _PIN).facts.get("triton"),
        triton=ask(python, PROGRAMS["triton"]),
        numpy=ask(python, PROGRAMS["numpy"]),
        c_compiler=_c_compiler(os.environ),
        has_python_headers=Path(sysconfig.get_paths()["include"], "Python.h").is_file(),
        is_interpreted=os.environ.get("TRITON_INTERPRET") == "1",
    )


def ask(python: str, program: str) -> Library:
    """What a program of the probes says of its library."""
    command = [python, "-c", program]
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    try:
        told = subprocess.run(  # noqa: S603 - our own programs
            command,
            capture_output=True,
            text=True,
            timeout=_SECONDS_TO_IMPORT,
            env=environment,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Library(fault=f"importing it takes more than {_SECONDS_TO_IMPORT} s")
    except OSError as error:
        return Library(fault=str(error))
    return _understood(program, told.returncode, told.stdout, told.stderr)


def _understood(program: str, code: int, out: str, errors: str) -> Library:
    last = (errors.strip().splitlines() or [""])[-1]
    if code < 0:
        return Library(fault=f"importing it ends the process with signal {-code}")
    if code != 0:
        missing = re.fullmatch(r"ModuleNotFoundError: No module named '(\w+)'", last)
        if missing and re.search(rf"\bimport [\w, ]*\b{missing[1]}\b", program):
            return Library()
        return Library(fault=last or f"importing it ends the process with {code}")
    try:
        facts: dict[str, Any] = json.loads(out.strip().splitlines()[-1])
    except (ValueError, IndexError):
        return Library(fault="it prints something else than its version when imported")
    return Library(version=facts.get("version"), facts=facts)


def _nvidia() -> tuple[str | None, str | None, tuple[Gpu, ...]]:
    """The driver, the CUDA that it offers, and the GPUs, as `nvidia-smi` tells them; nothing without it."""
    rows = _lines(["nvidia-smi", "--query-gpu=driver_version,compute_cap,name", "--format=csv,noheader"])
    cells = [[cell.strip() for cell in row.split(",", 2)] for row in rows if row.count(",") >= 2]
    gpus = tuple(Gpu(name, f"sm_{capability.replace('.', '')}") for _, capability, name in cells)
    offered = re.search(r"CUDA Version:\s*([\d.]+)", "\n".join(_lines(["nvidia-smi"])) if cells else "")
    return (cells[0][0] if cells else None), (offered[1] if offered else None), gpus


def _lines(command: Sequence[str]) -> list[str]:
    try:
        told = subprocess.run(command, capture_output=True, text=True, check=True, timeout=_SECONDS_TO_ASK)  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        return []
    return told.stdout.splitlines()


def _c_compiler(environment: Mapping[str, str]) -> str | None:
    """The compiler that Triton builds its launchers with: `CC`, else gcc or clang."""
    wanted = [environment["CC"]] if environment.get("CC") else ["gcc", "clang", "cc"]
    return next((found for name in wanted if (found := which(name.split()[0]))), None)


def nearest_target(architecture: str) -> Target | None:
    """The target whose configs an architecture takes: itself, else the newest of its family not above it.

    None where the family has no target that is old enough, or where the table does not know the family.
    """
    if architecture in TARGETS:
        return TARGETS[architecture]
    family, number = _family(architecture)
    below = [
        (other, target)
        for name, target in TARGETS.items()
        for kind, other in (_family(name),)
        if kind == family and other <= number
    ]
    return max(below, key=lambda pair: pair[0])[1] if below else None


def _family(architecture: str) -> tuple[str, tuple[int, int]]:
    """`sm_` and the number; `gfx` and the generation with the rest, of which the last two digits are hexadecimal."""
    if architecture.startswith("sm_"):
        digits = re.match(r"\d+", architecture[3:])
        return "sm", (0, int(digits[0]) if digits else 0)
    match = re.fullmatch(r"gfx(\d+)([0-9a-f]{2})", architecture)
    return ("gfx", (int(match[1]), int(match[2], 16))) if match else (architecture, (0, 0))
