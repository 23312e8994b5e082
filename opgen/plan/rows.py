"""Plans row kernels: what they address, and tiles by row length, for each target and element width."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from opgen.ir.nodes import Dim, Gather, Graph, HintRequest, Op, Read, Reduce, TensorParam
from opgen.ir.passes.parts import Part
from opgen.plan import elementwise
from opgen.plan.hints import Hints, first_value
from opgen.plan.model import Access, RowBand, RowConfig, RowPlan
from opgen.plan.row_passes import looped_passes, resident_levels
from opgen.targets import Target

#: Instructions for an element from which work between reductions counts as medium, and as heavy, and for each of the
#: three the longest rows that stay in registers, in bytes of the tensors that they hold there: the more work, the more
#: it costs to read a row anew.
_MEDIUM_OPERATIONS, _HEAVY_OPERATIONS = 16, 28
_RESIDENT_BYTES = (16384, 32768, 65536)
#: Targets where 32 warps with a row of 32,768 spill, or have too few registers.
_SHORTER_ROWS = ("sm_75", "sm_86", "sm_89", "gfx1100")
#: Large parts of NVIDIA; their bands are those that an H200 found fastest.
_LARGE = ("sm_80", "sm_90", "sm_100", "sm_120")
#: Warps of a row of up to 4,096 halves where there are so few that all take the time of one: on an H200 rms_norm of 16
#: rows took 5.2 us with 4 warps and 4.6 with 32, of 256 rows 6.1 and 5.3.
_FEW_WARPS = 32
#: Threads of a multiprocessor that find room beside each other where each holds 32 elements of a row of halves: left to
#: the compiler, layer_norm of 4096 x 16384 bf16 took 99 registers of each, and 111 us on an H200; with 64 it takes 76.
_THREADS = 1024
#: Rows of f32 that are exactly so long, where no element of a tile is masked out, by how much work they are. Light ones
#: are read twice, the second time from a cache (rms_norm of 2,048 columns took 133 us on an H200 from registers and 129
#: so, where a copy takes 128); those of costly moments keep 64 elements of a thread in registers (layer_norm of
#: 4096 x 16384 took 154 us with 32 of them and 136 with 64).
_TWICE = (
    RowBand(2048, 1024, 8, columns=1024, exact=True),
    RowBand(4096, 2048, 8, columns=2048, exact=True),
    RowBand(8192, 4096, 16, columns=4096, exact=True),
)
_EXACT = (_TWICE, _TWICE[1:], (RowBand(16384, 16384, 8, exact=True),))
#: Rows that lie across memory and stay in registers, by whether their elements have more than 2 bytes and by whether
#: work on them is heavy. From sweeps on an H200, as all that is across: softmax of 262144 x 256 bf16 takes 89 us, and
#: took 131 when it read each tile of a row twice.
_WHOLE_ACROSS = {
    (False, False): (RowBand(128, 2048, 2), RowBand(256, 4096, 4), RowBand(1024, 8192, 8)),
    (False, True): (RowBand(128, 2048, 2), RowBand(256, 4096, 4), RowBand(512, 8192, 8)),
    (True, False): (RowBand(128, 4096, 4), RowBand(1024, 8192, 8)),
    (True, True): (RowBand(256, 4096, 4), RowBand(1024, 8192, 8)),
}
#: Longer ones, read tile by tile; and streamed through shared memory: softmax of 16384 x 4096 bf16 takes 140 us instead
#: of 290. Rows that are longer still want larger tiles where these have room: layer_norm_swish of 4096 x 16384 takes
#: 222 us of f32 with 128 rows of 32 columns and 320 with 32 of 64, but softmax of f32, whose sums each new tile
#: rescales, 277 with 32 of 64 and 340 or more with others.
_TILES = RowBand(0, 2048, 4, columns=32)
_STREAMED = RowBand(0, 2048, 4, columns=64, stages=4)
_LONG = 8192
_SHORTER_WIDE = RowBand(_LONG, 1024, 4, columns=32, stages=4)
#: Rows of which one pass gives all, longer than those that one warp keeps: there is nothing to keep in a cache, and
#: many small programs load best. cross_entropy of 1335 x 50257 bf16 took 127 us on an H200 with tiles of 8,192 and 32
#: warps, and 101 with those of 2,048 and 4; few rows have the former all the same.
_ONCE = {
    False: (
        RowBand(16384, 2048, 4, columns=2048, few_warps=_FEW_WARPS),
        RowBand(65536, 2048, 8, columns=2048, few_warps=_FEW_WARPS),
        RowBand(0, 4096, 16, columns=4096, few_warps=_FEW_WARPS),
    ),
    True: (RowBand(0, 4096, 16, columns=4096, few_warps=_FEW_WARPS),),
}
#: Bytes of a row from which few rows are cut into pieces.
_SPLIT_BYTES = 131072
#: Threads of a program of a piece: one for each of the pieces that it joins. LLVM spills where CDNA has twice as many.
_PIECE_THREADS = 256
#: Most elements of a tile whose rows alone are asked for.
_LARGEST_TILE = 65536
#: Programs for each multiprocessor that stay and loop over tiles, where they are asked for.
_PROGRAMS = 2


def plan_kernel(op: Op, parts: tuple[Part, ...], target: Target, hints: Hints) -> RowPlan:
    """The plan of one row kernel: its part of each variant's graph, in an op as these see it."""
    graph = parts[0].graph
    widths = _widths(op, parts[0])
    return RowPlan(
        parts=parts,
        accesses=_accesses(op, parts),
        configs=tuple(_with_hints(_config(parts[0], width, target), parts[0], hints) for width in widths),
        operations=_operations(graph),
        bytes=tuple(elementwise.moved_bytes(op, parts[0], width) for width in widths),
    )


