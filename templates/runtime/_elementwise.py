"""How an elementwise kernel walks its tensors: results' strides, the collapsed space, and the launch figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import ClassVar

import torch

from ._binding import Bound, Dim, Operator, Tensor, dim
from ._layout import (
    GENERAL,
    LARGEST_INT32,
    MAX_DIMS,
    aligned,
    choose_tile_dims,
    collapse,
    elementwise_strides,
    is_traced,
    largest_unit,
    needs_wide,
    overlap,
    overlaps_itself,
    unit_to_pass,
    row_major,
)

#: Units that sizes and strides are passed in: their multiples tell the compiler how wide it may load, 16 bytes of most
#: types from 8 elements on. The first is also what Triton asks of a number to count on its multiples.
_UNITS = (16, 8, 4, 1)
#: Elements from which a dense space is walked as a row where its size is a multiple of a smaller unit alone: a dense kernel
#: would move them one by one.
_LEAST_WIDE = 65536
#: Added to the layout class of a tensor whose strides are no multiples of the unit, and are passed in elements.
_ODD = 8
#: The class of a tensor that does not walk folded columns evenly; the others are those of `_layout.py`.
FOLDED = 5
#: A last dim of fewer elements is folded into the columns with the one before it.
_FEW_COLUMNS = 32
#: Where the size of such a dim is one of these powers of two, no columns are divided at run time.
_EXPONENTS = (1, 2, 3, 4)


@dataclass(frozen=True)
class Config:
    """Block sizes, in elements: one-dimensional, row tiles, and tiles that read some tensor across its rows.

    `tile_warps` and `turned_warps` are `warps` where they are 0.
    """

    block: int
    warps: int
    tile: tuple[int, int]
    turned: tuple[int, int]
    tile_warps: int = 0
    turned_warps: int = 0


@dataclass(frozen=True)
class Access:
    """What a kernel addresses: a tensor by its dims, or (`tensor` None) the row-major position over dims.

    `gathered` dims are addressed by values inside the kernel. A packed tensor is addressed by its bytes: its last dim
    is `K / 2`.
    """

    tensor: str | None
    dims: tuple[str, ...]
    gathered: tuple[str, ...] = ()
    parsed: tuple[Dim, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "parsed", tuple(dim(text) for text in self.dims))


@dataclass(frozen=True)
class Walk:
    """The space of a kernel, outermost dim first, and what it addresses there: a result first.

    All may share one dense layout if some dim is common to all; else no dense kernel is there.
    """

    space: tuple[str, ...]
    accesses: tuple[Access, ...]
    parsed: tuple[Dim, ...] = field(init=False, repr=False)
    may_be_dense: bool = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "parsed", tuple(dim(text) for text in self.space))
        walked = [{*one.dims} - {*one.gathered} for one in self.accesses]
        object.__setattr__(self, "may_be_dense", bool(set.intersection(*walked)))


@dataclass(frozen=True)
class Launch:
    """A chosen kernel and its figures.

    `dense` kernels walk `numel` elements in memory order. Strided ones take `space` (rows, columns, four inner
    sizes, in multiples of `unit`; the size of a folded last dim; what divides by the column tiles of a row and by the
    inner sizes), seven strides for each access (in such multiples too, unless its layout class says
    otherwise) and the layout classes.
    """

    is_repeatable: ClassVar[bool] = True  # see `ProductLaunch`

    dense: bool
    grid: tuple[int]
    wide: bool
    warps: int
    numel: int = 0
    block: int = 0
    rank: int = 1
    unit: int = 1
    tile: tuple[int, int] = (1, 1)
    space: tuple[int | None, ...] = ()
    strides: tuple[int, ...] = ()
    layouts: tuple[int, ...] = ()


def plan(
    walk: Walk, bound: Bound, tensors: Mapping[str, torch.Tensor | None], config: Config
) -> Launch | None:
    """The launch of a kernel over these tensors, or None where there is nothing to compute.

    Raises `NotImplementedError` where the space has more than six dims after collapsing; the caller then copies.
    """
    pieces = atoms(walk, bound)
    full_sizes = tuple(piece.size for piece in pieces)
    if 0 in full_sizes:
        return None
    full_strides = [
        access_strides(access, pieces, bound, tensors[access.tensor] if access.tensor else None)
        for access in walk.accesses
    ]
    sizes, strides = collapse(full_sizes, full_strides)
    if len(sizes) > MAX_DIMS:
        raise NotImplementedError(f"{len(sizes)} dims after collapsing")
    if walk.may_be_dense and len(sizes) == 1 and all(operand == (1,) for operand in strides):
        if is_traced() or sizes[0] < _LEAST_WIDE or largest_unit(sizes, _UNITS) in (_UNITS[0], 1):
            return _dense(sizes[0], config)
    return _strided(sizes, strides, config)


def _dense(numel: int, config: Config) -> Launch:
    wide = needs_wide((numel,), ((1,),), config.block)
    grid = (-(-numel // config.block),)
    return Launch(True, grid, wide, config.warps, numel=numel, block=config.block)


def _strided(sizes: tuple[int, ...], strides: tuple[tuple[int, ...], ...], config: Config) -> Launch:
    fold = sizes[-1] if len(sizes) > 1 and sizes[-1] < _FEW_COLUMNS else 1
    inner = tuple(operand[-1] for operand in strides)
    split = tuple(fold > 1 and operand[-2] != fold * operand[-1] for operand in strides)
    flat_sizes, flat_strides = (sizes, strides) if fold == 1 else _folded(sizes, strides, split)
    tile_sizes, tile_strides, layouts = choose_tile_dims(flat_sizes, flat_strides)
    if len(tile_sizes) == 1:  # the kernel's space has at least a row dim and columns
        tile_sizes, tile_strides = (1, *tile_sizes), tuple((0, *operand) for operand in tile_strides)
    exponent = next((one for one in _EXPONENTS if isinstance(fold, int) and fold == 1 << one), 0)
    layouts = tuple(FOLDED + 16 * exponent if folded else kind for folded, kind in zip(split, layouts))
    turned = any(
        operand[-2] == 1 and operand[-1] not in (0, 1) and not folded
        for operand, folded in zip(tile_strides, split)
    )
    rows, columns = config.turned if turned else config.tile
    warps = (config.turned_warps if turned else config.tile_warps) or config.warps
    n_rows = prod(tile_sizes[:-1])
    if n_rows == 1:
        rows, columns = 1, rows * columns
    while columns // 2 >= tile_sizes[-1] and columns > 16:  # short rows: more of them in a tile
        rows, columns = rows * 2, columns // 2
    unit = unit_to_pass(tile_sizes[1:], _UNITS)
    units = tuple(
        unit if _is_even(tile_sizes, operand, kind, last, unit) else 1
        for operand, kind, last in zip(tile_strides, layouts, inner)
    )
    unused, between = (1,) * (MAX_DIMS - len(tile_sizes)), tile_sizes[1:-1]
    col_tiles = -(-tile_sizes[-1] // columns)
    return Launch(
        dense=False,
        grid=(-(-n_rows // rows) * col_tiles,),
        # The tiles of a row are counted by rounding its columns up, in as many bits.
        wide=needs_wide(sizes, strides, rows * columns) or tile_sizes[-1] > LARGEST_INT32 - columns,
        warps=warps,
        rank=len(tile_sizes),
        unit=unit,
        tile=(rows, columns),
        space=(
            n_rows,
            tile_sizes[-1] // unit,
            *unused,
            *(size // unit for size in between),
            fold,
            *dividers((col_tiles, *unused, *between)),
        ),
        strides=tuple(
            stride // own
            for operand, last, own in zip(tile_strides, inner, units)
            for stride in (*_six(operand), last)
        ),
        layouts=tuple(kind if own == unit else kind + _ODD for kind, own in zip(layouts, units)),
    )


def dividers(sizes: tuple[int, ...]) -> tuple[int | None, ...]:
    """What a kernel divides by the sizes with.

    Traced, None: sizes may be symbols, and Inductor's integers have 32 bits.
    """
    return (None,) * len(sizes) if is_traced() else tuple(map(divider, sizes))


def divider(size: int) -> int:
    """What a kernel divides numbers of 31 bits by `size` with: n // size is (n * multiplier) >> (31 + shift).

    The multiplier is in the lower 32 bits, the shift in those above (Granlund and Montgomery, "Division by invariant
    integers using multiplication", PLDI 1994); 32 is added to it, so that the number has more than 32 bits, and one
    type.
    """
    shift = (size - 1).bit_length()
    return 32 + shift << 32 | -(-(1 << 31 + shift) // size)


def _folded(
    sizes: tuple[int, ...], strides: tuple[tuple[int, ...], ...], split: tuple[bool, ...]
) -> tuple[tuple[int, ...], tuple[tuple[int, ...], ...]]:
    """The space with its last two dims as one; an operand that does not walk it evenly keeps the outer's stride."""
    flat = tuple(
        (*operand[:-2], operand[-2] if uneven else operand[-1]) for operand, uneven in zip(strides, split)
    )
    return (*sizes[:-2], sizes[-2] * sizes[-1]), flat


def _is_even(sizes: tuple[int, ...], operand: tuple[int, ...], kind: int, inner: int, unit: int) -> bool:
    """Whether all strides that a kernel reads of an operand are multiples of `unit`."""
    if unit == 1:
        return True
    is_folded = kind & 7 == FOLDED
    if is_folded and inner % unit:
        return False
    # The outermost size, of the rows, is passed as it is.
    return aligned((unit, *sizes[1:]), (operand,), (GENERAL if is_folded else kind,), unit)


def _six(operand: tuple[int, ...]) -> tuple[int, ...]:
    """Strides in the six places of a kernel: outermost, unused ones, inner row dims, columns."""
    outer, *between, columns = operand
    return (outer, *(0,) * (MAX_DIMS - 2 - len(between)), *between, columns)


@dataclass(frozen=True)
class _Atom:
    """A piece of the space: along it the position in dim `key` moves by `step` elements.

    A dim `K` that meets `K / 128` and `K / 32` has pieces of steps 128, 32 and 1, so that every tensor moves by a
    constant stride along each. A leading dim has its place from the right as the step.
    """

    key: str
    step: int
    size: int


def atoms(walk: Walk, bound: Bound) -> tuple[_Atom, ...]:
    """The pieces of a walk's space, outermost first."""
    pieces: list[_Atom] = []
    for one in walk.parsed:
        if one.name == "...":
            count = len(bound.ellipsis)
            pieces += [_Atom("...", count - 1 - place, size) for place, size in enumerate(bound.ellipsis)]
            continue
        steps = {one.over}
        for access in walk.accesses:
            steps |= {other.over for other in access.parsed if family(other) == family(one) and other.over > one.over}
        extent = bound.named(one) * one.times
        for step in sorted(steps, reverse=True):
            pieces.append(_Atom(family(one), step, extent // step))
            extent = step
    return tuple(pieces)


def family(one: Dim) -> str:
    """What a dim and its fractions share: they move along the same dim of the space."""
    return one.name if one.times == 1 else f"{one.name} * {one.times}"


def access_strides(
    access: Access, pieces: Sequence[_Atom], bound: Bound, tensor: torch.Tensor | None
) -> tuple[int, ...]:
    """The strides, in elements, of an access along the pieces of the space; 0 where it does not move."""
    if access.tensor is None:
        shape = bound.extents(access.parsed)
        strides = row_major(shape)
    elif tensor is None:
        return (0,) * len(pieces)
    else:
        shape, strides = tuple(tensor.shape), tensor.stride()
    named = access.parsed[1:] if access.dims and access.dims[0] == "..." else access.parsed
    leading = len(shape) - len(named)
    by_key = {
        family(one): (one.over, stride)
        for one, stride in zip(named, strides[leading:])
        if one.text not in access.gathered
    }
    return tuple(_stride(piece, by_key, shape[:leading], strides[:leading]) for piece in pieces)


def _stride(
    atom: _Atom, named: Mapping[str, tuple[int, int]], leading: tuple[int, ...], strides: tuple[int, ...]
) -> int:
    if atom.key == "...":
        place = len(leading) - 1 - atom.step
        return strides[place] if place >= 0 and leading[place] != 1 else 0
    over, stride = named.get(atom.key, (1, 0))
    return stride * (atom.step // over)


def result_strides(
    op: Operator, bound: Bound, tensors: Sequence[torch.Tensor | None], spec: Tensor
) -> tuple[int, ...]:
    """Strides of a fresh result: those of PyTorch's elementwise op over the tensors in parameter order."""
    shape = bound.shape(spec)
    operands = [
        _as_operand(one, tensor, spec, bound)
        for one, tensor in zip(op.inputs, tensors)
        if tensor is not None
    ]
    return elementwise_strides(shape, operands)


def _as_operand(
    one: Tensor, tensor: torch.Tensor, result: Tensor, bound: Bound
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The sizes and strides of a tensor over the dims of a result, with 1 and 0 for dims that it lacks."""
    named = one.parsed[1:] if one.has_ellipsis else one.parsed
    leading = tensor.dim() - len(named)
    places = {item.text: leading + place for place, item in enumerate(named)}
    sizes: list[int] = []
    strides: list[int] = []
    for item in result.parsed:
        if item.name == "...":
            missing = len(bound.ellipsis) - leading
            sizes += [*(1,) * missing, *tensor.shape[:leading]]
            strides += [*(0,) * missing, *tensor.stride()[:leading]]
        elif item.text in places:
            sizes.append(tensor.shape[places[item.text]])
            strides.append(tensor.stride(places[item.text]))
        else:
            sizes.append(1)
            strides.append(0)
    return tuple(sizes), tuple(strides)


def check_written(
    op: Operator, written: Sequence[tuple[str, torch.Tensor]], read: Sequence[tuple[str, torch.Tensor | None]]
) -> set[str]:
    """Checks tensors that a call writes; the names of the inputs that are the identical view of one.

    Raises `ValueError` where a written tensor overlaps itself, or another argument otherwise than as the identical
    view.
    """
    shared: set[str] = set()
    for place, (name, tensor) in enumerate(written):
        if overlaps_itself(tensor.shape, tensor.stride()):
            raise ValueError(f"{op.name}: `{name}` is written, but several of its elements are one in memory")
        others = [*written[place + 1 :], *read]
        for other_name, other in others:
            if other is None or other is tensor and other_name == name:
                continue
            kind = overlap(tensor, other)
            if kind == "overlapping" or (kind == "identical" and place < len(written) - 1 and other_name in {
                later for later, _ in written[place + 1 :]
            }):
                raise ValueError(
                    f"{op.name}: `{name}` is written and shares memory with `{other_name}`, of which it is not "
                    "the identical view"
                )
            if kind == "identical":
                shared.add(other_name)
    return shared
