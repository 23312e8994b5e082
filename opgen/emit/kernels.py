"""An elementwise kernel plan as words: the formula, a dense and a strided kernel, and their launcher."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, field

from opgen.dtypes import DTYPES, DType
from opgen.emit.contexts import KernelContext
from opgen.emit.dialects import TRITON, number_text
from opgen.emit.exprs import Printer, Text
from opgen.emit.names import RESERVED, Names
from opgen.emit.variants import is_f8, is_generic, is_loaded_as_computed, specialised
from opgen.ir.nodes import (
    Cast,
    Const,
    Dim,
    Element,
    Gather,
    Index,
    Op,
    Random,
    Read,
    Ref,
    Scalar,
    ScalarParam,
    Size,
    Store,
    TensorParam,
    Value,
)
from opgen.ir.passes.partition import Part
from opgen.plan.model import Access, ElementwisePlan, addressed

_SPACE = ("n_rows", "n_cols", "n1", "n2", "n3", "n4", "n5")
_STRIDES = 7
_LINE = 90
_KERNEL_NAMES = frozenset(
    {*_SPACE, "numel", "program", "at", "mask", "rows", "cols", "inside", "row_mask", "col_mask"}
    | {"WIDE", "BLOCK", "RANK", "UNIT", "ROWS", "COLUMNS"}
)


@dataclass(frozen=True)
class LaunchNames:
    """The launcher's own parameters, and its names for what the op declares."""

    via: str
    figures: str
    sizes: str
    of: dict[str, str]
    old: dict[str, str]  # the old values of tensors updated in place, where they are read across elements


@dataclass
class _Kernel:
    """The names of one kernel, and the words collected for it so far."""

    op: Op
    plan: ElementwisePlan
    part: Part
    names: Names
    pointers: dict[str, str] = field(default_factory=dict)
    old_pointers: dict[str, str] = field(default_factory=dict)  # to read from, where a copy has the old values
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


def kernel_context(
    op: Op, plan: ElementwisePlan, variant: int, stem: str, module_names: Names, launch: LaunchNames
) -> KernelContext:
    """The words of one kernel of one variant; `stem` begins the names of its functions."""
    part = plan.parts[variant]
    op = specialised(op, variant)
    kernel = _Kernel(op, plan, part, Names(RESERVED | _KERNEL_NAMES))
    used = _used(kernel, part.graph.values, part.graph.stores, launch.old)
    printer = Printer(part.graph, TRITON, kernel.names, _Leaves(kernel, launch).text)
    stored = printer.body()
    formula = module_names.fresh(f"{stem}_formula")
    results = _result_names(kernel, part.graph.stores)
    call = f"{', '.join(results)} = {formula}({', '.join(kernel.formula.values())})"
    scalars = [
        parameter for name in used.scalars for parameter in (kernel.values[name], *kernel.lows.get(name, ()))
    ]
    pointers = [*(kernel.pointers[name] for name in used.tensors), *kernel.old_pointers.values()]
    integers = list(kernel.integers)
    consts = [
        f"{name}: tl.constexpr" for name in (*(kernel.values[one] for one in used.consts), *kernel.units)
    ]
    given_consts = (*(launch.of[name] for name in used.consts), *kernel.units.values())
    strides, layouts = _layout_names(kernel)
    dense = module_names.fresh(f"{stem}_dense")
    strided = module_names.fresh(f"{stem}_strided")
    unspecialised = len(scalars) + len(integers)
    given = [_given(op, name, launch.of[name]) for name in used.tensors]
    given += [_given(op, name, launch.old[name]) for name in kernel.old_pointers]
    given += [
        f"*rt.halves({launch.of[one]})" if one in kernel.lows else launch.of[one] for one in used.scalars
    ]
    return KernelContext(
        formula=formula,
        formula_doc=_formula_doc(op, part.graph.stores),
        formula_parameters=tuple(kernel.formula),
        formula_lines=tuple(printer.lines),
        returned=", ".join(stored),
        has_dense=not _is_never_dense(op, plan),
        dense=dense,
        dense_decorator=_decorator(len(pointers), unspecialised),
        dense_parameters=(*pointers, *scalars, *integers, *consts),
        dense_lines=(
            *_dense_positions(kernel),
            *_loads(kernel, dense=True),
            call,
            *_stores(kernel, part.graph.stores, results, dense=True),
        ),
        strided=strided,
        strided_decorator=_decorator(len(pointers), unspecialised + len(_SPACE) + _STRIDES * len(strides)),
        strided_parameters=_grouped(pointers + scalars, integers, list(_SPACE), *strides, layouts, consts),
        strided_lines=(
            *_offset_lines(kernel),
            *_loads(kernel, dense=False),
            call,
            *_stores(kernel, part.graph.stores, results, dense=False),
        ),
        launch=module_names.fresh(f"_launch{stem}"),
        launch_parameters=(
            launch.via,
            launch.figures,
            launch.sizes,
            *launch.of.values(),
            *launch.old.values(),
        ),
        via=launch.via,
        figures=launch.figures,
        dense_arguments=(*given, *kernel.integers.values(), *given_consts),
        strided_arguments=(
            *given,
            *kernel.integers.values(),
            f"*{launch.figures}.space",
            f"*{launch.figures}.strides",
            f"*{launch.figures}.layouts",
            *given_consts,
        ),
    )


