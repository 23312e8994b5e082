"""The lines of a kernel that address, load and store elements."""

from __future__ import annotations

from collections.abc import Iterable

from opgen.dtypes import DTYPES, DType
from opgen.emit.dialects import TRITON
from opgen.emit.kernel_names import STRIDES, Kernel
from opgen.emit.variants import is_f8, is_loaded_as_computed
from opgen.ir.nodes import Element, Store, TensorParam
from opgen.plan.model import Access


def offset_lines(kernel: Kernel) -> list[str]:
    lines = []
    for access, stem in kernel.stems.items():
        offsets = kernel.offsets[access]
        strides = ", ".join(f"{stem}_s{place}" for place in range(STRIDES))
        lines.append(f"{offsets} = offsets(at, ({strides}), {stem}_layout, RANK, UNIT)")
    return lines


def dense_positions(kernel: Kernel) -> list[str]:
    """Positions, and the places that gathers start from, are the place in memory where one layout serves all."""
    return [
        f"{offsets} = at"
        for access, offsets in kernel.offsets.items()
        if access.tensor is None or access.gathered
    ]


def load_lines(kernel: Kernel, *, dense: bool) -> list[str]:
    """The lines that load what the formula reads."""
    lines: list[str] = []
    for tensor in kernel.op.tensors:
        if tensor.name not in kernel.values:
            continue
        local = kernel.values[tensor.name]
        pointer = kernel.old_pointers.get(tensor.name, kernel.pointers[tensor.name])
        load = _load(kernel, tensor, pointer, dense)
        lines += loaded_or_default(tensor, local, pointer, load)
    return lines


def loaded_or_default(tensor: TensorParam, local: str, pointer: str, load: str) -> tuple[str, ...]:
    """The lines that give a tensor's element its name; a tensor that is left out has its default."""
    if tensor.default is None:
        return (f"{local} = {load}",)
    default = TRITON.literal(tensor.default, DTYPES[tensor.element.dtype.compute], False)
    return (f"if {pointer} is None:", f"    {local} = {default.code}", "else:", f"    {local} = {load}")


def plain_access(accesses: Iterable[Access], tensor: str) -> Access | None:
    """How a tensor is addressed by its own dims; None for one without dims."""
    return next((one for one in accesses if one.tensor == tensor and not one.gathered), None)


def _load(kernel: Kernel, tensor: TensorParam, pointer: str, dense: bool) -> str:
    if not tensor.dims:
        return widened(f"tl.load({pointer})", tensor.element)
    own = plain_access(kernel.plan.accesses, tensor.name)
    assert own is not None
    place = "at" if dense else kernel.offsets[own]
    mask = "mask" if dense else f"mask_of(row_mask, col_mask, {kernel.stems[own]}_layout)"
    return element_of(kernel, tensor, f"tl.load({pointer} + {place}, mask={mask})")


def element_of(kernel: Kernel, tensor: TensorParam, load: str) -> str:
    """What was loaded of a tensor in its compute type: of a packed one, the half of the byte that is meant."""
    if not tensor.element.dtype.is_packed:
        return widened(load, tensor.element)
    return nibble(tensor, load, kernel.offsets[Access(None, (tensor.dims[-1],))])


def nibble(tensor: TensorParam, load: str, position: str) -> str:
    """The integer of four bits at a position, out of its byte."""
    return f"nibble({load}, {position}, {tensor.element.dtype.lowest < 0})"


def widened(load: str, element: Element) -> str:
    """A loaded value in its compute type."""
    dtype = element.dtype
    if is_f8(dtype):
        return f"decode_{dtype.name}({load})"
    return load if is_loaded_as_computed(element) else f"{load}.to(tl.{dtype.compute_triton})"


def zero_of(element: Element) -> str:
    """The zero that stands for an element outside of a tensor; f8 has no conversion from integers."""
    return "0.0" if is_f8(element.dtype) else "0"


def store_lines(kernel: Kernel, stores: tuple[Store, ...], results: list[str], *, dense: bool) -> list[str]:
    elements = {item.name: item.element for item in kernel.op.arrays}
    lines = []
    for store, name in zip(stores, results, strict=True):
        pointer = kernel.pointers[store.target]
        own = plain_access(kernel.plan.accesses, store.target)
        assert own is not None  # a result's dims are addressed even where it has none
        place = "at" if dense else kernel.offsets[own]
        computed = kernel.part.graph.values[store.value].type.dtype
        value = narrowed(name, pointer, computed, elements[store.target])
        lines.append(f"tl.store({pointer} + {place}, {value}, mask=mask)")
    return lines


def narrowed(name: str, pointer: str, computed: DType, element: Element) -> str:
    """A value as it is stored. From f64 a half is reached in one rounding, which the compiler's own cast is not."""
    target = f"{pointer}.dtype.element_ty"
    if is_f8(element.dtype):
        native = f", {target}" if element.dtype.name == "f8e4m3" else ""
        return f"encode_{element.dtype.name}({name}{native})"
    if is_loaded_as_computed(element):
        return name
    if computed.name == "f64" and element.dtype.is_float:
        return f"round_to({name}, {target}).to({target})"
    return f"{name}.to({target})"
