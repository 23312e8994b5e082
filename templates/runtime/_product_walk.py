"""How a matrix product walks its tensors: four groups of dims, collapsed, and how their sizes and strides are passed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any

from ._binding import Bound
from ._elementwise import Access, Walk, access_strides, atoms, family
from ._layout import LARGEST_INT32, collapse, last_offset, unit_to_pass

GROUP_DIMS = 3
"""Most dims of one group after collapsing; beyond, the caller copies operands."""

#: In how many elements sizes and strides are passed, the largest that divides them, each with what it adds to the layout
#: class of a tensor.
ODD, EIGHTS = 8, 16
UNITS = {16: 0, 8: EIGHTS, 1: ODD}
GROUPS = ("batch", "m", "n", "k")
#: The group along which a tensor has stride 1, as its layout class, in the order in which they are looked for.
ALONG = {"k": 3, "n": 2, "m": 1, "batch": 4}


@dataclass(frozen=True)
class ProductWalk:
    """The groups of dims of a product, and what it addresses, results first."""

    batch: tuple[str, ...]
    m: tuple[str, ...]
    n: tuple[str, ...]
    k: tuple[str, ...]
    accesses: tuple[Access, ...]
    walk: Walk = field(init=False, repr=False)
    roles: Mapping[str, str] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        space = (*self.batch, *self.m, *self.n, *self.k)
        walk = Walk(space, self.accesses)
        names = [group for group in GROUPS for _ in getattr(self, group)]
        object.__setattr__(self, "walk", walk)
        roles = {family(one): group for one, group in zip(walk.parsed, names)}
        object.__setattr__(self, "roles", roles)

    def groups(self, access: Access) -> tuple[str, ...]:
        """The groups whose dims an access has, in their order: for each of them kernels take three strides."""
        own = {self.roles.get(family(one)) for one in access.parsed if one.text not in access.gathered}
        return tuple(group for group in GROUPS if group in own)


@dataclass(frozen=True)
class Group:
    """One group, collapsed: sizes and, by access, strides, innermost dim first."""

    sizes: tuple[int, ...]
    strides: tuple[tuple[int, ...], ...]

    @property
    def size(self) -> int:
        return prod(self.sizes)


def collapsed(walk: ProductWalk, bound: Bound, layouts: Mapping[str, Any]) -> dict[str, Group]:
    pieces = atoms(walk.walk, bound)
    roles = [walk.roles[piece.key] for piece in pieces]
    strides = [
        access_strides(access, pieces, bound, layouts[access.tensor] if access.tensor else None)
        for access in walk.accesses
    ]
    groups: dict[str, Group] = {}
    for name in GROUPS:
        own = [place for place, role in enumerate(roles) if role == name]
        sizes, steps = collapse([pieces[place].size for place in own], [[one[place] for place in own] for one in strides])
        if len(sizes) > GROUP_DIMS:
            raise NotImplementedError(f"{len(sizes)} dims in the group {name} after collapsing")
        if prod(sizes) <= 1:
            sizes, steps = (prod(sizes),), ((0,),) * len(steps)
        groups[name] = Group(sizes[::-1], tuple(one[::-1] for one in steps))
    return groups


def unit_of(group: Group) -> int:
    """In how many elements a group's sizes are passed: one, where no tensor is contiguous there."""
    contiguous = any(own[0] == 1 for own in group.strides)
    return unit_to_pass(group.sizes, tuple(UNITS)) if contiguous else 1


def layout_class(groups: Mapping[str, Group], place: int) -> int:
    """A tensor's layout class: along which group it has stride 1, and in what its other strides are passed."""
    along = next((name for name in ALONG if groups[name].strides[place][0] == 1), None)
    others = [
        stride
        for name in GROUPS
        for at, stride in enumerate(groups[name].strides[place])
        if name != along or at > 0
    ]
    return (ALONG[along] if along else 0) + UNITS[unit_to_pass(others, tuple(UNITS))]


def unit_of_strides(layout: int) -> int:
    """In how many elements the strides of a tensor of a layout class are passed."""
    return next(unit for unit, added in UNITS.items() if added == layout & ~7)


def needs_wide(groups: Mapping[str, Group], tile: tuple[int, int, int]) -> bool:
    """Whether 32 bits are too few for the offsets of some tensor, or for positions up to the end of the last tile."""
    ends = [groups[name].size + block for name, block in zip(("m", "n", "k"), tile)]
    count = len(groups["m"].strides)
    last = (
        sum(last_offset(group.sizes, group.strides[place]) for group in groups.values())
        for place in range(count)
    )
    return any(value > LARGEST_INT32 for value in (*ends, *last))
