"""Checks of `sizes`, `tile` and `test` blocks: each names something of the op, with values that make sense."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction

from opgen.diagnostics import Diagnostics, Note, did_you_mean
from opgen.dtypes import DTYPES, DType, Kind
from opgen.ir.context import Context
from opgen.ir.expressions import constant
from opgen.ir.nodes import (
    ELLIPSIS,
    Dim,
    DrawRange,
    HintRequest,
    ScalarParam,
    SizeCase,
    SizeRange,
    TensorParam,
    TestHints,
)
from opgen.ir.signature import Signature
from opgen.source import Span
from opgen.syntax import ast
from opgen.targets import TARGETS

#: What a key's values are: powers of two, positive integers, bools, or one of some words or numbers.
_POWERS, _COUNTS, _BOOLS = "powers of two", "positive integers", "`true` or `false`"
_KEYS: dict[str, str | tuple[str, ...]] = {
    "warps": _POWERS,
    "stages": _COUNTS,
    "group": _COUNTS,
    "persistent": _BOOLS,
    "split": _COUNTS,
    "tma": _BOOLS,
    "precision": ("ieee", "tf32", "tf32x3"),
    "kernels": ("1",),
    "strategy": ("fused", "library"),
}
_LARGEST = 1 << 20


# --- sizes --------------------------------------------------------------------------------------


def size_cases(
    signature: Signature, diagnostics: Diagnostics, blocks: Sequence[ast.Sizes]
) -> tuple[SizeCase, ...]:
    """The representative sizes of all `sizes` blocks, in order."""
    labels: dict[str, Span] = {}
    cases: list[SizeCase] = []
    for case in (case for block in blocks for case in block.cases):
        label = case.label.text
        if label in labels:
            note = Note("first defined here", labels[label])
            diagnostics.error(
                "OPG620", f"the sizes `{label}` are defined twice", case.label.span, notes=(note,)
            )
        labels.setdefault(label, case.label.span)
        cases.append(SizeCase(label, _case_sizes(signature, diagnostics, case)))
    return tuple(cases)


def _case_sizes(
    signature: Signature, diagnostics: Diagnostics, case: ast.SizeCase
) -> tuple[tuple[Dim, int], ...]:
    sizes: dict[Dim, int] = {}
    for size in case.sizes:
        dim = _plain_dim(signature, diagnostics, size.dim)
        if dim is None:
            continue
        if dim in sizes:
            diagnostics.error("OPG621", f"`{dim}` is given twice in `{case.label.text}`", size.span)
        elif (divisor := _divisor(signature, dim)) and size.value % divisor:
            message = (
                f"`{dim}` = {size.value} is not a multiple of {divisor}, which `{dim} / {divisor}` asks for"
            )
            diagnostics.error("OPG623", message, size.span)
        sizes.setdefault(dim, size.value)
    wanted = (*(Dim(name) for name in signature.dims), *((ELLIPSIS,) if signature.has_ellipsis else ()))
    absent = [f"`{dim}`" for dim in wanted if dim not in sizes]
    if absent and len(sizes) == len(case.sizes):
        message = f"the sizes `{case.label.text}` give no size for {', '.join(absent)}"
        diagnostics.warning("OPG624", message, case.label.span)
    return tuple(sizes.items())


def _divisor(signature: Signature, dim: Dim) -> int:
    """The number that every size of a dim is a multiple of: that of its `NAME / INT` forms."""
    tensors = [param.dims for param in signature.params if isinstance(param, TensorParam)]
    forms = [form for dims in (*tensors, *(result.dims for result in signature.results)) for form in dims]
    return math.lcm(*(form.over for form in forms if form.name == dim.name))


def _plain_dim(signature: Signature, diagnostics: Diagnostics, ref: ast.DimRef) -> Dim | None:
    """A dim of the op by its plain name, or `...`; None otherwise (reported)."""
    if isinstance(ref, ast.EllipsisDim):
        if signature.has_ellipsis:
            return ELLIPSIS
        diagnostics.error("OPG625", f"`...` is no dim of `{signature.name}`", ref.span)
        return None
    name = str(ref.size) if isinstance(ref, ast.FixedDim) else ref.name
    if name not in signature.dims:
        advice = did_you_mean(name, signature.dims)
        diagnostics.error("OPG625", f"`{name}` is no dim of `{signature.name}`", ref.span, help=advice)
        return None
    if isinstance(ref, ast.NamedDim) and (ref.times, ref.over) != (1, 1):
        diagnostics.error("OPG626", f"name the dim itself here: `{name}`", ref.span)
        return None
    return Dim(name)


# --- tile ---------------------------------------------------------------------------------------


def hint_requests(
    signature: Signature, diagnostics: Diagnostics, blocks: Sequence[ast.Tile]
) -> tuple[HintRequest, ...]:
    """The hints of all `tile` blocks, in order."""
    seen: dict[tuple[str, str | None], Span] = {}
    requests: list[HintRequest] = []
    for block in blocks:
        targets = tuple(_known_targets(diagnostics, block.targets))
        for hint in block.hints:
            request = _request(signature, diagnostics, hint, targets)
            if request is not None and _check_unique(diagnostics, request, seen):
                requests.append(request)
    return tuple(requests)


def _known_targets(diagnostics: Diagnostics, names: Iterable[ast.Name]) -> Iterator[str]:
    seen: set[str] = set()
    for name in names:
        if name.text not in TARGETS:
            advice = did_you_mean(name.text, TARGETS) or f"the targets are {', '.join(TARGETS)}"
            diagnostics.error("OPG630", f"unknown target `{name.text}`", name.span, help=advice)
        elif name.text in seen:
            diagnostics.error("OPG631", f"the target `{name.text}` is named twice", name.span)
        else:
            seen.add(name.text)
            yield name.text


def _check_unique(
    diagnostics: Diagnostics, request: HintRequest, seen: dict[tuple[str, str | None], Span]
) -> bool:
    places = [(request.key, target) for target in request.targets or (None,)]
    for place in places:
        if place in seen:
            note = Note("first given here", seen[place])
            where = f" for {place[1]}" if place[1] else ""
            diagnostics.error("OPG632", f"`{request.key}` is given twice{where}", request.span, notes=(note,))
            return False
        seen[place] = request.span
    return True


def _request(
    signature: Signature, diagnostics: Diagnostics, hint: ast.Hint, targets: tuple[str, ...]
) -> HintRequest | None:
    key = hint.key
    word = key.name if isinstance(key, ast.NamedDim) and (key.times, key.over) == (1, 1) else ""
    # A dim of the op that is spelled like a key means the dim.
    if word in _KEYS and word not in signature.dims:
        dim, allowed = None, _KEYS[word]
    else:
        dim, allowed = _hint_dim(signature, diagnostics, key), _POWERS
        if dim is None:
            return None
    name = word if dim is None else str(dim)
    values = _hint_values(diagnostics, name, allowed, hint.values)
    return None if values is None else HintRequest(name, dim, values, targets, hint.span)


def _hint_dim(signature: Signature, diagnostics: Diagnostics, key: ast.DimRef) -> Dim | None:
    if isinstance(key, ast.NamedDim) and key.name not in signature.dims:
        advice = did_you_mean(key.name, (*signature.dims, *_KEYS))
        message = f"`{key.name}` is no dim of `{signature.name}` and no hint"
        diagnostics.error("OPG625", message, key.span, help=advice)
        return None
    return _plain_dim(signature, diagnostics, key)


def _hint_values(
    diagnostics: Diagnostics, key: str, allowed: str | tuple[str, ...], values: ast.Choices | ast.PowersOfTwo
) -> tuple[int | bool | str, ...] | None:
    listed = values.values if isinstance(values, ast.Choices) else _powers(diagnostics, values)
    if listed is None:
        return None
    wrong = [value for value in listed if not _is_allowed(value, allowed)]
    if wrong:
        shown = str(wrong[0]).lower() if isinstance(wrong[0], bool) else str(wrong[0])
        wanted = allowed if isinstance(allowed, str) else " or ".join(f"`{word}`" for word in allowed)
        advice = did_you_mean(shown, allowed) if isinstance(allowed, tuple) else None
        diagnostics.error("OPG634", f"`{key}` takes {wanted}, not `{shown}`", values.span, help=advice)
        return None
    return tuple(dict.fromkeys(listed))


def _powers(diagnostics: Diagnostics, values: ast.PowersOfTwo) -> tuple[int, ...] | None:
    """`lo .. hi` as its powers of two."""
    if _is_power(values.low) and _is_power(values.high) and values.low <= values.high:
        return tuple(1 << bits for bits in range(values.low.bit_length() - 1, values.high.bit_length()))
    message = "`lo .. hi` goes from a power of two up to another"
    diagnostics.error("OPG635", message, values.span, help=f"powers of two from 1 to {_LARGEST}")
    return None


def _is_power(value: int) -> bool:
    return 0 < value <= _LARGEST and value & (value - 1) == 0


def _is_allowed(value: int | bool | str, allowed: str | tuple[str, ...]) -> bool:
    if isinstance(allowed, tuple):
        return not isinstance(value, bool) and str(value) in allowed
    if isinstance(value, (bool, str)):
        return allowed is _BOOLS and isinstance(value, bool)
    return _is_power(value) if allowed is _POWERS else allowed is _COUNTS and 0 < value <= _LARGEST


# --- test ---------------------------------------------------------------------------------------


def test_hints(context: Context, blocks: Sequence[ast.Test]) -> TestHints:
    """What `test` blocks restrict; `context` folds their numbers."""
    draws: dict[str, DrawRange] = {}
    tolerances: dict[DType, float] = {}
    sizes: dict[Dim, SizeRange] = {}
    for entry in (entry for block in blocks for entry in block.entries):
        if isinstance(entry, ast.DrawRange):
            draw = _draw_range(context, entry)
            if draw is not None and _check_once(context, draw.param, draws, entry.span):
                draws[draw.param] = draw
        elif isinstance(entry, ast.Tolerance):
            tolerance = _tolerance(context, entry)
            if tolerance is not None and _check_once(context, tolerance[0], tolerances, entry.span):
                tolerances[tolerance[0]] = tolerance[1]
        else:
            size = _size_range(context, entry)
            if size is not None and _check_once(context, size.dim, sizes, entry.span):
                sizes[size.dim] = size
    return TestHints(tuple(draws.values()), tuple(tolerances.items()), tuple(sizes.values()))


def _check_once(context: Context, key: object, known: Iterable[object], span: Span) -> bool:
    if key not in known:
        return True
    context.error("OPG640", f"`{key}` is restricted twice", span)
    return False


def _draw_range(context: Context, entry: ast.DrawRange) -> DrawRange | None:
    signature, name = context.signature, entry.name.text
    low, high = _number(context, entry.low), _number(context, entry.high)
    tensor, scalar = signature.tensor(name), signature.scalar(name)
    if tensor is None and scalar is None:
        if name not in signature.broken:
            advice = did_you_mean(name, signature.names())
            context.error(
                "OPG641", f"`{name}` is no parameter of `{signature.name}`", entry.name.span, advice
            )
        return None
    if low is None or high is None:
        return None
    for dtype in signature.types(name):
        if not dtype.is_float and (dtype.is_bool or low < dtype.lowest or high > dtype.largest):
            context.error(
                "OPG642", f"`{name}` is {dtype}, which has no such range", entry.low.span.to(entry.high.span)
            )
            return None
    if low > high:
        context.error("OPG643", "this range is empty", entry.low.span.to(entry.high.span))
        return None
    return DrawRange(name, low, high)


def _number(context: Context, expr: ast.Expr) -> float | None:
    """A finite number; None otherwise (reported)."""
    folded = constant(context, expr, "a bound")
    if folded is None:
        return None
    value = folded.exact.value
    fits = not isinstance(value, float) or math.isfinite(value)
    if folded.kind is Kind.BOOL or not fits or abs(Fraction(value)) > Fraction(DTYPES["f64"].largest):
        context.error("OPG644", "a finite number is wanted here", expr.span)
        return None
    return float(value)


def _tolerance(context: Context, entry: ast.Tolerance) -> tuple[DType, float] | None:
    types = _op_types(context.signature)
    value = _number(context, entry.value)
    dtype = DTYPES.get(entry.type.text)
    if dtype is None or dtype not in types:
        known = [other.name for other in types]
        message = f"`{entry.type.text}` is no element type of `{context.signature.name}`"
        context.error("OPG645", message, entry.type.span, did_you_mean(entry.type.text, known))
        return None
    if value is not None and value < 0:
        context.error("OPG646", "a tolerance is not negative", entry.value.span)
        return None
    return None if value is None else (dtype, value)


def _op_types(signature: Signature) -> tuple[DType, ...]:
    """The element types that the op's tensors and scalars can have."""
    tensors = [param.element for param in signature.params if isinstance(param, TensorParam)]
    elements = [*tensors, *(result.element for result in signature.results)]
    concrete = [element.dtype for element in elements if element.variable is None]
    scalars = [param.dtype for param in signature.params if isinstance(param, ScalarParam)]
    variables = [dtype for variable in signature.variables for dtype in variable.types]
    return tuple(dict.fromkeys((*concrete, *scalars, *variables)))


def _size_range(context: Context, entry: ast.SizeRange) -> SizeRange | None:
    dim = _plain_dim(context.signature, context.diagnostics, entry.dim)
    if dim is None:
        return None
    if entry.low > entry.high:
        context.error("OPG643", "this range is empty", entry.span)
        return None
    return SizeRange(dim, entry.low, entry.high)
