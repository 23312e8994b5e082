"""Set up for the generated tests: Triton's interpreter rounds to nearest, as GPUs do."""

from __future__ import annotations

from .. import _runtime as rt

if rt.INTERPRETED:
    from ._interpreter import install

    install()
