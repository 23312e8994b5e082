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

`python tests/planted_faults.py --all` puts each operator's fault at every site of every generated elementwise module,
and of the device functions of addressing, one at a time, and runs the module's own generated tests in Triton's
interpreter. *Caught*: an assertion on values, strides or sentinels failed. *Not applicable*: the fault made an
exception, a compile error or a timeout. *Equivalent*: it changes no value, for a reason that is stated below. *Left*:
the tests did not see it. The page is printed with `--resume RECORD… --report SENTENCE`; it counts what the records hold
of the modules as they are now.

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
    lines.append(_row("all | ", _by_kind(results)))
    return "\n".join(lines)


def report(results: list[Result], untried: Mapping[str, int], about: str) -> str:
    """A page: the counts by module, by operator and by both, what is left, and why faults are equivalent.

    `untried` counts the faults of each module that no result is there for; `about` says where the results were made.
    """
    modules = sorted({*(one.module for one in results), *untried})
    operators = sorted({one.operator for one in results})
    left = "".join(f"- `{one}`\n" for one in results if one.kind == "left")
    sections = [
        _HEAD + about + "\n",
        _modules(modules, results, untried),
        "## Left\n",
        left or "Nothing.\n",
        "## By operator\n",
        _operators({name: [one for one in results if one.operator == name] for name in operators}),
        "## Why faults are equivalent\n",
        _reasons([one for one in results if one.kind == "equivalent"]),
        "## By module and operator\n",
        table(results) + "\n",
    ]
    return "\n".join(sections)


def _row(title: str, counts: list[int]) -> str:
    return f"| {title} | {sum(counts)} | " + " | ".join(map(str, counts)) + " |"


def _by_kind(results: list[Result]) -> list[int]:
    return [sum(one.kind == kind for one in results) for kind in KINDS]


def _modules(modules: list[str], results: list[Result], untried: Mapping[str, int]) -> str:
    lines = [f"| module | {_TITLES} not tried |", "|---|" + "---:|" * 6]
    by_module = {name: [one for one in results if one.module == name] for name in modules}
    lines += [_row(name, [*_by_kind(own), untried.get(name, 0)]) for name, own in by_module.items()]
    lines.append(_row("all", [*_by_kind(results), sum(untried.values())]))
    return "\n".join(lines) + "\n"


def _operators(groups: Mapping[str, list[Result]]) -> str:
    lines = [f"| operator | {_TITLES}", "|---|" + "---:|" * 5]
    lines += [_row(name, _by_kind(members)) for name, members in groups.items()]
    return "\n".join(lines) + "\n"


def _reasons(results: list[Result]) -> str:
    counts = Counter((one.reason, one.operator) for one in results)
    lines = ["| faults | operator | why they change no value |", "|---:|---|---|"]
    for (reason, operator), count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        lines.append(f"| {count} | {operator} | {reason} |")
    return "\n".join(lines) + "\n"
