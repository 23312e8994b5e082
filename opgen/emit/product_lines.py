"""The lines of a product's functions: offsets, loads, operands as they are multiplied, and stores."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from opgen.emit.kernel_memory import element_of, loaded_or_default, narrowed, plain_access, zero_of
from opgen.emit.kernel_names import Kernel, pointer_of_type
from opgen.emit.product_names import GROUPS, Piece, groups_of, stride_names
from opgen.emit.variants import is_generic
from opgen.ir.nodes import Element, Read, TensorParam
from opgen.plan.model import Access, Operand, ProductSides

#: The coordinates of each group as a left operand, a right one and a formula have them, and which are inside.
_COORDINATES = {
    "kernel": {"batch": "batch", "m": "m", "n": "n"},
    "left": {"batch": "batch", "m": "m", "n": "n", "k": "k_left"},
    "right": {"batch": "batch", "m": "m", "n": "n", "k": "k_right"},
    "formula": {"batch": "batch", "m": "m", "n": "n"},
}
_INSIDE = {
    "kernel": {"m": "m_ok", "n": "n_ok"},
    "left": {"m": "m_ok", "n": "n_ok", "k": "k_left_ok"},
    "right": {"m": "m_ok", "n": "n_ok", "k": "k_right_ok"},
    "formula": {"m": "m_ok", "n": "n_ok"},
}


@dataclass(frozen=True)
class Addressing:
    """How one function addresses: `side` is "left" or "right" for an operand, "kernel" for what is loaded beside the
    products, or "formula", which takes the strides of a group as one tuple."""

    kernel: Kernel
    sides: ProductSides
    side: str

    def offset(self, access: Access) -> str:
        """The offsets of an access."""
        return " + ".join(self._along(access, group) for group in groups_of(self.sides, access))

    def steps(self, access: Access) -> bool:
        """Whether the offsets change from step to step."""
        return "k" in groups_of(self.sides, access)

    def _along(self, access: Access, group: str) -> str:
        stem = self.kernel.stems[access]
        names = ", ".join(stride_names(stem, group))
        strides = f"{stem}_{GROUPS[group]}" if self.side == "formula" else f"({names})"
        at = _COORDINATES[self.side][group]
        return f"along_{group}({at}, {strides}, {stem}_layout, {group.upper()}_RANK)"


def early_tensors(one: Piece, sides: ProductSides) -> frozenset[str]:
    """The tensors of a formula that are rows or columns, so small that they are loaded before the sums are there."""
    packed = {tensor.name for tensor in one.kernel.op.tensors if tensor.element.dtype.is_packed}
    found = set()
    for name in _read_tensors(one) - packed:
        access = plain_access(one.accesses, name)
        if access is None or not {"m", "n"} <= set(groups_of(sides, access)):
            found.add(name)
    return frozenset(found)


def _read_tensors(one: Piece) -> set[str]:
    known = {tensor.name for tensor in one.kernel.op.tensors}
    return known & {value.node.param for value in one.graph.values if isinstance(value.node, Read)}


def offset_lines(one: Piece, at: Addressing, *, steps: bool | None) -> Iterator[str]:
    """The lines that give positions and the places that gathers start from: those that change with each step, those
    that do not, or (None) all."""
    for access in one.accesses:
        is_place = access.tensor is None or access.gathered
        if is_place and (steps is None or at.steps(access) == steps):
            yield f"{one.kernel.offsets[access]} = {at.offset(access) or '0'}"


def load_lines(
    one: Piece, at: Addressing, *, steps: bool | None, names: frozenset[str] | None = None
) -> Iterator[str]:
    """The lines that load tensors, those named if `names` are given: what changes with each step, what does not, or
    (None) both."""
    kernel = one.kernel
    read = _read_tensors(one)
    for tensor in kernel.op.tensors:
        if tensor.name not in read or (names is not None and tensor.name not in names):
            continue
        own = plain_access(one.accesses, tensor.name)
        if steps is not None and (own is not None and at.steps(own)) != steps:
            continue
        load = _load(one, at, tensor, own)
        local = kernel.values[tensor.name]
        pointer = kernel.pointers[tensor.name]
        yield from loaded_or_default(tensor, local, pointer, load)


def _load(one: Piece, at: Addressing, tensor: TensorParam, access: Access | None) -> str:
    return element_of(one.kernel, tensor, raw_load(one.kernel, at, tensor.name, access))


def raw_load(
    kernel: Kernel, at: Addressing, tensor: str, access: Access | None, over: tuple[str, ...] = ()
) -> str:
    """The load of a tensor's elements as they are stored, spread over the groups `over` that it lacks."""
    pointer = kernel.old_pointers.get(tensor, kernel.pointers[tensor])
    own = groups_of(at.sides, access) if access is not None else ()
    spread = [f"{group}[0] * 0" for group in over if group not in own]
    places = [*([at.offset(access)] if access is not None and own else []), *spread]
    if not places:
        return f"tl.load({pointer})"
    known = _INSIDE[at.side]
    inside = " & ".join(known[group] for group in known if group in (*own, *over))
    element = next(item.element for item in kernel.op.arrays if item.name == tensor)
    masked = f", mask={inside}, other={zero_of(element)}" if inside else ""
    place = " + ".join(places)
    return f"tl.load({pointer} + {f'({place})' if len(places) > 1 or len(own) > 1 else place}{masked})"


