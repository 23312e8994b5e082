"""The roofline of each target with the points of some ops, as a picture (needs matplotlib)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure

from opgen.advise import rates
from opgen.advise.counts import total_operations
from opgen.advise.model import Advice

_INCHES = (8, 5.5)


def save(advices: Sequence[Advice], path: Path) -> None:
    """Draws operations per second over operations per byte, one roof for each target, and saves the picture."""
    with mpl.rc_context({"font.size": 9}):
        figure = Figure(figsize=_INCHES, layout="constrained")
        axes = figure.add_subplot(xscale="log", yscale="log", xlabel="operations per byte", ylabel="TFLOP/s")
        intensities = [max(advice.intensity, 1e-2) for advice in advices]
        low, high = min(intensities) / 4, max([*intensities, *(advice.ridge for advice in advices)]) * 4
        for name in dict.fromkeys(advice.target.name for advice in advices):
            own = [advice for advice in advices if advice.target.name == name]
            per_byte = rates.bytes_per_microsecond(own[0].target)
            ridge = max(advice.ridge for advice in own)
            roof = [(x, min(x, ridge) * per_byte / 1e6) for x in (low, ridge, max(high, ridge))]
            (line,) = axes.plot(*zip(*roof, strict=True), label=name)
            for advice in own:
                rate = total_operations(advice.work.fused) / advice.times.fused / 1e6
                axes.plot([max(advice.intensity, 1e-2)], [rate], "o", color=line.get_color())
        for advice in advices[:1] if len(advices) == 1 else ():
            axes.set_title(f"{advice.setting.op.name}, {advice.setting.label}")
        axes.legend(fontsize=7)
        axes.grid(visible=True, which="both", alpha=0.2)
        figure.savefig(path, dpi=120)
