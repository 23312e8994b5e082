"""One planted fault, put to an op's generated tests in this process, under Triton's interpreter."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import linecache
import os
import signal
import sys
import time
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings

from tests.planted.operators import Site

PACKAGE = "planted_package"
SECONDS = 90
"""Of one fault; a test that takes longer has not seen it."""

_DRAWN = settings(
    deadline=None,
    derandomize=True,
    max_examples=40,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@dataclasses.dataclass(frozen=True)
class Outcome:
    """`caught` by an assertion on values or sentinels, `not planted` (an exception, a timeout), or `left`."""

    kind: str
    detail: str
    seconds: float


class _TimeoutError(Exception):
    pass


def start(folder: str) -> None:
    """Prepares a process: the package is in `folder`."""
    import torch

    torch.set_num_threads(1)
    sys.stdout = open(os.devnull, "w")  # the figures of the reports
    sys.path.insert(0, folder)
    module("tests._interpreter").install()
    # The operator that a module registers is not what is tested here, and registering it anew is slow.
    module("_runtime").register = lambda entry: lambda function: function


def module(name: str) -> types.ModuleType:
    return importlib.import_module(f"{PACKAGE}.{name}")


def try_op(op: str, site: Site | None) -> Outcome:
    """The generated tests of an op, with a fault in its module, or with none."""
    tests = module(f"tests.test_{op}")
    if site is None:
        return _run(tests, tests.CASE, "")
    with _planted(op, site.source) as planted:
        if isinstance(planted, Outcome):
            return planted
        parts = {
            name: getattr(planted, getattr(tests, name).__name__) for name in ("function", "operator")
        }
        case = dataclasses.replace(tests.CASE, entry=planted._ENTRY, **parts)
        return _run(tests, case, site.function)


def try_runtime(ops: tuple[str, ...], file: str, site: Site) -> Outcome:
    """The tests of several ops, with a fault in a device function that their modules import."""
    start_time = time.monotonic()
    with _planted(file, site.source) as planted:
        if isinstance(planted, Outcome):
            return planted
        with _put_in_place(vars(planted), site.function):
            outcomes = [_own_tests(file)]
            for op in ops:
                if outcomes[-1].kind != "caught":
                    tests = module(f"tests.test_{op}")
                    outcomes.append(_run(tests, _fresh(tests.CASE), ""))
    worst = sorted(outcomes, key=lambda one: ("caught", "not planted", "left").index(one.kind))[0]
    return dataclasses.replace(worst, seconds=time.monotonic() - start_time)


def same_results(op: str, site: Site) -> bool:
    """Whether a fault leaves all results of many calls as they are, bit for bit: kernels' and reference's."""
    import torch

    tests, made = module(f"tests.test_{op}"), module("tests._drawing")
    with _planted(op, site.source) as planted:
        if isinstance(planted, Outcome):
            return False
        for call in (*made.layout_calls(tests.CASE), *made.block_calls(tests.CASE)):
            sound, faulty = (_results(tests.CASE, entry, call) for entry in (tests.CASE.entry, planted._ENTRY))
            if not all(torch.equal(_bits(one), _bits(other)) for one, other in zip(sound, faulty, strict=True)):
                return False
    return True


def _results(case: Any, entry: Any, call: Any) -> list[Any]:
    """What the kernels and the eager reference give."""
    made, results = module("tests._cases"), []
    names = [spec.name for spec in case.parameters]
    for run in (
        lambda given: entry.run(given, None, call.config),
        lambda given: entry.reference(*(given[name] for name in names)),
    ):
        given = made.make_arguments(case, call, module("tests._call").DEVICE).given
        with module("tests._watch").watched():
            returned = run(given)
        results += returned if isinstance(returned, tuple) else (returned,)
        results += [given[spec.name] for spec in case.tensors if spec.updated]
    return results


def _bits(tensor: Any) -> Any:
    import torch

    return tensor.contiguous().view(torch.uint8)


def _own_tests(file: str) -> Outcome:
    """The tests of the device functions themselves."""
    try:
        tests = module(f"tests.test{file}")
    except ModuleNotFoundError:
        return Outcome("left", "", 0.0)
    checks = [(name, check) for name, check in vars(tests).items() if name.startswith("test_")]
    return _first_fault(checks)


def _fresh(case: Any) -> Any:
    """The case with an entry that remembers nothing."""
    return dataclasses.replace(case, entry=dataclasses.replace(case.entry, prepared={}, ready={}))


@contextlib.contextmanager
def _put_in_place(new: dict[str, Any], function: str) -> Iterator[None]:
    """Gives every module of the package the device functions of a planted one."""
    changed: list[tuple[dict[str, Any], str, Any]] = []
    for name, loaded in list(sys.modules.items()):
        if not name.startswith(f"{PACKAGE}.") or loaded is None:
            continue
        space = vars(loaded)
        own = space.get(function)
        if own is not None and type(own) is type(new[function]):
            changed.append((space, function, own))
            space[function] = new[function]
    try:
        yield
    finally:
        for space, name, own in changed:
            space[name] = own


@contextlib.contextmanager
def _planted(name: str, source: str) -> Iterator[Any]:
    """A module of the package made of this source, or the outcome of the attempt."""
    path = f"<planted {name}>"
    lines = source.splitlines(keepends=True)
    linecache.cache[path] = (len(source), None, lines, path)  # where Triton looks for a kernel's text
    planted = types.ModuleType(f"{PACKAGE}.{name}")
    planted.__file__, planted.__package__ = path, PACKAGE
    try:
        exec(compile(source, path, "exec"), vars(planted))
    except Exception as error:
        yield Outcome("not planted", f"{type(error).__name__}: {error}", 0.0)
    else:
        yield planted
    finally:
        linecache.cache.pop(path, None)


def _run(tests: types.ModuleType, case: Any, function: str) -> Outcome:
    return _first_fault(list(_checks(tests, case, function)))


def _checks(
    tests: types.ModuleType, case: Any, function: str
) -> Iterator[tuple[str, Callable[[], object]]]:
    """The checks of a test file that a fault in `function` can meet, the quickest first."""
    harness = tests.harness
    if function in ("", "reference"):
        yield "reference", lambda: harness.check_reference(case)
        yield "entrances", lambda: harness.check_entrances(case)
    if function == "reference":
        return
    for name in ("blocks", "layouts", "results", "entrances", "wide", "ranks", "configs"):
        check = getattr(harness, f"check_{name}")
        yield name, lambda check=check: check(case)
    yield "drawn", lambda: _check_drawn(case)


def _check_drawn(case: Any) -> None:
    calls, check_call = module("tests._drawing").calls, module("tests._call").check_call

    @_DRAWN
    @given(calls(case, 400))
    def each(call: Any) -> None:
        check_call(case, call)

    each()


def _first_fault(checks: list[tuple[str, Callable[[], object]]]) -> Outcome:
    """Runs checks until one sees the fault."""
    fault = module("tests._call").Fault
    start_time = time.monotonic()
    exception = ""

    def outcome(kind: str, detail: str) -> Outcome:
        return Outcome(kind, detail, time.monotonic() - start_time)

    for name, check in checks:
        try:
            with _limited(SECONDS):
                check()
        except fault as error:
            return outcome("caught", f"{name}: {str(error)[:300]}")
        except _TimeoutError:
            return outcome("not planted", f"{name}: no end within {SECONDS} s")
        except AssertionError as error:  # the figures of a report are no value of the op
            exception = exception or ""
            exception = exception if exception else f"!{name}: {str(error)[:300]}"
        except Exception as error:
            exception = exception if exception[:1] not in ("", "!") else f"{name}: {str(error)[:300]}"
    if exception and not exception.startswith("!"):
        return outcome("not planted", exception)
    return outcome("left", exception[1:])


@contextlib.contextmanager
def _limited(seconds: int) -> Iterator[None]:
    def stop(*_: object) -> None:
        raise _TimeoutError

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
