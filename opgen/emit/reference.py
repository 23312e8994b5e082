"""The eager reference of an op: the formula in PyTorch, with values that meet by dim name."""

from __future__ import annotations

from opgen.dtypes import DTYPES
from opgen.emit.dialects import TORCH, number_text
from opgen.emit.exprs import Printer, Text
from opgen.emit.layouts import Layout, is_aligned, is_structural, layouts, moved_when_read
from opgen.emit.names import REFERENCE_NAMES, RESERVED, Names, type_name
from opgen.emit.nonempty import needed_reductions
from opgen.emit.reference_heavy import contract_text, reduce_text
from opgen.emit.tables import dims_text
from opgen.emit.variants import is_loaded_as_computed, specialised
from opgen.ir.nodes import (
    ELLIPSIS,
    Cast,
    Const,
    Contract,
    Convert,
    Dim,
    Gather,
    Graph,
    Index,
    Literal,
    Op,
    Random,
    Read,
    Reduce,
    Ref,
    Scalar,
    Size,
    TensorParam,
    Value,
    Variant,
)
from opgen.ir.operands import operands
from opgen.ir.passes.partition import heavy_results


def reference_lines(op: Op, variant: int, names: dict[str, str], operator: str) -> tuple[str, ...]:
    """The body of the reference for one variant; `names` are its parameters, `operator` the declaration's name."""
    op = specialised(op, variant)
    return _Body(op, op.variants[variant].graph, names, operator).lines()


