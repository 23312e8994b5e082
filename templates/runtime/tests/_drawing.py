"""Which calls of an op are tested: a systematic list for each purpose."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import torch

from .. import _runtime as rt
from ._blocks import (
    FEW,
    SMALL,
    beyond,
    configs_to_run,
    edges,
    everyday,
    forced,
    has_elementwise,
    in_forms,
    multiplied_by,
    in_long_pieces,
    in_turn,
    persistent,
    rows_in_forms,
    widest,
)
from ._cases import Call, Case, Number, ScalarSpec, plain_numbers
from ._draw import draw_number
from ._memory import (
    LAYOUTS,
    SHARING,
    Layout,
    aligned,
    aligned_stepped,
    aligned_transposed,
    gapped,
    gapped_at,
    gapped_moved,
    paged,
    paged_across,
    paged_apart,
    stepped,
    transposed,
)
from ._random import rand

_SMALL_SIZES, _LONG = (2, 3, 2, 3, 2, 2), 33
"""Sizes of the dims of a space; along the long one a tile has its columns."""

_SMALL, _TINY = 2.0**-13, 2.0**-50
_SCALES = (0.0, _TINY, _SMALL, 2.0**24)
"""Of rows so small that what is added to them or bounds them decides, or so large that 11 bits of a factor do not do."""

_BEYOND = {"f32": 2.0**17, "i64": 2**40}
"""Numbers of scalars that the next narrower type does not have."""

_LEFT_OUT_TURN = (math.sqrt(5) - 1) / 2
"""Of what is left out from one call to the next."""

MOST_DIMS, MOST_ROW_DIMS = 6, 4
"""Of the spaces that kernels walk, and of the rows of those that reduce; tensors of more are copied."""

Shape = tuple[int, ...]


class Maker:
    """Makes calls that differ from one to the next in types, constants, optional tensors and forms
    of numbers.
    """

    def __init__(self, case: Case, inner: tuple[int, ...] = (11, 16)) -> None:
        """`inner` are the sizes of dims beside the space, in turn."""
        self._case = case
        self._inner = inner
        self._number = 0
        self._types = case.choices()
        consts = [one for one in case.scalars if one.const]
        self._consts = [
            dict(zip((one.name for one in consts), values))
            for values in itertools.product(*(const_values(one) for one in consts))
        ]
        optional = [tensor.name for tensor in case.tensors if tensor.optional]
        self._left_out = [
            frozenset(names)
            for count in range(len(optional) + 1)
            for names in itertools.combinations(optional, count)
        ]

    def call(self, shape: Shape, layouts: dict[str, Layout], **more: Any) -> Iterator[Call]:
        """The next call over a space of this shape, if sizes near it meet what the op requires."""
        named = [dim.name for dim in self._case.space]
        padded = (1,) * (len(named) - len(shape)) + shape
        leading = padded[: len(padded) - len(named)] if self._case.has_leading else ()
        sizes = dict(zip(named, padded[len(padded) - len(named) :]))
        yield from self.sized(sizes, leading, layouts, **more)

    def sized(
        self,
        sizes: Mapping[str, int],
        leading: Shape,
        layouts: dict[str, Layout],
        block: str | None = None,
        **more: Any,
    ) -> Iterator[Call]:
        """The next call with dims of these sizes; `block` says which blocks are forced where `config` does not."""
        case, number = self._case, self._number
        self._number += 1
        consts = self._consts[number % len(self._consts)]
        wanted = dict(zip(case.names, itertools.cycle(self._rotated(self._inner)))) | dict(sizes)
        fitted = case.fitted(wanted, consts)
        if fitted is None:
            return
        types = more.pop("types", self._types[number % len(self._types)])
        size = block or everyday(case)
        config = more.pop("config") if "config" in more else forced(case, size, types, number)
        call = Call(
            fitted,
            types=types,
            numbers={**plain_numbers(case, number), **consts},
            leading=leading if case.has_leading else (),
            layouts=layouts,
            left_out=in_turn(self._left_out, number, _LEFT_OUT_TURN),
            as_tensors=frozenset(self._as_tensors(number)),
            seed=number,
            config=config,
            **more,
        )
        if not case.is_refused(call):
            yield call

    def _rotated(self, items: tuple[int, ...]) -> tuple[int, ...]:
        place = self._number % len(items)
        return items[place:] + items[:place]

    def _as_tensors(self, number: int) -> Iterator[str]:
        for place, scalar in enumerate(self._case.scalars):
            if not scalar.const and (number >> place) % 3 == 1:
                yield scalar.name


def const_values(spec: ScalarSpec) -> list[Number]:
    """The values of a compile-time scalar that are tested."""
    if spec.type == "bool":
        return [False, True]
    generator = torch.Generator().manual_seed(0)
    limits = spec.range or (0, 4)
    return [draw_number(spec.type, generator, limits, special=0.0) for _ in range(3)]


def everywhere(case: Case, layout: Layout) -> dict[str, Layout]:
    """One layout for all tensors; what is written stays contiguous where elements of the layout
    would coincide.
    """
    written = {spec.name for spec in case.targets}
    names = [spec.name for spec in (*case.tensors, *case.results)]
    return {name: layout for name in names if layout not in SHARING or name not in written}


def block_calls(case: Case) -> Iterator[Call]:
    """Sizes at the edges of one-dimensional blocks, and of tiles; of each kernel's own blocks where it has others."""
    maker = Maker(case)
    choices = case.choices()
    for place, types in enumerate(choices):
        for sizes, leading, config in itertools.islice(
            edges(case, types), place, None, len(choices)
        ):
            yield from maker.sized(sizes, leading, {}, types=types, config=config)
    yield from persistent_calls(case)
    yield from scaled_calls(case)
    yield from special_calls(case)
    yield from tie_calls(case)
    if case.summed and not has_elementwise(case):
        return
    for size in (1, SMALL.block - 1, SMALL.block, SMALL.block + 1, 200):
        yield from maker.call((size,), {})
        if case.space and case.has_leading:  # dense also where the last dims have one element
            yield from maker.call((size, *(1 for _ in case.space)), {})
    rows, columns = SMALL.tile
    tiles = itertools.product(
        (1, rows + 1, 2 * rows), (1, columns - 1, columns, columns + 1, 3 * columns + 1)
    )
    for shape in tiles:
        yield from maker.call(shape, everywhere(case, gapped))


