"""Tensors of more than 2^31 elements, or whose strides reach that far, in memory that is reserved and hardly used."""

from __future__ import annotations

import contextlib
import math
import mmap
from collections.abc import Iterator, Mapping

import pytest
import torch
from torch import Tensor

from .. import _runtime as rt
from ._call import DEVICE, compare, evaluate, needs_kernels, target_shapes, watching
from ._cases import Call, Case, make_arguments
from ._drawing import Maker

WIDE = 2**30
"""Elements between two rows; in the third row, an offset passes 2^31."""

_ROWS = 3
_NORESERVE = 0x4000  # MAP_NORESERVE of Linux, which Python names from 3.13 on


class NoMemoryError(RuntimeError):
    """A tensor that this machine cannot hold; the message says how large."""


def check_wide(case: Case) -> None:
    """Rows 2^30 elements apart, and the last block of dense tensors of more than 2^31 elements."""
    needs_kernels()
    try:
        for call in _strided_calls(case):
            _check_rows_apart(case, call)
        if not case.positional:
            for call in Maker(case).call((100,), {}, types=_narrowest(case)):
                _check_last_block(case, call)
    except NoMemoryError as reason:
        pytest.skip(str(reason))


def _strided_calls(case: Case) -> Iterator[Call]:
    """For each dim of the space but the last, three rows along it."""
    maker = Maker(case, inner=_ROWS)
    rank = max(len(case.space), 2)
    for place in range(rank - 1):
        rows = tuple(_ROWS if dim == place else 1 for dim in range(rank - 1))
        yield from maker.call((*rows, 64), {}, types=_narrowest(case), integers=(0, _ROWS - 1))


def _narrowest(case: Case) -> Mapping[str, torch.dtype]:
    return min(case.choices(), key=lambda types: sum(dtype.itemsize for dtype in types.values()))


def _check_rows_apart(case: Case, call: Call) -> None:
    arguments = make_arguments(case, call, DEVICE)
    expected = evaluate(case, arguments)
    given = dict(arguments.given)
    for spec in case.tensors:
        tensor = given[spec.name]
        if tensor is not None and tensor.numel():
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


def _check_last_block(case: Case, call: Call) -> None:
    """A dense call of 2^31 elements more; the interpreter runs the last programs only."""
    arguments = make_arguments(case, call, DEVICE)
    kept = call.leading[-1] if not case.space else call.sizes[case.space[-1].name]
    specs = [spec for spec in case.tensors if spec.name not in call.left_out]
    sizes = {name: size + 2 * WIDE if size == kept else size for name, size in call.sizes.items()}
    dense = all(call.shape(spec) == ((kept,) if spec.dims else ()) for spec in specs)
    if not dense or case.fitted(sizes, call.numbers) != sizes:
        return  # not one dense walk
    expected = evaluate(case, arguments)
    given = dict(arguments.given)
    for name, one in arguments.tensors.items():
        if one is not None and one.tensor.dim():
            given[name] = _reserved(2 * WIDE + kept, one.tensor.dtype)
            given[name][-kept:] = one.tensor
    outputs = [_reserved(2 * WIDE + kept, case.dtype(spec, call.types)) for spec in case.results]
    with _last_programs(-(-kept // call.config.block)), watching(case, call):
        case.entry.run(given, tuple(outputs) or None, call.config)
    written = [*outputs, *(given[spec.name] for spec in case.targets[len(case.results) :])]
    for spec, output in zip(case.targets, written):
        compare(case, call, spec, output[-kept:], expected[spec.name], None)


def _last_programs(count: int) -> contextlib.AbstractContextManager[None]:
    if not rt.INTERPRETED:
        return contextlib.nullcontext()
    from ._watch import last_programs

    return last_programs(count)


def _rows_apart(shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """A tensor whose first dim of three rows has a stride of 2^30; the others are as in a contiguous tensor."""
    strides = list(torch.empty(shape, device="meta").stride())
    span = math.prod(shape)
    if _ROWS in shape[:-1]:
        strides[shape.index(_ROWS)] = WIDE
        span += (_ROWS - 1) * WIDE
    return _reserved(span, dtype).as_strided(shape, strides)


def _reserved(numel: int, dtype: torch.dtype) -> Tensor:
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
