"""Checks and lowering of `grad` statements."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from opgen.diagnostics import Diagnostics, Note, did_you_mean
from opgen.dtypes import DType
from opgen.ir.nodes import Graph
from opgen.ir.signature import Signature
from opgen.syntax import ast


def hand_written(
    signature: Signature, diagnostics: Diagnostics, body: Sequence[ast.Statement]
) -> tuple[ast.Grad, ...]:
    """The `grad x: expr` statements that name an input which can have a gradient; mistakes are reported."""
    none = next((statement for statement in body if isinstance(statement, ast.GradNone)), None)
    kept: dict[str, ast.Grad] = {}
    for grad in (statement for statement in body if isinstance(statement, ast.Grad)):
        name = grad.name.text
        if none is not None:
            note = Note("`grad none` stands here", none.span)
            diagnostics.error(
                "OPG660", "an op with `grad none` has no gradients", grad.name.span, notes=(note,)
            )
        elif name in kept:
            note = Note("first given here", kept[name].name.span)
            diagnostics.error(
                "OPG661", f"the gradient of `{name}` is given twice", grad.name.span, notes=(note,)
            )
        elif _has_gradient(signature, diagnostics, grad.name):
            kept[name] = grad
    if kept:
        _check_names(signature, diagnostics)
    return tuple(kept.values())


def _has_gradient(signature: Signature, diagnostics: Diagnostics, name: ast.Name) -> bool:
    tensor, scalar = signature.tensor(name.text), signature.scalar(name.text)
    if name.text in signature.broken:
        return False
    if tensor is None and scalar is None:
        advice = did_you_mean(name.text, signature.names())
        diagnostics.error(
            "OPG662", f"`{name.text}` is no parameter of `{signature.name}`", name.span, help=advice
        )
    elif any(getattr(param, "inout", False) for param in signature.params):
        diagnostics.error("OPG663", "an op with an `inout` parameter has no backward", name.span)
    elif scalar is not None and scalar.const:
        diagnostics.error("OPG664", f"`{name.text}` is a `const` and has no gradient", name.span)
    elif not any(dtype.is_float for dtype in signature.types(name.text)):
        diagnostics.error("OPG664", f"`{name.text}` is no float and has no gradient", name.span)
    else:
        return True
    return False


def _check_names(signature: Signature, diagnostics: Diagnostics) -> None:
    """`d_y` must mean the gradient of the result `y` alone."""
    for result in signature.results:
        taken = next((param for param in signature.params if param.name == f"d_{result.name}"), None)
        if taken is not None:
            message = f"`{taken.name}` is a parameter and the gradient of the result `{result.name}`"
            diagnostics.error("OPG665", message, taken.span, help="rename one of them")


def for_float_choices(
    signature: Signature,
    name: str,
    choices: Sequence[Mapping[str, DType]],
    lower: Callable[[Mapping[str, DType]], Graph | None],
) -> list[tuple[Mapping[str, DType], Graph]]:
    """The gradient's graph for every choice in which the parameter is a float."""
    tensor = signature.tensor(name)
    variable = tensor.element.variable if tensor is not None else None
    floats = [choice for choice in choices if variable is None or choice[variable].is_float]
    graphs = [(choice, lower(choice)) for choice in floats]
    return [(choice, graph) for choice, graph in graphs if graph is not None]
