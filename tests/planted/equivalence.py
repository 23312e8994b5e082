"""Rules by which a fault cannot change a value, each with its reason.

A rule reads the site and the syntax trees around it. For dropped conversions, the results of calls decide.
"""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path

from tests.planted.operators import Site, swapped_place

Functions = dict[str, ast.FunctionDef]

_COMMUTATIVE = (ast.Add, ast.Mult, ast.BitAnd, ast.BitOr, ast.BitXor)
_RUNTIME = Path(__file__).parents[2] / "templates" / "runtime" / "_tiles.py"

#: Dropped conversions that may change no value, by a pattern of what was written. The results of many calls, the same
#: bit for bit, show whether they do not.
_CONVERSIONS = {
    r"\.(float32|float64)\)$": "the operations that take the value widen it by themselves",
    r"^rt\.eager\.scalar\(": "PyTorch takes a number beside a tensor in the tensor's type",
    r"^tl\.load\(high\)": "a 0-d tensor for a scalar of 64 bits has as many, or the operations widen it",
    r"^(tl\.full\(\[\]|scalar)": "an operand gives its type to a plain number beside it",
    r"^index_\w+\.to\(tl\.int64\)$": "where 32 bits are too few for a position, the tile has 64 already",
    r"\.to\(tl\.int32\)$": "the other operand of the shift gives it 32 bits",
    r"^rt\.f8\(": "a tensor of f8e4m3 converts by itself where the device has the type; elsewhere no kernel compiles",
    r"^tl\.cast\((count|UNIT|size), ": "the other factor has as many bits",
}


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
    if site.operator == "flag changed" and site.function == "_OPERATOR":
        return _never_aliased(site)
    if site.function == "mask_of" and ("LAYOUT & 7" in site.before or site.before == "7"):
        return "an unknown class has the mask of the whole tile, which is right for any tensor, only larger"
    return None


def by_results(site: Site) -> str | None:
    """Why a fault is none if it leaves the results of many calls as they are, or None where that would not do."""
    if site.function == "reference" and site.operator == "strides swapped":
        return "tensors bind the sizes of dims by name, and no size that is used depends on their order"
    if not site.operator.endswith("dropped"):
        return None
    return next((why for pattern, why in _CONVERSIONS.items() if re.search(pattern, site.before)), None)


def by_exhaustion(site: Site) -> str | None:
    """Why a fault is none if results stay as they are for every number of 16 bits, or None where that would not do."""
    if site.function.endswith("_formula") or site.function == "reference":
        return "every f16 and bf16 number, and millions of f32 ones, give the same bits beside any others"
    return None


def _is_symmetric(site: Site) -> bool:
    """Whether two neighbouring arguments may be exchanged in a call of a kernel's or of the runtime's function."""
    call = ast.parse(site.before, mode="eval").body
    place = swapped_place(site)
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name) or place is None:
        return False
    functions = {**_functions(_runtime()), **_functions(site.source)}
    return call.func.id in functions and _may_exchange(functions, call.func.id, place)


def _may_exchange(functions: Functions, name: str, place: int) -> bool:
    """Whether a function, read with a parameter and the next one exchanged, is the same function."""
    called = functions[name]
    names = [argument.arg for argument in called.args.args]
    if place + 1 >= len(names):
        return False
    exchanged = {names[place]: names[place + 1], names[place + 1]: names[place]}
    plain = [_canonical(statement, {}, functions) for statement in called.body]
    return plain == [_canonical(statement, exchanged, functions) for statement in called.body]


@functools.cache
def _runtime() -> str:
    return _RUNTIME.read_text(encoding="utf-8")


@functools.lru_cache(2)
def _functions(source: str) -> Functions:
    return {one.name: one for one in ast.parse(source).body if isinstance(one, ast.FunctionDef)}


def _canonical(node: object, names: dict[str, str], functions: Functions) -> str:
    """A tree as text, with some names exchanged; operands have no order where the operator gives them none."""
    if isinstance(node, list):
        return "[" + ", ".join(_canonical(one, names, functions) for one in node) + "]"
    if not isinstance(node, ast.AST):
        return repr(node)
    if isinstance(node, ast.Name):
        return names.get(node.id, node.id)
    if isinstance(node, ast.BinOp) and isinstance(node.op, _COMMUTATIVE):
        operands = sorted(_canonical(one, names, functions) for one in (node.left, node.right))
        return f"{type(node.op).__name__}{operands}"
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in functions:
        arguments = [_canonical(one, names, functions) for one in node.args]
        for place in range(len(arguments) - 1):
            if _may_exchange(functions, node.func.id, place):
                arguments[place : place + 2] = sorted(arguments[place : place + 2])
        return f"{node.func.id}{arguments}"
    parts = ", ".join(_canonical(value, names, functions) for _, value in ast.iter_fields(node))
    return f"{type(node).__name__}({parts})"


def _never_aliased(site: Site) -> str | None:
    """A tensor that is said to be read across elements is copied where it is a result's own memory, too.

    That can matter for a gathered tensor of a result's element type only: another type is never the same view, and one
    that broadcasts has the result's shape only where it does not broadcast.
    """
    table = re.search(r"^_OPERATOR = .*?^\S", site.source, re.DOTALL | re.MULTILINE)
    lost = re.search(r"rt\.Tensor\('(\w+)', '(\w+)', [^)]*\), across=False\)", table.group() if table else "")
    if lost is None or table is None:
        return None
    results = re.search(r"results=\(.*", table.group())
    types = re.findall(r"rt\.Tensor\('\w+', '(\w+)'", results.group()) if results else []
    gathered = re.search(rf"rt\.Access\('{lost.group(1)}', \([^)]*\), gathered=", site.source)
    if lost.group(2) not in types:
        return "a tensor of another element type is never the view that a result is"
    return None if gathered else "a broadcast tensor has a result's shape only where it does not broadcast"
