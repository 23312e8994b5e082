"""The commands that speak of machines and GPUs: what they are, what kernels take of them, how long calls take."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from opgen.cli_options import (
    Names,
    color_option,
    json_record,
    not_a_spec,
    print_or_write,
    specs_argument,
    split_commas,
    target_option,
)
from opgen.cli_report import Bar
from opgen.cli_session import FINE, USER_ERROR, Session
from opgen.config import load_specs
from opgen.output import replace_file


@click.command()
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


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
def doctor(as_json: bool) -> int:
    """Say what this machine has, what is known not to work on it, and what to do about that."""
    from opgen.device.doctor import diagnose
    from opgen.device.machine import probe

    diagnosis = diagnose(probe())
    print(diagnosis.json if as_json else diagnosis.text)
    return USER_ERROR if diagnosis.is_broken else FINE


@click.command()
@specs_argument
@target_option
@click.option("--jobs", type=click.IntRange(1), default=min(2, os.cpu_count() or 1), show_default=True)
@click.option("--sample", type=click.IntRange(1), metavar="N", help="Compile N jobs, spread over all.")
@click.option("--minutes", type=click.FloatRange(0, min_open=True), metavar="N", help="Stop after N minutes.")
@json_record("every job with its figures")
@click.option(
    "--md", "markdown_file", metavar="FILE", callback=not_a_spec, help="Write the tables there, as Markdown."
)
@color_option
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
    print_or_write(vet_report.text(found), vet_report.as_json(found), json_file)
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


@click.command()
@click.argument("specs", nargs=-1, required=True, metavar="SPEC...")
@json_record("the measurements")
@click.option("--sizes", metavar="LABELS", callback=split_commas, help="Only these entries of `sizes`.")
@click.option("--dtype", "dtypes", metavar="TYPES", callback=split_commas, help="Only these element types.")
@color_option
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
    print_or_write(measured.text, measured.json, json_file)
    return FINE
