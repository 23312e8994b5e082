"""The rules by which planted faults of kernels of rows, and of numbers, cannot change what is stored."""

import pytest

from tests.planted.equivalence import by_results, by_rule, unseen
from tests.planted.operators import Site, sites

ABSENT = "a row that is not there may have any values: they are not stored"
UNSTORED = "what the narrower mask leaves out is not stored"
SIZES = "absolute values are never below 0, and rows without any are refused"
OVERLAP = "pieces overlap: an element counts once, however often it is taken, and is stored as the same"
EARLY = "a compiled loop refuses lanes whose number changes; in the interpreter they come to the same"
WIDENED = (
    "all results are the same: the narrower type has the number, and the operand that it meets widens it"
)

SPLIT = """
@triton.jit
def _f_max0_terms(x):
    return tl.abs(x)

@triton.jit
def _f_split(x_ptr, w_ptr, y_ptr, max0_ptr, count, rows, splits, blocks):
    row_mask, col_mask = rows < n_rows, cols < count
    last = tl.minimum(first + blocks * COLUMNS, count)
    max0 = tl.full((ROWS, COLUMNS), float("-inf"), tl.float32)
    for start in tl.range(first, last, COLUMNS):
        mask = row_mask & col_mask
        x = tl.load(x_ptr + x_at, mask=mask)
        max0 = step_max(max0, _f_max0_terms(x), mask)
    max0 = merge_max(max0)
    w = tl.load(
        w_ptr + w_at, mask=col_mask, eviction_policy="evict_last"
    )
    tl.store(y_ptr + y_at, x * w / max0, mask=mask)

_OPERATOR = rt.Operator(nonempty=(rt.Nonempty("max", ("K",), "y"),))
"""

STRIDED = """
@triton.jit
def _f_strided(x_ptr, y_ptr):
    rows, cols, row_mask, col_mask = tile(n_rows, n_cols)
    mask = row_mask & col_mask
    x = tl.load(x_ptr + x_at, mask=mask_of(row_mask, col_mask, x_layout)).to(tl.float32)
    tl.store(y_ptr + y_at, x, mask=mask)
"""


def found(source: str, operator: str, before: str = "", after: str = "") -> list[Site]:
    return [
        site
        for site in sites(source)
        if site.operator == operator and before in ("", site.before) and after in ("", site.after)
    ]


def rules(source: str, operator: str, before: str = "", after: str = "") -> set[str | None]:
    return {by_rule(site) for site in found(source, operator, before, after)}


def exchanged(source: str, before: str, after: str) -> set[str | None]:
    """What the rules say of the masks that are read with."""
    read = [site for site in found(source, "mask exchanged", before, after) if "tl.load(" in site.statement]
    return {by_rule(site) for site in read}


def test_columns_may_be_read_for_the_rows_that_are_there() -> None:
    assert exchanged(SPLIT, "col_mask", "mask") == {ABSENT}
    assert exchanged(SPLIT, "col_mask", "row_mask") == {None}
    stored = SPLIT.replace("max0, mask=mask)", "max0, mask=col_mask)")
    assert exchanged(stored, "col_mask", "mask") == {None}


@pytest.mark.parametrize("before", ["row_mask", "col_mask"])
def test_elements_that_are_not_stored_need_not_be_read(before: str) -> None:
    assert exchanged(STRIDED, before, "mask") == {UNSTORED}
    wider = STRIDED.replace("x, mask=mask)", "x, mask=row_mask)")
    assert exchanged(wider, before, "mask") == {None}
    other = STRIDED.replace("mask_of(row_mask, col_mask, x_layout)", "any_of(row_mask, col_mask)")
    assert exchanged(other, before, "mask") == {None}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("", ""),
        ("return tl.abs(x)", "return x"),
        ("return tl.abs(x)", "return tl.abs(x) - 1.0"),
        ('nonempty=(rt.Nonempty("max", ("K",), "y"),)', ""),
        ("merge_max", "merge_sum"),
    ],
)
def test_the_largest_absolute_value_may_begin_at_zero(old: str, new: str) -> None:
    expected = None if old else SIZES
    assert rules(SPLIT.replace(old, new), "neutral element changed") == {expected}


def test_pieces_may_overlap_where_elements_count_once() -> None:
    assert rules(SPLIT, "bound dropped", "", "count") == {OVERLAP}
    assert rules(SPLIT, "bound dropped", "", "first + blocks * COLUMNS") == {None}
    assert rules(SPLIT.replace("merge_max", "merge_sum"), "bound dropped", "", "count") == {None}
    updated = SPLIT.replace("_OPERATOR = rt.Operator(", "_OPERATOR = rt.Operator(rt.Tensor(written=True), ")
    assert rules(updated, "bound dropped", "", "count") == {None}


