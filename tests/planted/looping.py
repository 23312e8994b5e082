"""Operators for kernels that loop over rows, columns or depths: masks, neutral elements, bounds, loops, sums.

As those of `operators`, they know syntax alone. They look at a node, at what it hangs in, and at the masks that the
function around it has.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator

OPERATORS = (
    "mask made true",
    "mask exchanged",
    "neutral element changed",
    "function exchanged",
    "bound dropped",
    "choice dropped",
    "term moved",
    "type narrowed",
    "loop shortened",
    "update dropped",
    "results swapped",
    "repeated in the loop",
    "moved out of the loop",
)

_EXCHANGED = {"maximum": "minimum", "minimum": "maximum", "max": "min", "min": "max"}
_RANGES = ("range", "static_range")
_EXTREMES = ("lowest", "highest")
_NARROWER = {"float64": "float32", "float32": "float16", "int64": "int32"}
_NO_VALUES = ("to", "float", "range", "program_id", "num_programs", "stride", "size")
"""Functions of one argument that convert, or whose results are no values of elements."""
_MASK_ENDINGS = ("mask", "_ok")

Planted = tuple[str, ast.AST]


def faults(
    node: ast.AST, parent: ast.AST, field: str, masks: tuple[str, ...], beside: ast.AST | None
) -> Iterator[Planted]:
    """The faults of a node; `beside` is the statement behind it."""
    match node:
        case ast.Name(id=name, ctx=ast.Load()) if name in masks:
            yield from _mask_faults(node, parent, field, masks)
        case ast.Call():
            yield from _call_faults(node)
        case ast.BinOp(op=ast.Add() | ast.Sub()):
            yield from _moved_inside(node)
        case ast.Attribute(value=ast.Name(id="tl" | "torch"), attr=name) if name in _NARROWER:
            if isinstance(parent, ast.Call) and field == "args":
                yield "type narrowed", with_fields(node, attr=_NARROWER[name])
        case ast.Assign(targets=[target], value=ast.Call()):
            yield from _assignment_faults(node, target)
        case ast.For():
            yield from _loop_faults(node, beside)
        case _:
            pass


def masks_of(owner: ast.stmt) -> tuple[str, ...]:
    """The names of masks that a function takes or assigns, in order."""
    if not isinstance(owner, ast.FunctionDef):
        return ()
    names = [one.arg for one in ast.walk(owner) if isinstance(one, ast.arg)]
    names += [
        one.id for one in ast.walk(owner) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)
    ]
    return tuple(dict.fromkeys(name for name in names if name.endswith(_MASK_ENDINGS)))


def sibling(parent: ast.AST, place: int | None) -> ast.AST | None:
    """The statement behind the one at a place of a block."""
    for block in (getattr(parent, "body", None), getattr(parent, "orelse", None)):
        if isinstance(block, list) and place is not None and place + 1 < len(block):
            return block[place + 1] if isinstance(block[place + 1], ast.stmt) else None
    return None


def named(call: ast.Call) -> str:
    """The last word of what is called."""
    function = call.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def with_fields(node: ast.AST, **fields: object) -> ast.AST:
    """A copy of a node in which some fields are others."""
    new = copy.copy(node)
    for name, value in fields.items():
        setattr(new, name, value)
    return new


def _mask_faults(node: ast.Name, parent: ast.AST, field: str, masks: tuple[str, ...]) -> Iterator[Planted]:
    """A mask of all that it is asked for, where none of another operator's faults is that; and each other mask."""
    if isinstance(parent, ast.Call) and field == "args":
        yield "mask made true", ast.Compare(node, [ast.Eq()], [node])
    sides = (
        {ast.unparse(parent.left), ast.unparse(parent.right)} if isinstance(parent, ast.BinOp) else {node.id}
    )
    for other in masks:
        if other not in sides:
            yield "mask exchanged", ast.Name(other, ast.Load())


def _call_faults(call: ast.Call) -> Iterator[Planted]:
    name, arguments = named(call), call.args
    if name == "float" or name in _EXTREMES:
        yield "neutral element changed", ast.Constant(0.0 if name == "float" else 0)
    if name in _EXCHANGED:
        yield "function exchanged", with_fields(call, func=_exchanged(call.func, _EXCHANGED[name]))
        if len(arguments) == 2:
            for argument in arguments:
                yield "bound dropped", argument
    if name == "where" and len(arguments) == 3:
        yield "choice dropped", arguments[1]
    if name in _RANGES:
        yield from _range_faults(call)
    if len(arguments) == 1 and not call.keywords:
        yield from _moved_outside(call)


def _exchanged(function: ast.expr, name: str) -> ast.AST:
    """The other of two functions; where it may not be imported, Triton's own."""
    if isinstance(function, ast.Attribute):
        return with_fields(function, attr=name)
    other = ast.Name(name, ast.Load())
    return other if name in ("min", "max") else ast.Attribute(ast.Name("tl", ast.Load()), name, ast.Load())


def _range_faults(call: ast.Call) -> Iterator[Planted]:
    """The first step left out, and the last one."""
    first, last, step = (
        (ast.Constant(0), call.args[0], ast.Constant(1))
        if len(call.args) == 1
        else (*call.args[:2], call.args[2] if len(call.args) > 2 else ast.Constant(1))
    )
    yield "loop shortened", with_fields(call, args=[ast.BinOp(first, ast.Add(), step), last, step])
    yield "loop shortened", with_fields(call, args=[first, ast.BinOp(last, ast.Sub(), step), step])


def _moved_outside(call: ast.Call) -> Iterator[Planted]:
    """f(a + b) as f(a) + b."""
    match call.args[0]:
        case ast.BinOp(op=ast.Add() | ast.Sub()) as inner if named(call) not in _NO_VALUES:
            yield "term moved", with_fields(inner, left=with_fields(call, args=[inner.left]))
        case _:
            pass


def _moved_inside(node: ast.BinOp) -> Iterator[Planted]:
    """f(a) + b as f(a + b)."""
    match node.left:
        case ast.Call(args=[argument], keywords=[]) as call if named(call) not in _NO_VALUES:
            yield "term moved", with_fields(call, args=[with_fields(node, left=argument)])
        case _:
            pass


def _assignment_faults(node: ast.Assign, target: ast.expr) -> Iterator[Planted]:
    """What an assignment updates left as it is (a conversion is an operator's of its own); two targets exchanged."""
    call = node.value
    assert isinstance(call, ast.Call)
    names = target.elts if isinstance(target, ast.Tuple) else [target]
    read = {one.id for one in ast.walk(call) if isinstance(one, ast.Name)}
    if named(call) != "to" and all(isinstance(one, ast.Name) and one.id in read for one in names):
        yield "update dropped", ast.copy_location(ast.Pass(), node)
    for place in range(len(names) - 1):
        swapped = [*names[:place], names[place + 1], names[place], *names[place + 2 :]]
        yield "results swapped", with_fields(node, targets=[ast.Tuple(swapped, ast.Store())])


def _loop_faults(loop: ast.For, beside: ast.AST | None) -> Iterator[Planted]:
    """The statement behind a loop also at the end of each step; the last one of a step behind the loop instead."""
    if beside is not None and not isinstance(beside, ast.For):
        yield "repeated in the loop", with_fields(loop, body=[*loop.body, beside])
    if len(loop.body) > 1:
        shorter = copy.copy(loop)
        shorter.body = loop.body[:-1]
        yield "moved out of the loop", ast.If(ast.Constant(True), [shorter, loop.body[-1]], [])
