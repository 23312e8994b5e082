"""The configs of matrix products, and the figures of their launches."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from ._binding import DTYPES, Bound
from ._launching import for_target, multiprocessors_of, target_of
from ._layout import is_traced
from ._product_library import library_product, matrices_of, may_multiply
from ._product_streams import FARTHEST, Stream, described, stream_of
from ._product_tuning import bucket, fastest, may_time, rivals, tunes
from ._product_walk import (
    ALONG,
    GROUP_DIMS,
    GROUPS,
    ODD,
    Group,
    ProductWalk,
    collapsed,
    layout_class,
    needs_wide,
    unit_of,
    unit_of_strides,
)

BEYOND = 2**62
"""The end of a band that no size passes."""

STARTS = 600_000
"""Elements of a result whose sums take as long through memory as two further kernels to start."""

NARROW_WAVE = 0.54
"""What a wave of tiles of half the columns takes of one of whole tiles: on an H200 1024 x 14336 x 4096 took 6 us and
46 for each wave of 128 x 256, or 25 for each of 128 x 128; with a k of 1024 it was 0.51."""

_TRACED_DEPTH = 3
"""Times `idle` that k has where what a traced call loses without descriptors outweighs the sums' way through memory."""

#: Bytes of the least step of k; registers of a thread for sums and loads, and those of an element that is loaded alone;
#: sums of a thread beside such elements. Half of both where operands are wide, and of the sums on RDNA.
_LEAST_STEP, _REGISTERS, _ADDRESSED = 32, 200, 3
_SUMS_BESIDE = 64
_FORMS = {"dot": 0, "swapped": 1, "vector": 2, "outer": 3}
CLASSES = {
    torch.float16: "half",
    torch.bfloat16: "half",
    torch.float32: "f32",
    torch.float64: "f64",
    torch.float8_e4m3fn: "f8",
    torch.int8: "i8",
    torch.int32: "int",
    torch.int64: "int",
}
_SUMS = {torch.float64: torch.float64, torch.int8: torch.int32, torch.int32: torch.int32, torch.int64: torch.int64}


@dataclass(frozen=True)
class ProductConfig:
    """How a product is tiled: blocks of m, n and k, warps, stages, and rows of tiles that share L2 (`group`).

    `form` says how a tile is multiplied: "dot", "swapped" (n down, for few rows), "vector" (row by row against whole rows
    of the right operand) or "outer" (column by row, without a matrix unit). `strategy` is "pointers", "descriptors"
    (persistent; pointers where the layout has none) or "library". `split` pieces of k are summed in a second kernel,
    in order. With `halves` a tile is finished in two parts.
    """

    tile: tuple[int, int, int]
    warps: int
    stages: int
    group: int = 8
    form: str = "dot"
    strategy: str = "pointers"
    split: int = 1
    halves: bool = False
    precision: str = "ieee"


