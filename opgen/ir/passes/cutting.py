"""Cuts an op's graph into kernels: the fewest iteration spaces that cover its results.

In:  h = x @ w + b;  store y = layer_norm over N of h      (h: [M, N])
Out: a product over [M, N], contracting K, that stores the temporary `h`, and a row part over [M, N], reducing N, that
     reads `h` and stores y.

Reductions over the same dims share a part, also where one needs another; contractions that share their tiles do, where
none needs another and all of the op are summed in one type. No part runs over two dims of one family, such as `K` and
`K / 4`: no value carries both, and parts are shared only over equal dims. A part repeats what it shares with another
where that takes no reduction and no contraction; what does is stored once, as a temporary in its computed type, as late
as its dims allow.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace

from opgen.diagnostics import InternalError
from opgen.dtypes import DTYPES, DType
from opgen.ir.nodes import (
    Cast,
    Contract,
    Convert,
    Dim,
    Element,
    Graph,
    Op,
    Read,
    Reduce,
    Ref,
    Store,
    Type,
    Value,
)
from opgen.ir.operands import operands, renumbered
from opgen.ir.passes.parts import Part, Partition, PartKind, Temporary, target_dims
from opgen.ir.passes.simplify import remove_dead


@dataclass
class _Group:
    """A part in the making: its heavy values (reductions or contractions), and what it stores."""

    kind: PartKind
    space: tuple[Dim, ...]
    reduced: tuple[Dim, ...] = ()
    sides: tuple[
        frozenset[Dim], ...
    ] = ()  # of a product: the dims of its batches, of its rows and of its columns
    heavy: list[Ref] = field(default_factory=list)
    stores: list[Store] = field(default_factory=list)

    @property
    def kept(self) -> frozenset[Dim]:
        return frozenset(self.space) - frozenset(self.reduced)

    def holds(self, dims: Sequence[Dim]) -> bool:
        """Whether a tensor of these dims can be stored by the part."""
        own = frozenset(dims)
        return own == frozenset(self.space) or (self.kind == "row" and own == self.kept)


def sum_types(graph: Graph) -> frozenset[DType]:
    """The types that the contractions of a graph are summed in."""
    return frozenset(value.type.dtype for value in graph.values if isinstance(value.node, Contract))


def cut(op: Op, graph: Graph, shares_tiles: bool) -> Partition:
    """The parts of one graph."""
    for shares_rows in (True, False):
        cutter = _Cutter(op, graph, shares_rows, shares_tiles)
        found = cutter.partition()
        if found is not None:
            return found
    raise InternalError(f"{op.name}: no partition")


class _Cutter:
    """Cuts one graph.

    With `shares_rows`, reductions of fewer kept dims stand in the parts of those of more; with `shares_tiles`,
    contractions share parts.
    """

    def __init__(self, op: Op, graph: Graph, shares_rows: bool, shares_tiles: bool) -> None:
        self.op = op
        self.graph = graph
        self.shares_rows = shares_rows
        self.shares_tiles = shares_tiles
        self.needs = heavy_needs(graph)
        self.targets = target_dims(op)
        self.groups: list[_Group] = []
        self.group_of: dict[Ref, int] = {}
        self.temporaries: dict[Ref, Temporary] = {}

    def partition(self) -> Partition | None:
        """The partition, or None where a value that must be stored does not fit the part that computes it."""
        for ref in sorted(self.needs_all()):
            self._place_heavy(ref)
        elements = {item.name: item.element for item in self.op.arrays}
        for store in sorted(self.graph.stores, key=lambda one: not self.needs[one.value]):
            value = _rounded_once(self.graph, store.value, elements[store.target])
            self._place_store(Store(store.target, value))
        parts: list[Part] = []
        for number in reversed(range(len(self.groups))):
            part = self._part(number)
            if part is None:
                return None
            parts.insert(0, part)
        order = {name: place for place, name in enumerate(_stored(parts))}
        temporaries = sorted(self.temporaries.values(), key=lambda one: order[one.name])
        return Partition(tuple(parts), tuple(temporaries))

    def needs_all(self) -> frozenset[Ref]:
        """All heavy values that something stored needs."""
        return frozenset().union(*(self.needs[store.value] for store in self.graph.stores))

    def _place_heavy(self, ref: Ref) -> None:
        """Puts a reduction or contraction into the first part that can hold it, else into a new one."""
        wanted = _group_for(self.graph, ref)
        before = [self.group_of[other] for other in self.needs[ref] if other != ref]
        least = max(before, default=0)
        if before and wanted.kind == "product":
            least += 1
        for number in range(least, len(self.groups)):
            group = self.groups[number]
            if group.kind == wanted.kind and self._joins(group, wanted, ref):
                group.heavy.append(ref)
                self.group_of[ref] = number
                return
        wanted.heavy.append(ref)
        self.group_of[ref] = len(self.groups)
        self.groups.append(wanted)

    def _joins(self, group: _Group, wanted: _Group, ref: Ref) -> bool:
        """Whether a heavy value can be computed in a part; the part's space grows to hold it."""
        if wanted.kind == "product":
            return (
                self.shares_tiles
                and frozenset(group.space) == frozenset(wanted.space)
                and group.reduced == wanted.reduced
                and group.sides == wanted.sides
            )
        if frozenset(group.reduced) != frozenset(wanted.reduced):
            return False
        if group.reduced != wanted.reduced and _counts_positions(self.graph, ref):
            if any(_counts_positions(self.graph, other) for other in group.heavy):
                return False
            group.reduced = wanted.reduced
            group.space = (*(dim for dim in group.space if dim not in wanted.reduced), *wanted.reduced)
        if group.kept == wanted.kept:
            return True
        if not self.shares_rows or not (group.kept < wanted.kept or wanted.kept < group.kept):
            return False
        if group.kept < wanted.kept:
            group.space = (*(dim for dim in wanted.space if dim in wanted.kept), *group.reduced)
        return True

    def _place_store(self, store: Store) -> None:
        """Puts a store into the first part that it fits and that knows all that it needs, else into a new one."""
        dims = self.targets[store.target]
        needed = [self.group_of[ref] for ref in self.needs[store.value]]
        for group in self.groups[max(needed, default=0) :]:
            if group.holds(dims):
                group.stores.append(store)
                return
        self.groups.append(_Group("elementwise", dims, stores=[store]))

    def _part(self, number: int) -> Part | None:
        """A part's graph: what its stores need, down to temporaries; None where one of them cannot be stored."""
        group = self.groups[number]
        cuts = self._cuts(number)
        values: list[Value] = []
        new: dict[Ref, Ref] = {}
        for ref in self._needed(group.stores, cuts):
            value = self.graph.values[ref]
            if ref not in cuts:
                values.append(replace(value, node=renumbered(value.node, new)))
            elif not self._stores_temporary(ref):
                return None
            else:
                values += self._read_temporary(ref, len(values))
            new[ref] = len(values) - 1
        stores = tuple(Store(store.target, new[store.value]) for store in group.stores)
        return Part(group.kind, remove_dead(Graph(tuple(values), stores)), group.space, group.reduced)

    def _needed(self, stores: Sequence[Store], cuts: Collection[Ref]) -> list[Ref]:
        """The values that stores need, in order, without what lies below the cuts."""
        waiting = [store.value for store in stores]
        needed = set(waiting)
        while waiting:
            ref = waiting.pop()
            further = set() if ref in cuts else {*operands(self.graph.values[ref].node)} - needed
            waiting += further
            needed |= further
        return sorted(needed)

    def _cuts(self, number: int) -> frozenset[Ref]:
        """The values that a part reads as temporaries, if it needs them: late, but no larger than their sources."""
        below: list[frozenset[Ref]] = []
        for ref, value in enumerate(self.graph.values):
            deeper = frozenset[Ref]().union(*(below[one] for one in operands(value.node)))
            below.append(frozenset((ref,)) if self._is_cut(number, ref, deeper) else deeper)
        return frozenset(ref for ref, own in enumerate(below) if own == {ref})

    def _is_cut(self, number: int, ref: Ref, below: frozenset[Ref]) -> bool:
        """Whether a part reads a value as a temporary, rather than computing it from the values `below`."""
        value = self.graph.values[ref]
        elsewhere = [self.group_of[other] for other in self.needs[ref] if self.group_of[other] != number]
        if not elsewhere or len(elsewhere) < len(self.needs[ref]):
            return False
        if isinstance(value.node, Reduce | Contract):
            return True
        if isinstance(value.node, Convert) and isinstance(self.graph.values[value.node.arg].node, Cast):
            return False
        fits = self.groups[max(elsewhere)].holds(value.type.dims)
        if ref in self._multiplied(number):
            return fits  # computed once, rather than for each tile of the product
        ranks = [len(self.graph.values[one].type.dims) for one in below]
        return fits and len(value.type.dims) <= max(ranks)

    def _multiplied(self, number: int) -> frozenset[Ref]:
        """The operands of a part's contractions."""
        nodes = (self.graph.values[ref].node for ref in self.groups[number].heavy)
        return frozenset(one for node in nodes if isinstance(node, Contract) for one in operands(node))

    def _stores_temporary(self, ref: Ref) -> bool:
        """Has a value stored, as a temporary, by the part that computes it; False where it does not fit there."""
        if ref in self.temporaries:
            return True
        value = self.graph.values[ref]
        producer = self.groups[max(self.group_of[other] for other in self.needs[ref])]
        if not producer.holds(value.type.dims):
            return False
        temporary = Temporary(self._fresh_name(value.name), value.type.element, value.type.dims)
        self.temporaries[ref] = temporary
        producer.stores.append(Store(temporary.name, self._stored_value(ref, temporary.element)))
        return True

    def _read_temporary(self, ref: Ref, position: Ref) -> Iterator[Value]:
        """The values, from `position` on, that read a temporary in the place of what was stored."""
        value = self.graph.values[ref]
        temporary = self.temporaries[ref]
        yield Value(Read(temporary.name), Type(temporary.element, temporary.dims), span=value.span)
        if not isinstance(value.node, Cast):
            yield Value(Convert(position), value.type, value.name, span=value.span)

    def _stored_value(self, ref: Ref, element: Element) -> Ref:
        """The value whose store gives a temporary: a cast is left to the store where that rounds in the same way."""
        if not isinstance(self.graph.values[ref].node, Cast):
            return ref
        value = self.graph.values[ref]
        computed = Type(Element(DTYPES[element.dtype.compute]), value.type.dims)
        compute = Value(Convert(ref), computed, span=value.span)
        self.graph = Graph((*self.graph.values, compute), self.graph.stores)
        self.needs = (*self.needs, self.needs[ref])
        return _rounded_once(self.graph, len(self.graph.values) - 1, element)

    def _fresh_name(self, wanted: str | None) -> str:
        taken = {one.name for one in (*self.op.params, *self.op.results)}
        taken |= {one.name for one in self.temporaries.values()}
        name = wanted or "between"
        while name in taken:
            name += "_"
        return name


