"""What this package is made for; older releases lack functions that its modules name.

Importing it raises `ImportError` where Triton or PyTorch is older.
"""

import re
from types import ModuleType

import torch
import triton

OLDEST = {"triton": (3, 6), "torch": (2, 11)}


def require(package: ModuleType, oldest: tuple[int, int]) -> None:
    """Raises `ImportError` for a release before the oldest one."""
    found = re.match(r"(\d+)\.(\d+)", package.__version__)
    if found and tuple(map(int, found.groups())) < oldest:
        needed = ".".join(map(str, oldest))
        raise ImportError(
            f"this package needs {package.__name__} {needed} or later, and {package.__version__} is installed"
        )


for _package in (triton, torch):
    require(_package, OLDEST[_package.__name__])
