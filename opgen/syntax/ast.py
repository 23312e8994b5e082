"""What was written: frozen syntax nodes with spans. No types, defaults or resolved names live here.

Spans are left out of equality, so that trees compare by what they say.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from opgen.source import Source, Span


def _span() -> Span:  # a field helper: typed as what it declares
    return field(compare=False, repr=False)  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Name:
    text: str
    span: Span = _span()


@dataclass(frozen=True)
class Text:
    """A string literal: the characters it stands for, and whether it was written with three quotes."""

    value: str
    triple: bool
    span: Span = _span()


# --- dims ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class NamedDim:
    """`NAME`, `NAME * times` (or `times * NAME`) or `NAME / over`; both are 1 for a plain name."""

    name: str
    times: int
    over: int
    span: Span = _span()


@dataclass(frozen=True)
class FixedDim:
    size: int
    span: Span = _span()


@dataclass(frozen=True)
class EllipsisDim:
    span: Span = _span()


DimRef: TypeAlias = NamedDim | FixedDim | EllipsisDim


# --- expressions --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Number:
    """A numeric literal as written (`1`, `1e-5`, `0x1f`)."""

    text: str
    span: Span = _span()


@dataclass(frozen=True)
class Constant:
    """`true`, `false`, `inf`, `nan` or `pi`."""

    text: str
    span: Span = _span()


@dataclass(frozen=True)
class Reference:
    """A name in an expression: a parameter, a named value or a dim."""

    name: str
    span: Span = _span()


@dataclass(frozen=True)
class Unary:
    """`op` is one of `+ - ~ not`."""

    op: str
    operand: Expr
    span: Span = _span()


@dataclass(frozen=True)
class Binary:
    """`op` is one of `+ - * / // % @ ** << >> & ^ | and or == != < <= > >=`; `op_span` marks it."""

    op: str
    left: Expr
    right: Expr
    op_span: Span = _span()
    span: Span = _span()


@dataclass(frozen=True)
class Call:
    """`callee(args)` or `callee[dims](args)`; `dims` is None where no brackets were written."""

    callee: Name
    dims: tuple[DimRef, ...] | None
    args: tuple[Expr, ...]
    span: Span = _span()


@dataclass(frozen=True)
class Coordinate:
    """One `D: e` of a gather."""

    dim: DimRef
    index: Expr
    span: Span = _span()


@dataclass(frozen=True)
class Gather:
    """`base[D: e, …]`."""

    base: Name
    coordinates: tuple[Coordinate, ...]
    span: Span = _span()


@dataclass(frozen=True)
class Position:
    """`callee[dims]` with no call behind it: `index[M]`."""

    callee: Name
    dims: tuple[DimRef, ...]
    span: Span = _span()


Expr: TypeAlias = Number | Constant | Reference | Unary | Binary | Call | Gather | Position


# --- statements ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Assign:
    """`name = value` or `name: type = value`."""

    name: Name
    type: Name | None
    value: Expr
    span: Span = _span()


@dataclass(frozen=True)
class Require:
    condition: Expr
    why: Text | None
    span: Span = _span()


@dataclass(frozen=True)
class ReferenceText:
    """`reference "python"`."""

    text: Text
    span: Span = _span()


@dataclass(frozen=True)
class GradNone:
    span: Span = _span()


@dataclass(frozen=True)
class Grad:
    """`grad x: expr`."""

    name: Name
    value: Expr
    span: Span = _span()


@dataclass(frozen=True)
class Size:
    """`dim = value` of a `sizes` entry."""

    dim: DimRef
    value: int
    span: Span = _span()


@dataclass(frozen=True)
class SizeCase:
    """`label: M = 1, K = 4096`."""

    label: Name
    sizes: tuple[Size, ...]
    span: Span = _span()


@dataclass(frozen=True)
class Sizes:
    cases: tuple[SizeCase, ...]
    span: Span = _span()


@dataclass(frozen=True)
class Choices:
    """The values of a hint: ints, bools (`persistent = true`) or words (`precision = tf32`), in order."""

    values: tuple[int | bool | str, ...]
    span: Span = _span()


@dataclass(frozen=True)
class PowersOfTwo:
    """`lo .. hi`."""

    low: int
    high: int
    span: Span = _span()


@dataclass(frozen=True)
class Hint:
    """`key = values`; `key` is a dim or a word such as `warps`."""

    key: DimRef
    values: Choices | PowersOfTwo
    span: Span = _span()


@dataclass(frozen=True)
class Tile:
    """`tile { … }`, or `tile for sm_90, gfx942 { … }`; no targets means all."""

    targets: tuple[Name, ...]
    hints: tuple[Hint, ...]
    span: Span = _span()


@dataclass(frozen=True)
class DrawRange:
    """`x in -8 .. 8`: the values that the tests draw for a parameter."""

    name: Name
    low: Expr
    high: Expr
    span: Span = _span()


@dataclass(frozen=True)
class Tolerance:
    """`tolerance bf16 = 2e-2`."""

    type: Name
    value: Expr
    span: Span = _span()


@dataclass(frozen=True)
class SizeRange:
    """`sizes M in 1 .. 300`."""

    dim: DimRef
    low: int
    high: int
    span: Span = _span()


@dataclass(frozen=True)
class Test:
    entries: tuple[DrawRange | Tolerance | SizeRange, ...]
    span: Span = _span()


Statement: TypeAlias = Assign | Require | ReferenceText | GradNone | Grad | Sizes | Tile | Test


# --- items --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TensorType:
    """`T[M, K]`: the element type as written (a type or a type variable) and the dims."""

    element: Name
    dims: tuple[DimRef, ...]
    span: Span = _span()


@dataclass(frozen=True)
class ScalarType:
    element: Name
    span: Span = _span()


@dataclass(frozen=True)
class Param:
    """`kind` is `""`, `"const"` or `"inout"`."""

    kind: str
    name: Name
    type: TensorType | ScalarType
    default: Expr | None
    span: Span = _span()


@dataclass(frozen=True)
class Result:
    name: Name
    type: TensorType
    span: Span = _span()


@dataclass(frozen=True)
class TypeVariable:
    """`for T in {f16, bf16}`."""

    name: Name
    types: tuple[Name, ...]
    span: Span = _span()


@dataclass(frozen=True)
class Use:
    doc: Text | None
    path: Text
    span: Span = _span()


@dataclass(frozen=True)
class Fn:
    """`fn name[dims](params) = body`; `dims` is empty where no brackets were written."""

    doc: Text | None
    name: Name
    dims: tuple[Name, ...]
    params: tuple[Name, ...]
    body: Expr
    span: Span = _span()


@dataclass(frozen=True)
class Op:
    doc: Text | None
    name: Name
    params: tuple[Param, ...]
    results: tuple[Result, ...]
    variables: tuple[TypeVariable, ...]
    body: tuple[Statement, ...]
    span: Span = _span()


Item: TypeAlias = Use | Fn | Op


@dataclass(frozen=True)
class Comment:
    """A `#` comment, with its mark, and whether only white space stands before it on its line."""

    text: str
    own_line: bool
    span: Span = _span()


@dataclass(frozen=True)
class File:
    items: tuple[Item, ...]
    comments: tuple[Comment, ...]
    source: Source = field(compare=False, repr=False)
