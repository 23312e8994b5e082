"""Reductions and contractions in eager PyTorch."""

from __future__ import annotations

from opgen.emit.exprs import ATOM, Text
from opgen.emit.layouts import Layout, named
from opgen.emit.tables import dims_text
from opgen.ir.nodes import ELLIPSIS, Contract, Dim, Reduce

#: Reductions that tensors have as methods, right for any dims and sizes.
_METHODS = frozenset({"sum", "mean", "any", "all", "logsumexp"})


def reduce_text(node: Reduce, arg: Text, layout: Layout) -> Text:
    """A reduction of a value with its layout; named dims stay, with one element, and leading ones go."""
    slots = named(layout)
    places = [slots.index(dim) - len(slots) for dim in node.dims if not dim.is_ellipsis]
    leading = ELLIPSIS in node.dims
    if leading:
        arg = Text(f"rt.eager.merged({arg.code}, {len(slots)})")
        places.insert(0, -1 - len(slots))
    if node.kind in _METHODS:
        axes = str(places[0]) if len(places) == 1 else str(tuple(places))
        code = f"{arg.within(ATOM)}.{node.kind}({axes}, keepdim=True)"
    else:
        code = f"rt.eager.{node.kind}_over({arg.code}, {tuple(places)})"
    return Text(f"{code}[0]" if leading else code)


def contract_text(
    node: Contract,
    sides: tuple[Text, Text],
    dims: tuple[tuple[Dim, ...], tuple[Dim, ...]],
    result: tuple[Dim, ...],
) -> Text:
    """A contraction of two values over exactly their dims: as a matrix product where these stand so."""
    (left, right), (left_dims, right_dims) = sides, dims
    own = tuple(dim for dim in right_dims if dim not in node.batch and dim != node.dim)
    rows = tuple(dim for dim in left_dims if dim not in node.batch and dim != node.dim)
    if not node.batch and len(own) <= 1 and ELLIPSIS not in own:
        turned = ".T" if right_dims == (*own, node.dim) and own else ""
        return Text(f"rt.eager.matmul({left.code}, {right.within(ATOM) if turned else right.code}{turned})")
    is_stack = len(rows) == len(own) == 1 and ELLIPSIS not in (*rows, *own)
    is_stack = is_stack and left_dims == (*node.batch, *rows, node.dim)
    if is_stack and right_dims == (*node.batch, node.dim, *own):
        return Text(f"rt.eager.matmul({left.code}, {right.code})")
    if is_stack and right_dims == (*node.batch, *own, node.dim):
        return Text(f"rt.eager.matmul({left.code}, {right.within(ATOM)}.mT)")
    arguments = f"{left.code}, {dims_text(left_dims)}, {right.code}, {dims_text(right_dims)}"
    return Text(f'rt.eager.contract({arguments}, "{node.dim}", {dims_text(result)})')
