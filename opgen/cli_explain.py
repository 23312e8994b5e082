"""What `opgen explain` and `opgen targets` print: the forms of a spec, by op, and the table of targets."""

from __future__ import annotations

import json
import posixpath
from collections.abc import Callable, Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING

from opgen.diagnostics import Diagnostic
from opgen.source import Source

if TYPE_CHECKING:
    from opgen.pipeline import Build
    from opgen.targets import Target


def ast_texts(source: Source) -> dict[str, str]:
    """What was written, as the parser understood it."""
    from opgen.syntax import ast
    from opgen.syntax.dump import dump
    from opgen.syntax.parse import parse

    return {item.name.text: dump(item) for item in parse(source).items if isinstance(item, ast.Op)}


def ir_texts(
    source: Source, read: Callable[[str], Source], report: Callable[[Iterable[Diagnostic]], None]
) -> dict[str, str]:
    """The typed graph; `report` gets the warnings."""
    from opgen.ir.lower import lower
    from opgen.ir.pretty import format_op
    from opgen.syntax.parse import parse

    folder = posixpath.dirname(source.name)
    lowered = lower(parse(source), read=lambda path: read(posixpath.join(folder, path)))
    report(lowered.warnings)
    return {op.name: format_op(op) for op in lowered.ops}


def plan_texts(build: Build) -> dict[str, str]:
    """The plan for each target."""
    from opgen.plan.pretty import format_plan

    return {
        op.ir.name: "\n\n".join(format_plan(plan).rstrip("\n") for plan in op.plans)
        for spec in build.specs
        for op in spec.ops
    }


def targets_json(names: tuple[str, ...] | None = None) -> str:
    """Everything that the table says of targets: of all, where none are named."""
    from opgen.targets import TARGETS

    return json.dumps({name: asdict(TARGETS[name]) for name in names or TARGETS}, indent=2)


_COLUMNS = "target,part,SMs,warp,registers,shared KiB,GB/s,f16 TFLOP/s,f8,descriptors"


def target_table(names: tuple[str, ...] | None = None) -> str:
    """The targets, one a line: all, where none are named. An AMD compute unit counts as an SM, a wave as a warp."""
    from opgen.targets import TARGETS

    rows = [_COLUMNS.split(","), *(_target_row(TARGETS[name]) for name in names or TARGETS)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)
    return "\n".join(line.rstrip() for line in lines)


def _target_row(target: Target) -> list[str]:
    return [
        *(target.name, target.part, str(target.multiprocessors), str(target.warp_size)),
        *(str(target.registers), f"{target.shared_bytes / 1024:g}", str(target.bandwidth)),
        f"{target.matrix_rates['f16']:g}",
        *("yes" if feature else "no" for feature in (target.has_f8, target.has_descriptors)),
    ]
