"""Layouts of strided tensors: plain arithmetic that wrappers do before a launch.

Everything here is a pure function. Sizes and strides are sequences of non-negative integers,
strides are in elements (PyTorch has no negative ones), and "operands" are the tensors of one
kernel, what it writes first. An iteration space is `sizes`, `(D,)`, with D strides for each
operand.
"""

from collections.abc import Sequence
from math import gcd
from typing import Literal

import torch

Ints = tuple[int, ...]
Operand = tuple[Sequence[int], Sequence[int]]  # sizes and strides
Overlap = Literal["disjoint", "identical", "overlapping"]

MAX_DIMS = 6
"""Most dims of a collapsed space that a kernel takes; beyond, the caller copies operands."""

GENERAL, UNIT_COLUMNS, UNIT_ROWS, ZERO_COLUMNS, ZERO_ROWS = range(5)
"""Classes of an operand in a tile, see `choose_tile_dims`."""

_NHWC = (1, 3, 2, 0)
"""Dims of a channels-last tensor, fastest first."""

LARGEST_INT32 = 2**31 - 1

_MAX_STEPS = 4096
"""Nodes that one overlap search visits, a few milliseconds, before its conservative answer."""


def elementwise_strides(shape: Sequence[int], operands: Sequence[Operand]) -> Ints:
    """Strides that PyTorch's elementwise op over `operands`, in this order, gives its fresh result.

    `shape` is the broadcast shape, `(D,)`. Each operand is its own `(sizes, strides)`: at most D
    dims, aligned at the right, a size of 1 where it is stretched. An operand that lacks a dim in
    the middle has size 1 and stride 0 there. Sizes and strides may be symbolic; comparing them then
    adds guards.

    The rule is that of `TensorIterator` (ATen/native/TensorIterator.cpp: compute_fast_setup_type,
    compute_strides, reorder_dimensions, allocate_or_resize_outputs).
    """
    shape = tuple(shape)
    if all(tuple(sizes) == shape for sizes, _ in operands):
        same_shape = [tuple(strides) for _, strides in operands]
        if all(_is_contiguous(shape, strides) for strides in same_shape):
            return row_major(shape)
        if len(shape) == 4 and all(_is_dense_in(_NHWC, shape, strides) for strides in same_shape):
            return _strides_in_order(shape, _NHWC)
        first = same_shape[0]
        if all(strides == first for strides in same_shape) and _is_dense(shape, first):
            return first
    order = _fastest_first(shape, [_stretched(shape, *operand) for operand in operands])
    if order == list(range(len(shape)))[::-1]:
        return row_major(shape)
    return _strides_in_order(shape, order)


def collapse(
    sizes: Sequence[int], strides: Sequence[Sequence[int]]
) -> tuple[Ints, tuple[Ints, ...]]:
    """The same iteration space with as few dims as one row-major walk over all operands allows.

    `sizes` is `(D,)`, each of `strides` too (0 where an operand is broadcast). Dims of size 1 go;
    the others are ordered by falling stride of the first operand (later ones decide where it is 0
    or equal), so the fastest is last; neighbours that are one run in every operand merge. At least
    one dim remains: a single element has sizes `(1,)`, an empty space `(0,)`, both with strides
    `(1,)`. Takes integers only.
    """
    if 0 in sizes:
        return (0,), ((1,),) * len(strides)
    kept = [dim for dim, size in enumerate(sizes) if size != 1]
    sizes = [sizes[dim] for dim in kept]
    strides = [[operand[dim] for dim in kept] for operand in strides]
    merged: list[tuple[int, list[int]]] = []  # fastest first: a size, its stride in each operand
    for dim in _fastest_first(sizes, strides):
        steps = [operand[dim] for operand in strides]
        if merged:
            inner, inner_steps = merged[-1]
            if all(step == inner * inner_step for step, inner_step in zip(steps, inner_steps)):
                merged[-1] = (inner * sizes[dim], inner_steps)
                continue
        merged.append((sizes[dim], steps))
    if not merged:
        return (1,), ((1,),) * len(strides)
    merged.reverse()
    by_operand = tuple(tuple(steps[i] for _, steps in merged) for i in range(len(strides)))
    return tuple(size for size, _ in merged), by_operand


