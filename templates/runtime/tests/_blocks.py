"""Blocks to force on kernels, by kind, and sizes at their edges.

A config of a call is a tuple with one for each kernel of the op; None lets the kernel choose.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from .. import _runtime as rt
from .._launching import Kernel, target_of
from .._products import CLASSES, ProductConfig, ProductKernel
from .._rows import RowConfigs, RowKernel, RowTile

Types = Mapping[str, torch.dtype]
Sizes = dict[str, int]

SMALL = rt.Config(block=64, warps=4, tile=(2, 32), turned=(16, 16))
"""Blocks so small that a tensor of a few hundred elements has several, the last ones partial."""

LARGE = rt.Config(block=4096, warps=4, tile=(64, 64), turned=(64, 64))
"""Blocks so large that a program or two cover tens of thousands of elements."""

MIDDLE = rt.Config(block=256, warps=4, tile=(32, 32), turned=(32, 32))

TURNED_THIN = rt.Config(block=16, warps=1, tile=(4, 16), turned=(32, 16))

_ROWS = {
    "small": (
        RowTile("resident", 2, 16, 1),
        RowTile("looped", 2, 16, 1),
        RowTile("split", 2, 16, 1, splits=3),
    ),
    "middle": (
        RowTile("looped", 16, 16, 4),
        RowTile("resident", 16, 16, 4),
        RowTile("split", 16, 16, 4, splits=2),
    ),
    "large": (RowTile("looped", 64, 64, 4),),
}
"""Tiles of row kernels: whole rows, rows in a loop, and rows in pieces."""

_PERSISTENT = (RowTile("resident", 1, 16, 1, programs=1), RowTile("looped", 1, 16, 1, programs=1))
"""Programs that take one tile after another, where there are more tiles than a GPU has multiprocessors."""

_FINISHED_COLUMNS = 256
"""Most columns of a tile of the kernel that adds up sums in memory."""

FEW = 4
"""Multiprocessors of a GPU on which programs take several tiles of a small tensor."""

_LONG_PIECES, _LONG_ROW = RowTile("split", 4, 1024, 4, splits=2), 10_300
"""Pieces of more elements than f16 counts one by one, of which a mask keeps about the half."""

_SIDES = {"small": (16, 16, 32), "middle": (32, 32, 32), "large": (64, 64, 32)}
"""Tiles of products: the least that matrix units take for all types, and larger ones."""

_MOST_IN_INTERPRETER = (8, 3)
"""Emitted configs that the interpreter, in which many are the same, runs: of a lone kernel, and of each of several."""

_BLOCKS_TURN = math.sqrt(2) - 1
"""Of the blocks from one call to the next."""

_LONGEST_IN_INTERPRETER = (5000, 300)
"""Of rows under emitted configs in the interpreter, where the op has one kernel and where it has several."""


# -- configs ---------------------------------------------------------------------------------------


def kernels_of(case: Any) -> tuple[Any, ...]:
    """The kernels of an op's first variant; those of the others are of the same kinds."""
    return tuple(case.entry.variants[0].kernels)


def has_elementwise(case: Any) -> bool:
    return any(isinstance(kernel, Kernel) for kernel in kernels_of(case))


def forced(case: Any, size: str, types: Types, number: int = 0) -> tuple[Any, ...]:
    """Blocks of a size for every kernel of an op, other ones with each number."""
    by_kernel = [_of_size(kernel, size, types) for kernel in case.entry.variant(types).kernels]
    return tuple(in_turn(choices, number, _BLOCKS_TURN) for choices in by_kernel)


def in_turn(items: Sequence[Any], number: int, turn: float) -> Any:
    """The item for a number; two lists with other irrational `turn`s meet in all ways."""
    return items[int(number * turn % 1 * len(items))]


def undivided(case: Any, types: Types) -> Iterator[tuple[Any, ...]]:
    """Blocks of several rows for every kernel of an op, one for each program, with no sums in memory."""
    kernels = case.entry.variant(types).kernels
    by_kernel = [list(filter(_is_undivided, _of_size(kernel, "middle", types))) for kernel in kernels]
    for number in range(max(map(len, by_kernel))):
        yield tuple(own[number % len(own)] for own in by_kernel)


def _is_undivided(config: Any) -> bool:
    if isinstance(config, RowTile):
        return config.splits == 1
    if isinstance(config, ProductConfig):
        return config.tile[0] > 1 and config.split == 1 and config.strategy == "pointers"
    return True


def widest(case: Any) -> dict[str, torch.dtype]:
    """The choice of the type variables with the widest types."""
    choices: list[dict[str, torch.dtype]] = case.choices()
    return max(choices, key=lambda types: sum(dtype.itemsize for dtype in types.values()))