def operand_text(kernel: Kernel, loaded: str, element: Element, wanted: Element) -> str:
    """A stored element in the type that it is multiplied in."""
    dtype = element.dtype
    if dtype.name.startswith("f8"):
        decoded = f"operand_{dtype.name}({loaded})"
        if wanted == element or (
            wanted.dtype.name == "f16" and not is_generic(wanted) and dtype.name == "f8e5m2"
        ):
            return decoded
        return to_type(kernel, f"{decoded}.to(tl.float16)", wanted)
    if element == wanted or (dtype is wanted.dtype and not is_generic(wanted)):
        return loaded
    if dtype.is_integer and wanted.dtype.is_float:  # by way of f32, as the interpreter has no way to bf16
        return to_type(kernel, f"{loaded}.to(tl.float32)", wanted)
    return to_type(kernel, loaded, wanted)


def to_type(kernel: Kernel, code: str, element: Element) -> str:
    """A value in an element type, which holds it exactly."""
    if is_generic(element):
        assert element.variable is not None
        return f"{code}.to({pointer_of_type(kernel, element.variable)}.dtype.element_ty)"
    return f"{code}.to(tl.{element.dtype.triton})"


def store_lines(one: Piece, at: Addressing, results: list[str]) -> Iterator[str]:
    """The lines that store a tile of each result."""
    kernel = one.kernel
    elements = {item.name: item.element for item in kernel.op.arrays}
    for store, name in zip(kernel.part.graph.stores, results, strict=True):
        pointer = kernel.pointers[store.target]
        access = plain_access(one.accesses, store.target)
        assert access is not None  # a result's dims are addressed even where it has none
        computed = kernel.part.graph.values[store.value].type.dtype
        value = narrowed(name, pointer, computed, elements[store.target])
        own = groups_of(at.sides, access)
        absent = [
            f"{group}[0] * 0" for group in ("m", "n") if group not in own
        ]  # a tile has both all the same
        place = " + ".join([*filter(None, [at.offset(access)]), *absent])
        yield f"tl.store({pointer} + ({place}), {value}, mask=m_ok & n_ok)"


def is_plain(kernel: Kernel, operand: Operand) -> bool:
    """Whether an operand is multiplied just as it is stored."""
    tensors = {tensor.name: tensor for tensor in kernel.op.tensors}
    return operand.tensor is not None and tensors[operand.tensor].element == operand.element
