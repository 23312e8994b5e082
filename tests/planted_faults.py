"""Plants faults in the generated modules, and counts those that the generated tests see.

    python tests/planted_faults.py [OP...] [--all] [--jobs N] [--json FILE] [--resume FILE] [--time-limit S]
    python tests/planted_faults.py --all --resume FILE --report SENTENCE

Each operator of `tests/planted/operators.py` is applied at every site that it finds in each module, one fault at a
time, and the op's generated tests run on the result in Triton's interpreter. A fault is caught where an assertion on
values or sentinels fails; an exception or a timeout counts as not planted; a fault that cannot change a value is
equivalent, each by a rule of `tests/planted/equivalence.py`. Exits with 1 if any other is left, or was not tried for
lack of time. `--resume` takes over from an earlier record what holds for modules that are the same today.
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import multiprocessing
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
os.environ["TRITON_INTERPRET"] = "1"
os.environ["CUDA_VISIBLE_DEVICES"] = ""  # the interpreter works on the CPU's tensors
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["OPGEN_ONE_CALL_IN"] = "1"  # every call of the generated tests
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from opgen.pipeline import compile_specs  # noqa: E402
from opgen.source import Source  # noqa: E402
from tests.planted import equivalence, trial  # noqa: E402
from tests.planted.operators import Site, sites  # noqa: E402
from tests.planted.record import Result, read, report, table, write  # noqa: E402

RUNTIME = "_tiles"
"""The runtime module whose device functions get faults, too."""

RUNTIME_OPS = ("swish", "unpacked", "looked_up", "with_scalars")
"""Ops that together reach every function of it; the last three are not shipped."""

EXTRA_SPECS = (ROOT / "tests" / "planted" / "addressing.op",)

_SAVED_EVERY = 20.0
"""Seconds between two records of a run that is under way."""


@dataclass(frozen=True)
class Task:
    """A fault to try, or none: the module as it is must pass its tests."""

    module: str
    digest: str
    harness: str
    site: Site | None


def build(folder: Path) -> list[str]:
    """Lays out a package of the generated modules, with those of further specs; the names of the shipped ops."""
    package = folder / trial.PACKAGE
    shutil.copytree(ROOT / "generated", package, ignore=shutil.ignore_patterns("__pycache__"))
    shipped = sorted(path.stem for path in package.glob("*.py") if not path.name.startswith("_"))
    further = compile_specs([_read(str(path.relative_to(ROOT))) for path in EXTRA_SPECS], read=_read)
    for path, text in further.files:
        if not (package / path).exists():
            (package / path).write_text(text, encoding="utf-8")
    return shipped


def _read(path: str) -> Source:
    return Source(path, (ROOT / path).read_text(encoding="utf-8"))


def digest_of(*files: Path) -> str:
    """A digest of the texts of files."""
    return hashlib.sha256(b"\0".join(file.read_bytes() for file in files)).hexdigest()[:16]


def is_elementwise(text: str) -> bool:
    """Whether all kernels of a module are elementwise."""
    return "rt.Kernel(" in text and "rt.RowKernel(" not in text and "rt.ProductKernel(" not in text


def attempt(task: Task) -> Result:
    """Tries one fault, in a worker."""
    if task.site is None:
        ops = RUNTIME_OPS if task.module == RUNTIME else ()
        outcome = trial.try_runtime(RUNTIME, ops, None) if ops else trial.try_op(task.module, None)
        return Result.of(task.module, task.digest, task.harness, None, outcome.kind, outcome.detail, 0.0)
    result = functools.partial(Result.of, task.module, task.digest, task.harness, task.site)
    reason = equivalence.by_rule(task.site)
    if reason is not None:
        return result("equivalent", reason, 0.0)
    if task.module == RUNTIME:
        outcome = trial.try_runtime(RUNTIME, RUNTIME_OPS, task.site)
        same = functools.partial(trial.same_runtime_results, RUNTIME, RUNTIME_OPS, task.site)
    else:
        outcome = trial.try_op(task.module, task.site)
        same = functools.partial(trial.same_results, task.module, task.site)
    if outcome.kind == "left":
        reason = equivalence.by_results(task.site)
        if reason is not None and same():
            return result("equivalent", reason, outcome.seconds)
        reason = equivalence.by_exhaustion(task.site)
        if reason is not None and trial.same_everywhere(task.module, task.site):
            return result("equivalent", reason, outcome.seconds)
    return result(outcome.kind, outcome.detail, outcome.seconds)


def main() -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # and ends the workers on the way out
    arguments = _arguments()
    deadline = time.monotonic() + arguments.time_limit if arguments.time_limit else None
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        modules = _chosen(folder, arguments)
        known = [one for file in arguments.resume if file.exists() for one in read(file)]
        tasks, results = _planned(folder, modules, arguments.sample, known)
        if arguments.report is not None:
            untried_by_module = Counter(task.module for task in tasks if task.site is not None)
            print(report(results, untried_by_module, arguments.report), end="")
            return 0
        untried = len(tasks)
        for result in run(folder, tasks, arguments.jobs, deadline):
            untried -= 1
            results.append(result)
            if arguments.json:
                write(arguments.json, results, every=_SAVED_EVERY)
    return _settle(results, untried, arguments.json)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Plants faults in the generated modules.")
    parser.add_argument("ops", nargs="*", metavar="OP", help=f"or {RUNTIME}; default: as --all")
    parser.add_argument("--all", action="store_true", help=f"all shipped elementwise ops, and {RUNTIME}")
    parser.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1))
    parser.add_argument("--sample", type=int, help="so many faults of each module, drawn with a fixed seed")
    parser.add_argument(
        "--json", type=Path, help="where every fault is recorded, now and then also on the way"
    )
    parser.add_argument(
        "--resume", type=Path, nargs="*", default=[], help="earlier records, also the same file"
    )
    parser.add_argument("--time-limit", type=float, metavar="S", help="seconds after which no more is tried")
    parser.add_argument(
        "--report",
        metavar="SENTENCE",
        help="tries nothing, but prints what the records of --resume hold as a page, which says where they were made",
    )
    return parser.parse_args()


def _chosen(folder: Path, arguments: argparse.Namespace) -> list[str]:
    """The modules to plant faults in, in a package that is built now."""
    shipped = build(folder)
    if arguments.ops and not arguments.all:
        unknown = set(arguments.ops) - {*shipped, RUNTIME}
        if unknown:
            raise SystemExit(f"no module is called {', '.join(sorted(unknown))}")
        return list(arguments.ops)
    return [*(name for name in shipped if is_elementwise(_text(folder, name))), RUNTIME]


def _text(folder: Path, module: str) -> str:
    return (folder / trial.PACKAGE / f"{module}.py").read_text(encoding="utf-8")


def _planned(
    folder: Path, modules: Iterable[str], sample: int | None, known: list[Result]
) -> tuple[list[Task], list[Result]]:
    """What is to be tried, modules of few sites first; and what an earlier record holds of it.

    A fault that was left is tried again where the tests have changed; an equivalent one, where its rule has; one that
    took too long, in any case.
    """
    harness = _harness_digest(folder)
    earlier = {one.key: one for one in known}
    by_module: list[tuple[list[Task], list[Result]]] = []
    for name in modules:
        digest = digest_of(folder / trial.PACKAGE / f"{name}.py")
        found = list(sites(_text(folder, name)))
        if sample is not None and sample < len(found):
            found = random.Random(name).sample(found, sample)
        tasks = [Task(name, digest, harness, site) for site in found]
        taken = [
            one
            for site in found
            if (one := earlier.get(Result.key_of(digest, site))) is not None and _holds(one, site, harness)
        ]
        done = {one.key for one in taken}
        left = [task for task in tasks if Result.key_of(digest, task.site) not in done]
        sound = [Task(name, digest, harness, None)] if left else []
        by_module.append(([*sound, *left], taken))
    by_module.sort(key=lambda one: len(one[0]))
    return [task for tasks, _ in by_module for task in tasks], [
        one for _, taken in by_module for one in taken
    ]


def _holds(result: Result, site: Site, harness: str) -> bool:
    """Whether an earlier result of a fault is one of today."""
    match result.kind:
        case "left":
            return result.harness == harness
        case "equivalent":
            return result.reason in equivalence.reasons(site)
        case _:
            return trial.TOO_LONG not in result.reason


def _harness_digest(folder: Path) -> str:
    """Of all that decides whether a fault is seen, beside the module."""
    package = folder / trial.PACKAGE
    shared = [*package.glob("_*.py"), *(package / "tests").glob("*.py")]
    return digest_of(*sorted(shared), *sorted((ROOT / "tests" / "planted").glob("*.py")))


def run(folder: Path, tasks: list[Task], jobs: int, deadline: float | None) -> Iterator[Result]:
    """What became of faults, as they are tried by worker processes; ends at the deadline, wherever they are."""
    context = multiprocessing.get_context("spawn")
    with context.Pool(jobs, trial.start, (str(folder),)) as pool:  # which ends the workers when it is left
        outcomes = pool.imap_unordered(attempt, tasks)
        for _ in tasks:
            try:
                result = outcomes.next(None if deadline is None else max(deadline - time.monotonic(), 0.0))
            except multiprocessing.TimeoutError:
                return
            if result.fails_without_fault or (result.kind == "left" and result.operator):
                print(f"{result.kind} {result}", flush=True)
            yield result


def _settle(results: list[Result], untried: int, record: Path | None) -> int:
    """Writes the record, prints the counts; the exit status."""
    failing = {one.module for one in results if one.fails_without_fault}
    kept = [one for one in results if one.operator and one.module not in failing]
    if record:
        write(record, kept)
    print(table(kept))
    print(f"{untried} were not tried; tests fail without a fault: {', '.join(sorted(failing)) or 'none'}")
    return 1 if failing or untried or any(one.kind == "left" for one in kept) else 0


if __name__ == "__main__":
    sys.exit(main())
