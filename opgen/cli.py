"""The command line: the only place that prints or exits.

Exit codes: 0 fine; 1 the user's to change, drift included; 2 a mistake of opgen itself; 130 interrupted.
"""

from __future__ import annotations

import gc
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from opgen.cli_report import Bar, counted, drift_diagnostic, file_diagnostic
from opgen.cli_session import FINE, USER_ERROR, Session, cores, run
from opgen.config import decode, load_specs
from opgen.diagnostics import SpecError, did_you_mean
from opgen.manifest import VERSION
from opgen.output import ChangeKind, Partly, compare, create_file, replace_file, write

if TYPE_CHECKING:
    from opgen.pipeline import Build
    from opgen.source import Source

Names = tuple[str, ...]
Command = Callable[..., Any]

NOT_FORMATTED = "OPG915"
KEPT_ORPHAN = "OPG916"

_PRINTED = "-"
"""The file of a record that is printed."""

#: When garbage is looked for. What a build makes, it keeps to its end: looking often takes a sixth of its time.
_COLLECTED = (50_000, 20, 20)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line and returns its exit code; without `arguments`, as what its process is there for."""
    if arguments is None:
        gc.set_threshold(*_COLLECTED)
    return run(cli, sys.argv[1:] if arguments is None else arguments)


# --- options that several commands have ---------------------------------------------------------


def _split_commas(_context: click.Context, _param: click.Parameter, value: str | None) -> Names | None:
    return tuple(item.strip() for item in value.split(",") if item.strip()) if value else None


def _not_a_spec(_context: click.Context, _param: click.Parameter, value: str | None) -> str | None:
    """A file to write: `vet --json specs/swish.op`, meant as a flag and a spec, must not write over the spec."""
    if value is not None and value.endswith(".op"):
        raise click.BadParameter(f"it takes the file to write, and {value} is a spec")
    return value


def _json_record(what: str) -> Callable[[Command], Command]:
    """The option `--json` of a command that takes long: alone, JSON is printed; with a file, it is written beside."""
    help_text = f"Print {what} as JSON instead; with a FILE, write it there."
    return click.option(
        "--json",
        "json_file",
        metavar="[FILE]",
        is_flag=False,
        flag_value=_PRINTED,
        callback=_not_a_spec,
        help=help_text,
    )


def _print_or_write(text: str, record: str, file: str | None) -> None:
    """Prints a report's text, or its record where `--json` stands alone; writes the record to a file that was told."""
    print(record if file == _PRINTED else text)
    if file not in (None, _PRINTED):
        replace_file(Path.cwd() / file, record)


def _no_color(context: click.Context, _param: click.Parameter, value: bool) -> None:
    if value:
        context.obj.report.color = False


_specs = click.argument("specs", nargs=-1, metavar="[SPEC]...")
_out = click.option("--out", metavar="DIR", help="The output folder, instead of the one of the settings.")
_target = click.option(
    "--target", "targets", metavar="NAMES", callback=_split_commas, help="GPU targets, separated by commas."
)
_jobs = click.option(
    "--jobs",
    metavar="N",
    type=click.IntRange(1),
    default=cores,
    help="The most processes; default: the cores.",
)
_color = click.option(
    "--no-color", is_flag=True, expose_value=False, callback=_no_color, help="Plain text (as does NO_COLOR)."
)
_format = click.option(  # `main` has read it already: it decides how even a usage error is told
    "--format", type=click.Choice(["text", "json"]), expose_value=False, help="How diagnostics are told."
)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(VERSION, message="opgen %(version)s")
@_color
def cli() -> None:
    """Turns specs of GPU operators into the Python files that a team checks in.

    A SPEC is a *.op file, or a folder of them; without one, all specs of the project are taken.
    """


# --- build, check, fmt --------------------------------------------------------------------------


@cli.command()
@_specs
@_out
@_target
@click.option("--check", is_flag=True, help="Write nothing; fail if a file is not up to date.")
@_jobs
@_format
@_color
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
@_specs
@_target
@_jobs
@_format
@_color
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
@_specs
@click.option("--check", is_flag=True, help="Write nothing; fail if a spec is not formatted.")
@_format
@_color
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


# --- explain, targets, new, bench ---------------------------------------------------------------


@cli.command()
@click.argument("spec")
@click.option("--op", "op_name", metavar="NAME", help="Only this op of the spec.")
@click.option("--form", type=click.Choice(["ast", "ir", "plan"]), default="plan", show_default=True)
@_target
@_color
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
@click.option("--json", "as_json", is_flag=True, help="Print all that is known of them.")
@click.option("--this", is_flag=True, help="Only those of this machine's GPUs.")
def targets(as_json: bool, this: bool) -> int:
    """List the GPU targets."""
    from opgen.cli_explain import target_table, targets_json

    names, remarks = _own_targets() if this else (None, [])
    for remark in remarks:
        print(remark, file=sys.stderr)
    if names == ():
        return USER_ERROR
    print(targets_json(names) if as_json else target_table(names))
    return FINE


