"""Checks an op's head and resolves it to a `Signature`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from opgen.diagnostics import Diagnostics, Note, did_you_mean
from opgen.dtypes import DEFAULT_VARIABLE, DTYPES, F32, DType
from opgen.ir import dims as dim_rules
from opgen.ir.defaults import default_number
from opgen.ir.nodes import ELLIPSIS, Dim, Element, Param, Result, ScalarParam, TensorParam, Variable
from opgen.ir.scope import Functions
from opgen.ir.signature import Signature
from opgen.syntax import ast

_TYPES = f"the types are {', '.join(DTYPES)}"


@dataclass
class _Declaration:
    """An op's head as it is read: what was found so far."""

    op: ast.Op
    functions: Functions
    diagnostics: Diagnostics
    variables: dict[str, Variable] = field(default_factory=dict)
    params: list[Param] = field(default_factory=list)
    results: list[Result] = field(default_factory=list)
    idle: set[str] = field(default_factory=set)
    broken: set[str] = field(default_factory=set)

    def signature(self) -> Signature:
        tensors = [item for item in self.op.params if isinstance(item.type, ast.TensorType)]
        given = [
            item.type for item in tensors if item.default is None and isinstance(item.type, ast.TensorType)
        ]
        everything = _types(self.op)
        return Signature(
            name=self.op.name.text,
            params=tuple(self.params),
            results=tuple(self.results),
            variables=tuple(self.variables.values()),
            dims=tuple(dict.fromkeys(_names(everything))),
            known_dims=frozenset(_names(given)),
            has_ellipsis=any(_has_ellipsis(type_) for type_ in everything),
            known_ellipsis=any(_has_ellipsis(type_) for type_ in given),
            known_variables=frozenset(
                type_.element.text for type_ in given if type_.element.text in self.variables
            ),
            idle_variables=frozenset(self.idle),
            broken=frozenset(self.broken),
            span=self.op.name.span,
        )


def _types(op: ast.Op) -> list[ast.TensorType | ast.ScalarType]:
    return [*(param.type for param in op.params), *(result.type for result in op.results)]


def _names(types: Sequence[ast.TensorType | ast.ScalarType]) -> Iterator[str]:
    for type_ in types:
        if isinstance(type_, ast.TensorType):
            yield from (dim.name for dim in type_.dims if isinstance(dim, ast.NamedDim))


def _has_ellipsis(type_: ast.TensorType | ast.ScalarType) -> bool:
    return isinstance(type_, ast.TensorType) and any(isinstance(dim, ast.EllipsisDim) for dim in type_.dims)


def declare(op: ast.Op, functions: Functions, diagnostics: Diagnostics) -> Signature:
    """The resolved head of an op; every mistake in it is reported."""
    head = _Declaration(op, functions, diagnostics)
    _declare_variables(head)
    _check_names(head)
    for param in op.params:
        _declare_param(head, param)
    for result in op.results:
        _declare_result(head, result)
    signature = head.signature()
    _check_known(signature, head)
    if not op.results and not any(param.kind == "inout" for param in op.params):
        diagnostics.error("OPG310", f"`{op.name.text}` has no result and no `inout` parameter", op.name.span)
    elif not any(isinstance(param.type, ast.TensorType) and param.default is None for param in op.params):
        message = f"`{op.name.text}` needs a tensor that cannot be left out: it says on which device to run"
        diagnostics.error("OPG323", message, op.name.span)
    return signature


# --- type variables -----------------------------------------------------------------------------


def _declare_variables(head: _Declaration) -> None:
    for variable in head.op.variables:
        name, types = variable.name, _variable_types(head, variable)
        if name.text in DTYPES:
            head.diagnostics.error("OPG301", f"`{name.text}` is a type: choose another name", name.span)
        elif name.text in head.variables:
            head.diagnostics.error("OPG302", f"the type variable `{name.text}` is declared twice", name.span)
        else:
            head.variables[name.text] = Variable(name.text, types)
    elements = _elements(head.op)
    if "T" in elements and "T" not in head.variables:
        head.variables["T"] = Variable("T", DEFAULT_VARIABLE)
    for variable in head.op.variables:
        if variable.name.text in head.variables and variable.name.text not in elements:
            message = f"the type variable `{variable.name.text}` occurs in no parameter or result"
            head.diagnostics.warning("OPG303", message, variable.name.span)
            head.idle.add(variable.name.text)
            del head.variables[variable.name.text]


def _elements(op: ast.Op) -> tuple[str, ...]:
    return tuple(type_.element.text for type_ in _types(op))


