"""Faults as operators on syntax trees: each finds all its sites in any module, with no list of ops.

A site is a node with something to put in its place. Docstrings, annotations and decorators are left alone.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.planted import looping
from tests.planted.looping import named, with_fields

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
Span = tuple[int, int]


@dataclass(frozen=True)
class Site:
    """A place for a fault: the operator, the function around it, the condition that it is under, and both texts.

    `role` is "compared" for a comparison and its sides, and for an argument by name its name. `line` counts from the
    first line of the function; `lines` are the first and the last line, in the module, of the statement around it.
    """

    operator: str
    function: str
    condition: str
    role: str
    line: int
    column: int
    before: str
    after: str
    lines: Span
    module: str = field(repr=False)  # its text, without the fault
    place: tuple[int, int] = field(
        repr=False
    )  # of the function in the module, and of the fault in the function

    @property
    def is_of_width(self) -> bool:
        """Whether it is about 64 bits, which few calls need."""
        return "int64" in self.before

    @property
    def line_text(self) -> str:
        """The line that it begins on, without a fault."""
        return self.owner.split("\n")[self.line]

    @property
    def owner(self) -> str:
        """The text of the function, or of the other statement of the module, without a fault."""
        first, last = _span(_statements(self.module)[self.place[0]])
        return "\n".join(self.module.split("\n")[first - 1 : last])

    @property
    def jitted(self) -> bool:
        """Whether it is in a kernel or a device function."""
        decorators = getattr(_statements(self.module)[self.place[0]], "decorator_list", [])
        return any("triton.jit" in ast.unparse(one) for one in decorators)

    @property
    def statement(self) -> str:
        """The lines of the statement around it, without a fault."""
        return "\n".join(self.module.split("\n")[self.lines[0] - 1 : self.lines[1]])

    @property
    def source(self) -> str:
        """The text of the whole module with the fault."""
        lines = self.module.split("\n")
        first, last = _span(_statements(self.module)[self.place[0]])
        return "\n".join([*lines[: first - 1], self.function_text, *lines[last:]])

    @functools.cached_property
    def function_text(self) -> str:
        """The text of the function, or of the other statement of the module, with the fault."""
        (statement,) = ast.parse(self.owner).body
        found = enumerate(_planted(statement))
        child, _, replacement = next(one for at, one in found if at == self.place[1])
        _put(child, replacement)
        return ast.unparse(ast.fix_missing_locations(statement))


@dataclass(frozen=True)
class _Child:
    """A node or a block of statements below another, where it hangs, and what is around it."""

    parent: ast.AST
    field: str
    place: int | None
    node: ast.AST
    condition: str
    lines: Span


def sites(source: str) -> Iterator[Site]:
    """Every site of every operator in a module, in the order of the text."""
    for place, owner in enumerate(_statements(source)):
        function = getattr(owner, "name", "") or _assigned(owner)
        first, _ = _span(owner)
        for number, (child, operator, replacement) in enumerate(_planted(owner)):
            node = child.node
            assert isinstance(node, ast.expr | ast.stmt)
            yield Site(
                operator,
                function,
                child.condition,
                _role(child.parent, node),
                node.lineno - first,
                node.col_offset,
                _text(node),
                _text(replacement),
                child.lines,
                source,
                (place, number),
            )


@functools.lru_cache(4)
def _statements(source: str) -> list[ast.stmt]:
    return ast.parse(source).body


@functools.lru_cache(4)
def functions(source: str) -> dict[str, ast.FunctionDef]:
    """The functions of a module by name, in a tree of their own: in that of `sites` faults are put."""
    return {one.name: one for one in ast.parse(source).body if isinstance(one, ast.FunctionDef)}


def _span(statement: ast.stmt) -> Span:
    """Its first and its last line, with its decorators."""
    lines = [one.lineno for one in getattr(statement, "decorator_list", [])]
    return min([statement.lineno, *lines]), statement.end_lineno or statement.lineno


def _planted(owner: ast.stmt) -> Iterator[tuple[_Child, str, ast.AST]]:
    """All faults below a statement of a module, each once: where, the operator, and what takes the node's place."""
    masks = looping.masks_of(owner)
    for child in _children(owner, _span(owner)):
        beside = looping.sibling(child.parent, child.place)
        found = list(_faults(child.node))
        found += looping.faults(child.node, child.parent, child.field, masks, beside)
        known = {ast.dump(child.node)} if found else set()
        for operator, replacement in found:
            text = ast.dump(replacement)
            if text not in known:
                known.add(text)
                yield child, operator, replacement


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
    return ast.unparse(ast.fix_missing_locations(node)).split("\n")[0]


def _put(child: _Child, node: ast.AST) -> None:
    if child.place is None:
        setattr(child.parent, child.field, node)
    else:
        getattr(child.parent, child.field)[child.place] = node


