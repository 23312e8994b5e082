"""Compiles the shipped specs' kernels under several releases of Triton, each in a folder of its own, one at a time.

    python benchmarks/triton_versions.py --sample 400 --out benchmarks     # writes triton_versions.md

A release is installed with pip into a temporary folder that stands in front of this Python's own packages; torch stays
the one that is there. Needs no GPU. `opgen vet` does the work; see `docs/commands.md`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

# ruff: noqa: E402
from opgen.device.table import markdown_table
from opgen.targets import TARGETS

VERSIONS = ("3.6.0", "3.7.1", "3.8.0", "3.9.0")
COLUMNS = ("Triton", "jobs compiled", "with errors", "seconds", *TARGETS)


@dataclass(frozen=True)
class Result:
    """What a release made of the kernels; `fault` where nothing could be compiled at all."""

    version: str
    rows: tuple[Mapping[str, Any], ...] = ()
    seconds: float = 0.0
    fault: str | None = None


def try_version(version: str, specs: Sequence[str], sample: int, jobs: int) -> Result:
    """Installs a release of Triton, and vets the specs with it."""
    with tempfile.TemporaryDirectory(prefix=f"triton-{version}-") as folder:
        install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", folder]
        done = run([*install, f"triton=={version}"])
        if done.returncode != 0:
            return Result(version, fault=last_line(done.stderr))
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([folder, str(ROOT)])}
        environment.pop("TRITON_INTERPRET", None)
        found = run([sys.executable, "-c", "import triton; print(triton.__version__)"], environment)
        if found.stdout.strip() != version:
            return Result(
                version, fault=f"it is {found.stdout.strip() or last_line(found.stderr)} that is imported"
            )
        told = Path(folder, "vet.json")
        command = [sys.executable, "-m", "opgen", "vet", *specs, "--sample", str(sample), "--jobs", str(jobs)]
        begun = time.monotonic()
        done = run([*command, "--json", str(told)], environment)
        seconds = time.monotonic() - begun
        if not told.exists():
            return Result(
                version, fault=f"`opgen vet` ended with {done.returncode}: {last_line(done.stdout)}"
            )
        return Result(version, tuple(json.loads(told.read_text())["rows"]), seconds)


def run(
    command: Sequence[str], environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """A command's end, with what it printed."""
    return subprocess.run(  # noqa: S603 - pip and our own programs
        command, capture_output=True, text=True, cwd=ROOT, env=environment, check=False
    )


def last_line(text: str) -> str:
    return (text.strip().splitlines() or ["it said nothing"])[-1]


def page(results: Sequence[Result], command: str) -> str:
    """The results as Markdown."""
    about = (
        f"Made by `{command}`, on a machine without a GPU: the same sample of the shipped specs' kernels, over all "
        "ops, kernels and targets, compiled by each release. A column of a target counts its compiled jobs, and those "
        "with errors after a slash."
    )
    table = markdown_table(COLUMNS, [row(result) for result in results])
    parts = ["# Releases of Triton", about, table]
    for result in results:
        lines = [result.fault] if result.fault else list(told_errors(result.rows))
        if lines:
            parts.append(f"## {result.version}\n\n" + "\n".join(f"- {line}" for line in lines))
    return "\n\n".join(parts) + "\n"


def row(result: Result) -> tuple[str, ...]:
    if result.fault is not None:
        return (result.version, "none", *["-"] * (len(COLUMNS) - 2))
    jobs = Counter(one["target"] for one in result.rows)
    wrong = Counter(one["target"] for one in result.rows if one["errors"])
    cells = [f"{jobs[name]} / {wrong[name]}" if wrong[name] else str(jobs[name]) for name in TARGETS]
    return result.version, str(len(result.rows)), str(sum(wrong.values())), f"{result.seconds:.0f}", *cells


def told_errors(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Each kind of error once, with how often it came and where first."""
    kinds: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for one in rows:
        for error in one["errors"]:
            kinds.setdefault((one["op"], error[:160]), []).append(one)
    for (op, error), where in kinds.items():
        first = where[0]
        yield f"{op}, {len(where)} jobs, first {first['kernel']} for {first['target']} ({first['types']}): {error}"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("specs", nargs="*", metavar="SPEC", help="default: all of the project's")
    parser.add_argument("--versions", default=",".join(VERSIONS), help=f"default: {','.join(VERSIONS)}")
    parser.add_argument("--sample", type=int, default=400)
    parser.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1))
    parser.add_argument("--out", type=Path, help="the folder that triton_versions.md is written to")
    arguments = parser.parse_args()
    results = []
    for version in arguments.versions.split(","):
        results.append(try_version(version, arguments.specs, arguments.sample, arguments.jobs))
        result = results[-1]
        wrong = sum(bool(one["errors"]) for one in result.rows)
        print(f"{version}: {result.fault or f'{len(result.rows)} jobs, {wrong} with errors'}", flush=True)
    words = " ".join(["python benchmarks/triton_versions.py", *sys.argv[1:]])
    text = page(results, words)
    if arguments.out is not None:
        (arguments.out / "triton_versions.md").write_text(text, encoding="utf-8")
    print(text)
    return 1 if any(result.fault for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
