"""Specs and targets in, every intermediate form and a map path -> text out. Touches no disk."""

from __future__ import annotations

import functools
import posixpath
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from opgen.diagnostics import Diagnostic, Diagnostics, Note, SpecError
from opgen.emit import package
from opgen.emit.module import module_context
from opgen.emit.names import module_name
from opgen.emit.render import render_module, render_test
from opgen.emit.tests import test_context
from opgen.ir.lower import lower
from opgen.ir.nodes import Op
from opgen.ir.verify import verify_op
from opgen.manifest import MANIFEST, describe
from opgen.plan.model import Plan
from opgen.plan.op import plan_op
from opgen.pool import in_order
from opgen.source import Source
from opgen.syntax import ast
from opgen.syntax.parse import parse
from opgen.targets import TARGETS


@dataclass(frozen=True)
class BuiltOp:
    """An op in all its forms; `plans` has one for each target."""

    ir: Op
    plans: tuple[Plan, ...]


@dataclass(frozen=True)
class BuiltSpec:
    source: Source
    file: ast.File
    ops: tuple[BuiltOp, ...]


@dataclass(frozen=True)
class Build:
    """All forms of some specs, and the files made of them, by path relative to the output folder."""

    specs: tuple[BuiltSpec, ...]
    files: tuple[tuple[str, str], ...]
    warnings: tuple[Diagnostic, ...]


def compile_specs(
    sources: Sequence[Source],
    *,
    targets: Sequence[str] = tuple(TARGETS),
    read: Callable[[str], Source],
    progress: Callable[[Source], None] = lambda source: None,
    jobs: int = 1,
) -> Build:
    """Builds specs for targets; `read` loads a file that a spec uses, `progress` hears of each spec.

    With several `jobs`, so many processes share the specs; nothing else depends on their number.

    Raises `SpecError` with all that is wrong in the specs, and `InternalError` for a bug.
    """
    found = Diagnostics()
    specs: list[BuiltSpec] = []
    compiled = in_order(functools.partial(_compile_spec, targets=targets, read=read), sources, jobs)
    for source in sources:
        progress(source)
        spec, diagnostics = next(compiled)
        _add(found, diagnostics)
        specs += [] if spec is None else [spec]
    _refuse_clashes(specs, found)
    found.raise_if_errors()
    files: dict[str, tuple[str, str | None]] = {}
    for spec, texts in zip(specs, in_order(_render_spec, specs, jobs), strict=True):
        files |= {path: (text, spec.source.name) for path, text in texts}
    modules = tuple(sorted(op.ir.name for spec in specs for op in spec.ops))
    files |= {path: (text, None) for path, text in package.runtime_files().items()}
    files["__init__.py"] = (package.package_index(modules), None)
    return Build(tuple(specs), _with_manifest(files), found.sorted())


def package_index(modules: tuple[str, ...]) -> str:
    """The text of a package's `__init__.py` for the modules of these names."""
    return package.package_index(modules)


def _compile_spec(
    source: Source, targets: Sequence[str], read: Callable[[str], Source]
) -> tuple[BuiltSpec | None, tuple[Diagnostic, ...]]:
    """A spec in all its forms, or None where something is wrong with it, and what is to be said of it."""
    chosen = tuple(TARGETS[name] for name in targets)
    folder = posixpath.dirname(source.name)
    found = Diagnostics()
    try:
        file = parse(source)
        lowered = lower(file, read=lambda path: read(posixpath.join(folder, path)))
    except SpecError as error:
        return None, error.diagnostics
    _add(found, lowered.warnings)
    ops = []
    for op in lowered.ops:
        verify_op(op)
        try:
            ops.append(BuiltOp(op, plan_op(op, chosen)))
        except SpecError as error:
            _add(found, error.diagnostics)
    return BuiltSpec(source, file, tuple(ops)), tuple(found.found)


def _render_spec(spec: BuiltSpec) -> tuple[tuple[str, str], ...]:
    """The files of a spec's ops by path."""
    files = []
    for op in spec.ops:
        module = module_context(op.ir, op.plans, spec.source.name)
        name = module_name(op.ir.name)
        files.append((f"{name}.py", render_module(module)))
        files.append((f"tests/test_{name}.py", render_test(test_context(op.ir, module))))
    return tuple(files)


def _add(found: Diagnostics, more: Sequence[Diagnostic]) -> None:
    for diagnostic in more:
        found.add(diagnostic)


def _refuse_clashes(specs: Sequence[BuiltSpec], found: Diagnostics) -> None:
    """Ops are modules of one package: each name once, and none that the package needs itself."""
    first: dict[str, Op] = {}
    reserved = package.reserved_modules()
    for op in (op.ir for spec in specs for op in spec.ops):
        owner = (
            "the generated package has a module of that name"
            if op.name in reserved
            else "Python gives its modules attributes of such names"
            if op.name.startswith("__") and op.name.endswith("__")
            else None
        )
        if owner is not None:
            message = f"an op cannot be named `{op.name}`: {owner}"
            found.error("OPG801", message, op.span, help=f"name it `{op.name.strip('_')}_op`")
        earlier = first.setdefault(module_name(op.name), op)
        if earlier is not op:
            notes = (Note("first defined here", earlier.span),)
            found.error("OPG802", f"the op `{op.name}` is defined twice", op.span, notes=notes)


def _with_manifest(files: dict[str, tuple[str, str | None]]) -> tuple[tuple[str, str], ...]:
    """All files by path, with the manifest that knows where each comes from."""
    triples = [(path, text, spec) for path, (text, spec) in sorted(files.items())]
    manifest = describe(triples).text()
    return tuple(sorted([(path, text) for path, text, _ in triples] + [(MANIFEST, manifest)]))