def in_forms(case: Any, types: Types) -> Iterator[tuple[Any, ...]]:
    """Blocks of a middle size for every kernel of an op, with each form of those of rows."""
    for _, config in _kernels_in_forms(case, types):
        yield config


def rows_in_forms(
    case: Any, types: Types, rows: int, columns: int
) -> Iterator[tuple[Sizes, tuple[int, ...], tuple[Any, ...]]]:
    """The same, with sizes and leading sizes that have so many rows, and columns, of the kernel whose form it is."""
    for kernel, config in _kernels_in_forms(case, types):
        yield *_sized(((kernel.walk.kept, rows), (kernel.walk.reduced, columns))), config


def _kernels_in_forms(case: Any, types: Types) -> Iterator[tuple[RowKernel, tuple[Any, ...]]]:
    """Each kernel of rows with blocks that have it in each form."""
    others = forced(case, "middle", types)
    for place, kernel in enumerate(case.entry.variant(types).kernels):
        for config in _ROWS["middle"] if isinstance(kernel, RowKernel) else ():
            yield kernel, (*others[:place], config, *others[place + 1 :])


def streamed(case: Any, types: Types) -> Iterator[tuple[tuple[Any, ...], str]]:
    """Blocks of a middle size for every kernel of an op, with each form of a product that descriptors read; the tensor to
    lay out otherwise than the others, or ""."""
    others = forced(case, "middle", types)
    for place, kernel in enumerate(case.entry.variant(types).kernels):
        for sized in _of_size(kernel, "middle", types) if isinstance(kernel, ProductKernel) else ():
            for config, apart in _spanning_or_not(kernel, sized):
                if config.strategy == "descriptors":
                    yield (*others[:place], config, *others[place + 1 :]), apart


def _spanning_or_not(kernel: Any, config: Any) -> Iterator[tuple[Any, str]]:
    """A config; where a descriptor may span two right operands, also with one laid out so that it cannot, in halves."""
    yield config, ""
    if isinstance(kernel, ProductKernel) and len(kernel.right) > 1:
        yield replace(config, halves=True), kernel.right[-1]


def rows_and_columns(case: Any) -> list[str]:
    """The innermost dims of the rows of kernels that sum, and of products' columns, over which no kernel sums; not of
    batches."""
    groups: list[tuple[str, ...]] = []
    for kernel in kernels_of(case):
        if isinstance(kernel, RowKernel):
            groups.append(kernel.walk.kept)
        elif isinstance(kernel, ProductKernel):
            groups += [kernel.walk.m, kernel.walk.n]
    summed = {dim for dims in case.summed for dim in dims.split()}
    found = dict.fromkeys(dims[-1] for dims in groups if dims)
    return [dim for dim in found if "/" not in dim and "*" not in dim and dim not in summed]


def multiplied_by(case: Any) -> set[str | None]:
    """The tensors that kernels of products read or write."""
    kernels = (kernel for kernel in kernels_of(case) if isinstance(kernel, ProductKernel))
    return {access.tensor for kernel in kernels for access in kernel.walk.accesses}


def everyday(case: Any) -> str:
    """The size of blocks where not their edges are tested: programs of rows and products are slow to interpret."""
    return "middle" if case.summed else "small"


def _of_size(kernel: Any, size: str, types: Types) -> tuple[Any, ...]:
    if isinstance(kernel, Kernel):
        return ({"small": SMALL, "middle": MIDDLE, "large": LARGE}[size],)
    if isinstance(kernel, RowKernel):
        return _ROWS[size]
    return tuple(dict.fromkeys(_resized(one, size) for one in emitted(kernel, types)))


def _resized(config: ProductConfig, size: str) -> ProductConfig:
    """A config with a tile of another size, of the same form."""
    m, n, k = _SIDES[size]
    tile = (1 if config.form == "vector" else m, n, k if config.tile[2] > 1 else 1)
    split = 3 if config.split > 1 else 1
    return replace(config, tile=tile, warps=4, stages=2, group=2, split=split)


def emitted(kernel: Any, types: Types) -> tuple[Any, ...]:
    """The configs of a kernel, each once; on a GPU those of products for its own target alone."""
    if isinstance(kernel, Kernel):
        tables = kernel.configs.values()
        return tuple(dict.fromkeys(one for table in tables for one in table.values()))
    if isinstance(kernel, RowKernel):
        tables = [table for by_width in kernel.configs.values() for table in by_width.values()]
        return tuple(
            dict.fromkeys(_as_tile(table, band) for table in tables for band in _bands(table))
        )
    own = CLASSES[types.get(kernel.multiplied) or rt.DTYPES[kernel.multiplied]]
    tables = kernel.configs.values()
    if torch.cuda.is_available():
        target = target_of(torch.device("cuda", torch.cuda.current_device()))
        tables = [kernel.configs[target]] if target in kernel.configs else tables
    return tuple(dict.fromkeys(one for table in tables for band in table[own] for one in band.configs))


