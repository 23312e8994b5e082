"""Runs the tests that need no GPU: `python -m tests [--all] [--jobs N] [STAGE]...`.

Of the calls that each generated test makes, one in `ONE_CALL_IN` is made, and hypothesis draws `EXAMPLES`; of the cases
of `tests/behaviour/conftest.py`, too, one in so many is run. So it takes minutes; `--all` runs everything.

Triton decides when a kernel is defined whether the interpreter or the compiler gets it, so each needs a
process of its own. The last line counts the tests of all stages; the exit code is 1 unless each stage ran
tests and all passed.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree as ET

ROOT = Path(__file__).resolve().parents[1]
ONE_CALL_IN, EXAMPLES = 4, 8
OWN_PROCESS = ("tests/behaviour", "tests/compile", "tests/gpu")  # not of the host stage


@dataclass(frozen=True)
class Stage:
    """Arguments of pytest, and whether Triton's interpreter runs the kernels."""

    arguments: tuple[str, ...]
    interpreted: bool = False


STAGES = {
    "host": Stage(("tests", *(f"--ignore={folder}" for folder in OWN_PROCESS))),
    "interpreter": Stage(("tests/behaviour", "generated/tests"), interpreted=True),
    "compile": Stage(("tests/compile",)),
}


@dataclass(frozen=True)
class Counts:
    passed: int
    failed: int
    skipped: int

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(self.passed + other.passed, self.failed + other.failed, self.skipped + other.skipped)

    def __str__(self) -> str:
        return f"{self.passed} passed, {self.failed} failed" + (
            f", {self.skipped} skipped" if self.skipped else ""
        )


def run(name: str, jobs: int, every_call: bool) -> Counts:
    """Runs a stage; one that ends without having run a test has failed."""
    stage = STAGES[name]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"} if jobs > 1 else dict(os.environ)
    environment.pop("TRITON_INTERPRET", None)
    if stage.interpreted:
        environment["TRITON_INTERPRET"] = "1"
        if not every_call:
            environment |= {"OPGEN_ONE_CALL_IN": str(ONE_CALL_IN), "OPGEN_EXAMPLES": str(EXAMPLES)}
            print(
                f"generated tests: one call in {ONE_CALL_IN}, {EXAMPLES} drawn ones; all of them with --all"
            )
    with tempfile.TemporaryDirectory() as folder:
        record = Path(folder) / "record.xml"
        command = [sys.executable, "-m", "pytest", "-q", "-m", "not gpu", f"--junitxml={record}"]
        command += ["-n", str(jobs)] if jobs > 1 else []
        start = time.monotonic()
        code = subprocess.run([*command, *stage.arguments], cwd=ROOT, env=environment, check=False).returncode
        counts = read_counts(record) if record.exists() else Counts(0, 0, 0)
    if code != 0 and counts.failed == 0:
        counts += Counts(0, 1, 0)
    print(f"{name}: {counts} in {time.monotonic() - start:.0f} s", flush=True)
    return counts


def read_counts(record: Path) -> Counts:
    """The counts of a JUnit file; a test that could not start or be collected counts as failed."""
    suites = list(ET.parse(record).getroot().iter("testsuite"))
    names = ("tests", "failures", "errors", "skipped")
    total, failures, errors, skipped = (sum(int(suite.get(name, "0")) for suite in suites) for name in names)
    return Counts(total - failures - errors - skipped, failures + errors, skipped)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests", description="Runs all tests that need no GPU.")
    parser.add_argument("stages", nargs="*", metavar="STAGE", help=f"of {', '.join(STAGES)}; default: all")
    parser.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1), help="processes for a stage")
    parser.add_argument("--all", action="store_true", help="every call of the generated tests")
    arguments = parser.parse_args()
    unknown = set(arguments.stages) - set(STAGES)
    if unknown:
        parser.error(f"no stage is called {', '.join(sorted(unknown))}")
    counts = Counts(0, 0, 0)
    for name in arguments.stages or STAGES:
        counts += run(name, arguments.jobs, arguments.all)
    print(counts)
    return 1 if counts.failed else 0


if __name__ == "__main__":
    sys.exit(main())
