"""Calls in which two neighbouring arguments may change places: the function is the same, or so are the arguments."""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path

from tests.planted.operators import Site, functions, swapped_place

_COMMUTATIVE = (ast.Add, ast.Mult, ast.BitAnd, ast.BitOr, ast.BitXor)
_RUNTIME = Path(__file__).parents[2] / "templates" / "runtime"
_DEVICE_FUNCTIONS = ("_tiles", "_row_tiles", "_row_reductions", "_product_tiles")
_ENTRIES = ("_ENTRY.call", "rt.operate")
_FORMULAS = ("_formula", "_terms")
_LAUNCH = re.compile(r"via\((\w+)\)\[launch\.\w+\]")
_SIZE = re.compile(r"\b(\w+)\.size\((-\d+)\)")


def is_symmetric(site: Site) -> bool:
    """Whether two neighbouring arguments may be exchanged in a call of a kernel's or of the runtime's function."""
    call, place = ast.parse(site.before, mode="eval").body, swapped_place(site)
    if not isinstance(call, ast.Call) or place is None:
        return False
    launch = _LAUNCH.fullmatch(ast.unparse(call.func))
    name = launch[1] if launch else ast.unparse(call.func)
    by_descriptors = launch and place > 0 and ast.unparse(call.args[0]) in ("*descriptors", "*spanning[:2]")
    if _is_spread(call.args[1 if by_descriptors else 0 : place + 2]):
        return False
    if by_descriptors:
        place += _descriptors(site.module, name) - 1
    if name in ("min", "max"):
        return True
    if name in ("clamp", "rt.eager.clamp") and place == 0:  # zeros aside, the larger of two is the same
        return any(re.fullmatch(r"-?[1-9][0-9.]*", ast.unparse(one)) for one in call.args[:2])
    return _may_exchange(site.module, name, place)


def _descriptors(source: str, name: str) -> int:
    """How many descriptors a kernel takes, in front."""
    called = _functions(source).get(name)
    return sum(one.arg.endswith("_desc") for one in called.args.args) if called else 0


def is_of_sum(site: Site) -> bool:
    """Whether two neighbouring arguments of a function are terms of one sum in it."""
    call, place = ast.parse(site.before, mode="eval").body, swapped_place(site)
    if not isinstance(call, ast.Call) or place is None or _is_spread(call.args):
        return False
    called = _functions(site.module).get(ast.unparse(call.func))
    if called is None:
        return False
    names = {one.arg for one in called.args.args[place : place + 2]}
    uses = [node.id for node in ast.walk(called) if isinstance(node, ast.Name) and node.id in names]
    sums = [
        {one.id for one in _terms(node) if isinstance(one, ast.Name)}
        for node in ast.walk(called)
        if isinstance(node, ast.BinOp)
    ]
    return len(uses) == 2 and any(names <= terms for terms in sums)


