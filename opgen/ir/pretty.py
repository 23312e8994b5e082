"""The typed form of an op as stable text, for `opgen explain` and for tests."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from opgen.ir.nodes import (
    Apply,
    Cast,
    Const,
    Contract,
    Convert,
    Gather,
    Graph,
    HostApply,
    HostExpr,
    HostName,
    HostNumber,
    Index,
    Literal,
    Node,
    Number,
    Op,
    Param,
    Random,
    Read,
    Reduce,
    Ref,
    Scalar,
    Size,
    TensorParam,
    TestHints,
    Value,
)


def format_op(op: Op) -> str:
    """The op as text, one value a line; it ends with a line end."""
    return "\n".join([f"op {op.name}", *(f"  {line}" for line in _op_lines(op))]) + "\n"


def _op_lines(op: Op) -> Iterator[str]:
    yield from (_param(param) for param in op.params)
    yield from (f"result {r.name}: {r.element}[{_listed(r.dims)}]" for r in op.results)
    yield from (f"type {v.name} in {{{_listed(v.types)}}}" for v in op.variables)
    for requirement in op.requirements:
        yield f"require {_host(requirement.condition)}" + (f" {requirement.why!r}" if requirement.why else "")
    if op.reference is not None:
        yield f"reference {op.reference!r}"
    if not op.differentiable:
        yield "grad none"
    for case in op.sizes:
        yield f"sizes {case.label}: " + ", ".join(f"{dim} = {size}" for dim, size in case.sizes)
    for hint in op.hints:
        targets = f" for {', '.join(hint.targets)}" if hint.targets else ""
        yield f"tile{targets}: {hint.key} = {' | '.join(_word(value) for value in hint.values)}"
    yield from _tests(op.tests)
    for variant in op.variants:
        yield from _variant(op, "graph", variant.choices, variant.graph)
    for gradient in op.gradients:
        for variant in gradient.variants:
            yield from _variant(op, f"gradient of {gradient.param}", variant.choices, variant.graph)


def _listed(items: tuple[object, ...]) -> str:
    return ", ".join(map(str, items))


def _param(param: Param) -> str:
    default = "" if param.default is None else f" = {format_number(param.default)}"
    if isinstance(param, TensorParam):
        kind = "inout" if param.inout else "tensor"
        return f"{kind} {param.name}: {param.element}[{_listed(param.dims)}]{default}"
    return f"{'const' if param.const else 'scalar'} {param.name}: {param.dtype}{default}"


def _word(value: int | bool | str) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _tests(tests: TestHints) -> Iterator[str]:
    yield from (f"test {draw.param} in {draw.low!r} .. {draw.high!r}" for draw in tests.draws)
    yield from (f"test tolerance {dtype} = {tolerance!r}" for dtype, tolerance in tests.tolerances)
    yield from (f"test sizes {size.dim} in {size.low} .. {size.high}" for size in tests.sizes)


def _variant(op: Op, title: str, choices: tuple[tuple[object, ...], ...], graph: Graph) -> Iterator[str]:
    names = ", ".join(variable.name for variable in op.variables)
    served = " | ".join(_listed(choice) for choice in choices)
    yield f"{title} for {names} = {served}:" if op.variables else f"{title}:"
    yield from (f"  {line}" for line in format_graph(graph).splitlines())


def format_graph(graph: Graph) -> str:
    """A graph as text: `%3: f32[M] = add %1 %2  # name`, then the stores."""
    values = [_value(position, value) for position, value in enumerate(graph.values)]
    stores = [f"store {store.target} = %{store.value}" for store in graph.stores]
    return "\n".join([*values, *stores])


def _value(position: Ref, value: Value) -> str:
    name = f"  # {value.name}" if value.name is not None else ""
    return f"%{position}: {value.type} = {format_node(value.node)}{name}"


def format_node(node: Node) -> str:
    """A node on one line, its operands as `%position`."""
    if isinstance(node, Literal):
        return f"literal {format_number(node.number)}"
    if isinstance(node, (Read, Scalar, Const)):
        return f"{type(node).__name__.lower()} {node.param}"
    if isinstance(node, (Size, Index)):
        return f"{type(node).__name__.lower()} {node.dim}"
    if isinstance(node, Random):
        return f"random[{_listed(node.dims)}] %{node.seed}"
    if isinstance(node, Gather):
        coordinates = ", ".join(f"{dim}: %{ref}" for dim, ref in node.coordinates)
        return f"gather {node.param}[{coordinates}]"
    if isinstance(node, Apply):
        return " ".join([node.primitive, *(f"%{ref}" for ref in node.args)])
    if isinstance(node, (Convert, Cast)):
        return f"{type(node).__name__.lower()} %{node.arg}"
    if isinstance(node, Reduce):
        return f"{node.kind}[{_listed(node.dims)}] %{node.arg}"
    return _contract(node)


def _contract(node: Contract) -> str:
    batch = f" batch [{_listed(node.batch)}]" if node.batch else ""
    return f"contract %{node.left} %{node.right} over {node.dim}{batch}"


def format_number(number: Number) -> str:
    """A number as text that determines it: an integer, a decimal of at most 20 digits, else `p/q`."""
    value = number.value
    if isinstance(value, float):
        return repr(value)
    if value.denominator == 1:
        return (
            str(value.numerator)
            if abs(value) < 10**20
            else f"{float(value):.17g}"
            if abs(value) < 10**300
            else "big"
        )
    return _decimal(value)


def _decimal(value: Fraction) -> str:
    for digits in range(1, 21):
        text = f"{float(value):.{digits}g}"
        if Fraction(text) == value:
            return text
    return f"{float(value):.17g}~" if value.denominator.bit_length() > 64 else str(value)


def _host(expr: HostExpr) -> str:
    if isinstance(expr, HostName):
        return expr.name
    if isinstance(expr, HostNumber):
        return _word(expr.number.value == 1) if expr.is_bool else format_number(expr.number)
    assert isinstance(expr, HostApply)
    return f"({' '.join([expr.operator, *(_host(arg) for arg in expr.args)])})"