class _Body:
    """The body for one graph."""

    def __init__(self, op: Op, graph: Graph, names: dict[str, str], operator: str) -> None:
        self.op = op
        self.graph = graph
        self.names = names
        self.operator = operator
        self.tensors = {tensor.name: tensor for tensor in op.tensors}
        self.gathered = {value.node.param for value in graph.values if isinstance(value.node, Gather)}
        moved = moved_when_read(graph, layouts(graph))
        self.moved = {name: onto for name, onto in moved.items() if name not in self.gathered}
        self.layouts = layouts(graph, self.moved)

    def lines(self) -> tuple[str, ...]:
        op, names = self.op, self.names
        types = {type_name(variable.name) for variable in op.variables}
        local = Names(RESERVED | REFERENCE_NAMES | set(names.values()) | types)
        printer = Printer(self.graph, TORCH, local, self._leaf, self._moved)
        stored = {
            store.target: self._finished(store.target, store.value, text)
            for store, text in zip(self.graph.stores, printer.body(), strict=True)
        }
        tail = f"return {', '.join(stored[item.name] for item in op.written)}"
        body = [*self._prologue(), *printer.lines, tail]
        return (*self._bindings(body), *body)

    # --- before the formula ---------------------------------------------------------------------

    def _bindings(self, body: list[str]) -> list[str]:
        """The check of the arguments, the device and the types that the body mentions."""
        op, names = self.op, self.names
        code = "\n".join(body)
        result = []
        checked = f"rt.bind({self.operator}, ({''.join(f'{names[one.name]}, ' for one in op.tensors)}), "
        checked += "{" + ", ".join(f'"{const.name}": {names[const.name]}' for const in op.consts) + "})"
        if "bound" in code:
            result.append(f"bound = {checked}")
        elif needed_reductions(op):
            result.append(checked)
        required = [tensor for tensor in op.tensors if not tensor.optional]
        if "device" in code.replace("bound.device", ""):
            result.append(f"device = {names[required[0].name]}.device")
        for variable in op.variables:
            owner = next((one for one in required if one.element.variable == variable.name), None)
            if owner is not None and _mentions(code, type_name(variable.name)):
                result.append(f"{type_name(variable.name)} = {names[owner.name]}.dtype")
        return result

    def _prologue(self) -> list[str]:
        """The lines that bring parameters to their compute types."""
        lines: list[str] = []
        nodes = [value.node for value in self.graph.values]
        read = {node.param for node in nodes if isinstance(node, Read)}
        used = {node.param for node in nodes if isinstance(node, Scalar | Const)}
        for tensor in self.op.tensors:
            if tensor.name in read and tensor.name not in self.gathered:
                lines += self._read_lines(tensor)
        for scalar in (*self.op.scalars, *self.op.consts):
            if scalar.name in used:
                name = self.names[scalar.name]
                widened = "" if scalar.dtype.is_compute else f".to(torch.{scalar.dtype.compute_torch})"
                text = f"rt.eager.scalar({name}, torch.{scalar.dtype.torch}, device){widened}"
                lines.append(f"{name} = {text}")
        return lines

    def _read_lines(self, tensor: TensorParam) -> list[str]:
        name, value = self.names[tensor.name], self._read_text(tensor)
        if tensor.name in self.moved:
            value = f"rt.eager.align({value}, {dims_text(tensor.dims)}, {dims_text(self.moved[tensor.name])})"
        if tensor.default is None:
            return [] if value == name else [f"{name} = {value}"]
        compute = DTYPES[tensor.element.dtype.compute]
        number = number_text(tensor.default, compute).code
        own = tuple(dim for dim in tensor.dims if not dim.is_ellipsis)
        if own and is_structural(self.op):  # it may be summed: its elements count
            default = f"rt.eager.full({number}, torch.{compute.torch}, {dims_text(own)}, bound)"
            if tensor.name in self.moved:
                default = f"rt.eager.align({default}, {dims_text(own)}, {dims_text(self.moved[tensor.name])})"
        else:
            default = f"rt.eager.scalar({number}, torch.{compute.torch}, device)"
        if value == name:
            return [f"if {name} is None:", f"    {name} = {default}"]
        return [f"if {name} is None:", f"    {name} = {default}", "else:", f"    {name} = {value}"]

    def _read_text(self, tensor: TensorParam) -> str:
        """A tensor in its compute type."""
        name, dtype = self.names[tensor.name], tensor.element.dtype
        if dtype.is_packed:
            return f"rt.eager.unpack({name}, signed={dtype.lowest < 0})"
        return name if is_loaded_as_computed(tensor.element) else f"{name}.to(torch.{dtype.compute_torch})"

    # --- inside the formula ---------------------------------------------------------------------

    def _moved(self, text: Text, user: Ref, ref: Ref) -> Text:
        """An operand as it meets the others of its user."""
        return self._over(text, ref, self.layouts[user])

    def _over(self, text: Text, ref: Ref, onto: Layout) -> Text:
        """A value as one that broadcasts with values of a layout."""
        own = self.layouts[ref]
        if is_aligned(own, onto):
            return text
        return Text(f"rt.eager.align({text.code}, {dims_text(own)}, {dims_text(onto)})")

    def _exactly(self, printer: Printer, ref: Ref, dims: tuple[Dim, ...]) -> Text:
        """An operand of a contraction, whose dims are these and no others."""
        text = printer.text(ref)
        if isinstance(self.graph.values[ref].node, Cast):
            dtype = self.graph.values[ref].type.dtype
            text = TORCH.convert(text, dtype, DTYPES[dtype.compute])
        own = self.layouts[ref]
        return (
            text if own == dims else Text(f"rt.eager.align({text.code}, {dims_text(own)}, {dims_text(dims)})")
        )

    def _leaf(self, printer: Printer, ref: Ref, value: Value) -> Text:
        match value.node:
            case Read(param=name):
                return Text(
                    self._read_text(self.tensors[name]) if name in self.gathered else self.names[name]
                )
            case Scalar(param=name) | Const(param=name):
                return Text(self.names[name])
            case Size(dim=dim):
                return Text(f'rt.eager.size(bound, "{dim}")')
            case Index(dim=dim):
                return Text(f"rt.eager.position(bound, {dims_text((dim,))})")
            case Random(dims=dims, seed=seed):
                position = f"rt.eager.position(bound, {dims_text(dims)})"
                return Text(f"rt.eager.uniform({printer.alone(seed)}, {position})")
            case Gather(param=name, coordinates=coordinates):
                return self._gather(printer, self.tensors[name], coordinates, value.type.dims)
            case Reduce():
                return reduce_text(value.node, printer.text(value.node.arg), self.layouts[value.node.arg])
            case Contract(left=left, right=right):
                own = (self.graph.values[left].type.dims, self.graph.values[right].type.dims)
                texts = (self._exactly(printer, left, own[0]), self._exactly(printer, right, own[1]))
                return contract_text(value.node, texts, own, value.type.dims)
            case _:
                raise AssertionError(f"no leaf: {value.node}")

    def _gather(
        self,
        printer: Printer,
        tensor: TensorParam,
        coordinates: tuple[tuple[Dim, Ref], ...],
        space: tuple[Dim, ...],
    ) -> Text:
        table, dtype = self.names[tensor.name], tensor.element.dtype
        if dtype.is_packed:
            table = f"rt.eager.unpack({table}, signed={dtype.lowest < 0})"
        places = {dim: self._over(Text(printer.alone(at)), at, space).code for dim, at in coordinates}
        given = ", ".join(f'"{dim}": {place}' for dim, place in places.items())
        text = f"rt.eager.gather({table}, {dims_text(tensor.dims)}, {dims_text(space)}, {{{given}}})"
        exact = dtype.is_packed or is_loaded_as_computed(tensor.element)
        return Text(text if exact else f"{text}.to(torch.{dtype.compute_torch})")

    # --- after the formula ----------------------------------------------------------------------

    def _finished(self, target: str, ref: Ref, text: str) -> str:
        """The text of what is stored: of its element type, over the target's dims, in its full shape."""
        item = next(one for one in self.op.arrays if one.name == target)
        element = item.element
        is_atom = text.isidentifier() or (text.startswith("rt.") and text.endswith(")"))
        if element.dtype.name == "f8e4m3":
            stored = f"rt.eager.cast({text}, torch.float8_e4m3fn)"
        elif is_loaded_as_computed(element) and self.graph.values[ref].type.dtype == element.dtype:
            stored = text
        else:
            atom = text if is_atom else f"({text})"
            stored = f"{atom}.to({type_name(element.variable) or f'torch.{element.dtype.torch}'})"
        heavy = target in heavy_results(self.op)
        own = self.layouts[ref]
        if own == item.dims and self._fills(ref, item.dims) and not self._is_plain(ref):
            return (
                stored
                if not heavy
                else f"{stored if stored != text or is_atom else f'({text})'}.contiguous()"
            )
        return (
            f"rt.eager.finish({stored}, {dims_text(own)}, {dims_text(item.dims)}, bound, contiguous={heavy})"
        )

    def _is_plain(self, ref: Ref) -> bool:
        """Whether a value may be a parameter's own memory."""
        node = self.graph.values[ref].node
        if isinstance(node, Convert | Cast):
            return self._is_plain(node.arg)
        return isinstance(node, Read | Literal | Scalar | Const)

    def _fills(self, ref: Ref, dims: tuple[Dim, ...]) -> bool:
        """Whether a value surely has the full shape of the dims: every tensor that shapes it is read for it."""
        reads: set[str] = set()
        seen: set[Ref] = set()
        pending = [ref]
        while pending:
            at = pending.pop()
            node = self.graph.values[at].node
            if at in seen or (isinstance(node, Reduce) and ELLIPSIS in node.dims):
                continue
            seen.add(at)
            if isinstance(node, Read):
                reads.add(node.param)
            pending.extend(operands(node))
        tensors = [tensor for tensor in self.op.tensors if tensor.dims]
        carried = {
            dim for tensor in tensors if tensor.name in reads and not tensor.optional for dim in tensor.dims
        }
        leading = all(tensor.name in reads for tensor in tensors if tensor.dims[0].is_ellipsis)
        if is_structural(self.op):  # its values have the sizes of all dims that they carry
            return leading or ELLIPSIS not in dims
        return set(dims) <= carried and leading


def _mentions(code: str, name: str) -> bool:
    words = "".join(
        character if character.isidentifier() or character.isdigit() else " " for character in code
    )
    return name in words.split()


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
