"""The command line: the only place that prints or exits.

Exit codes: 0 fine; 1 the user's to change, drift included; 2 a mistake of opgen itself; 130 interrupted.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from opgen import cli_device
from opgen.cli_options import (
    Names,
    color_option,
    format_option,
    jobs_option,
    not_a_spec,
    out_option,
    specs_argument,
    split_commas,
    target_option,
)
from opgen.cli_report import counted, drift_diagnostic, file_diagnostic
from opgen.cli_session import FINE, USER_ERROR, Session, run
from opgen.config import decode, load_specs
from opgen.diagnostics import SpecError, did_you_mean
from opgen.manifest import VERSION
from opgen.output import ChangeKind, Partly, compare, create_file, replace_file, write

if TYPE_CHECKING:
    from opgen.pipeline import Build
    from opgen.source import Source

NOT_FORMATTED = "OPG915"
KEPT_ORPHAN = "OPG916"

#: When garbage is looked for. What a build makes, it keeps to its end: looking often takes a sixth of its time.
_COLLECTED = (50_000, 20, 20)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line and returns its exit code; without `arguments`, as what its process is there for."""
    if arguments is None:
        gc.set_threshold(*_COLLECTED)
    return run(cli, sys.argv[1:] if arguments is None else arguments)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(VERSION, message="opgen %(version)s")
@color_option
def cli() -> None:
    """Turns specs of GPU operators into the Python files that a team checks in.

    A SPEC is a *.op file, or a folder of them; without one, all specs of the project are taken.
    """


# --- build, check, fmt --------------------------------------------------------------------------


@cli.command()
@specs_argument
@out_option
@target_option
@click.option("--check", is_flag=True, help="Write nothing; fail if a file is not up to date.")
@jobs_option
@format_option
@color_option
@click.pass_obj
def build(
    session: Session, specs: Names, out: str | None, targets: Names | None, check: bool, jobs: int
) -> int:
    """Compile specs, and write the files that changed."""
    made = session.compile(specs, targets, jobs)
    folder = session.output_folder(out)
    partly = _partly(made) if specs else None
    return (_check_files if check else _write_files)(session, folder, made, partly)


def _partly(made: Build) -> Partly:
    from opgen.pipeline import package_index

    return Partly(tuple(spec.source.name for spec in made.specs), package_index)


@cli.command()
@specs_argument
@target_option
@jobs_option
@format_option
@color_option
@click.pass_obj
def check(session: Session, specs: Names, targets: Names | None, jobs: int) -> int:
    """Compile specs and say what is wrong with them; no file is read or written beside them."""
    made = session.compile(specs, targets, jobs)
    session.report.say(f"{counted(len(made.specs), 'spec is', 'specs are')} fine")
    return FINE


def _check_files(session: Session, folder: Path, made: Build, partly: Partly | None) -> int:
    drifts = compare(folder, made.files, partly)
    for drift in drifts:
        session.report.add([drift_diagnostic(drift, session.project.name_of(folder))], detail=drift.diff)
    if not drifts:
        session.report.say(
            f"{len(made.files)} files of {counted(len(made.specs), 'spec', 'specs')} are up to date"
        )
    return USER_ERROR if drifts else FINE


def _write_files(session: Session, folder: Path, made: Build, partly: Partly | None) -> int:
    changes = write(folder, made.files, partly)
    name = session.project.name_of(folder)
    kept = [change for change in changes if change.kind is ChangeKind.KEPT]
    for change in changes:
        if change.kind not in (ChangeKind.UNCHANGED, ChangeKind.KEPT):
            remark = " (changes made by hand are overwritten)" if change.edited else ""
            session.report.say(f"{change.kind.value} {name}/{change.path}{remark}")
    for change in kept:
        message = "no spec makes this file any more; it may hold changes made by hand, so it was kept"
        help_text = "delete it, or put its spec back"
        session.report.add([file_diagnostic(KEPT_ORPHAN, f"{name}/{change.path}", message, help_text)])
    counts = [(kind, sum(change.kind is kind for change in changes)) for kind in ChangeKind]
    summary = ", ".join(f"{count} {kind.value}" for kind, count in counts if count)
    session.report.say(f"{counted(len(made.specs), 'spec', 'specs')}: {summary}")
    return USER_ERROR if kept else FINE


