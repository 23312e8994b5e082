"""Tuning at run time, for those who ask for it: `OPGEN_AUTOTUNE=1` times a table's configs at the first call of a
bucket of sizes, and takes the fastest for all that follow.
"""

from __future__ import annotations

import functools
import math
import os
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from triton.errors import TritonError
from triton.testing import do_bench

from ._binding import Bound
from ._launching import as_it_is

_FEW_ROWS = 16
"""Above, the form for one row reads the right operand too often to be worth its timing."""

_MILLISECONDS = 20
"""For which each config runs."""


def tunes(device: torch.device) -> bool:
    """Whether configs are timed at run time: on GPUs, where the user's environment asks for it."""
    return os.environ.get("OPGEN_AUTOTUNE") == "1" and device.type == "cuda" and not torch.compiler.is_compiling()


def rivals(configs: Iterable[Any], rows: int) -> tuple[Any, ...]:
    """The different configs of a table that are timed for so many rows."""
    return tuple(dict.fromkeys(one for one in configs if one.form != "vector" or rows <= _FEW_ROWS))


def bucket(bound: Bound, shape: Sequence[int], wide: bool) -> tuple[Any, ...]:
    """What one choice serves: the device, the types, the width of offsets, and sizes up to the same powers of two."""
    return bound.device, tuple(bound.types.items()), wide, *((size - 1).bit_length() for size in shape)


def may_time(via: Any) -> bool:
    """Whether launches can be timed now: not those that PyTorch traces or a graph captures."""
    captures = torch.cuda.is_available() and torch.cuda.is_current_stream_capturing()
    return via is not torch.library.wrap_triton and not captures


def fastest(launch: Callable[..., None], figures: Sequence[Any], arguments: Sequence[Any]) -> int:
    """The place of the fastest figures; leaves tensors, also those updated in place, as they were.

    What does not compile or fit is left out with a warning. Raises `RuntimeError` with all reasons where nothing is left.
    """
    tensors = [one for one in arguments if isinstance(one, torch.Tensor)]
    before = [one.clone() for one in tensors]
    times: list[float] = []
    reasons: dict[str, Any] = {}
    for one in figures:
        try:
            times.append(do_bench(functools.partial(launch, as_it_is, one, *arguments), rep=_MILLISECONDS))
        except (TritonError, torch.OutOfMemoryError) as error:
            times.append(math.inf)
            reasons.setdefault(f"{type(error).__name__}: {error}", one.config)
    for one, old in zip(tensors, before):
        one.copy_(old)
    name = launch.__name__.removeprefix("_launch_")
    told = "; ".join(f"{config}: {reason}" for reason, config in reasons.items())
    if min(times) == math.inf:
        raise RuntimeError(f"{name}: no config of this GPU's table can be launched: {told}")
    if reasons:
        warnings.warn(f"{name}: {times.count(math.inf)} of {len(times)} configs are left out: {told}", stacklevel=2)
    return times.index(min(times))
