"""A syntax tree printed: one line a node that is no expression, expressions in prefix form.

`y = silu(x @ w) ** 2` prints as `assign y = (** (silu (@ x w)) 2)`: what binds to what is in plain sight.
"""

from __future__ import annotations

from collections.abc import Iterator

from opgen.syntax import ast
from opgen.syntax.pretty_parts import block_head, brackets, dim, type_text, word


def dump(tree: ast.File | ast.Item) -> str:
    """The printed form of a file or of one item, comments left out."""
    items = tree.items if isinstance(tree, ast.File) else (tree,)
    return "".join(f"{line}\n" for item in items for line in _item(item))


def _item(item: ast.Item) -> Iterator[str]:
    if isinstance(item, ast.Use):
        yield f"use {_quoted(item.path)}"
    elif isinstance(item, ast.Fn):
        over = "".join(f" {name.text}" for name in item.dims)
        yield f"fn {item.name.text}" + (f" over{over}" if over else "")
    else:
        yield f"op {item.name.text}"
    if item.doc is not None:
        yield f"  doc {_quoted(item.doc)}"
    if isinstance(item, ast.Fn):
        yield from (f"  param {name.text}" for name in item.params)
        yield f"  body {expression(item.body)}"
    if isinstance(item, ast.Op):
        yield from (f"  {line}" for line in _op(item))


def _quoted(text: ast.Text) -> str:
    return repr(text.value)


def _op(op: ast.Op) -> Iterator[str]:
    for param in op.params:
        default = "" if param.default is None else f" = {expression(param.default)}"
        kind = param.kind or "param"
        yield f"{kind} {param.name.text}: {type_text(param.type)}{default}"
    for result in op.results:
        yield f"result {result.name.text}: {type_text(result.type)}"
    for variable in op.variables:
        yield f"for {variable.name.text} in {' '.join(name.text for name in variable.types)}"
    for statement in op.body:
        yield from _statement(statement)


def _statement(statement: ast.Statement) -> Iterator[str]:
    if isinstance(statement, ast.Assign):
        of_type = "" if statement.type is None else f": {statement.type.text}"
        yield f"assign {statement.name.text}{of_type} = {expression(statement.value)}"
    elif isinstance(statement, ast.Require):
        why = "" if statement.why is None else f" {_quoted(statement.why)}"
        yield f"require {expression(statement.condition)}{why}"
    elif isinstance(statement, ast.ReferenceText):
        yield f"reference {_quoted(statement.text)}"
    elif isinstance(statement, ast.GradNone):
        yield "grad none"
    elif isinstance(statement, ast.Grad):
        yield f"grad {statement.name.text}: {expression(statement.value)}"
    else:
        yield block_head(statement)
        yield from (f"  {line}" for line in _entries(statement))


def _entries(block: ast.Sizes | ast.Tile | ast.Test) -> Iterator[str]:
    if isinstance(block, ast.Sizes):
        for case in block.cases:
            sizes = ", ".join(f"{dim(size.dim)} = {size.value}" for size in case.sizes)
            yield f"{case.label.text}: {sizes}"
    elif isinstance(block, ast.Tile):
        for hint in block.hints:
            yield f"{dim(hint.key)} = {_values(hint.values)}"
    else:
        yield from map(_entry, block.entries)


def _values(values: ast.Choices | ast.PowersOfTwo) -> str:
    if isinstance(values, ast.PowersOfTwo):
        return f"powers of two, {values.low} to {values.high}"
    return " | ".join(word(value) for value in values.values)


def _entry(entry: ast.DrawRange | ast.Tolerance | ast.SizeRange) -> str:
    if isinstance(entry, ast.Tolerance):
        return f"tolerance {entry.type.text} = {expression(entry.value)}"
    if isinstance(entry, ast.SizeRange):
        return f"size {dim(entry.dim)} from {entry.low} to {entry.high}"
    return f"draw {entry.name.text} from {expression(entry.low)} to {expression(entry.high)}"


def expression(expr: ast.Expr) -> str:
    """An expression in prefix form, every operation in parentheses."""
    if isinstance(expr, ast.Number | ast.Constant):
        return expr.text
    if isinstance(expr, ast.Reference):
        return expr.name
    if isinstance(expr, ast.Unary):
        return f"({expr.op} {expression(expr.operand)})"
    if isinstance(expr, ast.Binary):
        return f"({expr.op} {expression(expr.left)} {expression(expr.right)})"
    if isinstance(expr, ast.Position):
        return expr.callee.text + brackets(expr.dims)
    if isinstance(expr, ast.Gather):
        parts = [f"{dim(part.dim)}: {expression(part.index)}" for part in expr.coordinates]
        return f"{expr.base.text}[{', '.join(parts)}]"
    over = "" if expr.dims is None else brackets(expr.dims)
    arguments = "".join(f" {expression(argument)}" for argument in expr.args)
    return f"({expr.callee.text}{over}{arguments})"