def _variable_types(head: _Declaration, variable: ast.TypeVariable) -> tuple[DType, ...]:
    """The types of a variable; f32 stands in where none is left, so that the rest can still be checked."""
    types: list[DType] = []
    for name in variable.types:
        dtype = DTYPES.get(name.text)
        if dtype is None:
            advice = did_you_mean(name.text, DTYPES) or _TYPES
            head.diagnostics.error("OPG304", f"unknown type `{name.text}`", name.span, help=advice)
        elif dtype in types:
            head.diagnostics.error("OPG305", f"`{name.text}` is listed twice", name.span)
        elif dtype.is_packed:
            message = f"`{name.text}` is passed as bytes, two to each: a tensor declares it by itself"
            head.diagnostics.error("OPG306", message, name.span, help=f"write `{name.text}[…]`")
        else:
            types.append(dtype)
    return tuple(types) or (F32,)


def _element(head: _Declaration, name: ast.Name) -> Element | None:
    if name.text in head.variables:
        return Element(head.variables[name.text].types[0], name.text)
    if name.text in DTYPES:
        return Element(DTYPES[name.text])
    # A variable that was refused is not reported again.
    if name.text not in [variable.name.text for variable in head.op.variables]:
        known = (*DTYPES, *head.variables)
        declaration = f"declare it: `for {name.text} in {{f16, bf16}}`" if name.text.isupper() else None
        advice = did_you_mean(name.text, known) or declaration or _TYPES
        head.diagnostics.error("OPG304", f"unknown type `{name.text}`", name.span, help=advice)
    return None


# --- names --------------------------------------------------------------------------------------


def _check_names(head: _Declaration) -> None:
    types = _types(head.op)
    dims = frozenset(_names(types))
    seen: dict[str, ast.Name] = {}
    names = [
        *((True, param.name) for param in head.op.params),
        *((False, result.name) for result in head.op.results),
    ]
    for is_param, name in names:
        if name.text in seen:
            note = Note("first defined here", seen[name.text].span)
            head.diagnostics.error("OPG311", f"`{name.text}` is defined twice", name.span, notes=(note,))
        elif name.text in head.variables:
            message = f"`{name.text}` is a type variable of the op: choose another name"
            head.diagnostics.error("OPG312", message, name.span)
        elif name.text in dims:
            head.diagnostics.error(
                "OPG312", f"`{name.text}` is a dim of the op: choose another name", name.span
            )
        elif is_param and name.text == "out":
            message = "a parameter cannot be named `out`: generated functions take `out=`"
            head.diagnostics.error("OPG313", message, name.span)
        seen.setdefault(name.text, name)
    for type_ in types:
        for dim in type_.dims if isinstance(type_, ast.TensorType) else ():
            if isinstance(dim, ast.NamedDim) and dim.name in head.variables:
                head.diagnostics.error("OPG312", f"`{dim.name}` is a type variable of the op", dim.span)


# --- parameters and results ---------------------------------------------------------------------


def _declare_param(head: _Declaration, param: ast.Param) -> None:
    if any(known.name == param.name.text for known in head.params):
        return
    if param.default is None and any(earlier.default is not None for earlier in _before(head.op, param)):
        message = f"`{param.name.text}` has no default and comes after a parameter that has one"
        head.diagnostics.error("OPG314", message, param.name.span)
    if isinstance(param.type, ast.TensorType):
        declared: Param | None = _tensor_param(head, param, param.type)
    else:
        declared = _scalar_param(head, param, param.type)
    if declared is None:
        head.broken.add(param.name.text)
    else:
        head.params.append(declared)


def _before(op: ast.Op, param: ast.Param) -> tuple[ast.Param, ...]:
    return op.params[: [id(other) for other in op.params].index(id(param))]


def _tensor_param(head: _Declaration, param: ast.Param, type_: ast.TensorType) -> TensorParam | None:
    element, dims = _element(head, type_.element), _dims(head, type_)
    if param.kind == "const":
        head.diagnostics.error(
            "OPG315", "a `const` is a scalar", param.type.span, help=f"write `const {param.name.text}: i32`"
        )
        return None
    if param.kind == "inout" and param.default is not None:
        message = "an `inout` tensor cannot be left out, so it has no default"
        head.diagnostics.error("OPG316", message, param.default.span)
        return None
    if element is None or dims is None or not _check_packed(head, element, type_):
        return None
    default = None
    if param.default is not None:
        types = (element.dtype,) if element.variable is None else head.variables[element.variable].types
        default = default_number(param.default, types, head.functions, head.diagnostics, tensor=True)
        if default is None:
            return None
    return TensorParam(param.name.text, element, dims, param.kind == "inout", default, param.name.span)


