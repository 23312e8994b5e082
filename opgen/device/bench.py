"""`opgen bench`: the ops of some specs on this machine's GPU, against eager PyTorch and torch.compile."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from types import ModuleType
from typing import Any

import torch

from opgen.device import contenders, inputs
from opgen.device.inputs import Case
from opgen.device.load import load_sources
from opgen.device.table import text_table
from opgen.device.timing import Work, copy_work, interleaved, machine
from opgen.diagnostics import Diagnostic, Diagnostics, SpecError, did_you_mean
from opgen.emit.names import module_name
from opgen.ir.nodes import Op
from opgen.source import Source, Span

NO_GPU = "OPG920"
UNKNOWN_SIZES = "OPG921"
UNKNOWN_TYPE = "OPG922"

Timer = Callable[[Mapping[str, Work]], Mapping[str, float]]


@dataclass(frozen=True)
class Row:
    """An op at one size and one choice of types.

    `times` are medians in microseconds of "ours", "eager", "compile" and "copy", a copy that moves as many bytes.
    `faults` tells for a contender without a time why; "row" stands for all of them.
    """

    op: str
    case: str
    dtype: str
    bytes: int = 0
    checked_against: str = ""
    times: Mapping[str, float] = field(default_factory=dict)
    faults: Mapping[str, str] = field(default_factory=dict)

    @property
    def bandwidth(self) -> float | None:
        """Ours, in GB/s."""
        return self.bytes / self.times["ours"] / 1e3 if "ours" in self.times else None

    def ratio(self, first: str, second: str) -> float | None:
        """One contender's time over another's."""
        both = first in self.times and second in self.times
        return self.times[first] / self.times[second] if both else None

    @property
    def loss(self) -> float:
        """Our time over the best other's: above 1 is a loss, and no time of ours the worst."""
        if "ours" not in self.times:
            return float("inf")
        return max(self.ratio("ours", other) or 0.0 for other in ("eager", "compile"))


@dataclass(frozen=True)
class Measurements:
    """All rows, losses first, with the versions and the GPU that they belong to."""

    machine: Mapping[str, str]
    rows: tuple[Row, ...]

    @property
    def text(self) -> str:
        """What was left out and why, then the table."""
        about = ", ".join(f"{name} {version}" for name, version in self.machine.items())
        told = [
            f"{row.op} {row.case} {row.dtype}: {'' if name == 'row' else f'{name}: '}{why}".replace("  ", " ")
            for row in self.rows
            for name, why in row.faults.items()
        ]
        timed = [_cells(row) for row in self.rows if row.times]
        table = [text_table(_COLUMNS, timed), _LEGEND] if timed else ["nothing was measured"]
        return "\n".join([about, *told, *table])

    @property
    def json(self) -> str:
        """The same with every time, as JSON text."""
        rows = [
            {**asdict(row), "gb_per_s": row.bandwidth, "of_copy": row.ratio("copy", "ours")}
            for row in self.rows
        ]
        return json.dumps({"machine": dict(self.machine), "rows": rows}, indent=2) + "\n"


_COLUMNS = ("op", "case", "type", "MB", "time", "GB/s", "of copy", "/eager", "/compile")
_LEGEND = "time in microseconds; of copy: a copy's time over ours; /eager, /compile: our time over theirs, losses first"


def _cells(row: Row) -> tuple[str, ...]:
    ratios = [row.ratio("copy", "ours"), row.ratio("ours", "eager"), row.ratio("ours", "compile")]
    shares = ["-" if ratio is None else f"{ratio:.3f}" for ratio in ratios]
    time = f"{row.times['ours']:.1f}" if "ours" in row.times else "-"
    rate = "-" if row.bandwidth is None else f"{row.bandwidth:.0f}"
    return row.op, row.case, row.dtype, _megabytes(row.bytes), time, rate, *shares


def _megabytes(count: int) -> str:
    """Megabytes with about three digits."""
    size = count / 1e6
    return f"{size:.0f}" if size >= 100 else f"{size:.3g}"


def main(
    sources: Sequence[Source],
    *,
    read: Callable[[str], Source],
    sizes: Sequence[str] | None,
    dtypes: Sequence[str] | None,
) -> Measurements:
    """Builds specs and measures their ops: at the entries of `sizes` with these labels, with these element types.

    Raises `SpecError` where there is no GPU, for a label or a type that no op has, and for mistakes in the specs.
    """
    if not torch.cuda.is_available():
        raise _refusal(NO_GPU, "bench", "measuring needs a GPU, and PyTorch sees none on this machine")
    build, package = load_sources(sources, read)
    ops = [op.ir for spec in build.specs for op in spec.ops]
    refuse_unknown(ops, sizes, dtypes)
    with torch.no_grad():
        rows = [
            row
            for op in ops
            for row in measure(op, op_module(package, op), sizes, dtypes, "cuda", interleaved)
        ]
    return Measurements(machine(), tuple(sorted(rows, key=lambda row: -row.loss)))


