"""Representative calls of a generated op, with tensors of the meta device: types, layouts, sizes, what is left out.

They are made from what the module itself declares, so that any kind of kernel is called.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import torch

#: Sizes of dims that are tried in turn until the op accepts them: multiples of 16, and others. Products have a step of
#: `k` in each; without one, short rows leave each tile as it is, and many dims stay below 2^31 elements.
EVEN_SIZES = (256, 128, 512, 64, 1024, 2048, 4096)
ODD_SIZES = (33, 66, 34, 36, 40, 130, 260)
_SHORT = {True: (64,), False: ()}
_SHORT_OF_MANY = {True: (16,), False: (15,)}
_MANY_DIMS = 4
_TRIED = 4096
_LEADING = 64
_CONST_INTEGERS = (1, 2, 4, 8, 16)

Tensors = dict[str, "torch.Tensor | None"]


@dataclass(frozen=True)
class Call:
    """Arguments by name. `is_even` says whether all sizes are multiples of 16; an `is_plain` call has contiguous
    tensors, and is vetted with every config."""

    label: str
    types: tuple[torch.dtype, ...]
    is_even: bool
    is_plain: bool
    leaves_out: bool
    tensors: Tensors
    scalars: Mapping[str, Any]
    consts: Mapping[str, Any]


@dataclass(frozen=True)
class Skipped:
    """What was not vetted, and why."""

    what: str
    why: str


Layout = Callable[[Sequence[int], torch.dtype], torch.Tensor]


def _contiguous(shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
    return torch.empty(tuple(shape), dtype=dtype, device="meta")


def _apart(shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
    """Rows that do not follow each other in memory."""
    return (
        _contiguous((*shape[:-1], shape[-1] + 64), dtype)[..., : shape[-1]]
        if shape
        else _contiguous(shape, dtype)
    )


def _turned(shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
    if len(shape) < 2:
        return _contiguous(shape, dtype)
    return _contiguous((*shape[:-2], shape[-1], shape[-2]), dtype).transpose(-1, -2)


#: Each layout is that of every tensor (`all`), or of the first alone.
LAYOUTS: tuple[tuple[str, Layout, bool], ...] = (
    ("contiguous", _contiguous, True),
    ("rows apart", _apart, True),
    ("first turned", _turned, False),
)


def calls(module: ModuleType, skipped: list[Skipped]) -> Iterator[Call]:
    """The calls of an op: every choice of classes of element types, layouts, kind of sizes, and what may be left out.

    Types of a class (`_classes`) take turns: they differ in how an element is widened, not in what is moved.
    """
    op = module._ENTRY.operator  # noqa: SLF001 - the declaration of the op
    for is_even in (True, False):
        sizes = _sizes(module, _candidates(module, is_even=is_even))
        if sizes is None:
            kind = "multiples of 16" if is_even else "other sizes"
            skipped.append(
                Skipped(f"{op.name}, {kind}", "no sizes that were tried meet what the op requires")
            )
            continue
        named, consts = sizes
        classes = [_classes(known) for known in op.variables.values()]
        for kinds in itertools.product(*classes):
            types = tuple(kind[is_even % len(kind)] for kind in kinds)
            for place, (label, layout, for_all) in enumerate(LAYOUTS):
                made = _tensors(module, named, types, layout, for_all=for_all, is_even=is_even)
                scalars = {
                    one.name: _scalar(one, as_tensor=place == 1) for one in op.scalars if not one.const
                }
                for flags in _flags(op, consts):
                    yield Call(label, types, is_even, place == 0, False, made, scalars, flags)
                if place == 0 and any(one.optional for one in op.inputs):
                    left = {one.name: None if one.optional else made[one.name] for one in op.inputs}
                    yield Call(
                        f"{label}, options left out", types, is_even, False, True, left, scalars, consts
                    )


def _candidates(module: ModuleType, *, is_even: bool) -> tuple[int, ...]:
    """The sizes that are tried for the dims of an op."""
    known = EVEN_SIZES if is_even else ODD_SIZES
    entry = module._ENTRY  # noqa: SLF001 - the declaration of the op
    kernels = [kernel for variant in entry.variants for kernel in variant.kernels]
    if any(hasattr(kernel, "multiplied") for kernel in kernels):
        return known
    named = {one.name for spec in entry.operator.inputs for one in spec.parsed} - {"..."}
    return (*(_SHORT_OF_MANY if len(named) >= _MANY_DIMS else _SHORT)[is_even], *known)


def _classes(types: Sequence[torch.dtype]) -> list[tuple[torch.dtype, ...]]:
    """The types by size and kind: f16 and bf16 are one class."""
    found: dict[tuple[int, bool], list[torch.dtype]] = {}
    for dtype in types:
        found.setdefault((dtype.itemsize, dtype.is_floating_point), []).append(dtype)
    return [tuple(members) for members in found.values()]


def _sizes(module: ModuleType, candidates: Sequence[int]) -> tuple[dict[str, int], dict[str, Any]] | None:
    """The size of each named dim, and the value of each const, that the op accepts; None where nothing tried fits."""
    op = module._ENTRY.operator  # noqa: SLF001 - the declaration of the op
    names = list(dict.fromkeys(one.name for spec in op.inputs for one in spec.parsed if one.name != "..."))
    free = [name for name in names if not name.isdigit()]
    consts = [one for one in op.scalars if one.const]
    options = [(False, True) if one.type == "bool" else _CONST_INTEGERS for one in consts]
    first = [dict.fromkeys(free, size) for size in candidates]
    others = (dict(zip(free, one, strict=True)) for one in itertools.product(candidates, repeat=len(free)))
    fixed = {name: int(name) for name in names if name.isdigit()}
    tried = itertools.islice(
        itertools.product(itertools.chain(first, others), itertools.product(*options)), _TRIED
    )
    for named, values in tried:
        given = dict(zip((one.name for one in consts), values, strict=True))
        if _is_accepted(module, {**named, **fixed}, given):
            return {**named, **fixed}, given
    return None


def _is_accepted(module: ModuleType, named: Mapping[str, int], consts: Mapping[str, Any]) -> bool:
    op = module._ENTRY.operator  # noqa: SLF001 - the declaration of the op
    for spec in (*op.inputs, *op.results):
        for one in spec.parsed:
            if one.name in named and named[one.name] * one.times % one.over:
                return False
    types = tuple(known[0] for known in op.variables.values())
    tensors = _tensors(module, named, types, _contiguous, for_all=True, is_even=True)
    try:
        module.rt.bind(op, tuple(tensors.values()), consts)
    except ValueError:
        return False
    return True


def _tensors(
    module: ModuleType,
    named: Mapping[str, int],
    types: Sequence[torch.dtype],
    layout: Layout,
    *,
    for_all: bool,
    is_even: bool,
) -> Tensors:
    op = module._ENTRY.operator  # noqa: SLF001 - the declaration of the op
    chosen = dict(zip(op.variables, types, strict=True))
    leading: tuple[int, ...] = (_LEADING,) if is_even else (_LEADING - 1,)
    if all(one.name == "..." for spec in op.inputs if spec.has_ellipsis for one in spec.parsed):
        leading = (*leading, 256 if is_even else 33)  # rows and columns for the layouts
    made: Tensors = {}
    for place, spec in enumerate(op.inputs):
        shape: list[int] = []
        for one in spec.parsed:
            shape += leading if one.name == "..." else (one.size(named[one.name]),)
        if spec.packed:
            shape[-1] //= 2
        own = layout if for_all or place == 0 else _contiguous
        made[spec.name] = own(shape, chosen.get(spec.element) or module.rt.DTYPES[spec.element])
    return made


def _scalar(spec: Any, *, as_tensor: bool) -> Any:
    """A number of a scalar's type, or a 0-d tensor."""
    value: Any = 0.5 if spec.type.startswith(("f", "bf")) else spec.type == "bool" or 3
    if not as_tensor:
        return value
    dtype = {
        "f32": torch.float32,
        "f64": torch.float64,
        "i32": torch.int32,
        "i64": torch.int64,
        "bool": torch.bool,
    }
    return torch.empty((), dtype=dtype.get(spec.type, torch.float32), device="meta")


def _flags(op: Any, accepted: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The consts: both values of each bool, as far as the op's requirements have no say in it."""
    bools = [one.name for one in op.scalars if one.const and one.type == "bool"]
    for values in itertools.product((False, True), repeat=len(bools)):
        yield {**accepted, **dict(zip(bools, values, strict=True))}
