"""What each kind of kernel becomes: its text, its tables and its entry. The one place that tells the kinds apart."""

from __future__ import annotations

from dataclasses import dataclass

from opgen.emit import tables
from opgen.emit.kernel_names import LaunchNames
from opgen.emit.kernels import kernel_context
from opgen.emit.names import Names
from opgen.emit.render import render_kernel
from opgen.ir.nodes import Op
from opgen.plan.model import ElementwisePlan, KernelPlan


@dataclass(frozen=True)
class TableNames:
    """The names of a kernel's tables in its module."""

    walk: str
    configs: str


@dataclass(frozen=True)
class EmittedKernel:
    """The text of a kernel with its launcher, and the runtime's record of it, such as `rt.Kernel(…)`."""

    text: str
    entry: str


def emit_kernel(
    op: Op,
    plan: KernelPlan,
    variant: int,
    stem: str,
    names: Names,
    launch: LaunchNames,
    own_tables: TableNames,
) -> EmittedKernel:
    """One kernel of one variant, in an op as the kernel sees it; `stem` begins the names of its functions."""
    match plan:
        case ElementwisePlan():
            context = kernel_context(op, plan, variant, stem, names, launch)
            entry = f"rt.Kernel({own_tables.walk}, {context.launch}, {own_tables.configs})"
            return EmittedKernel(render_kernel(context), entry)


def walk_table(plan: KernelPlan) -> str:
    """What a kernel walks, as the runtime's record of it."""
    match plan:
        case ElementwisePlan():
            return tables.walk(plan)


def config_table(plans: tuple[tuple[str, KernelPlan], ...]) -> str:
    """The configs of one kernel by target; `plans` gives its plan for each."""
    match plans[0][1]:
        case ElementwisePlan():
            return tables.configs(plans)
