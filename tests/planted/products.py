"""Faults in kernels of products, and in their device functions, that change nothing."""

from __future__ import annotations

import re

from tests.planted import ranks
from tests.planted.operators import Site


def is_of_absent_dim(site: Site) -> bool:
    """Whether a fault makes coordinates or strides of dims beyond the first count where a group has only that."""
    if site.function == "group_at":
        return site.condition == "RANK == 1" and site.after.startswith("(position, ")
    is_beyond = site.before in ("RANK > 1", "RANK > 2") and site.after == site.before.replace(">", ">=")
    return site.function == "_along" and is_beyond  # such a dim has stride 0


def is_never_turned(site: Site) -> bool:
    """Whether a fault exchanges whether an operand is turned and whether it is of a batch, which it never is either."""
    match = re.match(r"streamed_(?:left|right)\((\w+)_tile_desc, ", site.before)
    if match is None or site.operator != "arguments swapped":
        return False
    flags = re.findall(r"(?:LEFT|RIGHT)_TURNED, BATCHED\b", site.before)
    if not flags or flags[0] in site.after:
        return False
    dims = ranks.between_kernels(site.module).get(match[1])
    walks = ranks.products_of(site.module)
    return dims is not None and any(walk["k"] == dims[-1:] and walk["batch"] == () for walk in walks)


def why_same(site: Site) -> str | None:
    """Why a fault in a product of several, or in the flags of one, changes nothing, or None."""
    if site.operator == "constant changed" and site.before == "2":
        if re.search(r"part_of\(\w+, [01] \^ FIRST, 2\)", site.line_text):
            return "what comes in more parts than one comes in two"
        if site.function == "_ENTRY":
            return "it decides whether the vendor multiplies, to the same values as a kernel"
    if site.before == "0 ^ FIRST" and site.after == "FIRST":
        return "0 ^ x is x"
    is_exchanged = "BATCHED, FORM)" in site.before and "FORM, BATCHED)" in site.after
    is_dot = site.function.endswith("_span") or '"swapped descriptors' not in site.module
    if is_exchanged and is_dot and ranks.dims_of(site.module).get("batch") == 0:
        return "both are 0: the op has no batch, and no config swaps operands that descriptors read"
    return None
