"""The lines of one row kernel: its functions, what a tile loads, and its reductions in each of the three forms."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from opgen.dtypes import DTYPES, DType
from opgen.emit.contexts import RowFunctionContext, RowPassContext
from opgen.emit.kernel_leaves import Leaves
from opgen.emit.kernel_names import Kernel
from opgen.emit.names import Names
from opgen.emit.row_functions import Function, Slicer
from opgen.emit.row_memory import RowMemory, covers
from opgen.emit.row_reductions import SPELLINGS, begin_text
from opgen.ir.nodes import Gather, Reduce, Ref, Store
from opgen.ir.operands import operands, reached
from opgen.plan.model import Access
from opgen.plan.row_passes import Levels, Reduction, looped_passes, resident_levels


@dataclass
class _State:
    """The names of a reduction: what it gives, and each part of its state with its pointer to partial results."""

    value: str
    parts: dict[str, str]
    pointers: dict[str, str]


class RowWords:
    """The lines of one kernel, as its three forms need them."""

    def __init__(
        self, kernel: Kernel, memory: RowMemory, leaves: Leaves, stem: str, module_names: Names
    ) -> None:
        self.kernel = kernel
        self.memory = memory
        self.leaves = leaves
        self.stem = stem
        self.module_names = module_names
        self.graph = kernel.part.graph
        self.resident = resident_levels(self.graph)
        self.looped = looped_passes(self.graph)
        self.functions: list[RowFunctionContext] = []
        self.states = self._name_states()
        self.result_names: dict[str, str] = {}
        self.cuts = {ref: state.value for ref, state in self.states.items()}
        self.rows = tuple(store for store in self.graph.stores if not self._is_whole(store))
        self.whole = tuple(store for store in self.graph.stores if self._is_whole(store))
        self.terms: dict[Ref, Function] = {}
        self.gathers: dict[Ref, Function] = {}
        self.results: dict[str, Function] = {}
        self.formula: Function | None = None

    def _is_whole(self, store: Store) -> bool:
        access = self.memory.own(store.target)
        return access is not None and self.memory.by_column(access)

    def _name_states(self) -> dict[Ref, _State]:
        kernel, states = self.kernel, {}
        for reduction in (one for level in self.resident for one in level):
            node = self.graph.values[reduction.ref]
            assert isinstance(node.node, Reduce)
            kind = node.node.kind
            value = kernel.names.fresh(node.name) if node.name else kernel.names.numbered(kind)
            states[reduction.ref] = _State(value, {}, {})
        for reduction in (one for level in self.looped for one in level):
            state = states[reduction.ref]
            spelling = SPELLINGS[reduction.kind]
            for part, _, _ in spelling.state:
                own = spelling.is_own_state
                name = state.value if own else kernel.names.fresh(f"{state.value}_{part}")
                state.parts[part] = name
                state.pointers[part] = kernel.names.fresh(f"{name}_ptr")
        return states

    # --- functions ------------------------------------------------------------------------------

    def print_functions(self) -> None:
        """Prints all functions, twice: the first time finds the names that the kernel's own parameters take."""
        self._print_functions(self.module_names.copy())
        self.functions.clear()
        self.terms.clear()
        self._print_functions(self.module_names)
        taken = self.kernel.names.copy()  # the functions' own names are free again
        for one in self.graph.stores:
            wanted = f"new_{one.target}" if one.target in self.kernel.values else one.target
            self.result_names[one.target] = taken.fresh(wanted)

    def _print_functions(self, names: Names) -> None:
        cut_gathers = self._gathers_of_rows()
        for ref in cut_gathers:
            self.cuts.setdefault(ref, self._gathered_name(ref))
        for ref in cut_gathers:
            own = {other: name for other, name in self.cuts.items() if other != ref}
            doc = f"`{self.cuts[ref]}`, one for each row."
            self.gathers[ref] = self._function(names, self.cuts[ref], doc, [ref], "row_mask", own)
        for reduction in (
            one for levels in (self.resident, self.looped) for level in levels for one in level
        ):
            if reduction.arg not in self.terms:
                value = self.states[reduction.ref].value
                doc = f"The terms of `{value}`."
                self.terms[reduction.arg] = self._function(
                    names, f"{value}_terms", doc, [reduction.arg], "mask"
                )
        own = {ref: name for ref, name in self.cuts.items() if ref not in cut_gathers}
        for store in self.rows:
            doc = f"`{store.target}` of {self.kernel.op.name}, one for each row."
            self.results[store.target] = self._function(
                names, store.target, doc, [store.value], "row_mask", own
            )
        if self.whole:
            doc = f"{_listed(self.whole)} of {self.kernel.op.name} for one tile, in the types that it computes in."
            refs = [store.value for store in self.whole]
            self.formula = self._function(names, "formula", doc, refs, "mask")

    def _function(
        self,
        names: Names,
        ending: str,
        doc: str,
        refs: Sequence[Ref],
        mask: str,
        cuts: Mapping[Ref, str] | None = None,
    ) -> Function:
        slicer = Slicer(self.kernel, self.graph, self.leaves, self.cuts if cuts is None else cuts)
        trial = names.copy().fresh(f"{self.stem}_{ending}")
        function = slicer.function(trial, doc, refs, mask)
        if function.context is not None:
            names.fresh(trial)
            self.functions.append(function.context)
        return function

    def _gathers_of_rows(self) -> list[Ref]:
        """The gathers of one value for each row that whole rows need: they are loaded apart."""
        needed: set[Ref] = {one.arg for level in self.resident for one in level}
        needed |= {store.value for store in self.whole}
        needed = reached(self.graph, needed)
        reduced = self.kernel.part.reduced
        return [
            ref
            for ref, value in enumerate(self.graph.values)
            if ref in needed and isinstance(value.node, Gather) and not covers(value.type.dims, reduced)
        ]

    def _gathered_name(self, ref: Ref) -> str:
        value = self.graph.values[ref]
        assert isinstance(value.node, Gather)
        return self.kernel.names.fresh(value.name or f"{value.node.param}_value")

    def _level_of(self, ref: Ref, levels: Levels) -> int:
        """How many levels of reductions a value needs."""
        level_of = {one.ref: number for number, level in enumerate(levels, 1) for one in level}
        waiting, found = [ref], 0
        while waiting:
            one = waiting.pop()
            if one in level_of:
                found = max(found, level_of[one])
            else:
                waiting += operands(self.graph.values[one].node)
        return found

    # --- lines ----------------------------------------------------------------------------------

    def row_lines(self) -> list[str]:
        """What a tile of rows begins with: the rows' part of offsets, and what has one element for a row."""
        accesses = self._accesses(self._all_functions())
        accesses = dict.fromkeys(
            (*accesses, *self._positions(self.resident), *self._stored(self.graph.stores))
        )
        tensors = dict.fromkeys(name for one in self._all_functions() for name in one.tensors)
        memory = self.memory
        order = [one for one in self.kernel.plan.accesses if one in accesses]
        loads = memory.load_lines(name for name in tensors if memory.is_row(name))
        return [*memory.row_lines(order), *loads, *self._gather_lines(self.resident, 0)]

    def resident_lines(self) -> list[str]:
        """A tile that holds whole rows."""
        lines: list[str] = []
        loaded: set[str] = set()
        placed: set[Access] = set()
        for number, level in enumerate(self.resident, 1):
            functions = [self.terms[one.arg] for one in level]
            lines += self._tile_lines(functions, self._positions((level,)), loaded, placed)
            for one in level:
                lines += self._whole_reduction(one)
            lines += self._gather_lines(self.resident, number)
        lines += self.result_lines("row_mask")
        if self.formula is not None:
            lines += self._tile_lines([self.formula], self._stored(self.whole), loaded, placed)
            lines += self._store_whole_lines()
        return lines

    def passes(self) -> list[RowPassContext]:
        """The passes over rows that are read tile by tile."""
        found = []
        for number, level in enumerate(self.looped):
            functions = [self.terms[one.arg] for one in level]
            later = [self.terms[one.arg] for further in self.looped[number + 1 :] for one in further]
            later += [self.formula] if self.formula is not None else []
            again = {name for one in later for name in one.tensors}
            found.append(
                RowPassContext(
                    stage=str(number),
                    begin_lines=tuple(line for one in level for line in self._begin_lines(one)),
                    tile_lines=(
                        *self._tile_lines(functions, self._positions((level,)), set(), set(), again),
                        *(line for one in level for line in self._state_lines(one, SPELLINGS[one.kind].step)),
                    ),
                    merge_lines=tuple(
                        line for one in level for line in self._state_lines(one, SPELLINGS[one.kind].merge)
                    ),
                    store_lines=tuple(line for one in level for line in self._store_partial_lines(one)),
                    join_lines=tuple(line for one in level for line in self._join_lines(one)),
                    value_lines=(
                        *(line for one in level for line in self._value_lines(one)),
                        *self._gather_lines(self.looped, number + 1),
                    ),
                )
            )
        return found

    def result_lines(self, mask: str) -> list[str]:
        """The stores of what has one element for a row."""
        lines = []
        for store in self.rows:
            function = self.results[store.target]
            value = function.call
            if function.context is not None:
                value = self._result_name(store)
                lines.append(f"{value} = {function.call}")
            lines.append(self.memory.store_line(store.target, store.value, value, mask))
        return lines

    def whole_lines(self) -> list[str]:
        """A tile of the results over whole rows."""
        if self.formula is None:
            return []
        lines = self._tile_lines([self.formula], self._stored(self.whole), set(), set(), ())
        return [*lines, *self._store_whole_lines()]

    def partials(self) -> list[tuple[str, str]]:
        """The pointers to partial results, and their types."""
        found = []
        for one in (one for level in self.looped for one in level):
            for part, _, dtype in SPELLINGS[one.kind].state:
                torch_type = DTYPES[dtype].torch if dtype else self._dtype(one).torch
                found.append((self.states[one.ref].pointers[part], f"torch.{torch_type}"))
        return found

    def _store_whole_lines(self) -> list[str]:
        assert self.formula is not None
        names = [self._result_name(store) for store in self.whole]
        lines = [f"{', '.join(names)} = {self.formula.call}"]
        for store, name in zip(self.whole, names, strict=True):
            lines.append(self.memory.store_line(store.target, store.value, name, "mask"))
        return lines

    def _result_name(self, store: Store) -> str:
        return self.result_names[store.target]

    def _all_functions(self) -> list[Function]:
        found = [*self.gathers.values(), *self.terms.values(), *self.results.values()]
        return [*found, self.formula] if self.formula is not None else found

    def _accesses(self, functions: Iterable[Function]) -> dict[Access, None]:
        return {access: None for one in functions for access in one.accesses}

    def _stored(self, stores: Iterable[Store]) -> list[Access]:
        own = (self.memory.own(store.target) for store in stores)
        return [access for access in own if access is not None]

    def _positions(self, levels: Levels) -> list[Access]:
        """The positions that reductions count."""
        nodes = [self.graph.values[one.ref].node for level in levels for one in level]
        return [Access(None, node.dims) for node in nodes if isinstance(node, Reduce) and node.gives_position]

    def _tile_lines(
        self,
        functions: Sequence[Function],
        further: Sequence[Access],
        loaded: set[str],
        placed: set[Access],
        again: Collection[str] | None = None,
    ) -> list[str]:
        """The offsets and loads that functions need in a tile beside what is there."""
        needed = {**self._accesses(functions), **dict.fromkeys(further)}
        accesses = [one for one in self.kernel.plan.accesses if one in needed and one not in placed]
        tensors = dict.fromkeys(name for one in functions for name in one.tensors)
        new = [name for name in tensors if name not in loaded and not self.memory.is_row(name)]
        loaded.update(new)
        placed.update(accesses)
        return [*self.memory.column_lines(accesses), *self.memory.load_lines(new, again)]

    def _gather_lines(self, levels: Levels, level: int) -> list[str]:
        """The gathers of one value for each row that are known after a level."""
        return [
            f"{self.cuts[ref]} = {function.call}"
            for ref, function in self.gathers.items()
            if self._level_of(ref, levels) == level
        ]

    # --- reductions -----------------------------------------------------------------------------

    def _dtype(self, one: Reduction) -> DType:
        return DTYPES[self.graph.values[one.arg].type.dtype.compute]

    def _words_of(self, one: Reduction) -> dict[str, str]:
        """What stands for the names in a reduction's spelling."""
        node = self.graph.values[one.ref].node
        assert isinstance(node, Reduce)
        position = self.kernel.offsets.get(Access(None, node.dims), "")
        parts = self.states[one.ref if one.source is None else one.source].parts
        return {"term": self.terms[one.arg].call, "position": position, **parts}

    def _whole_reduction(self, one: Reduction) -> list[str]:
        spelling = SPELLINGS[one.kind]
        state, words = self.states[one.ref], self._words_of(one)
        whole = spelling.whole.format(**words)
        if len(spelling.state) == 1 or spelling.whole_result:
            only = spelling.state[-1][0]
            result = spelling.whole_result or spelling.result
            return [f"{state.value} = {result.format(**{only: whole})}"]
        names = [words[part] for part, _, _ in spelling.state]
        if spelling.result == f"{{{spelling.state[-1][0]}}}":
            return [f"{', '.join(('_', *names[1:-1], state.value))} = {whole}"]
        return [f"{', '.join(names)} = {whole}", f"{state.value} = {spelling.result.format(**words)}"]

    def _begin_lines(self, one: Reduction) -> list[str]:
        lines = []
        for part, begin, own in SPELLINGS[one.kind].state:
            dtype = DTYPES[own] if own else self._dtype(one)
            value = begin_text(begin, dtype)
            shape = f"(ROWS, {SPELLINGS[one.kind].lanes})"
            lines.append(f"{self.states[one.ref].parts[part]} = tl.full({shape}, {value}, tl.{dtype.triton})")
        return lines

    def _state_lines(self, one: Reduction, spelling: str) -> list[str]:
        """The line that gives a state anew; none for a reduction without one."""
        names = self.states[one.ref].parts.values()
        return [f"{', '.join(names)} = {spelling.format(**self._words_of(one))}"] if names else []

    def _store_partial_lines(self, one: Reduction) -> list[str]:
        state = self.states[one.ref]
        return [
            f"tl.store({state.pointers[part]} + rows * splits + piece, {name}, mask=row_mask)"
            for part, name in state.parts.items()
        ]

    def _join_lines(self, one: Reduction) -> list[str]:
        state, spelling = self.states[one.ref], SPELLINGS[one.kind]
        lines = []
        for part, begin, own in spelling.state:
            other = begin_text(begin, DTYPES[own] if own else self._dtype(one))
            pieces = f"pieces_of({state.pointers[part]}, rows, row_mask, splits, {other}, SPLITS)"
            lines.append(f"{state.parts[part]} = {pieces}")
        return [*lines, *self._state_lines(one, spelling.join or spelling.merge)]

    def _value_lines(self, one: Reduction) -> list[str]:
        state, spelling = self.states[one.ref], SPELLINGS[one.kind]
        if spelling.is_own_state:
            return []
        return [f"{state.value} = {spelling.result.format(**self._words_of(one))}"]


def _listed(stores: Iterable[Store]) -> str:
    return " and ".join(f"`{store.target}`" for store in stores)