def _accesses(op: Op, parts: tuple[Part, ...]) -> tuple[Access, ...]:
    """What the kernels address, and the positions that they count."""
    found = dict.fromkeys(elementwise.accesses(op, parts))
    for part in parts:
        for value in part.graph.values:
            if isinstance(value.node, Reduce) and value.node.gives_position:
                found[Access(None, value.node.dims)] = None
    return tuple(found)


def _widths(op: Op, part: Part) -> tuple[int, ...]:
    """The bytes of the widest element of whole rows, for every choice of the op's type variables."""
    space, reduced = set(part.space), set(part.reduced)
    whole = tuple(
        item for item in op.arrays if reduced & set(item.dims) and set(item.dims) & (space - reduced)
    )
    params = tuple(one for one in op.params if one in whole or not isinstance(one, TensorParam))
    results = tuple(one for one in op.results if one in whole)
    return elementwise.widths(replace(op, params=params, results=results) if whole else op)


def _operations(graph: Graph) -> int:
    """Instructions for an element: those of the elementwise functions, and a few for each reduction."""
    reductions = sum(isinstance(value.node, Reduce) for value in graph.values)
    return elementwise.operations(graph) + 2 * reductions


def _config(part: Part, element: int, target: Target) -> RowConfig:
    """Tiles that give each thread 32 elements or fewer, but for what is exact, from sweeps on an H200.

    A row stays in registers while the tensors that are read again after a reduction leave room for it. Longer ones are
    read again from the L2 cache, by few programs with many warps, so that the rows on their way stay there.
    """
    operations = _operations(part.graph)
    work = (operations >= _MEDIUM_OPERATIONS) + (operations >= _HEAVY_OPERATIONS)
    if len(part.reduced) == 1 and _has_moments(part.graph):  # addresses over several dims would spill
        work = 2
    width = max(element, 2)
    longest = max(_RESIDENT_BYTES[work] // (width * max(_held(part), 1)), 1024)
    wide = 2 if width > 2 else 1  # so many times the warps
    may_choose = wide > 1 or target.is_amd or len(part.reduced) > 1  # addresses over several dims would spill
    registers = 0 if may_choose else target.registers // _THREADS
    short = [RowBand(1024, 2048, 2 * wide)]
    if target.name in _LARGE:
        short = [RowBand(128, 2048, 2), RowBand(1024, 1024, 1)]
        if width > 2:
            short = [RowBand(128, 1024, 4), RowBand(1024, 1024, 2)]
    along = [
        *short,
        RowBand(4096, 4096, 4 * wide, few_warps=_FEW_WARPS if target.name in _LARGE and wide == 1 else 0),
        RowBand(8192, 8192, 8 * wide, registers=registers),
        RowBand(16384, 16384, 16 * wide, registers=registers),
        RowBand(32768, 32768, 32, programs=2),
    ]
    looped = [
        RowBand(32768 // width, 4096, 16, columns=4096),
        RowBand(65536 // width, 8192, 16 if work else 32, columns=8192),
        RowBand(0, 8192, 32),
    ]
    if target.name in _SHORTER_ROWS:
        longest = min(longest, 16384)
    elif width > 2:
        whole = [RowBand(32768, 32768, 32)] if len(part.reduced) == 1 and _held(part) == 1 else []
        if whole and work == 2:
            longest = 32768
        looped[2:] = *whole, RowBand(0, 16384, 32)
    along = [band for band in along if band.longest <= longest]
    along += (
        [RowBand(0, 8192, 32, programs=1)]
        if work == 2
        else [b for b in looped if not 0 < b.longest <= longest]
    )
    if target.name in _LARGE and width == 4 and len(part.reduced) == 1:
        along = _with_exact(along, _EXACT[work] if work < 2 or _held(part) == 1 else ())
    if target.name in _LARGE and _is_read_once(part):
        shorter = 16384 if wide > 1 else 1024
        along = [*(band for band in along if 0 < band.longest <= shorter), *_ONCE[wide > 1]]
    most_warps = min(32, target.max_threads // target.warp_size)
    return RowConfig(
        width=element,
        along=tuple(replace(band, warps=min(band.warps, most_warps)) for band in along),
        across=_across(part, width, work, target),
        split=_SPLIT_BYTES // width,
        piece_warps=_PIECE_THREADS // target.warp_size,
    )


def _across(part: Part, width: int, work: int, target: Target) -> tuple[RowBand, ...]:
    """The bands of rows that lie across memory; what reads a row once gains nothing from keeping it in registers."""
    is_wide = width > 2
    has_streams = (
        not target.is_amd and target.name != "sm_75"
    )  # copies to shared memory that need not be waited for
    if _is_read_once(part):
        longer = replace(_TILES, stages=3) if has_streams else _TILES
        return _WHOLE_ACROSS[is_wide, False][0], longer
    if has_streams:
        return (*_WHOLE_ACROSS[is_wide, work == 2], *_streamed(part, width, target))
    spills = target.name == "gfx1100" and work == 2
    return (*_WHOLE_ACROSS[is_wide, work == 2], replace(_TILES, elements=1024) if spills else _TILES)


def _streamed(part: Part, width: int, target: Target) -> tuple[RowBand, ...]:
    """The bands of longer rows across memory that are streamed; the largest tiles where these have room."""
    is_wide = width > 2
    largest = replace(_STREAMED, elements=4096, columns=32 if is_wide else 64)
    fits = largest.elements * width * largest.stages * _loaded(part) <= target.shared_bytes
    rescales = any(one.kind in ("exps", "logsumexp") for level in looped_passes(part.graph) for one in level)
    longer = largest if fits and not (is_wide and rescales) else _STREAMED
    shorter = _SHORTER_WIDE if is_wide else replace(_STREAMED, longest=_LONG)
    return (shorter, longer) if is_wide or fits else (longer,)


def _loaded(part: Part) -> int:
    """How many tensors of whole rows are read."""
    whole = set(part.reduced)
    return sum(
        isinstance(value.node, Read | Gather) and whole <= set(value.type.dims) != whole
        for value in part.graph.values
    )


def _is_read_once(part: Part) -> bool:
    """Whether one pass over a row of any length gives all that is stored."""
    whole = set(part.reduced)
    stored = (part.graph.values[store.value].type.dims for store in part.graph.stores)
    return len(looped_passes(part.graph)) == 1 and not any(whole & set(dims) for dims in stored)


def _with_exact(bands: Sequence[RowBand], exact: Sequence[RowBand]) -> list[RowBand]:
    """The bands, with those of single row lengths that differ from what serves these otherwise, in front of that."""
    found = list(bands)
    for one in exact:
        place = next(at for at, band in enumerate(found) if band.longest == 0 or band.serves(one.longest))
        if replace(found[place], longest=one.longest, exact=True) != one:
            found.insert(place, one)
    return found


def _has_moments(graph: Graph) -> bool:
    """Whether a row that is read anew keeps running means and squares, which cost more than most functions.

    On an H200 layer_norm of 4096 x 16384 f32 took 252 us so, and layer_norm_swish, which does more, 170 in registers.
    """
    return any(one.kind in ("var", "squares") for level in looped_passes(graph) for one in level)


def _held(part: Part) -> int:
    """How many tensors of whole rows are read before a reduction and needed after it."""
    return _loaded(part) if resident_levels(part.graph) else 1


def _with_hints(config: RowConfig, part: Part, hints: Hints) -> RowConfig:
    """The config with what is asked for: kept dims are a tile's rows, reduced dims its columns."""
    asked = {"rows": _asked(hints, part.kept), "columns": _asked(hints, part.reduced)}
    asked |= {"warps": _first(hints.warps), "stages": _first(hints.asked("stages"))}
    fixed: dict[str, Any] = {key: value for key, value in asked.items() if value}
    if fixed:
        fixed |= {"registers": 0, "few_warps": 0}
    stays = hints.asked("persistent")
    room = max(_LARGEST_TILE // (asked["rows"] or 1), 1)

    def hinted(band: RowBand) -> RowBand:
        band = replace(replace(band, columns=min(band.columns, room)), **fixed)
        if stays is None or bool(band.programs) in stays.values:
            return band
        return replace(band, programs=0 if band.programs else _PROGRAMS)

    return replace(
        config,
        along=tuple(hinted(band) for band in config.along),
        across=tuple(hinted(band) for band in config.across),
        piece_columns=asked["columns"] or config.piece_columns,
        piece_warps=asked["warps"] or config.piece_warps,
    )


def _asked(hints: Hints, dims: tuple[Dim, ...]) -> int:
    """The block that hints ask for over some dims; 0 for none."""
    sizes = [first_value(hint) for dim, hint in hints.blocks if dim in dims]
    return math.prod(sizes) if sizes else 0


def _first(hint: HintRequest | None) -> int:
    """The first value that a hint allows; 0 for none."""
    return 0 if hint is None else first_value(hint)
