"""Plans: *how* an op runs on a target. No code text, no identifiers of generated code."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from opgen.ir.nodes import Dim, TensorParam
from opgen.ir.passes.partition import Part, Temporary


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


KernelPlan: TypeAlias = ElementwisePlan


@dataclass(frozen=True)
class Plan:
    """The kernels of an op on one target, in launch order; `temporaries` are the tensors between them, by variant."""

    target: str
    kernels: tuple[KernelPlan, ...]
    temporaries: tuple[tuple[Temporary, ...], ...] = ((),)