@pytest.mark.parametrize(
    ("kind", "expected"), [("max", EARLY), ("all", EARLY), ("sum", None), ("argmax", None), ("prod", None)]
)
def test_lanes_may_be_joined_in_each_step_where_elements_count_once(kind: str, expected: str | None) -> None:
    source = SPLIT.replace("merge_max", f"merge_{kind}")
    (site,) = found(source, "repeated in the loop")
    assert unseen(site) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("tl.where(m, tl.full([], 1.0, tl.float32), tl.full([], 0.0, tl.float32))", WIDENED),
        ("torch.where(m, rt.eager.scalar(-float('inf'), torch.float32, device), x)", WIDENED),
        ("div(x, tl.full([], 448.0, tl.float32))", WIDENED),
        ("div(x, tl.full([], 0.1, tl.float32))", None),
        ("div(x, tl.full([], 1e6, tl.float32))", None),
        ("tl.where(m, tl.full([], 1.0, tl.float32), 0.0)", None),
        ("tl.sum(tl.full([], 1.0, tl.float32))", None),
        ("x + tl.full((ROWS, COLUMNS), 0.0, tl.float32)", None),
    ],
)
def test_numbers_may_have_a_narrower_type_beside_a_wider_operand(text: str, expected: str | None) -> None:
    narrowed = found(f"def terms(x, m):\n    return {text}\n", "type narrowed")
    assert {by_results(site) for site in narrowed} == {expected}


def test_names_of_numbers_must_meet_a_wider_operand_wherever_they_are_used() -> None:
    source = (
        "def reference(x, w):\n"
        "    if w is None:\n"
        "        w = rt.eager.full(1.0, torch.float32, ('C',), bound)\n"
        "    return x * w"
    )
    (site,) = found(source, "type narrowed")
    assert by_results(site) == WIDENED
    for other in ("w.sum()", "total(w)", "1.0 * w"):
        (site,) = found(f"{source} + ({other})", "type narrowed")
        assert by_results(site) is None


@pytest.mark.parametrize(
    ("stored", "expected"),
    [("rt.eager.cast(q, torch.float8_e4m3fn)", True), ("rt.eager.cast(q * 2, torch.float8_e4m3fn)", False)],
)
def test_f8_numbers_may_be_read_as_f16_if_they_are_only_converted_back(stored: str, expected: bool) -> None:
    source = (
        "def reference(x):\n"
        "    q = rt.eager.cast(x, torch.float8_e4m3fn).to(torch.float32)\n"
        f"    return {stored}"
    )
    (site,) = found(source, "type narrowed")
    why = "all results are the same: f16 has every number of f8, to which it is converted back"
    assert by_results(site) == (why if expected else None)


def test_updates_of_scalars_may_be_dropped_where_results_say_so() -> None:
    source = (
        "def reference(x, eps):\n    eps = rt.eager.scalar(eps, torch.float32, device)\n    return x + eps\n"
    )
    (site,) = found(source, "update dropped")
    why = "all results are the same: PyTorch takes a number beside a tensor in the tensor's type"
    assert by_results(site) == why


JOINED = """
@triton.jit
def _times(x, y):
    return x * y

@triton.jit
def _plus(x, y):
    return x + y

@triton.jit
def merge_prod(lanes):
    if INTERPRETED:
        return halved(lanes)
    else:
        return tl.reduce(_plus(lanes, 0), 1, _times)
    return _plus(lanes, lanes)
"""


def test_what_compiled_kernels_alone_call_is_unseen() -> None:
    dropped = {site.function: unseen(site) for site in found(JOINED, "factor dropped")}
    assert dropped == {"_times": "compiled kernels alone run it"}
    (plus, *_) = [site for site in found(JOINED, "term dropped") if site.function == "_plus"]
    assert unseen(plus) is None


def test_the_way_of_compiled_kernels_may_give_the_same() -> None:
    (swapped,) = found(JOINED, "branches swapped")
    assert by_results(swapped) == (
        "all results are the same: the interpreter then comes to the same by the way of compiled kernels"
    )


COUNTED = """
@triton.jit
def _f_sum1_terms(kept):
    return tl.where(kept, tl.full([], 1.0, tl.float32), tl.full([], 0.0, tl.float32))

@triton.jit
def _f_mean0_terms(x, mean):
    t0 = x - mean
    return t0 * t0

@triton.jit
def _f_y(sum1, other):
    return div(maximum(other, 1.0), maximum(sum1, 1.0))

@triton.jit
def _f_split(y_ptr, count):
    first = piece * blocks * COLUMNS
    mask = row_mask & col_mask
    sum1 = row_sum(_f_sum1_terms(kept), mask)
    mean0 = row_sum(_f_mean0_terms(x, mean), mask)
    mean_mean = tl.full((ROWS, COLUMNS), 0.0, tl.float32)
    mean_mean, mean_squares = merge_squares(counts, mean_mean, mean_squares)
    at = start - first
    tl.store(y_ptr + at, y, mask=row_mask & (piece == 0))

@triton.jit
def _f_looped(y_ptr, count):
    first = 0
    mask = row_mask & col_mask
    x = tl.load(x_ptr + at, mask=mask)
    at = start - first
    tl.store(y_ptr + at, y, mask=row_mask)
"""


