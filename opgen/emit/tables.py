"""The tables of a generated module: what it declares, what its kernels walk, and the configs by target."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from opgen.dtypes import F64, I64
from opgen.emit.dialects import number_text
from opgen.emit.nonempty import needed_reductions
from opgen.ir.nodes import (
    Dim,
    Gather,
    HostApply,
    HostExpr,
    HostName,
    HostNumber,
    Number,
    Op,
    Read,
    Requirement,
    Result,
    TensorParam,
)
from opgen.ir.passes.partition import heavy_results
from opgen.ir.passes.parts import Temporary, target_dims
from opgen.plan.model import Access, ElementwisePlan, Plan


def quoted(text: str) -> str:
    """A Python string literal."""
    return '"' + text.encode("unicode_escape").decode("ascii").replace('"', '\\"') + '"' if text else '""'


def declaration(op: Op, plan: Plan) -> str:
    """`rt.Operator(…)`."""
    across, heavy = read_across(op, plan), heavy_results(op)
    parts = [
        f"name={quoted(op.name)}",
        f"inputs=({each(tensor_text(tensor, across) for tensor in op.tensors)})",
        f"results=({each(tensor_text(result, contiguous=heavy) for result in op.results)})",
    ]
    scalars = [param for param in op.params if not isinstance(param, TensorParam)]
    if scalars:
        texts = (
            f"rt.Scalar({quoted(one.name)}, {quoted(one.dtype.name)}{', const=True' if one.const else ''})"
            for one in scalars
        )
        parts.append(f"scalars=({each(texts)})")
    if op.variables:
        texts = (
            f"{quoted(variable.name)}: ({each(f'torch.{dtype.torch}' for dtype in variable.types)})"
            for variable in op.variables
        )
        parts.append(f"variables={{{', '.join(texts)}}}")
    if op.requirements:
        parts.append(f"requirements=({each(_requirement(one) for one in op.requirements)})")
    nonempty = needed_reductions(op)
    if nonempty:
        texts = (
            f"rt.Nonempty({quoted(one.kind)}, {dims_text(one.dims)}, {quoted(one.target)})"
            for one in nonempty
        )
        parts.append(f"nonempty=({each(texts)})")
    return f"rt.Operator({', '.join(parts)})"


def walk(plan: ElementwisePlan) -> str:
    """`rt.Walk(…)`: the space of a kernel and what it addresses."""
    accesses = each(access_text(access) for access in plan.accesses)
    return f"rt.Walk(space={dims_text(plan.space)}, accesses=({accesses}))"


def configs(plans: Sequence[tuple[str, ElementwisePlan]]) -> str:
    """The configs of one kernel: target, then bytes of the widest element. Targets that agree share a row."""
    rows: dict[str, list[str]] = {}
    for target, plan in plans:
        entries = ", ".join(
            f"{one.width}: rt.Config(block={one.block}, warps={one.warps}, tile={one.tile}, turned={one.turned}, "
            f"tile_warps={one.tile_warps}, turned_warps={one.turned_warps})"
            for one in plan.configs
        )
        rows.setdefault(f"{{{entries}}}", []).append(target)
    return by_targets(rows)


def by_targets(rows: Mapping[str, Sequence[str]]) -> str:
    """A dict by target: each text with the targets that it is for."""
    texts = (
        f"{quoted(names[0])}: {table}"
        if len(names) == 1
        else f"**dict.fromkeys(({', '.join(map(quoted, names))}), {table})"
        for table, names in rows.items()
    )
    return f"{{{', '.join(texts)}}}"


def each(texts: Iterable[str]) -> str:
    """Texts with a comma behind each: the inside of a tuple of any length."""
    return "".join(f"{text}, " for text in texts)


def dims_text(dims: tuple[Dim | None, ...]) -> str:
    """Dims as the runtime's declarations write them; None stands for a place of one element."""
    return f"({each('None' if dim is None else quoted(str(dim)) for dim in dims)})"


def read_across(op: Op, plan: Plan) -> frozenset[str]:
    """The tensors that kernels read elsewhere than at the element that they write: gathered, permuted, broadcast.

    Reductions and products read whole rows; where an op has several kernels, one may read what another has written.
    """
    targets = set(target_dims(op).values())
    values = [value for kernel in plan.kernels for part in kernel.parts for value in part.graph.values]
    read = {value.node.param for value in values if isinstance(value.node, Read | Gather)}
    gathered = {value.node.param for value in values if isinstance(value.node, Gather)}
    is_elementwise = len(plan.kernels) == 1 and plan.kernels[0].parts[0].kind == "elementwise"
    return frozenset(
        tensor.name
        for tensor in op.tensors
        if tensor.name in read and (tensor.name in gathered or not is_elementwise or targets != {tensor.dims})
    )


def tensor_text(
    item: TensorParam | Result | Temporary,
    across: frozenset[str] = frozenset(),
    contiguous: frozenset[str] = frozenset(),
) -> str:
    """`rt.Tensor(…)`; `across` and `contiguous` name the tensors that have these flags."""
    flags = ""
    if isinstance(item, TensorParam):
        flags = (", optional=True" if item.optional else "") + (", written=True" if item.inout else "")
        flags += ", across=True" if item.name in across else ""
    flags += ", contiguous=True" if item.name in contiguous else ""
    return f"rt.Tensor({quoted(item.name)}, {quoted(str(item.element))}, {dims_text(item.dims)}{flags})"


def access_text(access: Access) -> str:
    """`rt.Access(…)`."""
    gathered = f", gathered={dims_text(access.gathered)}" if access.gathered else ""
    return (
        f"rt.Access({quoted(access.tensor) if access.tensor else None}, {dims_text(access.dims)}{gathered})"
    )


def _requirement(requirement: Requirement) -> str:
    why = quoted(requirement.why) if requirement.why else None
    condition = host_text(requirement.condition)
    return f"rt.Requirement({quoted(requirement.text)}, {why}, lambda given: {condition})"


def host_text(expr: HostExpr) -> str:
    """A condition as Python over `given`, the sizes and consts by name."""
    match expr:
        case HostName(name=name, dim=None):
            return f"given[{quoted(name)}]"
        case HostName(dim=dim) if dim is not None:
            text = f"given[{quoted(dim.name)}]"
            if dim.times != 1:
                return f"({text} * {dim.times})"
            return f"({text} // {dim.over})" if dim.over != 1 else text
        case HostNumber(number=number, is_bool=is_bool):
            return str(bool(number.value)) if is_bool else _host_number(number)
        case HostApply(operator=operator, args=args):
            return _host_apply(operator, [host_text(arg) for arg in args])
    raise AssertionError(expr)


def _host_number(number: Number) -> str:
    whole = not isinstance(number.value, float) and number.value.denominator == 1
    return number_text(number, I64 if whole else F64).code


def _host_apply(operator: str, args: list[str]) -> str:
    if operator in ("min", "max", "abs"):
        return f"{operator}({', '.join(args)})"
    if len(args) == 1:
        return f"({operator} {args[0]})" if operator == "not" else f"({operator}{args[0]})"
    return f"({args[0]} {operator} {args[1]})"
