"""The lines of a row kernel that address, load and store elements."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from opgen.emit.kernel_memory import element_of, loaded_or_default, narrowed, plain_access, widened
from opgen.emit.kernel_names import Kernel
from opgen.ir.nodes import Dim, Ref, TensorParam
from opgen.plan.model import Access

_ROW_STRIDES, _COLUMN_STRIDES = (0, 1, 2, 3), (4, 5, 6)


class RowMemory:
    """Where the tensors of one kernel lie: its accesses, each along rows, along columns, or both."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.stored = {store.target for store in kernel.part.graph.stores}
        self.parts = {access: self._part(access) for access in kernel.plan.accesses}
        self._rows = {
            access: kernel.names.fresh(f"{stem}_rows")
            for access, stem in kernel.stems.items()
            if self.parts[access] == "rc"
        }

    def _part(self, access: Access) -> str:
        reduced = {dim.family for dim in self.kernel.part.reduced}
        moving = [dim.family for dim in access.dims if dim not in access.gathered]
        by_column = any(dim in reduced for dim in moving)
        by_row = any(dim not in reduced for dim in moving) or not by_column or self._is_written(access)
        return ("r" if by_row else "") + ("c" if by_column else "")

    def _is_written(self, access: Access) -> bool:
        """Whether an access is a store, whose offsets have the shape of a tile also where no dim is kept."""
        return access.tensor in self.stored and not access.gathered

    def by_column(self, access: Access) -> bool:
        """Whether an access moves along the columns."""
        return "c" in self.parts[access]

    def declared(self, access: Access) -> str:
        """The strides that the runtime passes for an access."""
        return self.parts[access] + ("w" if self._is_written(access) else "")

    def strides(self, access: Access) -> list[str]:
        """The names of an access's strides, as the kernel takes them."""
        part, stem = self.parts[access], self.kernel.stems[access]
        places = (_ROW_STRIDES if "r" in part else ()) + (_COLUMN_STRIDES if "c" in part else ())
        return [f"{stem}_s{place}" for place in places]

    def own(self, tensor: str) -> Access | None:
        """How a tensor is addressed by its dims; None for a 0-d tensor."""
        return plain_access(self.kernel.plan.accesses, tensor)

    # --- addresses ------------------------------------------------------------------------------

    def row_lines(self, accesses: Iterable[Access]) -> list[str]:
        """The rows' part of the offsets of accesses."""
        lines = []
        for access in accesses:
            if "r" not in self.parts[access]:
                continue
            target = self._rows.get(access, self.kernel.offsets[access])
            lines.append(f"{target} = row_offsets(row_at, {self._tuple(access, _ROW_STRIDES)}, ROW_RANK)")
        return lines

    def column_lines(self, accesses: Iterable[Access]) -> list[str]:
        """The offsets of accesses that move along the columns."""
        lines = []
        for access in accesses:
            if not self.by_column(access):
                continue
            rows = f"{self._rows[access]} + " if access in self._rows else ""
            columns = f"col_offsets(col_at, {self._tuple(access, _COLUMN_STRIDES)}, COL_RANK)"
            lines.append(f"{self.kernel.offsets[access]} = {rows}{columns}")
        return lines

    def _tuple(self, access: Access, places: Sequence[int]) -> str:
        stem = self.kernel.stems[access]
        return f"({', '.join(f'{stem}_s{place}' for place in places)}), {stem}_layout"

    # --- loads and stores -----------------------------------------------------------------------

    def is_row(self, tensor: str) -> bool:
        """Whether a tensor has one element for a row, or just one."""
        access = self.own(tensor)
        return access is None or not self.by_column(access)

    def load_lines(self, tensors: Iterable[str], again: Collection[str] | None = None) -> list[str]:
        """The lines that load tensors whose offsets are known; in a loop the caches keep what is read `again`."""
        lines: list[str] = []
        for tensor in (self.kernel.tensors[name] for name in tensors):
            local = self.kernel.values[tensor.name]
            pointer = self.kernel.old_pointers.get(tensor.name, self.kernel.pointers[tensor.name])
            load = self._load(tensor, pointer, again)
            lines += loaded_or_default(tensor, local, pointer, load)
        return lines

    def _load(self, tensor: TensorParam, pointer: str, again: Collection[str] | None) -> str:
        access = self.own(tensor.name)
        if access is None:
            return widened(f"tl.load({pointer})", tensor.element)
        policy = ""
        if again is not None and self.parts[access] == "rc":
            policy = f', eviction_policy="{"evict_last" if tensor.name in again else "evict_first"}"'
        load = f"tl.load({pointer} + {self.kernel.offsets[access]}, mask={self.mask(access)}{policy})"
        return element_of(self.kernel, tensor, load)

    def mask(self, access: Access) -> str:
        """Which offsets of an access are inside the space."""
        match self.parts[access]:
            case "r":
                return "row_mask"
            case "c":
                return "col_mask"
            case _:
                return f"tile_mask(row_mask, col_mask, {self.kernel.stems[access]}_layout)"

    def store_line(self, target: str, ref: Ref, value: str, mask: str) -> str:
        """The line that stores a result."""
        elements = {item.name: item.element for item in self.kernel.op.arrays}
        pointer = self.kernel.pointers[target]
        access = self.own(target)
        place = "rows" if access is None else self.kernel.offsets[access]  # a 0-d result has one row
        dtype = self.kernel.part.graph.values[ref].type.dtype
        stored = narrowed(value, pointer, dtype, elements[target])
        return f"tl.store({pointer} + {place}, {stored}, mask={mask})"


def covers(dims: Sequence[Dim], reduced: Sequence[Dim]) -> bool:
    """Whether a value of these dims has elements along the reduced ones."""
    families = {dim.family for dim in reduced}
    return any(dim.family in families for dim in dims)
