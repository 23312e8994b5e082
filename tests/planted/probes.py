"""The generated tests of an op in small pieces: which lines each piece reaches, and how long it takes.

A piece that never comes to a statement cannot see a fault in it, and is left out of the trial.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import json
import time
import types
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from triton.runtime import interpreter

from tests.planted.planting import forgetful, module

SYSTEMATIC = ("block_calls", "layout_calls", "rank_calls", "config_calls")
_WHOLE = ("reference", "entrances", "results", "wide")

_DRAWN = {False: 40, True: 12}
"""Calls that are drawn, for ops without and with reductions, and the most elements of each."""
_LARGEST = 400


@dataclass(frozen=True)
class Probe:
    """A piece of the tests of an op; `call` is the one that it makes, None where it makes several or others."""

    op: str
    name: str
    check: Callable[[Any], object]
    call: Any = None


@dataclass(frozen=True)
class Reach:
    """The lines of kernels and device functions that a probe reaches, by module, and the processor time it takes."""

    lines: dict[str, frozenset[int]]
    seconds: float

    def comes_to(self, name: str, lines: Iterable[int]) -> bool:
        """Whether it reaches some of the lines of a module; unmeasured, any."""
        return not self.lines or any(line in self.lines[name] for line in lines)


@dataclass(frozen=True)
class Bench:
    """The probes of an op with what they reach; `fault` is what they find in the op without a fault."""

    case: Any
    probes: tuple[tuple[Probe, Reach], ...]
    fault: str


def bench(op: str, watched: Iterable[str], folder: Path | None) -> Bench:
    """The probes of an op and what they reach in its module and in those watched, from a file where it is known."""
    tests = module(f"tests.test_{op}")
    found = list(_probes(op, tests))
    kept = None if folder is None else folder / f"{op}-{_digest(op)}.json"
    if kept is not None and kept.exists():
        known = json.loads(kept.read_text(encoding="utf-8"))
        pairs = [(probe, _read(known[probe.name])) for probe in found]
        return Bench(tests.CASE, tuple(pairs), "")
    pairs = []
    for probe in found:
        try:
            pairs.append((probe, _measured(probe, forgetful(tests.CASE), (op, *watched))))
        except AssertionError as error:
            if isinstance(error, module("tests._call").Fault) or probe.call is not None:
                return Bench(tests.CASE, (), f"{probe.name}: {error}"[:300])
    if kept is not None:
        kept.parent.mkdir(parents=True, exist_ok=True)
        lines = {probe.name: _written(reach) for probe, reach in pairs}
        kept.write_text(json.dumps(lines), encoding="utf-8")
    return Bench(tests.CASE, tuple(pairs), "")


def _digest(op: str) -> str:
    """A digest of all that decides what the probes of an op reach."""
    package = Path(module("tests").__path__[0]).parent
    shared = [*package.glob("_*.py"), *(package / "tests").glob("_*.py"), Path(__file__)]
    own = [package / f"{op}.py", package / "tests" / f"test_{op}.py"]
    texts = b"\0".join(path.read_bytes() for path in [*sorted(shared), *own])
    return hashlib.sha256(texts).hexdigest()[:16]


def unmeasured(op: str) -> Bench:
    """The probes of an op, which may reach anything."""
    tests = module(f"tests.test_{op}")
    return Bench(tests.CASE, tuple((probe, Reach({}, 0.05)) for probe in _probes(op, tests)), "")


def functions(file: str) -> Iterator[Probe]:
    """The tests of a runtime module without ops, where it has some: functions `check_…`."""
    name = f"tests.test{file}"
    if (Path(module("tests").__path__[0]) / f"test{file}.py").exists():
        for check, function in list(vars(module(name)).items()):
            if check.startswith("check_"):
                yield Probe(file, check, functools.partial(_ignoring_case, function))


def _ignoring_case(function: Callable[[], object], _: Any) -> object:
    return function()


def _probes(op: str, tests: types.ModuleType) -> Iterator[Probe]:
    case, harness = tests.CASE, tests.harness
    drawing, check_call = module("tests._drawing"), module("tests._call").check_call
    for name in SYSTEMATIC:
        for number, call in enumerate(getattr(drawing, name)(case)):
            yield Probe(op, f"{name} {number}", functools.partial(_call, check_call, call), call)
    for number, call in enumerate(_drawn_calls(case)):
        yield Probe(op, f"drawn {number}", functools.partial(_call, check_call, call))
    for name in _WHOLE:
        yield Probe(op, name, getattr(harness, f"check_{name}"))


def _call(check_call: Callable[[Any, Any], object], call: Any, case: Any) -> object:
    return check_call(case, call)


def _drawn_calls(case: Any) -> list[Any]:
    """What hypothesis draws, the same each time."""
    found: list[Any] = []
    drawn = settings(
        deadline=None,
        derandomize=True,
        max_examples=_DRAWN[bool(case.summed)],
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )

    @drawn
    @given(module("tests._drawn").calls(case, _LARGEST))
    def each(call: Any) -> None:
        found.append(call)

    each()
    return found


def note_lines() -> None:
    """Has Triton's interpreter note each statement of kernels and device functions that it comes to."""
    rewriter = interpreter.FunctionRewriter
    compile_and_exec = rewriter._compile_and_exec

    def noting(self: Any, tree: ast.AST) -> Any:
        if not self.filename.startswith("<"):
            self.fn.__globals__["note_line"] = _note_line
            tree = ast.fix_missing_locations(_Noting(self.filename).visit(tree))
        return compile_and_exec(self, tree)

    rewriter._compile_and_exec = noting


_noted: set[tuple[str, int]] = set()


def _note_line(file: str, line: int) -> None:
    _noted.add((file, line))


class _Noting(ast.NodeTransformer):
    """Puts a call of `note_line` before each statement."""

    def __init__(self, file: str) -> None:
        self._file = file

    def visit(self, node: ast.AST) -> Any:
        self.generic_visit(node)
        for block in ("body", "orelse"):
            statements = getattr(node, block, None)
            if isinstance(statements, list) and not isinstance(node, ast.Module):
                setattr(node, block, [part for one in statements for part in (self._note(one), one)])
        return node

    def _note(self, statement: ast.stmt) -> ast.stmt:
        place: list[ast.expr] = [ast.Constant(self._file), ast.Constant(statement.lineno)]
        call = ast.Call(ast.Name("note_line", ast.Load()), place, [])
        return ast.copy_location(ast.Expr(call), statement)


def _measured(probe: Probe, case: Any, watched: Iterable[str]) -> Reach:
    """Runs a probe once, and notes the lines that it comes to."""
    _noted.clear()
    begin = time.process_time()
    probe.check(case)
    seconds = time.process_time() - begin
    paths = {name: str(module(name).__file__) for name in watched}
    lines = {name: frozenset(line for file, line in _noted if file == path) for name, path in paths.items()}
    return Reach(lines, seconds)


def _written(reach: Reach) -> dict[str, Any]:
    lines = {name: sorted(own) for name, own in reach.lines.items()}
    return {"lines": lines, "seconds": round(reach.seconds, 4)}


def _read(known: dict[str, Any]) -> Reach:
    return Reach({name: frozenset(own) for name, own in known["lines"].items()}, known["seconds"])
