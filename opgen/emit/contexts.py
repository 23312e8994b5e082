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
class ElementContext:
    """A function of a product over elements: an operand's prologue, or the formula behind the sums."""

    name: str
    doc: str
    parameters: tuple[str, ...]
    lines: tuple[str, ...]
    returned: str


@dataclass(frozen=True)
class SumContext:
    """One product of a kernel: the name and type of its sums, its number, what a step multiplies, and which matrices of
    the partial sums are its own: that of a piece, and its first."""

    name: str
    number: str
    dtype: str
    left: str
    right: str
    piece: str
    first: str


@dataclass(frozen=True)
class ProductContext:
    """`templates/product.py.j2`: the formula, what writes a tile, the kernels of each strategy, and their launcher."""

    elements: tuple[ElementContext, ...]
    sums: tuple[SumContext, ...]
    count: str
    apart: str
    write: str
    write_doc: str
    write_parameters: tuple[str, ...]
    write_lines: tuple[str, ...]
    write_arguments: tuple[str, ...]
    decorator: str
    pointers: tuple[str, ...]
    parameters: tuple[str, ...]
    early_lines: tuple[str, ...]
    tiles: str
    outside_lines: tuple[str, ...]
    step_lines: tuple[str, ...]
    finish: str
    has_streams: bool
    stream: str
    stream_decorator: str
    stream_operands: tuple[str, ...]
    stream_lines: tuple[str, ...]
    can_span: bool
    span: str
    span_decorator: str
    span_operands: tuple[str, ...]
    span_dtype: str
    span_left: str
    span_line: str
    launch: str
    launch_parameters: tuple[str, ...]
    via: str
    figures: str
    device: str
    left: str
    right: str
    given_pointers: tuple[str, ...]
    given_numbers: tuple[str, ...]
    given_consts: tuple[str, ...]


@dataclass(frozen=True)
class RowFunctionContext:
    """One function of a row kernel: the terms of a reduction, or results."""

    name: str
    parameters: tuple[str, ...]
    doc: str
    lines: tuple[str, ...]
    returned: str


@dataclass(frozen=True)
class RowPassContext:
    """One pass over rows that are read tile by tile, or its part of a row's piece."""

    stage: str
    begin_lines: tuple[str, ...]
    tile_lines: tuple[str, ...]
    merge_lines: tuple[str, ...]
    store_lines: tuple[str, ...]
    join_lines: tuple[str, ...]
    value_lines: tuple[str, ...]


@dataclass(frozen=True)
class RowKernelContext:
    """`templates/row.py.j2`: the functions of a formula with reductions, three kernels and their launcher."""

    functions: tuple[RowFunctionContext, ...]
    resident: str
    looped: str
    split: str
    decorator: str
    parameters: tuple[str, ...]
    split_decorator: str
    split_parameters: tuple[str, ...]
    row_lines: tuple[str, ...]
    resident_lines: tuple[str, ...]
    passes: tuple[RowPassContext, ...]
    result_lines: tuple[str, ...]
    piece_result_lines: tuple[str, ...]
    has_whole_results: bool
    whole_lines: tuple[str, ...]
    last_stage: str
    stages: str
    has_stages: bool
    joins_last: bool
    launch: str
    launch_parameters: tuple[str, ...]
    via: str
    figures: str
    arguments: tuple[str, ...]
    split_arguments: tuple[str, ...]


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
    module: str
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
