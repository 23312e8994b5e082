"""Broken graphs are told apart from good ones, and the guilty value is named."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from opgen.diagnostics import InternalError
from opgen.dtypes import F16, F32, I32
from opgen.ir.nodes import (
    Apply,
    Cast,
    Contract,
    Convert,
    Dim,
    Element,
    Graph,
    Literal,
    Number,
    Op,
    Read,
    Reduce,
    Store,
    Type,
    Value,
)
from opgen.ir.passes.simplify import remove_dead, simplify
from opgen.ir.verify import verify_op
from tests.lowering import lowered

SPEC = """
op f(x: f16[M, K], w: f16[N, K], b: f16[N] = 0) -> (y: f16[M, N], z: f32[M])
{
  y = x @ w + b
  z = sum[K](x)
}
"""
# %0 x, %1 w, %2 contract, %3 b, %4 convert b, %5 add, %6 convert x, %7 sum


@pytest.fixture
def op() -> Op:
    return lowered(SPEC).ops[0]


def with_graph(op: Op, graph: Graph) -> Op:
    return replace(op, variants=(replace(op.variants[0], graph=graph),))


def changed(op: Op, position: int, **fields: object) -> Op:
    """The op with one value's node or type replaced."""
    graph = op.variants[0].graph
    value = replace(graph.values[position], **fields)  # type: ignore[arg-type]
    values = (*graph.values[:position], value, *graph.values[position + 1 :])
    return with_graph(op, replace(graph, values=values))


M, N, K = Dim("M"), Dim("N"), Dim("K")


@pytest.mark.parametrize(
    ("position", "fields", "message"),
    [
        (5, {"node": Apply("add", (4, 4))}, "the dims are not the operands'"),
        (5, {"node": Apply("add", (2, 3))}, "an operand is not converted"),
        (5, {"node": Apply("add", (2, 5))}, "a value that does not come before"),
        (5, {"node": Apply("add", (2, 4, 4))}, "a wrong number of operands"),
        (5, {"type": Type(Element(I32), (M, N))}, "the type is not the operands'"),
        (5, {"type": Type(Element(F32), (M, M))}, "a dim occurs twice"),
        (4, {"type": Type(Element(F32), (M,))}, "a conversion changes dims"),
        (4, {"type": Type(Element(F16), (N,))}, "it has no compute type"),
        (4, {"node": Cast(3)}, "a cast of a storage-typed value"),
        (2, {"node": Contract(0, 1, N, ())}, "an operand lacks the contracted dim"),
        (2, {"node": Contract(0, 1, K, (M,))}, "a batch dim is missing"),
        (7, {"node": Reduce("sum", 6, (N,))}, "the operand does not carry the dims"),
        (7, {"node": Reduce("sum", 0, (K,))}, "the operand is not converted"),
        (7, {"type": Type(Element(F32), (M, K))}, "the reduced dims are not gone"),
        (3, {"node": Read("a")}, "there is no tensor `a`"),
        (3, {"node": Read("x")}, "it is read with other dims"),
        (4, {"node": Literal(Number(2**200))}, "a scalar has dims"),
    ],
)
def test_a_broken_value_is_named(op: Op, position: int, fields: dict[str, object], message: str) -> None:
    verify_op(op)
    with pytest.raises(InternalError, match=rf"^%{position} .*{message}"):
        verify_op(changed(op, position, **fields))


@pytest.mark.parametrize(
    "break_op",
    [
        lambda op: with_graph(op, replace(op.variants[0].graph, stores=(Store("y", 5),))),
        lambda op: with_graph(op, replace(op.variants[0].graph, stores=(Store("y", 5), Store("z", 3)))),
        lambda op: with_graph(op, replace(op.variants[0].graph, stores=(Store("y", 5), Store("z", 6)))),
        lambda op: replace(op, variants=op.variants * 2),
        lambda op: replace(op, variants=()),
        lambda op: replace(op, results=op.results * 2),
    ],
)
def test_a_broken_op_is_refused(op: Op, break_op: Callable[[Op], Op]) -> None:
    with pytest.raises(InternalError):
        verify_op(break_op(op))


def test_dead_values_go_and_the_others_keep_their_order(op: Op) -> None:
    graph = op.variants[0].graph
    dead = Value(Literal(Number(3)), Type(Element(F32), ()), span=op.span)
    with_dead = replace(graph, values=(*graph.values, dead))
    assert remove_dead(with_dead) == graph
    only_z = remove_dead(replace(graph, stores=graph.stores[1:]))
    assert [type(value.node) for value in only_z.values] == [Read, Convert, Reduce]


def test_a_cast_back_is_its_operand_unless_the_operand_may_be_left_out(op: Op) -> None:
    def value(node: Read | Convert | Cast, dtype: Element) -> Value:
        return Value(node, Type(dtype, (N,)), span=op.span)

    f16, f32 = Element(F16), Element(F32)
    values = (value(Read("b"), f16), value(Convert(0), f32), value(Cast(1), f16), value(Convert(2), f32))
    graph = Graph(values, (Store("y", 3),))
    assert simplify(graph) == Graph((values[0], replace(values[3], node=Convert(0))), (Store("y", 1),))
    assert simplify(graph, frozenset({"b"})) == graph
