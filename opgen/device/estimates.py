"""What the planner expects of a launch, to be compared with what the compiler makes of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from opgen.device.launches import Chosen
from opgen.dtypes import DTYPES
from opgen.ir.nodes import Op
from opgen.ir.passes.parts import as_part_sees
from opgen.plan import products
from opgen.plan.model import Plan, ProductConfig, ProductPlan
from opgen.plan.product_budget import Work, shared_bytes
from opgen.targets import Target

_DTYPES = {dtype.torch: dtype for dtype in DTYPES.values() if not dtype.is_packed}
_MULTIPLYING = ("_tiles", "_stream")


class Estimator:
    """The shared memory that the plans of an op say its launches take."""

    def __init__(self, op: Op | None, plans: Mapping[str, Plan]) -> None:
        self._op = op
        self._plans = plans
        self._works: dict[tuple[int, tuple[str, ...]], Work | None] = {}

    def shared_bytes(
        self, chosen: Chosen, types: Sequence[str], target: Target, *, is_wide: bool
    ) -> int | None:
        """An upper bound for a program, in bytes; None where the plan says nothing, as of kernels that do not multiply.

        `types` are PyTorch's names of what the op's type variables stand for; `is_wide` says that all tensors can be
        read in wide pieces. A product whose operands cannot be read by descriptors is planned as one that reads through
        pointers.
        """
        name = chosen.launch.kernel.fn.__name__
        plan = self._plans.get(target.name)
        if self._op is None or plan is None or not name.endswith(_MULTIPLYING):
            return None
        kernel = plan.kernels[chosen.place]
        if not isinstance(kernel, ProductPlan):
            return None
        work = self._of(self._op, chosen.place, tuple(types), plan, kernel)
        config = _planned(chosen.config)
        if not name.endswith("_stream"):
            tile = tuple(chosen.launch.keywords[f"BLOCK_{side}"] for side in "MNK")
            config = replace(config, tile=tile, strategy="pointers", halves=False)
        return None if work is None else shared_bytes(config, replace(work, is_scattered=not is_wide), target)

    def _of(self, op: Op, place: int, types: tuple[str, ...], plan: Plan, kernel: ProductPlan) -> Work | None:
        """What a kernel computes for the types of its call."""
        if (place, types) not in self._works:
            seen = as_part_sees(op, kernel.parts[0], plan.temporaries[0])
            choice = tuple(_DTYPES[name] for name in types)
            self._works[place, types] = products.work_of(seen, kernel.parts, kernel.products, choice)
        return self._works[place, types]


def _planned(config: Any) -> ProductConfig:
    """A config of the runtime as the planner's record of the same words."""
    return ProductConfig(**{one.name: getattr(config, one.name) for one in fields(ProductConfig)})