def persistent_calls(case: Case) -> Iterator[Call]:
    """Programs that take several tiles, of rows or columns that begin at multiples of 16 elements, as descriptors need
    them."""
    maker = Maker(case)
    optional = frozenset(spec.name for spec in case.tensors if spec.optional)
    for types in case.choices():
        for sizes, leading, config, apart, across in persistent(case, types):
            pages = everywhere(case, paged)
            layouts = {name: paged_across if name in across else paged for name in pages}
            layouts |= {apart: paged_apart} if apart else {}
            choices = [frozenset[str](), optional][: 1 if across else 2]
            for call in maker.sized(sizes, leading, layouts, types=types, config=config):
                for left_out in dict.fromkeys(choices):
                    yield replace(call, left_out=left_out, multiprocessors=FEW)


def tie_calls(case: Case) -> Iterator[Call]:
    """Calls in which the first random number equals every scalar that may be compared with it."""
    for call in Maker(case).call((70,), {}):
        for name in case.seeds:
            first = float(rand((1,), int(call.numbers[name])).value)
            floats = [
                one.name for one in case.scalars if one.type in ("f32", "f64") and not one.const
            ]
            numbers = {**call.numbers, **dict.fromkeys(floats, first)}
            yield replace(call, numbers=numbers, special=0.0)


