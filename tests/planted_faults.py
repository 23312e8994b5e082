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
import dataclasses
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
from tests.planted import equivalence, looping, trial  # noqa: E402
from tests.planted.operators import Site, sites  # noqa: E402
from tests.planted.planting import PACKAGE  # noqa: E402
from tests.planted.record import Result, read, report, table, write  # noqa: E402

EXTRA_SPECS = tuple(
    ROOT / "tests" / "planted" / f"{name}.op" for name in ("addressing", "reducing", "multiplying")
)

_DECIDING = ("trial", "probes", "planting", "copying")
"""The modules here that decide whether a fault is seen."""

_SAVED_EVERY = 20.0
"""Seconds between two records of a run that is under way."""


@dataclass(frozen=True)
class Task:
    """A fault to try, or none: the module as it is must pass its tests; `left` is how an earlier trial ended."""

    module: str
    harness: str
    site: Site | None
    left: Result | None = None


def build(folder: Path) -> list[str]:
    """Lays out a package of the generated modules, with those of further specs; the names of the shipped ops."""
    package = folder / PACKAGE
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


def _is_elementwise(text: str) -> bool:
    """Whether all kernels of a module are elementwise."""
    return "rt.Kernel(" in text and "rt.RowKernel(" not in text and "rt.ProductKernel(" not in text


def attempt(task: Task) -> Result:
    """Tries one fault, in a worker."""
    name, site = task.module, task.site
    result = functools.partial(Result.of, name, task.harness, site)
    if site is None:
        return result("left", trial.sound(name).detail, 0.0)
    same = equivalence.by_results(site)
    if same is not None and not site.is_of_width and trial.same_results(name, site):
        return result("equivalent", same, 0.0)
    earlier = task.left
    outcome = trial.Outcome("left", earlier.reason, earlier.seconds) if earlier else trial.attempt(name, site)
    if outcome.kind != "left":
        return result(outcome.kind, outcome.detail, outcome.seconds)
    unseen = equivalence.unseen(site)
    if unseen is not None:
        return result("not planted", unseen, outcome.seconds)
    if same is not None and site.is_of_width and trial.same_results(name, site):
        return result("equivalent", same, outcome.seconds)
    everywhere = equivalence.by_exhaustion(site)
    if everywhere is not None and trial.same_everywhere(name, site):
        return result("equivalent", everywhere, outcome.seconds)
    return result("left", outcome.detail, outcome.seconds)


def main() -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # and ends the workers on the way out
    arguments = _arguments()
    deadline = time.monotonic() + arguments.time_limit if arguments.time_limit else None
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        modules = _chosen(folder, arguments)
        known = [one for file in arguments.resume if file.exists() for one in read(file)]
        tasks, results, ruled = _planned(folder, modules, arguments.sample, known)
        if arguments.report is not None:
            untried_by_module = Counter(task.module for task in tasks if task.site is not None)
            print(report([*results, *ruled], untried_by_module, arguments.report), end="")
            return 0
        untried = len(tasks)
        for result in run(folder, arguments, tasks, deadline):
            untried -= 1
            results.append(result)
            if arguments.json:
                write(arguments.json, results, every=_SAVED_EVERY)
    return _settle(results, ruled, untried, arguments.json)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Plants faults in the generated modules.")
    parser.add_argument(
        "ops", nargs="*", metavar="OP", help="or a module of device functions; default: as --all"
    )
    parser.add_argument("--all", action="store_true", help="all shipped ops, and the device functions")
    parser.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1))
    parser.add_argument("--sample", type=int, help="so many faults of each module, drawn with a fixed seed")
    parser.add_argument(
        "--json", type=Path, help="where every fault is recorded, now and then also on the way"
    )
    parser.add_argument(
        "--resume", type=Path, nargs="*", default=[], help="earlier records, also the same file"
    )
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="where it is kept what the tests reach")
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
        unknown = set(arguments.ops) - {*shipped, *trial.DEVICE_FUNCTIONS}
        if unknown:
            raise SystemExit(f"no module is called {', '.join(sorted(unknown))}")
        return list(arguments.ops)
    return [*shipped, *trial.DEVICE_FUNCTIONS]


def _text(folder: Path, module: str) -> str:
    return (folder / PACKAGE / f"{module}.py").read_text(encoding="utf-8")


