"""Any calls of an op: a strategy for what the systematic lists leave out."""

from __future__ import annotations

import math
from typing import Any

import torch
from hypothesis import assume
from hypothesis import strategies as st

from ._blocks import drawn
from ._cases import Call, Case, Number
from ._draw import draw_number
from ._drawing import Shape, const_values
from ._memory import DISTINCT, LAYOUTS, Layout

_EDGES = (1, 2, 3, 4, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 129)


@st.composite
def calls(draw: st.DrawFn, case: Case, limit: int) -> Call:
    """Any call of up to `limit` elements: ranks, sizes, types, layouts, broadcasts, numbers,
    configs.
    """
    zeros = (0,) if draw(st.integers(0, 19)) == 19 else ()
    sizes_of = st.sampled_from(_EDGES + zeros)
    numbers, special = _drawn_numbers(draw, case)
    leading = tuple(draw(st.lists(sizes_of, max_size=3))) if case.has_leading else ()
    wanted = {name: draw(sizes_of) for name in case.names}
    leading, wanted = _capped(case, leading, wanted, limit)
    sizes = case.fitted(wanted, numbers)
    if sizes is None:
        sizes = case.fitted({}, numbers)
    if sizes is None:
        raise ValueError(f"{case.name}: no small sizes meet its requirements")
    types = draw(st.sampled_from(case.choices()))
    call = Call(
        sizes,
        types=types,
        numbers=numbers,
        leading=leading,
        layouts=_drawn_layouts(draw, case),
        offsets={spec.name: draw(st.sampled_from((0, 1, 3, 16))) for spec in case.tensors},
        **_drawn_broadcasts(draw, case, len(leading)),
        left_out=frozenset(
            one.name for one in case.tensors if one.optional and draw(st.booleans())
        ),
        as_tensors=frozenset(
            one.name for one in case.scalars if not one.const and draw(st.booleans())
        ),
        seed=draw(st.integers(0, 999)),
        special=special,
        config=draw(st.sampled_from(drawn(case, types))),
    )
    assume(not case.is_refused(call))
    return call


def _drawn_numbers(draw: st.DrawFn, case: Case) -> tuple[dict[str, Number], float]:
    """A value for each scalar, special in one call of ten, and the share of special values in
    tensors.
    """
    generator = torch.Generator().manual_seed(draw(st.integers(0, 999)))
    special = 1.0 if draw(st.integers(0, 9)) == 9 else 0.0
    numbers = {
        one.name: (
            draw(st.sampled_from(const_values(one)))
            if one.const
            else draw_number(one.type, generator, one.range, special)
        )
        for one in case.scalars
    }
    return numbers, draw(st.sampled_from((0.1, 0.0, 0.3)))


def _capped(
    case: Case, leading: Shape, wanted: dict[str, int], limit: int
) -> tuple[Shape, dict[str, int]]:
    """The same with the largest sizes cut until the space has no more than `limit` elements."""
    sizes = {**{place: size for place, size in enumerate(leading)}, **wanted}
    space = [*range(len(leading)), *(name for name in wanted)]
    while math.prod(max(sizes[key], 1) for key in space) > limit:  # a table of no rows is no reason for a large space
        largest = max(space, key=lambda key: sizes[key])
        sizes[largest] = (sizes[largest] + 1) // 2
    return tuple(sizes[place] for place in range(len(leading))), {n: sizes[n] for n in wanted}


def _drawn_layouts(draw: st.DrawFn, case: Case) -> dict[str, Layout]:
    written = {spec.name for spec in case.targets}
    return {
        spec.name: draw(st.sampled_from(DISTINCT if spec.name in written else LAYOUTS))
        for spec in (*case.tensors, *case.results)
    }


def _drawn_broadcasts(draw: st.DrawFn, case: Case, rank: int) -> dict[str, Any]:
    """Which leading dims each tensor lacks or has with size 1; what is updated has all of them."""
    fewer: dict[str, int] = {}
    ones: dict[str, frozenset[int]] = {}
    if rank == 0 or draw(st.booleans()):
        return {"fewer": fewer, "ones": ones}
    for spec in case.tensors:
        if spec.has_leading and not spec.updated:
            fewer[spec.name] = draw(st.integers(0, rank))
            ones[spec.name] = frozenset(draw(st.sets(st.integers(0, rank - 1), max_size=2)))
    return {"fewer": fewer, "ones": ones}
