"""A row kernel plan as words: functions of its formula, three kernels that walk rows in their ways, the launcher."""

from __future__ import annotations

from opgen.emit.contexts import RowKernelContext
from opgen.emit.kernel_leaves import Leaves
from opgen.emit.kernel_names import Kernel, LaunchNames, find_used
from opgen.emit.kernels import grouped, signature_of, varying
from opgen.emit.names import KERNEL_NAMES, RESERVED, ROW_NAMES, ROW_SPACE, Names, type_name
from opgen.emit.row_memory import RowMemory
from opgen.emit.row_words import RowWords
from opgen.ir.nodes import Op, TensorParam
from opgen.plan.model import RowPlan


def row_kernel_context(
    op: Op, plan: RowPlan, variant: int, stem: str, module_names: Names, launch: LaunchNames
) -> RowKernelContext:
    """The words of one row kernel of one variant, in an op as it sees it; `stem` begins the names of its functions."""
    taken = RESERVED | KERNEL_NAMES | ROW_NAMES | {type_name(variable.name) for variable in op.variables}
    kernel = Kernel(op, plan, plan.parts[variant], Names(taken))
    used = find_used(kernel, kernel.part.graph.values, kernel.part.graph.stores, launch.old)
    words = RowWords(kernel, RowMemory(kernel), Leaves(kernel, launch), stem, module_names)
    words.print_functions()
    own = signature_of(kernel, used, launch)
    partials = words.partials()
    memory = words.memory
    strides = [memory.strides(access) for access in plan.accesses]
    layouts = [f"{stem}_layout: tl.constexpr" for stem in kernel.stems.values()]
    numbers = (*ROW_SPACE, *(name for names in strides for name in names))
    resident, looped, split = (module_names.fresh(f"{stem}_{end}") for end in ("resident", "looped", "split"))
    figures = launch.figures
    stages = len(words.looped) + bool(words.whole)  # of programs for each piece
    return RowKernelContext(
        functions=tuple(words.functions),
        resident=resident,
        looped=looped,
        split=split,
        decorator=own.decorator(len(numbers)),
        parameters=grouped(
            (*own.pointers, *own.scalars), own.integers, ROW_SPACE, *strides, layouts, own.consts
        ),
        split_decorator=varying(
            len(own.pointers) + len(partials), len(own.scalars) + len(own.integers) + len(numbers) + 2
        ),
        split_parameters=grouped(
            own.pointers,
            [pointer for pointer, _ in partials],
            own.scalars,
            own.integers,
            ROW_SPACE,
            *strides,
            ("splits", "blocks"),
            layouts,
            own.consts,
        ),
        row_lines=tuple(words.row_lines()),
        resident_lines=tuple(words.resident_lines()),
        passes=tuple(words.passes()),
        result_lines=tuple(words.result_lines("row_mask")),
        piece_result_lines=tuple(words.result_lines("row_mask & (piece == 0)")),
        has_whole_results=bool(words.whole),
        whole_lines=tuple(words.whole_lines()),
        last_stage=str(len(words.looped)),
        stages=str(stages),
        has_stages=stages > 1,
        joins_last=not words.whole,
        launch=module_names.fresh(f"_launch{stem}"),
        launch_parameters=launch.parameters,
        via=launch.via,
        figures=figures,
        arguments=(
            *own.given,
            *(f"*{figures}.{words}" for words in ("space", "strides", "layouts")),
            *own.given_consts,
        ),
        split_arguments=(
            *own.given[: len(own.pointers)],
            *(f"{figures}.partials({dtype}, {_device(op, launch)})" for _, dtype in partials),
            *own.given[len(own.pointers) :],
            *(f"*{figures}.{words}" for words in ("space", "strides", "pieces", "layouts")),
            *own.given_consts,
        ),
    )


def declared_parts(op: Op, plan: RowPlan) -> tuple[str, ...]:
    """For each access the strides that the kernel takes: of rows, of columns, or both; and whether it is written."""
    kernel = Kernel(op, plan, plan.parts[0], Names())
    memory = RowMemory(kernel)
    return tuple(memory.declared(access) for access in plan.accesses)


def _device(op: Op, launch: LaunchNames) -> str:
    given = next(one.name for one in op.params if isinstance(one, TensorParam) and not one.optional)
    return f"{launch.of[given]}.device"
