"""An elementwise kernel plan as words: the formula, a dense and a strided kernel, and their launcher."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from opgen.emit.contexts import KernelContext
from opgen.emit.dialects import TRITON
from opgen.emit.exprs import Printer
from opgen.emit.kernel_leaves import Leaves
from opgen.emit.kernel_memory import dense_positions, load_lines, offset_lines, store_lines
from opgen.emit.kernel_names import (
    STRIDES,
    Kernel,
    LaunchNames,
    Used,
    find_used,
    layout_names,
    result_names,
)
from opgen.emit.names import KERNEL_NAMES, RESERVED, SPACE, Names, type_name
from opgen.emit.variants import is_f8
from opgen.ir.nodes import Op, Store
from opgen.plan.model import ElementwisePlan

_LINE = 90


@dataclass(frozen=True)
class Signature:
    """What all kernels of a part take, in this order, and the launcher's expressions for it."""

    pointers: tuple[str, ...]
    scalars: tuple[str, ...]
    integers: tuple[str, ...]
    consts: tuple[str, ...]
    given: tuple[str, ...]
    given_consts: tuple[str, ...]

    def decorator(self, further: int = 0) -> str:
        """The words of the decorator, for the numbers that vary from call to call, `further` ones among them."""
        return varying(len(self.pointers), len(self.scalars) + len(self.integers) + further)


def kernel_context(
    op: Op, plan: ElementwisePlan, variant: int, stem: str, module_names: Names, launch: LaunchNames
) -> KernelContext:
    """The words of one kernel of one variant, in an op as it sees it; `stem` begins the names of its functions."""
    part = plan.parts[variant]
    taken = RESERVED | KERNEL_NAMES | {type_name(variable.name) for variable in op.variables}
    kernel = Kernel(op, plan, part, Names(taken))
    used = find_used(kernel, part.graph.values, part.graph.stores, launch.old)
    printer = Printer(part.graph, TRITON, kernel.names, Leaves(kernel, launch).text)
    returned = ", ".join(printer.body())
    formula, dense, strided = (module_names.fresh(f"{stem}_{end}") for end in ("formula", "dense", "strided"))
    signature = signature_of(kernel, used, launch)
    strides, layouts = layout_names(kernel)
    figures = launch.figures
    return KernelContext(
        formula=formula,
        formula_doc=_formula_doc(op, part.graph.stores),
        formula_parameters=tuple(kernel.formula),
        formula_lines=tuple(printer.lines),
        returned=returned,
        has_dense=not _is_never_dense(op, plan),
        dense=dense,
        dense_decorator=signature.decorator(),
        dense_parameters=(*signature.pointers, *signature.scalars, *signature.integers, *signature.consts),
        dense_lines=(*dense_positions(kernel), *_computation(kernel, formula, dense=True)),
        strided=strided,
        strided_decorator=signature.decorator(len(SPACE) + STRIDES * len(strides)),
        strided_parameters=grouped(
            (*signature.pointers, *signature.scalars),
            signature.integers,
            SPACE,
            *strides,
            layouts,
            signature.consts,
        ),
        strided_lines=(*offset_lines(kernel), *_computation(kernel, formula, dense=False)),
        launch=module_names.fresh(f"_launch{stem}"),
        launch_parameters=launch.parameters,
        via=launch.via,
        figures=figures,
        dense_arguments=(*signature.given, *signature.given_consts),
        strided_arguments=(
            *signature.given,
            *(f"*{figures}.{words}" for words in ("space", "strides", "layouts")),
            *signature.given_consts,
        ),
    )


def varying(first: int, count: int) -> str:
    """What the decorator of a kernel says of so many numbers from a place on: they are no reason to compile again."""
    return f"(do_not_specialize=range({first}, {first + count}))" if count else ""


def signature_of(kernel: Kernel, used: Used, launch: LaunchNames) -> Signature:
    """The parameters of a kernel whose formula has been printed, so that all it takes is known."""
    consts = (*(kernel.values[name] for name in used.consts), *kernel.units)
    return Signature(
        pointers=(*(kernel.pointers[name] for name in used.tensors), *kernel.old_pointers.values()),
        scalars=tuple(
            parameter
            for name in used.scalars
            for parameter in (kernel.values[name], *kernel.lows.get(name, ()))
        ),
        integers=tuple(kernel.integers),
        consts=tuple(f"{name}: tl.constexpr" for name in consts),
        given=(
            *(given(kernel.op, name, launch.of[name]) for name in used.tensors),
            *(given(kernel.op, name, launch.old[name]) for name in kernel.old_pointers),
            *(_given_scalar(kernel, name, launch) for name in used.scalars),
            *kernel.integers.values(),
        ),
        given_consts=(*(launch.of[name] for name in used.consts), *kernel.units.values()),
    )


def _computation(kernel: Kernel, formula: str, *, dense: bool) -> list[str]:
    """The lines that load, call the formula, and store."""
    stores = kernel.part.graph.stores
    results = result_names(kernel, stores)
    call = f"{', '.join(results)} = {formula}({', '.join(kernel.formula.values())})"
    return [*load_lines(kernel, dense=dense), call, *store_lines(kernel, stores, results, dense=dense)]


def _given_scalar(kernel: Kernel, name: str, launch: LaunchNames) -> str:
    """A scalar as the launcher passes it on."""
    own = launch.of[name]
    if name in kernel.lows:
        return f"*rt.halves({own})"
    return f"rt.flag({own})" if kernel.scalars[name].dtype.is_bool else own


def given(op: Op, name: str, own: str) -> str:
    """A tensor as the launcher passes it on."""
    item = next(one for one in op.arrays if one.name == name)
    return f"rt.f8({own})" if is_f8(item.element.dtype) else own


def grouped(*groups: Sequence[str]) -> tuple[str, ...]:
    """Parameters as lines, each group beginning one of its own."""
    lines: list[str] = []
    for group in groups:
        line = ""
        for parameter in group:
            if line and len(line) + len(parameter) > _LINE:
                lines.append(line)
                line = ""
            line += f"{' ' if line else ''}{parameter},"
        lines += [line] if line else []
    return tuple(lines)


def _formula_doc(op: Op, stores: tuple[Store, ...]) -> str:
    names = " and ".join(store.target for store in stores)
    return f"`{names}` of {op.name} for one tile, in the types that it computes in."


def _is_never_dense(op: Op, plan: ElementwisePlan) -> bool:
    """Whether tensors never share one dense layout: some is walked two elements to a byte, or no dim is in all."""
    walked = [{*access.dims} - {*access.gathered} for access in plan.accesses]
    if not set.intersection(*walked):
        return True
    packed = {tensor.name: tensor.dims[-1] for tensor in op.tensors if tensor.element.dtype.is_packed}
    return any(
        access.tensor in packed and packed[access.tensor] not in access.gathered for access in plan.accesses
    )
