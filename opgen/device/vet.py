"""`opgen vet`: every kernel of some specs, compiled for every target with every config, on a machine with no GPU."""

from __future__ import annotations

import importlib
import json
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from pathlib import Path
from types import ModuleType
from typing import Any

import triton

from opgen.device.assembly import Figures
from opgen.device.calls import Call, Skipped, calls
from opgen.device.estimates import Estimator
from opgen.device.launches import Chosen, launches
from opgen.device.load import load_sources
from opgen.device.offline import Alignment, Job, job_of
from opgen.device.units import NO_UNIT, REFUSED, UNITS
from opgen.device.vet_worker import Place, compiling
from opgen.emit.names import module_name
from opgen.emit.render import as_rendered
from opgen.output import replace_file
from opgen.pool import work_off
from opgen.source import Source
from opgen.targets import TARGETS, Target

SPILL_BOUND = 320
"""Most bytes that a thread may spill: 80 registers of it, under a third of what it can have. Products of tensors that
are not aligned reach 288, once for a tile; a loop that spilled as much would be slow."""

ESTIMATE_SLACK = (0.15, 4096)
"""How far a planned size of shared memory may lie above the compiler's: this share of it, or these bytes."""

_SECONDS_A_JOB = 300.0
_CACHE_FORMAT = 2

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Planned:
    """A job with what it stands for: the op, the element types, the layout, the config as text, the planner's estimate
    of its shared memory (bytes; None where the plan has none).

    `is_tight` says that the estimate must not be far above what the compiler takes: it pipelines wide loads alone.
    """

    op: str
    types: str
    layout: str
    alignment: Alignment
    config: str
    estimate: int | None
    is_tight: bool
    job: Job


@dataclass(frozen=True)
class Row:
    """What a job came to: figures or a fault of the compiler, what is wrong with it, and how long it was compiled."""

    planned: Planned
    figures: Figures | None
    errors: tuple[str, ...]
    seconds: float
    is_cached: bool


@dataclass(frozen=True)
class Counts:
    """`total` jobs were planned, `unique` of them differ; of those `run`, `cached` and `left` (by a sample, or when the
    time was over)."""

    total: int
    unique: int
    run: int
    cached: int
    left: int


@dataclass(frozen=True)
class Vetting:
    triton: str
    targets: tuple[str, ...]
    rows: tuple[Row, ...]
    counts: Counts
    skipped: tuple[Skipped, ...]
    seconds: float

    @property
    def faults(self) -> tuple[Row, ...]:
        return tuple(row for row in self.rows if row.errors)


def main(
    sources: Sequence[Source],
    *,
    read: Callable[[str], Source],
    targets: Sequence[str],
    jobs: int,
    sample: int | None,
    minutes: float | None,
    progress: Progress,
    clock: Callable[[], float],
) -> Vetting:
    """Builds specs and compiles their kernels, for `minutes` at most. Raises `SpecError` for mistakes in the specs."""
    begun = clock()
    with as_rendered():
        build, package = load_sources(sources, read)
    skipped: list[Skipped] = []
    planned: list[Planned] = []
    for op in (op for spec in build.specs for op in spec.ops):
        module = importlib.import_module(f"{package.__name__}.{module_name(op.ir.name)}")
        estimator = Estimator(op.ir, {plan.target: plan for plan in op.plans})
        planned += plan_jobs(module, estimator, targets, skipped)
    folder = str(Path(str(package.__file__)).parents[1])
    is_over = (lambda: clock() - begun > minutes * 60) if minutes else _never
    rows, counts = run(planned, folder, jobs=jobs, sample=sample, is_over=is_over, progress=progress)
    return Vetting(
        triton.__version__, tuple(targets), rows, counts, tuple(dict.fromkeys(skipped)), clock() - begun
    )


# --- what is compiled ---------------------------------------------------------------------------


def plan_jobs(
    module: ModuleType, estimator: Estimator, targets: Sequence[str], skipped: list[Skipped]
) -> Iterator[Planned]:
    """The jobs of an op: its launches on each target, with each alignment that calls of their sizes can have."""
    for call in calls(module, skipped):
        for name in targets:
            found = _launches(module, call, TARGETS[name], skipped)
            for chosen in found:
                for alignment in _alignments(call, chosen):
                    yield _planned(module, call, chosen, estimator, alignment, TARGETS[name])


