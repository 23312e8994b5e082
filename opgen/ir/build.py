"""The graph under construction: equal nodes of equal type become one value."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from opgen.dtypes import DType
from opgen.ir.nodes import (
    Cast,
    Const,
    Dim,
    Element,
    Gather,
    Graph,
    Index,
    Node,
    Read,
    Ref,
    Scalar,
    Size,
    Store,
    Type,
    Value,
)
from opgen.source import Span

#: Nodes whose values have a storage type.
STORAGE_NODES = (Read, Gather, Cast)
#: Nodes that have a name of their own: one that the spec gives beside it is not kept.
_NAMED_NODES = (Read, Scalar, Const, Size, Index)


@dataclass
class GraphBuilder:
    values: list[Value] = field(default_factory=list)
    stores: list[Store] = field(default_factory=list)
    _known: dict[tuple[Node, Type], Ref] = field(default_factory=dict)

    def add(self, node: Node, element: Element | DType, dims: tuple[Dim, ...], span: Span) -> Ref:
        """The position of a value with this node and type, appended where there is none."""
        type_ = Type(element if isinstance(element, Element) else Element(element), dims)
        if (node, type_) not in self._known:
            self._known[node, type_] = len(self.values)
            self.values.append(Value(node, type_, span=span))
        return self._known[node, type_]

    def type(self, ref: Ref) -> Type:
        return self.values[ref].type

    def is_storage(self, ref: Ref) -> bool:
        """Whether the value has a storage type, so that its users convert it."""
        return isinstance(self.values[ref].node, STORAGE_NODES)

    def name(self, ref: Ref, name: str) -> None:
        """Gives a value its name; the first one stays."""
        value = self.values[ref]
        if value.name is None and not isinstance(value.node, _NAMED_NODES):
            self.values[ref] = replace(value, name=name)

    def store(self, target: str, ref: Ref) -> None:
        self.stores.append(Store(target, ref))

    def graph(self) -> Graph:
        return Graph(tuple(self.values), tuple(self.stores))
