"""The layout arithmetic of generated packages against PyTorch, NumPy and brute force."""

import importlib.util
import itertools
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch.fx.experimental.proxy_tensor import make_fx

Ints = tuple[int, ...]
Window = tuple[torch.dtype, Ints, Ints, int]  # dtype, sizes, strides, offset

RUNTIME = Path(__file__).parents[2] / "templates" / "runtime"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, RUNTIME / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


layout = load("_layout")


# elementwise_strides: what PyTorch's own ops give


@st.composite
def strided(draw: st.DrawFn, shape: Ints, orders: Sequence[Ints]) -> tuple[Ints, Ints]:
    """Sizes and strides of a tensor that broadcasts to `shape`; two often share an order."""
    lacking = draw(st.integers(0, len(shape))) if draw(st.integers(0, 4)) == 0 else 0
    sizes = [1 if draw(st.integers(0, 5)) == 0 else size for size in shape[lacking:]]
    strides = [0] * len(sizes)
    step = draw(st.sampled_from([1, 1, 1, 2]))
    for dim in draw(st.sampled_from(orders)):
        if dim < lacking:
            continue
        kind = draw(st.sampled_from(["dense"] * 8 + ["expanded", "padded", "free"]))
        if kind == "expanded":
            continue
        if kind == "free":
            strides[dim - lacking] = draw(st.integers(0, 7))
            continue
        strides[dim - lacking] = step
        step *= max(sizes[dim - lacking], 1) + (kind == "padded")
    return tuple(sizes), tuple(strides)


@st.composite
def elementwise_operands(draw: st.DrawFn) -> list[tuple[Ints, Ints]]:
    rank = draw(st.integers(0, 6))
    sizes = st.sampled_from([1, 2, 2, 3, 3, 5] * 3 + [0])
    shape = tuple(draw(sizes) for _ in range(rank))
    fixed = [tuple(range(rank))[::-1], tuple(range(rank))]
    if rank == 4:
        fixed.append((1, 3, 2, 0))
    orders = [*fixed, tuple(draw(st.permutations(range(rank))))]
    return [draw(strided(shape, orders)) for _ in range(draw(st.integers(1, 3)))]


