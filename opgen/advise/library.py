"""What PyTorch already has as one kernel, read from the spec's own `reference` or statements."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

#: Functions of `torch.nn.functional` and `torch` that run as one kernel on a GPU (torch 2.11).
ONE_KERNEL = frozenset(
    "abs celu clamp cos dropout elu erf exp gelu hardsigmoid hardswish hardtanh layer_norm leaky_relu lerp log "
    "log_softmax logsigmoid mish pow relu relu6 rsqrt selu sigmoid silu sin softmax softplus sqrt square tanh "
    "where".split()
)
#: One that is a kernel there, and several steps of a spec's statements.
_OF_PYTORCH_ALONE = "rms_norm"

_REDUCING = frozenset({"layer_norm", _OF_PYTORCH_ALONE, "softmax", "log_softmax"})


@dataclass(frozen=True)
class Launch:
    """A kernel of eager PyTorch: the elements that it reads and writes, whether it reduces rows, and whether it repeats
    an operand of fewer elements."""

    name: str
    read: int
    written: int
    reduces: bool
    spreads: bool = False


def launches_of(
    reference: str | None, statements: Sequence[str], elements: Mapping[str, int]
) -> tuple[Launch, ...] | None:
    """What a spec's reference launches, or else its statements read as PyTorch would run them one by one.

    `elements` says how many each parameter has (0 for a number). None where there is more than functions of the table
    and operators.
    """
    text = "\n".join(statements) if reference is None else f"result = ({reference})"
    found: list[Launch] = []
    known = dict(elements)
    try:
        for statement in ast.parse(text).body:
            match statement:
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    known[name] = _count(value, known, found)
                case _:
                    return None
    except (_OtherError, SyntaxError):
        return None
    return tuple(found)


class _OtherError(Exception):
    """Something that is not in the table."""


def _count(node: ast.expr, elements: Mapping[str, int], found: list[Launch]) -> int:
    """The elements of an expression, 0 for a number; what it launches is appended to `found`."""
    match node:
        case ast.Constant():
            return 0
        case ast.Name(id=name) if name in elements:
            return elements[name]
        case ast.Call(
            func=ast.Attribute(value=ast.Name(id="F" | "torch"), attr=name)
            | ast.Name(id=name)
            | ast.Subscript(value=ast.Name(id=name))
        ) if name in ONE_KERNEL or (name == _OF_PYTORCH_ALONE and isinstance(node.func, ast.Attribute)):
            given = [*node.args, *(keyword.value for keyword in node.keywords)]
            taken = [_count(argument, elements, found) for argument in given]
            return _launched(name, taken, found)
        case ast.Call(func=ast.Attribute(value=value, attr=name)) if name in ONE_KERNEL:
            given = [value, *node.args, *(keyword.value for keyword in node.keywords)]
            return _launched(name, [_count(argument, elements, found) for argument in given], found)
        case ast.BinOp(left=left, right=right, op=operator) if not isinstance(operator, ast.MatMult):
            taken = [_count(side, elements, found) for side in (left, right)]
            return _launched(type(operator).__name__.lower(), taken, found) if max(taken) else 0
        case ast.UnaryOp(operand=operand, op=operator):
            taken = [_count(operand, elements, found)]
            return _launched(type(operator).__name__.lower(), taken, found) if taken[0] else 0
        case ast.Tuple(elts=items):
            return max((_count(item, elements, found) for item in items), default=0)
        case ast.Subscript(value=ast.Attribute(attr="shape")) | ast.Attribute(value=ast.Name(id="math")):
            return 0
        case _:
            raise _OtherError


def _launched(name: str, taken: list[int], found: list[Launch]) -> int:
    written = taken[0] if name in _REDUCING else max(taken)
    spreads = name not in _REDUCING and any(0 < count < written for count in taken)
    found.append(Launch(name, sum(taken), written, name in _REDUCING, spreads))
    return written
