"""What `opgen advise` needs before it can tell: the ops of specs at the sizes asked for, and the plot."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from opgen.advise.model import Advice, advise
from opgen.advise.setting import given_sizes, missing, settings
from opgen.diagnostics import did_you_mean
from opgen.source import Source
from opgen.targets import TARGETS

if TYPE_CHECKING:
    from opgen.cli_session import Session
    from opgen.ir.nodes import Op


def advices(
    session: Session,
    sources: Sequence[Source],
    targets: Sequence[str],
    sizes: Sequence[str] | None,
    dtypes: Sequence[str] | None,
) -> list[Advice]:
    """The advice for each op of specs; ops need no kernels for it, only their typed graph."""
    ops = [op for source in sources for op in _lowered(session, source)]
    try:
        own = given_sizes(sizes) if sizes else None
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    _refuse_unknown(ops, sizes if own is None else None, dtypes)
    found: list[Advice] = []
    for op in ops:
        wanted = own if own is not None else {}
        lacking = missing(op, wanted) if own is not None or not op.sizes else ()
        if lacking:
            text = ",".join(f"{name}=…" for name in lacking)
            raise click.UsageError(f"`{op.name}` needs sizes of {', '.join(lacking)}: --sizes {text}")
        for setting in settings(op, sizes, dtypes):
            lacking = missing(op, setting.sizes)
            if lacking:
                raise click.UsageError(
                    f"`{op.name}`: the sizes `{setting.label}` do not say {', '.join(lacking)}"
                )
            found += [advise(setting, TARGETS[name]) for name in targets]
    return found


def _lowered(session: Session, source: Source) -> Iterator[Op]:
    from opgen.ir.lower import lower
    from opgen.syntax.parse import parse

    session.progress.current = source.name
    folder = posixpath.dirname(source.name)
    lowered = lower(parse(source), read=lambda path: session.project.read(posixpath.join(folder, path)))
    session.report.add(lowered.warnings)
    yield from lowered.ops


def _refuse_unknown(ops: Sequence[Op], labels: Sequence[str] | None, dtypes: Sequence[str] | None) -> None:
    known = {case.label for op in ops for case in op.sizes}
    types = {dtype.name for op in ops for variable in op.variables for dtype in variable.types}
    for word, given, names in (("sizes", labels or (), known), ("element type", dtypes or (), types)):
        for name in given:
            if name not in names:
                advice = did_you_mean(name, names) or f"there are {', '.join(sorted(names)) or 'none'}"
                raise click.UsageError(f"no op here has the {word} `{name}`; {advice}")


def save_plot(found: Sequence[Advice], path: Path) -> None:
    """Draws the roofline; tells in one line that matplotlib is missing."""
    try:
        from opgen.advise.plot import save
    except ModuleNotFoundError as error:
        if error.name != "matplotlib":
            raise
        raise click.UsageError("--plot needs matplotlib: pip install 'opgen[plot]'") from error
    save(found, path)
