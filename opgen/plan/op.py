"""The plan of an op: its graph cut into kernels, and each of them planned for each target."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from opgen.diagnostics import Diagnostics
from opgen.ir.nodes import Op
from opgen.ir.passes.partition import partition
from opgen.ir.passes.parts import Part, Partition, as_part_sees
from opgen.plan import elementwise, products, rows
from opgen.plan.hints import Hints, check_hints, first_value, hints_for
from opgen.plan.model import KernelPlan, Plan, ProductPlan
from opgen.plan.multiplied import sides_of
from opgen.targets import Target

#: What only kernels of matrix products have: the value that all kernels meet, and what the others would take.
_OF_PRODUCTS: dict[str, tuple[int | str, str]] = {
    "tma": (False, "matrix products read through tensor descriptors"),
    "persistent": (False, "programs of matrix products and of rows take several tiles"),
    "split": (1, "contractions are cut into pieces"),
    "group": (1, "tiles of matrix products are grouped"),
    "strategy": ("fused", "matrix products can be a vendor's"),
}


def plan_op(op: Op, targets: tuple[Target, ...]) -> tuple[Plan, ...]:
    """The plan of an op for each target. Raises `SpecError` for what has no kernel and for hints that no GPU meets."""
    variants = partition(op)
    kernels = tuple(zip(*(variant.parts for variant in variants), strict=True))
    _check_count(op, variants[0], targets)
    hints = {target.name: hints_for(op, target) for target in targets}
    summed = frozenset(dim for part in variants[0].parts if part.kind == "product" for dim in part.reduced)
    check_hints(targets, hints, summed)
    _check_words(variants[0], hints.values())
    _check_batches(variants[0], hints.values())
    temporaries = tuple(variant.temporaries for variant in variants)
    seen = tuple(as_part_sees(op, parts[0], temporaries[0]) for parts in kernels)
    plans = tuple(
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
    _check_library(plans, hints)
    return plans


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


def _check_words(found: Partition, hints: Iterable[Hints]) -> None:
    """Raises `SpecError` at a hint that only matrix products can meet, in an op that has none."""
    kinds = {part.kind for part in found.parts}
    diagnostics = Diagnostics()
    for hint in dict.fromkeys(one for own in hints for one in own.others):
        without, why = _OF_PRODUCTS.get(hint.key, (hint.values[0], ""))
        if hint.key == "persistent" and "row" in kinds:
            continue
        if "product" not in kinds and without not in hint.values:
            message = f"`{hint.key}` cannot be met: {why}, and this op has none"
            diagnostics.error("OPG717", message, hint.span)
    diagnostics.raise_if_errors()


def _check_batches(found: Partition, hints: Iterable[Hints]) -> None:
    """Raises `SpecError` at a block of a dim that all kernels walk one position at a time: a batch of products."""
    sides = [sides_of(part) for part in found.parts if part.kind == "product"]
    batched = {dim for own in sides for dim in own.batch}
    tiled = {dim for own in sides for dim in (*own.m, *own.n, *own.k)}
    tiled |= {dim for part in found.parts if part.kind != "product" for dim in part.space}
    diagnostics = Diagnostics()
    for dim, hint in (block for own in hints for block in own.blocks):
        if dim in batched - tiled and 1 not in hint.values:
            message = (
                f"a tile of a product lies in one batch: its block of `{dim}` is 1, not {first_value(hint)}"
            )
            diagnostics.error("OPG715", message, hint.span)
    diagnostics.raise_if_errors()


def _check_library(plans: Sequence[Plan], hints: Mapping[str, Hints]) -> None:
    """Raises `SpecError` where the vendor's product is asked for on a target and none of the op's can be one."""
    diagnostics = Diagnostics()
    for plan in plans:
        asked = hints[plan.target].asked("strategy")
        products = [kernel for kernel in plan.kernels if isinstance(kernel, ProductPlan)]
        if asked is None or asked.values != ("library",) or not products:
            continue
        bands = (band for one in products for own in one.classes for band in own.bands)
        if not any(band.configs[0][0].strategy == "library" for band in bands):
            message = (
                f"no product here can be a vendor's on {plan.target}: that takes tensors of f16, bf16, f32 or "
                "f64 as they are, and multiplies f32 in full"
            )
            diagnostics.error("OPG716", message, asked.span)
            break
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
