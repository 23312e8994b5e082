"""Rows of the language tests: an op, its inputs in words, and its results in PyTorch's f64 and i64."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from inspect import signature
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from tests.behaviour.closeness import assert_close
from tests.behaviour.layouts import LAYOUTS

DTYPES = {
    "f64": torch.float64,
    "f32": torch.float32,
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "f8e4m3": torch.float8_e4m3fn,
    "f8e5m2": torch.float8_e5m2,
    "i64": torch.int64,
    "i32": torch.int32,
    "i16": torch.int16,
    "i8": torch.int8,
    "u8": torch.uint8,
    "bool": torch.bool,
}
SPECIAL = (0.0, -0.0, 1.0, -1.0, 0.5, 1.5, 2.5, -2.5, 300.0, torch.inf, -torch.inf, torch.nan, 65504.0, 1e38)
_WORDS = re.compile(r"(\w+)((?: \d+)*)(?: in (-?\d+) \.\. (-?\d+))?( special)?")


@dataclass(frozen=True)
class Row:
    """An op; its inputs, as `"f32 3 5"`, `"i64 4 in -2 .. 6"`, `"f32 9 special"`, or a number; its results.

    `expected` takes the inputs by name, and gives an f64, i64 or bool tensor, or a tuple of them: the results, then the
    tensors updated in place. `magnitude` is the size of the terms where they may cancel.
    """

    spec: str
    inputs: Mapping[str, Any]
    expected: Callable[..., Any]
    magnitude: float | None = None
    name: str = field(init=False)

    def __post_init__(self) -> None:
        found = re.search(r"\bop\s+(\w+)", self.spec)
        assert found is not None
        object.__setattr__(self, "name", found[1])


def drawn(words: Any, generator: torch.Generator) -> Any:
    """A tensor as the words say (floats of -4 to 4 unless they say otherwise); what is no text stays."""
    if not isinstance(words, str):
        return words
    match = _WORDS.fullmatch(words)
    assert match is not None, words
    element, sizes, low, high, special = match.groups()
    shape = tuple(int(size) for size in sizes.split())
    dtype = DTYPES[element]
    if dtype == torch.bool:
        return torch.rand(shape, generator=generator) < 0.5
    if not dtype.is_floating_point:
        limits = torch.iinfo(dtype)
        least, most = (int(low), int(high)) if low else (max(limits.min, -1000), min(limits.max, 1000))
        return torch.randint(least, most + 1, shape, generator=generator).to(dtype)
    scale, start = (float(high) - float(low), float(low)) if low else (8.0, -4.0)
    value = torch.rand(shape, generator=generator, dtype=torch.float64) * scale + start
    if special:
        value.view(-1)[: len(SPECIAL)] = torch.tensor(SPECIAL, dtype=torch.float64)
    return value.to(dtype)


def check(row: Row, module: ModuleType, layouts: Iterable[str], device: torch.device, seed: int = 7) -> None:
    """Asserts that the op of a row, and its reference, give what the row expects, in each layout."""
    for name in layouts:
        generator = torch.Generator().manual_seed(seed)
        inputs = {key: drawn(words, generator) for key, words in row.inputs.items()}
        tensors = {key: value for key, value in inputs.items() if isinstance(value, Tensor)}
        inputs |= {key: LAYOUTS[name](value.to(device)) for key, value in tensors.items()}
        expected = row.expected(**{key: _cloned(value, "cpu") for key, value in inputs.items()})
        left_out = {one.name: one.default for one in signature(getattr(module, row.name)).parameters.values()}
        arguments = {**left_out, **{key: _cloned(value, device) for key, value in inputs.items()}}
        _compare(
            row,
            module.reference(*(arguments[name] for name in signature(module.reference).parameters)),
            expected,
        )
        results = getattr(module, row.name)(**inputs)
        results = results if isinstance(results, tuple) else (results,)
        updated = [inputs[key] for key in re.findall(r"inout (\w+)", row.spec)]
        _compare(row, (*results, *updated) if "->" in row.spec else results, expected)


def _cloned(value: Any, device: torch.device | str) -> Any:
    return value.to(device).clone() if isinstance(value, Tensor) else value


def _compare(row: Row, results: Any, expected: Any) -> None:
    results = results if isinstance(results, tuple) else (results,)
    expected = expected if isinstance(expected, tuple) else (expected,)
    assert len(results) == len(expected)
    for result, wanted in zip(results, expected, strict=True):
        value = torch.as_tensor(wanted).expand(result.shape)
        if result.dtype.is_floating_point:
            magnitude = None if row.magnitude is None else torch.full_like(value.double(), row.magnitude)
            assert_close(result, value.double(), magnitude=magnitude)
        else:
            assert torch.equal(result.cpu(), value.to(result.dtype)), (result, value)
