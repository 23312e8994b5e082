"""Plans as stable text, for `opgen explain` and the tests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from opgen.ir.nodes import Read
from opgen.ir.passes.parts import Temporary
from opgen.plan.model import Access, ElementwisePlan, KernelPlan, Plan, ProductPlan, RowBand, RowPlan
from opgen.plan.product_pretty import product_lines, sides_text
from opgen.plan.row_passes import Levels, looped_passes, resident_levels


def format_plan(plan: Plan) -> str:
    """A plan: for each kernel its space, what it addresses, what it costs, and the configs by element width."""
    lines = [f"plan for {plan.target}"]
    lines += [f"  {_temporary(one, plan.kernels)}" for one in plan.temporaries[0]]
    for number, kernel in enumerate(plan.kernels):
        lines += [f"  {line}" for line in _kernel(number, kernel)]
    return "\n".join(lines) + "\n"


def _temporary(one: Temporary, kernels: Sequence[KernelPlan]) -> str:
    """A tensor between kernels, and the bytes that the cut costs."""
    dims = ", ".join(map(str, one.dims))
    graphs = [kernel.parts[0].graph for kernel in kernels]
    reads = sum(any(value.node == Read(one.name) for value in graph.values) for graph in graphs)
    size = max(one.element.dtype.bits // 8, 1)
    moved = f"written once and read by {reads} kernel{'s' if reads > 1 else ''}: {size * (1 + reads)} bytes an element"
    return f"temporary {one.name}: {one.element}[{dims}], {moved}"


def _kernel(number: int, kernel: KernelPlan) -> Iterator[str]:
    match kernel:
        case ElementwisePlan():
            return _elementwise(number, kernel)
        case RowPlan():
            return _rows(number, kernel)
        case ProductPlan():
            return _product(number, kernel)


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


def _rows(number: int, kernel: RowPlan) -> Iterator[str]:
    graph = kernel.parts[0].graph
    targets = ", ".join(store.target for store in graph.stores)
    kept, reduced = (", ".join(map(str, dims)) for dims in (kernel.kept, kernel.reduced))
    yield f"kernel {number}: rows over [{kept}], reducing [{reduced}], stores {targets}"
    for access in kernel.accesses:
        yield f"  {_access(access)}"
    yield f"  a row in registers: {_levels(resident_levels(graph))}"
    yield f"  a row read tile by tile: {_levels(looped_passes(graph))}"
    for config, moved in zip(kernel.configs, kernel.bytes, strict=True):
        yield (
            f"  {config.width}-byte elements: an element moves {moved} bytes where a row stays in registers, and takes "
            f"about {kernel.operations} instructions"
        )
        for band in config.along:
            yield f"    {_band(band)}"
        for band in config.across:
            yield f"    across memory: {_band(band)}"
        yield (
            f"    few rows of {config.split} columns or more: cut into pieces, joined in order; tiles of up to "
            f"{config.piece_columns} columns, {config.piece_warps} warps"
        )


def _product(number: int, kernel: ProductPlan) -> Iterator[str]:
    targets = ", ".join(store.target for store in kernel.parts[0].graph.stores)
    yield f"kernel {number}: product over {sides_text(kernel)}, stores {targets}"
    for access in kernel.accesses:
        yield f"  {_access(access)}"
    yield from product_lines(kernel)


def _levels(levels: Levels) -> str:
    return (
        ", then ".join(" and ".join(f"{one.kind} %{one.ref}" for one in level) for level in levels)
        or "no reduction"
    )


def _band(band: RowBand) -> str:
    """A band: the rows that it serves, its tile and what runs it."""
    walked = "whole" if band.longest and not 0 < band.columns < band.longest else "in a loop"
    most = "exactly" if band.exact else "up to"
    rows = f"{most} {band.longest} columns, {walked}" if band.longest else f"any length, {walked}"
    sides = f" ({band.rows or 'as fit'} x {band.columns or 'as fit'})" if band.rows or band.columns else ""
    programs = f", {band.programs} programs for each multiprocessor" if band.programs else ""
    stages = f", {band.stages} stages" if band.stages > 1 else ""
    bound = f", {band.registers} registers of a thread at most" if band.registers else ""
    few = f" ({band.few_warps} where there are few rows)" if band.few_warps else ""
    return f"{rows}: tiles of {band.elements} elements{sides} with {band.warps} warps{few}{programs}{stages}{bound}"


def _access(access: Access) -> str:
    dims = ", ".join(map(str, access.dims))
    if access.tensor is None:
        return f"position along [{dims}]"
    gathered = f", gathered along {', '.join(map(str, access.gathered))}" if access.gathered else ""
    return f"{access.tensor} [{dims}]{gathered}"