def _given(op: Op, name: str, own: str) -> str:
    """A tensor as the launcher passes it on."""
    item = next(one for one in op.arrays if one.name == name)
    return f"rt.f8({own})" if is_f8(item.element.dtype) else own


@dataclass(frozen=True)
class _Used:
    """What a part uses of the op's declarations, each in declared order."""

    tensors: list[str]
    scalars: list[str]
    consts: list[str]


def _used(
    kernel: _Kernel, values: tuple[Value, ...], stores: tuple[Store, ...], old: Collection[str]
) -> _Used:
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
        _name_access(kernel, access)
    for variable in uses_type(values):
        kernel.formula[f"{variable}: tl.constexpr"] = f"{_pointer_of_type(kernel, variable)}.dtype.element_ty"
    return _Used(
        tensors,
        [scalar.name for scalar in kernel.op.scalars if scalar.name in names],
        [scalar.name for scalar in kernel.op.consts if scalar.name in names],
    )


def _scalar_text(kernel: _Kernel, name: str) -> str:
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


def _name_access(kernel: _Kernel, access: Access) -> None:
    """Names the strides and the offsets of an access; a position is its own offset."""
    if access.tensor is None:
        stem = "index_" + "_".join(_words(dim) for dim in access.dims)
        kernel.stems[access] = kernel.offsets[access] = kernel.names.fresh(stem)
        return
    stem = f"{access.tensor}_base" if access.gathered else access.tensor
    kernel.offsets[access] = kernel.names.fresh(f"{stem}_at")
    kernel.stems[access] = kernel.offsets[access].replace("_at", "")


def _pointer_of_type(kernel: _Kernel, variable: str) -> str:
    """The pointer of a tensor whose element type is a type variable."""
    items = kernel.op.arrays
    names = [
        item.name for item in items if item.element.variable == variable and item.name in kernel.pointers
    ]
    required = [name for name in names if name not in kernel.tensors or not kernel.tensors[name].optional]
    return kernel.pointers[(required or names)[0]]


def _words(dim: Dim) -> str:
    return "all" if dim.is_ellipsis else re.sub(r"\W+", "_", str(dim))


