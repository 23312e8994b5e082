"""The names of one kernel: its parameters, what it addresses, and what its formula takes."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, field

from opgen.emit.names import KERNEL_NAMES, RESERVED, Names, type_name
from opgen.emit.variants import is_generic
from opgen.ir.nodes import Cast, Const, Dim, Gather, Op, Read, Scalar, ScalarParam, Store, TensorParam, Value
from opgen.ir.passes.parts import Part
from opgen.plan.model import Access, KernelPlan

STRIDES = 7
_ENDINGS = ("_at", "_layout", *(f"_s{place}" for place in range(STRIDES)))


@dataclass(frozen=True)
class LaunchNames:
    """The launcher's own parameters, and its names for what the op declares and for the temporaries of its kernels."""

    via: str
    figures: str
    sizes: str
    of: dict[str, str]
    old: dict[str, str]  # the old values of tensors updated in place, where they are read across elements
    parameters: tuple[str, ...]  # all of these, in the order in which a launch passes them


@dataclass
class Kernel:
    """The names of one kernel, and the words collected for it so far."""

    op: Op
    plan: KernelPlan
    part: Part
    names: Names
    pointers: dict[str, str] = field(default_factory=dict)
    old_pointers: dict[str, str] = field(
        default_factory=dict
    )  # to read from, where a copy has the old values
    values: dict[str, str] = field(default_factory=dict)
    lows: dict[str, tuple[str]] = field(default_factory=dict)  # the lower halves of 64-bit scalars
    stems: dict[Access, str] = field(default_factory=dict)  # begins the names of an access's strides
    offsets: dict[Access, str] = field(default_factory=dict)
    integers: dict[str, str] = field(default_factory=dict)  # kernel name -> the launcher's expression
    units: dict[str, str] = field(default_factory=dict)  # the same, for compile-time numbers
    formula: dict[str, str] = field(default_factory=dict)  # formula parameter -> argument

    @property
    def tensors(self) -> dict[str, TensorParam]:
        return {tensor.name: tensor for tensor in self.op.tensors}

    @property
    def scalars(self) -> dict[str, ScalarParam]:
        return {scalar.name: scalar for scalar in (*self.op.scalars, *self.op.consts)}


@dataclass(frozen=True)
class Used:
    """What a part uses of the op's declarations, each in declared order."""

    tensors: list[str]
    scalars: list[str]
    consts: list[str]


def find_used(
    kernel: Kernel, values: tuple[Value, ...], stores: tuple[Store, ...], old: Collection[str]
) -> Used:
    """Finds what a part uses, and names its pointers, scalars, accesses and positions."""
    names = {store.target for store in stores}
    for value in values:
        if isinstance(value.node, Read | Gather | Scalar | Const):
            names.add(value.node.param)
    tensors = [item.name for item in kernel.op.arrays if item.name in names]
    for name in tensors:
        kernel.pointers[name] = kernel.names.fresh(f"{name}_ptr")
        if name in old:
            kernel.old_pointers[name] = kernel.names.fresh(f"{name}_old_ptr")
    for scalar in (*kernel.op.scalars, *kernel.op.consts):
        if scalar.name in names:
            kernel.values[scalar.name] = kernel.names.fresh(scalar.name)
            if scalar.dtype.bits == 64 and not scalar.const:
                kernel.lows[scalar.name] = (kernel.names.fresh(f"{scalar.name}_low"),)
    for tensor in kernel.op.tensors:
        if any(isinstance(value.node, Read) and value.node.param == tensor.name for value in values):
            kernel.values[tensor.name] = kernel.names.fresh(tensor.name)
            kernel.formula[kernel.values[tensor.name]] = kernel.values[tensor.name]
    for access in kernel.plan.accesses:
        name_access(kernel, access, _ENDINGS)
    for variable in types_cast_to(values):
        parameter = f"{type_name(variable)}: tl.constexpr"
        kernel.formula[parameter] = f"{pointer_of_type(kernel, variable)}.dtype.element_ty"
    return Used(
        tensors,
        [scalar.name for scalar in kernel.op.scalars if scalar.name in names],
        [scalar.name for scalar in kernel.op.consts if scalar.name in names],
    )


def name_access(kernel: Kernel, access: Access, endings: tuple[str, ...]) -> None:
    """Names the strides, with these endings, and the offsets of an access; a position is its own offset."""
    if access.tensor is None:
        stem = "index_" + "_".join(dim_words(dim) for dim in access.dims)
        kernel.stems[access] = kernel.offsets[access] = kernel.names.stem(stem, ("", *endings))
        return
    stem = f"{access.tensor}_base" if access.gathered else access.tensor
    kernel.stems[access] = kernel.names.stem(stem, endings)
    kernel.offsets[access] = f"{kernel.stems[access]}_at"


def pointer_of_type(kernel: Kernel, variable: str) -> str:
    """The pointer of a tensor whose element type is a type variable."""
    items = kernel.op.arrays
    names = [
        item.name for item in items if item.element.variable == variable and item.name in kernel.pointers
    ]
    required = [name for name in names if name not in kernel.tensors or not kernel.tensors[name].optional]
    return kernel.pointers[(required or names)[0]]


def dim_words(dim: Dim) -> str:
    return "all" if dim.is_ellipsis else re.sub(r"\W+", "_", str(dim))


def types_cast_to(values: tuple[Value, ...]) -> list[str]:
    """The type variables to which a body casts and whose types share it, sorted."""
    elements = [value.type.element for value in values if isinstance(value.node, Cast)]
    return sorted({element.variable for element in elements if element.variable and is_generic(element)})


def scalar_text(kernel: Kernel, name: str) -> str:
    """A scalar, rounded to its declared type, in its compute type: where the formula is called."""
    dtype = kernel.scalars[name].dtype
    local = kernel.values[name]
    if name in kernel.lows:
        return f"scalar64({local}, {kernel.lows[name][0]}, tl.{dtype.triton})"
    if dtype.is_compute:
        return f"scalar({local}, tl.{dtype.triton})"
    if dtype.is_float:
        return f"round_to(scalar({local}, tl.float32), tl.{dtype.triton})"
    return f"scalar({local}, tl.{dtype.triton}).to(tl.{dtype.compute_triton})"


def result_names(kernel: Kernel, stores: tuple[Store, ...], taken: Collection[str] = ()) -> list[str]:
    """What the kernel calls the formula's results; a tensor that is read as well has its name already."""
    own = [*kernel.values.values(), *kernel.pointers.values(), *kernel.offsets.values(), *kernel.integers]
    names = Names({*RESERVED, *KERNEL_NAMES, *taken, *own})
    return [names.fresh(f"new_{one.target}" if one.target in kernel.values else one.target) for one in stores]


def layout_names(kernel: Kernel) -> tuple[list[list[str]], list[str]]:
    """The stride parameters of each access, and the layout classes."""
    strides, layouts = [], []
    for stem in kernel.stems.values():
        strides.append([f"{stem}_s{place}" for place in range(STRIDES)])
        layouts.append(f"{stem}_layout: tl.constexpr")
    return strides, layouts
