"""One planted fault, put to an op's generated tests in this process, under Triton's interpreter."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import importlib
import linecache
import os
import signal
import sys
import time
import types
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import torch
from hypothesis import HealthCheck, Phase, given, settings

from tests.planted import exhaustive
from tests.planted.equivalence import NEARLY
from tests.planted.operators import Site

PACKAGE = "planted_package"

SECONDS = 180
"""For one check; a fault that keeps it longer was not seen."""

TOO_LONG = "no end within"

#: The checks of a generated test file, the quickest to see a fault first.
_CHECKS = ("blocks", "layouts", "results", "entrances", "wide", "ranks", "configs")

_STRIDES = ("stride dropped", "strides swapped")
"""Faults that are seen soonest where a space has the most dims."""

_DRAWN = settings(
    deadline=None,
    derandomize=True,
    max_examples=40,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)

Check = tuple[str, Callable[[], object]]


@dataclasses.dataclass(frozen=True)
class Outcome:
    """`caught` by an assertion on values or sentinels, `not planted` (an exception, a timeout), or `left`."""

    kind: str
    detail: str = ""
    seconds: float = 0.0


class _OutOfTimeError(Exception):
    pass


def start(folder: str) -> None:
    """Prepares a process; the package is in `folder`."""
    torch.set_num_threads(1)
    sys.stdout = Path(os.devnull).open("w")  # noqa: SIM115 (for good) where the tests print the figures of their reports
    sys.path.insert(0, folder)
    module("tests._interpreter").install()
    # Modules register their operators with PyTorch, which is slow; the tests call the functions behind them.
    vars(module("_runtime"))["register"] = lambda entry: lambda function: function


def module(name: str) -> types.ModuleType:
    """A module of the generated package."""
    return importlib.import_module(f"{PACKAGE}.{name}")


# --- whole trials -------------------------------------------------------------------------------


def try_op(op: str, site: Site | None) -> Outcome:
    """The generated tests of an op, with a fault in its module, or with none."""
    tests = module(f"tests.test_{op}")
    if site is None:
        return _first_fault(_checks(tests, tests.CASE))
    with _planted(op, site.source) as planted:
        if isinstance(planted, Outcome):
            return planted
        parts = {name: getattr(planted, getattr(tests, name).__name__) for name in ("function", "operator")}
        case = dataclasses.replace(tests.CASE, entry=planted._ENTRY, **parts)
        checks = _reference_checks(tests, case) if site.function == "reference" else _checks(tests, case)
        first = [("ranks", functools.partial(_check_most_dims, case))] if site.operator in _STRIDES else []
        return _first_fault((*first, *checks))


def try_runtime(file: str, ops: Iterable[str], site: Site | None) -> Outcome:
    """The tests of a runtime module and those of some ops, with a fault in a device function that they import."""
    begin = time.monotonic()
    with contextlib.nullcontext() if site is None else _planted_runtime(file, site) as trouble:
        if trouble is not None:
            return trouble
        outcomes = [_first_fault(_functions(module(f"tests.test{file}")))]
        for op in ops:
            if outcomes[-1].kind != "caught":
                tests = module(f"tests.test_{op}")
                outcomes.append(_first_fault(_checks(tests, _forgetful(tests.CASE))))
    best = min(outcomes, key=lambda one: ("caught", "not planted", "left").index(one.kind))
    return dataclasses.replace(best, seconds=time.monotonic() - begin)


def same_results(op: str, site: Site) -> bool:
    """Whether a fault leaves all results of many calls as they are, bit for bit: of kernels and reference."""
    case = module(f"tests.test_{op}").CASE
    with _planted(op, site.source) as planted:
        if isinstance(planted, Outcome):
            return False
        return _all_equal(_many_results(case, case.entry), _many_results(case, planted._ENTRY))


def same_everywhere(op: str, site: Site) -> bool:
    """The same for every number of 16 bits that each tensor may hold, whatever the others hold; floats alone.

    Where a comparison chooses between two forms of one function, these may differ in the last places.
    """
    case = module(f"tests.test_{op}").CASE
    with _planted(op, site.source) as planted:
        if isinstance(planted, Outcome):
            return False
        calls = list(exhaustive.calls(case, module))
        return bool(calls) and all(
            _agree(one, other, nearly=site.role == "compared")
            for call, given in calls
            for one, other in zip(
                *(_results(case, entry, call, given) for entry in (case.entry, planted._ENTRY)), strict=True
            )
        )


def same_runtime_results(file: str, ops: Iterable[str], site: Site) -> bool:
    """The same for a fault in a device function."""
    for op in ops:
        case = module(f"tests.test_{op}").CASE
        sound = list(_many_results(case, case.entry))
        with _planted_runtime(file, site) as trouble:
            if trouble is not None or not _all_equal(sound, _many_results(case, case.entry)):
                return False
    return True


def _all_equal(sound: Iterable[torch.Tensor], faulty: Iterable[torch.Tensor]) -> bool:
    return all(torch.equal(one, other) for one, other in zip(sound, faulty, strict=True))


# --- planting -----------------------------------------------------------------------------------


@contextlib.contextmanager
def _planted(name: str, source: str) -> Iterator[Any]:
    """A module of the package made of this source, or the outcome where it cannot be made."""
    path = f"<planted {name}>"
    lines = source.splitlines(keepends=True)
    linecache.cache[path] = (len(source), None, lines, path)  # where Triton looks for a kernel's text
    planted = types.ModuleType(f"{PACKAGE}.{name}")
    planted.__file__, planted.__package__ = path, PACKAGE
    try:
        exec(compile(source, path, "exec"), vars(planted))
    except Exception as error:  # noqa: BLE001 (whatever the fault makes of the module)
        yield Outcome("not planted", f"{type(error).__name__}: {error}")
    else:
        yield planted
    finally:
        linecache.cache.pop(path, None)


@contextlib.contextmanager
def _planted_runtime(file: str, site: Site) -> Iterator[Outcome | None]:
    """The package with a fault in a device function, or the outcome where it cannot be made."""
    with _planted(file, site.source) as planted:
        if isinstance(planted, Outcome):
            yield planted
            return
        with _put_in_place(site.function, getattr(planted, site.function)):
            yield None


@contextlib.contextmanager
def _put_in_place(name: str, function: Any) -> Iterator[None]:
    """Gives every module of the package this device function for the one of that name."""
    own = getattr(module("_tiles"), name)
    holders = [
        vars(loaded)
        for path, loaded in list(sys.modules.items())
        if path.startswith(f"{PACKAGE}.") and vars(loaded).get(name) is own
    ]
    for holder in holders:
        holder[name] = function
    try:
        yield
    finally:
        for holder in holders:
            holder[name] = own


def _forgetful(case: Any) -> Any:
    """The case with an entry that remembers no calls."""
    return dataclasses.replace(case, entry=dataclasses.replace(case.entry, prepared={}, ready={}))


# --- running ------------------------------------------------------------------------------------


def _checks(tests: types.ModuleType, case: Any) -> Iterator[Check]:
    yield from _reference_checks(tests, case)
    for name in _CHECKS:
        yield name, functools.partial(getattr(tests.harness, f"check_{name}"), case)
    yield "drawn", functools.partial(_check_drawn, case)


def _reference_checks(tests: types.ModuleType, case: Any) -> Iterator[Check]:
    yield "reference", functools.partial(tests.harness.check_reference, case)
    yield "entrances", functools.partial(tests.harness.check_entrances, case)


def _functions(tests: types.ModuleType) -> Iterator[Check]:
    """The tests of a module without parameters: it offers each as a function `check_…`."""
    yield from ((name, check) for name, check in list(vars(tests).items()) if name.startswith("check_"))


def _check_most_dims(case: Any) -> None:
    """The calls of the test of ranks that have the most dims of those that kernels walk."""
    drawing = module("tests._drawing")
    for call in drawing.rank_calls(case):
        if len(call.leading) + len(case.space) == drawing.MOST_DIMS:
            module("tests._call").check_call(case, call)


def _check_drawn(case: Any) -> None:
    """As the generated test does, but for less time and without shrinking."""
    calls, check_call = module("tests._drawing").calls, module("tests._call").check_call

    @_DRAWN
    @given(calls(case, 400))
    def each(call: Any) -> None:
        check_call(case, call)

    each()


def _first_fault(checks: Iterable[Check]) -> Outcome:
    """Runs checks until one sees the fault. What a report says about its bounds is no sight of it."""
    fault = module("tests._call").Fault
    begin = time.monotonic()
    trouble, doubt = "", ""
    for name, check in checks:
        try:
            with _limited(SECONDS):
                check()
        except fault as error:
            return Outcome("caught", f"{name}: {str(error)[:300]}", time.monotonic() - begin)
        except AssertionError as error:
            doubt = doubt or f"{name}: {str(error)[:300]}"
        except Exception as error:  # noqa: BLE001 (whatever the fault makes of a kernel)
            trouble = trouble or f"{name}: {type(error).__name__}: {str(error)[:300]}"
    return Outcome("not planted" if trouble else "left", trouble or doubt, time.monotonic() - begin)


@contextlib.contextmanager
def _limited(seconds: int) -> Iterator[None]:
    """Raises inside after some time."""

    def stop(*_: object) -> None:
        raise _OutOfTimeError(f"{TOO_LONG} {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def _many_results(case: Any, entry: Any) -> Iterator[torch.Tensor]:
    """The bytes of what kernels and reference give for the calls of the systematic tests."""
    drawing = module("tests._drawing")
    for name in ("layout_calls", "block_calls", "rank_calls"):
        for call in getattr(drawing, name)(case):
            yield from map(_bits, _results(case, entry, call))


def _results(case: Any, entry: Any, call: Any, given: Any = None) -> list[torch.Tensor]:
    """What the kernels and the eager reference give, for these arguments or for those that the call draws."""
    names = [spec.name for spec in case.parameters]

    def kernels(given: Any) -> Any:
        return entry.run(given, None, call.config)

    def reference(given: Any) -> Any:
        return entry.reference(*(given[name] for name in names))

    results: list[torch.Tensor] = []
    for run in (kernels, reference):
        made = given or module("tests._cases").make_arguments(case, call, torch.device("cpu")).given
        arguments = {key: one.clone() if isinstance(one, torch.Tensor) else one for key, one in made.items()}
        with module("tests._watch").watched():
            returned = run(arguments)
        results += returned if isinstance(returned, tuple) else (returned,)
        results += [arguments[spec.name] for spec in case.tensors if spec.updated]
    return results


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    """The bytes of a tensor; every NaN is the same."""
    plain = tensor.contiguous()
    if plain.is_floating_point():
        plain = torch.where(plain.isnan(), torch.full_like(plain, torch.nan), plain)
    return plain.view(torch.uint8)


def _agree(one: torch.Tensor, other: torch.Tensor, *, nearly: bool) -> bool:
    """Whether two results are the same bit for bit, or nearly: within `NEARLY` units of f32, one of a narrower type."""
    if not nearly or not one.is_floating_point():
        return bool(torch.equal(_bits(one), _bits(other)))
    apart = (_ranks(one) - _ranks(other)).abs() > (1 if one.dtype.itemsize < 4 else NEARLY)
    return torch.equal(one.isnan(), other.isnan()) and not bool((apart & ~one.isnan()).any())


def _ranks(tensor: torch.Tensor) -> torch.Tensor:
    """Floats by their place among the numbers of their type; both zeros are 0."""
    width = tensor.dtype.itemsize
    words = (
        tensor.contiguous()
        .view({1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[width])
        .long()
    )
    return torch.where(words < 0, -(words & (2 ** (8 * width - 1) - 1)), words)
