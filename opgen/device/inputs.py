"""What an op is measured on: its cases (sizes and element types), random arguments, and the bytes that it moves."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from opgen.dtypes import DType
from opgen.ir.nodes import (
    Contract,
    Dim,
    DrawRange,
    Element,
    Gather,
    Graph,
    Number,
    Op,
    Read,
    Reduce,
    Ref,
    ScalarParam,
    SizeCase,
    TensorParam,
    Variant,
)
from opgen.ir.operands import operands

_SEED = 20240229
_PLAIN_SCALARS = (0.25, 1.0)
_PLAIN_INTEGERS = (1, 9)


@dataclass(frozen=True)
class Case:
    """An op at some sizes, with one choice of its type variables and the graph that serves it.

    `sizes` has the size of each plain dim; `...` is one leading dim.
    """

    op: Op
    label: str
    sizes: Mapping[str, int]
    types: Mapping[str, DType]
    graph: Graph

    @property
    def dtype(self) -> str:
        """The element types chosen, in the order of the variables."""
        return ",".join(dtype.name for dtype in self.types.values()) or "fixed"

    @property
    def missing(self) -> tuple[str, ...]:
        """The dims that the sizes say nothing about."""
        names = {dim.name for one in self.op.arrays for dim in one.dims if dim.fixed is None}
        return tuple(sorted(names - set(self.sizes)))

    def shape(self, dims: Sequence[Dim]) -> tuple[int, ...]:
        """The sizes of dims, in elements."""
        return tuple(self.size(dim) for dim in dims)

    def size(self, dim: Dim) -> int:
        named = self.sizes[dim.name] if dim.fixed is None else dim.fixed
        return named * dim.times // dim.over

    def element(self, element: Element) -> DType:
        """The element type of a declared tensor."""
        return self.types.get(element.variable or "", element.dtype)


def cases(op: Op, labels: Sequence[str] | None, dtypes: Sequence[str] | None) -> Iterator[Case]:
    """Each entry of `sizes` with each choice of element types: those of `labels`, and of `dtypes` alone."""
    for entry in op.sizes:
        if labels is not None and entry.label not in labels:
            continue
        for variant in op.variants:
            for choice in variant.choices:
                if dtypes is None or all(dtype.name in dtypes for dtype in choice):
                    yield _case(op, entry, variant, choice)


def _case(op: Op, entry: SizeCase, variant: Variant, choice: tuple[DType, ...]) -> Case:
    sizes = {dim.name: size for dim, size in entry.sizes}
    types = {variable.name: dtype for variable, dtype in zip(op.variables, choice, strict=True)}
    return Case(op, entry.label, sizes, types, variant.graph)


# --- arguments ----------------------------------------------------------------------------------


def torch_dtype(dtype: DType) -> torch.dtype:
    """PyTorch's element type; that of the bytes for packed types."""
    found: torch.dtype = getattr(torch, dtype.torch)
    return found


def draw(case: Case, device: str) -> dict[str, Any]:
    """Random arguments by parameter name: contiguous tensors, and Python numbers for scalars.

    Floats are normal, or uniform in the range of a `test` block; integers lie in 1 .. 9, and those that gather from a
    table inside it; bools are true and false alike. No tensor is constant.
    """
    generator = torch.Generator(device).manual_seed(_SEED)
    ranges = {one.param: one for one in case.op.tests.draws}
    limits = gathered_sizes(case)
    values: dict[str, Any] = {}
    for param in case.op.params:
        if isinstance(param, TensorParam):
            range_ = _integer_range(param.name, ranges, limits)
            values[param.name] = _tensor(case, param, ranges.get(param.name), range_, generator)
        else:
            values[param.name] = _scalar(param, ranges.get(param.name), generator)
    return values


def _integer_range(name: str, ranges: Mapping[str, DrawRange], limits: Mapping[str, int]) -> tuple[int, int]:
    """The smallest and the largest integer that a parameter is drawn from."""
    if name in limits:
        return 0, max(limits[name] - 1, 0)
    if name in ranges:
        return math.ceil(ranges[name].low), math.floor(ranges[name].high)
    return _PLAIN_INTEGERS


