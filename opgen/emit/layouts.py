"""How the values of a graph stand as PyTorch tensors: which dim is where, and what must move before it meets others.

In:  s = mean[C](x), y = x - s * g      (x: [..., C, H], g: [H])
Out: s: [..., -, H], with one element where `C` was; nothing moves.

A value's layout is its dims in order; None stands for a place with one element, where a dim was reduced. Values meet as
PyTorch broadcasts them where that matches their dims by name; where it does not, each moves to the dims of the result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TypeAlias

from opgen.ir import dims as dim_rules
from opgen.ir.nodes import (
    ELLIPSIS,
    Apply,
    Cast,
    Const,
    Contract,
    Convert,
    Dim,
    Gather,
    Graph,
    Index,
    Literal,
    Op,
    Random,
    Read,
    Reduce,
    Ref,
    Scalar,
    Size,
    Value,
)
from opgen.ir.operands import operands

Slot: TypeAlias = Dim | None
Layout: TypeAlias = tuple[Slot, ...]


def layouts(graph: Graph, moved: Mapping[str, Layout] = MappingProxyType({})) -> tuple[Layout, ...]:
    """The layout of each value, where some tensors have moved."""
    found: list[Layout] = []
    for value in graph.values:
        own = _layout(value, found)
        found.append(moved.get(value.node.param, own) if isinstance(value.node, Read) else own)
    return tuple(found)


def _layout(value: Value, earlier: Sequence[Layout]) -> Layout:
    match value.node:
        case Convert(arg=arg) | Cast(arg=arg):
            return earlier[arg]
        case Apply(args=args):
            return _joined([earlier[arg] for arg in args], value.type.dims)
        case Reduce(arg=arg, dims=dims):
            kept = (slot for slot in earlier[arg] if slot != ELLIPSIS or ELLIPSIS not in dims)
            return tuple(None if slot in dims else slot for slot in kept)
        case Literal() | Scalar() | Const() | Size() | Read() | Index() | Random() | Gather() | Contract():
            return value.type.dims


def _joined(operands: Sequence[Layout], dims: tuple[Dim, ...]) -> Layout:
    """The layout in which operands meet: their own where they broadcast as they are, else `dims`."""
    widest = max(operands, key=lambda layout: len(named(layout)))
    slots = [
        next((own for own in (_at(layout, place) for layout in operands) if own is not None), None)
        for place in range(-len(named(widest)), 0)
    ]
    joined = (*((ELLIPSIS,) if any(ELLIPSIS in layout for layout in operands) else ()), *slots)
    own = [slot for slot in slots if slot is not None]
    once = all(dim_rules.find(own[:place], dim) is None for place, dim in enumerate(own))
    return joined if once and all(is_aligned(layout, joined) for layout in operands) else dims


def _at(layout: Layout, place: int) -> Slot:
    """What stands at a place counted from the right; None before the first dim."""
    slots = named(layout)
    return slots[place] if -place <= len(slots) else None


def named(layout: Layout) -> Layout:
    """A layout without its leading dims."""
    return tuple(slot for slot in layout if slot != ELLIPSIS)


def is_aligned(layout: Layout, onto: Layout) -> bool:
    """Whether PyTorch's broadcasting from the right lines a value up with others of the layout `onto`."""
    own, whole = named(layout), named(onto)
    if len(own) > len(whole) or (ELLIPSIS in layout and len(own) < len(whole)):
        return False
    pairs = zip(reversed(own), reversed(whole), strict=False)
    return all(slot is None or slot == there for slot, there in pairs)


def moved_when_read(graph: Graph, found: Sequence[Layout]) -> dict[str, Layout]:
    """The tensors that move right where they are read, with where to: those that all uses want over the same dims."""
    param_of: dict[Ref, str] = {}
    wanted: dict[str, set[Layout]] = {}
    own: dict[str, Layout] = {}
    for ref, value in enumerate(graph.values):
        node = value.node
        if isinstance(node, Read):
            param_of[ref], own[node.param] = node.param, value.type.dims
        elif isinstance(node, Convert) and node.arg in param_of:
            param_of[ref] = param_of[node.arg]
        else:
            meets = isinstance(node, Apply | Gather)
            for operand in operands(node):
                if operand in param_of:
                    onto = found[ref] if meets else found[operand]
                    wanted.setdefault(param_of[operand], set()).add(onto)
    for store in graph.stores:
        if store.value in param_of:
            wanted.setdefault(param_of[store.value], set()).add(found[store.value])
    alone = {param: next(iter(layouts)) for param, layouts in wanted.items() if len(layouts) == 1}
    return {param: onto for param, onto in alone.items() if not is_aligned(own[param], onto)}


def is_structural(op: Op) -> bool:
    """Whether an op reduces or contracts anything."""
    values = (value for variant in op.variants for value in variant.graph.values)
    return any(isinstance(value.node, Reduce | Contract) for value in values)