def scaled_calls(case: Case) -> Iterator[Call]:
    """Zeros, small and large rows, beside large numbers, in each form of a kernel of rows, in the widest types; small
    products."""
    maker, types = Maker(case), widest(case)
    if case.contractions:
        yield from maker.call((3, 33), {}, types=types, scale=_SMALL)
    if not case.reductions or case.products:
        return
    for scale in _SCALES:
        for config in in_forms(case, types):
            for call in maker.call((3, 33), {}, types=types, config=config, scale=scale):
                yield replace(call, numbers={**call.numbers, **_beyond_numbers(case)})


def special_calls(case: Case) -> Iterator[Call]:
    """Rows that are all special, each of several elements for a lane, in each form of a kernel of rows."""
    if not case.reductions or case.products:
        return
    maker, types = Maker(case), widest(case)
    for sizes, leading, config in rows_in_forms(case, types, rows=21, columns=50):
        yield from maker.sized(sizes, leading, {}, types=types, config=config, special=1.0)


def scales(case: Case) -> tuple[float, ...]:
    """Of rows: with small ones the numbers beside them decide, in types that have such."""
    return (1.0, _SMALL, _TINY) if case.reductions and not case.products else (1.0,)


def beyond_calls(case: Case) -> Iterator[Call]:
    """Scalars beyond the next narrower type, as tensors and as numbers."""
    large = _beyond_numbers(case)
    for as_tensors in (frozenset(large), frozenset[str]()) if large else ():
        for call in Maker(case).call((70,), {}):
            yield replace(call, numbers={**call.numbers, **large}, as_tensors=as_tensors)


def _beyond_numbers(case: Case) -> dict[str, Number]:
    return {
        one.name: _BEYOND[one.type]
        for one in case.scalars
        if one.type in _BEYOND and not one.const and one.range is None
    }


def layout_calls(case: Case) -> Iterator[Call]:
    """Every layout: of all tensors at once, and of one tensor among contiguous ones."""
    maker = Maker(case)
    shapes = itertools.cycle(((5, 33), (3, 4, 17), (2, 3, 5, 7), (18, 19)))
    names = [spec.name for spec in (*case.tensors, *case.results)]
    for number, layout in enumerate(LAYOUTS):
        combined = everywhere(case, layout)
        yield from maker.call(next(shapes), combined)
        at = number % len(names)
        for name in names[at : at + 1] if case.summed else names:
            if name in combined and len(names) > 1:
                yield from maker.call(next(shapes), {name: layout}, offsets={name: 1})
    # A tensor of the leading dim alone is then the same for all rows of a tile, of which some are not there.
    yield from maker.call((33, 5), everywhere(case, transposed))
    rows = (200, *(1 for _ in case.space)) if case.has_leading else (200,)
    for name in names:
        yield from maker.call(rows, {name: paged})
    yield from broadcast_calls(case, maker)


def broadcast_calls(case: Case, maker: Maker) -> Iterator[Call]:
    """Each tensor of leading dims without the first, or with one element along each."""
    for spec in case.tensors:
        if spec.has_leading and not spec.updated:
            shape = (3, 4, *(5 for _ in case.space))
            yield from maker.call(shape, {}, fewer={spec.name: 1})
            for place in range(2):
                yield from maker.call(shape, {}, ones={spec.name: frozenset({place})})


def rank_calls(case: Case) -> Iterator[Call]:
    """Spaces of up to seven dims none of which merge, the last anywhere in memory; multiples of 16 elements."""
    maker = Maker(case)
    for rank in (2, 3, 5, 7) if case.summed else range(2, 8):
        small = _SMALL_SIZES[: rank - 1]
        if rank == MOST_ROW_DIMS + 1:
            yield from _form_calls(case, maker, (*small, 5))
        yield from maker.call((*small, 5), everywhere(case, gapped), block="large")
        places = (0, rank - 1) if case.summed else range(rank)
        for place in places[:1] if rank > MOST_DIMS else places:
            shape = (*small, _LONG) if place == 0 else (*small[:-1], _LONG, small[-1])
            yield from maker.call(shape, everywhere(case, gapped_at(place)), block="middle")
    for shape in ((16, 16, 5), (16, 16, 16, 2)) if case.contractions else ():  # whose sizes all come in 16s
        yield from maker.call(shape, everywhere(case, aligned_transposed), block="large")
    yield from _turned_calls(case, maker)
    specs = (*case.tensors, *case.results)
    for number, layout in enumerate((aligned, aligned_transposed, aligned_stepped)):
        for shape in ((16, 48), (2, 16, 32), (2, 16, 16))[: 2 if case.summed else 3]:
            yield from maker.call(shape, everywhere(case, layout), block="middle")
        yield from maker.call((2, 16, 16, 32), everywhere(case, layout), block="large")
        at = number % len(specs)
        for spec in specs[at : at + 1] if case.summed else specs:
            layouts = {**everywhere(case, layout), spec.name: gapped}
            yield from maker.call((2, 16, 32), layouts, block="middle")


