"""An op and its plans as the context of one generated module."""

from __future__ import annotations

import re

from opgen.dtypes import DType
from opgen.emit.contexts import (
    FunctionContext,
    KernelContext,
    ModuleContext,
    OperatorContext,
    ReferenceContext,
    TableContext,
)
from opgen.emit.dialects import number_text
from opgen.emit.documentation import function_doc, module_doc
from opgen.emit.kernel_names import LaunchNames
from opgen.emit.kernels import kernel_context
from opgen.emit.names import DEVICE_FUNCTIONS, MODULE_NAMES, Names, ascii_name, type_name
from opgen.emit.reference import is_variant, reference_lines
from opgen.emit.tables import configs, declaration, quoted, read_across, walk
from opgen.ir.nodes import Op, Param, ScalarParam, TensorParam
from opgen.plan.model import Plan

_OPTIONAL_TENSOR = "torch.Tensor | None"


def module_context(op: Op, plans: tuple[Plan, ...], spec: str) -> ModuleContext:
    """The words of an op's module; `spec` is the path of its spec, relative to the project."""
    names = Names((*MODULE_NAMES, *DEVICE_FUNCTIONS))
    function = names.fresh(op.name)
    stem = f"_{op.name}"
    entry = Names((*MODULE_NAMES, op.name, *(param.name for param in op.params))).fresh("_ENTRY")
    names.fresh(entry)
    operator, table = names.fresh("_OPERATOR"), names.fresh("_operator")
    reference = names.fresh("reference")
    kernels = _kernels(op, plans, stem, names)
    tables = [TableContext(operator, declaration(op, plans[0]))]
    walks, config_tables = [], []
    count = len(plans[0].kernels)
    for number, kernel in enumerate(plans[0].kernels):
        suffix = f"_{number}" if count > 1 else ""
        walks.append(names.fresh(f"_WALK{suffix}"))
        config_tables.append(names.fresh(f"_CONFIGS{suffix}"))
        tables.append(TableContext(walks[-1], walk(kernel)))
        tables.append(TableContext(config_tables[-1], configs(plans, number)))
    title, *doc_lines = module_doc(op)
    return ModuleContext(
        spec=spec,
        title=title,
        doc_lines=tuple(doc_lines),
        device_functions=_device_functions(kernels),
        kernels=tuple(context for variant in kernels for context in variant),
        tables=tuple(tables),
        function=_function(op, function, entry),
        reference=_reference(op, reference, operator),
        entry=TableContext(entry, _entry(op, operator, kernels, walks, config_tables, reference)),
        operator=_operator(op, table),
    )


def _kernels(
    op: Op, plans: tuple[Plan, ...], stem: str, names: Names
) -> tuple[tuple[KernelContext, ...], ...]:
    """The kernels of each variant."""
    local = Names(MODULE_NAMES)
    items = (*(param.name for param in op.params), *(result.name for result in op.results))
    own = {name: local.fresh(name) for name in items}
    across = read_across(op, plans[0])
    old = {one.name: local.fresh(f"{one.name}_old") for one in op.tensors if one.inout and one.name in across}
    launch = LaunchNames(local.fresh("via"), local.fresh("launch"), local.fresh("sizes"), own, old)
    result = []
    for number, variant in enumerate(op.variants):
        by_kernel = []
        for place, kernel in enumerate(plans[0].kernels):
            suffix = f"_{_variant_name(variant.choices[0], number)}" if len(op.variants) > 1 else ""
            suffix += f"_{place}" if len(plans[0].kernels) > 1 else ""
            by_kernel.append(kernel_context(op, kernel, number, stem + suffix, names, launch))
        result.append(tuple(by_kernel))
    return tuple(result)


def _device_functions(kernels: tuple[tuple[KernelContext, ...], ...]) -> tuple[str, ...]:
    """The functions of the runtime that the kernels call."""
    used = {"coordinates", "tile"}  # of the template
    for context in (context for variant in kernels for context in variant):
        lines = (*context.formula_lines, context.returned, *context.dense_lines, *context.strided_lines)
        used |= {word for line in lines for word in re.findall(r"(?<![\w.])([a-z_]\w*)\(", line)}
    return tuple(sorted(used & DEVICE_FUNCTIONS))


def _variant_name(choice: tuple[DType, ...], number: int) -> str:
    """A variant by what its types compute in, such as `f32` or `f32_i64`."""
    return "_".join(dtype.compute if dtype.bits >= 16 else dtype.name for dtype in choice) or str(number)


def _entry(
    op: Op,
    operator: str,
    kernels: tuple[tuple[KernelContext, ...], ...],
    walks: list[str],
    tables: list[str],
    reference: str,
) -> str:
    variants = []
    for variant, contexts in zip(op.variants, kernels, strict=True):
        launches = "".join(
            f"rt.Kernel({walk_name}, {context.launch}, {table}), "
            for context, walk_name, table in zip(contexts, walks, tables, strict=True)
        )
        if len(op.variants) == 1:
            variants.append(f"rt.Variant(({launches}))")
            continue
        choices = "".join(
            "(" + "".join(f"torch.{dtype.torch}, " for dtype in choice) + "), " for choice in variant.choices
        )
        variants.append(f"rt.Variant(({launches}), ({choices}))")
    parameters = "".join(f"{quoted(param.name)}, " for param in op.params)
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
