"""What a product of tiles becomes on each target, and how to see it in the assembly.

Read from the assembly of a 64x64x32 `tl.dot` compiled by Triton 3.7.1 for each target.
"""

from __future__ import annotations

import re

NO_UNIT = "fma"
"""The product is made of plain multiplications: right, and slow."""

REFUSED = "refused"
"""The compiler refuses the product."""

_TARGETS = "sm_75 sm_80 sm_86 sm_89 sm_90 sm_100 sm_120 gfx90a gfx942 gfx950 gfx1100".split()
_ROWS = {
    "f16": "fma mma mma mma wgmma tcgen05 mma mfma mfma mfma wmma",
    "bf16": "fma mma mma mma wgmma tcgen05 mma mfma mfma mfma wmma",
    "f32": "fma mma mma mma wgmma tcgen05 mma mfma mfma mfma fma",  # with tf32 allowed
    "i8": "refused mma mma mma wgmma mma mma mfma mfma mfma wmma",
    "f8e4m3": "refused refused refused mma wgmma tcgen05 mma mfma mfma mfma wmma",
    "f8e5m2": "fma mma mma mma wgmma tcgen05 mma mfma mfma mfma wmma",
    "f64": "fma mma fma fma mma refused fma mfma refused mfma fma",
}

#: By element type and target: the instruction of the matrix unit, `NO_UNIT` or `REFUSED`.
UNITS: dict[str, dict[str, str]] = {
    dtype: dict(zip(_TARGETS, row.split(), strict=True)) for dtype, row in _ROWS.items()
}

_SEEN = {  # a plain text, which is found at once, and the pattern
    "wgmma": ("wgmma.mma_async", re.compile(r"\bwgmma\.mma_async")),
    "tcgen05": ("tcgen05.mma", re.compile(r"\btcgen05\.mma")),
    "mma": ("mma.sync", re.compile(r"\bmma\.sync")),
    "mfma": ("mfma", re.compile(r"\bv_s?mfma[a-z]*_")),
    "wmma": ("wmma", re.compile(r"\bv_s?wmma[a-z]*_")),
}


def unit_in(assembly: str) -> str | None:
    """The matrix unit that an assembly (PTX or AMD's) uses, or None."""
    found = (name for name, (text, pattern) in _SEEN.items() if text in assembly and pattern.search(assembly))
    return next(found, None)