def needs_wide(sizes: Sequence[int], strides: Sequence[Sequence[int]], block: int = 1) -> bool:
    """Whether 32 bits are too few for an operand's offset, in its elements, or the flattened index.

    `block` is how many elements one program covers: the index of the last program's last lane,
    masked or not, is compared with the number of elements, so neither may wrap.
    """
    count = 1
    for size in sizes:
        count *= size
    if count == 0:
        return False
    last_index = -(-count // block) * block - 1
    last_offsets = (last_offset(sizes, operand) for operand in strides)
    return any(value > LARGEST_INT32 for value in (count, last_index, *last_offsets))


def choose_tile_dims(
    sizes: Sequence[int], strides: Sequence[Sequence[int]]
) -> tuple[Ints, tuple[Ints, ...], tuple[int, ...]]:
    """Orders the dims that `collapse` returns for two-dimensional tiles: sizes, strides, classes.

    The last dim, along which the output is fastest, is the tile's columns; the others flatten to
    its rows, the one before the last fastest. A dim along which some operand has unit stride (a
    transposed input) becomes that one, so that a tile reads the operand along its memory: the dim
    that most such operands share, those that vary along the columns counting first, then the
    innermost.

    The class of each operand is `ZERO_ROWS` (stride 1 along the columns, 0 along all others),
    `UNIT_COLUMNS` (stride 1 along the columns), `ZERO_COLUMNS` (stride 0 there), `UNIT_ROWS`
    (stride 1 along the innermost row dim), else `GENERAL`.
    """
    last = len(sizes) - 1

    def readers(dim: int) -> tuple[int, int, int]:
        unit = [operand for operand in strides if operand[dim] == 1 and operand[last] != 1]
        return sum(operand[last] != 0 for operand in unit), len(unit), dim

    order = list(range(last + 1))
    if last > 0:
        innermost = max(range(last), key=readers)
        if readers(innermost)[1] > 0:
            order.remove(innermost)
            order.insert(last - 1, innermost)
    moved = tuple(tuple(operand[dim] for dim in order) for operand in strides)
    classes = tuple(_tile_class(operand) for operand in moved)
    return tuple(sizes[dim] for dim in order), moved, classes


def largest_unit(sizes: Sequence[int], units: Sequence[int]) -> int:
    """The first of some units, of which the last is 1, that divides all sizes."""
    return next(unit for unit in units if not any(size % unit for size in sizes))


def unit_to_pass(sizes: Sequence[int], units: Sequence[int]) -> int:
    """The same; of symbols the first and the last unit alone are asked for, since each question can make a graph."""
    return largest_unit(sizes, (units[0], units[-1]) if is_traced() else units)


def is_traced() -> bool:
    """Whether PyTorch traces the call: sizes may be symbols, and each question about one can make a graph of its own."""
    return torch.compiler.is_compiling() or torch._C._len_torch_dispatch_stack() > 0


def aligned(sizes: Sequence[int], strides: Sequence[Sequence[int]], classes: Sequence[int], unit: int = 16) -> bool:
    """Whether all sizes, and all strides that an operand's class does not fix, are multiples of a unit.

    In elements. Takes what `choose_tile_dims` returns. A class fixes a stride that a kernel need
    not read: the one along the columns (`UNIT_COLUMNS`, `ZERO_ROWS`, `ZERO_COLUMNS`) or the
    innermost row dim (`UNIT_ROWS`). Any other stride counts, also a 1, as a kernel that was told so would trust it.
    Operands whose strides the kernel is told nothing about may be left out.
    """
    if any(size % unit for size in sizes):
        return False
    last = len(sizes) - 1
    fixed = {GENERAL: -1, UNIT_ROWS: last - 1}
    return not any(
        stride % unit
        for operand, kind in zip(strides, classes)
        for dim, stride in enumerate(operand)
        if dim != fixed.get(kind, last)
    )


def overlap(a: torch.Tensor, b: torch.Tensor) -> Overlap:
    """Whether two tensors share no byte, are the same elements in the same places, or otherwise.

    Exact for interleaved views (columns, steps), and for memory that two storages share. One
    exception: where the search would pass `_MAX_STEPS`, which takes several dims of unrelated
    strides, the answer is "overlapping". Needs tensors with memory: neither fake nor on the meta
    device.
    """
    if a.device != b.device or a.numel() == 0 or b.numel() == 0:
        return "disjoint"
    distance = b.data_ptr() - a.data_ptr()
    a_width, b_width = a.element_size(), b.element_size()
    if distance == 0 and a.dtype == b.dtype and a.shape == b.shape:
        if all(size == 1 or s == t for size, s, t in zip(a.shape, a.stride(), b.stride())):
            return "identical"
    a_last = last_offset(a.shape, a.stride()) * a_width
    b_last = last_offset(b.shape, b.stride()) * b_width
    if distance >= a_last + a_width or distance + b_last + b_width <= 0:
        return "disjoint"
    # A byte of `a` is one of `b`: sum(i * s) + byte == distance + sum(j * t) + other_byte. Counting
    # `j` and `other_byte` down from their last value moves them to the left, and every term is
    # positive.
    terms = [(stride * a_width, size - 1) for size, stride in zip(a.shape, a.stride())]
    terms += [(stride * b_width, size - 1) for size, stride in zip(b.shape, b.stride())]
    terms.append((1, a_width - 1 + b_width - 1))
    shared = _has_solution(terms, distance + b_last + b_width - 1)
    return "overlapping" if shared else "disjoint"


def overlaps_itself(sizes: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether two positions of a tensor are one element, as in expanded dims and sliding windows.

    Exact, up to the same exception as `overlap`, where the answer is true.
    """
    if 0 in sizes:
        return False
    dims = sorted((stride, size - 1) for size, stride in zip(sizes, strides) if size > 1)
    inner_reach = 0
    for position, (stride, last) in enumerate(dims):
        # In the slowest dim where the positions differ, they do by 1 + x, against differences of
        # both signs in the faster ones: stride * (1 + x) == sum(s * d), -n <= d <= n.
        if stride <= inner_reach:
            terms = [(inner, 2 * inner_last) for inner, inner_last in dims[:position]]
            if _has_solution([(stride, last - 1), *terms], inner_reach - stride):
                return True
        inner_reach += stride * last
    return False


def _fastest_first(shape: Sequence[int], strides: Sequence[Sequence[int]]) -> list[int]:
    """Dims by rising stride as TensorIterator sorts them: insertion that skips undecided pairs."""
    order = list(range(len(shape)))[::-1]
    for start in range(1, len(order)):
        at = start
        for before in range(start - 1, -1, -1):
            verdict = _compare_dims(shape, strides, order[before], order[at])
            if verdict < 0:
                break
            if verdict > 0:
                order[before], order[at] = order[at], order[before]
                at = before
    return order


def _compare_dims(
    shape: Sequence[int], strides: Sequence[Sequence[int]], first: int, second: int
) -> int:
    """-1 if dim `first` is the faster, 1 if the slower, 0 if no operand decides (should_swap)."""
    for operand in strides:
        a, b = operand[first], operand[second]
        if a == 0 or b == 0:
            continue
        if a != b:
            return -1 if a < b else 1
        if shape[first] > shape[second]:
            return 1
    return 0


def _stretched(shape: Ints, sizes: Sequence[int], strides: Sequence[int]) -> Ints:
    """Strides of an operand over the broadcast shape: 0 in dims it lacks or is stretched along."""
    lacking = len(shape) - len(sizes)
    own = (0 if n == 1 and full != 1 else s for full, n, s in zip(shape[lacking:], sizes, strides))
    return (0,) * lacking + tuple(own)


def row_major(shape: Sequence[int]) -> Ints:
    """The strides, in elements, of a contiguous tensor; as in PyTorch, a size of 0 counts as 1."""
    return _strides_in_order([max(size, 1) for size in shape], range(len(shape))[::-1])


def _strides_in_order(shape: Sequence[int], order: Sequence[int]) -> Ints:
    """Strides of a dense tensor whose dims, fastest first, are `order`."""
    strides = [0] * len(shape)
    step = 1
    for dim in order:
        strides[dim] = step
        step *= shape[dim]
    return tuple(strides)


def _is_dense_in(order: Sequence[int], shape: Ints, strides: Ints) -> bool:
    """Whether a tensor has the strides of that order; those of size-1 dims are free."""
    dense = _strides_in_order(shape, order)
    return all(size == 1 or s == t for size, s, t in zip(shape, strides, dense))


def _is_contiguous(shape: Ints, strides: Ints) -> bool:
    return 0 in shape or _is_dense_in(range(len(shape))[::-1], shape, strides)


def _is_dense(shape: Ints, strides: Ints) -> bool:
    """Whether each element of a block of memory is there once (is_non_overlapping_and_dense)."""
    step = 1
    for stride, size in sorted((s, n) for n, s in zip(shape, strides) if n != 1):
        if stride != step:
            return False
        step *= size
    return True


def last_offset(sizes: Sequence[int], strides: Sequence[int]) -> int:
    """Offset of the last element from the first, in elements, of a tensor that is not empty."""
    return sum((size - 1) * stride for size, stride in zip(sizes, strides))


def _tile_class(strides: Ints) -> int:
    if strides[-1] == 1:
        return ZERO_ROWS if len(strides) > 1 and not any(strides[:-1]) else UNIT_COLUMNS
    if strides[-1] == 0:
        return ZERO_COLUMNS
    return UNIT_ROWS if len(strides) > 1 and strides[-2] == 1 else GENERAL


def _has_solution(terms: Sequence[tuple[int, int]], target: int) -> bool:
    """Whether sum(c * x) == target for some 0 <= x <= bound of each term `(c, bound)`, c >= 0.

    Depth first, largest coefficient first. A term's x ranges over what the smaller ones can still
    make up, in the steps that their common divisor leaves, and the search ends at terms that reach
    every multiple of theirs: for the nested strides of most tensors, a step or two per dim. True
    when it would pass `_MAX_STEPS` nodes.
    """
    bounds: dict[int, int] = {}
    for c, bound in terms:
        if c > 0 and bound > 0:
            bounds[c] = bounds.get(c, 0) + bound
    ordered = sorted(bounds.items(), reverse=True)
    rest = _what_remains(ordered)
    pending = [(0, target)]
    for _ in range(_MAX_STEPS):
        if not pending:
            return False
        place, left = pending.pop()
        reach, divisor, every = rest[place]
        if not 0 <= left <= reach or left % divisor:
            continue
        if every:
            return True
        c, bound = ordered[place]
        inner_reach, inner_divisor, _ = rest[place + 1]
        step = inner_divisor // divisor
        least = max(0, -((inner_reach - left) // c))
        residue = left // divisor * pow(c // divisor, -1, step)
        candidates = range(least + (residue - least) % step, min(bound, left // c) + 1, step)
        pending += [(place + 1, left - c * x) for x in candidates[:_MAX_STEPS]]
    return True


def _what_remains(ordered: Sequence[tuple[int, int]]) -> list[tuple[int, int, bool]]:
    """For the terms from each place on: largest sum, common divisor, whether every multiple is one.

    It does where the smallest coefficient divides all others, and none leaves a gap in what the
    smaller ones reach; that is sufficient, not necessary. No terms at all reach 0.
    """
    rest = [(0, 1, True)]
    for c, bound in reversed(ordered):
        reach, divisor, every = rest[-1] if len(rest) > 1 else (0, c, True)
        every = every and c % divisor == 0 and c <= reach + divisor
        rest.append((reach + c * bound, gcd(c, divisor), every))
    return rest[::-1]
