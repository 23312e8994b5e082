"""How dims combine (LANGUAGE.md, "Broadcasting is by dim name"): which dims meet, and the order of the result."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from opgen.ir.nodes import ELLIPSIS, Dim


class DimError(Exception):
    """Two dims that cannot stand side by side: the sentence to show."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


def same_family(a: Dim, b: Dim) -> bool:
    """Whether two dims divide the same named dim; `K * 2` is a dim of its own."""
    return a == b or (a.name == b.name and a.times == b.times == 1)


def finer(a: Dim, b: Dim) -> Dim:
    """The dim at which two of one family meet. Raises `DimError` where neither divisor divides the other."""
    if b.over % a.over == 0:
        return a
    if a.over % b.over == 0:
        return b
    raise DimError(f"`{a}` and `{b}` do not meet: neither divisor divides the other")


def find(dims: Iterable[Dim], dim: Dim) -> Dim | None:
    """The dim among `dims` of the same family as `dim`, if any."""
    return next((candidate for candidate in dims if same_family(candidate, dim)), None)


def combine(operands: Sequence[tuple[Dim, ...]]) -> tuple[Dim, ...]:
    """The dims of a combined value, ellipsis first. Raises `DimError` for divisors that do not meet.

    For each operand after the first, a dim not yet there is put before the first of its own later dims that is,
    else last.
    """
    result: list[Dim] = []
    for dims in operands:
        named = [dim for dim in dims if not dim.is_ellipsis]
        for position, dim in enumerate(named):
            here = find(result, dim)
            if here is not None:
                result[result.index(here)] = finer(here, dim)
            else:
                result.insert(_place(result, named[position + 1 :]), dim)
    return with_ellipsis(any(ELLIPSIS in dims for dims in operands), result)


def _place(result: list[Dim], later: Sequence[Dim]) -> int:
    for dim in later:
        here = find(result, dim)
        if here is not None:
            return result.index(here)
    return len(result)


def with_ellipsis(present: bool, named: Iterable[Dim]) -> tuple[Dim, ...]:
    """The named dims, behind the ellipsis where it is present."""
    return (ELLIPSIS, *named) if present else tuple(named)


def missing(dims: Iterable[Dim], carrier: Sequence[Dim]) -> tuple[Dim, ...]:
    """The dims that a tensor of dims `carrier` does not cover element by element."""
    return tuple(dim for dim in dims if not _covers(carrier, dim))


def _covers(carrier: Sequence[Dim], dim: Dim) -> bool:
    there = find(carrier, dim)
    return there is not None and dim.over % there.over == 0


def listed(dims: Iterable[Dim]) -> str:
    """Dims as text: `[M, K]`, or "no dims"."""
    text = ", ".join(map(str, dims))
    return f"[{text}]" if text else "no dims"
