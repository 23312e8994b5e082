"""The operators for kernels that loop find their sites, and rules know which coordinates an op has."""

import ast

import pytest

from tests.planted.equivalence import by_rule, unseen
from tests.planted.operators import Site, sites

SOURCE = """
@triton.jit
def _sum_looped(x_ptr, y_ptr, n_rows, n_cols, m1, m2, y_s0, x_s4, x_s5, x_s6, COLUMNS: tl.constexpr):
    for row in range(tl.program_id(0), n_rows):
        total = tl.full((COLUMNS,), float("-inf"), tl.float32)
        for start in tl.range(0, n_cols, COLUMNS):
            col_mask = start + tl.arange(0, COLUMNS) < n_cols
            row_mask = col_mask == col_mask
            col_at = col_coordinates(start, m1, m2, 1, 1)
            x = tl.load(x_ptr + col_offsets(col_at, (x_s4, x_s5, x_s6)), mask=tile_mask(row_mask, col_mask))
            total = step_sum(total, x, col_mask)
        total, other = merge_sum(total)
        y = tl.where(row_mask, rsqrt(total + eps), 0.0)
        tl.store(y_ptr + row * y_s0, tl.minimum(y, n_cols), mask=row_mask & col_mask)


_WALK = rt.RowWalk(kept=("...",), reduced=("C",), accesses=())
"""

FOUND = list(sites(SOURCE))


def found(operator: str) -> list[tuple[str, str]]:
    return [(site.before, site.after) for site in FOUND if site.operator == operator]


@pytest.mark.parametrize(
    ("operator", "expected"),
    [
        (
            "mask made true",
            [
                ("row_mask", "row_mask == row_mask"),
                ("col_mask", "col_mask == col_mask"),
                ("col_mask", "col_mask == col_mask"),
                ("row_mask", "row_mask == row_mask"),
            ],
        ),
        ("neutral element changed", [("float('-inf')", "0.0")]),
        ("function exchanged", [("tl.minimum(y, n_cols)", "tl.maximum(y, n_cols)")]),
        ("bound dropped", [("tl.minimum(y, n_cols)", "y"), ("tl.minimum(y, n_cols)", "n_cols")]),
        ("choice dropped", [("tl.where(row_mask, rsqrt(total + eps), 0.0)", "rsqrt(total + eps)")]),
        ("term moved", [("rsqrt(total + eps)", "rsqrt(total) + eps")]),
        ("type narrowed", [("tl.float32", "tl.float16")]),
        (
            "loop shortened",
            [
                ("range(tl.program_id(0), n_rows)", "range(tl.program_id(0) + 1, n_rows, 1)"),
                ("range(tl.program_id(0), n_rows)", "range(tl.program_id(0), n_rows - 1, 1)"),
                ("tl.range(0, n_cols, COLUMNS)", "tl.range(0 + COLUMNS, n_cols, COLUMNS)"),
                ("tl.range(0, n_cols, COLUMNS)", "tl.range(0, n_cols - COLUMNS, COLUMNS)"),
            ],
        ),
        ("update dropped", [("total = step_sum(total, x, col_mask)", "pass")]),
        ("results swapped", [("total, other = merge_sum(total)", "other, total = merge_sum(total)")]),
    ],
)
def test_sites(operator: str, expected: list[tuple[str, str]]) -> None:
    assert found(operator) == expected


def test_masks_are_exchanged_for_each_other_where_that_drops_no_side() -> None:
    assert set(found("mask exchanged")) == {("row_mask", "col_mask"), ("col_mask", "row_mask")}
    stored = [site for site in FOUND if site.operator == "mask exchanged" and "tl.store" in site.statement]
    assert stored == []


def body(site: Site) -> list[ast.stmt]:
    (function,) = ast.parse(site.function_text).body
    assert isinstance(function, ast.FunctionDef)
    (loop,) = function.body
    assert isinstance(loop, ast.For)
    return loop.body


def test_statements_move_across_the_end_of_a_loop() -> None:
    (repeated,) = (site for site in FOUND if site.operator == "repeated in the loop")
    inner = body(repeated)[1]
    assert isinstance(inner, ast.For)
    assert ast.unparse(inner.body[-1]) == ast.unparse(body(repeated)[2]) == "total, other = merge_sum(total)"
    moved = next(site for site in FOUND if site.operator == "moved out of the loop" and site.line > 2)
    outside = body(moved)[1]
    assert isinstance(outside, ast.If)
    assert ast.unparse(outside.body[-1]) == "total = step_sum(total, x, col_mask)"


def test_coordinates_that_an_op_lacks_are_no_fault() -> None:
    swaps = {
        site.after: by_rule(site)
        for site in FOUND
        if site.operator in ("strides swapped", "arguments swapped")
    }
    why = "the op has too few dims there for kernels to read it"
    assert swaps["(x_s4, x_s6, x_s5)"] == swaps["col_coordinates(start, m2, m1, 1, 1)"] == why
    assert swaps["(x_s5, x_s4, x_s6)"] is swaps["col_coordinates(m1, start, m2, 1, 1)"] is None
    wider = list(sites(SOURCE.replace('("C",)', '("H", "W")')))
    reasons = {
        site.after: by_rule(site)
        for site in wider
        if site.operator == "stride dropped" and "x_s" in site.before
    }
    assert reasons == {"(1, x_s5, x_s6)": None, "(x_s4, 1, x_s6)": why, "(x_s4, x_s5, 1)": None}


def test_what_compiled_kernels_alone_run_is_unseen() -> None:
    source = "def f(x):\n    if INTERPRETED:\n        return x + 1\n    else:\n        return x + 2\n"
    reasons = {site.before: unseen(site) for site in sites(source) if site.operator == "constant changed"}
    assert reasons == {"1": None, "2": "compiled kernels alone run it"}
