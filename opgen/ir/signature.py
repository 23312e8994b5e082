"""What an op's head declares: parameters, results, type variables and dims, with what is known when it is called."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from opgen.dtypes import DType
from opgen.ir.nodes import Element, Param, Result, ScalarParam, TensorParam, Variable
from opgen.source import Span


@dataclass(frozen=True)
class Signature:
    """A resolved head.

    Elements of variable type hold the first type of their variable. `dims` and `has_ellipsis` tell what occurs in
    any tensor, `known_dims`, `known_ellipsis` and `known_variables` what occurs in one that cannot be left out;
    `idle_variables` are declared and occur in no tensor.
    `broken` names the parameters and results whose declaration was refused: their uses are not reported again.
    """

    name: str
    params: tuple[Param, ...]
    results: tuple[Result, ...]
    variables: tuple[Variable, ...]
    dims: tuple[str, ...]
    known_dims: frozenset[str]
    has_ellipsis: bool
    known_ellipsis: bool
    known_variables: frozenset[str]
    idle_variables: frozenset[str]
    broken: frozenset[str]
    span: Span

    def tensor(self, name: str) -> TensorParam | None:
        return next((p for p in self.params if p.name == name and isinstance(p, TensorParam)), None)

    def scalar(self, name: str) -> ScalarParam | None:
        return next((p for p in self.params if p.name == name and isinstance(p, ScalarParam)), None)

    def result(self, name: str) -> Result | None:
        return next((result for result in self.results if result.name == name), None)

    def variable(self, name: str) -> Variable | None:
        return next((variable for variable in self.variables if variable.name == name), None)

    def types(self, name: str) -> tuple[DType, ...]:
        """The element types that a parameter can have."""
        tensor, scalar = self.tensor(name), self.scalar(name)
        if tensor is None:
            return () if scalar is None else (scalar.dtype,)
        variable = self.variable(tensor.element.variable or "")
        return (tensor.element.dtype,) if variable is None else variable.types

    def names(self) -> tuple[str, ...]:
        """The parameters, in order."""
        return tuple(param.name for param in self.params)


def chosen(element: Element, choice: Mapping[str, DType]) -> Element:
    """The element for one choice of the type variables."""
    if element.variable is None:
        return element
    return Element(choice[element.variable], element.variable)
