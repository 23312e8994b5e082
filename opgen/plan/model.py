"""Plans: *how* an op runs on a target. No code text, no identifiers of generated code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from opgen.dtypes import DType
from opgen.ir.nodes import Dim, Element, Gather, Index, Random, Read, Ref, TensorParam, Value
from opgen.ir.passes.parts import Part, Temporary


@dataclass(frozen=True)
class Access:
    """What a kernel addresses: a tensor over dims, or (`tensor` None) the row-major position over dims.

    `gathered` dims are addressed by values; a packed tensor is addressed by its bytes.
    """

    tensor: str | None
    dims: tuple[Dim, ...]
    gathered: tuple[Dim, ...] = ()


def addressed(tensor: TensorParam, gathered: tuple[Dim, ...] = ()) -> tuple[Access, ...]:
    """A tensor by its dims; a packed one by its bytes, and by the position that says which half is meant.

    None for a 0-d tensor. A packed dim that is gathered says itself which half.
    """
    if not tensor.dims:
        return ()
    last = tensor.dims[-1]
    if not tensor.element.dtype.is_packed or last in gathered:
        return (Access(tensor.name, tensor.dims, gathered),)
    halves = Dim(last.name, last.times, last.over * 2)
    return Access(tensor.name, (*tensor.dims[:-1], halves), gathered), Access(None, (last,))


def addressed_by(value: Value, tensors: Mapping[str, TensorParam]) -> tuple[Access, ...]:
    """What a value addresses itself; nothing where it reads what is none of the tensors."""
    match value.node:
        case Read(param=name) if name in tensors:
            return addressed(tensors[name])
        case Gather(param=name, coordinates=coordinates):
            return addressed(tensors[name], tuple(dim for dim, _ in coordinates))
        case Index(dim=dim):
            return (Access(None, (dim,)),)
        case Random(dims=over):
            return (Access(None, over),)
        case _:
            return ()


@dataclass(frozen=True)
class ElementwiseConfig:
    """Blocks, in elements, for elements of up to `width` bytes: in one dimension, in rows, and across rows.

    Each with its warps.
    """

    width: int
    block: int
    warps: int
    tile: tuple[int, int]
    tile_warps: int
    turned: tuple[int, int]
    turned_warps: int


@dataclass(frozen=True)
class ElementwisePlan:
    """One elementwise kernel: its part of each variant's graph, what it addresses, its configs.

    `operations` are f32 instructions for an element, `bytes` what moves for it at each config's width.
    """

    parts: tuple[Part, ...]
    accesses: tuple[Access, ...]
    configs: tuple[ElementwiseConfig, ...]
    operations: int
    bytes: tuple[int, ...]

    @property
    def space(self) -> tuple[Dim, ...]:
        return self.parts[0].space


@dataclass(frozen=True)
class RowBand:
    """How rows of up to `longest` columns are walked, or those of `exact`ly so many; of any length where that is 0.

    As the runtime's `RowConfig`.
    """

    longest: int
    elements: int
    warps: int
    programs: int = 0
    stages: int = 1
    rows: int = 0
    columns: int = 0
    registers: int = 0
    few_warps: int = 0
    exact: bool = False

    def serves(self, columns: int) -> bool:
        """Whether rows of so many columns are walked so, where no band before it serves them."""
        return self.longest == columns if self.exact else self.longest >= columns


@dataclass(frozen=True)
class RowConfig:
    """The bands of elements of up to `width` bytes: where memory runs along rows, and across them.

    Where there are few rows, they are cut into pieces; along memory those of at least `split` columns, into tiles that
    have `piece_columns` (where they have one row) and `piece_warps` at most.
    """

    width: int
    along: tuple[RowBand, ...]
    across: tuple[RowBand, ...]
    split: int
    piece_columns: int = 4096
    piece_warps: int = 8


@dataclass(frozen=True)
class RowPlan:
    """One row kernel: its part of each variant's graph, what it addresses, its configs.

    `operations` are f32 instructions for an element, `bytes` what moves for it at each config's width, where each
    tensor is read once.
    """

    parts: tuple[Part, ...]
    accesses: tuple[Access, ...]
    configs: tuple[RowConfig, ...]
    operations: int
    bytes: tuple[int, ...]

    @property
    def space(self) -> tuple[Dim, ...]:
        return self.parts[0].space

    @property
    def kept(self) -> tuple[Dim, ...]:
        return self.parts[0].kept

    @property
    def reduced(self) -> tuple[Dim, ...]:
        return self.parts[0].reduced


@dataclass(frozen=True)
class Operand:
    """What a product multiplies: a value, the element type that it is multiplied in, and the tensor that it is.

    `ref` is the value before a conversion that `element` makes superfluous; `tensor` is set where it is a tensor's own
    element, so that it can be read without a prologue.
    """

    ref: Ref
    element: Element
    tensor: str | None


@dataclass(frozen=True)
class Product:
    """One contraction of a product kernel: its value, its operands (rows, columns), and the type of its sums."""

    ref: Ref
    left: Operand
    right: Operand
    sums: DType


@dataclass(frozen=True)
class ProductConfig:
    """How a product is tiled; the words and figures are those of the runtime's record of the same name.

    `form` is "dot", "swapped", "vector" or "outer", `strategy` "pointers", "descriptors" or "library".
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