def _own_targets() -> tuple[Names, list[str]]:
    """The targets whose configs this machine's GPUs take, and what is to be said of them."""
    from opgen.device.machine import nearest_target, probe

    names: list[str] = []
    gpus = probe().gpus
    remarks = (
        [] if gpus else ["this machine has no GPU that PyTorch or nvidia-smi knows; `opgen doctor` says more"]
    )
    for gpu in dict.fromkeys(gpus):
        target = nearest_target(gpu.architecture)
        if target is None:
            remarks.append(f"{gpu.name}: there is no target for {gpu.architecture}")
            continue
        names.append(target.name)
        if target.name != gpu.architecture:
            remarks.append(
                f"{gpu.name}: {gpu.architecture} is no target; it takes the configs of {target.name}"
            )
    return tuple(dict.fromkeys(names)), remarks


@cli.command()
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
def doctor(as_json: bool) -> int:
    """Say what this machine has, what is known not to work on it, and what to do about that."""
    from opgen.device.doctor import diagnose
    from opgen.device.machine import probe

    diagnosis = diagnose(probe())
    print(diagnosis.json if as_json else diagnosis.text)
    return USER_ERROR if diagnosis.is_broken else FINE


@cli.command()
@_specs
@_target
@click.option("--jobs", type=click.IntRange(1), default=min(2, os.cpu_count() or 1), show_default=True)
@click.option("--sample", type=click.IntRange(1), metavar="N", help="Compile N jobs, spread over all.")
@click.option("--minutes", type=click.FloatRange(0, min_open=True), metavar="N", help="Stop after N minutes.")
@_json_record("every job with its figures")
@click.option(
    "--md", "markdown_file", metavar="FILE", callback=_not_a_spec, help="Write the tables there, as Markdown."
)
@_color
@click.pass_obj
def vet(
    session: Session,
    specs: Names,
    targets: Names | None,
    jobs: int,
    sample: int | None,
    minutes: float | None,
    json_file: str | None,
    markdown_file: str | None,
) -> int:
    """Compile every kernel for every target, without a GPU, and check what each takes (needs torch and triton)."""
    if os.environ.get("TRITON_INTERPRET") == "1":
        raise click.UsageError(
            "TRITON_INTERPRET=1 gives kernels to the interpreter; unset it to compile them"
        )
    with _needing_torch():
        from opgen.device import vet as vetting
        from opgen.device import vet_report
    sources = load_specs(session.project, Path.cwd(), specs)
    names = session.targets(targets)
    bar = Bar("vetting")
    try:
        found = vetting.main(
            sources,
            read=session.project.read,
            targets=names,
            jobs=jobs,
            sample=sample,
            minutes=minutes,
            progress=bar.show,
            clock=time.monotonic,
        )
    finally:
        bar.clear()
    _print_or_write(vet_report.text(found), vet_report.as_json(found), json_file)
    if markdown_file is not None:
        words = [*specs, *(["--target", ",".join(names)] if targets else [])]
        words += ["--sample", str(sample)] if sample else []
        words += ["--minutes", f"{minutes:g}"] if minutes else []
        command = " ".join(["opgen vet", *words, "--md", markdown_file])
        replace_file(Path.cwd() / markdown_file, vet_report.markdown(found, command))
    return USER_ERROR if found.faults else FINE


@contextmanager
def _needing_torch() -> Iterator[None]:
    """Tells in one line that torch or triton is missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name not in ("torch", "triton"):
            raise
        raise click.UsageError(f"this needs {error.name}: pip install 'opgen[run]'") from error


@cli.command()
@click.argument("name")
@_color
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
@_target
@click.option(
    "--sizes", metavar="SIZES", callback=_split_commas, help="Entries of `sizes`, or `...=2048,N=64`."
)
@click.option(
    "--dtype", "dtypes", metavar="TYPES", callback=_split_commas, help="Element types; default: bf16."
)
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON, with the rates that it rests on.")
@click.option(
    "--plot",
    "picture",
    metavar="FILE.png",
    callback=_not_a_spec,
    help="Draw the roofline there (needs matplotlib).",
)
@_color
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


@cli.command()
@click.argument("specs", nargs=-1, required=True, metavar="SPEC...")
@_json_record("the measurements")
@click.option("--sizes", metavar="LABELS", callback=_split_commas, help="Only these entries of `sizes`.")
@click.option("--dtype", "dtypes", metavar="TYPES", callback=_split_commas, help="Only these element types.")
@_color
@click.pass_obj
def bench(
    session: Session,
    specs: Names,
    json_file: str | None,
    sizes: Names | None,
    dtypes: Names | None,
) -> int:
    """Measure ops on this machine's GPU against PyTorch (needs torch and triton)."""
    with _needing_torch():
        from opgen.device import bench as measuring
    sources = load_specs(session.project, Path.cwd(), specs)
    measured = measuring.main(sources, read=session.project.read, sizes=sizes, dtypes=dtypes)
    _print_or_write(measured.text, measured.json, json_file)
    return FINE
