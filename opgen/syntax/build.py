"""Parse tree to syntax nodes: items and statements."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from opgen.syntax import ast
from opgen.syntax.expressions import expression
from opgen.syntax.pieces import Context, dim, dims, integer, name, names, subtrees, text, tokens

if TYPE_CHECKING:
    from opgen.syntax.pieces import Tree


def items(tree: Tree, context: Context) -> Iterator[ast.Item]:
    """The items of a `start` tree. A string directly before one documents it, others are reported."""
    doc: ast.Text | None = None
    for part in subtrees(tree):
        if part.data == "text":
            _report_stray(doc, context)
            doc = text(part, context)
        else:
            yield _ITEMS[part.data](part, doc, context)
            doc = None
    _report_stray(doc, context)


def _report_stray(doc: ast.Text | None, context: Context) -> None:
    if doc is not None:
        message = "this string stands directly before no item, so it documents nothing"
        context.found.error("OPG010", message, doc.span, help="a comment starts with `#`")


# --- items ----------------------------------------------------------------------------------------


def _use(tree: Tree, doc: ast.Text | None, context: Context) -> ast.Use:
    return ast.Use(doc, text(subtrees(tree)[0], context), context.span(tree))


def _fn(tree: Tree, doc: ast.Text | None, context: Context) -> ast.Fn:
    named, bracket, params, body = subtrees(tree)
    over = subtrees(bracket)
    if over and not over[0].children:
        context.found.error("OPG001", "the brackets name no dim", context.span(bracket))
    return ast.Fn(
        doc,
        name(named, context),
        names(subtrees(over[0]), context) if over else (),
        names(subtrees(params), context),
        expression(body, context),
        context.span(tree),
    )


def _op(tree: Tree, doc: ast.Text | None, context: Context) -> ast.Op:
    named, params, results, variables, *body = subtrees(tree)
    if not results.children and not results.meta.empty:
        context.found.error("OPG001", "`->` names no result", context.span(results))
    return ast.Op(
        doc,
        name(named, context),
        tuple(_param(param, context) for param in subtrees(params)),
        tuple(_result(result, context) for result in subtrees(results)),
        tuple(_variable(variable, context) for variable in subtrees(variables)),
        tuple(_STATEMENTS[statement.data](statement, context) for statement in body),
        context.span(tree),
    )


_ITEMS: Final[dict[str, Callable[[Tree, ast.Text | None, Context], ast.Item]]] = {
    "use": _use,
    "fn": _fn,
    "op": _op,
}


def _param(tree: Tree, context: Context) -> ast.Param:
    named, declared, default = subtrees(tree)
    of_type: ast.TensorType | ast.ScalarType
    if declared.data == "tensor":
        of_type = _tensor(declared, context)
    else:
        of_type = ast.ScalarType(name(subtrees(declared)[0], context), context.span(declared))
    values = subtrees(default)
    return ast.Param(
        "".join(tokens(tree)),
        name(named, context),
        of_type,
        expression(values[0], context) if values else None,
        context.span(tree),
    )


def _tensor(tree: Tree, context: Context) -> ast.TensorType:
    element, bracket = subtrees(tree)
    return ast.TensorType(name(element, context), dims(bracket, context), context.span(tree))


def _result(tree: Tree, context: Context) -> ast.Result:
    named, declared = subtrees(tree)
    return ast.Result(name(named, context), _tensor(declared, context), context.span(tree))


def _variable(tree: Tree, context: Context) -> ast.TypeVariable:
    named, types = subtrees(tree)
    if not types.children:
        context.found.error("OPG001", "the set of types is empty", context.span(tree))
    return ast.TypeVariable(name(named, context), names(subtrees(types), context), context.span(tree))


# --- statements -----------------------------------------------------------------------------------


def _assign(tree: Tree, context: Context) -> ast.Assign:
    named, *of_type, value = subtrees(tree)
    return ast.Assign(
        name(named, context),
        name(of_type[0], context) if of_type else None,
        expression(value, context),
        context.span(tree),
    )


def _require(tree: Tree, context: Context) -> ast.Require:
    condition, *why = subtrees(tree)
    said = text(why[0], context) if why else None
    return ast.Require(expression(condition, context), said, context.span(tree))


def _reference_text(tree: Tree, context: Context) -> ast.ReferenceText:
    return ast.ReferenceText(text(subtrees(tree)[0], context), context.span(tree))


def _grad_none(tree: Tree, context: Context) -> ast.GradNone:
    return ast.GradNone(context.span(tree))


def _grad(tree: Tree, context: Context) -> ast.Grad:
    named, value = subtrees(tree)
    return ast.Grad(name(named, context), expression(value, context), context.span(tree))


def _sizes(tree: Tree, context: Context) -> ast.Sizes:
    """Entries follow each other flatly; each label starts a case."""
    cases: list[ast.SizeCase] = []
    for part in subtrees(tree):
        if part.data == "label":
            label = name(subtrees(part)[0], context)
            cases.append(ast.SizeCase(label, (), context.span(part)))
        elif cases:
            size = _size(part, context)
            case = cases.pop()
            cases.append(ast.SizeCase(case.label, (*case.sizes, size), case.span.to(size.span)))
        else:
            context.found.error(
                "OPG012",
                "the first entry of `sizes` has no label",
                context.span(part),
                help="sizes are written `label: M = 1, K = 4096`",
            )
            break
    return ast.Sizes(tuple(cases), context.span(tree))


def _size(tree: Tree, context: Context) -> ast.Size:
    along, value = subtrees(tree)
    return ast.Size(dim(along, context), integer(value, context, 0, "a size"), context.span(tree))


def _tile(tree: Tree, context: Context) -> ast.Tile:
    targets, *hints = subtrees(tree)
    listed = subtrees(targets)
    return ast.Tile(
        names(subtrees(listed[0]), context) if listed else (),
        tuple(_hint(hint, context) for hint in hints),
        context.span(tree),
    )


def _hint(tree: Tree, context: Context) -> ast.Hint:
    key, values = subtrees(tree)
    allowed: ast.Choices | ast.PowersOfTwo
    if values.data == "powers":
        low, high = (integer(part, context, 1, "a power of two") for part in subtrees(values))
        allowed = ast.PowersOfTwo(low, high, context.span(values))
    else:
        chosen = tuple(_choice(part, context) for part in values.children if part != "|")
        allowed = ast.Choices(chosen, context.span(values))
    return ast.Hint(dim(key, context), allowed, context.span(tree))


def _choice(part: Tree | str, context: Context) -> int | bool | str:
    if isinstance(part, str):
        return part == "true"
    if part.data == "integer":
        return integer(part, context, 0, "a value of a hint")
    return name(part, context).text


def _test(tree: Tree, context: Context) -> ast.Test:
    return ast.Test(
        tuple(_ENTRIES[entry.data](entry, context) for entry in subtrees(tree)), context.span(tree)
    )


def _draw_range(tree: Tree, context: Context) -> ast.DrawRange:
    named, low, high = subtrees(tree)
    return ast.DrawRange(
        name(named, context),
        expression(low, context),
        expression(high, context),
        context.span(tree),
    )


def _tolerance(tree: Tree, context: Context) -> ast.Tolerance:
    of_type, value = subtrees(tree)
    return ast.Tolerance(name(of_type, context), expression(value, context), context.span(tree))


def _size_range(tree: Tree, context: Context) -> ast.SizeRange:
    along, low, high = subtrees(tree)
    return ast.SizeRange(
        dim(along, context),
        integer(low, context, 0, "a size"),
        integer(high, context, 0, "a size"),
        context.span(tree),
    )


_ENTRIES: Final[dict[str, Callable[[Tree, Context], ast.DrawRange | ast.Tolerance | ast.SizeRange]]] = {
    "draw_range": _draw_range,
    "tolerance": _tolerance,
    "size_range": _size_range,
}

_STATEMENTS: Final[dict[str, Callable[[Tree, Context], ast.Statement]]] = {
    "assign": _assign,
    "require": _require,
    "reference_text": _reference_text,
    "grad_none": _grad_none,
    "grad": _grad,
    "sizes": _sizes,
    "tile": _tile,
    "test": _test,
}
