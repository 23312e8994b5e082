"""The functions of a row kernel: the terms of its reductions, and its results from them.

Each is a slice of the graph. Where the slice reaches a reduction, or a gather of one value for each row, it takes that
as a parameter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from opgen.emit.contexts import RowFunctionContext
from opgen.emit.dialects import TRITON
from opgen.emit.exprs import Printer, Text
from opgen.emit.kernel_leaves import Leaves
from opgen.emit.kernel_names import Kernel, pointer_of_type, types_cast_to
from opgen.emit.names import type_name
from opgen.ir.nodes import Graph, Read, Ref, Store, Value
from opgen.ir.passes.simplify import remove_dead
from opgen.plan.model import Access, addressed_by

_CUT = "%"  # begins the name under which a slice reads a value that was computed before


@dataclass(frozen=True)
class Function:
    """A printed slice: its text, where it has any, what a kernel writes to call it, and what it needs from memory.

    A slice that is just one of its parameters, or that itself, has no text.
    """

    context: RowFunctionContext | None
    call: str
    tensors: tuple[str, ...]
    accesses: tuple[Access, ...]


@dataclass(frozen=True)
class Slicer:
    """Prints slices of one graph; `cuts` are the names of values that were computed before."""

    kernel: Kernel
    graph: Graph
    leaves: Leaves
    cuts: Mapping[Ref, str]

    def function(self, name: str, doc: str, refs: Sequence[Ref], mask: str) -> Function:
        """The function that gives some values; `mask` is what of its tile is inside the row, as the caller names it."""
        sliced = self._slice(refs)
        self.kernel.formula.clear()
        printer = Printer(sliced, TRITON, self.kernel.names.copy(), self._leaf)
        returned = ", ".join(printer.body())
        parameters = dict(self.kernel.formula)
        for variable in types_cast_to(sliced.values):
            pointer = pointer_of_type(self.kernel, variable)
            parameters[f"{type_name(variable)}: tl.constexpr"] = f"{pointer}.dtype.element_ty"
        if "mask" in parameters:
            parameters["mask"] = mask
        tensors = tuple(
            value.node.param
            for value in sliced.values
            if isinstance(value.node, Read) and not value.node.param.startswith(_CUT)
        )
        known = self.kernel.tensors
        accesses = tuple(dict.fromkeys(one for value in sliced.values for one in addressed_by(value, known)))
        if not printer.lines and returned in parameters:
            return Function(None, parameters[returned], tensors, accesses)
        context = RowFunctionContext(name, tuple(parameters), doc, tuple(printer.lines), returned)
        return Function(context, f"{name}({', '.join(parameters.values())})", tensors, accesses)

    def _slice(self, refs: Sequence[Ref]) -> Graph:
        """The part of the graph that gives some values, from those that were computed before."""
        values = tuple(
            replace(value, node=Read(f"{_CUT}{ref}"), name=None) if ref in self.cuts else value
            for ref, value in enumerate(self.graph.values)
        )
        return remove_dead(Graph(values, tuple(Store("", ref) for ref in refs)))

    def _leaf(self, printer: Printer, ref: Ref, value: Value) -> Text:
        if not isinstance(value.node, Read):
            return self.leaves.text(printer, ref, value)
        param = value.node.param
        local = self.cuts[int(param[1:])] if param.startswith(_CUT) else self.kernel.values[param]
        self.kernel.formula[local] = local
        return Text(local)
