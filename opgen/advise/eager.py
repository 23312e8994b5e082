"""What eager PyTorch launches for an op: the functions of its reference, or else the nodes of its graph one by one.

An op without a `reference` and without a product runs as the generated reference does, in the types that its kernels
compute in: `y = rms_norm[C](x, eps) * weight` of bf16 casts `x` and `weight` to f32, fills a 0-d tensor with `eps`,
computes `x * x`, `mean`, `+`, `rsqrt` and two products, and casts back: ten kernels.
"""

from __future__ import annotations

from collections.abc import Iterable

from opgen.advise.counts import (
    CAST,
    Kernel,
    biases,
    instructions_of,
    is_tensor,
    product_of,
    reduced_shape,
)
from opgen.advise.library import launches_of
from opgen.advise.setting import Setting
from opgen.dtypes import DTYPES, DType
from opgen.ir.nodes import (
    Apply,
    Cast,
    Contract,
    Convert,
    Gather,
    Graph,
    Index,
    Random,
    Read,
    Reduce,
    Ref,
    Scalar,
)
from opgen.ir.operands import operands

_SPREADING_COST = 71
"""Instructions for an element of PyTorch's kernels where operands of fewer elements are repeated: these find each
element's place by division, and load it alone. On an H200 adding a row of 8,192 to 134 million elements took 330 us of
bf16 and 367 of f32."""


def eager_kernels(setting: Setting) -> tuple[Kernel, ...]:
    """The kernels that PyTorch launches one by one."""
    found = _of_reference(setting)
    if found is not None:
        return found
    has_products = any(isinstance(value.node, Contract) for value in setting.graph.values)
    if setting.op.reference is None and not has_products:
        return tuple(_of_generated_reference(setting))
    return tuple(_of_graph(setting))


