"""What is said to the user about a spec: `Diagnostic`, the collector, and the two kinds of failure."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum

from opgen.source import Span


class Severity(Enum):
    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True)
class Note:
    """A second place that explains a diagnostic, such as "first defined here"."""

    message: str
    span: Span


@dataclass(frozen=True)
class Diagnostic:
    """One message: a stable code (`OPG102`), one sentence, where, and what might help."""

    code: str
    message: str
    span: Span
    severity: Severity = Severity.ERROR
    notes: tuple[Note, ...] = ()
    help: str | None = None

    def render(self) -> str:
        """The message as text: place, code, sentence, caret lines, notes and help."""
        lines = [
            f"{self.span.where}: {self.severity.value}[{self.code}]: {self.message}",
            self.span.carets(),
        ]
        for note in self.notes:
            lines += [f"{note.span.where}: note: {note.message}", note.span.carets()]
        if self.help is not None:
            lines.append(f"help: {self.help}")
        return "\n".join(lines)


class SpecError(Exception):
    """The user's mistakes: at least one error among `diagnostics`."""

    def __init__(self, diagnostics: Iterable[Diagnostic]) -> None:
        self.diagnostics = tuple(diagnostics)
        super().__init__("\n\n".join(diagnostic.render() for diagnostic in self.diagnostics))


class InternalError(Exception):
    """Our mistake: a broken invariant, never caused by what a spec says."""


@dataclass
class Diagnostics:
    """Collects the diagnostics of a stage; the stage raises once, at its end."""

    found: list[Diagnostic] = field(default_factory=list)

    def error(
        self, code: str, message: str, span: Span, *, help: str | None = None, notes: tuple[Note, ...] = ()
    ) -> None:
        self.add(Diagnostic(code, message, span, Severity.ERROR, notes, help))

    def warning(
        self, code: str, message: str, span: Span, *, help: str | None = None, notes: tuple[Note, ...] = ()
    ) -> None:
        self.add(Diagnostic(code, message, span, Severity.WARNING, notes, help))

    def add(self, diagnostic: Diagnostic) -> None:
        """Keeps a diagnostic; the same one (a body lowered once per type) is kept once."""
        if diagnostic not in self.found:
            self.found.append(diagnostic)

    @property
    def has_errors(self) -> bool:
        return any(diagnostic.severity is Severity.ERROR for diagnostic in self.found)

    def sorted(self) -> tuple[Diagnostic, ...]:
        return tuple(sorted(self.found, key=lambda d: (d.span.source.name, d.span.start, d.code)))

    def raise_if_errors(self) -> None:
        """Raises `SpecError` with everything found, warnings included, when there is an error."""
        if self.has_errors:
            raise SpecError(self.sorted())


def did_you_mean(name: str, known: Iterable[str]) -> str | None:
    """A help sentence that proposes the nearest known name, or None; a wrong letter is likelier than a missing one."""
    close = difflib.get_close_matches(name, sorted(set(known)), n=3, cutoff=0.6)
    nearest = next((one for one in close if len(one) == len(name)), close[0] if close else None)
    return f"did you mean `{nearest}`?" if nearest else None