#: The end of a band that no size passes.
BEYOND = 2**62


#: Elements of a result whose sums take as long through memory as two further kernels to start: 1.3 us on an H200.
STARTS = 600_000
#: What a wave of narrow tiles takes of one of whole ones, as in the runtime.
NARROW_WAVE = 0.54


@dataclass(frozen=True)
class ProductBand:
    """The configs for products of up to `m` rows and `n` columns, over up to `k`, best first, each with its predicted
    microseconds at `at` (m, n, k).

    `narrow` is the config with half the columns that is taken where its waves take less. The vendor's product is taken
    instead where the room of all waves beyond the result would cost more than `idle` positions of k for each element of
    it, and for as many more as the further kernels take to start; 0 is for never.
    """

    m: int
    n: int
    at: tuple[int, int, int]
    configs: tuple[tuple[ProductConfig, float], ...]
    idle: int = 0
    k: int = BEYOND
    narrow: ProductConfig | None = None

    def fitting(self, batch: int, m: int, n: int, multiprocessors: int) -> tuple[ProductConfig, float]:
        """The config for these sizes, and its waves in those of whole tiles; as the runtime's `Band.fitting`."""
        whole = self.configs[0][0]
        taken = [(float(waves(whole.tile, batch, m, n, multiprocessors)), whole)]
        if self.narrow is not None:
            taken.append((NARROW_WAVE * waves(self.narrow.tile, batch, m, n, multiprocessors), self.narrow))
        least, config = min(taken, key=lambda item: item[0])
        return config, least

    def is_better_left(self, batch: int, m: int, n: int, k: int, multiprocessors: int) -> bool:
        """Whether the vendor's product is taken for these sizes; as the runtime's `Band.idles`."""
        rows, columns, _ = self.configs[0][0].tile
        room = self.fitting(batch, m, n, multiprocessors)[1] * multiprocessors * rows * columns
        used = batch * m * n
        return self.idle > 0 and (room - used) * k > (used + STARTS) * self.idle


def waves(tile: tuple[int, int, int], batch: int, m: int, n: int, multiprocessors: int) -> int:
    """How often all multiprocessors take a tile, until a product is done."""
    return -(-(batch * -(-m // tile[0]) * -(-n // tile[1])) // multiprocessors)


@dataclass(frozen=True)
class Rejection:
    """Configs that do not fit a target: how many, one of them, its figure and the limit."""

    reason: str
    count: int
    example: ProductConfig
    figure: int
    limit: int


@dataclass(frozen=True)
class ProductClass:
    """What a target offers for one class of multiplied types: shape bands, and what was rejected."""

    name: str
    bands: tuple[ProductBand, ...]
    searched: int
    rejected: tuple[Rejection, ...]


@dataclass(frozen=True)
class ProductSides:
    """The dims of a product kernel by what they are: batches, rows of tiles, columns of tiles, and summed over."""

    batch: tuple[Dim, ...]
    m: tuple[Dim, ...]
    n: tuple[Dim, ...]
    k: tuple[Dim, ...]


@dataclass(frozen=True)
class ProductPlan:
    """One product kernel: its part of each variant's graph and the products in it, what it addresses, its configs.

    `operations` are f32 instructions for an element of the result beside the products.
    """

    parts: tuple[Part, ...]
    accesses: tuple[Access, ...]
    sides: ProductSides
    products: tuple[tuple[Product, ...], ...]
    classes: tuple[ProductClass, ...]
    operations: int

    @property
    def space(self) -> tuple[Dim, ...]:
        return self.parts[0].space


KernelPlan: TypeAlias = ElementwisePlan | RowPlan | ProductPlan


@dataclass(frozen=True)
class Plan:
    """The kernels of an op on one target, in launch order; `temporaries` are the tensors between them, by variant."""

    target: str
    kernels: tuple[KernelPlan, ...]
    temporaries: tuple[tuple[Temporary, ...], ...] = ((),)
