"""What an op launches on a target for a call, with each config of the target's table forced in turn."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, fields, is_dataclass, replace
from types import ModuleType
from typing import Any
from unittest.mock import patch

from opgen.device.calls import Call
from opgen.device.offline import Recorded, record
from opgen.targets import Target

_MANY_CONFIGS = 12
_MANY_ROWS = 2**20


@dataclass(frozen=True)
class Forced:
    """A kernel of an op that takes one config whatever the call, with all else as it is."""

    kernel: Any
    config: Any

    @property
    def launch(self) -> Callable[..., None]:
        found: Callable[..., None] = self.kernel.launch
        return found

    def prepare(self, bound: Any, layouts: Any, config: Any) -> Any:
        return self.kernel.prepare(bound, layouts, self.config)


@dataclass(frozen=True)
class Silent:
    """A kernel that is prepared as it is, and not launched."""

    kernel: Any

    def launch(self, *arguments: Any) -> None:
        """Launches nothing."""

    def prepare(self, bound: Any, layouts: Any, config: Any) -> Any:
        return self.kernel.prepare(bound, layouts, config)


@dataclass(frozen=True)
class Chosen:
    """A launch and the config that it was forced to; None where the kernel has no table.

    `place` is that of its kernel in the op, `key` that of the config in the kernel's table. `is_typical` ones stand for
    the others of their kernel where a call differs from another in one thing.
    """

    launch: Recorded
    config: Any
    key: Any
    place: int
    is_typical: bool


def launches(module: ModuleType, call: Call, target: Target) -> Iterator[Chosen]:
    """The launches of every kernel of an op on a target, for each config that the call's element types may meet."""
    entry = module._ENTRY  # noqa: SLF001 - the declaration of the op
    with standing_in(module, target):
        bound = module.rt.bind(entry.operator, tuple(call.tensors.values()), call.consts)
        kernels = entry.variant(bound.types).kernels
        for place, kernel in enumerate(kernels):
            key, configs = _eligible(module, call, kernels, place)
            configs = (*configs, *_instead_of_library(configs))
            typical = _spread(configs)
            for config in _for_call(call, configs, typical):
                own: list[Any] = [Silent(one) for one in kernels]
                own[place] = Forced(kernel, config) if config else kernel
                found = _recorded(module, call, tuple(own))
                if config in typical and any(_is_stream(launch) for launch in found):
                    with _without_descriptors(module):  # as where a tensor's address is no multiple of 16
                        found += _recorded(module, call, tuple(own))
                for launch in found:
                    yield Chosen(launch, config, key, place, config in typical)


def _instead_of_library(configs: tuple[Any, ...]) -> tuple[Any, ...]:
    """What calls take that cannot have the vendor's product, where a config asks for it."""
    vendor = (one for one in configs if getattr(one, "strategy", "") == "library")
    return _distinct(
        one for one in (replace(one, strategy="pointers") for one in vendor) if one not in configs
    )


def _recorded(module: ModuleType, call: Call, kernels: tuple[Any, ...]) -> tuple[Recorded, ...]:
    entry = module._ENTRY  # noqa: SLF001 - the declaration of the op
    variants = tuple(replace(variant, kernels=kernels) for variant in entry.variants)
    own = replace(entry, variants=variants, prepared={}, ready={})
    return record(module, call.tensors, call.scalars, consts=call.consts, entry=own)


def _for_call(call: Call, configs: tuple[Any, ...], typical: tuple[Any, ...]) -> tuple[Any, ...]:
    """The configs that a call is vetted with: all for contiguous tensors, unless there are very many of them; typical
    ones for other layouts, and one where the sizes are odd or something is left out, too."""
    if call.is_plain:
        return configs if call.is_even or len(configs) <= _MANY_CONFIGS else typical
    return typical if call.is_even and not call.leaves_out else configs[-1:]


