"""Invariants of graphs and ops. A failure is our mistake: an `InternalError` that names the value."""

from __future__ import annotations

from collections.abc import Mapping

from opgen.diagnostics import InternalError
from opgen.dtypes import BOOL, DTYPES, F32, F64, I32, I64, DType
from opgen.ir import dims as dim_rules
from opgen.ir.nodes import (
    Apply,
    Cast,
    Const,
    Contract,
    Convert,
    Dim,
    Element,
    Gather,
    Graph,
    Index,
    Literal,
    Node,
    Op,
    Random,
    Read,
    Reduce,
    Ref,
    Scalar,
    Size,
    Value,
)
from opgen.ir.numbers import fits
from opgen.ir.operands import operands
from opgen.primitives import PRIMITIVES, REDUCTIONS, Rule

_COMPUTE = (F32, F64, I32, I64, BOOL)
_STORAGE_NODES = (Read, Gather, Cast)


def verify_op(op: Op) -> None:
    """Raises `InternalError` where an op or one of its graphs breaks an invariant."""
    tensors = {param.name: (param.element, param.dims) for param in op.tensors}
    targets = {result.name: result.dims for result in op.results}
    targets |= {param.name: param.dims for param in op.tensors if param.inout}
    _require(bool(op.variants), f"{op.name}: no variant")
    names = [param.name for param in op.params] + [result.name for result in op.results]
    _require(len(set(names)) == len(names), f"{op.name}: a name is used twice")
    for variant in op.variants:
        _require(bool(variant.choices), f"{op.name}: a variant that serves nothing")
        verify_graph(variant.graph, tensors)
        stored = [store.target for store in variant.graph.stores]
        _require(
            sorted(stored) == sorted(targets), f"{op.name}: stores {stored}, and writes {sorted(targets)}"
        )
        for store in variant.graph.stores:
            dims = variant.graph.values[store.value].type.dims
            _require(
                not dim_rules.missing(dims, targets[store.target]), f"{op.name}: `{store.target}` lacks dims"
            )
    for gradient in op.gradients:
        for variant in gradient.variants:
            verify_graph(variant.graph)
    served = [choice for variant in op.variants for choice in variant.choices]
    _require(len(set(served)) == len(served), f"{op.name}: a choice is served twice")


def verify_graph(graph: Graph, tensors: Mapping[str, tuple[Element, tuple[Dim, ...]]] | None = None) -> None:
    """Raises `InternalError` where a graph breaks an invariant; `tensors` are those that it may read."""
    for position, value in enumerate(graph.values):
        try:
            _check_value(graph, position, value, tensors)
        except InternalError as error:
            raise InternalError(f"%{position} ({value.node}: {value.type}): {error}") from None
    for store in graph.stores:
        _require(0 <= store.value < len(graph.values), f"the store of `{store.target}` refers to no value")
        node = graph.values[store.value].node
        _require(not isinstance(node, _STORAGE_NODES), f"the store of `{store.target}` is not converted")


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise InternalError(message)


def _check_value(
    graph: Graph, position: Ref, value: Value, tensors: Mapping[str, tuple[Element, tuple[Dim, ...]]] | None
) -> None:
    node = value.node
    _require(
        all(0 <= ref < position for ref in operands(node)), "it refers to a value that does not come before"
    )
    args = [graph.values[ref] for ref in operands(node)]
    families = [
        dim for place, dim in enumerate(value.type.dims) if dim_rules.find(value.type.dims[:place], dim)
    ]
    _require(not families, "a dim occurs twice")
    _require(all(not dim.is_ellipsis for dim in value.type.dims[1:]), "`...` does not stand first")
    if not isinstance(node, _STORAGE_NODES):
        _require(
            value.type.dtype in _COMPUTE and value.type.element.variable is None, "it has no compute type"
        )
    if isinstance(node, Apply):
        _check_apply(value, node, args)
    elif isinstance(node, Reduce):
        _check_reduce(value, node, args[0])
    elif isinstance(node, Contract):
        _check_contract(value, node, args)
    elif isinstance(node, (Convert, Cast)):
        _require(value.type.dims == args[0].type.dims, "a conversion changes dims")
        stored = isinstance(node, Cast) and isinstance(args[0].node, _STORAGE_NODES)
        _require(not stored, "a cast of a storage-typed value")
    else:
        _check_leaf(value, node, args, tensors)


