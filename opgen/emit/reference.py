"""The eager reference of an op: the formula in PyTorch, aligned by dim name."""

from __future__ import annotations

from dataclasses import dataclass

from opgen.dtypes import DTYPES
from opgen.emit.dialects import TORCH, number_text
from opgen.emit.exprs import Printer, Text
from opgen.emit.names import REFERENCE_NAMES, RESERVED, Names, type_name
from opgen.emit.variants import is_loaded_as_computed, specialised
from opgen.ir.dims import find, finer
from opgen.ir.nodes import (
    Cast,
    Const,
    Convert,
    Dim,
    Gather,
    Graph,
    Index,
    Literal,
    Op,
    Random,
    Read,
    Ref,
    Scalar,
    Size,
    TensorParam,
    Value,
    Variant,
)
from opgen.ir.operands import operands
from opgen.ir.passes.partition import target_dims


def whole_space(op: Op) -> tuple[Dim, ...]:
    """The space that all values of an elementwise op align to: its targets' dims in order, by the finest divisors."""
    space: list[Dim] = []
    for dims in target_dims(op).values():
        for place, dim in enumerate(dims):
            here = find(space, dim)
            if here is not None:
                space[space.index(here)] = finer(here, dim)
            else:
                later = [find(space, other) for other in dims[place + 1 :]]
                space.insert(min((space.index(one) for one in later if one), default=len(space)), dim)
    return tuple(space)


def texts(dims: tuple[Dim, ...]) -> str:
    """Dims as a tuple of strings in code."""
    return "(" + "".join(f'"{dim}", ' for dim in dims) + ")"


def reference_lines(op: Op, variant: int, names: dict[str, str], operator: str) -> tuple[str, ...]:
    """The body of the reference for one variant; `names` are its parameters, `operator` the declaration's name."""
    op = specialised(op, variant)
    graph = op.variants[variant].graph
    space = whole_space(op)
    types = {type_name(variable.name) for variable in op.variables}
    local = Names(RESERVED | REFERENCE_NAMES | set(names.values()) | types)
    printer = Printer(graph, TORCH, local, _Leaves(op, names, space).text)
    stored = printer.body()
    body = [*_prologue(op, graph, names, space), *printer.lines]
    order = [item.name for item in op.written]
    ordered = sorted(zip(graph.stores, stored, strict=True), key=lambda pair: order.index(pair[0].target))
    returned = [_finished(op, graph, store.target, store.value, text, space) for store, text in ordered]
    tail = f"return {', '.join(returned)}"
    return (*_bindings(op, names, operator, [*body, tail]), *body, tail)


def _bindings(op: Op, names: dict[str, str], operator: str, lines: list[str]) -> list[str]:
    """The sizes, device and types that the body mentions."""
    code = "\n".join(lines)
    result = []
    if "bound" in code:
        tensors = "".join(f"{names[tensor.name]}, " for tensor in op.tensors)
        consts = ", ".join(f'"{const.name}": {names[const.name]}' for const in op.consts)
        result.append(f"bound = rt.bind({operator}, ({tensors}), {{{consts}}})")
    first = next(tensor for tensor in op.tensors if not tensor.optional)
    if "device" in code.replace("bound.device", ""):
        result.append(f"device = {names[first.name]}.device")
    for variable in op.variables:
        owner = next(
            (one for one in op.tensors if one.element.variable == variable.name and not one.optional), None
        )
        if owner is not None and _mentions(code, type_name(variable.name)):
            result.append(f"{type_name(variable.name)} = {names[owner.name]}.dtype")
    return result


def _mentions(code: str, name: str) -> bool:
    words = "".join(
        character if character.isidentifier() or character.isdigit() else " " for character in code
    )
    return name in words.split()


def _prologue(op: Op, graph: Graph, names: dict[str, str], space: tuple[Dim, ...]) -> list[str]:
    """The lines that bring parameters to their compute types and into the space."""
    lines: list[str] = []
    read = {value.node.param for value in graph.values if isinstance(value.node, Read)}
    used = {value.node.param for value in graph.values if isinstance(value.node, Scalar | Const)}
    gathered = {value.node.param for value in graph.values if isinstance(value.node, Gather)}
    for tensor in op.tensors:
        name = names[tensor.name]
        if tensor.name in read and tensor.name not in gathered:
            lines += _read_lines(tensor, name, space)
    for scalar in (*op.scalars, *op.consts):
        if scalar.name in used:
            name = names[scalar.name]
            widened = "" if scalar.dtype.is_compute else f".to(torch.{scalar.dtype.compute_torch})"
            lines.append(f"{name} = rt.eager.scalar({name}, torch.{scalar.dtype.torch}, device){widened}")
    return lines


def _read_lines(tensor: TensorParam, name: str, space: tuple[Dim, ...]) -> list[str]:
    value = _read_text(tensor, name, space)
    if tensor.default is None:
        return [] if value == name else [f"{name} = {value}"]
    compute = DTYPES[tensor.element.dtype.compute]
    plain = number_text(tensor.default, compute).code
    return [
        f"if {name} is None:",
        f"    {name} = rt.eager.scalar({plain}, torch.{compute.torch}, device)",
        "else:",
        f"    {name} = {value}",
    ]


