"""What became of each planted fault: a file of records, and the counts that are made of it."""

from __future__ import annotations

import functools
import hashlib
import json
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import astuple, dataclass
from pathlib import Path

from tests.planted.operators import Site

KINDS = ("caught", "not planted", "equivalent", "left")
_HEAD = """# Planted faults

`python tests/planted_faults.py --all` puts each operator's fault at every site of every generated module, and of the
device functions that address and reduce, one at a time, and runs the module's own generated tests in Triton's
interpreter. *Caught*: an assertion on values, strides or sentinels failed. *Not applicable*: the fault made an
exception, a compile error or a timeout. *Equivalent*: it changes no value, for a reason that is stated below. *Left*:
the tests did not see it. The page is printed with `--resume RECORD… --report SENTENCE`; it counts what the records hold
of the modules as they are now.

"""
_TITLES = "sites | caught | not applicable | equivalent | left |"

Key = tuple[str, str, str, str, int, int, str]


@dataclass(frozen=True)
class Result:
    """A fault and what became of it; `reason` says why an equivalent one is, and how another was seen or not.

    `digest` is that of the function; `harness` that of the tests and of what else decides. No operator: the module
    without a fault. `line` counts from the function's first, `texts` is a digest of both texts, and `shown` has them
    where the fault was left.
    """

    module: str
    digest: str
    harness: str
    operator: str
    function: str
    line: int
    column: int
    texts: str
    kind: str
    reason: str
    seconds: float
    shown: str = ""

    @classmethod
    def of(
        cls, module: str, harness: str, site: Site | None, kind: str, reason: str, seconds: float
    ) -> Result:
        digest, place = ("", ("", "", 0, 0, "")) if site is None else (_digest(site.owner), _place(site))
        shown = f"{site.before} -> {site.after}" if site is not None and kind == "left" else ""
        return cls(module, digest, harness, *place, kind, reason, round(seconds, 2), shown)

    @property
    def fails_without_fault(self) -> bool:
        """Whether the tests of a module find fault with the module as it is."""
        return not self.operator and (self.kind != "left" or bool(self.reason))

    @property
    def key(self) -> Key:
        return self.module, self.digest, self.operator, self.function, self.line, self.column, self.texts

    @staticmethod
    def key_of(module: str, site: Site) -> Key:
        """The key of the result that a fault will have: it holds while the function stays as it is."""
        return module, _digest(site.owner), *_place(site)

    def __str__(self) -> str:
        where = f"{self.module}.{self.function}:{self.line}: {self.operator or 'without a fault'}"
        return f"{where}: {self.shown} {self.reason}".rstrip()


@functools.lru_cache(64)
def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:10]


def _place(site: Site) -> tuple[str, str, int, int, str]:
    texts = _digest(f"{site.before} -> {site.after}")
    return site.operator, site.function, site.line, site.column, texts


_written = [0.0]


def write(file: Path, results: list[Result], every: float = 0.0) -> None:
    """Writes a record, unless one was written less than so many seconds ago."""
    if time.monotonic() - _written[0] < every:
        return
    _written[0] = time.monotonic()
    lines = ",\n".join(json.dumps(astuple(one)) for one in results if one.operator)
    part = file.with_name(file.name + ".part")
    part.write_text(f"[\n{lines}\n]\n", encoding="utf-8")
    part.replace(file)


def read(file: Path) -> list[Result]:
    """The results of a record."""
    return [Result(*one) for one in json.loads(file.read_text(encoding="utf-8"))]


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
