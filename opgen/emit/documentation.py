"""Docstrings of generated modules and functions."""

from __future__ import annotations

import textwrap

from opgen.ir.nodes import Op, Param, Result, TensorParam

_WIDTH = 96


def module_doc(op: Op) -> tuple[str, ...]:
    """The docstring of a module: what the op is, and its formula."""
    return (*_title(op), "", "The formula, by dim name:", "", *_formula(op))


def function_doc(op: Op) -> tuple[str, ...]:
    """The docstring of the public function, indented as its body."""
    lines = [*_title(op), "", *_formula(op), "", "Args:"]
    lines += _entries((param.name, _parameter(op, param)) for param in op.params)
    if op.results:
        many = len(op.results) > 1
        takes = "a tuple of tensors that take the results" if many else "a tensor that takes the result"
        lines += _entries(
            [("out", f"{takes}, instead of new ones." if many else f"{takes}, instead of a new one.")]
        )
    lines += ["", "Returns:"]
    lines += _entries((result.name, _result(op, result)) for result in op.results)
    if not op.results:
        lines += _entries((one.name, "the tensor itself.") for one in op.tensors if one.inout)
    lines += ["", "Raises:", *_RAISES]
    first, *rest = lines
    return (first, *(f"    {line}" if line else "" for line in rest))


_RAISES = (
    "    TypeError: an argument is no tensor or number of an accepted type.",
    "    ValueError: sizes, devices or memory of the arguments do not fit together.",
    "    RuntimeError: in a backward pass, which this op does not have.",
)


def _title(op: Op) -> list[str]:
    if op.doc is None:
        return [f"The op `{op.name}`."]
    text = textwrap.dedent(op.doc).strip()
    return [_escaped(line.rstrip()) for line in text.split("\n")]


def _formula(op: Op) -> list[str]:
    return [f"    {_escaped(line)}" for statement in op.statements for line in statement.split("\n")]


def _escaped(text: str) -> str:
    """Text as it may stand in a docstring."""
    return text.replace("\\", "\\\\").replace('"""', '\\"\\"\\"')


def _entries(entries) -> list[str]:  # type: ignore[no-untyped-def]
    lines = []
    for name, text in entries:
        lines += textwrap.wrap(
            f"{name}: {text}", _WIDTH - 8, initial_indent="    ", subsequent_indent="        "
        )
    return lines


def _types(op: Op, name: str | None, own: str) -> str:
    for variable in op.variables:
        if variable.name == name:
            types = [dtype.torch for dtype in variable.types]
            return types[0] if len(types) == 1 else f"{', '.join(types[:-1])} or {types[-1]}"
    return own


def _dims(item: TensorParam | Result) -> str:
    return f"[{', '.join(map(str, item.dims))}]"


def _parameter(op: Op, param: Param) -> str:
    if not isinstance(param, TensorParam):
        kind = "a number, known at compile time" if param.const else "a number or a 0-d tensor"
        return f"{kind} ({param.dtype.torch})."
    types = _types(op, param.element.variable, param.element.dtype.torch)
    text = f"tensor {_dims(param)} of {types}"
    if param.element.dtype.is_packed:
        text += f", two {param.element.dtype.name} in each byte along the last dim, low nibble first"
    if param.inout:
        text += "; updated in place"
    if param.default is not None:
        text += "; may be left out"
    return text + "."


def _result(op: Op, result: Result) -> str:
    return f"tensor {_dims(result)} of {_types(op, result.element.variable, result.element.dtype.torch)}."