def op_module(package: ModuleType, op: Op) -> ModuleType:
    """The generated module of an op."""
    return importlib.import_module(f"{package.__name__}.{module_name(op.name)}")


def refuse_unknown(ops: Sequence[Op], sizes: Sequence[str] | None, dtypes: Sequence[str] | None) -> None:
    """Raises `SpecError` for labels and types that no op has."""
    labels = {entry.label for op in ops for entry in op.sizes}
    types = {dtype.name for op in ops for variable in op.variables for dtype in variable.types}
    found = Diagnostics()
    for code, word, given, known in (
        (UNKNOWN_SIZES, "sizes", sizes or (), labels),
        (UNKNOWN_TYPE, "element type", dtypes or (), types),
    ):
        for name in given:
            if name not in known:
                advice = did_you_mean(name, known) or f"there are {', '.join(sorted(known)) or 'none'}"
                found.error(code, f"no op here has the {word} `{name}`", _nowhere("bench"), help=advice)
    found.raise_if_errors()


def _refusal(code: str, name: str, message: str) -> SpecError:
    return SpecError([Diagnostic(code, message, _nowhere(name))])


def _nowhere(name: str) -> Span:
    """The place of a message that is about no line of a spec."""
    return Span(Source(name, ""), 0, 0)


def measure(
    op: Op,
    module: ModuleType,
    labels: Sequence[str] | None,
    dtypes: Sequence[str] | None,
    device: str,
    timer: Timer,
) -> Iterator[Row]:
    """The rows of an op; `timer` gives the time of each contender, in microseconds."""
    if not op.sizes:
        yield Row(op.name, "", "", faults={"row": "the spec gives no `sizes`"})
    for case in inputs.cases(op, labels, dtypes):
        try:
            yield _row(case, module, device, timer)
        except torch.OutOfMemoryError:
            yield _without_times(case, "more memory was needed than the GPU has free")
        except Exception as error:  # noqa: BLE001 - a row that fails is told, and the others are still measured
            yield _without_times(case, _one_line(error))


def _without_times(case: Case, why: str) -> Row:
    return Row(case.op.name, case.label, case.dtype, faults={"row": why})


def _row(case: Case, module: ModuleType, device: str, timer: Timer) -> Row:
    if case.missing:
        return _without_times(case, f"its sizes say nothing about {', '.join(case.missing)}")
    needed, free = inputs.needed_memory(case), _free_memory(device)
    if needed > free:
        why = f"needs about {needed / 1e9:.1f} GB, and {free / 1e9:.1f} GB of the GPU are free"
        return _without_times(case, why)
    arguments = inputs.draw(case, device)
    wrong = contenders.fault(case, module, arguments)
    works, faults = _works(case, module, arguments)
    if wrong is not None:
        faults["ours"] = f"wrong: {wrong}"
        works.pop("ours", None)
    moved = inputs.moved_bytes(case)
    times = timer({"copy": copy_work(moved, device), **works})
    against = contenders.checked_against(case.op)
    return Row(case.op.name, case.label, case.dtype, moved, against, times, faults)


def _works(
    case: Case, module: ModuleType, arguments: Mapping[str, Any]
) -> tuple[dict[str, Work], dict[str, str]]:
    """The contenders that run, and for the others why they do not."""
    values = tuple(arguments.values())
    reference = contenders.eager(case, module)
    works: dict[str, Work] = {
        "eager": partial(reference, *values),
        "compile": partial(contenders.compiled(reference), *values),
        "ours": partial(getattr(module, case.op.name), *values),
    }
    faults: dict[str, str] = {}
    for name, work in works.items():
        try:
            work()
        except Exception as error:  # noqa: BLE001 - a contender may fail in any way; the row tells how
            faults[name] = _one_line(error)
    return {name: work for name, work in works.items() if name not in faults}, faults


def _free_memory(device: str) -> float:
    """Bytes that a measurement may take, those that PyTorch keeps for reuse included."""
    if device != "cuda":
        return float("inf")
    torch.cuda.empty_cache()
    free, _ = torch.cuda.mem_get_info()
    return float(free)


def _one_line(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:300]