def heavy_needs(graph: Graph) -> tuple[frozenset[Ref], ...]:
    """For each value the heavy ones, reductions and contractions, that it is or is made of."""
    needs: list[frozenset[Ref]] = []
    for ref, value in enumerate(graph.values):
        own = {ref} if isinstance(value.node, Reduce | Contract) else set()
        needs.append(frozenset(own).union(*(needs[one] for one in operands(value.node))))
    return tuple(needs)


def _group_for(graph: Graph, ref: Ref) -> _Group:
    """A new part for a heavy value."""
    value = graph.values[ref]
    match value.node:
        case Reduce(arg=arg, dims=dims):
            kept = [dim for dim in graph.values[arg].type.dims if dim not in dims]
            return _Group("row", (*kept, *dims), dims)
        case Contract(left=left, right=right, dim=dim, batch=batch):
            rows, columns = (frozenset(graph.values[one].type.dims) - {dim, *batch} for one in (left, right))
            return _Group("product", value.type.dims, (dim,), (frozenset(batch), rows, columns))
    raise AssertionError(f"not heavy: {value.node}")


def _counts_positions(graph: Graph, ref: Ref) -> bool:
    """Whether a reduction gives a position, which the order of its dims decides."""
    node = graph.values[ref].node
    return isinstance(node, Reduce) and node.gives_position


def _stored(parts: Sequence[Part]) -> list[str]:
    """All that parts store to, in order."""
    return [store.target for part in parts for store in part.graph.stores]


def _rounded_once(graph: Graph, ref: Ref, element: Element) -> Ref:
    """The value whose store rounds as its cast to the very type that is stored would: the cast is left to the store."""
    convert = graph.values[ref].node
    if not isinstance(convert, Convert):
        return ref
    cast = graph.values[convert.arg]
    if (
        not isinstance(cast.node, Cast)
        or str(cast.type.element) != str(element)
        or not element.dtype.is_float
    ):
        return ref
    inner = graph.values[cast.node.arg].type.dtype
    return cast.node.arg if inner.is_float and inner.is_compute else ref
