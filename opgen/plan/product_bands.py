"""Searches configs of products: those that fit a target, and for each band of shapes the best by prediction."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from opgen.plan.model import BEYOND, ProductBand, ProductClass, ProductConfig, Rejection
from opgen.plan.product_budget import Excess, Work, excess
from opgen.plan.product_hints import Narrowed
from opgen.plan.product_model import Prepared, Shape, library_microseconds, microseconds, prepared, rate
from opgen.plan.product_space import GROUPS, configs, with_library
from opgen.targets import TARGETS, Target

#: Upper ends of the bands of rows and of columns, each with the size that its config is chosen at; then k.
ROW_BANDS = ((1, 1), (16, 16), (64, 64), (128, 128), (256, 256), (512, 512), (1024, 1024))
ROWS_BEYOND = 8192
COLUMN_BANDS = ((1024, 1024), (4096, 4096))
COLUMNS_BEYOND = 14336
DEPTH = 4096
#: Many rows of halves have bands of their own on sm_90 up to this k, chosen at that one: there is little to load ahead,
#: and what a tile takes at its start and its end counts. On an H200 16384 x 2048 x 128 took 58.6 us with the config for
#: longer k and 53.1 with its own, 2048 x 1024 x 512 16.0 and 13.1; from a k of 640 on nothing is won. Elsewhere nothing
#: was measured.
SHORT, SHORT_DEPTH = 576, 384
#: Rows, columns and warps of tiles of halves that may have half the columns on sm_90, where that fills waves better: on
#: an H200 1024 x 14336 x 4096 took 191 us with four waves of these, and 183 with seven of those.
_HALVED = (128, 256, 8)
#: Rows of halves that may each go through the right operand by itself on sm_90, out of L2: 4 x 280 x 1680 took 6 us so
#: on an H200, and 9.5 through the matrix unit. One row elsewhere, and of other types.
_VECTOR_ROWS = 4
#: Configs that a band keeps, best first.
_KEPT = 4
#: A band takes the config of the one before it where that is predicted to be at most this much slower than its best.
_SAME = 1.02
#: The vendor's product is taken where it is predicted to be this much faster.
_LIBRARY_GAIN = 1.05
#: Rows from which a product is bound by the matrix unit, and what the sums' way through memory costs an element of
#: the result then, in positions of k for each operation that the unit does while a byte moves: `ProductBand.idle`.
#: Of the 29 products of more rows that the benchmark of advise drew on an H200, 14 are left to the vendor by that,
#: whose way took 0.63 to 0.99 of the time of ours.
_MANY_ROWS = 128
_IDLE = 4


def class_bands(work: Work, target: Target, asked: Narrowed) -> ProductClass:
    """The bands of one class of types on a target, without any where the hints leave nothing that fits."""
    return _searched(work, target.name, asked)


@functools.cache
def _searched(work: Work, name: str, asked: Narrowed) -> ProductClass:
    target = TARGETS[name]
    fitting, turned = fitting_configs(work, target, asked)
    bands = _merged(_bands(fitting, work, target, asked)) if fitting else ()
    if _is_measured(work, target) and work.products == 1:
        bands = tuple(_with_narrow(one, fitting) for one in bands)
    rejected = tuple(_rejection(reason, found) for reason, found in turned.items())
    return ProductClass(work.name, bands, len(fitting) + sum(one.count for one in rejected), rejected)


def fitting_configs(
    work: Work, target: Target, asked: Narrowed
) -> tuple[list[Prepared], dict[str, list[tuple[ProductConfig, Excess]]]]:
    """All configs of the space that fit a target, and those that do not, by what they pass."""
    fitting: list[Prepared] = []
    turned: dict[str, list[tuple[ProductConfig, Excess]]] = {}
    precision = asked.precision_on(target)
    for config in (asked.finished(one, target) for one in configs(asked.space(), work.width)):
        if not _can(config, work, target):
            continue
        over = excess(config, work, target)
        if over is None:
            fitting.append(prepared(config, work, target, precision))
        else:
            turned.setdefault(over.reason, []).append((config, over))
    return fitting, turned


def _can(config: ProductConfig, work: Work, target: Target) -> bool:
    """Whether a config has a meaning for a class of types on a target."""
    if config.strategy == "descriptors" and (not target.has_descriptors or work.has_prologue):
        return False
    if config.halves and work.products > 1:
        return False
    if config.form in ("dot", "swapped"):
        has_unit = rate(work, target, "ieee") > 0
        return has_unit or (work.name == "f32" and target.name != "sm_75")
    if config.form == "outer":  # where nothing else is, and for f32, which has no exact matrix unit
        return rate(work, target, "ieee") == 0
    return True


def _rejection(reason: str, found: Sequence[tuple[ProductConfig, Excess]]) -> Rejection:
    """The configs that one limit rejects; the one that passes it least is shown."""
    config, over = min(
        found, key=lambda item: item[1].figure if item[1].figure > item[1].limit else -item[1].figure
    )
    return Rejection(reason, len(found), config, over.figure, over.limit)


def _bands(fitting: Sequence[Prepared], work: Work, target: Target, asked: Narrowed) -> Iterator[ProductBand]:
    """The bands by rows; for each end of rows those of short k, where they differ, and then those of any."""
    leading = _leading(fitting)
    deep = dict(_ranked(leading, DEPTH, work, target))
    short = dict(_ranked(leading, SHORT_DEPTH, work, target)) if _is_measured(work, target) else {}
    for row_end in dict.fromkeys(at.m for at in deep):
        own, shorter = (
            [_band(leading, at, kept, work, target, asked) for at, kept in found.items() if at.m == row_end]
            for found in (deep, short)
        )
        if row_end >= _MANY_ROWS and [one.configs[0][0] for one in shorter] != [
            one.configs[0][0] for one in own
        ]:
            yield from shorter
        yield from own


def _is_measured(work: Work, target: Target) -> bool:
    """Whether short sums and a few rows one by one were measured."""
    return work.name == "half" and target.name == "sm_90"


@dataclass(frozen=True)
class _At:
    """The ends of a band, and the shape that its configs are chosen at."""

    m: int
    n: int
    k: int
    shape: Shape


def _ranked(
    leading: Sequence[Prepared], depth: int, work: Work, target: Target
) -> Iterator[tuple[_At, tuple[tuple[int, float], ...]]]:
    """The configs that each band keeps, by their places in `leading`, best first, with their predicted microseconds.

    Neighbours share one where it costs little.
    """
    alone = _VECTOR_ROWS if _is_measured(work, target) else 1
    above: dict[int, int] = {}
    for row_end, m in sorted({*ROW_BANDS, (alone, alone), (BEYOND, ROWS_BEYOND)}):
        near = [place for place, one in enumerate(leading) if _is_near(one.config, m, alone)] or range(
            len(leading)
        )
        left: int | None = None
        for column_end, n in (*COLUMN_BANDS, (BEYOND, COLUMNS_BEYOND)):
            at = _At(row_end, column_end, SHORT if depth == SHORT_DEPTH else BEYOND, Shape(m, n, depth))
            times = {place: microseconds(leading[place], at.shape, work, target) for place in near}
            ranked = sorted(near, key=times.__getitem__)
            most = times[ranked[0]] * _SAME
            known = (place for place in (left, above.get(column_end)) if place is not None)
            first = next((place for place in known if times.get(place, most) < most), ranked[0])
            ranked = [first, *(place for place in ranked if place != first)]
            left = above[column_end] = ranked[0]
            yield at, tuple((place, times[place]) for place in ranked[:_KEPT])


def _band(
    leading: Sequence[Prepared],
    at: _At,
    ranked: Sequence[tuple[int, float]],
    work: Work,
    target: Target,
    asked: Narrowed,
) -> ProductBand:
    best = [(_grouped(leading[place].config, at.shape.m, asked), time) for place, time in ranked]
    if asked.may_take_library and _has_library(work, target, asked):
        time = library_microseconds(at.shape, work, target)
        if asked.takes_library or time * _LIBRARY_GAIN < best[0][1]:
            best = [(_vendor(leading, work, target), time), *best[: _KEPT - 1]]
    stays = at.m > _MANY_ROWS and best[0][0].strategy == "descriptors"
    sizes = (at.shape.m, at.shape.n, at.shape.k)
    return ProductBand(at.m, at.n, sizes, tuple(best), _idle(work, target, asked) if stays else 0, at.k)


def _with_narrow(band: ProductBand, fitting: Sequence[Prepared]) -> ProductBand:
    """A band with the config that has half the columns of its own, where that is one whose waves were measured."""
    whole = band.configs[0][0]
    m, n, k = whole.tile
    half = replace(whole, tile=(m, n // 2, k), stages=whole.stages + 1, halves=False)
    fits = any(replace(one.config, group=whole.group) == half for one in fitting)
    is_known = whole.strategy == "descriptors" and (m, n, whole.warps) == _HALVED
    return replace(band, narrow=half) if is_known and fits else band


def _idle(work: Work, target: Target, asked: Narrowed) -> int:
    """`ProductBand.idle` of products of halves by programs that stay, in positions of k; 0 where it must be ours."""
    can = asked.may_take_library and work.name == "half" and _is_plain(work)
    return round(_IDLE * rate(work, target, "ieee") * 1e3 / target.bandwidth) if can else 0


def _vendor(leading: Sequence[Prepared], work: Work, target: Target) -> ProductConfig:
    """The vendor's product; calls that cannot take it get what suits a middling shape."""
    shape = Shape(128, 4096, DEPTH)
    near = [one for one in leading if _is_near(one.config, shape.m, 1)] or list(leading)
    return with_library(min(near, key=lambda one: microseconds(one, shape, work, target)).config)


