"""The tables of a product: what it walks, its configs by target, class of type and shape, and its entry."""

from __future__ import annotations

from collections.abc import Sequence

from opgen.emit.products import plain_operands
from opgen.emit.tables import access_text, by_targets, dims_text, each, quoted
from opgen.ir.nodes import Op
from opgen.plan.model import BEYOND, ProductBand, ProductClass, ProductPlan


def walk(plan: ProductPlan) -> str:
    """`rt.ProductWalk(…)`: the groups of dims of a product and what it addresses."""
    groups = ", ".join(
        f"{group}={dims_text(getattr(plan.sides, group))}" for group in ("batch", "m", "n", "k")
    )
    return f"rt.ProductWalk({groups}, accesses=({each(access_text(access) for access in plan.accesses)}))"


def entry(op: Op, plan: ProductPlan, variant: int, walk_name: str, launch: str, configs_name: str) -> str:
    """`rt.ProductKernel(…)`."""
    element = plan.products[variant][0].left.element
    parts = [walk_name, launch, configs_name, quoted(element.variable or element.dtype.name)]
    for side in ("left", "right"):
        names = plain_operands(op, plan, variant, side)
        if names:
            parts.append(f"{side}=({each(map(quoted, names))})")
    if len(plan.products[variant]) > 1:
        parts.append(f"products={len(plan.products[variant])}")
    return f"rt.ProductKernel({', '.join(parts)})"


def configs(plans: Sequence[tuple[str, ProductPlan]]) -> str:
    """The bands of each class of types by target; targets of equal ones share an entry."""
    rows: dict[str, list[str]] = {}
    for target, plan in plans:
        rows.setdefault(f"{{{', '.join(map(_class, plan.classes))}}}", []).append(target)
    return by_targets(rows)


def _class(one: ProductClass) -> str:
    return f"{quoted(one.name)}: ({each(map(_band, one.bands))})"


def _band(band: ProductBand) -> str:
    """`rt.band(…)`, without what is as by default."""
    config = band.configs[0][0]
    ends = ("rt.BEYOND" if size >= BEYOND else str(size) for size in (band.m, band.n))
    flags = [" halves"] * config.halves + [" narrow"] * (band.narrow is not None)
    how = f"{config.form} {config.strategy}{''.join(flags)}"
    words = [*ends, quoted(how), f"({', '.join(map(str, config.tile))})"]
    words += [str(config.warps), str(config.stages), str(config.group)]
    if config.split > 1:
        words.append(f"split={config.split}")
    if config.precision != "ieee":
        words.append(f"precision={quoted(config.precision)}")
    if band.idle:
        words.append(f"idle={band.idle}")
    if band.k < BEYOND:
        words.append(f"k={band.k}")
    return f"rt.band({', '.join(words)})"
