"""What became of each planted fault: a file of records, and the counts that are made of it."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.planted.operators import Site

KINDS = ("caught", "not planted", "equivalent", "left")
_HEAD = """# Planted faults

Written by `python tests/planted_faults.py --report FILE` from the record of `python tests/planted_faults.py --all`,
which puts each operator's fault at every site of every generated elementwise module, one at a time, and runs the
module's own generated tests in Triton's interpreter. *Caught*: an assertion on values, strides or sentinels failed.
*Not applicable*: the fault made an exception, a compile error or a timeout. *Equivalent*: it changes no value, for a
reason that is stated below. *Left*: the tests did not see it.
"""
_TITLES = "sites | caught | not applicable | equivalent | left |"

Key = tuple[str, str, str, int, int, str, str]


@dataclass(frozen=True)
class Result:
    """A fault and what became of it; `reason` says why an equivalent one is, and how another was seen or not.

    `digest` is the module's; `harness` that of the tests and of what else decides. No operator: the module without a
    fault.
    """

    module: str
    digest: str
    harness: str
    operator: str
    function: str
    line: int
    column: int
    before: str
    after: str
    kind: str
    reason: str
    seconds: float

    @classmethod
    def of(
        cls, module: str, digest: str, harness: str, site: Site | None, kind: str, reason: str, seconds: float
    ) -> Result:
        place = ("", "", 0, 0, "", "") if site is None else _place(site)
        return cls(module, digest, harness, *place, kind, reason, round(seconds, 2))

    @property
    def fails_without_fault(self) -> bool:
        """Whether the tests of a module find fault with the module as it is."""
        return not self.operator and (self.kind != "left" or bool(self.reason))

    @property
    def key(self) -> Key:
        return (
            self.digest,
            self.operator,
            self.function,
            self.line,
            self.column,
            self.before,
            self.after,
        )

    @staticmethod
    def key_of(digest: str, site: Site | None) -> Key:
        """The key of the result that a fault in a module of this digest will have."""
        return (digest, *(("", "", 0, 0, "", "") if site is None else _place(site)))

    def __str__(self) -> str:
        where = f"{self.module}:{self.line} {self.function}: {self.operator or 'without a fault'}"
        return f"{where}: {self.before} -> {self.after} {self.reason}"


def _place(site: Site) -> tuple[str, str, int, int, str, str]:
    return site.operator, site.function, site.line, site.column, site.before, site.after


_written = [0.0]


def write(file: Path, results: list[Result], every: float = 0.0) -> None:
    """Writes a record, unless one was written less than so many seconds ago."""
    if time.monotonic() - _written[0] < every:
        return
    _written[0] = time.monotonic()
    lines = ",\n".join(json.dumps(asdict(one)) for one in results if one.operator)
    part = file.with_name(file.name + ".part")
    part.write_text(f"[\n{lines}\n]\n", encoding="utf-8")
    part.replace(file)


def read(file: Path) -> list[Result]:
    """The results of a record."""
    return [Result(**one) for one in json.loads(file.read_text(encoding="utf-8"))]


def table(results: list[Result]) -> str:
    """The counts by module and operator, as lines of a Markdown table."""
    lines = [f"| module | operator | {_TITLES}", "|---|---|" + "---:|" * 5]
    counts = Counter((one.module, one.operator, one.kind) for one in results)
    for module, operator in sorted({(one.module, one.operator) for one in results}):
        lines.append(_row(f"{module} | {operator}", [counts[module, operator, kind] for kind in KINDS]))
    lines.append(_row("all | ", [sum(one.kind == kind for one in results) for kind in KINDS]))
    return "\n".join(lines)


def _row(title: str, counts: list[int]) -> str:
    return f"| {title} | {sum(counts)} | " + " | ".join(map(str, counts)) + " |"


def report(results: list[Result]) -> str:
    """A page: the counts by module, by operator and by both, and why faults are equivalent."""
    modules = sorted({one.module for one in results})
    operators = sorted({one.operator for one in results})
    sections = [
        _HEAD,
        _counts("module", {name: [one for one in results if one.module == name] for name in modules}),
        "## By operator\n",
        _counts("operator", {name: [one for one in results if one.operator == name] for name in operators}),
        "## Why faults are equivalent\n",
        _reasons([one for one in results if one.kind == "equivalent"]),
        "## What is left\n",
        "".join(f"- `{one}`\n" for one in results if one.kind == "left") or "Nothing.\n",
        "## By module and operator\n",
        table(results) + "\n",
    ]
    return "\n".join(sections)


def _counts(title: str, groups: Mapping[str, list[Result]]) -> str:
    lines = [f"| {title} | {_TITLES}", "|---|" + "---:|" * 5]
    for name, members in groups.items():
        lines.append(_row(name, [sum(one.kind == kind for one in members) for kind in KINDS]))
    every = [one for members in groups.values() for one in members]
    lines.append(_row("all", [sum(one.kind == kind for one in every) for kind in KINDS]))
    return "\n".join(lines) + "\n"


def _reasons(results: list[Result]) -> str:
    counts = Counter((one.reason, one.operator) for one in results)
    lines = ["| faults | operator | why they change no value |", "|---:|---|---|"]
    for (reason, operator), count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        lines.append(f"| {count} | {operator} | {reason} |")
    return "\n".join(lines) + "\n"