def _check_leaf(
    value: Value, node: Node, args: list[Value], tensors: Mapping[str, tuple[Element, tuple[Dim, ...]]] | None
) -> None:
    if isinstance(node, (Literal, Scalar, Const, Size)):
        _require(value.type.dims == (), "a scalar has dims")
    if isinstance(node, Literal):
        _require(fits(node.number.value, value.type.dtype), "a literal too large for its type")
    if isinstance(node, Index):
        _require(value.type.dims == (node.dim,) and value.type.dtype is I64, "a wrong index")
    if isinstance(node, Random):
        _require(args[0].type.dtype is I64 and args[0].type.dims == (), "a seed that is no i64 scalar")
        _require(value.type.dims == node.dims and value.type.dtype is F32, "wrong random numbers")
    if isinstance(node, Gather):
        _require(all(arg.type.dtype in (I32, I64) for arg in args), "a coordinate that is no integer")
    if isinstance(node, (Read, Gather)) and tensors is not None:
        _require(node.param in tensors, f"there is no tensor `{node.param}`")
        element, dims = tensors[node.param]
        _require(value.type.element.variable == element.variable, "it is read as another type")
        if isinstance(node, Read):
            _require(value.type.dims == dims, "it is read with other dims")
        else:
            _require(
                all(dim in dims for dim, _ in node.coordinates), "a coordinate along a dim that is not there"
            )


def _check_apply(value: Value, node: Apply, args: list[Value]) -> None:
    row = PRIMITIVES[node.primitive]
    least, most = row.arity
    _require(least <= len(args) <= most, "a wrong number of operands")
    _require(not any(isinstance(arg.node, _STORAGE_NODES) for arg in args), "an operand is not converted")
    _require(
        value.type.dims == dim_rules.combine([arg.type.dims for arg in args]),
        "the dims are not the operands'",
    )
    types = [arg.type.dtype for arg in args]
    if row.rule is Rule.SELECT:
        _require(types.pop(0) is BOOL, "a condition that is no bool")
    _require(len(set(types)) == 1, "operands of unequal types")
    _require(_is_operand(row.rule, types[0]), f"operands of type {types[0]}")
    tests = row.rule in (Rule.COMPARE, Rule.LOGIC, Rule.TEST)
    _require(value.type.dtype is (BOOL if tests else types[0]), "the type is not the operands'")


def _is_operand(rule: Rule, dtype: DType) -> bool:
    if rule in (Rule.FLOAT, Rule.TEST):
        return dtype.is_float
    if rule is Rule.LOGIC:
        return dtype is BOOL
    if rule in (Rule.BITS, Rule.SELECT):
        return rule is Rule.SELECT or not dtype.is_float
    return dtype.is_integer if rule is Rule.SHIFT else dtype is not BOOL


def _check_reduce(value: Value, node: Reduce, arg: Value) -> None:
    _require(node.kind in REDUCTIONS and bool(node.dims), "an unknown reduction, or one over nothing")
    _require(not isinstance(arg.node, _STORAGE_NODES), "the operand is not converted")
    _require(all(dim in arg.type.dims for dim in node.dims), "the operand does not carry the dims")
    rest = tuple(dim for dim in arg.type.dims if dim not in node.dims)
    _require(value.type.dims == rest, "the reduced dims are not gone")
    wanted = I64 if node.gives_position else arg.type.dtype
    _require(value.type.dtype is wanted, "a wrong type")


def _check_contract(value: Value, node: Contract, args: list[Value]) -> None:
    left, right = args
    _require(
        node.dim in left.type.dims and node.dim in right.type.dims, "an operand lacks the contracted dim"
    )
    _require(
        all(dim in left.type.dims and dim in right.type.dims for dim in node.batch), "a batch dim is missing"
    )
    _require(left.type.dtype is right.type.dtype, "operands of unequal types")
    _require(value.type.dtype is DTYPES[left.type.dtype.compute], "a wrong type")
