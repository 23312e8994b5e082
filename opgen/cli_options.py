"""Options that several commands of the command line share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from opgen.cli_session import cores
from opgen.output import replace_file

Names = tuple[str, ...]
Command = Callable[..., Any]

_PRINTED = "-"
"""The file of a record that is printed."""


def split_commas(_context: click.Context, _param: click.Parameter, value: str | None) -> Names | None:
    return tuple(item.strip() for item in value.split(",") if item.strip()) if value else None


def not_a_spec(_context: click.Context, _param: click.Parameter, value: str | None) -> str | None:
    """A file to write: `vet --json specs/swish.op`, meant as a flag and a spec, must not write over the spec."""
    if value is not None and value.endswith(".op"):
        raise click.BadParameter(f"it takes the file to write, and {value} is a spec")
    return value


def json_record(what: str) -> Callable[[Command], Command]:
    """The option `--json` of a command that takes long: alone, JSON is printed; with a file, it is written beside."""
    help_text = f"Print {what} as JSON instead; with a FILE, write it there."
    return click.option(
        "--json",
        "json_file",
        metavar="[FILE]",
        is_flag=False,
        flag_value=_PRINTED,
        callback=not_a_spec,
        help=help_text,
    )


def print_or_write(text: str, record: str, file: str | None) -> None:
    """Prints a report's text, or its record where `--json` stands alone; writes the record to a file that was told."""
    print(record if file == _PRINTED else text)
    if file not in (None, _PRINTED):
        replace_file(Path.cwd() / file, record)


def _no_color(context: click.Context, _param: click.Parameter, value: bool) -> None:
    if value:
        context.obj.report.color = False


specs_argument = click.argument("specs", nargs=-1, metavar="[SPEC]...")
out_option = click.option(
    "--out", metavar="DIR", help="The output folder, instead of the one of the settings."
)
target_option = click.option(
    "--target", "targets", metavar="NAMES", callback=split_commas, help="GPU targets, separated by commas."
)
jobs_option = click.option(
    "--jobs",
    metavar="N",
    type=click.IntRange(1),
    default=cores,
    help="The most processes; default: the cores.",
)
color_option = click.option(
    "--no-color", is_flag=True, expose_value=False, callback=_no_color, help="Plain text (as does NO_COLOR)."
)
format_option = click.option(  # `main` has read it already: it decides how even a usage error is told
    "--format", type=click.Choice(["text", "json"]), expose_value=False, help="How diagnostics are told."
)
