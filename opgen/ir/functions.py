"""Checks of `fn` items where they are defined: names, calls, and that none calls itself."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping

from opgen.diagnostics import Diagnostics, Note, did_you_mean
from opgen.ir.scope import BUILT_INS, Functions, ScopedFn, mark_broken
from opgen.syntax import ast


def check_functions(functions: Functions, diagnostics: Diagnostics) -> Functions:
    """The functions with the refused ones marked broken; each mistake is reported at its place."""
    own = _own(functions)
    broken: set[int] = set()
    for fn in own:
        if not all([_check_names(fn, diagnostics), _check_body(fn, functions, diagnostics)]):
            broken.add(id(fn.node))
    broken |= _check_recursion(own, functions, diagnostics)
    return mark_broken(functions, frozenset(broken))


def _own(functions: Functions) -> tuple[ScopedFn, ...]:
    """Every function that is not the prelude's, each once."""
    found = {
        id(fn.node): fn for scope in functions.scopes.values() for fn in scope.values() if not fn.is_prelude
    }
    return tuple(found.values())


def _check_names(fn: ScopedFn, diagnostics: Diagnostics) -> bool:
    seen: dict[str, ast.Name] = {}
    fine = True
    for name in (*fn.node.dims, *fn.node.params):
        if name.text in seen:
            note = Note("first defined here", seen[name.text].span)
            message = f"`{name.text}` is defined twice in `{fn.node.name.text}`"
            diagnostics.error("OPG202", message, name.span, notes=(note,))
            fine = False
        seen.setdefault(name.text, name)
    return fine


def parts(expr: ast.Expr) -> Iterator[ast.Expr]:
    """The expression and every expression inside it, left to right."""
    waiting: list[ast.Expr] = [expr]
    while waiting:
        node = waiting.pop()
        yield node
        waiting.extend(reversed(_children(node)))


def _children(node: ast.Expr) -> tuple[ast.Expr, ...]:
    if isinstance(node, ast.Unary):
        return (node.operand,)
    if isinstance(node, ast.Binary):
        return (node.left, node.right)
    if isinstance(node, ast.Call):
        # The second argument of a cast is a type.
        return node.args[:1] if node.callee.text == "cast" else node.args
    if isinstance(node, ast.Gather):
        return tuple(coordinate.index for coordinate in node.coordinates)
    return ()


def _dim_refs(node: ast.Expr) -> tuple[ast.DimRef, ...]:
    if isinstance(node, ast.Call):
        return node.dims or ()
    if isinstance(node, ast.Gather):
        return tuple(coordinate.dim for coordinate in node.coordinates)
    return node.dims if isinstance(node, ast.Position) else ()


def _check_body(fn: ScopedFn, functions: Functions, diagnostics: Diagnostics) -> bool:
    params = tuple(name.text for name in fn.node.params)
    dims = tuple(name.text for name in fn.node.dims)
    fine = True
    for node in parts(fn.node.body):
        for ref in _dim_refs(node):
            if isinstance(ref, ast.NamedDim) and ref.name not in dims:
                advice = (
                    did_you_mean(ref.name, dims) or f"declare it: `fn {fn.node.name.text}[{ref.name}](…)`"
                )
                diagnostics.error("OPG503", f"unknown dim `{ref.name}`", ref.span, help=advice)
                fine = False
        used = (
            node.name
            if isinstance(node, ast.Reference)
            else node.base.text
            if isinstance(node, ast.Gather)
            else None
        )
        if used is not None and used not in (*params, *dims):
            advice = (
                did_you_mean(used, (*params, *dims)) or "a function sees its own parameters and dims only"
            )
            diagnostics.error("OPG401", f"unknown name `{used}`", node.span, help=advice)
            fine = False
        if isinstance(node, ast.Call) and not _check_callee(node, fn, functions, diagnostics):
            fine = False
    return fine


def _check_callee(call: ast.Call, fn: ScopedFn, functions: Functions, diagnostics: Diagnostics) -> bool:
    name = call.callee.text
    if name in BUILT_INS or functions.find(name, fn) is not None or functions.incomplete:
        return True
    report_unknown_function(call.callee, functions, fn, diagnostics)
    return False


def arity_message(name: str, wanted: str, given: int) -> str:
    """The sentence about a call with a wrong number of arguments."""
    plural, verb = "" if wanted == "1" else "s", "was" if given == 1 else "were"
    return f"`{name}` takes {wanted} argument{plural}, and {given} {verb} given"


#: How functions of PyTorch and NumPy are written here.
_ELSEWHERE = {
    **dict.fromkeys(("matmul", "mm", "bmm", "linear", "dot", "einsum"), "a product is written `x @ w`"),
    **dict.fromkeys(
        ("layer_norm", "batch_norm", "group_norm"), "write `normalize[C](x, eps) * weight + bias`"
    ),
    **dict.fromkeys(("std", "std_dev"), "write `sqrt(var[C](x))`"),
    **dict.fromkeys(("norm", "l2_norm"), "write `sqrt(sum[C](x * x))`"),
    **dict.fromkeys(("amax", "maximum"), "write `max[C](x)` of a dim, `max(x, y)` of two values"),
    **dict.fromkeys(("amin", "minimum"), "write `min[C](x)` of a dim, `min(x, y)` of two values"),
}


def report_unknown_function(
    callee: ast.Name, functions: Functions, caller: ScopedFn | None, diagnostics: Diagnostics
) -> None:
    """Reports a call of something that is no function, with the nearest one that is."""
    known = (*BUILT_INS, *functions.visible(caller))
    advice = _ELSEWHERE.get(callee.text) or did_you_mean(callee.text, known)
    diagnostics.error("OPG402", f"unknown function `{callee.text}`", callee.span, help=advice)


def _check_recursion(own: tuple[ScopedFn, ...], functions: Functions, diagnostics: Diagnostics) -> set[int]:
    """The functions that call themselves by some way round, each circle reported once."""
    waiting = {id(fn.node): fn for fn in own}
    callees = {id(fn.node): tuple(id(callee.node) for callee in _callees(fn, functions)) for fn in own}
    reported: set[int] = set()
    while waiting:
        free = [key for key in waiting if not any(callee in waiting for callee in callees[key])]
        if not free:
            free = _circle(next(iter(waiting)), callees, waiting)
            _report_circle([waiting[key] for key in free], diagnostics)
            reported |= set(free)
        for key in free:
            del waiting[key]
    return reported


def _circle(start: int, callees: Mapping[int, tuple[int, ...]], waiting: Container[int]) -> list[int]:
    """A circle that is reached from `start` by calls inside `waiting`, each of which has one."""
    path = [start]
    while path[-1] not in path[:-1]:
        path.append(next(callee for callee in callees[path[-1]] if callee in waiting))
    return path[path.index(path[-1]) : -1]


def _report_circle(circle: list[ScopedFn], diagnostics: Diagnostics) -> None:
    first = circle[0].node
    chain = " -> ".join(f"`{fn.node.name.text}`" for fn in (*circle, circle[0]))
    diagnostics.error("OPG207", f"functions cannot call themselves: {chain}", first.name.span)


def _callees(fn: ScopedFn, functions: Functions) -> tuple[ScopedFn, ...]:
    calls = (node for node in parts(fn.node.body) if isinstance(node, ast.Call))
    found = (functions.find(call.callee.text, fn) for call in calls)
    return tuple(callee for callee in found if callee is not None and not callee.is_prelude)