def _scalar_param(head: _Declaration, param: ast.Param, type_: ast.ScalarType) -> ScalarParam | None:
    name = type_.element
    dtype = DTYPES.get(name.text)
    const = param.kind == "const"
    if param.kind == "inout":
        head.diagnostics.error(
            "OPG317", "an `inout` parameter is a tensor", type_.span, help="write its dims: `f32[]` has none"
        )
    elif name.text in head.variables:
        message = f"a scalar has a concrete type, and `{name.text}` is a type variable"
        head.diagnostics.error(
            "OPG318", message, name.span, help="write `f32`, or `" + name.text + "[]` for a 0-d tensor"
        )
    elif dtype is None:
        _element(head, name)
    elif dtype.is_packed:
        head.diagnostics.error(
            "OPG319", f"`{name.text}` is packed two to a byte: it is a type of tensors only", name.span
        )
    elif const and not (dtype.is_bool or dtype.is_integer or dtype is F32):
        head.diagnostics.error(
            "OPG320", f"a `const` is a bool, an integer or f32, not {name.text}", name.span
        )
    else:
        default = None
        if param.default is not None:
            default = default_number(param.default, (dtype,), head.functions, head.diagnostics, tensor=False)
            if default is None:
                return None
        return ScalarParam(param.name.text, dtype, const, default, param.name.span)
    return None


def _declare_result(head: _Declaration, result: ast.Result) -> None:
    element, dims = _element(head, result.type.element), _dims(head, result.type)
    if element is None or dims is None or not _check_packed(head, element, result.type):
        head.broken.add(result.name.text)
    elif all(known.name != result.name.text for known in (*head.params, *head.results)):
        head.results.append(Result(result.name.text, element, dims, result.name.span))


def _check_packed(head: _Declaration, element: Element, type_: ast.TensorType) -> bool:
    if not element.dtype.is_packed:
        return True
    last = type_.dims[-1] if type_.dims else None
    if last is None:
        why = "this tensor has none"
    elif isinstance(last, ast.EllipsisDim):
        why = "it needs a dim of its own behind `...`"
    elif isinstance(last, ast.FixedDim) and last.size % 2:
        why = "its size must be even"
    else:
        return True
    span = type_.span if last is None else last.span
    head.diagnostics.error("OPG321", f"`{element}` is packed along the last dim, and {why}", span)
    return False


def _dims(head: _Declaration, type_: ast.TensorType) -> tuple[Dim, ...] | None:
    """The dims of a tensor; None after a mistake (reported)."""
    dims: list[Dim] = []
    fine = True
    for position, ref in enumerate(type_.dims):
        dim = _dim(ref)
        known = dim_rules.find(dims, dim)
        if dim.is_ellipsis and position > 0:
            head.diagnostics.error("OPG330", "`...` stands first, and once", ref.span)
        elif known is not None:
            same = f"`{dim}` occurs twice" if known == dim else f"`{known}` and `{dim}` occur"
            advice = _unequal_names(dim)
            head.diagnostics.error("OPG332", f"{same} in one tensor", ref.span, help=advice)
        else:
            dims.append(dim)
            continue
        fine = False
    return tuple(dims) if fine else None


def _unequal_names(dim: Dim) -> str:
    if dim.fixed is not None:
        return f"name one of them and write `require P == {dim.fixed}`"
    return f"give one of them another name, such as `P`, and write `require {dim.name} == P`"


def _dim(ref: ast.DimRef) -> Dim:
    if isinstance(ref, ast.EllipsisDim):
        return ELLIPSIS
    return Dim(str(ref.size)) if isinstance(ref, ast.FixedDim) else Dim(ref.name, ref.times, ref.over)


def _check_known(signature: Signature, head: _Declaration) -> None:
    """What results use must be known whatever is left out, and so must the types of all tensors."""
    unknown_variables = head.variables.keys() - signature.known_variables
    results, params = (result.type for result in head.op.results), (param.type for param in head.op.params)
    for element in (*(type_.element for type_ in results), *(type_.element for type_ in params)):
        if element.text in unknown_variables:
            unknown_variables.remove(element.text)
            message = f"the type variable `{element.text}` must occur in a tensor that cannot be left out"
            head.diagnostics.error("OPG505", message, element.span)
    for result in head.op.results:
        for ref in result.type.dims:
            unknown = isinstance(ref, ast.NamedDim) and ref.name not in signature.known_dims
            unknown = unknown or (isinstance(ref, ast.EllipsisDim) and not signature.known_ellipsis)
            if unknown:
                message = f"the dim `{_dim(ref)}` must occur in a tensor that cannot be left out"
                name = ref.name if isinstance(ref, ast.NamedDim) else "..."
                head.diagnostics.error(
                    "OPG502", message, ref.span, help=did_you_mean(name, signature.known_dims)
                )