def _leading(fitting: Sequence[Prepared]) -> list[Prepared]:
    """The configs without those that another one of the same tile is never behind, whatever the shape."""
    families: dict[tuple[object, ...], list[Prepared]] = {}
    for one in fitting:
        config = one.config
        key = (config.form, config.strategy, config.tile[:2], config.split, config.halves)
        family = families.setdefault(key, [])
        if not any(one.is_behind(other) for other in family):
            family[:] = [other for other in family if not other.is_behind(one)] + [one]
    return [one for family in families.values() for one in family]


def _grouped(config: ProductConfig, m: int, asked: Narrowed) -> ProductConfig:
    """A config with rows of tiles that share L2: many where there are many, as far as the hints allow."""
    down = -(-m // config.tile[0])
    wanted = 16 if down >= 16 else 4 if config.strategy == "descriptors" else 8
    return replace(config, group=min(asked.groups or GROUPS, key=lambda group: abs(group - wanted)))


def _is_near(config: ProductConfig, m: int, alone: int) -> bool:
    """Whether a tile's rows suit a number of rows: no more than the next power of two, and many for many.

    Up to `alone` rows may each go through the right operand by itself.
    """
    rows = config.tile[0]
    if m == 1 or config.form == "vector":
        return m <= alone and config.form == "vector"
    if config.strategy == "descriptors" and config.form == "dot" and rows == 64:
        return 1 < m < 2048  # the least that the matrix unit of sm_90 takes
    least = 1 if config.form == "outer" else 16
    return (
        least <= rows <= max(16, m)
        and (m < 512 or rows >= 32)
        and (m < 2048 or rows >= 64 or config.form == "outer")
    )


def _has_library(work: Work, target: Target, asked: Narrowed) -> bool:
    """Whether the vendor's product is a choice: of halves only where asked for, or where Triton has no matrix unit."""
    known = work.name in ("f32", "f64") or (
        work.name == "half" and (asked.takes_library or rate(work, target, "ieee") == 0)
    )
    is_exact = work.name != "f32" or asked.precision == "ieee"
    return known and is_exact and _is_plain(work)


def _is_plain(work: Work) -> bool:
    """Whether tensors are multiplied as they are."""
    return not (work.has_prologue or work.left_copy or work.right_copy)


def _merged(bands: Iterable[ProductBand]) -> tuple[ProductBand, ...]:
    """The bands, those as one that follow each other with the same configs: columns first, then whole rows of them."""
    rows: dict[int, list[ProductBand]] = {}
    for band in bands:
        own = rows.setdefault(band.m, [])
        if own and _choice(own[-1]) == _choice(band):
            own[-1] = band
        else:
            own.append(band)
    kept: list[list[ProductBand]] = []
    for own in rows.values():
        if kept and _choices(kept[-1]) == _choices(own):
            kept[-1] = own
        else:
            kept.append(own)
    return tuple(band for own in kept for band in own)


def _choices(bands: Sequence[ProductBand]) -> list[tuple[int, ProductConfig, int, int]]:
    return [(band.n, *_choice(band)) for band in bands]


def _choice(band: ProductBand) -> tuple[ProductConfig, int, int]:
    return band.configs[0][0], band.idle, band.k