def _tensor(
    case: Case,
    param: TensorParam,
    range_: DrawRange | None,
    integers: tuple[int, int],
    generator: torch.Generator,
) -> Tensor:
    dtype = case.element(param.element)
    shape = stored_shape(case, param)
    options: dict[str, Any] = {"device": generator.device, "generator": generator}
    if dtype.is_packed:
        return torch.randint(0, 256, shape, dtype=torch.uint8, **options)
    if dtype.is_bool:
        return torch.rand(shape, **options) < 0.5
    if not dtype.is_float:
        return torch.randint(integers[0], integers[1] + 1, shape, dtype=torch_dtype(dtype), **options)
    wide = torch.float64 if dtype.name == "f64" else torch.float32
    if range_ is not None:
        uniform = torch.rand(shape, dtype=wide, **options)
        return uniform.mul_(range_.high - range_.low).add_(range_.low).to(torch_dtype(dtype))
    return torch.randn(shape, dtype=wide, **options).to(torch_dtype(dtype))


def stored_shape(case: Case, tensor: TensorParam) -> tuple[int, ...]:
    """The shape of the tensor that is passed: two packed elements share a byte of the last dim."""
    shape = case.shape(tensor.dims)
    return (*shape[:-1], shape[-1] // 2) if case.element(tensor.element).is_packed else shape


def _scalar(param: ScalarParam, range_: DrawRange | None, generator: torch.Generator) -> float | int | bool:
    """A number; one that its type holds exactly, so that every contender computes with the same."""
    if range_ is None and param.default is not None:
        return _number(param.default, param.dtype)
    if param.dtype.is_bool:
        return True
    plain = _PLAIN_SCALARS if param.dtype.is_float else _PLAIN_INTEGERS
    low, high = (range_.low, range_.high) if range_ is not None else plain
    share: float = torch.rand((), device=generator.device, generator=generator).item()
    value = low + (high - low) * share
    if param.dtype.is_float:
        return value if param.dtype.name == "f64" else as_f32(value)
    return min(math.floor(value), math.floor(high))


def _number(number: Number, dtype: DType) -> float | int | bool:
    if dtype.is_bool:
        return bool(number.value)
    if dtype.is_integer:
        return int(number.value)
    return float(number.value) if dtype.name == "f64" else as_f32(float(number.value))


def as_f32(value: float) -> float:
    """The nearest f32."""
    (nearest,) = struct.unpack("f", struct.pack("f", value))
    return float(nearest)


def gathered_sizes(case: Case) -> dict[str, int]:
    """For each parameter that a gather's position is made of, the size of the smallest dim that it points into."""
    limits: dict[str, int] = {}
    for value in case.graph.values:
        if isinstance(value.node, Gather):
            for dim, ref in value.node.coordinates:
                for name in _read_by(case.graph, ref):
                    limits[name] = min(limits.get(name, case.size(dim)), case.size(dim))
    return limits


def _read_by(graph: Graph, ref: Ref) -> set[str]:
    """The tensors that a value is made of."""
    node = graph.values[ref].node
    found = {node.param} if isinstance(node, Read) else set()
    return found.union(*(_read_by(graph, operand) for operand in operands(node)))


# --- figures ------------------------------------------------------------------------------------


def moved_bytes(case: Case) -> int:
    """The fewest bytes that the op moves: inputs read once, results written once.

    Of a tensor that is only gathered from, the elements that are gathered count, and at most all of it.
    """
    values = case.graph.values
    read = {value.node.param for value in values if isinstance(value.node, Read)}
    gathered: dict[str, int] = {}
    for value in values:
        if isinstance(value.node, Gather):
            count = math.prod(case.shape(value.type.dims))
            gathered[value.node.param] = gathered.get(value.node.param, 0) + count
    bits = 0
    for param in case.op.tensors:
        whole = math.prod(case.shape(param.dims))
        elements = whole if param.name in read else min(whole, gathered.get(param.name, 0))
        bits += (elements + whole * param.inout) * case.element(param.element).bits
    for result in case.op.results:
        bits += math.prod(case.shape(result.dims)) * case.element(result.element).bits
    return bits // 8


def needed_memory(case: Case) -> int:
    """About how many bytes a measurement takes: arguments, results, a copy to time, and the check in f64."""
    elements = [math.prod(case.shape(one.dims)) for one in case.op.arrays]
    results = sum(elements[len(case.op.tensors) :]) or max(elements, default=0)
    f64_temporaries = 8  # of the size of a result, while it is computed and compared
    return 3 * moved_bytes(case) + 8 * (sum(elements) + f64_temporaries * results)


def summed_terms(case: Case) -> int:
    """The number of terms of the longest chain of sums behind an element: 1 without any."""
    terms = 1
    for value in case.graph.values:
        if isinstance(value.node, Reduce):
            terms *= max(1, math.prod(case.shape(value.node.dims)))
        elif isinstance(value.node, Contract):
            terms *= max(1, case.size(value.node.dim))
    return terms
