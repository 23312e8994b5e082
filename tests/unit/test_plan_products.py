"""The product planner: its space, what fits each target, its bands, and hints that cannot be met."""

from __future__ import annotations

import pytest

from opgen.diagnostics import SpecError
from opgen.pipeline import Build, compile_specs
from opgen.plan.model import BEYOND, ProductPlan
from opgen.plan.pretty import format_plan
from opgen.plan.product_budget import Work, excess, shared_bytes
from opgen.plan.product_hints import Narrowed
from opgen.plan.product_space import SPACE, configs
from opgen.plan.products import fitting_configs
from opgen.source import Source
from opgen.targets import TARGETS

LINEAR = "op linear(x: T[..., K], w: T[N, K], b: T[N] = 0) -> y: T[..., N] {{ y = silu(x @ w + b) {hints} }}"
HALF = Work("half", 2, 2, 2, 4, 2)


def build(text: str, *targets: str) -> Build:
    def read(path: str) -> Source:
        raise FileNotFoundError(path)

    return compile_specs([Source("spec.op", text)], targets=targets or tuple(TARGETS), read=read)


def plans(text: str, *targets: str) -> dict[str, ProductPlan]:
    (op,) = build(text, *targets).specs[0].ops
    found = {plan.target: plan.kernels[0] for plan in op.plans}
    return {target: kernel for target, kernel in found.items() if isinstance(kernel, ProductPlan)}


def test_the_space_is_large_and_has_each_config_once() -> None:
    found = list(configs(SPACE, 2))
    assert len(found) == len(set(found)) >= 300


@pytest.mark.parametrize("target", TARGETS.values(), ids=lambda target: target.name)
def test_what_fits_is_within_the_limits(target: object) -> None:
    own = TARGETS[target.name]  # type: ignore[attr-defined]
    fitting, rejected = fitting_configs(HALF, own, Narrowed())
    assert fitting
    for one in fitting:
        assert excess(one.config, HALF, own) is None
        assert shared_bytes(one.config, HALF, own) <= own.shared_bytes
    for found in rejected.values():
        assert all(over.figure > over.limit or over.reason.startswith("least") for _, over in found)


def test_shared_memory_is_what_was_measured() -> None:
    """The tile that asked for 213,116 bytes on sm_120, which has 101,376, is not offered there."""
    offered = {one.config.tile for one in fitting_configs(HALF, TARGETS["sm_120"], Narrowed())[0]}
    assert (128, 256, 64) not in offered
    assert (128, 256, 64) in {
        one.config.tile for one in fitting_configs(HALF, TARGETS["sm_90"], Narrowed())[0]
    }


def test_every_target_has_a_config_for_every_shape() -> None:
    for kernel in plans(LINEAR.format(hints="")).values():
        assert {one.name for one in kernel.classes} == {"half", "f32"}
        for one in kernel.classes:
            assert (one.bands[-1].m, one.bands[-1].n) == (BEYOND, BEYOND)
            ends = [(band.m, band.n) for band in one.bands]
            assert ends == sorted(ends)
            assert all(any(n == BEYOND for at, n in ends if at == m) for m, _ in ends)


def test_hints_narrow_the_space() -> None:
    hints = "tile for sm_90 { ... = 128, N = 256, K = 64, warps = 8, stages = 3 | 4, group = 8 }"
    (half, _) = plans(LINEAR.format(hints=hints), "sm_90")["sm_90"].classes
    for band in half.bands:
        config = band.configs[0][0]
        assert config.tile == (128, 256, 64)
        assert (config.warps, config.group) == (8, 8)
        assert config.stages in (3, 4)


def test_the_strategy_asked_for_is_taken() -> None:
    library = plans(LINEAR.format(hints="tile { strategy = library }"), "sm_90")["sm_90"]
    assert all(band.configs[0][0].strategy == "library" for one in library.classes for band in one.bands)
    fused = plans(LINEAR.format(hints="tile { strategy = fused }"), "sm_90")["sm_90"]
    assert not any(band.configs[0][0].strategy == "library" for one in fused.classes for band in one.bands)
    pointers = plans(LINEAR.format(hints="tile { tma = false }"), "sm_90")["sm_90"]
    assert not any(
        band.configs[0][0].strategy == "descriptors" for one in pointers.classes for band in one.bands
    )


def test_tf32_is_taken_where_the_target_has_it() -> None:
    found = plans(LINEAR.format(hints="tile { precision = tf32 }"), "sm_90", "gfx1100")
    precisions = {
        target: {
            band.configs[0][0].precision for one in kernel.classes for band in one.bands if one.name == "f32"
        }
        for target, kernel in found.items()
    }
    assert precisions["sm_90"] == {"tf32"}
    assert precisions["gfx1100"] == {"ieee"}


@pytest.mark.parametrize(
    ("hints", "target", "words"),
    [
        ("tile { ... = 256, N = 256, K = 128, warps = 8, stages = 6 }", "sm_89", ("on sm_89, which has",)),
        ("tile for sm_80 { tma = true }", "sm_80", ("sm_80 has no tensor descriptors",)),
        ("tile { warps = 64 }", "sm_90", ("64 warps are 2048 threads on sm_90, which has 1024",)),
    ],
)
def test_a_hint_that_no_type_can_meet_is_an_error_with_the_figure(
    hints: str, target: str, words: tuple[str, ...]
) -> None:
    with pytest.raises(SpecError) as caught:
        build(LINEAR.format(hints=hints), target)
    assert all(word in str(caught.value) for word in words)


def test_the_plan_prints_what_is_chosen_and_what_is_rejected() -> None:
    (op,) = build(LINEAR.format(hints=""), "sm_89").specs[0].ops
    text = format_plan(op.plans[0])
    for words in (
        "product over rows [...], columns [N], summed [K], stores y",
        "x by w, multiplied in T, summed in f32",
        "rejected for bytes of shared memory",
        "of 101376",
        "us predicted at",
    ):
        assert words in text
