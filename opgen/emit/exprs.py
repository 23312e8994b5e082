"""Graphs as text: the statements and expressions of a body, in Triton, in PyTorch or for the tests' oracle.

A value gets a line of its own where the spec named it or where it is used more than once; the rest is written in
place, with the parentheses that it needs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from opgen.dtypes import DType
from opgen.emit.names import Names
from opgen.ir.nodes import (
    Apply,
    Cast,
    Const,
    Convert,
    Element,
    Graph,
    Index,
    Literal,
    Number,
    Read,
    Ref,
    Scalar,
    Size,
    Value,
)
from opgen.ir.operands import operands
from opgen.primitives import PRIMITIVES, Primitive, Rule

ATOM, UNARY = 10, 8
_INFIX = {
    **dict.fromkeys(("==", "!=", "<", "<=", ">", ">="), 0),
    "|": 1,
    "^": 2,
    "&": 3,
    "<<": 4,
    ">>": 4,
    "+": 5,
    "-": 5,
    "*": 6,
    "/": 6,
    "//": 6,
    "%": 6,
    "**": 9,
}


@dataclass(frozen=True)
class Text:
    """An expression and how tightly its outermost operator binds."""

    code: str
    strength: int = ATOM

    def within(self, strength: int) -> str:
        return self.code if self.strength >= strength else f"({self.code})"


@dataclass(frozen=True)
class Dialect:
    """How a language spells what a graph is made of.

    `literal` takes the number, its type and whether an operator's other side gives it that type; `convert` and
    `cast` take an operand's text, its type and the type to reach.
    """

    spelling: Callable[[Primitive], str]
    literal: Callable[[Number, DType, bool], Text]
    convert: Callable[[Text, DType, DType], Text]
    cast: Callable[[Text, DType, Element], Text]
    #: The text of a condition without dims.
    lone_condition: Callable[[Text], Text] = lambda text: text
    #: Functions that take plain numbers beside tensors.
    takes_numbers: frozenset[str] = frozenset()
    #: Operators that may stand for a primitive where no operand is negative.
    of_naturals: Mapping[str, str] = field(default_factory=dict)


@dataclass
class Printer:
    """Writes one graph. `leaf` gives the text of reads, scalars, sizes, positions, gathers and random numbers."""

    graph: Graph
    dialect: Dialect
    names: Names
    leaf: Callable[[Printer, Ref, Value], Text]
    #: An operand's text, its user and itself, to the text that the user's other operands broadcast with.
    moved: Callable[[Text, Ref, Ref], Text] = lambda text, _user, _ref: text
    lines: list[str] = field(default_factory=list)
    _texts: dict[Ref, Text] = field(default_factory=dict)

    def body(self) -> tuple[str, ...]:
        """Writes all values and returns the text of each store, in order."""
        uses = _uses(self.graph)
        for ref, value in enumerate(self.graph.values):
            text = self._text(ref, value)
            if not text.code.isidentifier() and self._has_own_line(value, uses[ref]):
                name = self.names.fresh(value.name) if value.name else self.names.numbered("t")
                self.lines.append(f"{name} = {text.code}")
                text = Text(name)
            self._texts[ref] = text
        return tuple(self.alone(store.value) for store in self.graph.stores)

    def text(self, ref: Ref) -> Text:
        return self._texts[ref]

    def alone(self, ref: Ref) -> str:
        """A value's text where nothing around it gives a literal its type."""
        value = self.graph.values[ref]
        if isinstance(value.node, Literal):
            return self.dialect.literal(value.node.number, value.type.dtype, False).code
        return self._texts[ref].code

    def operand(self, user: Ref, ref: Ref) -> Text:
        """A value's text as an operand of another."""
        return self.moved(self._texts[ref], user, ref)

    def _has_own_line(self, value: Value, uses: int) -> bool:
        if isinstance(value.node, Literal | Read | Scalar | Const):
            return False
        if isinstance(value.node, Convert) and self._is_plain(value.node.arg):
            return False
        return value.name is not None or uses > 1

    def _is_plain(self, ref: Ref) -> bool:
        return isinstance(self.graph.values[ref].node, Literal | Read | Scalar | Const)

    def _text(self, ref: Ref, value: Value) -> Text:
        node = value.node
        match node:
            case Literal(number=number):
                return self.dialect.literal(number, value.type.dtype, True)
            case Convert(arg=arg):
                source = self.graph.values[arg].type.dtype
                return self.dialect.convert(self._texts[arg], source, value.type.dtype)
            case Cast(arg=arg):
                source = self.graph.values[arg].type.dtype
                text = self.dialect.cast(self._texts[arg], source, value.type.element)
                makes_condition = value.type.dtype.is_bool and not source.is_bool
            case Apply(primitive=name, args=args):
                text = self._apply(ref, PRIMITIVES[name], args)
                makes_condition = PRIMITIVES[name].rule in (Rule.COMPARE, Rule.TEST)
            case _:
                return self.leaf(self, ref, value)
        return self.dialect.lone_condition(text) if makes_condition and not value.type.dims else text

    def _apply(self, user: Ref, primitive: Primitive, args: tuple[Ref, ...]) -> Text:
        spelling = self.dialect.spelling(primitive)
        if primitive.name in self.dialect.of_naturals and all(is_natural(self.graph, ref) for ref in args):
            spelling = self.dialect.of_naturals[primitive.name]
        if spelling not in _INFIX and spelling != "~":
            return self._call(user, spelling, args)
        if len(args) == 1:
            return Text(f"{spelling}{self._texts[args[0]].within(UNARY)}", UNARY)
        strength = _INFIX[spelling]
        left, right = (self.operand(user, ref) for ref in args)
        # Comparisons do not chain, `**` groups to the right, the others to the left.
        first = left.within(strength + 1 if strength in (0, _INFIX["**"]) else strength)
        second = right.within(strength if spelling == "**" else strength + 1)
        return Text(f"{first} {spelling} {second}", strength)

    def _call(self, user: Ref, function: str, args: tuple[Ref, ...]) -> Text:
        if function in self.dialect.takes_numbers and self._has_typed(args):
            texts = [self.operand(user, ref).code for ref in args]
        else:
            texts = [self.moved(Text(self.alone(ref)), user, ref).code for ref in args]
        if function.endswith(("minimum", "maximum")):
            code = texts[0]
            for other in texts[1:]:
                code = f"{function}({code}, {other})"
            return Text(code)
        return Text(f"{function}({', '.join(texts)})")

    def _has_typed(self, args: tuple[Ref, ...]) -> bool:
        """Whether some operand gives its type to the plain numbers beside it; a choice's condition does not."""
        dtype = self.graph.values[args[-1]].type.dtype
        values = [self.graph.values[ref] for ref in args]
        return any(value.type.dtype == dtype and not isinstance(value.node, Literal) for value in values)


def is_natural(graph: Graph, ref: Ref) -> bool:
    """Whether a value is surely an integer that is not negative: sizes, positions, and what keeps them so."""
    value = graph.values[ref]
    if not value.type.dtype.is_integer:
        return False
    match value.node:
        case Size() | Index():
            return True
        case Literal(number=number):
            return number.value >= 0
        case Convert(arg=arg):
            return is_natural(graph, arg)
        case Apply(primitive="floordiv" | "mod" | "bitand" | "shr" | "min" | "max", args=args):
            return all(is_natural(graph, arg) for arg in args)
        case _:
            return False


def _uses(graph: Graph) -> Mapping[Ref, int]:
    uses = dict.fromkeys(range(len(graph.values)), 0)
    for value in graph.values:
        for ref in operands(value.node):
            uses[ref] += 1
    for store in graph.stores:
        uses[store.value] += 1
    return uses
