"""What the planner expects of a launch, to be compared with what the compiler makes of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from opgen.device.launches import Chosen
from opgen.ir.nodes import Op
from opgen.ir.passes.parts import as_part_sees
from opgen.plan import products
from opgen.plan.model import Plan, ProductConfig, ProductPlan
from opgen.plan.product_budget import Work, shared_bytes
from opgen.targets import Target

_MULTIPLYING = ("_tiles", "_stream")


class Estimator:
    """The shared memory that the plans of an op say its launches take."""

    def __init__(self, op: Op | None, plans: Mapping[str, Plan]) -> None:
        self._op = op
        self._plans = plans
        self._works: dict[int, dict[str, Work]] = {}

    def shared_bytes(self, chosen: Chosen, target: Target) -> int | None:
        """An upper bound for a program, in bytes; None where the plan says nothing, as of kernels that do not multiply.

        A product whose operands cannot be read by descriptors is planned as one that reads through pointers.
        """
        name = chosen.launch.kernel.fn.__name__
        plan = self._plans.get(target.name)
        if self._op is None or plan is None or not name.endswith(_MULTIPLYING):
            return None
        kernel = plan.kernels[chosen.place]
        if not isinstance(kernel, ProductPlan):
            return None
        work = self._of(self._op, chosen, plan, kernel)
        config = _planned(chosen.config)
        if not name.endswith("_stream"):
            config = replace(config, strategy="pointers", halves=False)
        return None if work is None else shared_bytes(config, work, target)

    def _of(self, op: Op, chosen: Chosen, plan: Plan, kernel: ProductPlan) -> Work | None:
        """What a kernel computes for the class of types of its call."""
        if chosen.place not in self._works:
            seen = as_part_sees(op, kernel.parts[0], plan.temporaries[0])
            found = products.works_by_class(seen, kernel.parts, kernel.products)
            self._works[chosen.place] = {work.name: work for work in found}
        return self._works[chosen.place].get(chosen.key)


def _planned(config: Any) -> ProductConfig:
    """A config of the runtime as the planner's record of the same words."""
    return ProductConfig(**{one.name: getattr(config, one.name) for one in fields(ProductConfig)})
