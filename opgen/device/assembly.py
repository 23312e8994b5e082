"""What a compiled kernel takes and does, read from what Triton's compiler leaves: registers, spills, units, loads."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from triton import knobs

from opgen.device.occupancy import occupancy
from opgen.device.units import unit_in
from opgen.targets import Target


@dataclass(frozen=True)
class Figures:
    """A compiled kernel. Shared memory is in bytes of a program, registers and spilled bytes are of a thread.

    `dots` are the operand types of its products of tiles (`f32` as `f32 ieee` or `f32 tf32`), `unit` the matrix unit
    that the assembly uses, `load_bytes` the widest access of a thread to global memory, 0 where there is none.
    """

    shared_bytes: int
    registers: int
    spilled_bytes: int
    threads: int
    occupancy: float
    dots: tuple[str, ...]
    unit: str | None
    load_bytes: int


def figures_of(compiled: Any, target: Target) -> Figures:
    """The figures of what `compile_job` gives."""
    assembly = compiled.asm["amdgcn" if target.is_amd else "ptx"]
    registers, spilled = (
        _amd_resources(assembly) if target.is_amd else _nvidia_resources(compiled.asm["cubin"])
    )
    warps = compiled.metadata.num_warps
    shared = compiled.metadata.shared
    return Figures(
        shared_bytes=shared,
        registers=registers,
        spilled_bytes=spilled,
        threads=warps * target.warp_size,
        occupancy=occupancy(target, warps, registers, shared),
        dots=tuple(dict.fromkeys(_dots(compiled.asm["ttir"]))),
        unit=unit_in(assembly),
        load_bytes=max(_amd_loads(assembly) if target.is_amd else _nvidia_loads(assembly), default=0),
    )


def _with(text: str, *words: str) -> str:
    """The lines of a text that have one of some words: patterns of more take long in all of it."""
    return "\n".join(line for line in text.splitlines() if any(word in line for word in words))


# --- products, in Triton's own intermediate form ------------------------------------------------

_DOT = re.compile(
    r"tt\.dot(?:_scaled)? .*?: tensor<(?:\d+x)+(?P<left>[a-z]\w*)> \* tensor<(?:\d+x)+(?P<right>[a-z]\w*)>"
)
_DTYPES = {"f8E4M3FN": "f8e4m3", "f8E5M2": "f8e5m2"}


def _dots(text: str) -> Iterator[str]:
    for line in text.splitlines():
        match = _DOT.search(line) if "tt.dot" in line else None
        if match:
            dtype = _DTYPES.get(match["left"], match["left"])
            precision = "tf32" if "inputPrecision = tf32" in line else "ieee"
            yield f"{dtype} {precision}" if dtype == "f32" else dtype


# --- NVIDIA -------------------------------------------------------------------------------------

_USAGE = re.compile(r"REG:(\d+) STACK:(\d+)")
_PTX_LOAD = re.compile(r"\bld\.global(?:\.\w+(?:::\w+)*)*?(?:\.v(\d))?\.[busf](\d+)\b")
_PTX_COPY = re.compile(r"\bcp\.async\.c[ag]\.shared\.global\S* .*?, (0x[0-9a-f]+|\d+)")
_PTX_BULK = re.compile(r"\bcp\.async\.bulk")


def _nvidia_resources(cubin: bytes) -> tuple[int, int]:
    """Registers of a thread, and the bytes of its stack frame, where what is spilled goes."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        command = [knobs.nvidia.cuobjdump.path, "--dump-resource-usage", file.name]
        told = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603 - Triton's own tool
    usages = [(int(registers), int(stack)) for registers, stack in _USAGE.findall(told.stdout)]
    if not usages:
        raise ValueError(f"cuobjdump tells no resource usage: {told.stdout!r}")
    return max(usages)


def _nvidia_loads(ptx: str) -> Iterator[int]:
    for count, bits in _PTX_LOAD.findall(_with(ptx, "ld.global")):
        yield int(count or 1) * int(bits) // 8
    copies = _with(ptx, "cp.async")
    for size in _PTX_COPY.findall(copies):
        yield int(size, 0)
    if _PTX_BULK.search(copies):
        yield 128  # the copy engine moves whole lines of its swizzled boxes


# --- AMD ----------------------------------------------------------------------------------------

_AMD_LOAD = re.compile(r"\b(?:global|buffer)_load_(?:lds_)?([a-z]+?)(x\d+|\d*)\b")
_AMD_BYTES = {
    word: int(size)
    for word, _, size in (
        pair.partition("=")
        for pair in (
            "dword=4 ushort=2 sshort=2 short=2 ubyte=1 sbyte=1 byte=1 "
            "b32=4 b64=8 b96=12 b128=16 u16=2 i16=2 d16=2 u8=1 i8=1"
        ).split()
    )
}


def _amd_resources(assembly: str) -> tuple[int, int]:
    """Vector registers of a lane (accumulation registers are counted among them), and the bytes that it spills."""

    def largest(name: str) -> int:
        counts = re.findall(rf"^[\s-]*\.{name}:\s+(\d+)$", _with(assembly, name), re.MULTILINE)
        return max(map(int, counts), default=0)

    return largest("vgpr_count"), max(4 * largest("vgpr_spill_count"), largest("private_segment_fixed_size"))


def _amd_loads(assembly: str) -> Iterator[int]:
    for word, number in _AMD_LOAD.findall(_with(assembly, "_load_")):
        if number.startswith("x"):
            yield _AMD_BYTES[word] * int(number[1:])
        else:
            yield _AMD_BYTES.get(f"{word}{number}", 0)
