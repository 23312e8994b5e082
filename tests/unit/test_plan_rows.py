"""Plans of row kernels: what hints ask of them, what is told of them, and lengths that have a band of their own."""

from dataclasses import asdict
from pathlib import Path

import pytest

from generated._rows import RowConfig as Runtime
from generated._rows import RowConfigs, choose_tile
from opgen.plan.model import RowConfig, RowPlan
from opgen.plan.op import plan_op
from opgen.plan.pretty import format_plan
from opgen.targets import TARGETS
from tests.lowering import lowered

SPEC = "op f(x: T[M, C]) -> y: T[M, C] {{ y = softmax[C](x) {hints} }}"


def configs(hints: str, target: str = "sm_90", spec: str = SPEC) -> tuple[RowConfig, ...]:
    (op,) = lowered(spec.format(hints=hints)).ops
    (plan,) = plan_op(op, (TARGETS[target],))
    (kernel,) = plan.kernels
    assert isinstance(kernel, RowPlan)
    return kernel.configs


@pytest.mark.parametrize(
    ("hints", "key", "value"),
    [
        ("M = 4", "rows", 4),
        ("C = 256", "columns", 256),
        ("C = 8192", "piece_columns", 8192),
        ("warps = 16", "warps", 16),
        ("warps = 16", "piece_warps", 16),
        ("stages = 3", "stages", 3),
        ("persistent = false", "programs", 0),
    ],
)
def test_a_hint_is_met_by_every_way_to_walk_rows(hints: str, key: str, value: int) -> None:
    for config in configs(f"tile {{ {hints} }}"):
        parts = (config,) if key.startswith("piece_") else (*config.along, *config.across)
        assert {getattr(part, key) for part in parts} == {value}


def test_programs_stay_where_that_is_asked_for() -> None:
    for config in configs("tile { persistent = true }"):
        assert all(band.programs > 0 for band in (*config.along, *config.across))


def test_hints_that_leave_the_choice_change_nothing() -> None:
    hints = "tile { persistent = true | false, split = 1, tma = false, precision = tf32, strategy = fused }"
    assert configs(hints) == configs("")


@pytest.mark.parametrize("name", ["rms_norm", "softmax", "layer_norm", "add_rms_norm", "group_norm"])
@pytest.mark.parametrize("target", ["sm_90", "sm_86", "gfx942"])
def test_the_plan_is_told_as_rows_are_walked(name: str, target: str) -> None:
    """A band's text says "in a loop" where its longest rows are no whole tile, and "whole" where they are."""
    (op,) = lowered(Path(f"specs/{name}.op").read_text()).ops
    (plan,) = plan_op(op, (TARGETS[target],))
    (kernel,) = plan.kernels
    assert isinstance(kernel, RowPlan)
    told = [
        line
        for line in format_plan(plan).splitlines()
        if " columns, whole" in line or " columns, in a loop" in line
    ]
    for config in kernel.configs:
        along, across = (
            tuple(Runtime(**asdict(band)) for band in bands) for bands in (config.along, config.across)
        )
        table = RowConfigs(along, across, config.split)
        bands = [*((band, False) for band in config.along), *((band, True) for band in config.across)]
        for band, is_across in bands:
            if band.longest:
                columns = band.longest - (not band.exact and _is_exact(config, band.longest))
                tile = choose_tile(table, 2**20, columns, is_across, 132)
                assert (tile.strategy == "resident") == ("whole" in told.pop(0)), (name, band)
    assert not told


def _is_exact(config: RowConfig, columns: int) -> bool:
    return any(band.exact and band.longest == columns for band in config.along)


def test_exact_lengths_alone_take_their_band() -> None:
    (_, f32) = configs("")
    exact = next(band for band in f32.along if band.exact)
    serving = [next(band for band in f32.along if band.serves(exact.longest + step)) for step in (-1, 0, 1)]
    assert [band.exact for band in serving] == [False, True, False]


def test_a_target_of_its_own_wins_key_by_key() -> None:
    hints = "tile { warps = 4, stages = 2 } tile for sm_90 { warps = 8 }"
    assert {(band.warps, band.stages) for one in configs(hints) for band in one.along} == {(8, 2)}
    assert {(band.warps, band.stages) for one in configs(hints, "gfx942") for band in one.along} == {(4, 2)}


@pytest.mark.parametrize(
    ("rows", "columns", "warps"), [(264, 4096, 32), (265, 4096, 4), (1, 1500, 4), (1, 8192, 8)]
)
def test_few_rows_have_more_warps(rows: int, columns: int, warps: int) -> None:
    config = configs("")[0]
    along = tuple(Runtime(**asdict(band)) for band in config.along)
    assert choose_tile(RowConfigs(along, (), config.split), rows, columns, False, 132).warps == warps


@pytest.mark.parametrize(
    ("rows", "columns", "strategy", "splits"),
    [
        (16384, 200, "resident", 1),
        (16384, 5000, "looped", 1),
        (4096, 16384, "split", 4),
        (1024, 4096, "split", 8),
        (1024, 1025, "split", 2),
        (8, 2**20, "split", 256),
        (0, 5000, "split", 9),
    ],
)
def test_long_rows_across_memory_are_cut_until_all_multiprocessors_are_busy(
    rows: int, columns: int, strategy: str, splits: int
) -> None:
    """No piece is shorter than 512 columns, and no program joins more than 32 numbers of a thread; few rows have tiles
    of few."""
    config = configs("")[0]
    across = tuple(Runtime(**asdict(band)) for band in config.across)
    tile = choose_tile(RowConfigs((), across, config.split), rows, columns, True, 132)
    assert (tile.strategy, tile.splits) == (strategy, splits)


@pytest.mark.parametrize(
    ("rows", "columns", "strategy", "tile", "warps"),
    [
        (4096, 1024, "resident", 1024, 1),
        (4096, 8192, "looped", 2048, 4),
        (4096, 50257, "looped", 2048, 8),
        (4096, 128256, "looped", 4096, 16),
        (1056, 50257, "looped", 8192, 32),  # too few to fill multiprocessors with small tiles
        (1057, 50257, "looped", 2048, 8),
        (33, 128256, "split", 4096, 8),
    ],
)
def test_rows_that_are_read_once_have_small_tiles(
    rows: int, columns: int, strategy: str, tile: int, warps: int
) -> None:
    config = configs("", spec="op f(x: bf16[M, C]) -> y: f32[M] {{ y = logsumexp[C](x) {hints} }}")[0]
    along = tuple(Runtime(**asdict(band)) for band in config.along)
    found = choose_tile(RowConfigs(along, (), config.split), rows, columns, False, 132)
    assert (found.strategy, found.columns, found.warps) == (strategy, tile, warps)


@pytest.mark.parametrize(
    ("target", "formula", "elements"),
    [
        ("sm_90", "x - mean[C](x)", 4096),
        ("sm_90", "softmax[C](x)", 2048),  # each tile rescales the sums
        ("sm_90", "(x - mean[C](x)) * z", 4096),
        ("sm_86", "(x - mean[C](x)) * z", 2048),  # of two tensors, four of the largest tiles have no room
    ],
)
def test_long_rows_across_memory_have_large_tiles_where_these_have_room(
    target: str, formula: str, elements: int
) -> None:
    spec = f"op f(x: f32[M, C], z: f32[M, C]) -> y: f32[M, C] {{{{ y = {formula} + 0 * z {{hints}} }}}}"
    (config,) = configs("", target, spec if "z" in formula else spec.replace(" + 0 * z", ""))
    assert config.across[-1].elements == elements
