"""The product planner: its space, what fits each target, its bands, and hints that cannot be met."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from opgen.diagnostics import SpecError
from opgen.pipeline import Build, compile_specs
from opgen.plan.model import BEYOND, ProductConfig, ProductPlan
from opgen.plan.pretty import format_plan
from opgen.plan.product_bands import SHORT, fitting_configs
from opgen.plan.product_budget import Work, excess, reserved_bytes, shared_bytes
from opgen.plan.product_hints import Narrowed
from opgen.plan.product_space import SPACE, configs
from opgen.plan.products import works_by_class
from opgen.source import Source
from opgen.targets import TARGETS

LINEAR = "op linear(x: T[..., K], w: T[N, K], b: T[N] = 0) -> y: T[..., N] {{ y = silu(x @ w + b) {hints} }}"
HALF = Work("half", 2, 2, 2, 4, 2)
#: bf16 rows, multiplied exactly with f32 columns.
WIDENED = Work("f32", 4, 6, 4, 4, 4, 1, True, left_copy=4)


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


def test_small_tiles_of_asynchronous_targets_have_one_buffer_less() -> None:
    """The matrix unit of sm_90 and sm_100 takes 64 rows or more; smaller tiles are multiplied as on sm_80."""
    tall, flat = (ProductConfig((rows, 64, 64), 4, 5) for rows in (64, 32))
    for name in ("sm_90", "sm_100"):
        assert shared_bytes(tall, HALF, TARGETS[name]) >= 5 * (64 + 64) * 64 * 2
        assert 0 <= shared_bytes(flat, HALF, TARGETS[name]) - 4 * (32 + 64) * 64 * 2 <= 1024
        assert shared_bytes(replace(flat, form="swapped"), HALF, TARGETS[name]) > 5 * (32 + 64) * 64 * 2


def test_what_the_search_sets_aside_is_no_less_than_what_is_taken() -> None:
    computed = Work("half", 2, 6, 2, 4, 2, 1, True, left_copy=2, tile_bytes=4)
    for work, target in itertools.product((HALF, WIDENED, computed), TARGETS.values()):
        for config in configs(SPACE, work.width):
            assert reserved_bytes(config, work, target) >= shared_bytes(config, work, target)


def test_exact_products_of_widened_operands_keep_off_the_unit_that_rounds() -> None:
    """Triton 3.7.1 multiplies f32 in tf32 on sm_100 where an operand was widened and a tile has 64 rows or more."""

    def rows_down(work: Work, target: str) -> int:
        fitting, _ = fitting_configs(work, TARGETS[target], Narrowed())
        tiles = [one.config for one in fitting if one.config.form in ("dot", "swapped")]
        return max(one.tile[one.form == "swapped"] for one in tiles)

    assert rows_down(WIDENED, "sm_100") < 64 <= rows_down(WIDENED, "sm_90")
    assert rows_down(replace(WIDENED, left_copy=0, left_bytes=4), "sm_100") >= 64


def test_all_buffers_fit_where_later_releases_hold_them() -> None:
    """Triton 3.8 holds all of a loop's buffers on gfx950, and gaps between them; 3.7.1 one less."""
    target = TARGETS["gfx950"]
    fitting, _ = fitting_configs(HALF, target, Narrowed())
    tiles = [one.config for one in fitting if one.config.form in ("dot", "swapped")]
    taken = [(one.tile[0] + one.tile[1]) * one.tile[2] * HALF.width * one.stages for one in tiles]
    assert target.shared_bytes // 2 < max(taken) * 33 // 32 <= target.shared_bytes


def test_waves_of_one_simd_share_its_registers() -> None:
    """Two products of 256x256 hold 256 sums in each lane of 8 waves, of which two share 512 registers."""
    twice = replace(HALF, right_bytes=4, products=2)
    tile = ProductConfig((256, 256, 32), 8, 3)
    over = excess(tile, twice, TARGETS["gfx950"])
    assert over is not None
    assert (over.reason, over.limit < 256) == ("registers of a thread", True)
    assert excess(tile, HALF, TARGETS["gfx950"]) is None


def test_every_target_has_a_config_for_every_shape() -> None:
    for kernel in plans(LINEAR.format(hints="")).values():
        assert {one.name for one in kernel.classes} == {"half", "f32"}
        for one in kernel.classes:
            assert (one.bands[-1].m, one.bands[-1].n) == (BEYOND, BEYOND)
            ends = [(band.m, band.k, band.n) for band in one.bands]
            assert ends == sorted(ends)  # the first that a shape lies in is the narrowest
            assert all((m, k, BEYOND) in ends and (m, BEYOND, BEYOND) in ends for m, k, _ in ends)


def test_short_sums_have_bands_of_their_own() -> None:
    """On sm_90 many rows of a short k are not cut into pieces, and take tiles with small steps."""
    for target, kernel in plans(LINEAR.format(hints="")).items():
        (half,) = (one for one in kernel.classes if one.name == "half")
        short = [band for band in half.bands if band.k < BEYOND]
        assert (target == "sm_90") == bool(short)  # where they were measured
        assert all(band.m >= 128 and band.configs[0][0].split == 1 for band in short)
    (half, _) = plans(LINEAR.format(hints=""), "sm_90")["sm_90"].classes
    last = next(band for band in half.bands if band.m == BEYOND)
    assert (last.k, last.configs[0][0].strategy) == (SHORT, "pointers")


def test_loads_of_each_step_are_counted() -> None:
    """Gathered elements are loaded and multiplied; positions of rows and scales of rows are loaded once."""
    text = (
        "op gathered(t: f16[V, K], i: i64[M], w: f16[E, N, K], e: i32[], s: f32[M]) -> y: f16[M, N] {\n"
        "  y = cast(t[V: i] * s, f16) @ w[E: e] }"
    )
    (op,) = build(text, "sm_90").specs[0].ops
    (kernel,) = op.plans[0].kernels
    assert isinstance(kernel, ProductPlan)
    (work,) = works_by_class(op.ir, kernel.parts, kernel.products)
    assert (work.left_bytes, work.left_copy) == (2 + 2, 2)
    assert (work.right_bytes, work.right_copy) == (2 + 2, 2)


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


def test_halves_take_the_vendor_whatever_the_precision_of_f32() -> None:
    hints = "tile { strategy = library, precision = tf32 }"
    half, single = plans(LINEAR.format(hints=hints), "sm_90")["sm_90"].classes
    assert all(band.configs[0][0].strategy == "library" for band in half.bands)
    assert all(band.configs[0][0].precision == "tf32" for band in single.bands)


def test_a_block_is_of_the_dim_or_of_its_multiple() -> None:
    text = "op doubled(x: f16[M, 2 * K], w: f16[N, 2 * K]) -> y: f16[M, N] {{ y = x @ w {hints} }}"
    (half,) = plans(text.format(hints="tile { K = 32 }"), "sm_90")["sm_90"].classes
    assert {band.configs[0][0].tile[2] for band in half.bands} == {32}


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
