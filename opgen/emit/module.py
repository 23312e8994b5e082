"""An op and its plans as the context of one generated module."""

from __future__ import annotations

import re

from opgen.dtypes import DType
from opgen.emit.contexts import (
    FunctionContext,
    ModuleContext,
    OperatorContext,
    ReferenceContext,
    TableContext,
)
from opgen.emit.dialects import number_text
from opgen.emit.documentation import function_doc, module_doc
from opgen.emit.kernel_names import LaunchNames
from opgen.emit.kinds import EmittedKernel, TableNames, config_table, emit_kernel, walk_table
from opgen.emit.names import DEVICE_FUNCTIONS, LAUNCHER_NAMES, MODULE_NAMES, Names, ascii_name, type_name
from opgen.emit.reference import is_variant, reference_lines
from opgen.emit.tables import declaration, each, quoted, read_across, tensor_text
from opgen.emit.variants import specialised
from opgen.ir.nodes import Op, Param, ScalarParam, TensorParam
from opgen.ir.passes.parts import as_part_sees
from opgen.plan.model import Plan

_OPTIONAL_TENSOR = "torch.Tensor | None"


def module_context(op: Op, plans: tuple[Plan, ...], spec: str) -> ModuleContext:
    """The words of an op's module; `spec` is the path of its spec, relative to the project."""
    names = Names((*MODULE_NAMES, *DEVICE_FUNCTIONS))
    function = names.fresh(op.name)
    stem = f"_{ascii_name(op.name)}"
    entry = Names((*MODULE_NAMES, op.name, *(param.name for param in op.params))).fresh("_ENTRY")
    names.fresh(entry)
    operator, table = names.fresh("_OPERATOR"), names.fresh("_operator")
    reference = names.fresh("reference")
    table_names = _table_names(plans[0], names)
    kernels = _kernels(op, plans, stem, names, table_names)
    tables = [TableContext(operator, declaration(op, plans[0]))]
    for place, own in enumerate(table_names):
        by_target = tuple((plan.target, plan.kernels[place]) for plan in plans)
        tables.append(TableContext(own.walk, walk_table(by_target[0][1])))
        tables.append(TableContext(own.configs, config_table(by_target)))
    title, *doc_lines = module_doc(op)
    return ModuleContext(
        spec=spec,
        title=title,
        doc_lines=tuple(doc_lines),
        device_functions=_device_functions(kernels),
        kernels=tuple(kernel.text for variant in kernels for kernel in variant),
        tables=tuple(tables),
        function=_function(op, function, entry),
        reference=_reference(op, reference, operator),
        entry=TableContext(entry, _entry(op, plans[0], operator, kernels, reference)),
        operator=_operator(op, table),
    )


def _kernels(
    op: Op, plans: tuple[Plan, ...], stem: str, names: Names, tables: tuple[TableNames, ...]
) -> tuple[tuple[EmittedKernel, ...], ...]:
    """The kernels of each variant."""
    launch = _launch_names(op, plans[0])
    count = len(tables)
    result: list[tuple[EmittedKernel, ...]] = []
    for number, variant in enumerate(op.variants):
        own = specialised(op, number)
        by_kernel: list[EmittedKernel] = []
        for place in range(count):
            suffix = f"_{_variant_name(variant.choices[0], number)}" if len(op.variants) > 1 else ""
            suffix += f"_{place}" if count > 1 else ""
            plan = plans[0].kernels[place]
            seen = as_part_sees(own, plan.parts[number], plans[0].temporaries[number])
            by_kernel.append(emit_kernel(seen, plan, number, stem + suffix, names, launch, tables[place]))
        result.append(tuple(by_kernel))
    return tuple(result)


def _table_names(plan: Plan, names: Names) -> tuple[TableNames, ...]:
    """The names of each kernel's tables, which all variants share."""
    count = len(plan.kernels)
    ends = [f"_{place}" if count > 1 else "" for place in range(count)]
    return tuple(TableNames(names.fresh(f"_WALK{end}"), names.fresh(f"_CONFIGS{end}")) for end in ends)


def _launch_names(op: Op, plan: Plan) -> LaunchNames:
    """The launchers' names: they all take the same, whether they use it or not."""
    local = Names((*MODULE_NAMES, *LAUNCHER_NAMES))
    of = {item.name: local.fresh(item.name) for item in (*op.params, *op.results)}
    across = read_across(op, plan)
    old = {one.name: local.fresh(f"{one.name}_old") for one in op.tensors if one.inout and one.name in across}
    via, figures, sizes = (local.fresh(name) for name in ("via", "launch", "sizes"))
    between = {one.name: local.fresh(one.name) for one in plan.temporaries[0]}
    parameters = (via, figures, sizes, *of.values(), *old.values(), *between.values())
    return LaunchNames(via, figures, sizes, of | between, old, parameters)


