"""What an op declares to its tests, and one call of it: sizes, types, layouts, values."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from .. import _runtime as rt
from ._draw import draw_number, draw_rows, draw_tensor
from ._memory import Guarded, Layout, contiguous, guarded_input, guarded_update

_WIDER = {"f32": "f64", "i32": "i64"}
"""Types of 0-d tensors that stand for scalars of narrower types, as PyTorch's own ops take them."""

_FACTORS = 0.5
"""The scale of tensors that are contracted: what follows, such as a softmax, still varies."""

_SPECIAL_ONE_IN = 5
"""Of the calls that a special row would make infinite or NaN as a whole, one in so many has some."""

Sizes = Mapping[str, int]
Range = tuple[float, float]
Number = Any  # bool, int or float


@dataclass(frozen=True)
class Dim:
    """`NAME`, `NAME*times`, `NAME/over`, a fixed size (digits) or `...`."""

    name: str
    times: int = 1
    over: int = 1

    def size(self, sizes: Sizes) -> int:
        """Its size where the named dims have these."""
        return int(self.name) if self.name.isdigit() else sizes[self.name] * self.times // self.over


def _dim(text: str) -> Dim:
    name, _, factor = text.partition("*")
    if factor:
        return Dim(name, times=int(factor))
    name, _, divisor = text.partition("/")
    return Dim(name, over=int(divisor or 1))


@dataclass(frozen=True)
class TensorSpec:
    """A tensor of the op: its element type or type variable, and its dims, as in `"... S D/2"`.

    `contiguous` says that a new result is, whatever strides the inputs have.
    """

    name: str
    element: str
    dims: str
    optional: bool = False
    updated: bool = False
    contiguous: bool = False
    range: Range | None = None

    @property
    def has_leading(self) -> bool:
        return self.dims.startswith("...")

    @property
    def named(self) -> tuple[Dim, ...]:
        """Its dims but for the leading ones."""
        return tuple(_dim(text) for text in self.dims.split() if text != "...")

    @property
    def packed(self) -> bool:
        return self.element in ("i4", "u4")


@dataclass(frozen=True)
class ScalarSpec:
    """A number of the op, known at compile time where it is a `const`."""

    name: str
    type: str
    const: bool = False
    range: Range | None = None
    default: Number = None


