"""The plan of an op: its graph cut into kernels, and each of them planned for each target."""

from __future__ import annotations

from opgen.diagnostics import Diagnostics
from opgen.ir.nodes import Contract, Op, Reduce
from opgen.ir.passes.partition import Part, Partition, as_part_sees, partition
from opgen.plan import elementwise
from opgen.plan.hints import Hints, check_hints, hints_for
from opgen.plan.model import KernelPlan, Plan
from opgen.targets import Target


def plan_op(op: Op, targets: tuple[Target, ...]) -> tuple[Plan, ...]:
    """The plan of an op for each target. Raises `SpecError` for what has no kernel and for hints that no GPU meets."""
    variants = partition(op)
    kernels = tuple(zip(*(variant.parts for variant in variants), strict=True))
    _refuse_kinds(op, variants)
    hints = {target.name: hints_for(op, target) for target in targets}
    check_hints(targets, hints)
    temporaries = tuple(variant.temporaries for variant in variants)
    seen = tuple(as_part_sees(op, parts[0], temporaries[0]) for parts in kernels)
    return tuple(
        Plan(
            target.name,
            tuple(
                _plan_kernel(own, parts, target, hints[target.name])
                for own, parts in zip(seen, kernels, strict=True)
            ),
            temporaries,
        )
        for target in targets
    )


def _plan_kernel(op: Op, parts: tuple[Part, ...], target: Target, hints: Hints) -> KernelPlan:
    match parts[0].kind:
        case "elementwise":
            return elementwise.plan_kernel(op, parts, target, hints)
        case kind:
            raise AssertionError(f"{kind} parts have no planner")


def _refuse_kinds(op: Op, variants: tuple[Partition, ...]) -> None:
    """Raises `SpecError` for parts of kinds that have no planner."""
    found = Diagnostics()
    for part in variants[0].parts:
        for value in part.graph.values:
            match value.node:
                case Reduce(kind=kind):
                    found.error(
                        "OPG701", f"`{op.name}`: the reduction `{kind}` has no kernel yet", value.span
                    )
                case Contract():
                    found.error("OPG702", f"`{op.name}`: the contraction `@` has no kernel yet", value.span)
                case _:
                    pass
    found.raise_if_errors()
