"""The typed graph: *what* an op computes. Nothing of a GPU, no block sizes, no code text.

A graph is a tuple of values in topological order; a value refers to others by their position (`Ref`), so that a
shared value is written once. Dims combine by name. Every widening, narrowing and rounding is a node of its own:

- `Read`, `Gather` and `Cast` give values of a *storage* type (any element type);
- every other value has a *compute* type: f32, f64, i32, i64 or bool. `Convert` takes a value to the compute type
  that its user needs (f16 -> f32, bool -> i32, i32 -> f32); `Cast` is the spec's own rounding point.

A `Convert` stands after every storage-typed operand of an `Apply`, `Reduce` or `Store`, even where the types
happen to be equal (an f32 tensor computed in f32), so that the same graph serves every element type of its class.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import TypeAlias

from opgen.dtypes import DType
from opgen.source import Span

Ref: TypeAlias = int


@dataclass(frozen=True)
class Dim:
    """A named dim, `NAME * times` or `NAME / over`; a fixed size has the digits as its name.

    `Dim("...")` (`ELLIPSIS`) stands for all leading dims together.
    """

    name: str
    times: int = 1
    over: int = 1

    @property
    def is_ellipsis(self) -> bool:
        return self.name == "..."

    @property
    def family(self) -> tuple[str, int]:
        """What a dim and its fractions share: they move along the same dim of the space."""
        return self.name, self.times

    @property
    def fixed(self) -> int | None:
        """The size of a fixed dim, else None."""
        return int(self.name) if self.name.isdigit() else None

    def __str__(self) -> str:
        times = f" * {self.times}" if self.times != 1 else ""
        return f"{self.name}{times}" + (f" / {self.over}" if self.over != 1 else "")


ELLIPSIS = Dim("...")


@dataclass(frozen=True)
class Element:
    """An element type as declared: a concrete type, or a type variable and what it stands for here."""

    dtype: DType
    variable: str | None = None

    def __str__(self) -> str:
        return self.variable or self.dtype.name


@dataclass(frozen=True)
class Type:
    """The type of a value: its element type and its dims in order (ellipsis first)."""

    element: Element
    dims: tuple[Dim, ...]

    @property
    def dtype(self) -> DType:
        return self.element.dtype

    def __str__(self) -> str:
        return f"{self.element}[{', '.join(map(str, self.dims))}]"


# --- nodes --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Number:
    """An exact number: a fraction, or a float that no fraction is (`inf`, `nan`, `-0.0`); bools are 0 and 1."""

    value: Fraction | float

    def __post_init__(self) -> None:
        special = isinstance(self.value, float)
        if special and self.value == self.value and self.value not in (float("inf"), float("-inf"), 0.0):
            raise ValueError(f"{self.value} is exact as a fraction")

    def _key(self) -> Fraction | str:
        return repr(self.value) if isinstance(self.value, float) else self.value

    def __eq__(self, other: object) -> bool:  # nan equals itself here, and 0 differs from -0.0
        return isinstance(other, Number) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())


@dataclass(frozen=True)
class Literal:
    """A constant of the value's compute type."""

    number: Number


@dataclass(frozen=True)
class Read:
    """The element of a tensor parameter at the value's own coordinates.

    A left-out tensor reads as its default, not rounded to the element type.
    """

    param: str


@dataclass(frozen=True)
class Scalar:
    """A run-time scalar parameter, already in its compute type."""

    param: str


@dataclass(frozen=True)
class Const:
    """A compile-time scalar parameter."""

    param: str


@dataclass(frozen=True)
class Size:
    """The size of a dim, as i64."""

    dim: Dim


@dataclass(frozen=True)
class Index:
    """The position along a dim, as i64."""

    dim: Dim


@dataclass(frozen=True)
class Random:
    """Uniform f32 in [0, 1) by the row-major position over `dims`, keyed with the i64 scalar `seed`."""

    dims: tuple[Dim, ...]
    seed: Ref


@dataclass(frozen=True)
class Gather:
    """A read of `param` with some coordinates replaced by integer values (i32 or i64); zero outside."""

    param: str
    coordinates: tuple[tuple[Dim, Ref], ...]


@dataclass(frozen=True)
class Apply:
    """An elementwise primitive (a row of `opgen.primitives`) over values that broadcast by dim name."""

    primitive: str
    args: tuple[Ref, ...]


@dataclass(frozen=True)
class Convert:
    """The same number in the value's compute type (rounded only where that type is narrower: i64 -> f32)."""

    arg: Ref


@dataclass(frozen=True)
class Cast:
    """The spec's own conversion to the value's storage type, with the rules of casts (LANGUAGE.md, section 5)."""

    arg: Ref


@dataclass(frozen=True)
class Reduce:
    """`kind` over `dims` of `arg`: sum mean prod min max any all argmax argmin var logsumexp."""

    kind: str
    arg: Ref
    dims: tuple[Dim, ...]

    @property
    def gives_position(self) -> bool:
        """Whether it gives a position, which the order of its dims decides, rather than an element."""
        return self.kind in ("argmax", "argmin")


