"""The tables of a row kernel: what it walks, and its configs by target."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import MISSING, fields

from opgen.emit.rows import declared_parts
from opgen.emit.tables import access_text, by_targets, dims_text, each, quoted
from opgen.ir.nodes import Op
from opgen.plan.model import RowBand, RowConfig, RowPlan


def walk(plan: RowPlan) -> str:
    """`rt.RowWalk(…)`: the kept and the reduced dims, and what the kernel addresses there."""
    accesses = each(access_text(access) for access in plan.accesses)
    return (
        f"rt.RowWalk(kept={dims_text(plan.kept)}, reduced={dims_text(plan.reduced)}, accesses=({accesses}))"
    )


def entry(op: Op, plan: RowPlan, walk_name: str, launch: str, configs_name: str) -> str:
    """`rt.RowKernel(…)`."""
    parts = each(quoted(part) for part in declared_parts(op, plan))
    return f"rt.RowKernel({walk_name}, {launch}, {configs_name}, parts=({parts}))"


def configs(plans: Sequence[tuple[str, RowPlan]]) -> str:
    """The configs of one kernel: target, then bytes of the widest element. Targets that agree share a row."""
    rows: dict[str, list[str]] = {}
    for target, plan in plans:
        entries = ", ".join(f"{one.width}: {_config(one)}" for one in plan.configs)
        rows.setdefault(f"{{{entries}}}", []).append(target)
    return by_targets(rows)


def _config(config: RowConfig) -> str:
    along, across = (each(map(_band, bands)) for bands in (config.along, config.across))
    return f"rt.RowConfigs(along=({along}), across=({across}), split={config.split}{_further(config)})"


def _band(band: RowBand) -> str:
    return f"rt.RowConfig({band.longest}, elements={band.elements}, warps={band.warps}{_further(band)})"


def _further(config: RowConfig | RowBand) -> str:
    """The figures that are not the usual ones, which the runtime has, too, by name."""
    usual = {one.name: one.default for one in fields(config) if one.default is not MISSING}
    named = ((name, getattr(config, name)) for name in usual)
    return "".join(f", {name}={value}" for name, value in named if value != usual[name])
