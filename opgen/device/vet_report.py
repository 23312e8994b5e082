"""What `opgen vet` tells: a table for each op, what is wrong, what was skipped, and the counts of jobs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict

from opgen.device.assembly import Figures
from opgen.device.offline import Alignment
from opgen.device.table import markdown_table, text_table
from opgen.device.vet import ESTIMATE_SLACK, SPILL_BOUND, Row, Vetting
from opgen.targets import TARGETS

_COLUMNS = (
    "kernel",
    "target",
    "jobs",
    "shared B",
    "of B",
    "planned B",
    "registers",
    "spilled B",
    "threads",
    "occupancy %",
    "matrix unit",
    "load B",
    "errors",
)
_LEGEND = (
    "The largest of each figure over a kernel's jobs; occupancy from the least to the greatest; matrix unit: what "
    "products of tiles use; load: a thread's widest access where the layout and the alignment allow wide ones."
)
_MOST_FAULTS = 40

Tabulate = Callable[[Sequence[str], Sequence[Sequence[str]]], str]


def text(vetting: Vetting) -> str:
    """All of it for a terminal."""
    parts = []
    for op, rows in by_op(vetting.rows).items():
        parts.append(f"{op}\n{text_table(_COLUMNS, list(_lines(rows)))}")
    parts += ["\n".join(lines) for lines in (_faults(vetting), _skipped(vetting)) if lines]
    return "\n\n".join([*parts, summary(vetting)])


def markdown(vetting: Vetting, command: str) -> str:
    """All of it as a page; `command` is what makes it."""
    bounds = (
        f"A thread may spill {SPILL_BOUND} bytes; a planned size of shared memory may lie {ESTIMATE_SLACK[0]:.0%} or "
        f"{ESTIMATE_SLACK[1]} bytes above the compiler's, and never below."
    )
    made = f"Made by `{command}` with Triton {vetting.triton}, on a machine without a GPU."
    head = ["# Vetted kernels", made, summary(vetting), extremes(vetting), f"{_LEGEND} {bounds}"]
    parts = []
    for op, rows in by_op(vetting.rows).items():
        parts.append(f"## {op}\n\n{markdown_table(_COLUMNS, list(_lines(rows)))}")
    for title, lines in (("Errors", _faults(vetting)), ("Skipped", _skipped(vetting))):
        if lines:
            parts.append(f"## {title}\n\n" + "\n".join(f"- {line}" for line in lines))
    return "\n\n".join([*head, *parts]) + "\n"


def as_json(vetting: Vetting) -> str:
    """Every job with its figures, as JSON text."""
    rows = [
        {
            "op": row.planned.op,
            "kernel": row.planned.job.kernel,
            "target": row.planned.job.target,
            "types": row.planned.types,
            "layout": row.planned.layout,
            "alignment": row.planned.alignment.value,
            "config": row.planned.config,
            "estimated_bytes": row.planned.estimate,
            "figures": None if row.figures is None else asdict(row.figures),
            "errors": list(row.errors),
            "seconds": round(row.seconds, 3),
            "cached": row.is_cached,
        }
        for row in vetting.rows
    ]
    about = {
        "triton": vetting.triton,
        "targets": list(vetting.targets),
        "jobs": asdict(vetting.counts),
        "skipped": [asdict(one) for one in vetting.skipped],
        "seconds": round(vetting.seconds, 1),
        "rows": rows,
    }
    return json.dumps(about, indent=2) + "\n"


def summary(vetting: Vetting) -> str:
    """The counts of jobs, and how many are wrong."""
    counts = vetting.counts
    left = f", {counts.left} left out" if counts.left else ""
    wrong = len(vetting.faults)
    return (
        f"{counts.total} jobs, {counts.unique} of them different: {counts.run} run, {counts.cached} cached{left}; "
        f"{len(vetting.skipped)} skipped; {wrong} with errors; {vetting.seconds:.0f} s"
    )


def extremes(vetting: Vetting) -> str:
    """How long all that is told was compiled, how near the planner's figures are, and what is spilled."""
    known = [(row.planned, row.figures) for row in vetting.rows if row.figures is not None]
    configs = {(one.job.kernel, one.job.target, one.config) for one, _ in known}
    spilled = [figures.spilled_bytes for _, figures in known if figures.spilled_bytes]
    slack = ESTIMATE_SLACK[1]
    over = [
        one.estimate / figures.shared_bytes
        for one, figures in known
        if one.estimate is not None and one.is_tight and one.estimate > figures.shared_bytes + slack
    ]
    parts = [
        f"{len(known)} compiled jobs, {len(configs)} configs of a kernel on a target",
        f"{sum(row.seconds for row in vetting.rows) / 60:.0f} minutes of compiling",
        f"the largest ratio of planned to taken shared memory, more than {slack} bytes apart: "
        + (f"{max(over):.2f}" if over else "none is"),
        f"{len(spilled)} jobs spill, {max(spilled, default=0)} bytes of a thread at most",
    ]
    return "; ".join(parts) + "."


def by_op(rows: Sequence[Row]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row.planned.op, []).append(row)
    return found


def _lines(rows: Sequence[Row]) -> Iterator[tuple[str, ...]]:
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.planned.job.kernel, row.planned.job.target), []).append(row)
    for (kernel, target), members in groups.items():
        yield (
            kernel,
            target,
            str(len(members)),
            *_figures(target, members),
            str(sum(bool(row.errors) for row in members) or ""),
        )


def _figures(target: str, rows: Sequence[Row]) -> tuple[str, ...]:
    found = [row.figures for row in rows if row.figures is not None]
    limit = str(TARGETS[target].shared_bytes)
    if not found:
        return ("-", limit, *["-"] * 7)
    planned = [row.planned.estimate for row in rows if row.planned.estimate is not None]
    shares = [100 * one.occupancy for one in found]
    return (
        str(max(one.shared_bytes for one in found)),
        limit,
        str(max(planned)) if planned else "",
        str(max(one.registers for one in found)),
        str(max(one.spilled_bytes for one in found)),
        str(max(one.threads for one in found)),
        f"{min(shares):.0f}-{max(shares):.0f}" if min(shares) < max(shares) else f"{shares[0]:.0f}",
        _units(found),
        str(_widest(rows)),
    )


def _units(found: Sequence[Figures]) -> str:
    """The units that products use: `fma` where a product uses none."""
    return ", ".join(sorted({one.unit or "fma" for one in found if one.dots}))


def _widest(rows: Sequence[Row]) -> int:
    aligned = [row for row in rows if row.figures and row.planned.alignment is Alignment.DIVISIBLE]
    return max((row.figures.load_bytes for row in aligned or rows if row.figures), default=0)


def _faults(vetting: Vetting) -> list[str]:
    lines = [f"{_name(row)}: {error}" for row in vetting.faults[:_MOST_FAULTS] for error in row.errors]
    more = len(vetting.faults) - _MOST_FAULTS
    return lines + ([f"and {more} more jobs with errors; --json tells all"] if more > 0 else [])


def _name(row: Row) -> str:
    one = row.planned
    about = [one.types, one.layout, one.alignment.value, one.config]
    return f"{one.op} {one.job.kernel} for {one.job.target} ({'; '.join(filter(None, about))})"


def _skipped(vetting: Vetting) -> list[str]:
    return [f"skipped {one.what}: {one.why}" for one in vetting.skipped]
