"""Lowering of what is read: parameters, dims, positions, gathers and random numbers."""

from __future__ import annotations

from collections.abc import Sequence

from opgen.diagnostics import Note, did_you_mean
from opgen.dtypes import DTYPES, F32, I64, Kind
from opgen.ir import dims as dim_rules
from opgen.ir.context import Computed, Context, Folded, Operand
from opgen.ir.dims import DimError
from opgen.ir.nodes import ELLIPSIS, Const, Dim, Gather, Index, Random, Read, Ref, Scalar, Size
from opgen.ir.numbers import exact
from opgen.ir.scope import BUILT_INS
from opgen.ir.signature import chosen
from opgen.ir.types import convert, integer_literal_type
from opgen.source import Span
from opgen.syntax import ast


def reference(context: Context, name: str, span: Span) -> Operand:
    """A name: an argument of the function being expanded, a named value, a parameter or a dim."""
    if context.frames:
        return _argument(context, name, span)
    context.used.add(name)
    if name in context.names:
        return _at(context.names[name].operand, span)
    if name in context.later:
        note = Note("assigned here", context.later[name])
        message = f"`{name}` is read before it is assigned"
        context.diagnostics.error("OPG405", message, span, notes=(note,))
        return None
    return _declared(context, name, span)


def _at(operand: Operand, span: Span) -> Operand:
    """The same operand, standing where it is used."""
    if isinstance(operand, Folded):
        return Folded(operand.exact, span)
    return None if operand is None else Computed(operand.ref, span)


def _argument(context: Context, name: str, span: Span) -> Operand:
    frame = context.frames[-1]
    if name in frame.arguments:
        return frame.arguments[name]
    if name in frame.dims:
        return _size(context, frame.dims[name], span)
    known = (*frame.arguments, *frame.dims)
    context.error("OPG401", f"unknown name `{name}`", span, did_you_mean(name, known))
    return None


def _size(context: Context, dim: Dim, span: Span) -> Operand:
    if dim.is_ellipsis:
        context.error("OPG530", "`...` has no single size", span, "name the dims that are meant")
        return None
    if dim.fixed is not None:
        return Folded(exact(dim.fixed, Kind.INTEGER), span)
    return Computed(context.graph.add(Size(dim), I64, (), context.place(span)), span)


def _declared(context: Context, name: str, span: Span) -> Operand:
    signature = context.signature
    if name in signature.broken:
        return None
    scalar = signature.scalar(name)
    if name in context.tensors:
        element, dims = context.tensors[name]
        return Computed(context.graph.add(Read(name), element, dims, context.place(span)), span)
    if scalar is not None:
        node = Const(name) if scalar.const else Scalar(name)
        dtype = DTYPES[scalar.dtype.compute]
        return Computed(context.graph.add(node, dtype, (), context.place(span)), span)
    if name in signature.dims:
        return _size(context, Dim(name), span) if context.check_dim(name, span) else None
    _report_unknown(context, name, span)
    return None


def _report_unknown(context: Context, name: str, span: Span) -> None:
    if context.signature.variable(name) is not None or name in DTYPES:
        context.error("OPG406", f"`{name}` is a type, and a value is wanted here", span)
        return
    if context.functions.find(name, None) is not None:
        context.error("OPG406", f"`{name}` is a function: call it", span)
        return
    if name in context.hidden:
        advice = "it is written over the parameters, the results and `d_y` for each result `y`"
        context.error("OPG408", f"a gradient cannot read the body's `{name}`", span, advice)
        return
    known = (*context.tensors, *context.signature.names(), *context.names, *context.signature.dims)
    context.error("OPG401", f"unknown name `{name}`", span, did_you_mean(name, known))


def read_tensors(context: Context) -> None:
    """Makes the op's tensor parameters readable."""
    for param in context.signature.params:
        tensor = context.signature.tensor(param.name)
        if tensor is not None and param.name not in context.signature.broken:
            context.tensors[param.name] = (chosen(tensor.element, context.choice), tensor.dims)


def position(context: Context, node: ast.Position) -> Operand:
    """`index[D]`."""
    word = node.callee.text
    if word != "index":
        _report_bare_brackets(context, node)
        return None
    if len(node.dims) != 1:
        context.error("OPG531", "`index` names one dim: `index[M]`", node.span)
        return None
    if isinstance(node.dims[0], ast.EllipsisDim):
        context.error("OPG532", "`index[...]` is not allowed: name one dim", node.dims[0].span)
        return None
    dim = context.dim(node.dims[0])
    if dim is None:
        return None
    if dim.is_ellipsis:
        context.error("OPG532", "`index[...]` is not allowed: name one dim", node.span)
        return None
    return Computed(context.graph.add(Index(dim), I64, (dim,), context.place(node.span)), node.span)


def _report_bare_brackets(context: Context, node: ast.Position) -> None:
    word = node.callee.text
    if word in BUILT_INS or context.functions.find(word, None) is not None:
        what = "a seed" if word == "rand" else "a value"
        context.error("OPG407", f"`{word}[…]` needs {what} in parentheses", node.span)
    elif word in context.signature.names() or word in context.names:
        advice = f"an element is read with coordinates: `{word}[D: e]`"
        context.error("OPG407", f"`{word}[…]` names dims but no coordinates", node.span, advice)
    else:
        message = f"unknown name `{word}`"
        context.error(
            "OPG401", message, node.callee.span, did_you_mean(word, ("index", *context.signature.names()))
        )


