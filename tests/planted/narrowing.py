"""Numbers of a module whose type may be narrower, since what they meet has the type that they had."""

from __future__ import annotations

import ast
import re
import struct

from tests.planted.operators import Site, functions

_NUMBER_AT = {"full": {"tl": 1, "rt.eager": 0}, "scalar": {"rt.eager": 0}}
"""Which argument is the number, by the function that makes one of a type, and where it is from."""

_CHOICES = ("where", "div", "mod", "maximum", "minimum")
"""Functions whose operands have one type; the first of a choice is the condition."""


def is_widened_again(site: Site) -> bool:
    """Whether a number that the narrower type has, too, meets another operand of its type wherever it is used."""
    if site.operator != "type narrowed" or not site.before.endswith(tuple(_HAS)):
        return False
    owner = ast.parse(site.owner)
    call = next((node for node in ast.walk(owner) if _has_type_at(node, site)), None)
    number = _number(call) if isinstance(call, ast.Call) else None
    if not isinstance(call, ast.Call) or number is None or not _HAS[site.before.rpartition(".")[2]](number):
        return False
    return _Uses(owner, functions(site.module)).meet_another(call)


def is_converted_back(site: Site) -> bool:
    """Whether it is the type of f8 numbers, all of which f16 has, and which are only converted back."""
    if site.operator != "type narrowed" or site.statement.count("float32") != 1:
        return False
    read = re.match(
        r"\s*(\w+) = .*torch\.(float8_e4m3fn|float8_e5m2)\)\.to\(torch\.float32\)\Z",
        site.statement,
        re.DOTALL,
    )
    if read is None:
        return False
    uses = re.findall(rf"\b{read[1]}\b", site.owner)
    back = re.findall(rf"rt\.eager\.cast\({read[1]}, torch\.{read[2]}\)", site.owner)
    return len(uses) == len(back) + 1


def _has_type_at(node: ast.AST, site: Site) -> bool:
    return isinstance(node, ast.Call) and any(
        (one.lineno - 1, one.col_offset) == (site.line, site.column) for one in node.args
    )


def _number(call: ast.Call) -> float | None:
    """The number that a call gives a type, as a 0-d tensor or for each element; not of lanes that gather."""
    function = call.func
    if not isinstance(function, ast.Attribute):
        return None
    place = _NUMBER_AT.get(function.attr, {}).get(ast.unparse(function.value))
    if place is None or (place == 1 and ast.unparse(call.args[0]) != "[]"):
        return None
    text = ast.unparse(call.args[place])
    if text.removeprefix("-") == "float('inf')":
        return float("inf")
    try:
        return float(ast.literal_eval(text))
    except ValueError:
        return None


def _has_f16(number: float) -> bool:
    try:
        return bool(struct.unpack("e", struct.pack("e", number))[0] == number)
    except OverflowError:
        return False


def _has_i32(number: float) -> bool:
    return -(2**31) <= number < 2**31


_HAS = {"float32": _has_f16, "int64": _has_i32}
"""Whether the next narrower type has a number, by the type."""


class _Uses:
    """The uses of values in a function of a module."""

    def __init__(self, owner: ast.AST, functions: dict[str, ast.FunctionDef]) -> None:
        self._owner = owner
        self._functions = functions
        self._parents = {
            child: parent for parent in ast.walk(owner) for child in ast.iter_child_nodes(parent)
        }

    def meet_another(self, node: ast.expr) -> bool:
        """Whether an operand beside an expression, or beside each use of its name, is no plain number."""
        match self._parents[node]:
            case ast.BinOp(left=left, right=right):
                others = [left, right]
            case ast.Call(func=function, args=arguments) if ast.unparse(function).endswith(_CHOICES):
                others = arguments[1:] if ast.unparse(function).endswith("where") else arguments
            case ast.Call(func=function, args=[first, *_]) as call if _is_view(function) and first is node:
                return self.meet_another(call)
            case ast.Call(func=ast.Name(id=name), args=arguments) if name in self._functions:
                called = self._functions[name]
                parameter = called.args.args[arguments.index(node)].arg
                return _Uses(called, self._functions).of_name_meet_another(parameter)
            case ast.Assign(targets=[ast.Name(id=name)]):
                return self.of_name_meet_another(name)
            case _:
                return False
        return any(one is not node and not isinstance(one, ast.Constant) for one in others)

    def of_name_meet_another(self, name: str) -> bool:
        """Whether each use of a name does, and there is one."""
        uses = [
            one
            for one in ast.walk(self._owner)
            if isinstance(one, ast.Name) and one.id == name and isinstance(one.ctx, ast.Load)
        ]
        own = [one for one in uses if not _is_of_given(self._parents[one])]
        return bool(own) and all(map(self.meet_another, own))


def _is_view(function: ast.expr) -> bool:
    """Whether a function only arranges the elements of its first argument."""
    return ast.unparse(function) == "rt.eager.align"


def _is_of_given(parent: ast.AST) -> bool:
    """Whether a name is used of what was given, if that is no number: bound, compared with None, converted."""
    if isinstance(parent, ast.Attribute):
        return parent.attr == "to"
    return isinstance(parent, ast.Compare | ast.Tuple)
