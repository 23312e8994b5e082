"""Times of matrix products: whole waves of tiles on the matrix unit, or the bytes of the operands.

Ours has the tile that the plan gives a shape, the library's the best of those that it may have.
"""

from __future__ import annotations

import math
from dataclasses import replace

from opgen.advise import rates
from opgen.advise.counts import Kernel, Product
from opgen.plan.model import ProductConfig
from opgen.plan.product_budget import Work
from opgen.plan.product_model import prepared
from opgen.targets import Target

#: Tiles that product libraries choose from: as many sums as registers hold, in steps of what the matrix unit takes.
_TILES = tuple(
    (rows, columns)
    for rows in (64, 128, 192, 256)
    for columns in range(64, 257, 32)
    if rows * columns <= 128 * 256
)
_PIECES = (1, 2, 4, 8)
_LEAST_PIECE = 512
BYTES_OF_SUM = 4


def fused_product(kernel: Kernel, config: ProductConfig, work: Work, target: Target) -> float:
    """Microseconds of opgen's kernel for products of one shape, beside its start."""
    products = kernel.products
    one, first = prepared(config, work, target, config.precision), products[0]
    rows, columns, step = config.tile
    # Products beside each other share the rows that they load: they are as fast as one of a wider tile.
    wide = replace(config, tile=(rows, columns * len(products), step))
    rate = prepared(wide, work, target, config.precision).tile_rate
    tiles = first.batch * -(-first.m // rows) * -(-first.n // columns) * config.split
    waves = -(-tiles // (target.multiprocessors * one.resident))
    together = min(one.resident, -(-tiles // target.multiprocessors))
    depth = -(-first.k // config.split)
    compute = waves * together * (one.operations * depth / rate + one.written)
    loading = _loading(kernel.bytes, tiles, target, on_their_way=together * one.flight)
    plain = kernel.instructions / rates.instructions_per_microsecond(target)
    time = rates.PRODUCT_FILL.value + max(compute, loading, plain)
    sums = first.batch * first.m * first.n * len(products)
    return time + _joining(sums, config.split, target)


def library_product(product: Product, bytes_: int, target: Target) -> float:
    """Microseconds of the library's product, beside its start."""
    rate = target.matrix_rates.get(product.dtype, 0) * 1e6 / target.multiprocessors
    plain = rates.matrix_operations_per_microsecond(target, product.dtype) / target.multiprocessors
    best = float("inf")
    for rows, columns in _TILES:
        reached = rate * _library_share(rows, columns) if rate else plain
        for pieces in _PIECES:
            depth = product.k / pieces
            if pieces > 1 and depth < _LEAST_PIECE:
                break
            tiles = product.batch * -(-product.m // rows) * -(-product.n // columns) * pieces
            waves = -(-tiles // target.multiprocessors)
            area = rows * columns
            compute = waves * (2 * area * depth / reached + area * rates.WRITE.value * 1e-3)
            time = max(compute, _loading(bytes_, tiles, target))
            best = min(best, time + _joining(product.batch * product.m * product.n, pieces, target))
    return rates.PRODUCT_FILL.value + best


def _library_share(rows: int, columns: int) -> float:
    """The share of the matrix rate that a tile of the library's reaches."""
    size = rows * columns / (rows + columns)
    share = rates.LIBRARY_PEAK.value * size / (size + rates.LIBRARY_HALF_SIZE.value)
    return min(share, rates.LIBRARY_SHARE.value)


def _loading(bytes_: int, tiles: int, target: Target, *, on_their_way: float = math.inf) -> float:
    """Microseconds in which as many tiles load operands and write results, with so many bytes on their way to one
    multiprocessor."""
    rate = rates.bytes_per_microsecond(target) * rates.OPERAND_SHARE.value
    own = min(rates.SM_FACTOR.value * rate / target.multiprocessors, on_their_way / rates.LATENCY.value)
    return rates.PRODUCT_RAMP.value + bytes_ / min(rate, own * tiles)


def _joining(sums: int, pieces: int, target: Target) -> float:
    """Microseconds of a second kernel that adds up what pieces of k gave, through L2."""
    if pieces == 1:
        return 0.0
    moved = 2 * sums * pieces * BYTES_OF_SUM
    return rates.KERNEL.value + moved / (rates.bytes_per_microsecond(target) * rates.L2_FACTOR.value)
