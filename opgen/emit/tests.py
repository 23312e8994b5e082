"""An op as the context of its generated property tests."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable

from opgen.emit.contexts import ModuleContext, TestContext
from opgen.emit.dialects import number_text
from opgen.emit.names import module_name
from opgen.emit.oracle import dim_name, oracle_text, product_precision
from opgen.emit.tables import host_text, quoted
from opgen.ir.nodes import (
    Contract,
    Dim,
    Gather,
    Graph,
    Node,
    Op,
    Param,
    Random,
    Reduce,
    Result,
    Scalar,
    ScalarParam,
    Size,
    TensorParam,
)
from opgen.ir.operands import operands
from opgen.ir.passes.partition import heavy_results
from opgen.ir.passes.parts import target_dims

#: How often a reduction adds or multiplies terms, one time after another; the others choose one of them.
_ROUNDS = {"sum": 1, "mean": 1, "prod": 1, "logsumexp": 1, "var": 2}


def test_context(op: Op, module: ModuleContext) -> TestContext:
    """The words of an op's tests, which import its module."""
    oracle = oracle_text(op)
    reference = textwrap.dedent(op.reference or "").strip()
    heavy = heavy_results(op)
    return TestContext(
        spec=module.spec,
        op=op.name,
        module=module_name(op.name),
        entry=module.entry.name,
        function=module.function.name,
        operator=module.operator.name,
        functions=oracle.functions,
        oracle_parameters=oracle.parameters,
        oracle_returns=" and ".join(f"`{name}`" for name in target_dims(op)),
        oracle_lines=oracle.lines,
        has_reference=op.reference is not None,
        reference_parameters=tuple(param.name for param in op.params),
        reference_lines=tuple(reference.split("\n")),
        parameters=tuple(_parameter(op, param) for param in op.params),
        results=tuple(
            _tensor(result, ", contiguous=True" if result.name in heavy else "") for result in op.results
        ),
        options=tuple(_options(op)),
    )


def _parameter(op: Op, param: Param) -> str:
    limits = "".join(
        f", range=({draw.low}, {draw.high})" for draw in op.tests.draws if draw.param == param.name
    )
    if isinstance(param, ScalarParam):
        const = ", const=True" if param.const else ""
        default = "" if param.default is None else f", default={number_text(param.default, param.dtype).code}"
        return f"ScalarSpec({quoted(param.name)}, {quoted(param.dtype.name)}{const}{limits}{default})"
    flags = (", optional=True" if param.optional else "") + (", updated=True" if param.inout else "")
    return _tensor(param, flags + limits)


def _tensor(item: TensorParam | Result, more: str) -> str:
    dims = " ".join(dim_name(dim) for dim in item.dims)
    return f"TensorSpec({quoted(item.name)}, {quoted(str(item.element))}, {quoted(dims)}{more})"


def _options(op: Op) -> list[str]:
    """The parts of a case that not every op has."""
    options = []
    if op.variables:
        types = ", ".join(
            f"{quoted(variable.name)}: ({''.join(f'torch.{dtype.torch}, ' for dtype in variable.types)})"
            for variable in op.variables
        )
        options.append(f"types={{{types}}}")
    if op.tests.sizes:
        sizes = ", ".join(f"{quoted(str(one.dim))}: ({one.low}, {one.high})" for one in op.tests.sizes)
        options.append(f"sizes={{{sizes}}}")
    if op.requirements:
        conditions = "".join(f"lambda given: {host_text(one.condition)}, " for one in op.requirements)
        options.append(f"requires=({conditions})")
    if op.tests.tolerances:
        allowed = ", ".join(f"torch.{dtype.torch}: {value}" for dtype, value in op.tests.tolerances)
        options.append(f"tolerance={{{allowed}}}")
    if _needs_whole(op):
        options.append("whole=True")
    seeds = _seeds(op)
    if seeds:
        options.append(f"seeds=({''.join(f'{quoted(name)}, ' for name in seeds)})")
    reductions = _each_once(node.dims for node in _nodes(op) if isinstance(node, Reduce))
    contractions = _each_once((node.dim,) for node in _nodes(op) if isinstance(node, Contract))
    products = _each_once(
        node.dims for node in _nodes(op) if isinstance(node, Reduce) and node.kind == "prod"
    )
    for option, groups in (
        ("reductions", reductions),
        ("contractions", contractions),
        ("products", products),
    ):
        if groups:
            options.append(f"{option}=({groups})")
    counted = _counted(op) if reductions or contractions else []
    if counted:
        options.append(f"counted=({''.join(f'{quoted(name)}, ' for name in counted)})")
    chain = max((_chain(variant.graph) for variant in op.variants), key=len, default=())
    if len(chain) > 1:
        options.append(f"chain=({''.join(f'{quoted(dims)}, ' for dims in chain)})")
    if product_precision(op) != "ieee":
        options.append("narrows=True")
    return options


def _nodes(op: Op) -> list[Node]:
    return [value.node for variant in op.variants for value in variant.graph.values]


def _chain(graph: Graph) -> tuple[str, ...]:
    """The dims of the longest chain of sums and products over dims, each of them made of the one before."""
    chains: list[tuple[str, ...]] = []
    for value in graph.values:
        before = max((chains[ref] for ref in operands(value.node)), key=len, default=())
        match value.node:
            case Reduce(kind=kind, dims=dims):
                own = (" ".join(dim_name(dim) for dim in dims),) * _ROUNDS.get(kind, 0)
            case Contract(dim=dim):
                own = (dim_name(dim),)
            case _:
                own = ()
        chains.append((*before, *own))
    return max(chains, key=len, default=())


def _needs_whole(op: Op) -> bool:
    """Whether a value depends on sizes, or on elements elsewhere in the space of a target."""
    space = {dim for dims in target_dims(op).values() for dim in dims}
    gathered = {dim for node in _nodes(op) if isinstance(node, Gather) for dim, _ in node.coordinates}
    return bool(gathered & space) or any(isinstance(node, Size | Reduce | Contract) for node in _nodes(op))


def _counted(op: Op) -> list[str]:
    """The dims whose sizes are values, and those that a tensor is gathered along, as far as they have names."""
    sizes = {node.dim for node in _nodes(op) if isinstance(node, Size)}
    gathered = {dim for node in _nodes(op) if isinstance(node, Gather) for dim, _ in node.coordinates}
    return sorted({dim.name for dim in sizes | gathered if dim.fixed is None})


def _each_once(groups: Iterable[tuple[Dim, ...]]) -> str:
    """Groups of dims as elements of a tuple of texts."""
    texts = (" ".join(dim_name(dim) for dim in dims) for dims in dict.fromkeys(groups))
    return "".join(f"{quoted(text)}, " for text in texts)


def _seeds(op: Op) -> list[str]:
    """The scalars that are keys of random numbers as they are."""
    names = set()
    for variant in op.variants:
        for value in variant.graph.values:
            if isinstance(value.node, Random):
                seed = variant.graph.values[value.node.seed].node
                names |= {seed.param} if isinstance(seed, Scalar) else set()
    return sorted(names)
