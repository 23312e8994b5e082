"""Plans as stable text, for `opgen explain` and the tests."""

from __future__ import annotations

from collections.abc import Iterator

from opgen.plan.model import Access, ElementwisePlan, KernelPlan, Plan


def format_plan(plan: Plan) -> str:
    """A plan: for each kernel its space, what it addresses, what it costs, and the configs by element width."""
    lines = [f"plan for {plan.target}"]
    for one in plan.temporaries[0]:
        dims = ", ".join(map(str, one.dims))
        lines.append(
            f"  temporary {one.name}: {one.element}[{dims}], written and read once more than in one kernel"
        )
    for number, kernel in enumerate(plan.kernels):
        lines += [f"  {line}" for line in _kernel(number, kernel)]
    return "\n".join(lines) + "\n"


def _kernel(number: int, kernel: KernelPlan) -> Iterator[str]:
    match kernel:
        case ElementwisePlan():
            return _elementwise(number, kernel)


def _elementwise(number: int, kernel: ElementwisePlan) -> Iterator[str]:
    targets = ", ".join(store.target for store in kernel.parts[0].graph.stores)
    space = ", ".join(map(str, kernel.space))
    yield f"kernel {number}: elementwise over [{space}], stores {targets}"
    for access in kernel.accesses:
        yield f"  {_access(access)}"
    for config, moved in zip(kernel.configs, kernel.bytes, strict=True):
        rows, columns = config.tile
        yield (
            f"  {config.width}-byte elements: block {config.block} with {config.warps} warps, "
            f"tile {rows} x {columns} with {config.tile_warps}, "
            f"across {config.turned[0]} x {config.turned[1]} with {config.turned_warps}; "
            f"an element moves {moved} bytes and takes about {kernel.operations} instructions"
        )


def _access(access: Access) -> str:
    dims = ", ".join(map(str, access.dims))
    if access.tensor is None:
        return f"position along [{dims}]"
    gathered = f", gathered along {', '.join(map(str, access.gathered))}" if access.gathered else ""
    return f"{access.tensor} [{dims}]{gathered}"