def _alignments(call: Call, chosen: Chosen) -> tuple[Alignment, ...]:
    """What a launch's pointers and integers may be, given the sizes of its call."""
    if not call.is_even:
        return (Alignment.NEITHER,)
    # Descriptors are never traced, so that no size of theirs becomes a constant.
    streams = chosen.launch.kernel.fn.__name__.endswith("_stream")
    is_both = call.is_plain and chosen.is_typical and not streams
    return (Alignment.DIVISIBLE, Alignment.ONE) if is_both else (Alignment.DIVISIBLE,)


def _launches(module: ModuleType, call: Call, target: Target, skipped: list[Skipped]) -> tuple[Chosen, ...]:
    op = module.__name__.rpartition(".")[2]
    try:
        return tuple(launches(module, call, target))
    except NotImplementedError as error:
        skipped.append(Skipped(f"{op}, {call.label}", str(error)))
        return ()


def _planned(
    module: ModuleType,
    call: Call,
    chosen: Chosen,
    estimator: Estimator,
    alignment: Alignment,
    target: Target,
) -> Planned:
    job = job_of(chosen.launch, target, alignment)
    types = [str(dtype).removeprefix("torch.") for dtype in call.types]
    is_wide = call.is_plain and alignment is Alignment.DIVISIBLE
    return Planned(
        op=module.__name__.rpartition(".")[2],
        types=", ".join(types) or "fixed",
        layout=call.label,
        alignment=alignment,
        config=_words(chosen.config),
        estimate=estimator.shared_bytes(chosen, types, target, is_wide=is_wide),
        is_tight=is_wide,
        job=job,
    )


def _words(config: Any) -> str:
    """A config as `tile=(128, 256, 64) warps=8`, without what is 0, false or empty."""
    if config is None:
        return ""
    return " ".join(f"{name}={value}" for name, value in vars(config).items() if value)


def unique(planned: Sequence[Planned]) -> tuple[Planned, ...]:
    """One of each distinct job: of those with an estimate the one whose estimate is the strictest."""
    found: dict[str, Planned] = {}
    for one in planned:
        known = found.setdefault(one.job.key, one)
        if _strictness(one) < _strictness(known):
            found[one.job.key] = one
    return tuple(found.values())


def _strictness(one: Planned) -> tuple[bool, float]:
    return not one.is_tight, float("inf") if one.estimate is None else one.estimate


def spread(planned: Sequence[Planned]) -> tuple[Planned, ...]:
    """Jobs in an order in which ops, kernels and targets take turns; the same for the same kernels."""
    groups: dict[tuple[str, str, str], list[tuple[str, Planned]]] = {}
    for one in planned:
        place = replace(one.job, source="").key  # which text a release of Triton hashes is its own affair
        groups.setdefault((one.op, one.job.kernel, one.job.target), []).append((place, one))
    turns: list[tuple[int, str, Planned]] = []
    for members in groups.values():
        ordered = sorted(members, key=lambda member: member[0])
        turns += [(turn, place, one) for turn, (place, one) in enumerate(ordered)]
    return tuple(one for _, _, one in sorted(turns, key=lambda turn: turn[:2]))


# --- compiling ----------------------------------------------------------------------------------


def _never() -> bool:
    return False


def run(
    planned: Sequence[Planned],
    folder: str,
    *,
    jobs: int,
    sample: int | None,
    progress: Progress,
    is_over: Callable[[], bool] = _never,
) -> tuple[tuple[Row, ...], Counts]:
    """The rows of all distinct jobs, or of a sample of them; `folder` holds the package of their kernels.

    When the time is over, what is not compiled yet is left.
    """
    distinct = unique(planned)
    chosen = spread(distinct)[:sample]
    rows: list[Row] = []
    rest: dict[str, Planned] = {}
    for one in chosen:
        known, seconds = _cached(one.job)
        if known is None and not limits(one):
            rest[one.job.key] = one
        else:
            rows.append(_row(one, known, None, seconds, is_cached=known is not None))
    done = len(rows)
    progress(done, len(chosen))
    ordered = [one.job for one in rest.values()]
    with tempfile.TemporaryDirectory(prefix="opgen-vet-") as shared:
        for outcome in work_off(ordered, compiling, Place(folder, shared), jobs, _SECONDS_A_JOB):
            one = rest[outcome.piece.key]
            if outcome.fault is None:
                _remember(one.job, outcome.result, outcome.seconds)
            rows.append(_row(one, outcome.result, outcome.fault, outcome.seconds, is_cached=False))
            done += 1
            progress(done, len(chosen))
            if is_over():
                break
    cached = sum(row.is_cached for row in rows)
    counts = Counts(len(planned), len(distinct), len(rows) - cached, cached, len(distinct) - len(rows))
    return tuple(sorted(rows, key=_order)), counts