def _terms(node: ast.expr) -> list[ast.expr]:
    """The terms of a sum."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return [*_terms(node.left), *_terms(node.right)]
    return [node]


def is_own_inverse(site: Site) -> bool:
    """Whether the orders of dims from and to which a tensor is laid are exchanged, in which two change places."""
    call, place = ast.parse(site.before, mode="eval").body, swapped_place(site)
    if not isinstance(call, ast.Call) or place != 1 or ast.unparse(call.func) != "rt.eager.align":
        return False
    one, other = (ast.literal_eval(dims) for dims in call.args[1:3])
    there = dict(zip(one, other, strict=False))
    return set(one) == set(other) and all(there[there[dim]] == dim for dim in one)


def is_dropped_identity(site: Site) -> bool:
    """Whether a function of the module is dropped that gives back its argument."""
    match ast.parse(site.before).body:
        case [ast.Expr(value=ast.Call(func=ast.Name(id=name), args=[argument], keywords=[]))]:
            return ast.unparse(argument) == site.after and _returns_its_arguments(
                functions(site.module).get(name)
            )
        case _:
            return False


def is_of_like_inputs(site: Site) -> bool:
    """Whether an entry is called with two tensors exchanged that differ in name alone, and in no formula."""
    call, place = ast.parse(site.before, mode="eval").body, swapped_place(site)
    if not isinstance(call, ast.Call) or place is None or ast.unparse(call.func) not in _ENTRIES:
        return False
    names = [ast.unparse(one) for one in call.args[place : place + 2]]
    inputs = _inputs(site.module)
    if not {*names} <= inputs.keys() or len({inputs[name] for name in names}) > 1:
        return False
    exchanged = dict(zip(names, reversed(names), strict=True))
    return all(
        _body(function, {}, site.module) == _body(function, exchanged, site.module)
        for function in _functions(site.module).values()
        if {*names} <= {one.arg for one in function.args.args} and function.name.endswith(_FORMULAS)
    )


def is_of_one_size(site: Site) -> bool:
    """Whether two neighbouring arguments of a launch are of one dim's size, by its name or by a tensor that has it."""
    call, place = ast.parse(site.before, mode="eval").body, swapped_place(site)
    if not site.function.startswith("_launch_") or not isinstance(call, ast.Call) or place is None:
        return False
    dims = _dims_of_inputs(site.module)

    def by_name(found: re.Match[str]) -> str:
        dim = dims.get(found[1], ())[int(found[2]) :][:1]
        return f"sizes['{dim[0]}']" if dim and dim[0].isidentifier() else found[0]

    one, other = (_SIZE.sub(by_name, ast.unparse(argument)) for argument in call.args[place : place + 2])
    return one == other


def is_same_place(site: Site) -> bool:
    """Whether the last dim of a tensor of two is counted from the other end."""
    if (site.operator, site.before, site.after) != ("sign or negation dropped", "-1", "1"):
        return False
    counted = re.findall(r"(\w+)(?:\.to\([\w.]+\))?\.(?:size|stride|logsumexp)\(-1\b", site.line_text)
    dims = _dims_of_inputs(site.module)
    return bool(counted) and all(len(dims.get(name, ())) == 2 and "..." not in dims[name] for name in counted)


def is_middle(site: Site) -> bool:
    """Whether a dim is counted from the other end, of tensors of twice as many dims."""
    ranks = [len(dims) for dims in _dims_of_inputs(site.module).values() if "..." not in dims]
    is_exact = len(ranks) == len(_inputs(site.module))
    return is_exact and site.before == f"-{site.after}" and max(ranks) == 2 * int(site.after)


def is_of_identity(site: Site) -> bool:
    """Whether names are assigned what a function of the module makes of them, all of whose text is to return them."""
    match ast.parse(site.before).body:
        case [
            ast.Assign(targets=[target], value=ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]))
        ]:
            given = arguments[0] if len(arguments) == 1 else ast.Tuple(arguments, ast.Load())
            is_same = ast.unparse(target) == ast.unparse(given)
            return is_same and _returns_its_arguments(functions(site.module).get(name))
        case _:
            return False


def _returns_its_arguments(function: ast.FunctionDef | None) -> bool:
    match function:
        case ast.FunctionDef(body=[ast.Expr(value=ast.Constant()), ast.Return(value=ast.expr() as value)]):
            names = [ast.Name(one.arg, ast.Load()) for one in function.args.args]
            given = names[0] if len(names) == 1 else ast.Tuple([*names], ast.Load())
            return ast.unparse(value) == ast.unparse(given)
        case _:
            return False


def _is_spread(arguments: list[ast.expr]) -> bool:
    return any(isinstance(one, ast.Starred) for one in arguments)


@functools.lru_cache(4)
def _dims_of_inputs(source: str) -> dict[str, tuple[str, ...]]:
    """The dims of the tensors that the operator of a module declares."""
    return {name: ast.literal_eval(parts[1]) for name, parts in _inputs(source).items()}


@functools.lru_cache(4)
def _inputs(source: str) -> dict[str, tuple[str, ...]]:
    """What the operator of a module declares of each tensor: its element type, its dims, and the rest, as text."""
    return {
        ast.literal_eval(node.args[0]): tuple(ast.unparse(one) for one in (*node.args[1:], *node.keywords))
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "rt.Tensor"
    }