@dataclass(frozen=True)
class _Leaves:
    """The text, inside the formula, of what comes from outside it."""

    kernel: _Kernel
    launch: LaunchNames

    def text(self, printer: Printer, ref: Ref, value: Value) -> Text:
        kernel = self.kernel
        match value.node:
            case Read(param=name):
                return Text(kernel.values[name])
            case Scalar(param=name) | Const(param=name):
                local = kernel.values[name]
                kernel.formula[local] = _scalar_text(kernel, name)
                return Text(local)
            case Size(dim=dim):
                size = size_text(dim, self.launch.sizes)
                name = self._integer(f"size_{_words(dim)}", f"rt.in_units({size})")
                unit = self._unit(f"size_{_words(dim)}_unit", f"rt.unit({size})")
                kernel.formula[name] = f"scalar({name}, tl.int64) * {unit}"
                return Text(name)
            case Index(dim=dim):
                return self._position((dim,))
            case Random(dims=dims, seed=seed):
                return Text(f"uniform({printer.text(seed).code}, {self._position(dims).code})")
            case Gather():
                return self._gather(printer, value, value.node)
            case _:
                raise AssertionError(f"no leaf: {value.node}")

    def _integer(self, wanted: str, expression: str) -> str:
        for name, known in self.kernel.integers.items():
            if known == expression:
                return name
        name = self.kernel.names.fresh(wanted)
        self.kernel.integers[name] = expression
        return name

    def _unit(self, wanted: str, expression: str) -> str:
        """A compile-time number that the launcher derives from a stride."""
        for name, known in self.kernel.units.items():
            if known == expression:
                return name
        name = self.kernel.names.fresh(wanted)
        self.kernel.units[name] = expression
        return name

    def _position(self, dims: tuple[Dim, ...]) -> Text:
        name = self.kernel.offsets[Access(None, dims)]
        self.kernel.formula[name] = f"{name}.to(tl.int64)"
        return Text(name)

    def _gather(self, printer: Printer, value: Value, node: Gather) -> Text:
        kernel = self.kernel
        tensor = kernel.tensors[node.param]
        gathered = tuple(dim for dim, _ in node.coordinates)
        pointer = kernel.old_pointers.get(node.param, kernel.pointers[node.param])
        kernel.formula[pointer] = pointer
        kernel.formula["mask"] = "mask"
        places, conditions = [pointer], ["mask"]
        access, *position_in_byte = addressed(tensor, gathered)
        if access in kernel.offsets:
            kernel.formula[kernel.offsets[access]] = kernel.offsets[access]
            places.append(kernel.offsets[access])
        half = self._position(position_in_byte[0].dims).code if position_in_byte else ""
        for dim, ref in node.coordinates:
            place = tensor.dims.index(dim) - len(tensor.dims)
            packed = tensor.element.dtype.is_packed and place == -1
            own = self.launch.of[node.param]
            stem = f"{node.param}_{_words(dim)}"
            extent = f"{own}.size({place})" + (" * 2" if packed else "")
            stride = self._integer(f"{stem}_stride", f"rt.in_units({own}.stride({place}))")
            size = self._integer(f"{stem}_size", f"rt.in_units({extent})")
            size_unit = self._unit(f"{stem}_size_unit", f"rt.unit({extent})")
            unit = self._unit(f"{stem}_stride_unit", f"rt.stride_unit({own}.stride({place}))")
            kernel.formula |= {stride: stride, f"{unit}: tl.constexpr": unit}
            kernel.formula |= {size: size, f"{size_unit}: tl.constexpr": size_unit}
            position = self._named(printer, ref)
            half = position if packed else half
            places.append(f"step({f'({position} >> 1)' if packed else position}, {stride}, {unit})")
            conditions.append(f"inside({position}, {size}, {size_unit})")
        inside = printer.names.numbered("inside")
        printer.lines.append(f"{inside} = {' & '.join(conditions)}")
        load = f"tl.load({' + '.join(places)}, mask={inside}, other=0)"
        if half:
            load = f"nibble({load}, {half}, {tensor.element.dtype.lowest < 0})"
        loaded = load if half else _widened(load, tensor.element)
        if value.name is not None:
            return Text(loaded)
        name = printer.names.fresh(f"{node.param}_value")
        printer.lines.append(f"{name} = {loaded}")
        return Text(name)

    def _named(self, printer: Printer, ref: Ref) -> str:
        """A value's text, given a name first where it is more than one."""
        code = printer.alone(ref)
        if code.isidentifier():
            return code
        name = printer.names.numbered("position")
        printer.lines.append(f"{name} = {code}")
        return name


def size_text(dim: Dim, sizes: str) -> str:
    """The size of a dim as an expression over the sizes by name."""
    text = f'{sizes}["{dim.name}"]'
    if dim.times != 1:
        return f"{text} * {dim.times}"
    return f"{text} // {dim.over}" if dim.over != 1 else text


def _widened(load: str, element: Element) -> str:
    """A loaded value in its compute type."""
    dtype = element.dtype
    if is_f8(dtype):
        return f"decode_{dtype.name}({load})"
    return load if is_loaded_as_computed(element) else f"{load}.to(tl.{dtype.compute_triton})"


def _loads(kernel: _Kernel, *, dense: bool) -> list[str]:
    """The lines that load what the formula reads."""
    lines: list[str] = []
    for tensor in kernel.op.tensors:
        if tensor.name not in kernel.values:
            continue
        local = kernel.values[tensor.name]
        pointer = kernel.old_pointers.get(tensor.name, kernel.pointers[tensor.name])
        load = _load(kernel, tensor, pointer, dense)
        if tensor.default is None:
            lines.append(f"{local} = {load}")
            continue
        compute = tensor.element.dtype
        plain = number_text(tensor.default, _compute(compute)).code
        lines += [
            f"if {pointer} is None:",
            f"    {local} = tl.full([], {plain}, tl.{compute.compute_triton})",
            "else:",
            f"    {local} = {load}",
        ]
    return lines


def _compute(dtype: DType) -> DType:
    return DTYPES[dtype.compute]