def _planned(
    folder: Path, modules: Iterable[str], sample: int | None, known: list[Result]
) -> tuple[list[Task], list[Result], list[Result]]:
    """What is to be tried; what an earlier record holds of it; and what rules decide.

    A fault that was left is tried again where the tests have changed, and put to the rules again where one may hold
    now; an equivalent one is tried again where its rule has changed.
    """
    harness = _harness_digest(folder)
    earlier = {one.key: one for one in known}
    tasks: list[Task] = []
    taken: list[Result] = []
    ruled: list[Result] = []
    for name in modules:
        text = _text(folder, name)
        reasons = [(site, equivalence.by_rule(site)) for site in sites(text)]
        ruled += [
            Result.of(name, harness, site, "equivalent", why, 0.0) for site, why in reasons if why is not None
        ]
        found = [site for site, why in reasons if why is None]
        if sample is not None and sample < len(found):
            found = random.Random(name).sample(found, sample)
        for site in found:
            one = earlier.get(Result.key_of(name, site))
            if one is not None and _holds(one, site, harness):
                taken.append(one)
            else:
                left = one if one is not None and one.kind == "left" and one.harness == harness else None
                tasks.append(Task(name, harness, site, left))
    return _in_order(folder, tasks), taken, ruled


def _in_order(folder: Path, tasks: list[Task]) -> list[Task]:
    """Kernels that loop before elementwise ones, and among those the operators for loops first; few sites first.

    Before the first task of a module is the one without a fault.
    """
    count = Counter(task.module for task in tasks)
    elementwise = {name for name in count if name == "_tiles" or _is_elementwise(_text(folder, name))}

    def order(task: Task) -> tuple[int, int, str]:
        own = (
            2
            if task.module in elementwise
            else 0
            if task.site and task.site.operator in looping.OPERATORS
            else 1
        )
        return own, count[task.module], task.module

    ordered: list[Task] = []
    begun: set[str] = set()
    for task in sorted(tasks, key=order):
        if task.module not in begun:
            ordered.append(dataclasses.replace(task, site=None))
        begun.add(task.module)
        ordered.append(task)
    return ordered


def _holds(result: Result, site: Site, harness: str) -> bool:
    """Whether an earlier result of a fault is one of today."""
    match result.kind:
        case "left":
            return result.harness == harness and not equivalence.reasons(site)
        case "equivalent":
            return result.reason in equivalence.reasons(site)
        case _:
            return True


def _harness_digest(folder: Path) -> str:
    """Of all that decides whether a fault is seen, beside the module."""
    package = folder / PACKAGE
    shared = [*package.glob("_*.py"), *(package / "tests").glob("*.py")]
    return digest_of(*sorted(shared), *(ROOT / "tests" / "planted" / f"{name}.py" for name in _DECIDING))


def run(
    folder: Path, arguments: argparse.Namespace, tasks: list[Task], deadline: float | None
) -> Iterator[Result]:
    """What became of faults, as they are tried by worker processes; ends at the deadline, wherever they are."""
    context = multiprocessing.get_context("spawn")
    begin = (str(folder), arguments.keep, trial.UNMEASURED if arguments.sample else trial.MEASURED)
    with context.Pool(arguments.jobs, trial.start, begin) as pool:  # which ends the workers when it is left
        outcomes = pool.imap_unordered(attempt, tasks)
        for _ in tasks:
            try:
                result = outcomes.next(None if deadline is None else max(deadline - time.monotonic(), 0.0))
            except multiprocessing.TimeoutError:
                return
            if result.fails_without_fault or (result.kind == "left" and result.operator):
                print(f"{result.kind} {result}", flush=True)
            yield result


def _settle(results: list[Result], ruled: list[Result], untried: int, record: Path | None) -> int:
    """Writes the record, prints the counts; the exit status."""
    failing = {one.module for one in results if one.fails_without_fault}
    kept = [one for one in results if one.operator and one.module not in failing]
    if record:
        write(record, kept)
    print(table([*kept, *ruled]))
    print(f"{untried} were not tried; tests fail without a fault: {', '.join(sorted(failing)) or 'none'}")
    return 1 if failing or untried or any(one.kind == "left" for one in kept) else 0


if __name__ == "__main__":
    sys.exit(main())
