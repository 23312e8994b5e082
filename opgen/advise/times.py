"""Predicted microseconds of kernels, beside the call that they belong to: of PyTorch's, the library's and opgen's."""

from __future__ import annotations

import functools
from dataclasses import replace

from opgen.advise import rates
from opgen.advise.counts import CAST, Kernel
from opgen.advise.product_time import BYTES_OF_SUM, fused_product, library_product
from opgen.advise.setting import Setting
from opgen.advise.walks import eager_rows, fused_rows
from opgen.advise.work import Work
from opgen.diagnostics import SpecError
from opgen.dtypes import DType
from opgen.ir.nodes import Op
from opgen.ir.passes.partition import partition
from opgen.ir.passes.parts import as_part_sees
from opgen.plan.model import KernelPlan, ProductConfig, ProductPlan, RowConfig, RowPlan
from opgen.plan.op import plan_op
from opgen.plan.product_budget import Work as ProductWork
from opgen.plan.product_space import with_library
from opgen.plan.products import work_of
from opgen.targets import TARGETS, Target


def eager_time(counted: Work, target: Target) -> float:
    """A call of eager PyTorch."""
    return rates.CALL.value + sum(_one(kernel, target) for kernel in counted.eager)


def library_time(counted: Work, target: Target) -> float | None:
    """The library's products and a generated kernel behind them; None where there is no product."""
    if not counted.library:
        return None
    return rates.CALL.value + sum(_one(kernel, target, is_ours=True) for kernel in counted.library)


def fused_time(setting: Setting, counted: Work, target: Target) -> float:
    """A call of the generated function, with the configs of the plan."""
    plans = _plans(setting.op, target.name)
    if plans is None or len(plans) != len(counted.fused):
        return rates.CALL.value + sum(_one(kernel, target, is_ours=True) for kernel in counted.fused)
    times = (
        _planned(setting, place, kernel, plan, target)
        for place, (kernel, plan) in enumerate(zip(counted.fused, plans, strict=True))
    )
    return rates.CALL.value + sum(times)


@functools.lru_cache(maxsize=1024)
def _plans(op: Op, target: str) -> tuple[KernelPlan, ...] | None:
    """The plan's kernels, or None for an op that has none yet."""
    try:
        return plan_op(op, (TARGETS[target],))[0].kernels
    except SpecError:
        return None


def _one(kernel: Kernel, target: Target, *, is_ours: bool = False) -> float:
    """A kernel without a plan: PyTorch's, the library's, or one that no plan is needed for."""
    if kernel.products:
        share = kernel.bytes // len(kernel.products)
        return sum(
            rates.KERNEL.value + library_product(product, share, target) for product in kernel.products
        )
    if kernel.reduces:
        rows = fused_rows(kernel, None, target) if is_ours else eager_rows(kernel, target)
        return rates.KERNEL.value + rows
    return rates.KERNEL.value + _elementwise(kernel, target)


def _elementwise(kernel: Kernel, target: Target) -> float:
    memory = max(kernel.bytes, kernel.scattered) / rates.bytes_per_microsecond(target)
    if kernel.what == CAST:
        memory /= rates.CAST_SHARE.value
    instructions = kernel.instructions + kernel.addressing
    return max(memory, instructions / rates.instructions_per_microsecond(target))


def _planned(setting: Setting, place: int, kernel: Kernel, plan: KernelPlan, target: Target) -> float:
    """One of opgen's kernels with its plan."""
    match plan:
        case RowPlan():
            return rates.KERNEL.value + fused_rows(kernel, _row_config(setting, plan), target)
        case ProductPlan() if kernel.products:
            found = _product_config(setting, place, kernel, plan, target)
            if found is None or found[0].strategy == "library":
                return _one(kernel, target) + _finish(kernel, target)
            return rates.KERNEL.value + fused_product(kernel, *found, target)
        case _:
            return rates.KERNEL.value + _elementwise(kernel, target)


def _finish(kernel: Kernel, target: Target) -> float:
    """A kernel that reads the library's sums and does what is left."""
    sums = sum(one.batch * one.m * one.n for one in kernel.products) * BYTES_OF_SUM
    return rates.KERNEL.value + _elementwise(replace(kernel, bytes=2 * sums), target)


def _row_config(setting: Setting, plan: RowPlan) -> RowConfig:
    """The config for the widest element of whole rows, as the runtime chooses it."""
    dims = set(plan.reduced)
    widths = [setting.bits(one.element) // 8 for one in setting.op.arrays if dims & set(one.dims)]
    widest = max(widths, default=1)
    return next((one for one in plan.configs if one.width >= widest), plan.configs[-1])


def _product_config(
    setting: Setting, place: int, kernel: Kernel, plan: ProductPlan, target: Target
) -> tuple[ProductConfig, ProductWork] | None:
    """The config of the band that a shape lies in, and what it computes for an element of each operand."""
    types: tuple[DType, ...] = tuple(setting.types.values())
    cut = partition(setting.op)
    own = as_part_sees(setting.op, cut[0].parts[place], cut[0].temporaries)
    work = work_of(own, plan.parts, plan.products, types)
    if work is None:
        return None
    first = kernel.products[0]
    bands = (band for one in plan.classes if one.name == work.name for band in one.bands)
    for band in bands:
        if first.m <= band.m and first.n * first.batch <= band.n and first.k <= band.k:
            is_left = band.is_better_left(first.batch, first.m, first.n, first.k, target.multiprocessors)
            config, _ = band.fitting(first.batch, first.m, first.n, target.multiprocessors)
            return with_library(config) if is_left else config, work
    return None