def _children(node: ast.AST, lines: Span, condition: str = "") -> Iterator[_Child]:
    """All nodes below one that a fault may replace, each with where it hangs and the innermost `if` around it."""
    for name, value in ast.iter_fields(node):
        if name in ("decorator_list", "annotation", "returns"):
            continue
        inner = condition
        if isinstance(node, ast.If) and name in ("body", "orelse"):
            inner = ast.unparse(node.test if name == "body" else ast.UnaryOp(ast.Not(), node.test))
        children = enumerate(value) if isinstance(value, list) else [(None, value)]
        for place, child in children:
            if not isinstance(child, ast.AST) or isinstance(child, ast.expr_context | ast.operator):
                continue
            around = _own_lines(child) if isinstance(child, ast.stmt) else lines
            if isinstance(child, ast.expr | ast.stmt):
                yield _Child(node, name, place, child, inner, around)
            yield from _children(child, around, inner)


def _own_lines(statement: ast.stmt) -> Span:
    """The lines of a statement, without those of the statements in it."""
    body = getattr(statement, "body", None)
    last = body[0].lineno - 1 if body else statement.end_lineno or statement.lineno
    return statement.lineno, max(last, statement.lineno)


def _faults(node: ast.AST) -> Iterator[Planted]:
    match node:
        case ast.Call():
            yield from _call_faults(node)
        case ast.BinOp():
            yield from _arithmetic_faults(node)
        case ast.Compare(ops=[operator]):
            for table, name in ((_BOUNDARY, "comparison changed"), (_REVERSED, "comparison reversed")):
                if type(operator) in table:
                    yield name, with_fields(node, ops=[table[type(operator)]()])
        case ast.UnaryOp(operand=operand):
            yield "sign or negation dropped", operand
        case ast.Constant(value=value) if isinstance(value, bool | int | float):
            yield _constant_fault(node, value)
        case ast.If(test=test):
            yield "branches swapped", with_fields(node, test=ast.UnaryOp(ast.Not(), test))
        case ast.IfExp(body=body, orelse=orelse):
            yield "branches swapped", with_fields(node, body=orelse, orelse=body)
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


def _call_faults(call: ast.Call) -> Iterator[Planted]:
    name = named(call)
    for keyword in call.keywords:
        rest = [one for one in call.keywords if one.arg not in (keyword.arg, "other")]
        if keyword.arg == "mask":
            yield f"{name} mask dropped", with_fields(call, keywords=rest)
        if keyword.arg == "propagate_nan":
            yield "NaN flag dropped", with_fields(call, keywords=rest)
    if name == "to" and isinstance(call.func, ast.Attribute):
        wide = ast.unparse(call.args[0]).endswith("int64") and len(call.args) == 1
        yield "64-bit widening dropped" if wide else "cast dropped", call.func.value
    elif name in _CASTS:
        yield "cast dropped", call.args[0]
    elif name == "full":
        yield "cast dropped", call.args[1]
    elif name == "where" and len(call.args) == 3:
        condition, first, second = call.args
        yield "branches swapped", with_fields(call, args=[condition, second, first])
    elif len(call.args) == 1 and not call.keywords and name not in _NO_VALUES:
        yield "function dropped", call.args[0]
    elif name not in _COMMUTATIVE_CALLS:
        for place in range(len(call.args) - 1):
            yield "arguments swapped", with_fields(call, args=_swapped(call.args, place))
    if name in _PROPAGATING and isinstance(call.func, ast.Name):
        function = ast.Attribute(ast.Name("tl", ast.Load()), name, ast.Load())
        yield "NaN flag dropped", with_fields(call, func=function)


def _swapped(items: list[ast.expr], place: int) -> list[ast.expr]:
    return [*items[:place], items[place + 1], items[place], *items[place + 2 :]]


def _arithmetic_faults(node: ast.BinOp) -> Iterator[Planted]:
    kind = "factor" if isinstance(node.op, ast.Mult) else "term"
    yield f"{kind} dropped", node.left
    yield f"{kind} dropped", node.right
    if isinstance(node.op, _NON_COMMUTATIVE):
        yield "operands swapped", with_fields(node, left=node.right, right=node.left)


def _tuple_faults(node: ast.Tuple) -> Iterator[Planted]:
    """In kernels and launchers, tuples of names are strides."""
    for place in range(len(node.elts) - 1):
        yield "strides swapped", with_fields(node, elts=_swapped(node.elts, place))
    for place in range(len(node.elts)):
        one: list[ast.expr] = [ast.Constant(1)]
        yield "stride dropped", with_fields(node, elts=[*node.elts[:place], *one, *node.elts[place + 1 :]])