def _form_calls(case: Case, maker: Maker, shape: Shape) -> Iterator[Call]:
    """Rows in as many dims as a kernel of rows walks, in each of its forms; what a product goes through is contiguous, as
    tensors of so many dims would be copied for it.
    """
    types = widest(case)
    multiplied = multiplied_by(case)
    for layout, config in itertools.product((gapped, gapped_moved, stepped), in_forms(case, types)):
        layouts = {name: own for name, own in everywhere(case, layout).items() if name not in multiplied}
        for call in maker.call(shape, layouts, types=types, config=config):
            yield replace(call, left_out=frozenset())


def _turned_calls(case: Case, maker: Maker) -> Iterator[Call]:
    """Inputs whose fastest dim is the results' slowest, so that the last, by which positions count, is no tile's edge."""
    if case.summed or not case.whole:
        return
    results = {spec.name for spec in case.targets}
    for rank in (MOST_DIMS - 1, MOST_DIMS):
        for place in range(1, rank - 1):
            layouts = {
                name: gapped_at(place) if name in results else gapped_moved
                for name in everywhere(case, gapped)
            }
            yield from maker.call(_SMALL_SIZES[:rank], layouts, block="middle")


def config_calls(case: Case) -> Iterator[Call]:
    """Every emitted config of each kernel, one element beyond its blocks."""
    maker = Maker(case)
    done: set[Any] = set()
    for types in _coarse_first(case):
        kernels = case.entry.variant(types).kernels
        others = (None,) * len(kernels)
        for place, kernel in enumerate(kernels):
            for config in configs_to_run(case, kernel, types):
                if (place, config) in done:
                    continue
                done.add((place, config))
                more: dict[str, Any] = {"config": (*others[:place], config, *others[place + 1 :])}
                if case.summed:  # whose configs are for some types
                    more["types"] = types
                yield from _beyond(case, maker, kernel, config, more)
    types = widest(case)
    for sizes, leading, config in in_long_pieces(case, types):
        yield from maker.sized(sizes, leading, {}, types=types, config=config)


def _coarse_first(case: Case) -> list[dict[str, torch.dtype]]:
    """The choices of the types; of halves between kernels first the coarser, to which long sums are seldom rounded in
    doubt."""
    choices = case.choices()
    if any(case.entry.variant(types).temporaries for types in choices):
        choices.sort(key=lambda types: -max((_spacing(one) for one in types.values()), default=0.0))
    return choices


def _spacing(dtype: torch.dtype) -> float:
    """The step between the numbers of a type from 1 on, to which halves are rounded."""
    return torch.finfo(dtype).eps if dtype.is_floating_point else 0.0


def _beyond(
    case: Case, maker: Maker, kernel: Any, config: Any, more: dict[str, Any]
) -> Iterator[Call]:
    if not isinstance(config, rt.Config):
        for sizes, leading in beyond(case, kernel, config):
            yield from maker.sized(sizes, leading, everywhere(case, gapped), **more)
        return
    yield from maker.call((config.block + 1,), {}, **more)
    for rows, columns in (config.tile, config.turned):
        yield from maker.call((min(rows, 64) + 1, columns + 1), everywhere(case, gapped), **more)
