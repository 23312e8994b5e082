"""What `opgen advise` tells, as text and as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict

from opgen.advise import rates
from opgen.advise.counts import Kernel, total_bytes, total_operations
from opgen.advise.model import Advice

_COLUMNS = ("target", "op/B", "ridge", "limit", "eager", "library", "fused", "gain", "bound by", "verdict")
LEGEND = (
    "op/B: operations of a byte moved when fused; ridge: where bandwidth and rate of the target meet; limit: the "
    "roofline's bound; eager, library (the library's product, then one kernel), fused: predicted microseconds on the "
    "device; gain: the best other over fused"
)


def text(advices: Sequence[Advice]) -> str:
    """The advice, by op and sizes: what was counted, a line for each target, and the verdicts in words."""
    keys = dict.fromkeys(_key(advice) for advice in advices)
    blocks = [_block([advice for advice in advices if _key(advice) == key]) for key in keys]
    return "\n\n".join([*blocks, LEGEND])


def _key(advice: Advice) -> tuple[str, str, str]:
    setting = advice.setting
    return setting.op.name, setting.label, setting.dtype


def _block(advices: Sequence[Advice]) -> str:
    setting, counted = advices[0].setting, advices[0].work
    sizes = ", ".join(f"{name} = {size}" for name, size in setting.sizes.items())
    label = setting.label if setting.label == sizes else f"{setting.label} ({sizes})"
    lines = [
        f"{setting.op.name}, {setting.dtype}, {label}",
        f"  fused    {_counted(counted.fused)}",
        f"  eager    {_counted(counted.eager)}",
    ]
    if counted.library:
        lines.append(f"  library  {_counted(counted.library)}")
    rows = [_COLUMNS, *(_row(advice) for advice in advices)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    padded = ("  ".join(map(str.ljust, row, widths)) for row in rows)
    lines += [f"  {line.rstrip()}" for line in padded]
    for reason in dict.fromkeys((advice.verdict, advice.reason) for advice in advices):
        names = [advice.target.name for advice in advices if (advice.verdict, advice.reason) == reason]
        where = "everywhere" if len(names) == len(advices) > 1 else ", ".join(names)
        lines.append(f"  {where}: {reason[0].value}: {reason[1]}")
    return "\n".join(lines)


def _counted(kernels: Sequence[Kernel]) -> str:
    names = ", ".join(kernel.what for kernel in kernels)
    plural = "kernel" if len(kernels) == 1 else "kernels"
    return (
        f"{len(kernels)} {plural}, {_scaled(total_operations(kernels))} operations, "
        f"{_scaled(total_bytes(kernels))}B: {names}"
    )


def _scaled(count: float) -> str:
    """A count with about three digits: 17.2 M."""
    for unit in ("", "k", "M", "G"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.4g} T"


def _row(advice: Advice) -> tuple[str, ...]:
    times = advice.times
    library = "-" if times.library is None else f"{times.library:.1f}"
    return (
        advice.target.name,
        f"{advice.intensity:.1f}",
        f"{advice.ridge:.0f}",
        f"{advice.limit:.1f}",
        f"{times.eager:.1f}",
        library,
        f"{times.fused:.1f}",
        f"{times.best_other / times.fused:.2f}",
        advice.bound.value,
        advice.verdict.value,
    )


def as_json(advices: Sequence[Advice]) -> str:
    """All figures, and the rates that they rest on, as JSON text."""
    rows = [
        {
            "op": advice.setting.op.name,
            "label": advice.setting.label,
            "sizes": dict(advice.setting.sizes),
            "types": {name: dtype.name for name, dtype in advice.setting.types.items()},
            "target": advice.target.name,
            "operations": total_operations(advice.work.fused),
            "bytes_fused": total_bytes(advice.work.fused),
            "bytes_eager": total_bytes(advice.work.eager),
            "kernels_eager": [kernel.what for kernel in advice.work.eager],
            "operations_per_byte": advice.intensity,
            "ridge": advice.ridge,
            "limit_us": advice.limit,
            "eager_us": advice.times.eager,
            "library_us": advice.times.library,
            "fused_us": advice.times.fused,
            "bound": advice.bound.value,
            "verdict": advice.verdict.value,
            "inside": advice.inside.value,
            "reason": advice.reason,
        }
        for advice in advices
    ]
    return json.dumps(
        {"rates": {name: asdict(rate) for name, rate in rates.TABLE.items()}, "rows": rows}, indent=2
    )