def test_a_count_is_never_nan() -> None:
    by_operand = {
        site.before: by_rule(site) for site in found(COUNTED, "NaN flag dropped") if site.function == "_f_y"
    }
    assert by_operand == {"maximum(sum1, 1.0)": "a count is never NaN", "maximum(other, 1.0)": None}


def test_reductions_may_take_absent_rows_where_nothing_else_reads_their_mask() -> None:
    dropped = found(COUNTED, "term dropped", "row_mask & col_mask", "col_mask")
    assert {site.function: by_rule(site) for site in dropped} == {"_f_split": ABSENT, "_f_looped": None}


def test_the_first_column_is_0_where_a_program_has_all_of_a_row() -> None:
    dropped = found(COUNTED, "term dropped", "start - first", "start")
    expected = {"_f_split": None, "_f_looped": "the first column of a row is 0"}
    assert {site.function: by_rule(site) for site in dropped} == expected


def test_terms_that_are_squared_or_counted() -> None:
    square = "the difference is squared"
    assert rules(COUNTED, "operands swapped", "x - mean") == {square}
    assert rules(COUNTED, "arguments swapped", "_f_mean0_terms(x, mean)") == {square}
    counted = "all results are the same: a condition counts as 1, and as the mask of 1 just as well"
    (dropped,) = found(COUNTED, "function dropped", "_f_sum1_terms(kept)")
    assert by_results(dropped) == counted
    swapped = found(COUNTED, "arguments swapped")
    sums = {site.before: by_results(site) for site in swapped if site.before.startswith("row_sum(")}
    assert sums == {
        "row_sum(_f_sum1_terms(kept), mask)": counted,
        "row_sum(_f_mean0_terms(x, mean), mask)": None,
    }


def test_the_mean_that_a_lane_begins_with_is_lost() -> None:
    begun = "the first term of a lane takes its place, and a lane or a piece without any counts as none"
    assert rules(COUNTED, "constant changed", "0.0") == {begun, None}


ALIKE = """
@triton.jit
def _f_formula(x, r, w):
    return (x + r) * w

def f(x, r, w):
    return _ENTRY.call(x, r, w)

_OPERATOR = rt.Operator(
    inputs=(rt.Tensor("x", "T", ("N",)), rt.Tensor("r", "T", ("N",)), rt.Tensor("w", "T", ("N",))),
)
"""


def test_tensors_between_which_no_formula_tells_may_change_places() -> None:
    swapped = {
        site.after: by_rule(site) for site in found(ALIKE, "arguments swapped", "_ENTRY.call(x, r, w)")
    }
    alike = "the two tensors are alike in type and dims, and in all formulas"
    assert swapped == {"_ENTRY.call(r, x, w)": alike, "_ENTRY.call(x, w, r)": None}


MIDDLE = """
def reference(x, w):
    return x.mean((-2, -1))

_OPERATOR = rt.Operator(inputs=(rt.Tensor("x", "T", ("N", "G", "D", "S")), rt.Tensor("w", "T", ("G",))))
"""


def test_the_middle_of_four_dims_is_counted_from_either_end() -> None:
    middle = "all results are the same: the tensors have as many dims before it as from it on"
    dropped = {site.before: by_results(site) for site in found(MIDDLE, "sign or negation dropped")}
    assert dropped == {"-2": middle, "-1": None}
    leading = MIDDLE.replace('"N", "G"', '"...", "G"')
    assert {by_results(site) for site in found(leading, "sign or negation dropped")} == {None}


BETWEEN = """
@triton.jit
def _f_0_resident(x_ptr, h_ptr):
    h_at = col_offsets(col_at, (h_s4, h_s5, h_s6), h_layout, COL_RANK)
    x_at = col_offsets(col_at, (x_s4, x_s5, x_s6), x_layout, COL_RANK)

_WALK_0 = rt.RowWalk(kept=("...",), reduced=("K",))
_ENTRY = rt.Entry(variants=(rt.Variant(kernels, temporaries=(rt.Tensor("h", "T", ("...", "K")),)),))
"""


def test_columns_of_a_tensor_between_kernels_lie_side_by_side() -> None:
    dropped = {site.after: by_rule(site) for site in found(BETWEEN, "stride dropped")}
    beyond = "the op has too few dims there for kernels to read it"
    assert dropped["(1, h_s5, h_s6)"] == dropped["(x_s4, 1, x_s6)"] == beyond
    assert dropped["(1, x_s5, x_s6)"] is None
