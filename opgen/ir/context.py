"""The state of lowering one body for one choice of types: names, the graph, and where a mistake is reported."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from opgen.diagnostics import Diagnostics, Note, did_you_mean
from opgen.dtypes import BOOL, DTYPES, DType, Kind
from opgen.ir.build import GraphBuilder
from opgen.ir.dims import DimError, combine
from opgen.ir.nodes import ELLIPSIS, Dim, Element, Ref
from opgen.ir.numbers import Exact
from opgen.ir.scope import Functions, ScopedFn
from opgen.ir.signature import Signature, chosen
from opgen.source import Span
from opgen.syntax import ast

#: Characters of the spec that a help sentence repeats.
_LONGEST_QUOTE = 60


@dataclass(frozen=True)
class Folded:
    """An expression of literals alone: it takes the type that it meets."""

    exact: Exact
    span: Span = field(compare=False)

    @property
    def kind(self) -> Kind:
        return self.exact.kind


@dataclass(frozen=True)
class Computed:
    """A value of the graph."""

    ref: Ref
    span: Span = field(compare=False)


#: What an expression lowers to; None stands for one that was refused, and everything made of it.
Operand: TypeAlias = Folded | Computed | None


@dataclass(frozen=True)
class Binding:
    """A named value of the body and the place that names it."""

    operand: Operand
    span: Span


@dataclass(frozen=True)
class Frame:
    """A function being expanded: its arguments, its dims, and the call."""

    fn: ScopedFn
    arguments: Mapping[str, Operand]
    dims: Mapping[str, Dim]
    call: Span


@dataclass
class Context:
    """One body, one choice.

    `names` grows with each assignment; `later` names what is only assigned further down, `hidden` what a gradient
    cannot see.
    """

    signature: Signature
    functions: Functions
    choice: Mapping[str, DType]
    diagnostics: Diagnostics
    graph: GraphBuilder = field(default_factory=GraphBuilder)
    frames: tuple[Frame, ...] = ()
    names: dict[str, Binding] = field(default_factory=dict)
    later: dict[str, Span] = field(default_factory=dict)
    hidden: frozenset[str] = frozenset()
    used: set[str] = field(default_factory=set)
    body_dims: dict[Dim, Span] = field(default_factory=dict)
    tensors: dict[str, tuple[Element, tuple[Dim, ...]]] = field(default_factory=dict)
    expansions: dict[tuple[object, ...], Operand] = field(default_factory=dict)

    # --- reporting ------------------------------------------------------------------------------

    def error(self, code: str, message: str, span: Span, help: str | None = None) -> None:
        """Reports a mistake: inside an expanded function with the call, inside the prelude's at the call."""
        place, notes = self._place(span)
        self.diagnostics.error(code, message, place, help=help, notes=notes)

    def warning(self, code: str, message: str, span: Span, help: str | None = None) -> None:
        place, notes = self._place(span)
        self.diagnostics.warning(code, message, place, help=help, notes=notes)

    def _place(self, span: Span) -> tuple[Span, tuple[Note, ...]]:
        outer = next((frame for frame in self.frames if frame.fn.is_prelude), None)
        if outer is not None and span.source is outer.fn.node.span.source:
            return outer.call, (Note(f"in the body of `{self.frames[-1].fn.node.name.text}`", span),)
        calls = [frame for frame in self.frames if not frame.fn.is_prelude]
        notes = [
            Note(f"in the expansion of `{frame.fn.node.name.text}`, called here", frame.call)
            for frame in calls
        ]
        return span, tuple(reversed(notes))

    def place(self, span: Span) -> Span:
        """Where a value stands: in the prelude's text, the call of the prelude's function."""
        return self._place(span)[0]

    def quote(self, span: Span) -> str:
        """What the spec says there, where it is short and no function's text; for proposals."""
        text = " ".join(span.source.text[span.start : span.end].split())
        return "…" if self.frames or len(text) > _LONGEST_QUOTE or "#" in text else text

    # --- values ---------------------------------------------------------------------------------

    def kind(self, operand: Folded | Computed) -> Kind:
        return operand.kind if isinstance(operand, Folded) else self.graph.type(operand.ref).dtype.kind

    def compute_type(self, operand: Computed) -> DType:
        """The type in which the value is computed."""
        return DTYPES[self.graph.type(operand.ref).dtype.compute]

    def dims(self, operand: Folded | Computed) -> tuple[Dim, ...]:
        return self.graph.type(operand.ref).dims if isinstance(operand, Computed) else ()

    def describe(self, operand: Folded | Computed) -> str:
        """The kind of a value as a phrase for messages."""
        kind = self.kind(operand)
        return {Kind.FLOAT: "a float", Kind.INTEGER: "an integer", Kind.BOOL: "a bool"}[kind]

    def combine(self, operands: Sequence[Folded | Computed], span: Span) -> tuple[Dim, ...] | None:
        """The dims of a combined value, or None where they do not meet (reported)."""
        try:
            return combine([self.dims(operand) for operand in operands])
        except DimError as error:
            self.error("OPG501", error.message, span)
            return None

    # --- names ----------------------------------------------------------------------------------

    def dim(self, ref: ast.DimRef) -> Dim | None:
        """The dim that brackets name, or None (reported); its use in the body is remembered."""
        if self.frames:
            return self._scaled(ref, self._frame_dim(ref))
        if isinstance(ref, ast.NamedDim):
            if not self.check_dim(ref.name, ref.span):
                return None
            return self._remember(Dim(ref.name, ref.times, ref.over), ref.span)
        if isinstance(ref, ast.FixedDim):
            return self._remember(Dim(str(ref.size)), ref.span)
        if not self.signature.known_ellipsis:
            self.error("OPG502", "`...` must occur in a tensor that cannot be left out", ref.span)
            return None
        return ELLIPSIS

    def _remember(self, dim: Dim, span: Span) -> Dim:
        self.body_dims.setdefault(dim, span)
        return dim

    def check_dim(self, name: str, span: Span) -> bool:
        """Whether a dim of this name is known at every call; reported where it is not."""
        if name in self.signature.known_dims:
            return True
        if name in self.signature.dims:
            self.error("OPG502", f"the dim `{name}` must occur in a tensor that cannot be left out", span)
        else:
            self.error("OPG503", f"unknown dim `{name}`", span, did_you_mean(name, self.signature.dims))
        return False

    def _frame_dim(self, ref: ast.DimRef) -> Dim | None:
        frame = self.frames[-1]
        if isinstance(ref, ast.NamedDim):
            if ref.name not in frame.dims:
                self.error(
                    "OPG503", f"unknown dim `{ref.name}`", ref.span, did_you_mean(ref.name, frame.dims)
                )
                return None
            return frame.dims[ref.name]
        return ELLIPSIS if isinstance(ref, ast.EllipsisDim) else Dim(str(ref.size))

    def _scaled(self, ref: ast.DimRef, dim: Dim | None) -> Dim | None:
        """A function's dim times or over a number, where the dim that it stands for may be scaled itself."""
        if dim is None or not isinstance(ref, ast.NamedDim) or ref.times == ref.over == 1:
            return dim
        if dim.is_ellipsis or dim.fixed is not None or (dim.times, dim.over) != (1, 1):
            self.error("OPG504", f"`{ref.name}` stands for `{dim}` here, which cannot be scaled", ref.span)
            return None
        return self._remember(Dim(dim.name, ref.times, ref.over), ref.span)

    def element(self, name: ast.Name) -> Element | None:
        """The type or type variable of a cast, or None (reported)."""
        signature = self.signature
        placed = signature.variable(name.text) is not None
        idle = name.text in signature.idle_variables or (name.text == "T" and not placed)
        if idle or (placed and name.text not in signature.known_variables):
            message = f"the type variable `{name.text}` must occur in a tensor that cannot be left out"
            self.error("OPG505", message, name.span)
            return None
        if placed:
            return chosen(Element(BOOL, name.text), self.choice)
        if name.text in DTYPES:
            return Element(DTYPES[name.text])
        known = (*DTYPES, *(variable.name for variable in signature.variables))
        self.error("OPG506", f"unknown type `{name.text}`", name.span, did_you_mean(name.text, known))
        return None