def _order(row: Row) -> tuple[Any, ...]:
    one = row.planned
    return one.op, one.job.kernel, list(TARGETS).index(one.job.target), one.config, one.types, one.job.key


def _row(one: Planned, figures: Figures | None, fault: str | None, seconds: float, *, is_cached: bool) -> Row:
    errors = limits(one)
    if fault is not None:
        errors = (*errors, f"does not compile: {fault}")
    if figures is not None:
        errors = (*errors, *faults(one, figures))
    return Row(one, figures, errors, seconds, is_cached)


# --- what is wrong ------------------------------------------------------------------------------


def limits(one: Planned) -> tuple[str, ...]:
    """What is wrong before a compiler is asked, with both figures."""
    target = TARGETS[one.job.target]
    threads = one.job.option("num_warps", 4) * target.warp_size
    if threads > target.max_threads:
        return (f"{threads} threads, and {target.name} runs {target.max_threads} in a program",)
    return ()


def faults(one: Planned, figures: Figures) -> tuple[str, ...]:
    """What is wrong with a compiled kernel, each with both figures."""
    target = TARGETS[one.job.target]
    found = []
    if figures.shared_bytes > target.shared_bytes:
        found.append(
            f"{figures.shared_bytes} bytes of shared memory, and {target.name} has {target.shared_bytes}"
        )
    if figures.spilled_bytes > SPILL_BOUND and one.alignment is not Alignment.ONE:  # for sizes of 1
        found.append(f"{figures.spilled_bytes} bytes spilled by a thread, and the bound is {SPILL_BOUND}")
    if figures.occupancy == 0 and not found:
        taken = f"{figures.registers} registers in each of {figures.threads} threads"
        found.append(f"{taken}, and a multiprocessor of {target.name} has {target.registers}")
    found += _estimate_faults(one, figures)
    found += _unit_faults(target, figures)
    return tuple(found)


def _estimate_faults(one: Planned, figures: Figures) -> Iterator[str]:
    if one.estimate is None:
        return
    share, plain = ESTIMATE_SLACK
    most = figures.shared_bytes + max(int(figures.shared_bytes * share), plain)
    if one.estimate < figures.shared_bytes or (one.is_tight and one.estimate > most):
        yield (
            f"the planner expects {one.estimate} bytes of shared memory, and the compiler takes "
            f"{figures.shared_bytes}: allowed are {figures.shared_bytes} to {most}"
        )


def _unit_faults(target: Target, figures: Figures) -> Iterator[str]:
    """Products that ought to use the matrix unit and do not, and exact ones that NVIDIA's rounds to tf32."""
    if figures.dots == ("f32 ieee",) and figures.unit is not None and not target.is_amd:
        yield f"an exact product of f32 uses {figures.unit}, which rounds to tf32 on {target.name}"
    for dot in figures.dots:
        dtype, _, precision = dot.partition(" ")
        wanted = UNITS.get(dtype, {}).get(target.name)
        if wanted in (None, NO_UNIT, REFUSED) or precision == "ieee":
            continue
        if figures.unit is None:
            yield f"a product of {dot} uses no matrix unit, and {target.name} has {wanted}"


# --- what is remembered -------------------------------------------------------------------------


def cache_folder() -> Path:
    """Where figures are kept: `OPGEN_CACHE_DIR`, else the user's cache folder."""
    own = os.environ.get("OPGEN_CACHE_DIR")
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(own) if own else Path(base, "opgen")


def _cache_file(job: Job) -> Path:
    key = sha256(f"{_CACHE_FORMAT} {triton.__version__} {job.key}".encode()).hexdigest()
    return cache_folder() / "vet" / key[:2] / f"{key}.json"


def _cached(job: Job) -> tuple[Figures | None, float]:
    """A job's figures and the seconds that they took, where they are known."""
    try:
        told = json.loads(_cache_file(job).read_text(encoding="utf-8"))
        seconds = told.pop("seconds")
        return replace(Figures(**told), dots=tuple(told["dots"])), seconds
    except (OSError, ValueError, TypeError, KeyError):
        return None, 0.0


def _remember(job: Job, figures: Figures, seconds: float) -> None:
    replace_file(_cache_file(job), json.dumps({**asdict(figures), "seconds": round(seconds, 3)}) + "\n")
