"""What comes into a kernel's formula from outside it: elements, scalars, sizes, positions and gathers."""

from __future__ import annotations

from dataclasses import dataclass

from opgen.emit.exprs import Printer, Text
from opgen.emit.kernel_memory import nibble, widened, zero_of
from opgen.emit.kernel_names import Kernel, LaunchNames, dim_words, scalar_text
from opgen.ir.nodes import Const, Dim, Gather, Index, Random, Read, Ref, Scalar, Size, Value
from opgen.plan.model import Access, addressed


@dataclass(frozen=True)
class Leaves:
    """The text, inside the formula, of what comes from outside it."""

    kernel: Kernel
    launch: LaunchNames

    def text(self, printer: Printer, ref: Ref, value: Value) -> Text:
        kernel = self.kernel
        match value.node:
            case Read(param=name):
                return Text(kernel.values[name])
            case Scalar(param=name) | Const(param=name):
                local = kernel.values[name]
                kernel.formula[local] = scalar_text(kernel, name)
                return Text(local)
            case Size(dim=dim):
                size = size_text(dim, self.launch.sizes)
                name = self._integer(f"size_{dim_words(dim)}", f"rt.in_units({size})")
                unit = self._unit(f"size_{dim_words(dim)}_unit", f"rt.unit({size})")
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
        """The name of a number that the launcher gives."""
        return self._parameter(self.kernel.integers, wanted, expression)

    def _unit(self, wanted: str, expression: str) -> str:
        """The name of a compile-time number that the launcher derives from a stride or a size."""
        return self._parameter(self.kernel.units, wanted, expression)

    def _parameter(self, known: dict[str, str], wanted: str, expression: str) -> str:
        for name, other in known.items():
            if other == expression:
                return name
        name = self.kernel.names.fresh(wanted)
        known[name] = expression
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
            stem = f"{node.param}_{dim_words(dim)}"
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
        load = f"tl.load({' + '.join(places)}, mask={inside}, other={zero_of(tensor.element)})"
        if half:
            load = nibble(tensor, load, half)
        loaded = load if half else widened(load, tensor.element)
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