def _load(kernel: _Kernel, tensor: TensorParam, pointer: str, dense: bool) -> str:
    if not tensor.dims:
        return _widened(f"tl.load({pointer})", tensor.element)
    own = [access for access in kernel.plan.accesses if access.tensor == tensor.name and not access.gathered]
    place = "at" if dense else kernel.offsets[own[0]]
    mask = "mask" if dense else f"mask_of(row_mask, col_mask, {kernel.stems[own[0]]}_layout)"
    load = f"tl.load({pointer} + {place}, mask={mask})"
    if not tensor.element.dtype.is_packed:
        return _widened(load, tensor.element)
    position = kernel.offsets[Access(None, (tensor.dims[-1],))]
    return f"nibble({load}, {position}, {tensor.element.dtype.lowest < 0})"


def _stores(kernel: _Kernel, stores: tuple[Store, ...], results: list[str], *, dense: bool) -> list[str]:
    elements = {item.name: item.element for item in kernel.op.arrays}
    lines = []
    for store, name in zip(stores, results, strict=True):
        pointer = kernel.pointers[store.target]
        own = next(one for one in kernel.plan.accesses if one.tensor == store.target and not one.gathered)
        place = "at" if dense else kernel.offsets[own]
        computed = kernel.part.graph.values[store.value].type.dtype
        value = _narrowed(name, pointer, computed, elements[store.target])
        lines.append(f"tl.store({pointer} + {place}, {value}, mask=mask)")
    return lines


def _narrowed(name: str, pointer: str, computed: DType, element: Element) -> str:
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


def _result_names(kernel: _Kernel, stores: tuple[Store, ...]) -> list[str]:
    """What the kernel calls the formula's results; a tensor that is read as well has its name already."""
    own = (kernel.values, kernel.pointers, kernel.offsets)
    names = Names(
        {*RESERVED, *_KERNEL_NAMES, *kernel.integers, *(name for names in own for name in names.values())}
    )
    return [names.fresh(f"new_{one.target}" if one.target in kernel.values else one.target) for one in stores]


def _layout_names(kernel: _Kernel) -> tuple[list[list[str]], list[str]]:
    """The stride parameters of each access, and the layout classes."""
    strides, layouts = [], []
    for stem in kernel.stems.values():
        strides.append([f"{stem}_s{place}" for place in range(_STRIDES)])
        layouts.append(f"{stem}_layout: tl.constexpr")
    return strides, layouts


def _offset_lines(kernel: _Kernel) -> list[str]:
    lines = []
    for access, stem in kernel.stems.items():
        offsets = kernel.offsets[access]
        strides = ", ".join(f"{stem}_s{place}" for place in range(_STRIDES))
        lines.append(f"{offsets} = offsets(at, ({strides}), {stem}_layout, RANK, UNIT)")
    return lines


def _dense_positions(kernel: _Kernel) -> list[str]:
    """Positions, and the places that gathers start from, are the place in memory where one layout serves all."""
    return [
        f"{offsets} = at"
        for access, offsets in kernel.offsets.items()
        if access.tensor is None or access.gathered
    ]


def _decorator(first: int, count: int) -> str:
    """Numbers that vary from call to call are no reason to compile again."""
    return f"(do_not_specialize=range({first}, {first + count}))" if count else ""


def _grouped(*groups: list[str]) -> tuple[str, ...]:
    """Parameters as lines, each group beginning one of its own."""
    lines: list[str] = []
    for group in groups:
        line = ""
        for parameter in group:
            if line and len(line) + len(parameter) > _LINE:
                lines.append(line)
                line = ""
            line += f"{' ' if line else ''}{parameter},"
        lines += [line] if line else []
    return tuple(lines)


def _formula_doc(op: Op, stores: tuple[Store, ...]) -> str:
    names = " and ".join(store.target for store in stores)
    return f"`{names}` of {op.name} for one tile, in the types that it computes in."


def _is_never_dense(op: Op, plan: ElementwisePlan) -> bool:
    """Whether some tensor holds two elements in a byte, so that no two tensors ever share one layout."""
    read = {access.tensor for access in plan.accesses}
    return any(tensor.element.dtype.is_packed and tensor.name in read for tensor in op.tensors)


def uses_type(values: tuple[Value, ...]) -> list[str]:
    """The type variables to which a body casts and whose types share it, sorted."""
    elements = [value.type.element for value in values if isinstance(value.node, Cast)]
    return sorted({element.variable for element in elements if element.variable and is_generic(element)})
