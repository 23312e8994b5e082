"""One planted fault, put to an op's generated tests in this process, under Triton's interpreter."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from tests.planted import exhaustive, probes
from tests.planted.copying import copies
from tests.planted.equivalence import NEARLY
from tests.planted.operators import Site
from tests.planted.planting import UnplantedError, forgetful, in_device_function, module, planted
from tests.planted.probes import Bench, Probe, Reach

DEVICE_FUNCTIONS = {
    "_tiles": ("swish", "unpacked", "looked_up", "with_scalars"),
    "_row_tiles": (
        *("softmax", "layer_norm", "mean_pool"),
        *("with_positions", "with_variances", "with_volumes"),
    ),
    "_row_reductions": (
        *("softmax", "layer_norm", "cross_entropy"),
        *("with_positions", "with_products", "with_variances", "with_conditions", "with_differences"),
    ),
    "_product_tiles": ("linear_bias", "swiglu", "of_batches", "scores_causal", "of_f8"),
}
"""Runtime modules whose device functions get faults, and ops that together reach all of them; some are not shipped."""

TOO_LONG = "no end within"

MEASURED, UNMEASURED = "measured", "unmeasured"
"""What probes reach: found out first, in a run without a fault, or all that there is."""

_LIMIT, _LIMIT_FACTOR = 3.0, 20.0
"""The processor time in seconds that a probe may take with a fault, and as a factor of what it takes without one."""

_MOST_ENDLESS, _MOST_RAISING = 2, 16
"""Probes that a fault may keep from ending, and those that may raise before any has run: the others would, too."""

_MOST_REMEMBERED = 9
"""Ops of which it is remembered what the oracle allows."""


Run = Callable[[Any, dict[str, Any], Any], list[torch.Tensor]]


@dataclass(frozen=True)
class Outcome:
    """`caught` by an assertion on values or sentinels, `not planted` (an exception, a timeout), or `left`."""

    kind: str
    detail: str = ""
    seconds: float = 0.0


class _OutOfTimeError(Exception):
    pass


@dataclass
class _Process:
    """What this process knows: the probes of ops, what the oracle allows in them, and which have caught what."""

    kept: Path | None = None
    reach: str = MEASURED
    benches: dict[str, Bench] = field(default_factory=dict)
    expected: dict[str, dict[str, list[Any]]] = field(default_factory=dict)
    current: tuple[list[Any], Iterator[int]] | None = None
    results: dict[tuple[str, str, Run], list[torch.Tensor]] = field(default_factory=dict)
    tried: Counter[tuple[str, str]] = field(default_factory=Counter)
    caught: Counter[tuple[str, str]] = field(default_factory=Counter)


_process = _Process()


def start(folder: str, kept: Path | None, reach: str) -> None:
    """Prepares a process; the package is in `folder`, and what probes reach is `kept` in another where measured."""
    _process.reach = reach
    torch.set_num_threads(1)
    _process.kept = kept
    sys.stdout = Path(os.devnull).open("w")  # noqa: SIM115 (for good) where the tests print the figures of their reports
    sys.path.insert(0, folder)
    module("tests._interpreter").install()
    probes.note_lines()
    # Modules register their operators with PyTorch, which is slow; the tests call the functions behind them.
    vars(module("_runtime"))["register"] = lambda entry: lambda function: function


# --- whole trials -------------------------------------------------------------------------------


def sound(name: str) -> Outcome:
    """What the tests find in an op, or in the ops that reach a runtime module, without a fault."""
    faults = [fault for op in DEVICE_FUNCTIONS.get(name, (name,)) if (fault := _bench(op).fault)]
    return Outcome("left", "; ".join(faults))


def attempt(name: str, site: Site) -> Outcome:
    """The generated tests with a fault in an op's module, or in a device function that ops import."""
    ops = DEVICE_FUNCTIONS.get(name, (name,))
    reaching = _reaching(name, site, ops)
    if name in DEVICE_FUNCTIONS:
        reaching = [(probe, Reach({}, 1.0)) for probe in probes.functions(name)] + reaching
    if not reaching:
        return Outcome("left", "no test reaches it")
    try:
        with _cases(name, site) as cases:
            return _first_fault(site, reaching, cases)
    except UnplantedError as error:
        return Outcome("not planted", str(error)[:120])


