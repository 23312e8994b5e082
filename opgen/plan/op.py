"""The plan of an op: its graph cut into kernels, and each of them planned for each target."""

from __future__ import annotations

from opgen.diagnostics import Diagnostics
from opgen.ir.nodes import Op
from opgen.ir.passes.partition import partition
from opgen.ir.passes.parts import Part, Partition, as_part_sees
from opgen.plan import elementwise, products, rows
from opgen.plan.hints import Hints, check_hints, first_value, hints_for
from opgen.plan.model import KernelPlan, Plan
from opgen.targets import Target


def plan_op(op: Op, targets: tuple[Target, ...]) -> tuple[Plan, ...]:
    """The plan of an op for each target. Raises `SpecError` for what has no kernel and for hints that no GPU meets."""
    variants = partition(op)
    kernels = tuple(zip(*(variant.parts for variant in variants), strict=True))
    _check_count(op, variants[0], targets)
    hints = {target.name: hints_for(op, target) for target in targets}
    summed = frozenset(dim for part in variants[0].parts if part.kind == "product" for dim in part.reduced)
    check_hints(targets, hints, summed)
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


def _check_count(op: Op, found: Partition, targets: tuple[Target, ...]) -> None:
    """Raises `SpecError` at a hint that asks for fewer kernels than the op takes."""
    count = len(found.parts)
    diagnostics = Diagnostics()
    for hint in op.hints:
        asked = not hint.targets or any(target.name in hint.targets for target in targets)
        if hint.key == "kernels" and asked and count > first_value(hint):
            kinds = ", ".join(f"{part.kind} over [{', '.join(map(str, part.space))}]" for part in found.parts)
            message = f"`{op.name}` takes {count} kernels, and {first_value(hint)} is asked for: {kinds}"
            diagnostics.error("OPG713", message, hint.span)
    diagnostics.raise_if_errors()


def _plan_kernel(op: Op, parts: tuple[Part, ...], target: Target, hints: Hints) -> KernelPlan:
    match parts[0].kind:
        case "elementwise":
            return elementwise.plan_kernel(op, parts, target, hints)
        case "row":
            return rows.plan_kernel(op, parts, target, hints)
        case "product":
            return products.plan_product(op, parts, target, hints)
        case kind:
            raise AssertionError(f"{kind} parts have no planner")
