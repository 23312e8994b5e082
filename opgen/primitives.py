"""The elementwise primitives: one row each, with its typing rule, cost, error bound and three spellings.

The Triton, torch and oracle columns are written independently of each other, so that a slip in one of them shows
up as a difference between kernel and reference. A spelling is an infix operator (`+`), or a function name: a bare
one is a device function of the generated package, or of its tests' oracle, and `rt.` its host runtime.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Rule(Enum):
    """How the type of a result follows from its operands."""

    ARITHMETIC = "arithmetic"  # the common compute type; a bool counts as i32
    FLOAT = "float"  # f32, or f64 once an operand is f64; integers are converted
    SAME = "same"  # the operand's own compute type (abs, floor of an integer)
    COMPARE = "compare"  # common compute type in, bool out
    LOGIC = "logic"  # bools only
    BITS = "bits"  # integers; bools stay bool
    SHIFT = "shift"  # integers
    TEST = "test"  # a float in, bool out (isnan)
    SELECT = "select"  # bool, then two of a common type


@dataclass(frozen=True)
class Primitive:
    """A primitive.

    `arity` is the least and the largest number of operands; `cost` the f32 instructions an element takes on a
    recent GPU (rough: it ranks work for the planner); `ulps` bounds the error of the f32 result in units in the last
    place.
    """

    name: str
    arity: tuple[int, int]
    rule: Rule
    triton: str
    torch: str
    oracle: str
    cost: int = 1
    ulps: float = 0.5


MANY = 64
_A, _F, _S = Rule.ARITHMETIC, Rule.FLOAT, Rule.SAME


def _function(name: str, cost: int, torch: str = "", *, arity: int = 1, ulps: float = 4.0) -> Primitive:
    """A floating-point function under its own name in all columns."""
    spelling = torch or f"torch.{name}"
    return Primitive(name, (arity, arity), _F, name, spelling, name, cost, ulps)


def _step(name: str, cost: int, torch: str, oracle: str, ulps: float = 4.0) -> Primitive:
    """A function that the prelude alone may call, under a name with an underscore in front."""
    return Primitive(f"_{name}", (1, 1), _F, name, torch, oracle, cost, ulps)


def _test(name: str) -> Primitive:
    return Primitive(name, (1, 1), Rule.TEST, name, f"torch.{name}", name, 1, 0.0)


_ROWS = (
    Primitive("add", (2, 2), _A, "+", "+", "+"),
    Primitive("sub", (2, 2), _A, "-", "-", "-"),
    Primitive("mul", (2, 2), _A, "*", "*", "*"),
    Primitive("div", (2, 2), _F, "div", "/", "/", 8, 2.5),
    Primitive("floordiv", (2, 2), _A, "floor_div", "rt.eager.floor_div", "//", 12, 2.5),
    Primitive("mod", (2, 2), _A, "floor_mod", "rt.eager.mod", "%", 14, 2.5),
    Primitive("pow", (2, 2), _F, "pow", "torch.pow", "**", 40, 16.0),
    Primitive("neg", (1, 1), _A, "neg", "-", "-", 1, 0.0),
    Primitive("invert", (1, 1), Rule.BITS, "~", "~", "~", 1, 0.0),
    Primitive("lt", (2, 2), Rule.COMPARE, "<", "<", "<", 1, 0.0),
    Primitive("le", (2, 2), Rule.COMPARE, "<=", "<=", "<=", 1, 0.0),
    Primitive("gt", (2, 2), Rule.COMPARE, ">", ">", ">", 1, 0.0),
    Primitive("ge", (2, 2), Rule.COMPARE, ">=", ">=", ">=", 1, 0.0),
    Primitive("eq", (2, 2), Rule.COMPARE, "==", "==", "==", 1, 0.0),
    Primitive("ne", (2, 2), Rule.COMPARE, "!=", "!=", "!=", 1, 0.0),
    Primitive("and", (2, 2), Rule.LOGIC, "&", "&", "&", 1, 0.0),
    Primitive("or", (2, 2), Rule.LOGIC, "|", "|", "|", 1, 0.0),
    Primitive("not", (1, 1), Rule.LOGIC, "~", "~", "~", 1, 0.0),
    Primitive("bitand", (2, 2), Rule.BITS, "&", "&", "&", 1, 0.0),
    Primitive("bitor", (2, 2), Rule.BITS, "|", "|", "|", 1, 0.0),
    Primitive("bitxor", (2, 2), Rule.BITS, "^", "^", "^", 1, 0.0),
    Primitive("shl", (2, 2), Rule.SHIFT, "<<", "<<", "<<", 1, 0.0),
    Primitive("shr", (2, 2), Rule.SHIFT, ">>", ">>", ">>", 1, 0.0),
    Primitive("where", (3, 3), Rule.SELECT, "tl.where", "torch.where", "where", 1, 0.0),
    Primitive("min", (2, MANY), _A, "minimum", "rt.eager.minimum", "minimum", 2, 0.0),
    Primitive("max", (2, MANY), _A, "maximum", "rt.eager.maximum", "maximum", 2, 0.0),
    Primitive("clamp", (3, 3), _A, "clamp", "rt.eager.clamp", "clamp", 3, 0.0),
    Primitive("abs", (1, 1), _A, "tl.abs", "torch.abs", "absolute", 1, 0.0),
    Primitive("sign", (1, 1), _A, "sign", "torch.sign", "sign", 3, 0.0),
    Primitive("floor", (1, 1), _S, "floor", "torch.floor", "floor", 1, 0.0),
    Primitive("ceil", (1, 1), _S, "ceil", "torch.ceil", "ceil", 1, 0.0),
    Primitive("round", (1, 1), _S, "round_even", "torch.round", "round_even", 2, 0.0),
    Primitive("trunc", (1, 1), _S, "trunc", "torch.trunc", "trunc", 2, 0.0),
    Primitive("fma", (3, 3), _F, "tl.fma", "rt.eager.fma", "fma", 1, 0.5),
    _function("sqrt", 4),
    _function("rsqrt", 4),
    _function("exp", 8),
    _function("exp2", 6),
    _function("expm1", 16),
    _function("log", 14),
    _function("log2", 14),
    _function("log1p", 18),
    _function("sin", 24),
    _function("cos", 24),
    _function("tanh", 16),
    _function("erf", 24),
    _function("erfc", 26),
    _function("sigmoid", 14),
    _step("normal_cdf", 30, "rt.eager.normal_cdf", "normal_cdf", 8.0),
    _step("log1p_unit", 10, "torch.log1p", "log1p"),
    _test("isnan"),
    _test("isinf"),
    _test("isfinite"),
)

PRIMITIVES: dict[str, Primitive] = {row.name: row for row in _ROWS}

#: Spec operators and the primitives that they stand for.
BINARY_OPERATORS: dict[str, str] = {
    "+": "add",
    "-": "sub",
    "*": "mul",
    "/": "div",
    "//": "floordiv",
    "%": "mod",
    "**": "pow",
    "<": "lt",
    "<=": "le",
    ">": "gt",
    ">=": "ge",
    "==": "eq",
    "!=": "ne",
    "and": "and",
    "or": "or",
    "&": "bitand",
    "|": "bitor",
    "^": "bitxor",
    "<<": "shl",
    ">>": "shr",
}
UNARY_OPERATORS: dict[str, str] = {"-": "neg", "~": "invert", "not": "not"}

#: Functions that a spec may call, beside its own and the prelude's; `cast` and `rand` have rules of their own.
FUNCTIONS: tuple[str, ...] = tuple(
    "abs sign floor ceil round trunc sqrt rsqrt exp exp2 expm1 log log2 log1p sin cos tanh erf erfc sigmoid pow "
    "fma min max clamp where isnan isinf isfinite".split()
)
#: Functions that the prelude may call besides: their names begin with an underscore, as those of its own steps do.
PRELUDE_FUNCTIONS: tuple[str, ...] = tuple(name for name in PRIMITIVES if name.startswith("_"))
REDUCTIONS: tuple[str, ...] = tuple("sum mean prod min max any all argmax argmin var logsumexp".split())
