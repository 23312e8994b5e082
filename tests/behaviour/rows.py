"""What the tests of row kernels share: calls that force how rows are walked, and the walks themselves."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from torch import Tensor

WALKS = {
    "own choice": None,
    "resident, looping programs": ("resident", 2, 16, 1, 1),
    "looped": ("looped", 1, 128, 1),
    "several looped": ("looped", 4, 64, 1),
    "split in 5": ("split", 2, 32, 1, 0, 1, 5),
}
#: Row lengths at the edges of blocks, and what is left of longer ones.
LENGTHS = (1, 2, 3, 17, 127, 128, 129, 1000)


def call(module: ModuleType, *arguments: Any, walk: str = "own choice") -> tuple[Tensor, ...]:
    """The results of a module's op, its rows walked in the way named; left-out arguments are their defaults."""
    entry = module._ENTRY
    runtime = sys.modules[f"{module.__name__.rpartition('.')[0]}._runtime"]
    function = getattr(module, entry.operator.name)
    defaults = function.__defaults__ or ()
    missing = len(entry.parameters) - len(arguments)
    rest = defaults[len(defaults) - missing :] if missing else ()
    named = dict(zip(entry.parameters, (*arguments, *rest), strict=True))
    figures = WALKS[walk]
    results = entry.run(named, None, config=None if figures is None else runtime.RowTile(*figures))
    return results if isinstance(results, tuple) else (results,)
