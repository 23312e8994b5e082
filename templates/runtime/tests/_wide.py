"""Tensors of more than 2^31 elements, or whose strides reach that far, in memory that is reserved and hardly used."""

from __future__ import annotations

import contextlib
import math
import mmap
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from .. import _runtime as rt
from ._blocks import rows_and_columns, streamed, undivided
from ._call import DEVICE, compare, evaluate, needs_kernels, target_shapes, watching
from ._cases import Arguments, Call, Case, make_arguments
from ._drawing import Maker
from ._memory import expanded_columns, paged_apart
from ._origin import only_tail

WIDE = 2**30
"""Elements between two rows; in the third row, an offset passes 2^31."""

_ROWS = 3

_DEEP, _BESIDE = 64, 2.0**17
"""Elements of a row of whole 16 bytes, and the scale of what is added to sums over it."""

_TAIL = 112
"""Elements that are looked at, at the end of those that are too many; a multiple of 16, as some sizes are."""

_SIDE = 16
"""Elements of a row, where a result between two kernels has many rows."""

_ENOUGH = 2**30
"""Multiprocessors of a GPU on which every program has one tile."""

_CONSTANTS = 3
"""Calls whose inputs are constant along a dim: one number may hide what another shows."""

_MOST_PROGRAMS = 40
"""What the interpreter runs of a grid: blocks that hold the tail, however they lie."""

_NORESERVE = 0x4000  # MAP_NORESERVE of Linux, which Python names from 3.13 on


class NoMemoryError(RuntimeError):
    """A tensor that this machine cannot hold; the message says how large."""