def _spread(configs: tuple[Any, ...]) -> tuple[Any, ...]:
    """The first, the middle and the last of some configs: for calls that differ from others in their layouts alone."""
    return tuple(dict.fromkeys((configs[0], configs[len(configs) // 2], configs[-1])))


def _is_stream(launch: Recorded) -> bool:
    """Whether a launch reads through tensor descriptors."""
    return any(hasattr(argument, "block_shape") for argument in launch.arguments)


@contextmanager
def _without_descriptors(module: ModuleType) -> Iterator[None]:
    products = sys.modules[f"{module.__name__.rpartition('.')[0]}._products"]
    with patch.object(products.ProductLaunch, "descriptors", lambda *_: ()):
        yield


def _eligible(
    module: ModuleType, call: Call, kernels: tuple[Any, ...], place: int
) -> tuple[Any, tuple[Any, ...]]:
    """The last key by which the kernel looks into its table for this call, and the configs that are under it.

    The table is replaced by one that remembers where it was read: only the kernel knows what its keys mean.
    """
    kernel = kernels[place]
    table = getattr(kernel, "configs", None)
    if not table:
        return None, (None,)
    read: list[tuple[Any, Any]] = []
    watched = replace(kernel, configs=_Watched(table, read))
    with _rows_watched(module) as tiles:
        _recorded(module, call, (*kernels[:place], watched, *kernels[place + 1 :]))
    if not read:
        return None, (None,)
    key, found = read[-1]
    own = [one for one in tiles if one.table == found]  # other kernels of the op may choose tiles, too
    if own:
        return key, tuple(dict.fromkeys(tile for one in own for tile in one.all()))
    return key, _distinct(_leaves(found))


def _distinct(configs: Iterable[Any]) -> tuple[Any, ...]:
    """Each config once; of those that differ in the order of tiles or the number of pieces alone, the first."""
    found: dict[Any, Any] = {}
    for config in configs:
        alike = [
            getattr(config, one.name) > 1 if one.name in ("group", "split") else getattr(config, one.name)
            for one in fields(config)
        ]
        found.setdefault(tuple(alike), config)
    return tuple(found.values())


@dataclass(frozen=True)
class _RowChoice:
    """A choice of a row kernel's tile: the function that makes it, and what it was asked for beside the sizes."""

    choose: Callable[..., Any]
    table: Any
    n_cols: int
    across: bool
    multiprocessors: int

    def all(self) -> Iterator[Any]:
        """The tiles for rows of the call's length, of all bands' largest lengths and longer ones, for many rows and for
        few. A tile for shorter rows would not be that of any call.

        Few rows of `split` columns and more are cut into pieces.
        """
        bands = self.table.across if self.across else self.table.along
        edges = {band.longest for band in bands} - {0}
        edges |= {band.longest - 1 for band in bands if band.exact}
        lengths = {self.n_cols, *edges, max(edges, default=0) + 1, self.table.split}
        for n_cols in sorted(length for length in lengths if length >= self.n_cols):
            for n_rows in (_MANY_ROWS, 1):
                yield self.choose(self.table, n_rows, n_cols, self.across, self.multiprocessors)


@contextmanager
def _rows_watched(module: ModuleType) -> Iterator[list[_RowChoice]]:
    """Notes every choice of a row kernel's tile."""
    found: list[_RowChoice] = []
    rows = sys.modules.get(f"{module.__name__.rpartition('.')[0]}._rows")
    if rows is None:
        yield found
        return
    choose = rows.choose_tile

    def noting(table: Any, n_rows: int, n_cols: int, across: bool, multiprocessors: int) -> Any:
        found.append(_RowChoice(choose, table, n_cols, across, multiprocessors))
        return choose(table, n_rows, n_cols, across, multiprocessors)

    with patch.object(rows, "choose_tile", noting):
        yield found


class _Watched(dict[Any, Any]):
    """A table that notes each key and value that is read from it, those of the tables inside it too."""

    def __init__(self, table: Mapping[Any, Any], read: list[tuple[Any, Any]]) -> None:
        super().__init__(table)
        self._read = read

    def __getitem__(self, key: Any) -> Any:
        value = super().__getitem__(key)
        self._read.append((key, value))
        return _Watched(value, self._read) if isinstance(value, dict) else value

    def get(self, key: Any, default: Any = None) -> Any:
        return self[key] if key in self else default  # noqa: SIM401 - reading it is what is noted


def _leaves(table: Any) -> Iterator[Any]:
    """The configs in a table: the records that say how many warps a program has."""
    if isinstance(table, Mapping):
        for value in table.values():
            yield from _leaves(value)
    elif isinstance(table, tuple | list):
        for value in table:
            yield from _leaves(value)
    elif hasattr(table, "warps"):
        yield table
    elif hasattr(table, "configs"):  # a band of products: it may choose the vendor's, too
        yield from table.configs
    elif is_dataclass(table):
        for one in fields(table):
            yield from _leaves(getattr(table, one.name))


@contextmanager
def standing_in(module: ModuleType, target: Target) -> Iterator[None]:
    """Makes a package take tensors of the meta device for those of a GPU of a target."""
    package = module.__name__.rpartition(".")[0]
    facts: dict[str, dict[str, Any]] = {
        "_launching": {"target_of": lambda device: target.name},
        "_passing": {
            "_has_e4m3": lambda device: target.has_f8 and not target.is_amd,
            "takes_descriptors": lambda device: target.has_descriptors,
        },
        "_rows": {"multiprocessors_of": lambda device: target.multiprocessors},
        "_products": {
            "multiprocessors_of": lambda device: target.multiprocessors,
            "target_of": lambda device: target.name,
            "takes_descriptors": lambda device: target.has_descriptors,
        },
    }
    with ExitStack() as stack:
        for name, values in facts.items():
            _stand_in(stack, f"{package}.{name}", values)
        yield


def _stand_in(stack: ExitStack, name: str, values: Mapping[str, Any]) -> None:
    """Replaces what a module has of `values`; packages need not have all modules."""
    module = sys.modules.get(name)
    for attribute, value in values.items():
        if module is not None and hasattr(module, attribute):
            stack.enter_context(patch.object(module, attribute, value))