@dataclass(frozen=True)
class Contract:
    """The sum of products over `dim`; `batch` dims are carried by both operands."""

    left: Ref
    right: Ref
    dim: Dim
    batch: tuple[Dim, ...]


Node: TypeAlias = (
    Literal
    | Read
    | Scalar
    | Const
    | Size
    | Index
    | Random
    | Gather
    | Apply
    | Convert
    | Cast
    | Reduce
    | Contract
)


@dataclass(frozen=True)
class Value:
    """A node with its type, the name that the spec gave it (if any), and where it stands."""

    node: Node
    type: Type
    name: str | None = None
    span: Span = field(compare=False, repr=False, kw_only=True)


@dataclass(frozen=True)
class Store:
    """The value written to a result or to an `inout` tensor, rounded once to its element type."""

    target: str
    value: Ref


@dataclass(frozen=True)
class Graph:
    values: tuple[Value, ...]
    stores: tuple[Store, ...]


# --- the op -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TensorParam:
    """A tensor parameter; `default` is the number that stands for a left-out tensor."""

    name: str
    element: Element
    dims: tuple[Dim, ...]
    inout: bool
    default: Number | None
    span: Span = field(compare=False, repr=False)

    @property
    def optional(self) -> bool:
        return self.default is not None


@dataclass(frozen=True)
class ScalarParam:
    """A run-time scalar (`const` false) or a compile-time one."""

    name: str
    dtype: DType
    const: bool
    default: Number | None
    span: Span = field(compare=False, repr=False)


Param: TypeAlias = TensorParam | ScalarParam


@dataclass(frozen=True)
class Result:
    name: str
    element: Element
    dims: tuple[Dim, ...]
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True)
class Variable:
    """A type variable and the types that it may stand for."""

    name: str
    types: tuple[DType, ...]


@dataclass(frozen=True)
class Variant:
    """One graph, and every choice of the op's type variables (in their order) that it serves.

    Variable-typed elements inside the graph hold the types of the first choice.
    """

    choices: tuple[tuple[DType, ...], ...]
    graph: Graph


@dataclass(frozen=True)
class HostName:
    """The size of a dim (`dim` set) or the value of a const, in a `require`."""

    name: str
    dim: Dim | None


@dataclass(frozen=True)
class HostNumber:
    number: Number
    is_bool: bool = False


@dataclass(frozen=True)
class HostApply:
    """An operator (spelled as in Python) or a call of `min`, `max` or `abs`, over sizes and consts."""

    operator: str
    args: tuple[HostExpr, ...]


HostExpr: TypeAlias = HostName | HostNumber | HostApply


@dataclass(frozen=True)
class Requirement:
    """A condition on sizes and consts, its text as written, and why it is asked for."""

    condition: HostExpr
    text: str
    why: str | None
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True)
class SizeCase:
    """Representative sizes: a label, and (dim, size) pairs in the order written."""

    label: str
    sizes: tuple[tuple[Dim, int], ...]


@dataclass(frozen=True)
class HintRequest:
    """What a `tile` block asks for: a key (a dim or a word), the values in order, for some targets or for all."""

    key: str
    dim: Dim | None
    values: tuple[int | bool | str, ...]
    targets: tuple[str, ...]
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True)
class DrawRange:
    param: str
    low: float
    high: float


@dataclass(frozen=True)
class SizeRange:
    dim: Dim
    low: int
    high: int


@dataclass(frozen=True)
class TestHints:
    draws: tuple[DrawRange, ...] = ()
    tolerances: tuple[tuple[DType, float], ...] = ()
    sizes: tuple[SizeRange, ...] = ()


@dataclass(frozen=True)
class Gradient:
    """A hand-written gradient of a parameter: a graph over the parameters, results and `d_RESULT` tensors."""

    param: str
    variants: tuple[Variant, ...]
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True)
class Op:
    """A checked operator. `statements` is its body as text, for documentation."""

    name: str
    doc: str | None
    params: tuple[Param, ...]
    results: tuple[Result, ...]
    variables: tuple[Variable, ...]
    variants: tuple[Variant, ...]
    requirements: tuple[Requirement, ...]
    reference: str | None
    differentiable: bool
    gradients: tuple[Gradient, ...]
    sizes: tuple[SizeCase, ...]
    hints: tuple[HintRequest, ...]
    tests: TestHints
    statements: tuple[str, ...]
    span: Span = field(compare=False, repr=False)

    @property
    def arrays(self) -> tuple[TensorParam | Result, ...]:
        """All that is a tensor: the parameters, then the results."""
        return (*self.tensors, *self.results)

    @property
    def written(self) -> tuple[TensorParam | Result, ...]:
        """All that the op stores to: the results, then what it updates in place."""
        return (*self.results, *(tensor for tensor in self.tensors if tensor.inout))

    @property
    def tensors(self) -> tuple[TensorParam, ...]:
        return tuple(param for param in self.params if isinstance(param, TensorParam))

    @property
    def scalars(self) -> tuple[ScalarParam, ...]:
        return tuple(param for param in self.params if isinstance(param, ScalarParam) and not param.const)

    @property
    def consts(self) -> tuple[ScalarParam, ...]:
        return tuple(param for param in self.params if isinstance(param, ScalarParam) and param.const)