def _bands(table: RowConfigs) -> tuple[Any, ...]:
    told = (*table.along, *table.across)
    return (*told, *(replace(one, warps=one.few_warps) for one in told if one.few_warps))


def _as_tile(table: RowConfigs, band: Any) -> RowTile:
    """The tile of a band for rows of its greatest length, or for rows in a loop."""
    columns = band.columns or band.longest or band.elements
    rows = band.rows or max(band.elements // columns, 1)
    strategy = "resident" if band.longest and columns >= band.longest else "looped"
    figures = band.warps, band.programs, band.stages
    return RowTile(strategy, rows, columns, *figures, registers=band.registers)


def configs_to_run(case: Any, kernel: Any, types: Types) -> tuple[Any, ...]:
    """The emitted configs that are run: in the interpreter without those that differ in what it does not know."""
    found = emitted(kernel, types)
    if not rt.INTERPRETED or isinstance(kernel, Kernel):
        return found
    alike = {_in_interpreter(one): one for one in found}
    chosen = tuple(alike.values())
    step = -(-len(chosen) // _MOST_IN_INTERPRETER[len(kernels_of(case)) > 1])
    return chosen[::step]


def _in_interpreter(config: Any) -> Any:
    if isinstance(config, RowTile):
        return replace(config, warps=1, stages=1, registers=0)
    return replace(config, warps=1, stages=1, precision="ieee")


def drawn(case: Any, types: Types) -> list[tuple[Any, ...] | None]:
    """What a drawn call may force on all kernels."""
    found: list[tuple[Any, ...] | None] = [None]
    found += [forced(case, everyday(case), types, number) for number in range(3)]
    thin = tuple(
        TURNED_THIN if isinstance(kernel, Kernel) else own
        for kernel, own in zip(kernels_of(case), forced(case, "small", types))
    )
    chosen = [configs_to_run(case, kernel, types) for kernel in case.entry.variant(types).kernels]
    longest = max(len(configs) for configs in chosen)
    found += [tuple(own[at % len(own)] for own in chosen) for at in range(longest)]
    return list(dict.fromkeys([*found, thin]))


# -- sizes at their edges --------------------------------------------------------------------------


def edges(case: Any, types: Types) -> Iterator[tuple[Sizes, tuple[int, ...], tuple[Any, ...]]]:
    """Sizes and leading sizes at the edges of small blocks of each kernel, with the configs that have them."""
    kernels = case.entry.variant(types).kernels
    is_slow = rt.INTERPRETED and len(kernels) > 1
    for place, kernel in enumerate(kernels):
        if isinstance(kernel, Kernel):
            continue
        others = forced(case, "middle", types)
        for number, config in enumerate(_of_size(kernel, "small", types)):
            found = list(_at_edges(kernel, config))
            for sizes, leading in found[number % 2 :: 2] if is_slow else found:
                yield sizes, leading, (*others[:place], config, *others[place + 1 :])


def persistent(
    case: Any, types: Types
) -> Iterator[tuple[Sizes, tuple[int, ...], tuple[Any, ...], str, set[str | None]]]:
    """Several tiles for each of `FEW` programs of each kernel; the tensor to lay out otherwise than the others, or "",
    and those that lie across memory."""
    others = forced(case, "middle", types)
    for place, kernel in enumerate(case.entry.variant(types).kernels):
        for tiled, groups, across in _in_several_tiles(kernel, types):
            for config, apart in _spanning_or_not(kernel, tiled):
                chosen = (*others[:place], config, *others[place + 1 :])
                yield *_sized(groups), chosen, apart, across


def _in_several_tiles(kernel: Any, types: Types) -> Iterator[tuple[Any, Any, set[str | None]]]:
    """Configs of a kernel that loops over tiles, or whose tiles another one finishes, sizes of its groups of which it
    has more than `FEW`, and the tensors that lie across memory."""
    if isinstance(kernel, RowKernel):
        for config in _PERSISTENT:
            yield config, ((kernel.walk.kept, 2 * FEW + 1), (kernel.walk.reduced, 5)), set()
    elif isinstance(kernel, ProductKernel):
        walk = kernel.walk
        operands = (*kernel.left, *kernel.right)
        further = [one for one in walk.accesses if one.tensor not in operands]
        flat = [one.tensor for one in further if len(one.dims) > 1]
        lines = [one.tensor for one in further if len(one.dims) == 1]
        across = set(), {*kernel.left, *flat[::2], *lines}, {one.tensor for one in walk.accesses}
        for config in _of_size(kernel, "small", types):
            for number, (own, (batch, *sides)) in enumerate(_tiled_sizes(config)):
                groups = (walk.batch, batch), *zip((walk.m, walk.n, walk.k), sides)
                yield own, groups, across[number]


def _tiled_sizes(config: ProductConfig) -> Iterator[tuple[ProductConfig, tuple[int, ...]]]:
    """Sizes of the groups of a product, of several tiles; the last with tiles that are not square, or two pieces."""
    m, n, k = config.tile
    if config.strategy == "descriptors":
        yield config, (2, 2 * m + 1, 2 * n - 1, 2 * k + 16)
        yield config, (1, 3 * m, 2 * n + 16, k + 8)
        yield replace(config, tile=(2 * m, n, k)), (2, 3 * m, 2 * n + 16, k + 16)
    elif config.split > 1:
        yield config, (2, 5, _FINISHED_COLUMNS + 3, k + 8)
        yield config, (1, m + 1, _FINISHED_COLUMNS + 16, k + 8)
        yield replace(config, split=2), (2, 48, 32, k + 16)
    elif config.strategy == "library":
        yield config, (1, 5, _FINISHED_COLUMNS + 16, k + 8)


def beyond(case: Any, kernel: Any, config: Any) -> Iterator[tuple[Sizes, tuple[int, ...]]]:
    """Sizes one element beyond the blocks of a config, as far as the interpreter comes in good time."""
    if isinstance(kernel, RowKernel):
        rows, columns = config.rows, config.columns
        longest = columns - 1 if config.strategy == "resident" else columns + 1
        if rt.INTERPRETED:
            longest = min(longest, _LONGEST_IN_INTERPRETER[len(kernels_of(case)) > 1])
        yield _sized(((kernel.walk.kept, min(rows, 64) + 1), (kernel.walk.reduced, longest)))
    else:
        m, n, k = config.tile
        walk = kernel.walk
        deep = k * config.split + 1
        batch = 1 if rt.INTERPRETED else 2
        yield _sized(((walk.batch, batch), (walk.m, m + 1), (walk.n, n + 1), (walk.k, deep)))


def in_long_pieces(
    case: Any, types: Types
) -> Iterator[tuple[Sizes, tuple[int, ...], tuple[Any, ...]]]:
    """Rows in pieces so long that f16 could not count them, for the one kernel of an op."""
    kernels = case.entry.variant(types).kernels
    if len(kernels) == 1 and isinstance(kernels[0], RowKernel):
        walk = kernels[0].walk
        yield *_sized(((walk.kept, 4), (walk.reduced, _LONG_ROW))), (_LONG_PIECES,)


def _at_edges(kernel: Any, config: Any) -> Iterator[tuple[Sizes, tuple[int, ...]]]:
    walk = kernel.walk
    if isinstance(kernel, RowKernel):
        rows, columns = config.rows, config.columns
        lengths = (1, columns - 1, columns, columns + 1, 3 * columns + 2, 0)
        counts = itertools.cycle((1, rows, rows + 1, 2 * rows + 1))
        for length in (*lengths, 7 * columns + 1):
            yield _sized(((walk.kept, next(counts)), (walk.reduced, length)))
        for count in (rows + 1, 2 * rows + 1):  # rows of one column, whose stride is 1
            yield _sized(((walk.kept, count), (walk.reduced, 1)))
        return
    m, n, k = config.tile
    deep = k * config.split
    edges = [
        (1, 1, 1, 1),
        (2, m + 1, n - 1, deep),
        (1, m, n + 1, deep + 1),
        (3, 2 * m + 1, n, max(deep - 1, 1)),
        (1, max(m - 1, 1), 2 * n, 2 * deep + 3),
        (2, 3 * m, 2 * n + 1, 1),
        (1, m, n, 0),
    ]
    for batch, rows, columns, depth in edges:
        yield _sized(((walk.batch, batch), (walk.m, rows), (walk.n, columns), (walk.k, depth)))


def _sized(groups: Sequence[tuple[Sequence[str], int]]) -> tuple[Sizes, tuple[int, ...]]:
    """Sizes of the dims in each group: all of it in the last, one in the others; a lone `...` has two dims."""
    sizes: Sizes = {}
    leading: tuple[int, ...] = ()
    for dims, size in groups:
        for at, text in enumerate(dims):
            own = size if at == len(dims) - 1 else 1
            if text == "...":
                leading = (own,)
            else:
                one = rt.dim(text)
                sizes[one.name] = max(sizes.get(one.name, 0), own * one.over // one.times)
    return sizes, leading
