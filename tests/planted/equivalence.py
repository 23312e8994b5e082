"""Rules by which a fault cannot change a value, each with its reason."""

from __future__ import annotations

from tests.planted.operators import Site


def by_rule(site: Site) -> str | None:
    """Why a fault is none, or None where no rule says so."""
    if site.function.startswith("_CONFIGS"):
        return "figures of blocks: any that can be launched give the same values, and the tests force each config"
    if site.before.startswith("via("):
        return "the wrapper shows a launch to PyTorch's tracing; without tracing it is the kernel itself"
    if site.operator == "cast dropped" and site.before.endswith(".dtype.element_ty)"):
        return "a store converts to the element type of its pointer by itself"
    if site.before.startswith("tile(") and site.after.startswith("tile(n_rows, UNIT, n_cols,"):
        return "a tile uses the number of columns and the unit in their product alone"
    return None