def same_results(name: str, site: Site) -> bool:
    """Whether a fault leaves all results of many calls as they are, bit for bit."""
    reaching = _reaching(name, site, DEVICE_FUNCTIONS.get(name, (name,)))
    calls = sorted(
        ((probe, reach) for probe, reach in reaching if probe.call is not None),
        key=lambda one: one[1].seconds,
    )
    run = _reference if site.function == "reference" else _kernels
    sound = [_sound_results(probe, run) for probe, _ in calls]
    try:
        with _cases(name, site) as cases:
            return bool(calls) and all(
                _is_same(cases[probe.op], probe, reach, run, results)
                for (probe, reach), results in zip(calls, sound, strict=True)
            )
    except Exception:  # noqa: BLE001 (whatever the fault makes of a kernel)
        return False


def _is_same(case: Any, probe: Probe, reach: Reach, run: Run, results: list[torch.Tensor]) -> bool:
    with _limited(max(_LIMIT, _LIMIT_FACTOR * reach.seconds)):
        found = list(map(_bits, run(case, _drawn(case, probe.call), probe.call)))
    return _all_equal(results, found)


@contextlib.contextmanager
def _cases(name: str, site: Site) -> Iterator[dict[str, Any]]:
    """The cases of the ops that a fault concerns, by name, with the fault in place."""
    if name not in DEVICE_FUNCTIONS:
        with planted(name, site) as case:
            yield {name: case}
        return
    with in_device_function(name, site):
        yield {name: None, **{op: forgetful(_bench(op).case) for op in DEVICE_FUNCTIONS[name]}}


def same_everywhere(op: str, site: Site) -> bool:
    """The same for every number of 16 bits that each tensor may hold, whatever the others hold; floats alone.

    Where a comparison chooses between two forms of one function, these may differ in the last places.
    """
    case = _bench(op).case
    with planted(op, site) as faulty:
        calls = list(exhaustive.calls(case, module))
        return bool(calls) and all(
            _agree(one, other, nearly=site.role == "compared")
            for call, given in calls
            for run in (_kernels, _reference)
            for one, other in zip(run(case, given, call), run(faulty, given, call), strict=True)
        )


def _all_equal(sound: Iterable[torch.Tensor], faulty: Iterable[torch.Tensor]) -> bool:
    return all(torch.equal(one, other) for one, other in zip(sound, faulty, strict=True))


# --- probes -------------------------------------------------------------------------------------


def _bench(op: str) -> Bench:
    if op not in _process.benches:
        _remember_expected()
        measured = _process.reach == MEASURED
        _process.benches[op] = (
            probes.bench(op, DEVICE_FUNCTIONS, _process.kept) if measured else probes.unmeasured(op)
        )
    return _process.benches[op]


def _reaching(file: str, site: Site, ops: Iterable[str]) -> list[tuple[Probe, Reach]]:
    """The probes of ops that come to a site in a module; all, to one that is not in a kernel or a device function."""
    first, last = site.lines
    lines = range(first, last + 1)
    return [
        (probe, reach)
        for op in ops
        for probe, reach in _bench(op).probes
        if not site.jitted or reach.comes_to(file, lines)
    ]


