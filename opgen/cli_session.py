"""One run of the command line: what it holds on to, and how each way to end becomes an exit code."""

from __future__ import annotations

import os
import re
import shlex
import signal
import sys
import threading
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import click

from opgen.cli_report import Progress, Report, file_diagnostic
from opgen.config import Project, find_project, load_specs
from opgen.diagnostics import SpecError, did_you_mean
from opgen.output import OutputError

if TYPE_CHECKING:
    from opgen.pipeline import Build

FINE, USER_ERROR, INTERNAL_ERROR = 0, 1, 2
INTERRUPTED, BROKEN_PIPE = 130, 141  # as a shell reports the signals SIGINT and SIGPIPE

SPECS_A_PROCESS = 4  # fewer take less time than the process

BAD_USAGE = "OPG900"
CANNOT_WRITE = "OPG905"
MISSING_PACKAGE = "OPG998"
INTERNAL = "OPG999"


@dataclass
class Session:
    """What one run of the command line holds on to."""

    report: Report
    progress: Progress = field(default_factory=Progress)
    interrupted: bool = False

    def interrupt(self, *_: object) -> None:
        """The handler of SIGINT."""
        self.interrupted = True
        raise KeyboardInterrupt

    @cached_property
    def project(self) -> Project:
        return find_project(Path.cwd())

    def compile(self, arguments: Sequence[str], targets: tuple[str, ...] | None, jobs: int = 1) -> Build:
        """Builds the specs that `arguments` name, by up to `jobs` processes, and reports the warnings."""
        from opgen.pipeline import compile_specs

        sources = load_specs(self.project, Path.cwd(), arguments)
        names = self.targets(targets)
        self.progress.total = len(sources)
        try:
            build = compile_specs(
                sources,
                targets=names,
                read=self.project.read,
                progress=self.progress.start,
                jobs=max(min(jobs, len(sources) // SPECS_A_PROCESS), 1),
            )
        finally:
            self.progress.clear()
        self.progress.current = None
        if self.interrupted:  # where Python drops exceptions: in a callback, or as a process forks
            raise KeyboardInterrupt
        self.report.add(build.warnings)
        return build

    def targets(self, chosen: tuple[str, ...] | None) -> tuple[str, ...]:
        """The targets given on the command line, else those of the settings, else all."""
        from opgen.targets import TARGETS

        names = chosen or self.project.targets or tuple(TARGETS)
        for name in names:
            if name not in TARGETS:
                help_text = did_you_mean(name, TARGETS) or "`opgen targets` lists them"
                raise click.UsageError(f"there is no target `{name}`; {help_text}")
        return tuple(dict.fromkeys(names))

    def output_folder(self, out: str | None) -> Path:
        return Path.cwd() / out if out else self.project.root / self.project.out


def cores() -> int:
    """How many processor cores this process may use."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


def run(commands: click.Group, arguments: Sequence[str]) -> int:
    """Runs the command line and returns its exit code."""
    session = Session(Report(json=_asks_for_json(arguments)))
    try:
        with _interrupts_go_to(session):
            code = _run(commands, session, arguments)
        session.report.finish()
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read our output has had enough; the interpreter must not try to flush the rest at its exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    return code


@contextmanager
def _interrupts_go_to(session: Session) -> Iterator[None]:
    """Has the session know of interrupts, where they would raise `KeyboardInterrupt` and nothing else."""
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, session.interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _asks_for_json(arguments: Sequence[str]) -> bool:
    following = zip(arguments, [*arguments[1:], ""], strict=True)
    return any(word == "--format=json" or (word, after) == ("--format", "json") for word, after in following)


def _run(commands: click.Group, session: Session, arguments: Sequence[str]) -> int:
    try:
        with commands.make_context("opgen", list(arguments), obj=session) as context:
            return int(commands.invoke(context) or FINE)
    except click.exceptions.Exit as finished:
        return finished.exit_code
    except click.ClickException as error:
        return _fail_usage(session, error)
    except SpecError as error:
        session.report.add(error.diagnostics)
        return USER_ERROR
    except OutputError as error:
        session.report.add([file_diagnostic(CANNOT_WRITE, "opgen", str(error))])
        return USER_ERROR
    except (click.Abort, KeyboardInterrupt):
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        raise
    except Exception as error:  # noqa: BLE001 - whatever else happens is a mistake of ours, or of the installation
        if os.environ.get("OPGEN_DEBUG") == "1":
            traceback.print_exception(error)
        package = _missing_package(error)
        return _fail_internal(session, error) if package is None else _fail_install(session, package)


def _fail_usage(session: Session, error: click.ClickException) -> int:
    if session.report.json:
        session.report.add([file_diagnostic(BAD_USAGE, "opgen", error.format_message())])
    else:
        error.show()
    return USER_ERROR


def _fail_internal(session: Session, error: Exception) -> int:
    """One line that names the spec and says what to do; the traceback only for who asks for it."""
    name = session.progress.current or "opgen"
    fault = " ".join(f"{type(error).__name__}: {error}".split())
    message = f"{fault}; please report it, with the spec and what OPGEN_DEBUG=1 prints"
    if session.report.json:
        session.report.add([file_diagnostic(INTERNAL, name, f"internal error: {message}")])
    else:
        print(f"internal error: {name}: {message}", file=sys.stderr)
    return INTERNAL_ERROR


def _fail_install(session: Session, package: str) -> int:
    message = f"opgen needs {package}, which is not installed: pip install {_requirement(package)}"
    if session.report.json:
        session.report.add([file_diagnostic(MISSING_PACKAGE, "opgen", message)])
    else:
        print(f"error: {message}", file=sys.stderr)
    return INTERNAL_ERROR


def _missing_package(error: Exception) -> str | None:
    """The package, neither Python's nor ours, that an error tells is missing."""
    name = (error.name or "").partition(".")[0] if isinstance(error, ModuleNotFoundError) else ""
    return None if name in ("", "opgen") or name in sys.stdlib_module_names else name


def _requirement(package: str) -> str:
    """A package as `pip install` takes it, with the version that opgen's own installation asks for."""
    from importlib import metadata

    try:
        wanted = metadata.requires("opgen") or []
    except metadata.PackageNotFoundError:
        wanted = []
    found = (one.partition(";")[0].strip() for one in wanted)
    return next((shlex.quote(one) for one in found if re.match(rf"{re.escape(package)}\b", one)), package)