@dataclass(frozen=True)
class Band:
    """The config for products of up to `m` rows and, over all batches, `n` columns, each a sum over up to `k`.

    With `narrow`, tiles have half the columns where their waves take less. The vendor's product is taken instead where
    the room of all waves beyond the result would cost more than `idle` positions of k for each element of it, and for
    `STARTS` more (0: never).
    """

    m: int
    n: int
    config: ProductConfig
    idle: int = 0
    k: int = BEYOND
    narrow: bool = False

    @property
    def vendor(self) -> ProductConfig:
        return replace(self.config, strategy="library")

    @property
    def own(self) -> tuple[ProductConfig, ...]:
        """Its config, and that of half the columns, which leaves room for a further stage."""
        m, n, k = self.config.tile
        half = replace(self.config, tile=(m, n // 2, k), stages=self.config.stages + 1, halves=False)
        return (self.config, half) if self.narrow else (self.config,)

    @property
    def configs(self) -> tuple[ProductConfig, ...]:
        """All that the band may choose."""
        return (*self.own, self.vendor) if self.idle else self.own

    def fitting(self, batch: int, m: int, n: int, multiprocessors: int) -> tuple[ProductConfig, float]:
        """The config whose waves take the least, and how much that is, in waves of whole tiles."""
        costs = (1.0, NARROW_WAVE)
        taken = [(cost * waves(one.tile, batch, m, n, multiprocessors), one) for cost, one in zip(costs, self.own)]
        least, config = min(taken, key=lambda item: item[0])
        return config, least

    def idles(self, batch: int, m: int, n: int, k: int, multiprocessors: int) -> bool:
        """Whether too much of the waves would idle."""
        rows, columns, _ = self.config.tile
        room = self.fitting(batch, m, n, multiprocessors)[1] * multiprocessors * rows * columns
        used = batch * m * n
        return self.idle > 0 and (room - used) * k > (used + STARTS) * self.idle


def waves(tile: tuple[int, int, int], batch: int, m: int, n: int, multiprocessors: int) -> int:
    """How often all multiprocessors take a tile, until a product is done."""
    return -(-(batch * -(-m // tile[0]) * -(-n // tile[1])) // multiprocessors)


def band(
    m: int,
    n: int,
    how: str,
    tile: tuple[int, int, int],
    warps: int,
    stages: int,
    group: int,
    idle: int = 0,
    k: int = BEYOND,
    **further: Any,
) -> Band:
    """A band's config as a line of a table; `how` is its form, its strategy and, where they hold, `halves` and `narrow`."""
    form, strategy, *flags = how.split()
    config = ProductConfig(tile, warps, stages, group, form, strategy, halves="halves" in flags, **further)
    return Band(m, n, config, idle, k, "narrow" in flags)


@dataclass(frozen=True)
class ProductLaunch:
    """A planned product. `space` are the sizes of the groups and their inner sizes, `strides` three for each access
    and group, `constants` what is compiled in; `finish` are the constants of the kernel that adds up partial sums."""

    config: ProductConfig
    grid: tuple[int]
    space: tuple[int, ...]
    strides: tuple[int, ...]
    layouts: tuple[int, ...]
    constants: Mapping[str, Any]
    shape: tuple[int, int, int, int]
    sums: torch.dtype
    streams: tuple[Stream, ...] = ()
    spans: bool = False
    persistent: Mapping[str, Any] = field(default_factory=dict)
    programs: tuple[int] = (0,)
    finish: Mapping[str, Any] = field(default_factory=dict)
    finish_grid: tuple[int] = (0,)
    matrices: tuple[tuple[Any, ...], ...] = ()
    bucket: tuple[Any, ...] | None = None
    rivals: tuple[ProductLaunch, ...] = ()

    @property
    def is_repeatable(self) -> bool:
        """Whether a further call launches the same: whatever the operands' addresses, nothing timed, nothing computed by
        the vendor's library."""
        return not self.spans and self.bucket is None and not self.matrices

    def descriptors(
        self, via: Any, left: tuple[torch.Tensor, ...], right: tuple[torch.Tensor, ...]
    ) -> tuple[Any, ...]:
        """The operands' descriptors, or none where a call takes pointers: where it is traced, or not aligned."""
        operands = (*left, *right)
        if not self.streams or via is torch.library.wrap_triton or any(one.data_ptr() % 16 for one in operands):
            return ()
        return tuple(described(one, own.shape, own.strides, own.block) for one, own in zip(operands, self.streams))

    def spanning(
        self, via: Any, left: tuple[torch.Tensor, ...], right: tuple[torch.Tensor, ...]
    ) -> tuple[Any, ...]:
        """Descriptors of the left operand and of both right ones at once, and which of these lies lower in memory.

        None of them where the two are not laid out alike, or too far apart.
        """
        found = self.descriptors(via, left, right) if self.spans else ()
        if not found:
            return ()
        first, second = right
        distance = second.data_ptr() - first.data_ptr()
        if abs(distance) >= FARTHEST or distance == 0:
            return ()
        own = self.streams[1]
        lower, step = (first, distance) if distance > 0 else (second, -distance)
        strides = (step // lower.element_size(), *own.strides)
        both = described(lower, (2, *own.shape), strides, (2, *own.block))
        return found[0], both, 0 if distance > 0 else 1

    def partial_sums(self, device: torch.device, products: int) -> torch.Tensor | None:
        """Memory for the sums over each piece of k; None where a kernel keeps them."""
        if not self.finish or self.matrices:
            return None
        batch, m, n, _ = self.shape
        return torch.empty((self.config.split, products, batch, m, n), dtype=self.sums, device=device)

    def library_sums(
        self, via: Any, left: tuple[torch.Tensor, ...], right: tuple[torch.Tensor, ...]
    ) -> torch.Tensor | None:
        """The vendor's products, `[products, batch, m, n]`, where the plan says so; None where a kernel multiplies."""
        if not self.matrices or not may_multiply(left[0].dtype):
            return None
        count = max(len(left), len(right))
        pairs = [
            tuple(
                torch.as_strided(side[min(place, len(side) - 1)], *matrices[min(place, len(side) - 1)])
                for side, matrices in zip((left, right), self.matrices)
            )
            for place in range(count)
        ]
        if count == 1:
            return library_product(*pairs[0], self.sums)
        if via is torch.library.wrap_triton:  # PyTorch traces no `out=` for sizes that are not known
            return torch.stack([library_product(*pair, self.sums) for pair in pairs])
        sums = left[0].new_empty((count, *self.shape[:3]), dtype=self.sums)
        for pair, own in zip(pairs, sums):
            library_product(*pair, self.sums, out=own)
        return sums


@dataclass(frozen=True)
class ProductKernel:
    """A product: its walk, its launcher, and its configs by target, by class of the multiplied type, and by shape.

    `multiplied` is a type or type variable; `operands` are the tensors that descriptors may read, left ones first.
    """

    walk: ProductWalk
    launch: Callable[..., None]
    configs: Mapping[str, Mapping[str, tuple[Band, ...]]]
    multiplied: str
    left: tuple[str, ...] = ()
    right: tuple[str, ...] = ()
    products: int = 1
    tuned: dict[Any, int] = field(default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "launch", functools.partial(_launch_tuned, self.launch, self.tuned))

    def prepare(
        self, bound: Bound, layouts: Mapping[str, Any], config: ProductConfig | None
    ) -> ProductLaunch | None:
        """The figures of a launch, or None where there is nothing to compute.

        Raises `NotImplementedError` where a group has more than three dims after collapsing; the caller then copies.
        """
        groups = collapsed(self.walk, bound, layouts)
        batch, m, n, k = (groups[name].size for name in GROUPS)
        if 0 in (batch, m, n):
            return None
        dtype = bound.types.get(self.multiplied) or DTYPES[self.multiplied]
        figures = functools.partial(
            _launch, self, bound, groups, layouts, sums=_SUMS.get(dtype, torch.float32)
        )
        if config is not None:
            return figures(config)
        bands = for_target(self.configs, bound.device)[CLASSES[dtype]]
        own = next(band for band in bands if m <= band.m and n * batch <= band.n and k <= band.k)
        chosen = figures(own.vendor) if self._is_left(own, (batch, m, n, k), dtype, bound.device) else None
        if chosen is None or not chosen.matrices:
            is_fixed = is_traced()  # sizes may be symbols then
            chosen = figures(own.config if is_fixed else own.fitting(batch, m, n, multiprocessors_of(bound.device))[0])
        if not tunes(bound.device):
            return chosen
        vendors = [band.vendor for band in bands if band.idle][:1]  # the same for all bands: a bucket may lie in two
        others = tuple(figures(one) for one in rivals((*(one for band in bands for one in band.own), *vendors), m))
        key = bucket(bound, chosen.shape, chosen.constants["WIDE"])
        return replace(chosen, bucket=key, rivals=others)

    def _is_left(
        self, own: Band, shape: tuple[int, int, int, int], dtype: torch.dtype, device: torch.device
    ) -> bool:
        """Whether a product is left to the vendor's library.

        What PyTorch traces has no descriptors, and is left to it where k is long; but not batches, whose `out_dtype` it
        cannot trace with sizes that are symbols, nor f16, of which a later switch may change the sums, nor several.
        """
        if not own.idle or not may_multiply(dtype):
            return False
        if is_traced():
            is_plain = not self.walk.batch and self.products == 1 and dtype is not torch.float16
            return is_plain and shape[3] >= _TRACED_DEPTH * own.idle
        return own.idles(*shape, multiprocessors_of(device))


def _launch_tuned(
    launch: Callable[..., None], tuned: dict[Any, int], via: Any, figures: ProductLaunch, *arguments: Any
) -> None:
    """Launches a product; where configs are timed at run time, by the fastest for sizes like these."""
    key = figures.bucket
    if key is not None and key not in tuned and may_time(via):
        tuned[key] = fastest(launch, figures.rivals, arguments)
    launch(via, figures.rivals[tuned[key]] if key in tuned else figures, *arguments)


def _launch(
    kernel: ProductKernel,
    bound: Bound,
    groups: Mapping[str, Group],
    layouts: Mapping[str, Any],
    config: ProductConfig,
    sums: torch.dtype,
) -> ProductLaunch:
    walk = kernel.walk
    batch, m, n, k = (groups[name].size for name in GROUPS)
    units = {name: unit_of(groups[name]) for name in ("m", "n", "k")}
    layout = tuple(layout_class(groups, place) for place in range(len(walk.accesses)))
    strides: list[int] = []
    for place, access in enumerate(walk.accesses):
        scale = unit_of_strides(layout[place])
        for name in walk.groups(access):
            own = groups[name].strides[place]
            strides += [stride // scale for stride in own] + [0] * (GROUP_DIMS - len(own))
    dtype = bound.types.get(kernel.multiplied) or DTYPES[kernel.multiplied]
    block_m, block_n, block_k = _pointer_tile(walk, config, layout, dtype, target_of(bound.device))
    tiles = batch * -(-m // block_m) * -(-n // block_n)
    common = {
        **{f"{name.upper()}_UNIT": units[name] for name in units},
        **{f"{name.upper()}_RANK": len(groups[name].sizes) for name in GROUPS},
        "WIDE": needs_wide(groups, config.tile),
        "FORM": _FORMS[config.form],
        "BLOCK_M": block_m,
        "BLOCK_N": block_n,
    }
    inner = [(*groups[name].sizes, 1, 1)[:2] for name in GROUPS]
    inner = [
        [size // units.get(name, 1) if place + 1 < len(groups[name].sizes) else 1 for place, size in enumerate(own)]
        for name, own in zip(GROUPS, inner)
    ]
    figures = ProductLaunch(
        config=config,
        grid=(tiles * config.split,),
        space=(batch, m // units["m"], n // units["n"], k // units["k"], *(size for own in inner for size in own)),
        strides=tuple(strides),
        layouts=layout,
        constants={
            **common,
            "BLOCK_K": block_k,
            "EVEN": bool(k % (config.split * block_k) == 0),
            "GROUP": config.group,
            "SPLIT": config.split,
            "PRECISION": config.precision,
            "num_warps": config.warps,
            "num_stages": config.stages,
        },
        shape=(batch, m, n, k),
        sums=sums,
    )
    matrices = matrices_of(kernel.walk, kernel.left, kernel.right, kernel.products, groups) if config.strategy == "library" and sums.is_floating_point else ()
    if config.split > 1 or matrices:
        figures = replace(_with_finish(figures, common), matrices=matrices)
    elif config.strategy == "descriptors":
        figures = _with_streams(kernel, bound, groups, layouts, figures)
    return figures


def _pointer_tile(
    walk: ProductWalk, config: ProductConfig, layout: tuple[int, ...], dtype: torch.dtype, target: str
) -> tuple[int, int, int]:
    """The tile of a kernel that loads through pointers: smaller where an operand is read element by element, each at an
    address of its own in registers, or where RDNA turns an operand."""
    m, n, k = config.tile
    operands = [layout[place] for place, access in enumerate(walk.accesses) if "k" in walk.groups(access)]
    turns = target.startswith("gfx1") and dtype.itemsize <= 2 and any(one & 7 != ALONG["k"] for one in operands)
    if config.form not in ("dot", "swapped") or not (turns or any(one & 7 == 0 or one & ODD for one in operands)):
        return m, n, k
    threads = (64 if target.startswith("gfx9") else 32) * config.warps
    rights = max(len(operands) - 1, 1)
    is_wide = dtype.itemsize > 2
    most = threads * _SUMS_BESIDE // (2 if is_wide or target.startswith("gfx1") else 1)
    while m * n * rights > most and max(m, n) > 32:
        m, n = (m // 2, n) if m > n else (m, n // 2)
    least = max(_LEAST_STEP // dtype.itemsize, 16)
    room = threads * _REGISTERS // (2 if is_wide else 1) - m * n * rights
    while k > least and _ADDRESSED * (m + n * rights) * k > room:
        k //= 2
    return m, n, k


def _with_finish(figures: ProductLaunch, common: Mapping[str, Any]) -> ProductLaunch:
    """The figures with those of the kernel that finishes sums from memory: small tiles, one row of 1,024 elements."""
    batch, m, n, _ = figures.shape
    block_n = 32
    while block_n < min(n, 256):
        block_n *= 2
    block_m = 1024 // block_n if m > 1 else 1
    own = {**common, "FORM": _FORMS["dot"], "BLOCK_M": block_m, "BLOCK_N": block_n, "PARTS": figures.config.split}
    grid = batch * -(-m // block_m) * -(-n // block_n)
    return replace(figures, finish={**own, "num_warps": 4}, finish_grid=(grid,))


def _with_streams(
    kernel: ProductKernel,
    bound: Bound,
    groups: Mapping[str, Group],
    layouts: Mapping[str, Any],
    figures: ProductLaunch,
) -> ProductLaunch:
    """The figures with descriptors of the operands, or as they are where some operand has none."""
    names = [access.tensor for access in kernel.walk.accesses]
    operands = [*((name, "m", 0) for name in kernel.left), *((name, "n", 1) for name in kernel.right)]
    streams: list[Stream] = []
    for name, side, place in operands:
        stream = stream_of(groups, layouts[name], names.index(name), side, figures.config.tile[place], figures.config.tile[2])
        if stream is None:
            return figures
        streams.append(stream)
    if not streams or figures.shape[3] == 0:
        return figures
    programs = multiprocessors_of(bound.device)
    constants = dict(figures.constants)
    for unused in ("EVEN", "SPLIT"):
        del constants[unused]
    left, right = streams[: len(kernel.left)], streams[len(kernel.left) :]
    if any(len({one.turned for one in side}) > 1 for side in (left, right)):
        return figures
    constants |= dict(zip(("BLOCK_M", "BLOCK_N", "BLOCK_K"), figures.config.tile))
    constants |= {"LEFT_TURNED": left[0].turned, "RIGHT_TURNED": right[0].turned}
    constants |= {"BATCHED": len(streams[0].shape) == 3, "PROGRAMS": programs}
    constants |= {"HALVES": 2 if figures.config.halves and figures.config.form == "dot" else 1}
    batch, m, n, _ = figures.shape
    grid = (min(programs, batch * -(-m // figures.config.tile[0]) * -(-n // figures.config.tile[1])),)
    alike = len(right) == 2 and right[0] == right[1] and len(left) == 1 and figures.config.form == "dot"
    spans = alike and not right[0].turned and len(right[0].shape) == 2
    return replace(figures, streams=tuple(streams), spans=spans, persistent=constants, programs=grid)
