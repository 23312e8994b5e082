"""How a row kernel walks its tensors: the kept and the reduced dims, merged, and the figures of a launch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, ClassVar, Literal

import torch

from ._binding import Bound
from ._elementwise import Access, Walk, access_strides, atoms
from ._launching import NeedsReference, for_target, for_widest, multiprocessors_of
from ._layout import LARGEST_INT32, collapse, is_traced, largest_unit, last_offset

Strides = tuple[tuple[int, ...], ...]  # of each access
Strategy = Literal["resident", "looped", "split"]

_ROW_DIMS, _COLUMN_DIMS = 4, 3
#: From this layout on strides are no multiples of 8 elements.
_ROWS_APART = 200
#: Most pieces that a row is cut into.
MAX_SPLITS = 256
#: Most elements of a tile whose rows alone are fixed, and Triton's limit for any block.
LARGEST_TILE, LARGEST_BLOCK = 2**16, 2**20
#: Most pieces that a warp joins: what each of its 32 threads holds of them is 32 registers for each reduction.
_JOINED_BY_A_WARP = 1024
#: Rows across memory are cut into pieces of so many columns or more, for so many warps of each multiprocessor: one
#: that streams tiles needs them to keep enough loads on their way.
_SHORTEST_PIECE, _STREAMING_WARPS = 512, 8
#: Rows of a multiprocessor up to which they are few, by strategy; the columns that a warp loads of one at a time.
_FEW = {"resident": 2, "looped": 8}
_COLUMNS_OF_A_WARP = 256


@dataclass(frozen=True)
class RowConfig:
    """How rows of up to `longest` columns are walked, or those of `exact`ly so many; of any length, in a loop, where that
    is 0.

    A program's tile has `elements`: one row rounded up to a power of two, or several where they are shorter; `rows` and
    `columns` fix its sides. With `programs` for each multiprocessor, these loop over the
    tiles; else each tile has its own. `stages` is how many tiles are on their way at a time. `registers` are the most of
    a thread with a whole row, where the compiler would take so many that fewer programs fit (0: as it likes).
    `few_warps` (0: none) run a row where there are so few that a multiprocessor has two at most, or eight that are read
    in a loop: then in tiles of as many columns as these warps load at once.
    """

    longest: int
    elements: int
    warps: int
    programs: int = 0
    stages: int = 1
    rows: int = 0
    columns: int = 0
    registers: int = 0
    few_warps: int = 0
    exact: bool = False

    def serves(self, n_cols: int) -> bool:
        """Whether rows of so many columns are walked so; what is traced stays good for the lengths around an exact one."""
        return not is_traced() and self.longest == n_cols if self.exact else self.longest >= n_cols


@dataclass(frozen=True)
class RowConfigs:
    """The configs of one target for one element width, by row length: where memory runs along rows, and across them.

    Where there are too few tiles to fill the GPU, rows are cut into pieces; along memory those of at least `split`
    columns, into tiles that have `piece_columns` (where they have one row) and `piece_warps` at most.
    """

    along: tuple[RowConfig, ...]
    across: tuple[RowConfig, ...]
    split: int
    piece_columns: int = 4096
    piece_warps: int = 8


@dataclass(frozen=True)
class RowTile:
    """A chosen walk: whole rows in registers, rows in a loop, or rows cut into `splits` pieces that are looped."""

    strategy: Strategy
    rows: int
    columns: int
    warps: int
    programs: int = 0
    stages: int = 1
    splits: int = 1
    registers: int = 0


@dataclass(frozen=True)
class RowWalk:
    """The dims of a row kernel, outermost first, and what it addresses there: a result first."""

    kept: tuple[str, ...]
    reduced: tuple[str, ...]
    accesses: tuple[Access, ...]
    rows: Walk = field(init=False, repr=False)
    columns: Walk = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "rows", Walk(self.kept, self.accesses))
        object.__setattr__(self, "columns", Walk(self.reduced, self.accesses))


@dataclass(frozen=True)
class RowLaunch:
    """The figures of a launch.

    `space` has the rows and three inner sizes of theirs, the columns and two of theirs; `strides` are those that each
    access is declared with, in multiples of 16 unless its layout says otherwise; `options` are compile-time numbers.
    A split launch runs once for each of its stages, with `pieces`: their number, and the blocks of columns of each.
    """

    is_repeatable: ClassVar[bool] = True  # see `ProductLaunch`

    strategy: Strategy
    grid: tuple[int, ...]
    space: tuple[int, ...]
    strides: tuple[int, ...]
    layouts: tuple[int, ...]
    options: Mapping[str, int]
    rows: int = 0
    pieces: tuple[int, int] = (1, 0)

    @property
    def resident(self) -> bool:
        return self.strategy == "resident"

    @property
    def split(self) -> bool:
        return self.strategy == "split"

    @property
    def joining(self) -> tuple[int, ...]:
        """The grid of a last stage that only joins what the pieces gave: one program for each tile of rows."""
        return (self.grid[0], 1)

    def partials(self, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
        """Memory for one number of each piece of each row."""
        return torch.empty((self.rows, self.pieces[0]), dtype=dtype, device=device)


@dataclass(frozen=True)
class RowKernel:
    """A row kernel: its walk, its launcher, and its configs by target and bytes of the widest element.

    `parts` says which strides it takes of each access: those of rows (`r`), of columns (`c`), or both; `w` is written.
    """

    walk: RowWalk
    launch: Callable[..., None]
    configs: Mapping[str, Mapping[int, RowConfigs]]
    parts: tuple[str, ...]

    def prepare(
        self, bound: Bound, layouts: Mapping[str, Any], config: RowTile | RowConfigs | None
    ) -> RowLaunch | None:
        """The figures of a launch; see `AnyKernel`."""
        tensors = [layouts[access.tensor] if access.tensor else None for access in self.walk.accesses]
        if "..." in self.walk.reduced:
            self._check_leading(bound, tensors)
        rows = _group(self.walk.rows, bound, tensors, _ROW_DIMS)
        columns = _group(self.walk.columns, bound, tensors, _COLUMN_DIMS)
        if 0 in rows[0]:
            return None
        across = _lies_across(rows[1], columns[1])
        if not isinstance(config, RowTile):
            table = config or self._choose(bound, layouts)
            sizes = prod(rows[0]), prod(columns[0])
            config = choose_tile(table, *sizes, across, multiprocessors_of(bound.device))
        return _launch(self.parts, rows, columns, across, config, multiprocessors_of(bound.device))

    def _check_leading(self, bound: Bound, tensors: Sequence[Any]) -> None:
        """Raises `NeedsReference` where leading dims broadcast: each reduction is over those of its own value alone."""
        for access, tensor in zip(self.walk.accesses, tensors):
            if tensor is not None and access.dims[:1] == ("...",):
                if tuple(tensor.shape[: len(tensor.shape) - len(access.dims) + 1]) != tuple(bound.ellipsis):
                    raise NeedsReference

    def _choose(self, bound: Bound, layouts: Mapping[str, Any]) -> RowConfigs:
        """The configs for the device, by the bytes of the widest element of whole rows."""
        table = for_target(self.configs, bound.device)
        names = {access.tensor for access, part in zip(self.walk.accesses, self.parts) if part.startswith("rc")}
        return for_widest(table, [layouts[name] for name in names if name is not None] or layouts.values())


def choose_tile(table: RowConfigs, n_rows: int, n_cols: int, across: bool, multiprocessors: int) -> RowTile:
    """The walk of `n_rows` rows of `n_cols` columns."""
    config = _band(table.across if across else table.along, n_cols)
    resident = config.longest >= max(n_cols, 1)
    fit = min(_power_of_two(n_cols) if resident else config.elements, max(LARGEST_TILE // max(config.rows, 1), 1))
    columns = config.columns or fit
    rows = config.rows or max(config.elements // columns, 1)
    if across and not config.rows and not is_traced():
        rows = min(rows, _power_of_two(n_rows))
    tiles = -(-n_rows // rows)
    if across and columns < n_cols:
        wanted = _STREAMING_WARPS * multiprocessors // (config.warps * max(tiles, 1))
        splits = min(wanted, n_cols // _SHORTEST_PIECE, _most_pieces(rows, config.warps))
        if splits > 1:
            return RowTile("split", rows, columns, config.warps, stages=config.stages, splits=splits)
    elif not across and 4 * tiles <= multiprocessors and n_cols >= table.split:
        block = min(columns, table.piece_columns) if rows == 1 else columns
        warps = min(config.warps, table.piece_warps) if rows == 1 else table.piece_warps
        splits = min(-(-2 * multiprocessors // tiles), -(-n_cols // block), _most_pieces(rows, warps))
        return RowTile("split", rows, block, warps, stages=config.stages, splits=splits)
    strategy: Strategy = "resident" if resident and columns >= n_cols else "looped"
    is_few = config.few_warps > 0 and rows == 1 and tiles <= _FEW[strategy] * multiprocessors
    if is_few and strategy == "looped":
        columns = max(columns, _COLUMNS_OF_A_WARP * config.few_warps)
    figures = config.few_warps if is_few else config.warps, config.programs, config.stages
    return RowTile(strategy, rows, columns, *figures, registers=config.registers)


def _most_pieces(rows: int, warps: int) -> int:
    """The pieces that a row of a tile of `rows` is cut into at most: one program joins those of all its rows."""
    return max(min(MAX_SPLITS, _JOINED_BY_A_WARP * warps // rows), 1)


def _band(along: Sequence[RowConfig], n_cols: int) -> RowConfig:
    return next((one for one in along if one.serves(n_cols)), along[-1])


def _power_of_two(count: int) -> int:
    """The least power of two that is not below a count, at least 16; one for many counts, also where it is traced."""
    power = 16
    while power < count:
        power *= 2
    return power


def _launch(
    parts: Sequence[str],
    rows: tuple[tuple[int, ...], Strides],
    columns: tuple[tuple[int, ...], Strides],
    across: bool,
    tile: RowTile,
    multiprocessors: int,
) -> RowLaunch:
    row_sizes, col_sizes = rows[0], columns[0]
    n_rows, n_cols = prod(row_sizes), prod(col_sizes)
    block, tile_rows = tile.columns, tile.rows
    if tile.strategy == "resident":
        block = max(block, _power_of_two(n_cols))
        tile_rows = max(min(tile_rows, LARGEST_BLOCK // block), 1)
    tiles = -(-n_rows // tile_rows)
    row_unit = largest_unit((n_rows, *row_sizes[1:]), (16, 1)) if across else 1
    unit = largest_unit((n_cols, *col_sizes[1:]), (16, 8, 4, 2, 1))
    within = not is_traced() and len(row_sizes) > 1 and row_sizes[-1] % tile_rows == 0
    accesses = [_layout(*access, within) for access in zip(parts, rows[1], columns[1])]
    grid: tuple[int, ...] = (min(tiles, tile.programs * multiprocessors or tiles),)
    pieces = (1, 0)
    if tile.strategy == "split":
        blocks = max(-(-n_cols // (tile.splits * block)), 1)
        pieces = (max(-(-n_cols // (blocks * block)), 1), blocks)
        grid = (tiles, pieces[0])
    options = {
        "ROW_RANK": len(row_sizes),
        "COL_RANK": len(col_sizes),
        "ROW_UNIT": row_unit,
        "UNIT": unit,
        "WIDE": _needs_wide(rows, columns, tiles * tile_rows * pieces[0], n_cols + block),
        "ROWS": tile_rows,
        "COLUMNS": block,
        "FULL": bool(n_cols > 0 and n_cols % block == 0),
        "STAGES": tile.stages,
        "num_warps": tile.warps,
    }
    # Element by element, addresses alone would spill; and PyTorch's wrapper of kernels does not know this option.
    is_wide = unit >= 8 and all(layout < _ROWS_APART and layout % 10 != 2 for _, layout in accesses)
    if tile.registers and is_wide and not is_traced():
        options["maxnreg"] = tile.registers
    if tile.strategy == "split":
        options["SPLITS"] = _power_of_two(max(pieces[0], _most_pieces(tile.rows, tile.warps)))
    return RowLaunch(
        strategy=tile.strategy,
        grid=grid,
        space=(
            n_rows // row_unit,
            *_inner(row_sizes, _ROW_DIMS, row_unit),
            n_cols // unit,
            *_inner(col_sizes, _COLUMN_DIMS, unit),
        ),
        strides=tuple(stride for strides, _ in accesses for stride in strides),
        layouts=tuple(layout for _, layout in accesses),
        options=options,
        rows=n_rows,
        pieces=pieces,
    )


def _inner(sizes: tuple[int, ...], dims: int, unit: int) -> tuple[int, ...]:
    """The inner sizes in their places, in multiples of a unit."""
    inner = tuple(size // unit for size in sizes[1:])
    return (*(1,) * (dims - 1 - len(inner)), *inner)


def _layout(
    part: str, rows: tuple[int, ...], columns: tuple[int, ...], within: bool
) -> tuple[tuple[int, ...], int]:
    """The strides of one access, as its kernel takes them, and its layout.

    `within` says that the rows of each tile lie in the innermost dim of the rows.
    """
    by_row = _kind(rows) if "r" in part else 0
    if within and by_row == 2 and rows[-1] == 0 and "c" in part and "w" not in part:
        by_row = 3
    by_column = _kind(columns) if "c" in part else 0
    if "w" in part:  # what is stored has the shape of its tile
        by_row, by_column = by_row or 2, by_column or 2 if "c" in part else 0
    if by_row == by_column == 0:  # it does not move, but has a shape
        by_row, by_column = (0, 2) if "c" in part else (2, 0)
    read = [*_read(rows, by_row), *_read(columns, by_column)]
    shift = next(place for place in range(5) if not any(stride % (16 >> place) for stride in read))
    scale = 16 >> shift
    strides: tuple[int, ...] = ()
    if "r" in part:
        strides += _in_places(rows, _ROW_DIMS, scale)
    if "c" in part:
        strides += _in_places(columns, _COLUMN_DIMS, scale)
    return strides, 100 * shift + 10 * by_row + by_column


def _kind(strides: tuple[int, ...]) -> int:
    """0 for a group of dims in which an access does not move, 1 with stride 1 in the innermost, else 2."""
    return 0 if not any(strides) else 1 if strides[-1] == 1 else 2


def _read(strides: tuple[int, ...], kind: int) -> tuple[int, ...]:
    """The strides that a kernel reads."""
    return () if kind == 0 else strides[:-1] if kind == 1 else strides


def _in_places(strides: tuple[int, ...], dims: int, scale: int) -> tuple[int, ...]:
    """Strides in the places of a kernel: outermost, unused ones, inner ones."""
    outer, *inner = (stride // scale for stride in strides)
    return (outer, *(0,) * (dims - 1 - len(inner)), *inner)


def _needs_wide(
    rows: tuple[tuple[int, ...], Strides], columns: tuple[tuple[int, ...], Strides], *counts: int
) -> bool:
    """Whether 32 bits are too few for an offset, in elements, or for a count."""
    last = (
        last_offset((*rows[0], *columns[0]), (*by_row, *by_column))
        for by_row, by_column in zip(rows[1], columns[1])
    )
    return any(value > LARGEST_INT32 for value in (*counts, *last))


def _group(
    walk: Walk, bound: Bound, tensors: Sequence[Any], most: int
) -> tuple[tuple[int, ...], Strides]:
    """A group of dims with as few as all accesses allow, and the strides of each; one element where there are none.

    The innermost dim is one along which many accesses have unit stride.
    """
    pieces = atoms(walk, bound)
    full = tuple(piece.size for piece in pieces)
    own = [access_strides(access, pieces, bound, tensor) for access, tensor in zip(walk.accesses, tensors)]
    if 0 in full:  # all move along it, so that no element is inside
        return (0,), ((1,),) * len(own)
    if all(size == 1 for size in full):
        return (1,), ((0,),) * len(own)
    sizes, strides = collapse(full, own)
    if len(sizes) > most:
        raise NotImplementedError(f"{len(sizes)} dims after collapsing")
    inner = max(range(len(sizes)), key=lambda place: (_units(strides, place), place))
    order = [*(place for place in range(len(sizes)) if place != inner), inner]
    return tuple(sizes[at] for at in order), tuple(tuple(one[at] for at in order) for one in strides)


def _units(strides: Strides, place: int) -> int:
    """How many accesses have unit stride along a dim."""
    return sum(1 for operand in strides if operand[place] == 1)


def _lies_across(rows: Strides, columns: Strides) -> bool:
    """Whether memory runs along the rows rather than along the columns."""
    both = [pair for pair in zip(rows, columns) if any(pair[0]) and any(pair[1])]
    along_rows = sum(1 for by_row, by_column in both if by_row[-1] == 1 and by_column[-1] != 1)
    return along_rows > 0 and along_rows >= sum(1 for _, by_column in both if by_column[-1] == 1)
