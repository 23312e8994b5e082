"""Names of generated code: legal, and never one that the user's spec, Python or a kernel launch needs."""

from __future__ import annotations

import builtins
import keyword
from collections.abc import Iterable

from opgen.primitives import PRIMITIVES

#: What every generated module imports.
MODULE_NAMES = ("torch", "triton", "tl", "rt")

#: Functions of the package's runtime that kernels call, beside those that stand for primitives. PyTorch's compiler
#: finds a kernel's helpers by their names in its module, so they are imported one by one.
_HELPERS = (
    "coordinates decode_f8e4m3 decode_f8e5m2 encode_f8e4m3 encode_f8e5m2 inside mask_of nibble offsets round_to "
    "scalar scalar64 step tile to_int uniform"
)
DEVICE_FUNCTIONS = frozenset(
    {*_HELPERS.split(), *(row.triton for row in PRIMITIVES.values() if row.triton.isidentifier())}
)

#: Words that mean something to the code around them: modules of generated files, and what a launch accepts.
RESERVED = frozenset(
    {*keyword.kwlist, *keyword.softkwlist, *dir(builtins), *MODULE_NAMES, *DEVICE_FUNCTIONS}
    | {"self"}
    | {"num_warps", "num_stages", "num_ctas", "grid", "warmup", "maxnreg", "debug", "launch_cooperative_grid"}
)


#: The sizes of the space that a strided kernel walks.
SPACE = ("n_rows", "n_cols", "n1", "n2", "n3", "n4", "n5")
#: Names that every kernel has.
KERNEL_NAMES = frozenset(
    {*SPACE, "numel", "program", "at", "mask", "rows", "cols", "inside", "row_mask", "col_mask"}
    | {"WIDE", "BLOCK", "RANK", "UNIT", "ROWS", "COLUMNS"}
)
#: Names that references give to what they work with.
REFERENCE_NAMES = frozenset({"device", "bound"})


def type_name(variable: str | None) -> str:
    """A type variable's name in code; empty for none."""
    if variable is None:
        return ""
    return f"{variable}_" if variable in RESERVED | KERNEL_NAMES | REFERENCE_NAMES else variable


def ascii_name(name: str) -> str:
    """A name for where PyTorch takes ASCII alone."""
    return name.encode("ascii", "backslashreplace").decode().replace("\\", "_")


class Names:
    """Hands out names that differ from all taken before; a taken one gets underscores behind it."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = set(taken)

    def fresh(self, wanted: str) -> str:
        """`wanted`, or `wanted_`, `wanted__`, … where that is taken."""
        name = wanted
        while name in self._taken:
            name += "_"
        self._taken.add(name)
        return name

    def stem(self, wanted: str, endings: Iterable[str]) -> str:
        """`wanted`, with underscores behind it where it is taken with one of the endings; takes it with all of them."""
        stem = wanted
        while any(stem + ending in self._taken for ending in endings):
            stem += "_"
        self._taken |= {stem + ending for ending in endings}
        return stem

    def numbered(self, stem: str) -> str:
        """The first of `stem0`, `stem1`, … that is free."""
        number = 0
        while f"{stem}{number}" in self._taken:
            number += 1
        return self.fresh(f"{stem}{number}")

    def copy(self) -> Names:
        return Names(self._taken)