def check_wide(case: Case) -> None:
    """Rows 2^30 elements apart, and the last block of dense tensors of more than 2^31 elements."""
    needs_kernels()
    try:
        for call in (*_strided_calls(case), *_streamed_calls(case)):
            _check_rows_apart(case, call)
        if not case.whole:
            for call, whole in _lengthened(case, _tail_calls(case)):
                for step in (1, 2):  # of the first tensor: dense, and the columns of a tile
                    _check_tail(case, call, whole, step)
        elif not case.summed:
            for call, whole in _lengthened(case, _constant_calls(case)):
                _check_constant_tail(case, call, whole)
        if case.summed:
            for call, whole in _lengthened(case, _tail_calls_of_sums(case)):
                _check_tail(case, call, whole, 1)
            for call, whole in _lengthened(case, _tail_calls_between(case), 2 * WIDE // _SIDE):
                _check_rows_at_end(case, call, whole)
    except (NoMemoryError, torch.cuda.OutOfMemoryError) as reason:  # of a result between two kernels
        pytest.skip(str(reason))
    finally:
        if DEVICE.type == "cuda":  # other processes may test on the same GPU
            torch.cuda.empty_cache()


def _strided_calls(case: Case) -> Iterator[Call]:
    """For each dim of the space but the last, three rows along it; where dims are summed, also along the last."""
    maker = Maker(case, inner=(_ROWS,))
    rank = max(len(case.space), 2)
    for place in range(rank - 1):
        rows = tuple(_ROWS if dim == place else 1 for dim in range(rank - 1))
        for least in (0, _ROWS - 1):  # any rows of a table, and the last one
            integers = (least, _ROWS - 1)
            yield from maker.call((*rows, 64), {}, types=_narrowest(case), integers=integers)
    if case.summed:
        for _ in range(3):  # with other blocks each time
            yield from maker.call((*(1 for _ in range(rank - 1)), _ROWS), {}, types=_narrowest(case))


def _streamed_calls(case: Case) -> Iterator[Call]:
    """Rows of products that descriptors read, beside numbers that f16 does not have."""

    def ranged(types: Mapping[str, torch.dtype]) -> int:
        return sum(dtype == torch.bfloat16 for dtype in types.values())

    types = max(case.choices(), key=ranged)
    for config, apart in streamed(case, types) if ranged(types) else ():
        maker, layouts = Maker(case, inner=(_DEEP,)), {apart: paged_apart} if apart else {}
        for call in maker.call((_ROWS, _DEEP), layouts, types=types, config=config):
            yield replace(call, beside=_BESIDE, special=0.0)  # a NaN among weights makes whole rows of a norm NaN


def _narrowest(case: Case) -> Mapping[str, torch.dtype]:
    return min(case.choices(), key=lambda types: sum(dtype.itemsize for dtype in types.values()))


def _check_rows_apart(case: Case, call: Call) -> None:
    arguments = make_arguments(case, call, DEVICE)
    expected = evaluate(case, arguments)
    given = dict(arguments.given)
    for spec in case.tensors:
        tensor = given[spec.name]
        if tensor is not None and tensor.numel() and spec.name not in call.layouts:
            given[spec.name] = _rows_apart(tuple(tensor.shape), tensor.dtype).copy_(tensor)
    shapes = target_shapes(case, call)
    outputs = [
        _rows_apart(shapes[spec.name], case.dtype(spec, call.types)) for spec in case.results
    ]
    with watching(case, call):
        case.entry.run(given, tuple(outputs) or None, call.config)
    written = [*outputs, *(given[spec.name] for spec in case.targets[len(case.results) :])]
    for spec, output in zip(case.targets, written):
        compare(case, call, spec, output, expected[spec.name], None)


def _tail_calls(case: Case) -> Iterator[tuple[Call, str | None]]:
    """Calls over one long dim: the last of the space (by name), and the leading one (None)."""
    maker, narrow = Maker(case, inner=(_ROWS,)), _narrowest(case)
    if case.space and not case.space[-1].name.isdigit():
        for call in maker.call((_TAIL,), {}, types=narrow, integers=(0, _ROWS - 1)):
            yield call, case.space[-1].name
    if case.has_leading:
        ones = tuple(1 for _ in case.space)
        for call in maker.call((_TAIL, *ones), {}, types=narrow, integers=(0, _ROWS - 1)):
            yield call, None


def _constant_calls(case: Case) -> Iterator[tuple[Call, str]]:
    """Calls over the last dim of the space, along which inputs are constant: so it is known what lies far away."""
    last = case.space[-1].name if case.space else ""
    if last and not last.isdigit():
        layouts = {spec.name: expanded_columns for spec in case.tensors if not spec.updated}
        maker = Maker(case, inner=(_ROWS,))
        for _ in range(_CONSTANTS):
            more = {"types": _narrowest(case), "integers": (0, _ROWS - 1), "special": 0.0}
            for call in maker.call((_TAIL,), layouts, **more):
                yield call, last


def _tail_calls_of_sums(case: Case) -> Iterator[tuple[Call, str | None]]:
    """Calls over one long dim that nothing is summed over, with one element along each other: of rows, or of columns.

    A dim whose size is a value, or along which elements are gathered, cannot be looked at from its end.
    """
    maker, narrow = Maker(case), _narrowest(case)
    for dim in rows_and_columns(case):
        if dim in case.counted:
            continue
        sizes = {name: _TAIL if name == dim else 1 for name in case.names}
        leading = (_TAIL if dim == "..." else 1,)
        for config in undivided(case, narrow):
            for call in maker.sized(sizes, leading, {}, types=narrow, config=config):
                yield call, None if dim == "..." else dim


def _tail_calls_between(case: Case) -> Iterator[tuple[Call, str | None]]:
    """Calls of many rows whose results between two kernels are written by products that descriptors read."""
    types = _narrowest(case)
    config = _streamed_everywhere(case, types)
    if not config or case.seeds or not case.entry.variant(types).temporaries:
        return
    dim = rows_and_columns(case)[0]
    sizes = {name: _TAIL if name == dim else _SIDE for name in case.names}
    more = {"types": types, "config": config, "special": 0.0, "multiprocessors": _ENOUGH}
    for call in Maker(case).sized(sizes, (_TAIL if dim == "..." else 1,), {}, **more):
        yield call, None if dim == "..." else dim


def _streamed_everywhere(case: Case, types: Mapping[str, torch.dtype]) -> tuple[Any, ...]:
    """Blocks for every kernel of an op, of each product those that descriptors read; none where one has no such."""
    by_kernel = zip(*(config for config, _ in streamed(case, types)))
    found = [max(own, key=lambda one: one.strategy == "descriptors") for own in by_kernel]
    return () if any(one.strategy == "pointers" for one in found) else tuple(found)


def _lengthened(
    case: Case, made: Iterable[tuple[Call, str | None]], by: int = 2 * WIDE
) -> Iterator[tuple[Call, Call]]:
    """Calls, and what they are with more elements along a dim, where the op accepts that."""
    for call, long in made:
        sizes, leading = dict(call.sizes), call.leading
        if long is None:
            leading = (by + _TAIL,)
        else:
            sizes[long] += by
        if case.accepts(sizes, call.numbers) and case.divides(sizes):
            yield call, replace(call, sizes=sizes, leading=leading)


def _check_tail(case: Case, call: Call, whole: Call, step: int) -> None:
    """The end of a longer call, whose first tensor has one in `step` of its memory."""
    longer = [spec for spec in case.tensors if call.shape(spec) != whole.shape(spec)]
    if any(math.prod(call.shape(spec)) != _TAIL for spec in (*longer, *case.results)):
        return  # there are dims beside the long one
    _check_rows_at_end(case, call, whole, step)


def _check_rows_at_end(case: Case, call: Call, whole: Call, step: int = 1) -> None:
    """The last rows of a longer call, of one element or several each; its first tensor has one in `step` of its memory."""
    longer = [spec for spec in case.tensors if call.shape(spec) != whole.shape(spec)]
    arguments = make_arguments(case, call, DEVICE)
    given = dict(arguments.given)
    for spec in longer:
        if given[spec.name] is not None:
            own_step = step if spec is longer[0] else 1
            given[spec.name] = _with_tail(whole.shape(spec), given[spec.name], own_step)
    _check_end(case, call, whole, arguments, given)


def _check_constant_tail(case: Case, call: Call, whole: Call) -> None:
    """The same of tensors that are constant along the long dim, or a part of it."""
    arguments = make_arguments(case, call, DEVICE)
    given = dict(arguments.given)
    for spec in case.tensors:
        tensor, shape = given[spec.name], whole.shape(spec)
        if tensor is None or shape == call.shape(spec):
            continue
        if shape[:-1] != call.shape(spec)[:-1] or tensor.stride(-1) != 0:
            return  # the long dim is not its last, or it is written
        given[spec.name] = tensor.as_strided(shape, tensor.stride())
    if all(math.prod(call.shape(spec)) == _TAIL for spec in case.results):
        _check_end(case, call, whole, arguments, given)


def _check_end(
    case: Case, call: Call, whole: Call, arguments: Arguments, given: dict[str, Any]
) -> None:
    """The end of the results of a longer call, of which the interpreter runs the last programs only."""
    with only_tail(_TAIL, 2 * WIDE):
        expected = evaluate(case, arguments)
    shapes = target_shapes(case, whole)
    outputs = [
        reserved(math.prod(shapes[spec.name]), case.dtype(spec, call.types)).view(
            shapes[spec.name]
        )
        for spec in case.results
    ]
    with _last_programs(_MOST_PROGRAMS), watching(case, call):
        case.entry.run(given, tuple(outputs) or None, call.config)
    written = [*outputs, *(given[spec.name] for spec in case.targets[len(case.results) :])]
    for spec, output in zip(case.targets, written):
        shape = target_shapes(case, call)[spec.name]
        tail = output.view(-1)[-math.prod(shape) :].view(shape)
        compare(case, call, spec, tail, expected[spec.name], None)


def _with_tail(shape: tuple[int, ...], values: Tensor, step: int) -> Tensor:
    """A tensor whose last elements are these values, one in `step` of its memory."""
    count = math.prod(shape)
    flat = reserved(count * step, values.dtype)[::step]
    flat[-values.numel() :] = values.reshape(-1)
    return flat.view(shape)


def _last_programs(count: int) -> contextlib.AbstractContextManager[None]:
    if not rt.INTERPRETED:
        return contextlib.nullcontext()
    from ._watch import last_programs

    return last_programs(count)


def _rows_apart(shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """A tensor whose first dim of three elements has a stride of 2^30; the others are as in a contiguous tensor."""
    strides = list(torch.empty(shape, device="meta").stride())
    span = math.prod(shape)
    if _ROWS in shape:
        strides[shape.index(_ROWS)] = WIDE
        span += (_ROWS - 1) * WIDE
    return reserved(span, dtype).as_strided(shape, strides)


def reserved(numel: int, dtype: torch.dtype) -> Tensor:
    """A one-dimensional tensor; on the CPU its pages cost memory only once they are touched."""
    size = numel * dtype.itemsize
    try:
        if DEVICE.type != "cpu":
            free, _ = torch.cuda.mem_get_info(DEVICE)
            if size > 0.9 * free:
                needed, left = size / 2**30, free / 2**30
                raise NoMemoryError(f"{needed:.0f} GiB are needed on the GPU, {left:.0f} are free")
            return torch.empty(numel, dtype=dtype, device=DEVICE)
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NORESERVE
        return torch.frombuffer(mmap.mmap(-1, size, flags=flags), dtype=torch.uint8).view(dtype)
    except (OSError, MemoryError) as error:
        raise NoMemoryError(f"no address space for {size / 2**30:.0f} GiB: {error}") from error
