"""The rules by which arguments may change places, and sizes and numbers be given otherwise."""

from tests.planted.equivalence import by_results, by_rule
from tests.planted.operators import Site, sites

SYMMETRIC = "the function that is called is symmetric in the two arguments"
ONE_SIZE = "both arguments are of the size of one dim"
INSIDE = (
    "all results are the same: no call computes a position outside, so that nothing ever stands in for what is "
    "read there"
)
WIDENED = (
    "all results are the same: the narrower type has the number, and the operand that it meets widens it"
)

ADDED = """
@triton.jit
def _f_formula(x, bias):
    return gelu(x + bias)

@triton.jit
def _f_dense(x_ptr, bias_ptr, y_ptr, numel, WIDE: tl.constexpr, BLOCK: tl.constexpr):
    program = tl.program_id(0)
    if WIDE:
        program = program.to(tl.int64)
    at = program * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < numel).to(tl.float32)
    bias = tl.load(bias_ptr + at, mask=at < numel).to(tl.float32)
    tl.store(y_ptr + at, _f_formula(x, bias), mask=at < numel)

def _launch_f(via, launch, sizes, x, bias, y):
    via(_f_dense)[launch.grid](x, bias, y, launch.numel, WIDE=launch.wide)
"""

GATHERED = """
def _launch_f(via, launch, sizes, x, w, y):
    via(_f_strided)[launch.grid](
        x, rt.in_units(x.size(-1)), *launch.space, rt.unit(sizes["D"]), rt.unit(x.size(-1)), rt.unit(w.size(-1))
    )

_OPERATOR = rt.Operator(
    inputs=(rt.Tensor("x", "T", ("...", "D")), rt.Tensor("w", "T", ("...", "D / 2"))),
)
"""

LEFT_OUT = """
@triton.jit
def _f_write(product, b, n):
    tl.store(y_ptr + n, product + b)

@triton.jit
def _f_finish(b_ptr, y_ptr, n):
    if b_ptr is None:
        b = tl.full([], 0.0, tl.float32)
    else:
        b = tl.load(b_ptr + n).to(tl.float32)
    _f_write(partial_sum(y_ptr), b, n)
"""


def swapped(source: str) -> dict[str, str | None]:
    """What the rules say of each pair of neighbouring arguments of a launch, by what comes out."""
    return {
        site.after: by_rule(site)
        for site in sites(source)
        if site.operator == "arguments swapped" and site.function == "_launch_f"
    }


def of(source: str, operator: str, before: str) -> list[Site]:
    return [site for site in sites(source) if site.operator == operator and site.before.endswith(before)]


def test_tensors_that_a_kernel_adds_may_change_places() -> None:
    found = swapped(ADDED)
    launched = "via(_f_dense)[launch.grid]"
    end = "launch.numel, WIDE=launch.wide)"
    assert found[f"{launched}(bias, x, y, {end}"] == SYMMETRIC
    assert found[f"{launched}(x, y, bias, {end}"] is None
    assert {*swapped(ADDED.replace("x + bias", "x - bias")).values()} == {None}
    assert {*swapped(ADDED.replace("bias_ptr + at", "bias_ptr + 2 * at")).values()} == {None}


def test_what_is_read_after_a_store_may_not() -> None:
    stored = ADDED.replace("    bias = ", "    tl.store(x_ptr + at, x)\n    bias = ")
    assert {*swapped(stored).values()} == {None}


def test_what_is_computed_from_other_figures_may_not() -> None:
    moved = ADDED.replace("    bias = ", "    at = at + 1\n    bias = ")
    assert {*swapped(moved).values()} == {None}


def test_a_size_by_its_name_and_by_a_tensor_may_change_places() -> None:
    assert list(swapped(GATHERED).values()).count(ONE_SIZE) == 1
    assert ONE_SIZE not in swapped(GATHERED.replace('sizes["D"]', 'sizes["E"]')).values()


def test_a_limit_may_be_larger_where_results_are_the_same() -> None:
    found = of(GATHERED, "function dropped", "rt.in_units(x.size(-1))")
    assert {by_results(site) for site in found} == {INSIDE}
    stride = GATHERED.replace("rt.in_units(x.size(-1))", "rt.in_units(x.stride(-1))")
    assert {by_results(site) for site in of(stride, "function dropped", "x.stride(-1))")} == {None}


def test_a_number_is_followed_into_the_function_that_takes_it() -> None:
    full = LEFT_OUT.replace(".to(tl.float32)", "")
    assert {by_results(site) for site in of(full, "type narrowed", "tl.float32")} == {WIDENED}
    alone = full.replace("product + b", "b")
    assert {by_results(site) for site in of(alone, "type narrowed", "tl.float32")} == {None}
    rounded = full.replace("0.0", "0.1")
    assert {by_results(site) for site in of(rounded, "type narrowed", "tl.float32")} == {None}
