"""Names of generated code: legal, and never one that the user's spec, Python or a kernel launch needs."""

from __future__ import annotations

import builtins
import keyword
from collections.abc import Iterable

#: What every generated module imports.
MODULE_NAMES = ("torch", "triton", "tl", "rt")

#: Words that mean something to the code around them: modules of generated files, and what a launch accepts.
RESERVED = frozenset(
    {*keyword.kwlist, *keyword.softkwlist, *dir(builtins), *MODULE_NAMES, "self"}
    | {"num_warps", "num_stages", "num_ctas", "grid", "warmup", "maxnreg", "debug", "launch_cooperative_grid"}
)


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

    def numbered(self, stem: str) -> str:
        """The first of `stem0`, `stem1`, … that is free."""
        number = 0
        while f"{stem}{number}" in self._taken:
            number += 1
        return self.fresh(f"{stem}{number}")

    def copy(self) -> Names:
        return Names(self._taken)