def _device_functions(kernels: tuple[tuple[EmittedKernel, ...], ...]) -> tuple[str, ...]:
    """The functions of the runtime that the kernels call."""
    used: set[str] = set()
    for kernel in (kernel for variant in kernels for kernel in variant):
        used |= set(re.findall(r"(?<![\w.])([a-z_]\w*)\(", kernel.text))
    return tuple(sorted(used & DEVICE_FUNCTIONS))


def _variant_name(choice: tuple[DType, ...], number: int) -> str:
    """A variant by what its types compute in, such as `f32` or `f32_i64`."""
    return "_".join(dtype.compute if dtype.bits >= 16 else dtype.name for dtype in choice) or str(number)


def _entry(
    op: Op, plan: Plan, operator: str, kernels: tuple[tuple[EmittedKernel, ...], ...], reference: str
) -> str:
    variants = []
    for number, (variant, emitted) in enumerate(zip(op.variants, kernels, strict=True)):
        parts = [f"({each(kernel.entry for kernel in emitted)})"]
        if len(op.variants) > 1:
            choices = (f"({each(f'torch.{dtype.torch}' for dtype in choice)})" for choice in variant.choices)
            parts.append(f"({each(choices)})")
        if plan.temporaries[number]:
            between = each(tensor_text(one) for one in plan.temporaries[number])
            parts.append(f"temporaries=({between})")
        variants.append(f"rt.Variant({', '.join(parts)})")
    parameters = each(quoted(param.name) for param in op.params)
    return f"rt.Entry({operator}, parameters=({parameters}), variants=({', '.join(variants)},), reference={reference})"


def _function(op: Op, name: str, entry: str) -> FunctionContext:
    parameters = [_parameter(param) for param in op.params]
    arguments = [param.name for param in op.params]
    if op.results:
        parameters += ["*", f"out: {_tensors(len(op.results))} | None = None"]
        arguments.append("out=out")
    title, *doc_lines = function_doc(op)
    returns = _tensors(len(op.results or op.written))  # an op without results gives what it updates
    return FunctionContext(name, tuple(parameters), returns, title, tuple(doc_lines), entry, tuple(arguments))


def _parameter(param: Param) -> str:
    if isinstance(param, TensorParam):
        return f"{param.name}: {_OPTIONAL_TENSOR} = None" if param.optional else f"{param.name}: torch.Tensor"
    number = _number(param)
    kind = number if param.const else f"{number} | torch.Tensor"
    return f"{param.name}: {kind}{_default(param)}"


def _number(param: ScalarParam) -> str:
    """Python's type for a scalar."""
    return "bool" if param.dtype.is_bool else "float" if param.dtype.is_float else "int"


def _default(param: ScalarParam) -> str:
    return "" if param.default is None else f" = {number_text(param.default, param.dtype).code}"


def _tensors(count: int) -> str:
    """The type of a tensor, or of a tuple of several."""
    return "torch.Tensor" if count == 1 else f"tuple[{', '.join(['torch.Tensor'] * count)}]"


def _reference(op: Op, name: str, operator: str) -> ReferenceContext:
    local = Names(
        (*MODULE_NAMES, "device", "bound", *(type_name(variable.name) for variable in op.variables))
    )
    names = {param.name: local.fresh(param.name) for param in op.params}
    parameters = []
    for param in op.params:
        text = _parameter(param)
        parameters.append(names[param.name] + text[len(param.name) :])
    lines: list[str] = []
    for number, variant in enumerate(op.variants):
        body = reference_lines(op, number, names, operator)
        if number == len(op.variants) - 1:
            lines += body
            continue
        lines.append(f"if {is_variant(op, variant, names)}:")
        lines += [f"    {line}" for line in body]
    return ReferenceContext(name, tuple(parameters), _tensors(len(op.written)), tuple(lines))


def _operator(op: Op, name: str) -> OperatorContext:
    local = Names(MODULE_NAMES)
    parameters: list[str] = []
    arguments: list[str] = []
    for param in op.params:
        own = local.fresh(ascii_name(param.name))
        arguments.append(own)
        if isinstance(param, TensorParam):
            parameters.append(f"{own}: {_OPTIONAL_TENSOR if param.optional else 'torch.Tensor'}")
            continue
        parameters.append(f"{own}: {_number(param)}")
        if not param.const:
            tensor = local.fresh(f"{own}_tensor")
            parameters.append(f"{tensor}: {_OPTIONAL_TENSOR}")
            arguments.append(tensor)
    returns = _tensors(len(op.results)) if op.results else "None"
    return OperatorContext(name, tuple(parameters), returns, tuple(arguments))