def random(context: Context, dims: Sequence[tuple[Dim, Span]], seed: Operand, span: Span) -> Operand:
    """`rand[dims](seed)`; None after a mistake (reported)."""
    fine = True
    for place, (dim, dim_span) in enumerate(dims):
        earlier = [other for other, _ in dims[:place]]
        if dim_rules.find(earlier, dim) is not None:
            context.error("OPG510", f"`{dim}` is named twice", dim_span)
            fine = False
        elif dim.is_ellipsis and earlier:
            context.error("OPG533", "`...` stands first", dim_span)
            fine = False
    if seed is None or not fine:
        return None
    if context.kind(seed) is not Kind.INTEGER or context.dims(seed):
        message = (
            f"the seed of `rand` must be an integer without dims, and this is {_shape_phrase(context, seed)}"
        )
        context.error("OPG534", message, seed.span)
        return None
    key = convert(context, seed, I64)
    if key is None:
        return None
    named = tuple(dim for dim, _ in dims)
    return Computed(context.graph.add(Random(named, key), F32, named, context.place(span)), span)


def _shape_phrase(context: Context, operand: Folded | Computed) -> str:
    dims = context.dims(operand)
    return context.describe(operand) + (f" with dims {dim_rules.listed(dims)}" if dims else "")


# --- gathers ------------------------------------------------------------------------------------


def gather(context: Context, node: ast.Gather, indices: Sequence[Operand]) -> Operand:
    """`base[D: e, …]` with its coordinates lowered; None after a mistake (reported)."""
    param = _gathered_param(context, node)
    if param is None:
        return None
    element, dims = context.tensors[param]
    coordinates: list[tuple[Dim, Ref, tuple[Dim, ...]]] = []
    fine = True
    for coordinate, index in zip(node.coordinates, indices, strict=True):
        dim = _coordinate_dim(context, param, dims, coordinate.dim)
        if dim is not None and dim in [other for other, _, _ in coordinates]:
            context.error("OPG510", f"`{dim}` is named twice", coordinate.dim.span)
            dim = None
        ref = _coordinate_index(context, index)
        if dim is None or ref is None or index is None:
            fine = False
            continue
        coordinates.append((dim, ref, context.dims(index)))
    if not fine:
        return None
    try:
        result = _gathered_dims(dims, {dim: new for dim, _, new in coordinates})
    except DimError as error:
        context.error("OPG501", error.message, node.span)
        return None
    gathered = Gather(param, tuple((dim, ref) for dim, ref, _ in coordinates))
    return Computed(context.graph.add(gathered, element, result, context.place(node.span)), node.span)


def _gathered_param(context: Context, node: ast.Gather) -> str | None:
    name = node.base.text
    if context.frames:
        operand = _argument(context, name, node.base.span)
        if operand is None:
            return None
        read = context.graph.values[operand.ref].node if isinstance(operand, Computed) else None
        if not isinstance(read, Read):
            context.error("OPG540", "only parameters are gathered, and this is an expression", node.base.span)
            return None
        name = read.param
    context.used.add(name)
    if name in context.signature.broken:
        return None
    tensor = context.signature.tensor(name)
    if name in context.names:
        what = (
            "the parameter's old value is gone after its assignment"
            if tensor
            else "only parameters are gathered"
        )
        context.error("OPG540", f"`{name}` cannot be gathered: {what}", node.base.span)
    elif tensor is not None and tensor.optional:
        message = f"`{name}` may be left out: only parameters that cannot be are gathered"
        context.error("OPG540", message, node.base.span)
    elif name in context.tensors:
        return name
    elif context.signature.scalar(name) is not None:
        context.error("OPG540", f"`{name}` is a scalar and has no dims to gather along", node.base.span)
    else:
        context.error(
            "OPG401", f"unknown parameter `{name}`", node.base.span, did_you_mean(name, context.tensors)
        )
    return None


def _coordinate_dim(context: Context, param: str, dims: tuple[Dim, ...], ref: ast.DimRef) -> Dim | None:
    if isinstance(ref, ast.EllipsisDim):
        context.error("OPG541", "`...` cannot be replaced by a coordinate: name one dim", ref.span)
        return None
    dim = context.dim(ref)
    if dim is None or dim in dims:
        return dim
    near = did_you_mean(str(dim), [str(other) for other in dims])
    context.error("OPG542", f"`{param}` has no dim `{dim}`: it is {dim_rules.listed(dims)}", ref.span, near)
    return None


def _coordinate_index(context: Context, index: Operand) -> Ref | None:
    if index is None:
        return None
    if context.kind(index) is not Kind.INTEGER:
        message = f"a coordinate must be an integer, and this is {context.describe(index)}"
        context.error("OPG543", message, index.span, f"write `cast({context.quote(index.span)}, i32)`")
        return None
    dtype = integer_literal_type(context, index) if isinstance(index, Folded) else context.compute_type(index)
    return None if dtype is None else convert(context, index, dtype)


def _gathered_dims(dims: tuple[Dim, ...], replaced: dict[Dim, tuple[Dim, ...]]) -> tuple[Dim, ...]:
    """The tensor's dims, with those of the coordinates that are new in the place of the dims that they replace.

    Raises `DimError` for divisors that do not meet.
    """
    kept = [dim for dim in dims if dim not in replaced and not dim.is_ellipsis]
    new = [dim for dims_ in replaced.values() for dim in dims_ if not dim.is_ellipsis]
    result: list[Dim] = []
    for dim in dims:
        for candidate in (dim,) if dim in kept else replaced.get(dim, ()):
            in_place = dim in kept or dim_rules.find(kept, candidate) is None
            if in_place and not candidate.is_ellipsis and dim_rules.find(result, candidate) is None:
                result.append(candidate)
    for other in new:
        here = dim_rules.find(result, other)
        assert here is not None
        result[result.index(here)] = dim_rules.finer(here, other)
    present = ELLIPSIS in dims or any(ELLIPSIS in dims_ for dims_ in replaced.values())
    return dim_rules.with_ellipsis(present, result)
