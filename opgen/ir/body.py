"""Lowering of a body's assignments and gradients to a graph, for one choice of types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from opgen.diagnostics import Diagnostics, Note
from opgen.dtypes import BOOL, DTYPES, F32, I64, DType, Kind
from opgen.ir import dims as dim_rules
from opgen.ir.context import Binding, Computed, Context, Folded
from opgen.ir.expressions import cast, lower
from opgen.ir.nodes import Dim, Element, Graph
from opgen.ir.reads import read_tensors
from opgen.ir.scope import Functions
from opgen.ir.signature import Signature, chosen
from opgen.ir.types import convert, integer_literal_type
from opgen.syntax import ast


def new_context(
    signature: Signature, functions: Functions, choice: Mapping[str, DType], diagnostics: Diagnostics
) -> Context:
    """A context in which the op's tensor parameters can be read."""
    context = Context(signature, functions, choice, diagnostics)
    read_tensors(context)
    return context


def lower_assignments(context: Context, assigns: Sequence[ast.Assign]) -> Graph:
    """The graph of the body's assignments."""
    for assign in reversed(assigns):
        if _names_new(context, assign.name.text):
            context.later[assign.name.text] = assign.name.span
    for assign in assigns:
        _assign(context, assign)
    return context.graph.graph()


def _names_new(context: Context, name: str) -> bool:
    """Whether the name means nothing before its assignment (an `inout` parameter means its old value)."""
    signature = context.signature
    return signature.tensor(name) is None and signature.scalar(name) is None and name not in signature.dims


def _assign(context: Context, assign: ast.Assign) -> None:
    name = assign.name.text
    operand = lower(context, assign.value)
    if assign.type is not None:
        element = context.element(assign.type)
        operand = None if element is None else cast(context, operand, element, assign.value.span)
    context.later.pop(name, None)
    if name in context.names:
        note = Note("first assigned here", context.names[name].span)
        context.diagnostics.error("OPG601", f"`{name}` is assigned twice", assign.name.span, notes=(note,))
        return
    if not _check_target(context, assign.name):
        return
    context.names[name] = Binding(operand, assign.name.span)
    if isinstance(operand, Computed):
        context.graph.name(operand.ref, name)
    target = _target(context, name)
    if target is not None and operand is not None:
        _store(context, name, target, operand)


def _check_target(context: Context, name: ast.Name) -> bool:
    """Whether a name may be assigned."""
    signature = context.signature
    tensor = signature.tensor(name.text)
    if (
        name.text in signature.broken
        or (tensor is not None and tensor.inout)
        or signature.result(name.text) is not None
    ):
        return True
    if tensor is not None:
        message, advice = (
            f"the parameter `{name.text}` is not `inout` and cannot be assigned",
            f"declare it `inout {name.text}: …`",
        )
        context.error("OPG602", message, name.span, advice)
    elif signature.scalar(name.text) is not None:
        context.error("OPG602", f"the parameter `{name.text}` cannot be assigned", name.span)
    elif name.text in signature.dims:
        context.error("OPG603", f"`{name.text}` is a dim of the op: choose another name", name.span)
    elif signature.variable(name.text) is not None:
        context.error("OPG603", f"`{name.text}` is a type variable of the op: choose another name", name.span)
    else:
        return True
    return False


def _target(context: Context, name: str) -> tuple[Element, tuple[Dim, ...]] | None:
    """The element and dims of a result or an `inout` tensor."""
    if name in context.signature.broken:
        return None
    result = context.signature.result(name)
    if result is not None:
        return chosen(result.element, context.choice), result.dims
    tensor = context.signature.tensor(name)
    if tensor is not None and tensor.inout:
        return chosen(tensor.element, context.choice), tensor.dims
    return None


# --- stores -------------------------------------------------------------------------------------


def _store(
    context: Context, name: str, target: tuple[Element, tuple[Dim, ...]], operand: Folded | Computed
) -> None:
    """Writes a value to a result, in a compute type that the result's element type is rounded from once."""
    element, dims = target
    uncovered = dim_rules.missing(context.dims(operand), dims)
    for dim in uncovered:
        carries = dim_rules.listed(context.dims(operand))
        message = f"`{name}` has {dim_rules.listed(dims)} and lacks the dim `{dim}` of its value, {carries}"
        advice = "reduce the value over it, or declare the result with it"
        context.error("OPG604", message, operand.span, advice)
    dtype = _stored_type(context, name, element, operand)
    if dtype is None or uncovered:
        return
    ref = convert(context, operand, dtype)
    if ref is not None:
        context.graph.store(name, ref)


def _stored_type(context: Context, name: str, element: Element, operand: Folded | Computed) -> DType | None:
    """The compute type in which a value is stored; None where its kind does not go there (reported)."""
    kind, wanted = context.kind(operand), element.dtype.kind
    if wanted is Kind.BOOL:
        if kind is Kind.BOOL:
            return BOOL
        message = f"`{name}` is a bool, and the value assigned to it is {context.describe(operand)}"
        context.error("OPG605", message, operand.span, "compare it: `!= 0`")
        return None
    if wanted is Kind.INTEGER and kind is Kind.FLOAT:
        message = f"`{name}` is {element}, an integer, and the value assigned to it is a float"
        context.error(
            "OPG606",
            message,
            operand.span,
            f"write `cast({context.quote(operand.span)}, {element})`, which truncates toward zero",
        )
        return None
    compute = DTYPES[element.dtype.compute]
    if isinstance(operand, Folded):
        literal = integer_literal_type(context, operand) if wanted is Kind.INTEGER else compute
        return I64 if literal is I64 else None if literal is None else compute
    own = context.compute_type(operand)
    # A wider value of the same kind is rounded, or wrapped, by the store alone.
    keeps = own.kind is wanted and own.bits > compute.bits
    return own if keeps else compute


# --- gradients ----------------------------------------------------------------------------------


def lower_gradient(context: Context, grad: ast.Grad) -> Graph | None:
    """The graph of `grad x: expr`, over the parameters, the stored results, and `d_y` for each result `y`."""
    signature = context.signature
    for result in signature.results:
        element = chosen(result.element, context.choice)
        if result.name not in signature.broken:
            context.tensors[result.name] = (element, result.dims)
            context.tensors[f"d_{result.name}"] = (element, result.dims)
    operand = lower(context, grad.value)
    if operand is None:
        return None
    tensor = signature.tensor(grad.name.text)
    target = (
        (chosen(tensor.element, context.choice), tensor.dims)
        if tensor is not None
        else _scalar_target(context, grad)
    )
    _store(context, f"d_{grad.name.text}", target, operand)
    return context.graph.graph()


def _scalar_target(context: Context, grad: ast.Grad) -> tuple[Element, tuple[Dim, ...]]:
    scalar = context.signature.scalar(grad.name.text)
    return Element(scalar.dtype if scalar is not None else F32), ()
