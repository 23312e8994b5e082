"""Calls in which each tensor of an op holds every number of 16 bits, beside other tensors of any numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

_COUNT = 2**16
_SPECIAL, _MOSTLY = 0.3, 0.8
"""The share of zeros, infinities and other special values among the other tensors' numbers, and among scalars."""
_ROUNDS = 4
_WIDE_ROUNDS = 16
"""Of 2^16 bit patterns each, of f32 numbers at random."""


def calls(case: Any, module: Callable[[str], Any]) -> Iterator[tuple[Any, dict[str, Any]]]:
    """The calls and their arguments; none for an op that takes anything but floats, or whose elements depend on others.

    `module` gives a module of the package by name.
    """
    if case.whole or case.seeds or any(_types(case, spec) is None for spec in case.tensors):
        return
    cases, blocks = module("tests._cases"), module("tests._blocks")
    scalars = [one for one in case.scalars if not one.const]
    for number, types in enumerate(case.choices() * _ROUNDS):
        numbers = cases.plain_numbers(case, number)
        if number % 2:
            generator = torch.Generator().manual_seed(number)
            numbers |= {
                one.name: module("tests._draw").draw_number(one.type, generator, one.range, _MOSTLY)
                for one in scalars
            }
        sizes = case.fitted({case.space[-1].name: _COUNT} if case.space else {}, numbers)
        if sizes is None:
            return
        leading = (1,) if case.space else (_COUNT,)
        call = cases.Call(
            sizes,
            types,
            numbers,
            leading if case.has_leading else (),
            seed=number,
            special=_SPECIAL,
            config=blocks.forced(case, "large", types),
        )
        given = cases.make_arguments(case, call, torch.device("cpu")).given
        for scalar in scalars:
            given[scalar.name] = numbers[scalar.name]
        for spec in case.tensors:
            for swept in _sweeps(case.dtype(spec, types), number, _WIDE_ROUNDS // len(case.tensors)):
                if given[spec.name].numel() == _COUNT:
                    yield call, {**given, spec.name: swept.reshape(given[spec.name].shape)}


def _types(case: Any, spec: Any) -> list[torch.dtype] | None:
    """The types that a tensor may have, if all are floats of 16 bits or more."""
    types = [case.dtype(spec, choice) for choice in case.choices()]
    return types if all(dtype.is_floating_point and dtype.itemsize > 1 for dtype in types) else None


def _sweeps(dtype: torch.dtype, seed: int, rounds: int) -> Iterator[Tensor]:
    """Every number of a type of 16 bits; of a wider one the same numbers, and random ones, in so many rounds."""
    patterns = torch.arange(_COUNT, dtype=torch.int32).to(torch.int16)
    if dtype.itemsize == 2:
        yield patterns.view(dtype)
        return
    for narrow in (torch.float16, torch.bfloat16):
        yield patterns.view(narrow).to(dtype)
    generator = torch.Generator().manual_seed(seed)
    for _ in range(rounds if dtype == torch.float32 else 1):
        words = torch.randint(-(2**31), 2**31, (_COUNT,), generator=generator)
        yield words.to(torch.int32).view(torch.float32).to(dtype)