@cli.command()
@specs_argument
@click.option("--check", is_flag=True, help="Write nothing; fail if a spec is not formatted.")
@format_option
@color_option
@click.pass_obj
def fmt(session: Session, specs: Names, check: bool) -> int:
    """Format specs in place; `-` formats standard input to standard output."""
    if specs == ("-",):
        source = decode("<stdin>", sys.stdin.buffer.read())
        text = _formatted(session, source, check=check)
        if text is not None:
            session.report.say(text.removesuffix("\n"))
    else:
        for source in load_specs(session.project, Path.cwd(), specs):
            text = _formatted(session, source, check=check)
            if text is not None and text != source.text:
                replace_file(session.project.root / source.name, text)
                session.report.say(f"formatted {source.name}")
    return USER_ERROR if session.report.errors else FINE


def _formatted(session: Session, source: Source, *, check: bool) -> str | None:
    """A spec's text as `opgen fmt` lays it out, or None after a fault was reported."""
    from opgen.syntax.parse import parse
    from opgen.syntax.pretty import format_file

    session.progress.current = source.name
    try:
        text = format_file(parse(source))
    except SpecError as error:
        session.report.add(error.diagnostics)
        return None
    if check:
        if text != source.text:
            help_text = "`opgen fmt` formats it"
            session.report.add([file_diagnostic(NOT_FORMATTED, source.name, "is not formatted", help_text)])
        return None
    return text


# --- explain, new, advise -----------------------------------------------------------------------


@cli.command()
@click.argument("spec")
@click.option("--op", "op_name", metavar="NAME", help="Only this op of the spec.")
@click.option("--form", type=click.Choice(["ast", "ir", "plan"]), default="plan", show_default=True)
@target_option
@color_option
@click.pass_obj
def explain(session: Session, spec: str, op_name: str | None, form: str, targets: Names | None) -> int:
    """Print what opgen makes of a spec: its syntax, its typed graph, or its plan for each target."""
    from opgen.cli_explain import ast_texts, ir_texts, plan_texts

    if form == "plan":
        texts = plan_texts(session.compile([spec], targets))
    else:
        (source, *more) = load_specs(session.project, Path.cwd(), [spec])
        if more:
            raise click.UsageError(f"{spec} holds several specs; name one")
        session.progress.current = source.name
        read, report = session.project.read, session.report.add
        texts = ast_texts(source) if form == "ast" else ir_texts(source, read, report)
    if op_name is not None and op_name not in texts:
        help_text = did_you_mean(op_name, texts) or f"it has {', '.join(texts) or 'none'}"
        raise click.UsageError(f"{spec} has no op `{op_name}`; {help_text}")
    print("\n\n".join(text.rstrip("\n") for name, text in texts.items() if op_name in (None, name)))
    return FINE


@cli.command()
@click.argument("name")
@color_option
@click.pass_obj
def new(session: Session, name: str) -> int:
    """Start a spec: write a small commented one, which builds, to the specs folder."""
    from opgen.starter import fault_of_name, starter_spec

    fault = fault_of_name(name)
    if fault is not None:
        raise click.UsageError(f"an op cannot be called `{name}`: {fault}")
    path = session.project.root / session.project.specs[0] / f"{name}.op"
    create_file(path, starter_spec(name))
    spec = session.project.name_of(path)
    print(f"created {spec}; `opgen build {spec}` builds it")
    return FINE


@cli.command()
@click.argument("specs", nargs=-1, required=True, metavar="SPEC...")
@target_option
@click.option(
    "--sizes", metavar="SIZES", callback=split_commas, help="Entries of `sizes`, or `...=2048,N=64`."
)
@click.option(
    "--dtype", "dtypes", metavar="TYPES", callback=split_commas, help="Element types; default: bf16."
)
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON, with the rates that it rests on.")
@click.option(
    "--plot",
    "picture",
    metavar="FILE.png",
    callback=not_a_spec,
    help="Draw the roofline there (needs matplotlib).",
)
@color_option
@click.pass_obj
def advise(
    session: Session,
    specs: Names,
    targets: Names | None,
    sizes: Names | None,
    dtypes: Names | None,
    as_json: bool,
    picture: str | None,
) -> int:
    """Predict whether a kernel is worth it: operations, bytes, roofline, times and a verdict for each target."""
    from opgen.advise import report
    from opgen.cli_advise import advices, save_plot

    found = advices(
        session, load_specs(session.project, Path.cwd(), specs), session.targets(targets), sizes, dtypes
    )
    if picture is not None:
        save_plot(found, Path.cwd() / picture)
    print(report.as_json(found) if as_json else report.text(found))
    return FINE


for command in (cli_device.targets, cli_device.doctor, cli_device.vet, cli_device.bench):
    cli.add_command(command)