@dataclass(frozen=True)
class Case:
    """An op as its tests see it: its entry, its public function, and the body of its registered operator.

    `oracle` takes tensors (or None) and numbers in the order of `parameters`, and gives a value for
    each result, then for each tensor that is updated in place. `tolerance` widens the bounds of
    results of a type, by that much of 1 + |value|. `requires` are the conditions on sizes and
    consts. `whole` says that a value depends on sizes, or on elements elsewhere in the space;
    `seeds` are the scalars that random numbers are keyed with. `reductions` are the dims that each
    reduction goes over, `contractions` those that are contracted; `narrows` says that f32 operands
    of contractions may be narrowed.
    """

    entry: Any
    function: Callable[..., Any]
    operator: Callable[..., Any]
    oracle: Callable[..., Any]
    parameters: tuple[TensorSpec | ScalarSpec, ...]
    results: tuple[TensorSpec, ...]
    types: Mapping[str, tuple[torch.dtype, ...]] = field(default_factory=dict)
    sizes: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    requires: tuple[Callable[[Mapping[str, Any]], bool], ...] = ()
    tolerance: Mapping[torch.dtype, float] = field(default_factory=dict)
    whole: bool = False
    seeds: tuple[str, ...] = ()
    reductions: tuple[str, ...] = ()
    contractions: tuple[str, ...] = ()
    products: tuple[str, ...] = ()
    chain: tuple[str, ...] = ()
    counted: tuple[str, ...] = ()
    narrows: bool = False

    @property
    def name(self) -> str:
        return str(self.entry.operator.name)

    @property
    def tensors(self) -> tuple[TensorSpec, ...]:
        return tuple(one for one in self.parameters if isinstance(one, TensorSpec))

    @property
    def scalars(self) -> tuple[ScalarSpec, ...]:
        return tuple(one for one in self.parameters if isinstance(one, ScalarSpec))

    @property
    def targets(self) -> tuple[TensorSpec, ...]:
        """What a call writes, in the order of the oracle's values."""
        return (*self.results, *(tensor for tensor in self.tensors if tensor.updated))

    @property
    def space(self) -> tuple[Dim, ...]:
        """The named dims of the first target."""
        return self.targets[0].named

    @property
    def has_leading(self) -> bool:
        return any(tensor.has_leading for tensor in self.tensors)

    @property
    def names(self) -> tuple[str, ...]:
        """The named dims, each once, those of the first target first."""
        dims = [dim for spec in (*self.targets, *self.tensors) for dim in spec.named]
        return tuple(dict.fromkeys(dim.name for dim in dims if not dim.name.isdigit()))

    @property
    def summed(self) -> tuple[str, ...]:
        """The dims that each reduction or contraction goes over; none for an elementwise op."""
        return (*self.reductions, *self.contractions)

    def terms(self, call: Call) -> int:
        """The most terms that one reduction or contraction of a call has, or a chain of them together."""
        chained = sum(math.prod(self._sizes(dims, call)) for dims in self.chain)
        alone = (math.prod(self._sizes(dims, call)) for dims in self.summed)
        return max(chained, *alone) if self.summed else 1

    def factors(self, call: Call) -> int:
        """The most factors that one product over dims has; 0 where there is none."""
        return max((math.prod(self._sizes(dims, call)) for dims in self.products), default=0)

    def _sizes(self, dims: str, call: Call) -> Iterator[int]:
        for text in dims.split():
            yield from call.leading if text == "..." else (_dim(text).size(call.sizes),)

    def reduced_axes(self, spec: TensorSpec, rank: int, seed: int) -> list[int]:
        """The axes of a tensor that one of the op's reductions goes over, another one with each seed."""
        leading = rank - len(spec.named)
        found: list[list[int]] = []
        for dims in self.summed:
            axes = [leading + at for at, dim in enumerate(spec.named) if dim.name in dims.split()]
            found += [[*range(leading if "..." in dims.split() else 0), *axes]]
        found = [axes for axes in found if axes]
        return found[seed % len(found)] if found else []

    def is_summed_twice(self, spec: TensorSpec) -> bool:
        """Whether a product sums over rows of a tensor, and what these gave is summed, too: a special row decides all."""
        names = {dim.name for dim in spec.named}
        contracted, summed = (
            names & {name for dims in groups for name in dims.split()} for groups in (self.contractions, self.summed)
        )
        return bool(contracted) and len(summed) > 1

    def is_refused(self, call: Call) -> bool:
        """Whether a call reduces over nothing what has no value then."""
        operator = self.entry.operator
        by_name = {spec.name: spec for spec in self.targets}
        for one in operator.nonempty:
            target = by_name[one.result]
            shape = [
                *(call.leading if target.has_leading else ()),
                *(dim.size(call.sizes) for dim in target.named),
            ]
            reduced = self._sizes(" ".join(text.replace(" ", "") for text in one.dims), call)
            if 0 in reduced and 0 not in shape:
                return True
        return False

    def choices(self) -> list[dict[str, torch.dtype]]:
        """Every choice of the type variables."""
        return [dict(zip(self.types, choice)) for choice in itertools.product(*self.types.values())]

    def dtype(self, spec: TensorSpec, types: Mapping[str, torch.dtype]) -> torch.dtype:
        return types[spec.element] if spec.element in types else rt.DTYPES[spec.element]

    def fitted(self, wanted: Sizes, consts: Mapping[str, Number]) -> dict[str, int] | None:
        """Sizes near those wanted that meet what the op requires of them; None if there are none."""
        names = [name for name in self.names]
        steps = [self._step(name) for name in names]
        base = [
            -(-self._bounded(name, wanted.get(name, 1)) // step) for name, step in zip(names, steps)
        ]
        bumps = [range(33) if self.requires and len(names) < 4 else range(1)] * len(names)
        for bump in sorted(itertools.product(*bumps), key=sum):
            sizes = {n: (b + more) * step for n, b, more, step in zip(names, base, bump, steps)}
            if self.accepts(sizes, consts):
                return sizes
        return None

    def accepts(self, sizes: Sizes, consts: Mapping[str, Number]) -> bool:
        """Whether sizes meet the op's requirements."""
        return all(condition({**sizes, **consts}) for condition in self.requires)

    def divides(self, sizes: Sizes) -> bool:
        """Whether every dim has a whole size."""
        return all(sizes[name] % self._step(name) == 0 for name in self.names)

    def _step(self, name: str) -> int:
        """The least number that all sizes of a dim are multiples of."""
        overs = [
            dim.over * (2 if tensor.packed and dim == tensor.named[-1] else 1)
            for tensor in (*self.tensors, *self.results)
            for dim in tensor.named
            if dim.name == name
        ]
        return math.lcm(*overs)

    def _bounded(self, name: str, size: int) -> int:
        low, high = self.sizes.get(name, (0, size))
        return max(low, min(size, high))


@dataclass(frozen=True)
class Call:
    """One call: everything that its arguments are made from.

    `leading` are the sizes of `...`; a tensor has the last `len(leading) - fewer[name]` of them,
    with size 1 at the places in `ones[name]`, counted from the right. `config` None lets the op
    choose.
    """

    sizes: Sizes
    types: Mapping[str, torch.dtype]
    numbers: Mapping[str, Number]
    leading: tuple[int, ...] = ()
    layouts: Mapping[str, Layout] = field(default_factory=dict)
    offsets: Mapping[str, int] = field(default_factory=dict)
    fewer: Mapping[str, int] = field(default_factory=dict)
    ones: Mapping[str, frozenset[int]] = field(default_factory=dict)
    left_out: frozenset[str] = frozenset()
    as_tensors: frozenset[str] = frozenset()
    integers: Range | None = None  # of integer tensors that have no range
    seed: int = 0
    special: float = 0.1
    scale: float = 1.0  # of tensors of several rows without a range; 0 also makes masks and integers 0
    beside: float = 1.0  # of floats that are no rows which are summed over, without a range
    config: Any = None
    multiprocessors: int | None = None  # that launches are planned for; None for those of the device

    def layout(self, name: str) -> Layout:
        return self.layouts.get(name, contiguous)

    def shape(self, spec: TensorSpec) -> tuple[int, ...]:
        """The shape that a tensor is passed with."""
        named = [dim.size(self.sizes) for dim in spec.named]
        if spec.packed:
            named[-1] //= 2
        if not spec.has_leading:
            return tuple(named)
        leading = list(self.leading[self.fewer.get(spec.name, 0) :])
        for place in self.ones.get(spec.name, ()):
            if place < len(leading):
                leading[-1 - place] = 1
        return (*leading, *named)

    def __str__(self) -> str:
        layouts = {name: layout.__name__ for name, layout in self.layouts.items()}
        parts = [
            f"leading {list(self.leading)}",
            f"sizes {dict(self.sizes)}",
            f"types {dict(self.types)}",
        ]
        parts += [f"numbers {dict(self.numbers)}", f"layouts {layouts}", f"config {self.config}"]
        for name in ("offsets", "fewer", "ones", "left_out", "as_tensors", "multiprocessors"):
            value = getattr(self, name)
            parts += [f"{name} {value}"] if value else []
        for name in ("scale", "beside"):
            value = getattr(self, name)
            parts += [f"{name} {value}"] if value != 1.0 else []
        return ", ".join(parts)


@dataclass(frozen=True)
class Arguments:
    """The arguments of a call: guarded tensors by name (None where left out), and numbers."""

    tensors: Mapping[str, Guarded | None]
    numbers: Mapping[str, Number]
    given: Mapping[str, Any]  # what the op gets: a 0-d tensor for some of the numbers

    def values(self, case: Case) -> list[Tensor | Number | None]:
        """Copies of the arguments in the order of the parameters, on the CPU, for the oracle."""
        result: list[Tensor | Number | None] = []
        for spec in case.parameters:
            if isinstance(spec, ScalarSpec):
                result.append(self.numbers[spec.name])
                continue
            guarded = self.tensors[spec.name]
            result.append(None if guarded is None else guarded.tensor.cpu().clone())
        return result


def make_arguments(case: Case, call: Call, device: torch.device) -> Arguments:
    """Draws the values of a call and lays them out in memory."""
    generator = torch.Generator().manual_seed(call.seed)
    tensors: dict[str, Guarded | None] = {}
    for spec in case.tensors:
        if spec.name in call.left_out:
            tensors[spec.name] = None
            continue
        dtype = case.dtype(spec, call.types)
        limits = spec.range or ((0, 255) if spec.packed else None)
        if limits is None and not dtype.is_floating_point:
            limits = call.integers
        shape = call.shape(spec)
        axes = case.reduced_axes(spec, len(shape), call.seed)
        if axes:
            width = _FACTORS if {dim.name for dim in spec.named} & {*case.contractions} else 1.0
            factors = case.factors(call)
            seldom = case.is_summed_twice(spec) and call.seed % _SPECIAL_ONE_IN
            special = 0.0 if seldom else call.special
            values = draw_rows(shape, axes, dtype, generator, limits, special, width, factors)
        else:
            special = 0.0 if case.summed else call.special
            values = draw_tensor(shape, dtype, generator, limits, special)
        if spec.range is None and (0 < len(axes) < len(shape) or not dtype.is_floating_point):
            values = _scaled(values, call.scale)
        if spec.range is None and len(axes) in (0, len(shape)):
            values = _scaled(values, call.beside)
        guarded = guarded_update if spec.updated else guarded_input
        layout, offset = call.layout(spec.name), call.offsets.get(spec.name, 0)
        tensors[spec.name] = guarded(values.to(device), layout, offset)
    given = {name: None if one is None else one.tensor for name, one in tensors.items()}
    for scalar in case.scalars:
        number = call.numbers[scalar.name]
        as_tensor = scalar.name in call.as_tensors
        dtype = rt.DTYPES[_WIDER.get(scalar.type, scalar.type) if call.seed % 2 else scalar.type]
        given[scalar.name] = (
            torch.tensor(number, dtype=dtype, device=device) if as_tensor else number
        )
    return Arguments(tensors, call.numbers, given)


def _scaled(values: Tensor, scale: float) -> Tensor:
    if scale == 0.0:
        return torch.zeros_like(values)
    if scale == 1.0 or not values.is_floating_point():
        return values
    return (values.to(torch.float64) * scale).to(values.dtype)


def plain_numbers(case: Case, seed: int) -> dict[str, Number]:
    """A value for each scalar, none of them special."""
    generator = torch.Generator().manual_seed(seed)
    return {
        one.name: draw_number(one.type, generator, one.range, special=0.0) for one in case.scalars
    }
