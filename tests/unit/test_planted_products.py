"""Rules know which faults in products change nothing, and leave others like them."""

import pytest

from tests.planted.equivalence import by_rule, unseen
from tests.planted.operators import sites

SOURCE = """
@triton.jit
def _own_formula(h, b, residual):
    t0 = tl.where(h > 0.0, h, tl.where(h < 0.0, 0.0, 0.0 * h))
    y = t0 + b + residual
    return y


@triton.jit
def _own_plain(y):
    '''`y` of own.'''
    return y


@triton.jit
def _own_write(h, b, residual, m, y_ptr, y_m, index_M_m, y_layout, index_M_layout, M_RANK):
    y = _own_formula(h, b, residual)
    z = _own_plain(y)
    at = along_m(m, index_M_m, index_M_layout, M_RANK)


@triton.jit
def _own_stream(
    left_tile_desc, w_tile_desc, left_ptr, w_ptr, y_ptr, m_size, b0, b1, m0,
    y_m0, y_m1, y_m2, y_n0, y_n1, y_n2, LEFT_TURNED, BATCHED, FORM, PROGRAMS
):
    for tile in tl.range(tl.program_id(0), m_size, PROGRAMS, flatten=True):
        left_tile = streamed_left(left_tile_desc, 0, tile, 0, LEFT_TURNED, BATCHED, FORM)
        w_tile = streamed_right(w_tile_desc, 0, tile, 0, LEFT_TURNED, BATCHED, FORM)
        at = along_m(tile, (y_m0, y_m1, y_m2), (y_n0, y_n1, y_n2))
        tl.store(y_ptr + at, left_tile + w_tile)


def _launch_own(via, launch, left, w, y):
    descriptors = launch.descriptors(via, (left,), (w,))
    via(_own_stream)[launch.programs](*descriptors, left, w, y, *launch.space)


_WALK = rt.ProductWalk(
    batch=(),
    m=("M",),
    n=("N",),
    k=("K",),
    accesses=(rt.Access("y", ("M", "N")), rt.Access(None, ("M",)), rt.Access("left", ("M", "K"))),
)

_ENTRY = rt.Entry(variants=(rt.Variant((), temporaries=(rt.Tensor("left", "T", ("M", "K")),)),))


def reference(h, s):
    t0 = torch.where(h > 1.0, h, 0.0 * h)
    return rt.eager.align(t0, ("...", "M", "N"), ("...", "N", "M"))
"""


def ruled(function: str, operator: str) -> dict[str, bool]:
    """Whether a rule says of each fault of an operator in a function that it is none."""
    return {
        f"{site.before} -> {site.after}": (by_rule(site) or unseen(site)) is not None
        for site in sites(SOURCE)
        if site.function == function and site.operator == operator
    }


def test_choices_at_zero() -> None:
    assert ruled("_own_formula", "comparison changed") == {
        "h > 0.0 -> h >= 0.0": True,
        "h < 0.0 -> h <= 0.0": True,
    }
    assert ruled("reference", "comparison changed") == {"h > 1.0 -> h >= 1.0": False}


def test_terms_of_a_sum_and_functions_that_give_back_what_they_take() -> None:
    found = ruled("_own_write", "arguments swapped")
    assert found["_own_formula(h, b, residual) -> _own_formula(h, residual, b)"]
    assert not found["_own_formula(h, b, residual) -> _own_formula(b, h, residual)"]
    assert ruled("_own_write", "function dropped")["_own_plain(y) -> y"]


def test_numbers_that_are_the_same() -> None:
    found = ruled("_own_write", "arguments swapped")
    call = "along_m(m, index_M_m, {}, {})"
    assert found[f"{call.format('index_M_layout', 'M_RANK')} -> {call.format('M_RANK', 'index_M_layout')}"]


def test_what_descriptors_read_has_one_dim_in_each_group() -> None:
    found = ruled("_own_stream", "stride dropped")
    assert found["(y_m0, y_m1, y_m2) -> (y_m0, 1, y_m2)"]
    assert not found["(y_m0, y_m1, y_m2) -> (1, y_m1, y_m2)"]
    assert not found["(y_n0, y_n1, y_n2) -> (1, y_n1, y_n2)"]


@pytest.mark.parametrize(("name", "is_ruled"), [("left", True), ("w", False)])
def test_what_another_kernel_leaves_is_never_turned(name: str, is_ruled: bool) -> None:
    found = ruled("_own_stream", "arguments swapped")
    exchanged = [
        rule for text, rule in found.items() if name in text and text.endswith("BATCHED, LEFT_TURNED, FORM)")
    ]
    assert exchanged == [is_ruled]


def test_loads_run_ahead_whatever_a_loop_says() -> None:
    assert ruled("_own_stream", "flag changed") == {"True -> False": True}


def test_a_kernel_that_descriptors_serve_reads_no_operand() -> None:
    found = ruled("_launch_own", "arguments swapped")
    call = "via(_own_stream)[launch.programs](*descriptors, {}, *launch.space)"
    plain = call.format("left, w, y")
    assert found[f"{plain} -> {call.format('w, left, y')}"]
    assert not found[f"{plain} -> {call.format('left, y, w')}"]


def test_two_dims_that_change_places() -> None:
    found = ruled("reference", "arguments swapped")
    exchanged = "rt.eager.align(t0, ('...', 'N', 'M'), ('...', 'M', 'N'))"
    assert [rule for text, rule in found.items() if text.endswith(f"-> {exchanged}")] == [True]
