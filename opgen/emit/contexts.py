"""One frozen record for each template: finished words and lines, nothing that computes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class KernelContext:
    """`templates/elementwise.py.j2`: the formula, the two kernels and their launcher."""

    formula: str
    formula_doc: str
    formula_parameters: tuple[str, ...]
    formula_lines: tuple[str, ...]
    returned: str
    has_dense: bool
    dense: str
    dense_decorator: str
    dense_parameters: tuple[str, ...]
    dense_lines: tuple[str, ...]
    strided: str
    strided_decorator: str
    strided_parameters: tuple[str, ...]
    strided_lines: tuple[str, ...]
    launch: str
    launch_parameters: tuple[str, ...]
    via: str
    figures: str
    dense_arguments: tuple[str, ...]
    strided_arguments: tuple[str, ...]


@dataclass(frozen=True)
class TableContext:
    """A named table of a module: `NAME = value`."""

    name: str
    value: str


@dataclass(frozen=True)
class FunctionContext:
    """The public function: its signature, docstring and the arguments that it passes on."""

    name: str
    parameters: tuple[str, ...]
    returns: str
    title: str
    doc_lines: tuple[str, ...]
    entry: str
    arguments: tuple[str, ...]


@dataclass(frozen=True)
class ReferenceContext:
    """The eager reference: its signature and its body."""

    name: str
    parameters: tuple[str, ...]
    returns: str
    lines: tuple[str, ...]


@dataclass(frozen=True)
class OperatorContext:
    """The registered operator: its typed signature and the arguments that it passes on."""

    name: str
    parameters: tuple[str, ...]
    returns: str
    arguments: tuple[str, ...]


@dataclass(frozen=True)
class ModuleContext:
    """`templates/module.py.j2`: one generated module, in the order in which it is read."""

    spec: str
    title: str
    doc_lines: tuple[str, ...]
    device_functions: tuple[str, ...]
    kernels: tuple[str, ...]  # each as its own template gives it
    tables: tuple[TableContext, ...]
    function: FunctionContext
    reference: ReferenceContext
    entry: TableContext
    operator: OperatorContext


@dataclass(frozen=True)
class TestContext:
    """`templates/test.py.j2`: the property tests of one op, its formula over the oracle's intervals first."""

    spec: str
    op: str
    entry: str
    function: str
    operator: str
    functions: tuple[str, ...]
    oracle_parameters: tuple[str, ...]
    oracle_returns: str
    oracle_lines: tuple[str, ...]
    has_reference: bool
    reference_parameters: tuple[str, ...]
    reference_lines: tuple[str, ...]
    parameters: tuple[str, ...]
    results: tuple[str, ...]
    options: tuple[str, ...]
