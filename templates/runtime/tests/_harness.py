"""What the generated tests share: a test file declares a `Case` and runs these checks.

A check raises `Fault`, an `AssertionError` that names the call, where a value is outside the oracle's interval or memory
beside a result was touched.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable

from hypothesis import HealthCheck, given, settings

from .. import _runtime as rt
from ._call import DEVICE, Fault, check_call, needs_kernels
from ._cases import Call, Case, ScalarSpec, TensorSpec
from ._check import Report
from ._drawing import block_calls, config_calls, layout_calls, rank_calls
from ._drawn import calls
from ._forms import check_entrances, check_results
from ._references import check_independent, check_reference
from ._wide import check_wide

__all__ = [
    "Case",
    "Fault",
    "ScalarSpec",
    "TensorSpec",
    "check_blocks",
    "check_configs",
    "check_drawn",
    "check_entrances",
    "check_independent",
    "check_layouts",
    "check_ranks",
    "check_reference",
    "check_results",
    "check_wide",
]

_LARGEST_SPACE = {"cpu": 1500, "cuda": 200_000}
"""Elements of a drawn call; the interpreter is slow."""

_IN_CI = bool(os.environ.get("CI"))

_EXAMPLES = os.environ.get("OPGEN_EXAMPLES", "")
"""How many calls hypothesis draws, where that is asked for."""

_ONE_IN = int(os.environ.get("OPGEN_ONE_CALL_IN", "1"))
"""Of the calls of a check, one in so many is made: others for each op and check, the same in each run."""


def _drawn_settings(case: Case) -> settings:
    """How much hypothesis draws: in the interpreter less, and least for kernels that loop."""
    usual = 100 if not rt.INTERPRETED else 12 if case.summed else 30
    return settings(
        deadline=None,  # the first call of a kernel compiles it
        max_examples=int(_EXAMPLES or usual),
        derandomize=_IN_CI,
        suppress_health_check=[HealthCheck.too_slow] if _IN_CI else [],
        print_blob=True,
    )


def check_blocks(case: Case) -> None:
    """Sizes at the edges of blocks and tiles."""
    check_all(case, "blocks", block_calls(case))


def check_layouts(case: Case) -> None:
    """Transposed, sliced, stepped, expanded and other layouts, of all tensors and of each."""
    check_all(case, "layouts", layout_calls(case))


def check_ranks(case: Case) -> None:
    """Spaces of up to seven dims none of which merge, also in multiples of 16 elements."""
    check_all(case, "ranks", rank_calls(case))


def check_configs(case: Case) -> None:
    """Every config of every target, forced."""
    check_all(case, "configs", config_calls(case))


def check_drawn(case: Case) -> None:
    """Any calls, drawn by hypothesis."""
    report = Report(f"{case.name}, drawn calls")

    @_drawn_settings(case)
    @given(calls(case, _LARGEST_SPACE[DEVICE.type]))
    def each(call: Call) -> None:
        check_call(case, call, report)

    needs_kernels()
    each()
    report.settle()


def check_all(case: Case, purpose: str, made: Iterable[Call]) -> None:
    """The calls, one after the other, and what their bounds were worth."""
    needs_kernels()
    report = Report(f"{case.name}, {purpose}")
    count = 0
    first = zlib.crc32(f"{case.name} {purpose}".encode()) % _ONE_IN
    for number, call in enumerate(made):
        if number == 0 or number % _ONE_IN == first:
            check_call(case, call, report)
            count += 1
    assert count, f"{case.name}: no {purpose} fit what the op requires"
    report.settle()
