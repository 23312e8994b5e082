"""What the command line tells: diagnostics as text or JSON, colours, progress, and drift in words."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TextIO

from opgen.diagnostics import Diagnostic, Severity
from opgen.output import Drift, DriftKind
from opgen.source import Source, Span

MANY_SPECS = 10  # from here on, a build says where it is

_BAR_WIDTH = 30

_RESET = "\033[0m"
_COLORS = {"error": "\033[1;31m", "warning": "\033[1;33m", "note": "\033[1;36m"}  # bold red, yellow, cyan
_HEADING = re.compile(r"^(?P<place>\S.*?: )(?P<severity>error|warning|note)(?P<rest>\[|: )", re.MULTILINE)
_CARETS = re.compile(r"^(?P<margin> *\|[ \t]*)(?P<carets>\^+)$", re.MULTILINE)

#: What is said of a file that differs from its build: the code, the sentence, and what might help.
_DRIFT_WORDS = {
    DriftKind.STALE: ("OPG911", "is not what its spec makes now", "`opgen build` renews it"),
    DriftKind.EDITED: (
        "OPG912",
        "was changed by hand",
        "change its spec; `opgen build` overwrites it",
    ),
    DriftKind.ORPHAN: ("OPG913", "is generated, but no spec makes it any more", "`opgen build` removes it"),
    DriftKind.MISSING: ("OPG914", "is missing", "`opgen build` writes it"),
}


def counted(count: int, one: str, many: str) -> str:
    """A number with the word for one thing, or for several."""
    return f"{count} {one if count == 1 else many}"


def file_diagnostic(code: str, name: str, message: str, help_text: str | None = None) -> Diagnostic:
    """A diagnostic about a file as a whole."""
    return Diagnostic(code, message, Span(Source(name, ""), 0, 0), help=help_text)


def drift_diagnostic(drift: Drift, folder: str) -> Diagnostic:
    """A drift in words; `folder` is the name of the output folder."""
    code, message, help_text = _DRIFT_WORDS[drift.kind]
    return file_diagnostic(code, f"{folder}/{drift.path}", message, help_text)


def as_text(diagnostic: Diagnostic, *, color: bool) -> str:
    """A diagnostic for a terminal or a log; one about a file as a whole has no line to show."""
    span = diagnostic.span
    if not span.source.text:
        lines = [f"{span.source.name}: {diagnostic.severity.value}[{diagnostic.code}]: {diagnostic.message}"]
        text = "\n".join(lines + ([f"help: {diagnostic.help}"] if diagnostic.help else []))
    else:
        text = diagnostic.render()
    return _colored(text, _COLORS[diagnostic.severity.value]) if color else text


def _colored(text: str, caret_color: str) -> str:
    def paint_severity(match: re.Match[str]) -> str:
        severity = match["severity"]
        return f"{match['place']}{_COLORS[severity]}{severity}{_RESET}{match['rest']}"

    text = _HEADING.sub(paint_severity, text)
    return _CARETS.sub(rf"\g<margin>{caret_color}\g<carets>{_RESET}", text)


def as_record(diagnostic: Diagnostic) -> dict[str, object]:
    """A diagnostic as what JSON holds; lines and columns count from 1, the end is exclusive."""
    return {
        "code": diagnostic.code,
        "severity": diagnostic.severity.value,
        "message": diagnostic.message,
        **_place(diagnostic.span),
        "notes": [{"message": note.message, **_place(note.span)} for note in diagnostic.notes],
        "help": diagnostic.help,
    }


def _place(span: Span) -> dict[str, object]:
    line, column = span.source.line_column(span.start)
    end_line, end_column = span.source.line_column(span.end)
    return {
        "file": span.source.name,
        "line": line,
        "column": column,
        "end_line": end_line,
        "end_column": end_column,
    }


def wants_color(stream: TextIO, environment: Mapping[str, str]) -> bool:
    """Whether a stream gets colours: `NO_COLOR` and `FORCE_COLOR` decide, else whether it is a terminal.

    See https://no-color.org and https://force-color.org: a variable counts when it is not empty.
    """
    if environment.get("NO_COLOR"):
        return False
    if environment.get("FORCE_COLOR"):
        return True
    return stream.isatty() and environment.get("TERM") != "dumb"


@dataclass
class Report:
    """Collects what a command has to say about specs and files, as text at once or as JSON at the end."""

    json: bool = False
    color: bool = field(default_factory=lambda: wants_color(sys.stderr, os.environ))
    records: list[dict[str, object]] = field(default_factory=list)
    errors: int = 0

    def add(self, diagnostics: Iterable[Diagnostic], detail: str = "") -> None:
        """Tells about `diagnostics`; `detail` is text that belongs to the last (a diff)."""
        for diagnostic in diagnostics:
            self.errors += diagnostic.severity is Severity.ERROR
            if self.json:
                self.records.append(as_record(diagnostic))
            else:
                print(as_text(diagnostic, color=self.color), file=sys.stderr)
        if detail and not self.json:
            print(detail, file=sys.stderr)

    def say(self, text: str) -> None:
        """Tells what was done; not in JSON, which holds diagnostics alone."""
        if not self.json:
            print(text)

    def finish(self) -> None:
        if self.json:
            print(json.dumps(self.records, indent=2))


@dataclass
class Progress:
    """Which spec is being compiled: one line that is rewritten on a terminal, plain lines elsewhere.

    It is shown only where there are many specs; `current` is always right, for who has to name a culprit.
    """

    total: int = 0
    done: int = 0
    current: str | None = None

    def start(self, source: Source) -> None:
        """Call this before a spec is compiled."""
        self.current = source.name
        self.done += 1
        if self.total >= MANY_SPECS:
            start, end = ("\r\033[K", "") if sys.stderr.isatty() else ("", "\n")
            print(f"{start}[{self.done}/{self.total}] {source.name}", end=end, file=sys.stderr, flush=True)

    def clear(self) -> None:
        """Takes the line off the terminal."""
        if self.total >= MANY_SPECS and sys.stderr.isatty():
            print("\r\033[K", end="", file=sys.stderr, flush=True)


@dataclass
class Bar:
    """How much of a long piece of work is done: a bar on a terminal, elsewhere a line for each tenth."""

    what: str
    told: int = -1

    def show(self, done: int, total: int) -> None:
        """Call this whenever something is done."""
        share = done / total if total else 1.0
        if sys.stderr.isatty():
            filled = int(share * _BAR_WIDTH)
            bar = "#" * filled + "." * (_BAR_WIDTH - filled)
            print(f"\r\033[K{self.what} [{bar}] {done}/{total}", end="", file=sys.stderr, flush=True)
        elif int(share * 10) > self.told:
            self.told = int(share * 10)
            print(f"{self.what}: {done}/{total}", file=sys.stderr, flush=True)

    def clear(self) -> None:
        """Takes the bar off the terminal."""
        if sys.stderr.isatty():
            print("\r\033[K", end="", file=sys.stderr, flush=True)
