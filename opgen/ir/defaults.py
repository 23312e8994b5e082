"""Defaults of parameters: constants that fit the types that they stand for."""

from __future__ import annotations

from collections.abc import Sequence

from opgen.diagnostics import Diagnostics
from opgen.dtypes import BOOL, DType, Kind
from opgen.ir import numbers
from opgen.ir.context import Context, Folded
from opgen.ir.expressions import constant
from opgen.ir.nodes import Number
from opgen.ir.scope import Functions
from opgen.ir.signature import Signature
from opgen.source import Span
from opgen.syntax import ast


def default_number(
    expr: ast.Expr, types: Sequence[DType], functions: Functions, diagnostics: Diagnostics, *, tensor: bool
) -> Number | None:
    """The exact number of a default that fits every type; None after a mistake (reported)."""
    folded = constant(Context(_nothing(expr.span), functions, {}, diagnostics), expr, "a default")
    if folded is None:
        return None
    mistake = next(
        (found for found in (_misfit(folded, dtype, tensor) for dtype in types) if found is not None), None
    )
    if mistake is not None:
        diagnostics.error("OPG322", mistake[0], expr.span, help=mistake[1])
        return None
    return folded.exact.number


def _nothing(span: Span) -> Signature:
    """A head that declares nothing: a default sees no names."""
    empty: frozenset[str] = frozenset()
    return Signature("", (), (), (), (), empty, False, False, empty, empty, empty, span)


def _misfit(folded: Folded, dtype: DType, tensor: bool) -> tuple[str, str | None] | None:
    """Why a default does not go with a type, and what would."""
    kind = folded.kind
    if dtype.is_bool and kind is not Kind.BOOL:
        return "the default of a bool is `true` or `false`", None
    if kind is Kind.BOOL and dtype is not BOOL:
        return f"the default of {dtype} is a number, not a bool", "write `1` or `0`"
    if dtype.is_integer and kind is Kind.FLOAT:
        return f"the default of {dtype} is an integer", None
    # A left-out float tensor reads as the exact number: it only has to fit the type that it is computed in.
    held = numbers.compute_float(dtype) if tensor and dtype.is_float else dtype
    return None if numbers.fits(folded.exact.value, held) else (f"this default does not fit {held}", None)
