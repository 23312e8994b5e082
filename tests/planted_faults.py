"""Plants faults in the generated modules, and counts those that the generated tests see.

    python tests/planted_faults.py [OP...] [--jobs N] [--sample N] [--json FILE]

Each operator of `tests/planted/operators.py` is applied at every site that it finds in each module, one fault at a
time, and the op's generated tests run on the result in Triton's interpreter. A fault is caught where an assertion on
values or sentinels fails; an exception or a timeout counts as not planted; a fault that cannot change a value is
equivalent, each by a rule of `tests/planted/equivalence.py`. Exits with 1 if any other is left.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import json
import multiprocessing
import os
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
os.environ["TRITON_INTERPRET"] = "1"
os.environ.setdefault("OMP_NUM_THREADS", "1")
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from opgen.pipeline import compile_specs  # noqa: E402
from opgen.source import Source  # noqa: E402
from tests.planted import equivalence, trial  # noqa: E402
from tests.planted.operators import Site, sites  # noqa: E402

RUNTIME = "_tiles"
"""The runtime module whose device functions get faults, too."""

RUNTIME_OPS = ("swish", "embedding_add", "unpacked")
"""Ops that together reach every function of it; the last is not shipped, as no shipped op has packed tensors."""

EXTRA_SPECS = (ROOT / "tests" / "planted" / "unpacked.op",)


@dataclass(frozen=True)
class Result:
    """A fault and what became of it; `reason` says why an equivalent one is."""

    module: str
    operator: str
    function: str
    line: int
    before: str
    after: str
    kind: str
    reason: str
    seconds: float


def build(folder: Path) -> list[str]:
    """Writes the package of all specs; the names of the shipped ops."""
    paths = [*sorted((ROOT / "specs").glob("*.op")), *EXTRA_SPECS]
    build = compile_specs([_read(str(path.relative_to(ROOT))) for path in paths], read=_read)
    for path, text in build.files:
        file = folder / trial.PACKAGE / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return [op.ir.name for spec in build.specs[: -len(EXTRA_SPECS)] for op in spec.ops]


def _read(path: str) -> Source:
    return Source(path, (ROOT / path).read_text(encoding="utf-8"))


def attempt(name: str, site: Site) -> Result:
    """Tries one fault, in a worker."""
    reason = equivalence.by_rule(site)
    if reason is not None:
        return _result(name, site, "equivalent", reason, 0.0)
    if name == RUNTIME:
        outcome = trial.try_runtime(RUNTIME, RUNTIME_OPS, site)
        return _result(name, site, outcome.kind, outcome.detail, outcome.seconds)
    outcome = trial.try_op(name, site)
    reason = equivalence.by_results(site)
    if outcome.kind == "left" and reason is not None and trial.same_results(name, site):
        return _result(name, site, "equivalent", f"all results are the same: {reason}", outcome.seconds)
    return _result(name, site, outcome.kind, outcome.detail, outcome.seconds)


def _result(name: str, site: Site, kind: str, reason: str, seconds: float) -> Result:
    return Result(
        name, site.operator, site.function, site.line, site.before, site.after, kind, reason, seconds
    )


def main() -> int:
    parser = argparse.ArgumentParser(description="Plants faults in the generated modules.")
    parser.add_argument("ops", nargs="*", metavar="OP", help=f"default: all shipped ops, and {RUNTIME}")
    parser.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1))
    parser.add_argument("--sample", type=int, help="so many faults of each module, drawn with a fixed seed")
    parser.add_argument("--json", type=Path, help="where every fault is recorded")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shipped = build(folder)
        chosen = arguments.ops or [*shipped, RUNTIME]
        unknown = set(chosen) - {*shipped, RUNTIME}
        if unknown:
            parser.error(f"no module is called {', '.join(sorted(unknown))}")
        results = list(run(folder, chosen, arguments.jobs, arguments.sample))
    print(table(results))
    if arguments.json:
        arguments.json.write_text(json.dumps([asdict(one) for one in results], indent=1) + "\n")
    return 1 if any(one.kind == "left" for one in results) else 0


def run(folder: Path, chosen: list[str], jobs: int, sample: int | None) -> Iterable[Result]:
    """All faults of the chosen modules, over worker processes."""
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(jobs, context, trial.start, (str(folder),)) as pool:
        for name in chosen:
            start = time.monotonic()
            if name != RUNTIME:
                sound = pool.submit(trial.try_op, name, None).result()
                if sound.kind != "left" or sound.detail:
                    raise SystemExit(f"{name}: its tests fail without a fault: {sound.detail}")
            text = (folder / trial.PACKAGE / f"{name}.py").read_text(encoding="utf-8")
            found = list(sites(text))
            if sample is not None and sample < len(found):
                found = random.Random(name).sample(found, sample)
            results = list(pool.map(attempt, [name] * len(found), found))
            kinds = Counter(one.kind for one in results)
            print(f"{name}: {dict(kinds)} in {time.monotonic() - start:.0f} s", flush=True)
            for one in results:
                if one.kind == "left":
                    where = f"{one.module}:{one.line} {one.function}: {one.operator}"
                    print(f"LEFT {where}: {one.before} -> {one.after} {one.reason}", flush=True)
            yield from results


def table(results: list[Result]) -> str:
    """The counts by module and operator, as lines of a Markdown table."""
    kinds = ("caught", "not planted", "equivalent", "left")
    lines = [
        "| module | operator | sites | caught | not applicable | equivalent | left |",
        "|---|---|" + "---:|" * 5,
    ]
    counts = Counter((one.module, one.operator, one.kind) for one in results)
    for module, operator in sorted({(one.module, one.operator) for one in results}):
        row = [counts[module, operator, kind] for kind in kinds]
        lines.append(f"| {module} | {operator} | {sum(row)} | " + " | ".join(map(str, row)) + " |")
    total = [sum(one.kind == kind for one in results) for kind in kinds]
    lines.append(f"| all | | {sum(total)} | " + " | ".join(map(str, total)) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
