"""Faults as operators on syntax trees: each finds all its sites in any module, with no list of ops.

A site is a node with something to put in its place. Docstrings, annotations and decorators are left alone.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from dataclasses import dataclass

#: Functions whose first argument is the value, and the rest says into what it is converted.
_CASTS = frozenset({"cast", "round_to", "to_int", "scalar", "scalar64", "to_f8e4m3"})
#: Functions of one argument that take part in launches and shapes rather than in values.
_NO_VALUES = frozenset(
    {
        "program_id",
        "num_programs",
        "load",
        "constexpr",
        "stride",
        "size",
        "register",
        "frozenset",
        "range",
        "fromkeys",
    }
)
_PROPAGATING = {"maximum": "maximum", "minimum": "minimum", "clamp": "clamp"}
_COMMUTATIVE_CALLS = frozenset({"maximum", "minimum"})
_NON_COMMUTATIVE = (ast.Sub, ast.Div, ast.FloorDiv, ast.Mod, ast.LShift, ast.RShift, ast.Pow)
_BOUNDARY: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
_REVERSED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.GtE,
    ast.LtE: ast.Gt,
    ast.Gt: ast.LtE,
    ast.GtE: ast.Lt,
}

Planted = tuple[str, ast.AST]
Child = tuple[ast.AST, str, int | None, ast.expr | ast.stmt, str]


@dataclass(frozen=True)
class Site:
    """A place for a fault: the operator, the function around it, the condition that it is under, and both texts.

    `role` is "compared" for a comparison and its sides, and for an argument by name its name.
    """

    operator: str
    function: str
    condition: str
    role: str
    line: int
    column: int
    before: str
    after: str
    source: str  # of the whole module, with the fault


def sites(source: str) -> Iterator[Site]:
    """Every site of every operator in a module, in the order of the text."""
    tree = ast.parse(source)
    for owner in tree.body:
        function = getattr(owner, "name", "") or _assigned(owner)
        for parent, field, place, node, condition in _children(owner):
            for operator, replacement in _faults(node):
                if ast.dump(replacement) == ast.dump(node):
                    continue
                _put(parent, field, place, replacement)
                text = ast.unparse(ast.fix_missing_locations(tree))
                after = _text(replacement)
                _put(parent, field, place, node)
                yield Site(
                    operator,
                    function,
                    condition,
                    _role(parent, node),
                    node.lineno,
                    node.col_offset,
                    _text(node),
                    after,
                    text,
                )


def _role(parent: ast.AST, node: ast.AST) -> str:
    if isinstance(parent, ast.keyword):
        return parent.arg or ""
    return "compared" if any(isinstance(one, ast.Compare) for one in (node, parent)) else ""


def _assigned(statement: ast.stmt) -> str:
    return ast.unparse(statement.targets[0]) if isinstance(statement, ast.Assign) else "module"


def swapped_place(site: Site) -> int | None:
    """The first of two neighbouring arguments that a fault has exchanged."""
    before, after = (ast.parse(text, mode="eval").body for text in (site.before, site.after))
    if not isinstance(before, ast.Call) or not isinstance(after, ast.Call):
        return None
    texts = [[ast.dump(argument) for argument in call.args] for call in (before, after)]
    return next((place for place, (one, other) in enumerate(zip(*texts, strict=True)) if one != other), None)


def _text(node: ast.AST) -> str:
    """A node on one line; of a statement only the first."""
    return ast.unparse(node).split("\n")[0]


def _put(parent: ast.AST, field: str, place: int | None, node: ast.AST) -> None:
    if place is None:
        setattr(parent, field, node)
    else:
        getattr(parent, field)[place] = node


def _children(node: ast.AST, condition: str = "") -> Iterator[Child]:
    """All nodes below one that a fault may replace, each with where it hangs and the innermost `if` around it."""
    for field, value in ast.iter_fields(node):
        if field in ("decorator_list", "annotation", "returns"):
            continue
        inner = ast.unparse(node.test) if isinstance(node, ast.If) and field == "body" else condition
        children = enumerate(value) if isinstance(value, list) else [(None, value)]
        for place, child in children:
            if not isinstance(child, ast.AST) or isinstance(child, ast.expr_context | ast.operator):
                continue
            if isinstance(child, ast.expr | ast.stmt):
                yield node, field, place, child, inner
            yield from _children(child, inner)


def _faults(node: ast.AST) -> Iterator[Planted]:
    match node:
        case ast.Call():
            yield from _call_faults(node)
        case ast.BinOp():
            yield from _arithmetic_faults(node)
        case ast.Compare(ops=[operator]):
            for table, name in ((_BOUNDARY, "comparison changed"), (_REVERSED, "comparison reversed")):
                if type(operator) in table:
                    yield name, _with(node, ops=[table[type(operator)]()])
        case ast.UnaryOp(operand=operand):
            yield "sign or negation dropped", operand
        case ast.Constant(value=value) if isinstance(value, bool | int | float):
            yield _constant_fault(node, value)
        case ast.If(test=test):
            yield "branches swapped", _with(node, test=ast.UnaryOp(ast.Not(), test))
        case ast.IfExp(body=body, orelse=orelse):
            yield "branches swapped", _with(node, body=orelse, orelse=body)
        case ast.AugAssign():
            yield "term dropped", ast.copy_location(ast.Pass(), node)
        case ast.Tuple(ctx=ast.Load(), elts=[*elements]) if all(
            isinstance(one, ast.Name) for one in elements
        ):
            yield from _tuple_faults(node)
        case _:
            pass


def _constant_fault(node: ast.Constant, value: float) -> Planted:
    if isinstance(value, bool):
        return "flag changed", ast.copy_location(ast.Constant(not value), node)
    changed = value + 1 if isinstance(value, int) else value * (1 + 2**-7) if value else 2**-7
    return "constant changed", ast.copy_location(ast.Constant(changed), node)


def _with(node: ast.AST, **fields: object) -> ast.AST:
    new = copy.copy(node)
    for name, value in fields.items():
        setattr(new, name, value)
    return new


def _name(call: ast.Call) -> str:
    """The last word of what is called."""
    function = call.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _call_faults(call: ast.Call) -> Iterator[Planted]:
    name = _name(call)
    for keyword in call.keywords:
        rest = [one for one in call.keywords if one.arg not in (keyword.arg, "other")]
        if keyword.arg == "mask":
            yield f"{name} mask dropped", _with(call, keywords=rest)
        if keyword.arg == "propagate_nan":
            yield "NaN flag dropped", _with(call, keywords=rest)
    if name == "to" and isinstance(call.func, ast.Attribute):
        wide = ast.unparse(call.args[0]).endswith("int64") and len(call.args) == 1
        yield "64-bit widening dropped" if wide else "cast dropped", call.func.value
    elif name in _CASTS:
        yield "cast dropped", call.args[0]
    elif name == "full":
        yield "cast dropped", call.args[1]
    elif name == "where" and len(call.args) == 3:
        condition, first, second = call.args
        yield "branches swapped", _with(call, args=[condition, second, first])
    elif len(call.args) == 1 and not call.keywords and name not in _NO_VALUES:
        yield "function dropped", call.args[0]
    elif name not in _COMMUTATIVE_CALLS:
        for place in range(len(call.args) - 1):
            yield "arguments swapped", _with(call, args=_swapped(call.args, place))
    if name in _PROPAGATING and isinstance(call.func, ast.Name):
        function = ast.Attribute(ast.Name("tl", ast.Load()), name, ast.Load())
        yield "NaN flag dropped", _with(call, func=function)


def _swapped(items: list[ast.expr], place: int) -> list[ast.expr]:
    return [*items[:place], items[place + 1], items[place], *items[place + 2 :]]


def _arithmetic_faults(node: ast.BinOp) -> Iterator[Planted]:
    kind = "factor" if isinstance(node.op, ast.Mult) else "term"
    yield f"{kind} dropped", node.left
    yield f"{kind} dropped", node.right
    if isinstance(node.op, _NON_COMMUTATIVE):
        yield "operands swapped", _with(node, left=node.right, right=node.left)


def _tuple_faults(node: ast.Tuple) -> Iterator[Planted]:
    """In kernels and launchers, tuples of names are strides."""
    for place in range(len(node.elts) - 1):
        yield "strides swapped", _with(node, elts=_swapped(node.elts, place))
    for place in range(len(node.elts)):
        one: list[ast.expr] = [ast.Constant(1)]
        yield "stride dropped", _with(node, elts=[*node.elts[:place], *one, *node.elts[place + 1 :]])
