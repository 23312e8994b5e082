"""From a syntax tree to checked, typed ops: the only entry to lowering."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from inspect import cleandoc
from typing import TypeVar

from opgen.diagnostics import Diagnostic, Diagnostics, Note
from opgen.dtypes import DType
from opgen.ir import hints, variants
from opgen.ir.body import lower_assignments, lower_gradient, new_context
from opgen.ir.declare import declare
from opgen.ir.functions import check_functions
from opgen.ir.gradients import for_float_choices, hand_written
from opgen.ir.host import requirement
from opgen.ir.nodes import (
    Dim,
    Gradient,
    Graph,
    HostApply,
    HostName,
    HostNumber,
    Number,
    Op,
    Requirement,
    Variant,
)
from opgen.ir.oracle import oracle_text
from opgen.ir.passes.simplify import simplify
from opgen.ir.scope import Functions, load_functions
from opgen.ir.signature import Signature
from opgen.ir.verify import verify_op
from opgen.source import Source, Span
from opgen.syntax import ast
from opgen.syntax.pretty import format_expr

_Statement = TypeVar("_Statement", bound=ast.Statement)


@dataclass(frozen=True)
class Lowered:
    """The ops of a file, in order, and the warnings about them."""

    ops: tuple[Op, ...]
    warnings: tuple[Diagnostic, ...]


def lower(file: ast.File, *, read: Callable[[str], Source]) -> Lowered:
    """Checks and lowers every op of a file.

    `read` loads a file that this one uses, by its path relative to this one, and raises `FileNotFoundError`.
    Raises `SpecError` with all mistakes of the file.
    """
    diagnostics = Diagnostics()
    if not file.items:
        advice = "`opgen new NAME` writes one to start from"
        diagnostics.warning("OPG211", "there is no op in this file", Span(file.source, 0, 0), help=advice)
    functions = load_functions(file, read, diagnostics)
    functions = check_functions(functions, diagnostics)
    ops = [item for item in file.items if isinstance(item, ast.Op)]
    _check_op_names(ops, diagnostics)
    lowered = [_guarded(op, functions, diagnostics) for op in ops]
    diagnostics.raise_if_errors()
    return Lowered(tuple(op for op in lowered if op is not None), diagnostics.sorted())


def _check_op_names(ops: Sequence[ast.Op], diagnostics: Diagnostics) -> None:
    seen: dict[str, Span] = {}
    for op in ops:
        if op.name.text in seen:
            note = Note("first defined here", seen[op.name.text])
            diagnostics.error(
                "OPG210", f"the op `{op.name.text}` is defined twice", op.name.span, notes=(note,)
            )
        seen.setdefault(op.name.text, op.name.span)


def _guarded(op: ast.Op, functions: Functions, diagnostics: Diagnostics) -> Op | None:
    try:
        return _Lowering(op, functions, diagnostics).op_or_none()
    except RecursionError:
        message = f"the expressions of `{op.name.text}` are nested too deeply"
        diagnostics.error("OPG699", message, op.name.span, help="name parts of them")
        return None


@dataclass
class _Lowering:
    """One op on its way through the checks; `found` gathers its mistakes."""

    op: ast.Op
    functions: Functions
    diagnostics: Diagnostics
    found: Diagnostics = field(default_factory=Diagnostics)
    used: set[str] = field(default_factory=set)
    body_dims: dict[Dim, Span] = field(default_factory=dict)

    def op_or_none(self) -> Op | None:
        try:
            op = self._lowered()
        finally:
            for diagnostic in self.found.found:
                self.diagnostics.add(diagnostic)
        # A mistake in a function that the op calls counts too.
        if self.diagnostics.has_errors:
            return None
        verify_op(op)
        return op

    def _lowered(self) -> Op:
        op, signature = self.op, declare(self.op, self.functions, self.found)
        self._check_assigned()
        chosen = self._choices(signature)
        graphs = [(choice, self._body(signature, choice)) for choice in chosen]
        gradients = self._gradients(signature, chosen)
        requirements = self._requirements(signature)
        first = {variable.name: variable.types[0] for variable in signature.variables}
        context = new_context(signature, self.functions, first, self.found)
        lowered = Op(
            name=op.name.text,
            doc=None if op.doc is None else cleandoc(op.doc.value),
            params=signature.params,
            results=signature.results,
            variables=signature.variables,
            variants=self._variants(graphs),
            requirements=(*requirements, *self._divisibility(signature)),
            reference=self._reference(signature),
            differentiable=self._is_differentiable(),
            gradients=gradients,
            sizes=hints.size_cases(signature, self.found, self._statements(ast.Sizes)),
            hints=hints.hint_requests(signature, self.found, self._statements(ast.Tile)),
            tests=hints.test_hints(context, self._statements(ast.Test)),
            statements=tuple(_statement_text(assign) for assign in self._statements(ast.Assign)),
            span=op.name.span,
        )
        if not self.found.has_errors:
            self._warn_of_unused(signature)
        return lowered

    def _statements(self, kind: type[_Statement]) -> tuple[_Statement, ...]:
        return tuple(statement for statement in self.op.body if isinstance(statement, kind))

    # --- graphs ---------------------------------------------------------------------------------

    def _choices(self, signature: Signature) -> tuple[dict[str, DType], ...]:
        count = variants.count_choices(signature.variables)
        if count <= variants.MOST_CHOICES:
            return variants.choices(signature.variables)
        message = (
            f"the type variables have {count} choices together, and {variants.MOST_CHOICES} are the most"
        )
        self.found.error(
            "OPG340", message, self.op.variables[0].span if self.op.variables else self.op.name.span
        )
        return ()

    def _keep(self, found: Diagnostics) -> None:
        """Keeps what one choice reported; a place is reported once for all choices."""
        known = {(diagnostic.code, diagnostic.span) for diagnostic in self.found.found}
        for diagnostic in found.found:
            if (diagnostic.code, diagnostic.span) not in known:
                self.found.add(diagnostic)

    def _body(self, signature: Signature, choice: Mapping[str, DType]) -> Graph:
        found = Diagnostics()
        context = new_context(signature, self.functions, choice, found)
        try:
            return lower_assignments(context, self._statements(ast.Assign))
        finally:
            self.used |= context.used
            self.body_dims.update(context.body_dims)
            self._keep(found)

    def _variants(self, graphs: Sequence[tuple[Mapping[str, DType], Graph]]) -> tuple[Variant, ...]:
        optional = frozenset(param.name.text for param in self.op.params if param.default is not None)
        return variants.merged(graphs, partial(simplify, optional=optional))

    def _gradients(self, signature: Signature, chosen: Sequence[Mapping[str, DType]]) -> tuple[Gradient, ...]:
        gradients: list[Gradient] = []
        for grad in hand_written(signature, self.found, self.op.body):
            lower_one = partial(self._gradient, signature, grad)
            graphs = for_float_choices(signature, grad.name.text, chosen, lower_one)
            gradients.append(Gradient(grad.name.text, self._variants(graphs), grad.span))
        return tuple(gradients)

    def _gradient(self, signature: Signature, grad: ast.Grad, choice: Mapping[str, DType]) -> Graph | None:
        found = Diagnostics()
        context = new_context(signature, self.functions, choice, found)
        results = {result.name for result in signature.results}
        context.hidden = frozenset(assign.name.text for assign in self._statements(ast.Assign)) - results
        try:
            return lower_gradient(context, grad)
        finally:
            self.used |= context.used
            self.body_dims.update(context.body_dims)
            self._keep(found)

    # --- statements -----------------------------------------------------------------------------

    def _check_assigned(self) -> None:
        assigned = {assign.name.text for assign in self._statements(ast.Assign)}
        wanted = [("result", result.name) for result in self.op.results]
        wanted += [("`inout` parameter", param.name) for param in self.op.params if param.kind == "inout"]
        for kind, name in wanted:
            if name.text not in assigned:
                self.found.error("OPG607", f"the {kind} `{name.text}` is never assigned", name.span)

    def _warn_of_unused(self, signature: Signature) -> None:
        targets = {result.name.text for result in self.op.results}
        targets |= {param.name.text for param in self.op.params}
        for assign in self._statements(ast.Assign):
            if assign.name.text not in targets | self.used:
                self.found.warning("OPG608", f"`{assign.name.text}` is never used", assign.name.span)
        for param in self.op.params:
            scalar = signature.scalar(param.name.text)
            if scalar is not None and scalar.name not in self.used:
                self.found.warning("OPG609", f"the parameter `{scalar.name}` is never used", param.name.span)

    def _requirements(self, signature: Signature) -> tuple[Requirement, ...]:
        lowered = [
            requirement(signature, self.functions, self.found, self.used, statement)
            for statement in self._statements(ast.Require)
        ]
        return tuple(one for one in lowered if one is not None)

    def _divisibility(self, signature: Signature) -> tuple[Requirement, ...]:
        """What `NAME / INT` requires where no tensor that is always given has such a dim."""
        given = [
            dim for param in signature.params if getattr(param, "default", 0) is None for dim in _dims(param)
        ]
        wanted = {dim: result.span for result in signature.results for dim in result.dims} | self.body_dims
        return tuple(
            _multiple_of(dim, span)
            for dim, span in wanted.items()
            if dim.over > 1
            and not any(other.name == dim.name and other.over % dim.over == 0 for other in given)
        )

    def _reference(self, signature: Signature) -> str | None:
        statements = self._statements(ast.ReferenceText)
        for again in statements[1:]:
            note = Note("first given here", statements[0].span)
            self.found.error("OPG653", "the reference is given twice", again.span, notes=(note,))
        return oracle_text(signature, self.found, statements[0]) if statements else None

    def _is_differentiable(self) -> bool:
        return not self._statements(ast.GradNone) and all(param.kind != "inout" for param in self.op.params)


def _dims(param: object) -> tuple[Dim, ...]:
    dims: tuple[Dim, ...] = getattr(param, "dims", ())
    return dims


def _multiple_of(dim: Dim, span: Span) -> Requirement:
    remainder = HostApply("%", (HostName(dim.name, Dim(dim.name)), HostNumber(Number(dim.over))))
    condition = HostApply("==", (remainder, HostNumber(Number(0))))
    return Requirement(condition, f"{dim.name} % {dim.over} == 0", f"`{dim}` is a dim of this op", span)


def _statement_text(assign: ast.Assign) -> str:
    declared = f": {assign.type.text}" if assign.type is not None else ""
    return f"{assign.name.text}{declared} = {format_expr(assign.value)}"
