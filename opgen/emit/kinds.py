"""What each kind of kernel becomes: its text, its tables and its entry. The one place that tells the kinds apart."""

from __future__ import annotations

from dataclasses import dataclass

from opgen.emit import product_tables, row_tables, tables
from opgen.emit.kernel_names import LaunchNames
from opgen.emit.kernels import kernel_context
from opgen.emit.names import Names
from opgen.emit.products import product_context
from opgen.emit.render import render_kernel
from opgen.emit.rows import row_kernel_context
from opgen.ir.nodes import Op
from opgen.plan.model import ElementwisePlan, KernelPlan, ProductPlan, RowPlan


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
        case RowPlan():
            rows = row_kernel_context(op, plan, variant, stem, names, launch)
            entry = row_tables.entry(op, plan, own_tables.walk, rows.launch, own_tables.configs)
            return EmittedKernel(render_kernel(rows), entry)
        case ProductPlan():
            product = product_context(op, plan, variant, stem, names, launch)
            entry = product_tables.entry(
                op, plan, variant, own_tables.walk, product.launch, own_tables.configs
            )
            return EmittedKernel(render_kernel(product), entry)


def walk_table(plan: KernelPlan) -> str:
    """What a kernel walks, as the runtime's record of it."""
    match plan:
        case ElementwisePlan():
            return tables.walk(plan)
        case RowPlan():
            return row_tables.walk(plan)
        case ProductPlan():
            return product_tables.walk(plan)


def config_table(plans: tuple[tuple[str, KernelPlan], ...]) -> str:
    """The configs of one kernel by target; `plans` gives its plan for each."""
    match plans[0][1]:
        case ElementwisePlan():
            return tables.configs(
                [(target, plan) for target, plan in plans if isinstance(plan, ElementwisePlan)]
            )
        case RowPlan():
            return row_tables.configs([(target, plan) for target, plan in plans if isinstance(plan, RowPlan)])
        case ProductPlan():
            return product_tables.configs(
                [(target, plan) for target, plan in plans if isinstance(plan, ProductPlan)]
            )
