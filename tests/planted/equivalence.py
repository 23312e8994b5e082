"""Rules by which a fault cannot change a value, each with its reason.

A rule reads the site, or the syntax tree around it; one of them, for dropped casts, needs the results of calls.
"""

from __future__ import annotations

import ast

from tests.planted.operators import Site, swapped_place

_COMMUTATIVE = (ast.Add, ast.Mult, ast.BitAnd, ast.BitOr, ast.BitXor)

SAME_RESULTS = (
    "the operations that take the value widen it by themselves: all results are the same bit for bit"
)


def by_rule(site: Site) -> str | None:
    """Why a fault is none, or None where no rule says so."""
    if site.function.startswith("_CONFIGS"):
        return "figures of blocks: any that can be launched give the same values, and the tests force each config"
    if site.before.startswith("via("):
        return "the wrapper shows a launch to PyTorch's tracing; without tracing it is the kernel itself"
    if site.operator == "cast dropped" and site.before.endswith(".dtype.element_ty)"):
        return "a store converts to the element type of its pointer by itself"
    if site.operator == "arguments swapped" and _is_symmetric(site):
        return "the function that is called is symmetric in the two arguments"
    return None


def may_be_widening(site: Site) -> bool:
    """Whether a dropped cast only widened: then equal results of many calls show that it was not needed."""
    return site.operator == "cast dropped" and site.before.endswith((".float32)", ".float64)", "device)"))


def _is_symmetric(site: Site) -> bool:
    """Whether a function of the module, read with two of its parameters exchanged, is the same function."""
    tree = ast.parse(site.source)
    call = ast.parse(site.before, mode="eval").body
    place = swapped_place(site)
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name) or place is None:
        return False
    called = [one for one in tree.body if isinstance(one, ast.FunctionDef) and one.name == call.func.id]
    if len(called) != 1:
        return call.func.id == "tile" and place == 1  # its n_cols and UNIT meet in their product alone
    names = [argument.arg for argument in called[0].args.args]
    first, second = names[place], names[place + 1]
    exchanged = {first: second, second: first}
    plain = [_canonical(statement, {}) for statement in called[0].body]
    return plain == [_canonical(statement, exchanged) for statement in called[0].body]


def _canonical(node: object, names: dict[str, str]) -> str:
    """A tree as text in which the operands of commutative operators have no order, with some names exchanged."""
    if isinstance(node, list):
        return "[" + ", ".join(_canonical(one, names) for one in node) + "]"
    if not isinstance(node, ast.AST):
        return repr(node)
    if isinstance(node, ast.Name):
        return names.get(node.id, node.id)
    if isinstance(node, ast.BinOp) and isinstance(node.op, _COMMUTATIVE):
        operands = sorted((_canonical(node.left, names), _canonical(node.right, names)))
        return f"{type(node.op).__name__}{operands}"
    parts = ", ".join(_canonical(value, names) for _, value in ast.iter_fields(node))
    return f"{type(node).__name__}({parts})"