@functools.lru_cache(4096)
def _may_exchange(source: str, name: str, place: int) -> bool:
    """Whether a function that a module has or imports, read with a parameter and the next exchanged, is the same."""
    called = _functions(source).get(name)
    names = [] if called is None else [argument.arg for argument in called.args.args]
    if called is None or place + 1 >= len(names):
        return False
    exchanged = {names[place]: names[place + 1], names[place + 1]: names[place]}
    return _body(called, {}, source) == _body(called, exchanged, source)


def _body(function: ast.FunctionDef, names: dict[str, str], source: str) -> list[str]:
    """The statements of a function; what is assigned for good, before anything is stored, stands where it is used."""
    stored: dict[str, list[int]] = {}
    for node in ast.walk(function):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            stored.setdefault(node.id, []).append(node.lineno)
    found: list[str] = []
    may_move = True
    for statement in function.body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if (
                may_move and len(stored[name]) == 1 and _is_settled(value, stored)
            ):
                names = {**names, name: _canonical(value, names, source)}
            case ast.Expr(value=ast.Constant()):
                pass
            case _:
                may_move &= not any(isinstance(one, ast.Expr) for one in ast.walk(statement))
                found.append(_canonical(statement, names, source))
    return found


def _is_settled(value: ast.expr, stored: dict[str, list[int]]) -> bool:
    """Whether nothing that a value is made of is assigned again below it."""
    names = [one.id for one in ast.walk(value) if isinstance(one, ast.Name)]
    return all(max(stored.get(name, [0])) < value.lineno for name in names)


@functools.cache
def _runtime() -> str:
    return "\n".join((_RUNTIME / f"{name}.py").read_text(encoding="utf-8") for name in _DEVICE_FUNCTIONS)


@functools.lru_cache(4)
def _functions(source: str) -> dict[str, ast.FunctionDef]:
    """The functions that a module has or imports, by name."""
    statements = [*ast.parse(_runtime()).body, *ast.parse(source).body]
    return {one.name: one for one in statements if isinstance(one, ast.FunctionDef)}


def _canonical(node: object, names: dict[str, str], source: str) -> str:
    """A tree as text, with some names exchanged; operands have no order where the operator gives them none."""
    if isinstance(node, list):
        return "[" + ", ".join(_canonical(one, names, source) for one in node) + "]"
    if not isinstance(node, ast.AST):
        return repr(node)
    if isinstance(node, ast.Name):
        return names.get(node.id, node.id)
    if isinstance(node, ast.BinOp) and isinstance(node.op, _COMMUTATIVE):
        sides = [node.left, node.right]
        taken = [_widened(one) if isinstance(node.op, ast.Mult) else (one, "") for one in sides]
        operands = sorted(_canonical(one, names, source) for one, _ in taken)
        return f"{type(node.op).__name__}{max(width for _, width in taken)}{operands}"
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _functions(source):
        arguments = [_canonical(one, names, source) for one in node.args]
        for place in range(len(arguments) - 1):
            if _may_exchange(source, node.func.id, place):
                arguments[place : place + 2] = sorted(arguments[place : place + 2])
        return f"{node.func.id}{arguments}{_canonical(node.keywords, names, source)}"
    parts = ", ".join(_canonical(value, names, source) for _, value in ast.iter_fields(node))
    return f"{type(node).__name__}({parts})"


def _widened(node: ast.expr) -> tuple[ast.expr, str]:
    """What a conversion to 64 bits or to f32 converts, and to what; a product has that type whichever factor it is."""
    match node:
        case ast.Call(func=ast.Attribute(attr="cast"), args=[value, ast.Attribute(attr="int64" as width)]):
            return value, width
        case ast.Call(
            func=ast.Attribute(value=value, attr="to"), args=[ast.Attribute(attr="float32" as width)]
        ):
            return value, width
        case _:
            return node, ""
