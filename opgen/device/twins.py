"""One PTX for targets that it is the same for: GPUs of compute capability 8.0, 8.6 and 8.9 differ in what ptxas makes.

Their kernels share it where Triton's passes have made the same of them, and no 8-bit float is in it, for which 8.9 has
instructions of its own. A test compiles kernels for each alone, and compares.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

import triton
from triton import knobs
from triton._C.libtriton import ir

from opgen.device.scratch import write

Stage = Callable[[Any, dict[str, Any]], Any]

_CAPABILITIES = (80, 86, 89)
_READ = ("3.6.", "3.7.")
"""The releases of Triton of which it was read that they do the same for each; 3.8 vectorises less for 8.0."""

_OF_THE_FRONT_END = {"arch", "supported_fp8_dtypes", "deprecated_fp8_dot_operand_dtypes"}


def is_known() -> bool:
    """Whether this release of Triton compiles alike for these targets, and lets its stages be changed."""
    has_parts = hasattr(knobs.runtime, "add_stages_inspection_hook") and hasattr(ir.module, "str_nodebug")
    return has_parts and triton.__version__.startswith(_READ)


def share_ptx(folder: Path) -> None:
    """Makes Triton share it in this process; `folder` keeps what is shared."""

    def change(*given: Any) -> tuple[str, str] | None:
        if not given:  # asked for what tells these stages from its own
            return "", ""
        _, stages, options, _, capability = given
        if capability in _CAPABILITIES:
            _change(stages, options, capability, folder)
        return None

    knobs.runtime.add_stages_inspection_hook = change


def _change(stages: dict[str, Stage], options: Any, capability: int, folder: Path) -> None:
    told = {name: value for name, value in asdict(options).items() if name not in _OF_THE_FRONT_END}
    stage = _Stage(stages["llir"], stages["ptx"], capability, str(told), folder)
    stages["llir"], stages["ptx"] = stage.llir, stage.ptx


@dataclass
class _Stage:
    """The stages of one compilation that make LLVM's form and PTX; `place` is where both go, if they are shared."""

    make_llir: Stage
    make_ptx: Stage
    capability: int
    options: str
    folder: Path
    place: Path | None = None
    before: Mapping[str, Any] = field(default_factory=dict)
    known: str | None = None

    def llir(self, module: Any, metadata: dict[str, Any]) -> Any:
        """LLVM's form; an empty text where the PTX is known, whose only reader is the next stage."""
        text = module.str_nodebug()
        if "f8E" in text:
            return self.make_llir(module, metadata)
        same = text.replace(f'"cuda:{self.capability}"', '"cuda"')
        self.place = self.folder / f"{sha256(f'{self.options} {same}'.encode()).hexdigest()}.json"
        self.before = dict(metadata)
        if not self.place.exists():
            return self.make_llir(module, metadata)
        found = json.loads(self.place.read_text(encoding="utf-8"))
        metadata.update(found["metadata"])
        self.known = found["ptx"]
        return ""

    def ptx(self, source: Any, metadata: dict[str, Any]) -> str:
        if self.known is not None:
            return re.sub(r"\.target sm_\d+", f".target sm_{self.capability}", self.known)
        made = str(self.make_ptx(source, metadata))
        if self.place is not None:
            added = {name: value for name, value in metadata.items() if self.before.get(name, self) != value}
            write(self.place, json.dumps({"metadata": added, "ptx": made}).encode())
        return made
