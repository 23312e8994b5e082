"""One graph for every choice of type variables, merged where the choices differ in nothing but the element type."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from itertools import product
from math import prod

from opgen.dtypes import BF16, F16, F32, I8, I16, DType
from opgen.ir.nodes import Element, Graph, Variable, Variant

#: Choices of the type variables of one op; each is lowered by itself.
MOST_CHOICES = 256

#: Types that share their graphs, by the one that stands for them; every other type stands for itself.
_CLASS = {F16: F32, BF16: F32, F32: F32, I8: I16, I16: I16}


def count_choices(variables: Iterable[Variable]) -> int:
    return prod(len(variable.types) for variable in variables)


def choices(variables: tuple[Variable, ...]) -> tuple[dict[str, DType], ...]:
    """Every choice, the last variable's types changing fastest."""
    names = [variable.name for variable in variables]
    return tuple(
        dict(zip(names, types, strict=True)) for types in product(*(variable.types for variable in variables))
    )


def erased(graph: Graph) -> Graph:
    """The graph with each variable-typed element standing for its class."""
    return Graph(
        tuple(
            replace(value, type=replace(value.type, element=_erased(value.type.element)))
            for value in graph.values
        ),
        graph.stores,
    )


def _erased(element: Element) -> Element:
    if element.variable is None:
        return element
    return Element(_CLASS.get(element.dtype, element.dtype), element.variable)


def merged(
    chosen: Iterable[tuple[Mapping[str, DType], Graph]], simplify: Callable[[Graph], Graph]
) -> tuple[Variant, ...]:
    """The variants of lowered choices, in order of the first choice that each serves."""
    groups: dict[tuple[object, ...], tuple[list[tuple[DType, ...]], Graph]] = {}
    for choice, graph in chosen:
        # A class of storage types that an op stores by is part of what the planner sees through the variables.
        key = (erased(graph), tuple(_CLASS.get(dtype, dtype) for dtype in choice.values()))
        served, _ = groups.setdefault(key, ([], graph))
        served.append(tuple(choice.values()))
    return tuple(Variant(tuple(served), simplify(graph)) for served, graph in groups.values())