def _first_fault(site: Site, reaching: list[tuple[Probe, Reach]], cases: dict[str, Any]) -> Outcome:
    """Runs probes until one sees the fault, those first that are likely to, and quick."""
    fault = module("tests._call").Fault
    begin = time.process_time()
    trouble, ran, endless, raised = "", False, 0, 0
    for probe, reach in sorted(reaching, key=lambda one: -_worth(site, *one)):
        _process.tried[site.operator, probe.name] += 1
        try:
            with _limited(max(_LIMIT, _LIMIT_FACTOR * reach.seconds)), _expecting(probe):
                probe.check(cases[probe.op])
            ran = True
        except fault as error:
            _process.caught[site.operator, probe.name] += 1
            return Outcome("caught", f"{probe.op} {probe.name}: {error}"[:120], time.process_time() - begin)
        except AssertionError:
            ran = True
        except _OutOfTimeError as error:
            endless += 1
            trouble = trouble or f"{probe.op} {probe.name}: {error}"
        except Exception as error:  # noqa: BLE001 (whatever the fault makes of a kernel)
            raised += 1
            trouble = trouble or f"{probe.op} {probe.name}: {type(error).__name__}: {error}"[:120]
        if endless == _MOST_ENDLESS or (raised == _MOST_RAISING and not ran):
            break
    return Outcome("not planted" if trouble else "left", trouble, time.process_time() - begin)


def _worth(site: Site, probe: Probe, reach: Reach) -> float:
    """How likely a probe is to see a fault of an operator, as far as is known, by the time that it takes."""
    key = site.operator, probe.name
    return (_process.caught[key] + 0.3) / (_process.tried[key] + 1) / (reach.seconds + 0.01)


def _remember_expected() -> None:
    """Has the tests keep what the oracle allows: it is the same each time that a probe runs."""
    if _process.benches:
        return
    evaluate = module("tests._call").evaluate

    def remembered(case: Any, arguments: Any) -> Any:
        if _process.current is None:
            return evaluate(case, arguments)
        known, places = _process.current
        place = next(places)
        if place == len(known):
            known.append(evaluate(case, arguments))
        return known[place]

    for name in ("_call", "_forms", "_references", "_wide"):
        vars(module(f"tests.{name}"))["evaluate"] = remembered


@contextlib.contextmanager
def _expecting(probe: Probe) -> Iterator[None]:
    """Takes what the oracle allows from an earlier run of a probe; of few ops, as it is much."""
    if probe.op not in _process.expected and len(_process.expected) == _MOST_REMEMBERED:
        del _process.expected[next(iter(_process.expected))]
    known = _process.expected.setdefault(probe.op, {}).setdefault(probe.name, [])
    _process.current = known, itertools.count()
    try:
        yield
    finally:
        _process.current = None


@contextlib.contextmanager
def _limited(seconds: float) -> Iterator[None]:
    """Raises inside after some processor time."""

    def stop(*_: object) -> None:
        raise _OutOfTimeError(f"{TOO_LONG} {seconds:.0f} s of processor time")

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, before)


# --- results ------------------------------------------------------------------------------------


def _sound_results(probe: Probe, run: Run) -> list[torch.Tensor]:
    """The bytes of what the kernels, or the eager reference, give without a fault."""
    key = probe.op, probe.name, run
    if key not in _process.results:
        case = forgetful(_bench(probe.op).case)
        _process.results[key] = list(map(_bits, run(case, _drawn(case, probe.call), probe.call)))
    return _process.results[key]


def _drawn(case: Any, call: Any) -> dict[str, Any]:
    """The arguments that a call draws."""
    made = module("tests._cases").make_arguments(case, call, torch.device("cpu"))
    return dict(made.given)


def _kernels(case: Any, given: dict[str, Any], call: Any) -> list[torch.Tensor]:
    """What the kernels give for some arguments."""
    return _results(case, given, lambda arguments: case.entry.run(arguments, None, call.config))


def _reference(case: Any, given: dict[str, Any], _: Any) -> list[torch.Tensor]:
    """What the eager reference gives for some arguments."""
    names = [spec.name for spec in case.parameters]
    return _results(case, given, lambda arguments: case.entry.reference(*(arguments[name] for name in names)))


def _results(case: Any, given: dict[str, Any], run: Callable[[dict[str, Any]], Any]) -> list[torch.Tensor]:
    arguments = copies(given)
    with module("tests._watch").watched():
        returned = run(arguments)
    results = list(returned) if isinstance(returned, tuple) else [returned]
    return results + [arguments[spec.name] for spec in case.tensors if spec.updated]


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