def _read_text(tensor: TensorParam, name: str, space: tuple[Dim, ...]) -> str:
    """A tensor in its compute type, over the space."""
    dtype = tensor.element.dtype
    text = name
    if dtype.is_packed:
        text = f"rt.eager.unpack({text}, signed={dtype.lowest < 0})"
    elif not is_loaded_as_computed(tensor.element):
        text = f"{text}.to(torch.{dtype.compute_torch})"
    return (
        text
        if is_aligned(tensor.dims, space)
        else f"rt.eager.align({text}, {texts(tensor.dims)}, {texts(space)})"
    )


def is_aligned(dims: tuple[Dim, ...], space: tuple[Dim, ...]) -> bool:
    """Whether PyTorch's broadcasting from the right already lines the dims up."""
    named = tuple(dim for dim in dims if not dim.is_ellipsis)
    whole = tuple(dim for dim in space if not dim.is_ellipsis)
    if dims != named:
        return named == whole
    return named == whole[len(whole) - len(named) :] and bool(not named or whole)


@dataclass(frozen=True)
class _Leaves:
    """The text of what a body reads, over the space."""

    op: Op
    names: dict[str, str]
    space: tuple[Dim, ...]

    def text(self, printer: Printer, ref: Ref, value: Value) -> Text:
        match value.node:
            case Read(param=name):
                tensor = next(one for one in self.op.tensors if one.name == name)
                if any(
                    isinstance(other.node, Gather) and other.node.param == name
                    for other in printer.graph.values
                ):
                    return Text(_read_text(tensor, self.names[name], self.space))
                return Text(self.names[name])
            case Scalar(param=name) | Const(param=name):
                return Text(self.names[name])
            case Size(dim=dim):
                return Text(f'rt.eager.size(bound, "{dim}")')
            case Index(dim=dim):
                return Text(self._position((dim,)))
            case Random(dims=dims, seed=seed):
                return Text(f"rt.eager.uniform({printer.alone(seed)}, {self._position(dims)})")
            case Gather(param=name, coordinates=coordinates):
                tensor = next(one for one in self.op.tensors if one.name == name)
                table, dtype = self.names[name], tensor.element.dtype
                if dtype.is_packed:
                    table = f"rt.eager.unpack({table}, signed={dtype.lowest < 0})"
                given = ", ".join(f'"{dim}": {printer.alone(at)}' for dim, at in coordinates)
                text = f"rt.eager.gather({table}, {texts(tensor.dims)}, {texts(self.space)}, {{{given}}})"
                exact = dtype.is_packed or is_loaded_as_computed(tensor.element)
                return Text(text if exact else f"{text}.to(torch.{dtype.compute_torch})")
            case _:
                raise AssertionError(f"no leaf: {value.node}")

    def _position(self, dims: tuple[Dim, ...]) -> str:
        return f"rt.eager.position(bound, {texts(dims)}, {texts(self.space)})"


def _finished(op: Op, graph: Graph, target: str, ref: Ref, text: str, space: tuple[Dim, ...]) -> str:
    """The text of what is stored: of its element type, over the target's dims, in its full shape."""
    item = next(one for one in op.arrays if one.name == target)
    element = item.element
    atom = text if text.isidentifier() or (text.startswith("rt.") and text.endswith(")")) else f"({text})"
    if element.dtype.name == "f8e4m3":
        stored = f"rt.eager.cast({text}, torch.float8_e4m3fn)"
    elif is_loaded_as_computed(element) and graph.values[ref].type.dtype == element.dtype:
        stored = text
    else:
        stored = f"{atom}.to({type_name(element.variable) or f'torch.{element.dtype.torch}'})"
    if item.dims == space and _fills(op, graph, ref, space) and not _is_plain(graph, ref):
        return stored
    return f"rt.eager.finish({stored}, {texts(space)}, {texts(item.dims)}, bound)"


def _is_plain(graph: Graph, ref: Ref) -> bool:
    """Whether a value may be a parameter's own memory."""
    node = graph.values[ref].node
    if isinstance(node, Convert | Cast):
        return _is_plain(graph, node.arg)
    return isinstance(node, Read | Literal | Scalar | Const)


def _fills(op: Op, graph: Graph, ref: Ref, space: tuple[Dim, ...]) -> bool:
    """Whether a value surely has the full shape of the space: every tensor that shapes it is read for it."""
    reads: set[str] = set()
    seen: set[Ref] = set()
    pending = [ref]
    while pending:
        at = pending.pop()
        if at in seen:
            continue
        seen.add(at)
        node = graph.values[at].node
        if isinstance(node, Read):
            reads.add(node.param)
        pending.extend(operands(graph.values[at].node))
    tensors = [tensor for tensor in op.tensors if tensor.dims]
    carried = {
        dim for tensor in tensors if tensor.name in reads and not tensor.optional for dim in tensor.dims
    }
    leading = all(tensor.name in reads for tensor in tensors if tensor.dims[0].is_ellipsis)
    return set(space) <= carried and leading


def is_variant(op: Op, variant: Variant, names: dict[str, str]) -> str:
    """A condition that tells a variant by the types of its tensors, whose names in the code are `names`."""
    choices = variant.choices
    owners = []
    for variable in op.variables:
        owner = next(one for one in op.tensors if one.element.variable == variable.name and not one.optional)
        owners.append(f"{names[owner.name]}.dtype")
    if len(owners) == 1:
        types = ", ".join(f"torch.{choice[0].torch}" for choice in choices)
        return f"{owners[0]} in ({types},)"
    types = ", ".join("(" + ", ".join(f"torch.{dtype.torch}" for dtype in choice) + ")" for choice in choices)
    return f"({', '.join(owners)}) in ({types},)"