def _of_reference(setting: Setting) -> tuple[Kernel, ...] | None:
    """The kernels of the spec's reference, where it has functions alone that PyTorch runs as one kernel each."""
    op = setting.op
    elements = {param.name: 0 for param in op.params}
    elements |= {tensor.name: setting.count(tensor.dims) for tensor in op.tensors}
    launches = launches_of(op.reference, op.statements, elements)
    widths = {setting.bits(one.element) for one in op.tensors}
    if not launches or len(widths) != 1:  # which width a kernel's operands have, only the graph says
        return None
    (bits,) = widths
    graph = setting.graph
    columns = max(
        (reduced_shape(setting, graph, one.node)[1] for one in graph.values if isinstance(one.node, Reduce)),
        default=1,
    )
    share = sum(instructions_of(setting, graph, ref) for ref in range(len(graph.values))) // len(launches)
    kernels = [
        Kernel(
            what=one.name,
            bytes=(one.read + one.written) * bits // 8,
            instructions=share,
            rows=one.written // columns if one.reduces else 0,
            columns=columns if one.reduces else 0,
            addressing=one.written * _SPREADING_COST if one.spreads else 0,
        )
        for one in launches
    ]
    kernels += [
        Kernel(CAST, setting.count(one.dims) * (bits + dtype.bits) // 8, 0)
        for one, dtype in ((one, setting.dtype_of(one.element)) for one in op.results)
        if dtype.is_float and dtype.bits < bits
    ]
    return tuple(kernels)


# --- one kernel for each node -------------------------------------------------------------------


def _of_generated_reference(setting: Setting) -> Iterable[Kernel]:
    """The generated reference: operands are cast to the types that kernels compute in, numbers become 0-d tensors, and
    results are cast back."""
    graph = setting.graph
    types = [setting.dtype_of(value.type.element) for value in graph.values]
    for ref, value in enumerate(graph.values):
        if isinstance(value.node, Scalar):
            yield Kernel("fill", types[ref].bits // 8, 0)
        elif isinstance(value.node, Convert):
            if is_tensor(graph, ref) and types[ref] != types[value.node.arg]:
                yield _node_kernel(setting, ref, types, CAST)
        elif _is_kernel(graph, ref):
            yield _node_kernel(setting, ref, types)
    arrays = {one.name: one.element for one in setting.op.arrays}
    for store in graph.stores:
        kept, own = types[store.value], setting.dtype_of(arrays[store.target])
        if kept != own:
            count = setting.count(graph.values[store.value].type.dims)
            yield Kernel(CAST, count * (kept.bits + own.bits) // 8, 0)


def _of_graph(setting: Setting) -> Iterable[Kernel]:
    """The nodes in the types that PyTorch gives them; a product is the library's, a bias added to it comes for free."""
    graph = setting.graph
    types = eager_types(setting)
    biased = biases(graph)
    free = biased | _gates(graph)
    for ref in range(len(graph.values)):
        if ref not in free and _is_kernel(graph, ref):
            yield _node_kernel(setting, ref, types, without=free - biased)


def _node_kernel(
    setting: Setting, ref: Ref, types: list[DType], what: str = "", without: Iterable[Ref] = ()
) -> Kernel:
    """A node as a kernel that reads its operands and writes its value."""
    graph = setting.graph
    value = graph.values[ref]
    count = setting.count(value.type.dims)
    read = dict.fromkeys(one for one in operands(value.node) if one not in without)
    sizes = {one: setting.count(graph.values[one].type.dims) for one in read}
    bits = (
        count * types[ref].bits
        if isinstance(value.node, Gather)
        else sum(size * types[one].bits for one, size in sizes.items())
    )
    spreads = isinstance(value.node, Apply) and any(1 < size < count for size in sizes.values())
    rows, columns = reduced_shape(setting, graph, value.node) if isinstance(value.node, Reduce) else (0, 0)
    return Kernel(
        what=what or _word(value.node),
        bytes=(bits + count * types[ref].bits) // 8,
        instructions=instructions_of(setting, graph, ref),
        products=(product_of(setting, graph, value.node),) if isinstance(value.node, Contract) else (),
        rows=rows,
        columns=columns,
        addressing=count * _SPREADING_COST if spreads else 0,
    )


def _is_kernel(graph: Graph, ref: Ref) -> bool:
    """Whether eager PyTorch launches something: not for reading, for numbers, nor for widening what it computes in."""
    value = graph.values[ref]
    match value.node:
        case Apply() | Cast():
            return is_tensor(graph, ref)
        case Gather() | Contract() | Reduce() | Random() | Index():
            return True
        case _:
            return False


def _gates(graph: Graph) -> set[Ref]:
    """The sigmoids of `x * sigmoid(x)`, which PyTorch has as one kernel."""
    users = [one for value in graph.values for one in operands(value.node)] + [
        one.value for one in graph.stores
    ]
    found = set()
    for value in graph.values:
        if not (isinstance(value.node, Apply) and value.node.primitive == "mul"):
            continue
        for gate, plain in (value.node.args, value.node.args[::-1]):
            node = graph.values[gate].node
            if (
                isinstance(node, Apply)
                and node.primitive == "sigmoid"
                and node.args == (plain,)
                and users.count(gate) == 1
            ):
                found.add(gate)
    return found


def eager_types(setting: Setting) -> list[DType]:
    """The element type that PyTorch computes each value in: tensors promote each other, numbers promote nothing."""
    graph = setting.graph
    types: list[DType] = []
    for ref, value in enumerate(graph.values):
        own = setting.dtype_of(value.type.element)
        match value.node:
            case Read() | Gather() | Cast():
                types.append(own)
            case Convert(arg=arg):
                types.append(types[arg])
            case Apply() | Reduce() | Contract():
                taken = [types[one] for one in operands(value.node) if is_tensor(graph, one)]
                types.append(_promoted(own, taken))
            case _:
                types.append(own)
        assert ref == len(types) - 1
    return types


def _promoted(own: DType, operands_: list[DType]) -> DType:
    """Of the operands the widest float where the value is one; else the value's own type."""
    floats = [one for one in operands_ if one.is_float]
    if not own.is_float or not floats:
        return own
    widest = max(floats, key=lambda one: one.bits)
    mixed = {"f16", "bf16"} <= {one.name for one in floats}
    return DTYPES["f32"] if mixed and widest.bits == 16 else widest


def _word(node: object) -> str:
    match node:
        case Apply(primitive=name):
            return name
        case Reduce(kind=kind):
            return kind
        case _:
            return type(node).__name__.lower()