def eager(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Results of elementwise ops whose operands are `tensors` in this order."""
    if len(tensors) == 1:
        return [torch.neg(tensors[0])]
    if len(tensors) == 2:
        return [torch.add(*tensors), torch.maximum(*tensors), torch.lt(*tensors)]
    condition = torch.empty_strided(tensors[0].shape, tensors[0].stride(), dtype=torch.bool)
    condition.fill_(True)
    return [torch.addcmul(*tensors), torch.where(condition, tensors[1], tensors[2])]


@settings(max_examples=800, deadline=None)
@given(elementwise_operands())
@example([((2, 0), (1, 2))])
@example([((2, 0, 3), (0, 3, 1)), ((1, 1), (1, 1))])
@example([((2, 3, 1, 1), (3, 1, 1, 1)), ((2, 3, 1, 1), (3, 1, 3, 3))])
@example([((1, 3, 2, 2), (5, 1, 6, 3))])
@example([((1, 3), (1, 1)), ((3,), (1,))])
@example([((2, 1, 3), (1, 7, 2))] * 2)
def test_elementwise_strides_are_pytorchs(operands: list[tuple[Ints, Ints]]) -> None:
    tensors = [torch.empty_strided(sizes, strides).fill_(1.0) for sizes, strides in operands]
    for result in eager(tensors):
        given_back = layout.elementwise_strides(tuple(result.shape), operands)
        assert given_back == result.stride()


@pytest.mark.parametrize("format", [torch.channels_last, torch.contiguous_format])
def test_channels_last_stays_channels_last(format: torch.memory_format) -> None:
    x = torch.empty(2, 5, 3, 4).contiguous(memory_format=format)
    scale = torch.empty(5, 1, 1)
    operands = [(x.shape, x.stride()), (scale.shape, scale.stride())]
    assert layout.elementwise_strides(x.shape, operands) == x.stride()


def test_no_operand_gives_contiguous_strides() -> None:
    assert layout.elementwise_strides((2, 0, 3), []) == torch.empty(2, 0, 3).stride()


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_elementwise_strides_of_symbolic_sizes(order: Ints) -> None:
    def fresh(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        operands = [(t.shape, t.stride()) for t in (x, y)]
        shape = torch.broadcast_tensors(x, y)[0].shape
        return torch.empty_strided(shape, layout.elementwise_strides(shape, operands))

    def inputs(a: int, b: int, c: int) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.zeros(a, b, c).permute(order), torch.zeros(a, b, 1).permute(order)

    traced = make_fx(fresh, tracing_mode="symbolic")(*inputs(4, 6, 5))
    x, y = inputs(7, 9, 8)
    assert traced(x, y).shape == (x + y).shape
    assert traced(x, y).stride() == (x + y).stride()


# collapse, choose_tile_dims: the same elements, in fewer dims and another order


def offsets(sizes: Sequence[int], strides: Sequence[int]) -> np.ndarray:
    """Offset of each element of a strided tensor, shaped like it."""
    total: np.ndarray = np.zeros(tuple(sizes), dtype=np.int64)
    for dim, (size, stride) in enumerate(zip(sizes, strides, strict=True)):
        along = [1] * len(sizes)
        along[dim] = size
        total = total + (np.arange(size) * stride).reshape(along)
    return total


def visited(sizes: Sequence[int], strides: Sequence[Sequence[int]]) -> list[Ints]:
    """The offsets that each point of an iteration space has in the operands, sorted."""
    return sorted(zip(*(offsets(sizes, operand).ravel().tolist() for operand in strides), strict=True))


@st.composite
def spaces(draw: st.DrawFn) -> tuple[Ints, list[Ints]]:
    """Sizes, and the strides of a dense written operand and up to two read ones."""
    rank = draw(st.integers(0, 5))
    sizes = tuple(draw(st.lists(st.sampled_from([1, 2, 3, 4]), min_size=rank, max_size=rank)))
    orders = [tuple(range(rank))[::-1], tuple(draw(st.permutations(range(rank))))]
    written = layout._strides_in_order(sizes, draw(st.sampled_from(orders)))
    read = []
    for _ in range(draw(st.integers(0, 2))):
        own_sizes, own = draw(strided(sizes, orders))
        read.append(layout._stretched(sizes, own_sizes, own))
    return sizes, [written, *read]


@settings(max_examples=300, deadline=None)
@given(spaces())
def test_collapse_visits_the_same_elements(space: tuple[Ints, list[Ints]]) -> None:
    sizes, strides = layout.collapse(*space)
    if max(space[0], default=1) > 1:
        assert visited(sizes, strides) == visited(*space)
    else:
        assert (sizes, strides) == ((1,), ((1,),) * len(space[1]))


@settings(max_examples=300, deadline=None)
@given(spaces())
def test_collapse_leaves_nothing_to_merge(space: tuple[Ints, list[Ints]]) -> None:
    sizes, strides = layout.collapse(*space)
    assert 1 <= len(sizes) <= max(1, len(space[0]))
    assert list(strides[0]) == sorted(strides[0], reverse=True)
    assert 1 not in sizes or sizes == (1,)
    for outer in range(len(sizes) - 1):
        runs_on = [s[outer] == s[outer + 1] * sizes[outer + 1] for s in strides]
        assert not all(runs_on)


@pytest.mark.parametrize(
    ("sizes", "strides", "collapsed"),
    [
        ((), [(), ()], ((1,), ((1,), (1,)))),
        ((3, 0), [(1, 1)], ((0,), ((1,),))),
        ((4, 8), [(8, 1), (8, 1)], ((32,), ((1,), (1,)))),
        ((4, 8), [(1, 4), (1, 4)], ((32,), ((1,), (1,)))),
        ((4, 8), [(8, 1), (16, 1)], ((4, 8), ((8, 1), (16, 1)))),
        ((4, 8), [(8, 1), (0, 1)], ((4, 8), ((8, 1), (0, 1)))),
        ((2, 3, 4), [(12, 4, 1), (4, 0, 1)], ((2, 3, 4), ((12, 4, 1), (4, 0, 1)))),
        ((2, 3, 4), [(12, 4, 1), (0, 0, 0)], ((24,), ((1,), (0,)))),
        ((2, 3, 4), [(12, 4, 1), (1, 0, 0)], ((2, 12), ((12, 1), (1, 0)))),
        ((2, 3, 4, 5), [(60, 1, 15, 3)] * 2, ((120,), ((1,),) * 2)),
        ((3, 4), [(0, 0), (1, 3)], ((12,), ((0,), (1,)))),
    ],
)
def test_collapse_cases(sizes: Ints, strides: list[Ints], collapsed: object) -> None:
    assert layout.collapse(sizes, strides) == collapsed


@settings(max_examples=300, deadline=None)
@given(spaces())
def test_tile_dims_are_the_same_space(space: tuple[Ints, list[Ints]]) -> None:
    sizes, strides = layout.collapse(*space)
    tiled_sizes, tiled, classes = layout.choose_tile_dims(sizes, strides)
    assert visited(tiled_sizes, tiled) == visited(sizes, strides)
    assert [s[-1] for s in tiled] == [s[-1] for s in strides]
    for operand, kind in zip(tiled, classes, strict=True):
        inner = operand[-2] if len(operand) > 1 else None
        expected = {1: layout.UNIT_COLUMNS, 0: layout.ZERO_COLUMNS}.get(operand[-1])
        if expected is None:
            expected = layout.UNIT_ROWS if inner == 1 else layout.GENERAL
        if operand[-1] == 1 and len(operand) > 1 and not any(operand[:-1]):
            expected = layout.ZERO_ROWS
        assert kind == expected
    transposed = [s for s in strides if s[-1] != 1 and 1 in s[:-1]]
    if any(s[-1] != 0 for s in transposed):
        assert layout.UNIT_ROWS in classes
    elif transposed:
        assert any(s[-1] == 0 and s[-2] == 1 for s in tiled)


@pytest.mark.parametrize(
    ("sizes", "strides", "tile"),
    [
        ((32,), [(1,), (0,)], ((32,), ((1,), (0,)), (1, 3))),
        ((4, 8), [(8, 1), (1, 4)], ((4, 8), ((8, 1), (1, 4)), (1, 2))),
        # The first dim is the one that the second operand reads along its memory.
        (
            (2, 3, 4),
            [(12, 4, 1), (1, 2, 6)],
            ((3, 2, 4), ((4, 12, 1), (2, 1, 6)), (1, 2)),
        ),
        # A per-row vector wants dim 0, a transposed input dim 1: the input is the larger.
        (
            (2, 3, 4),
            [(12, 4, 1), (1, 0, 0), (3, 1, 6)],
            ((2, 3, 4), ((12, 4, 1), (1, 0, 0), (3, 1, 6)), (1, 3, 2)),
        ),
        # Overlapping windows have unit stride along two dims: the columns are enough.
        ((2, 3, 4), [(12, 4, 1), (1, 6, 1)], ((2, 3, 4), ((12, 4, 1), (1, 6, 1)), (1, 1))),
        ((4, 8), [(16, 2), (8, 1)], ((4, 8), ((16, 2), (8, 1)), (0, 1))),
    ],
)
def test_tile_dims_cases(sizes: Ints, strides: list[Ints], tile: object) -> None:
    assert layout.choose_tile_dims(sizes, strides) == tile


@pytest.mark.parametrize(
    ("sizes", "strides", "expected"),
    [
        ((64, 32), [(32, 1), (48, 1)], True),
        ((64, 32), [(32, 1), (1, 64)], True),
        ((64, 32), [(32, 1), (0, 1), (16, 0)], True),
        ((64, 33), [(33, 1)], False),
        ((65, 32), [(32, 1)], False),
        ((64, 32), [(32, 1), (40, 1)], False),
        ((64, 32), [(32, 1), (1, 72)], False),
        ((64, 32), [(32, 1), (1, 0)], False),
        ((64, 32), [(64, 2)], False),
        ((64, 32), [(512, 16)], True),
        ((64,), [(1,), (0,)], True),
        ((60,), [(1,)], False),
    ],
)
def test_aligned_counts_every_stride_left_to_run_time(
    sizes: Ints, strides: list[Ints], expected: bool
) -> None:
    assert layout.aligned(*layout.choose_tile_dims(sizes, strides)) is expected


# needs_wide: 2**31 - 1 is the last offset that fits


@pytest.mark.parametrize(
    ("sizes", "strides", "block", "expected"),
    [
        ((3, 64), [(2**30, 1)], 1024, True),
        ((2, 64), [(2**30, 1)], 1024, False),
        ((65537, 32768), [(32768, 1)], 1024, True),
        ((2**31 - 1,), [(1,)], 1, False),
        ((2**31 - 1,), [(1,)], 1024, False),
        ((2**31,), [(1,)], 1024, True),
        ((2**31 - 8,), [(1,)], 1000, True),
        ((2,), [(1,), (2**31 - 1,)], 1, False),
        ((2,), [(1,), (2**31,)], 1, True),
        ((2, 2), [(2, 1), (2**30, 2**30)], 1, True),
        ((2**20, 2**11), [(0, 0)], 1, True),
        ((2**20, 2**10), [(0, 0)], 1, False),
        ((0, 2**40), [(2**40, 1)], 1024, False),
        ((), [()], 1024, False),
    ],
)
def test_needs_wide(sizes: Ints, strides: list[Ints], block: int, expected: bool) -> None:
    assert layout.needs_wide(sizes, strides, block) is expected


# overlap, overlaps_itself: exact


@settings(max_examples=600, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 12), st.integers(0, 4)), max_size=4), st.integers(-5, 100))
@example([(5, 1), (3, 2), (2, 1)], 1)
def test_has_solution_is_exact(terms: list[tuple[int, int]], target: int) -> None:
    ranges = [[c * x for x in range(bound + 1)] for c, bound in terms]
    sums = {sum(parts) for parts in itertools.product(*ranges)}
    assert layout._has_solution(terms, target) == (target in sums)


def addresses(tensor: torch.Tensor) -> set[int]:
    """Every byte of a tensor."""
    width = tensor.element_size()
    starts = tensor.data_ptr() + offsets(tensor.shape, tensor.stride()).ravel() * width
    return {int(start) + byte for start in starts for byte in range(width)}


def share(a: torch.Tensor, b: torch.Tensor) -> bool:
    return not addresses(a).isdisjoint(addresses(b))


@st.composite
def windows(draw: st.DrawFn, elements: int) -> Window:
    """A dtype, sizes, strides and an offset within `elements` elements of that dtype."""
    dtype = draw(st.sampled_from([torch.int8, torch.int16, torch.int32]))
    sizes, strides, reach = [], [], 0
    for _ in range(draw(st.integers(0, 3))):
        size = draw(st.integers(0, 5))
        limit = (elements - 1 - reach) // max(size - 1, 1)
        stride = draw(st.integers(0, min(limit, 30)))
        reach += max(size - 1, 0) * stride
        sizes.append(size)
        strides.append(stride)
    offset = draw(st.integers(0, min(elements - 1 - reach, 40)))
    return dtype, tuple(sizes), tuple(strides), offset


ELEMENTS = 256
window = windows(ELEMENTS)


def views(*of: Window) -> list[torch.Tensor]:
    memory = torch.zeros(ELEMENTS, dtype=torch.int32)
    return [memory.view(dtype).as_strided(sizes, strides, offset) for dtype, sizes, strides, offset in of]


@settings(max_examples=600, deadline=None)
@given(window, window)
def test_overlap_is_exact(first: Window, second: Window) -> None:
    a, b = views(first, second)
    answer = layout.overlap(a, b)
    assert (answer != "disjoint") == share(a, b)
    assert answer == layout.overlap(b, a)


@settings(max_examples=300, deadline=None)
@given(window, st.lists(st.integers(0, 2), min_size=3, max_size=3))
def test_identical_views(one: Window, changes: list[int]) -> None:
    dtype, sizes, strides, offset = one
    others = tuple(stride + change for stride, change in zip(strides, changes, strict=False))
    memory = torch.zeros(2 * ELEMENTS, dtype=dtype)
    a, b = (memory.as_strided(sizes, s, offset) for s in (strides, others))
    same = a.numel() > 0 and bool(np.all(offsets(sizes, strides) == offsets(sizes, others)))
    assert (layout.overlap(a, b) == "identical") == same


slices = st.tuples(st.integers(0, 12), st.integers(1, 12), st.integers(1, 4))


@settings(max_examples=300, deadline=None)
@given(st.lists(slices, min_size=6, max_size=6), st.permutations(range(3)))
def test_overlap_of_slices_is_numpys(parts: list[Ints], order: list[int]) -> None:
    memory = torch.zeros(14, 15, 16)
    picks = [slice(start, start + length, step) for start, length, step in parts]
    a, b = memory[tuple(picks[:3])], memory[tuple(picks[3:])].permute(order)
    answer = layout.overlap(a, b)
    assert (answer != "disjoint") == np.shares_memory(a.numpy(), b.numpy())


@settings(max_examples=300, deadline=None)
@given(window, window, st.integers(0, 4))
def test_overlap_cut_short_is_never_disjoint_by_mistake(first: Window, second: Window, steps: int) -> None:
    a, b = views(first, second)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(layout, "_MAX_STEPS", steps)
        if layout.overlap(a, b) == "disjoint":
            assert not share(a, b)


def test_overlap_gives_up_towards_overlapping(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = torch.zeros(64)
    assert layout.overlap(memory[::2], memory[1::2]) == "disjoint"
    monkeypatch.setattr(layout, "_MAX_STEPS", 0)
    assert layout.overlap(memory[::2], memory[1::2]) == "overlapping"


def test_overlap_cases() -> None:
    memory = torch.zeros(8, 8)
    assert layout.overlap(memory[:, :4], memory[:, 4:]) == "disjoint"
    assert layout.overlap(memory[:, :5], memory[:, 4:]) == "overlapping"
    assert layout.overlap(memory, memory.t()) == "overlapping"
    assert layout.overlap(memory, memory.view(torch.int32)) == "overlapping"
    assert layout.overlap(memory, memory.view(8, 8)) == "identical"
    assert layout.overlap(memory, torch.zeros(8, 8)) == "disjoint"
    assert layout.overlap(memory, torch.empty(8, 8, device="meta")) == "disjoint"
    assert layout.overlap(memory[:0], memory[:0]) == "disjoint"
    assert layout.overlap(memory[3], torch.from_numpy(memory.numpy()[3])) == "identical"


@settings(max_examples=300, deadline=None)
@given(window)
def test_overlaps_itself_is_exact(one: Window) -> None:
    _, sizes, strides, _ = one
    every = offsets(sizes, strides).ravel().tolist()
    assert layout.overlaps_itself(sizes, strides) == (len(set(every)) < len(every))


@pytest.mark.parametrize(
    ("sizes", "strides", "expected"),
    [
        ((4, 8), (8, 1), False),
        ((4, 8), (0, 1), True),
        ((1, 8), (0, 1), False),
        ((0, 8), (0, 0), False),
        ((4, 8), (7, 1), True),
        ((5, 3), (2, 5), False),
        ((6, 3), (2, 5), True),
        ((4, 2), (2, 3), False),  # 2 * 3 meets 3 * 2, but the last position of size 2 is 1
        ((2, 3, 2), (4, 7, 10), True),  # 4 + 10 is 7 * 2
        ((), (), False),
    ],
)
def test_overlaps_itself_cases(sizes: Ints, strides: Ints, expected: bool) -> None:
    assert layout.overlaps_itself(sizes, strides) is expected
