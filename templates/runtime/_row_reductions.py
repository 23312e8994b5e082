"""Device functions of reductions along the columns of a tile.

A reduction is written in three ways. `row_KIND` reduces a tile that holds whole rows. `step_KIND` adds a tile to what
each lane has gathered so far, and `merge_KIND` joins the lanes. Lanes outside of the row (`mask` false) count as
nothing. Results are `[ROWS, 1]`. NaN wins where one meets it, and the first of equal values does.
"""

import triton
import triton.language as tl

from ._math import log
from ._math_exact import maximum, minimum
from ._math_parts import INTERPRETED


@triton.jit
def lowest(dtype: tl.constexpr):
    """The number of a type that no other is below."""
    if dtype.is_floating():
        return tl.full([], float("-inf"), dtype)
    else:
        return tl.full([], -(2 ** (dtype.primitive_bitwidth - 1)), dtype)


@triton.jit
def highest(dtype: tl.constexpr):
    """The number of a type that no other is above."""
    if dtype.is_floating():
        return tl.full([], float("inf"), dtype)
    else:
        return tl.full([], 2 ** (dtype.primitive_bitwidth - 1) - 1, dtype)


@triton.jit
def lane_counts(first, last, COLUMNS: tl.constexpr):
    """How many columns of `first` to `last` each lane sees, `[1, COLUMNS]`."""
    lanes = tl.arange(0, COLUMNS)[None, :]
    return (last - first - lanes + (COLUMNS - 1)) // COLUMNS


# --- sums and products ----------------------------------------------------------------------------


@triton.jit
def merge_sum(lanes):
    return tl.sum(lanes, axis=1, keep_dims=True)


@triton.jit
def step_sum(lanes, term, mask):
    return lanes + tl.where(mask, term, 0)


@triton.jit
def row_sum(term, mask):
    """The sum of a row's terms."""
    return merge_sum(tl.where(mask, term, 0))


@triton.jit
def mean_of(total, count):
    """A sum as the mean of `count` terms; NaN for none."""
    return total / tl.cast(count, total.dtype)


@triton.jit
def _times(x, y):
    return x * y


@triton.jit
def merge_prod(lanes):
    if INTERPRETED:  # which takes a combining function element by element
        while lanes.shape[1] > 1:
            left, right = tl.split(tl.reshape(lanes, (lanes.shape[0], lanes.shape[1] // 2, 2)))
            lanes = left * right
        return lanes
    else:
        return tl.reduce(lanes, 1, _times, keep_dims=True)


@triton.jit
def step_prod(lanes, term, mask):
    return tl.where(mask, lanes * term, lanes)


@triton.jit
def row_prod(term, mask):
    """The product of a row's terms."""
    return merge_prod(tl.where(mask, term, 1))


# --- the least and the largest --------------------------------------------------------------------


@triton.jit
def _any_nan(lanes):
    return tl.max((lanes != lanes).to(tl.int32), axis=1, keep_dims=True) != 0


@triton.jit
def merge_max(lanes):
    if INTERPRETED:
        largest = tl.max(tl.where(lanes == lanes, lanes, lowest(lanes.dtype)), axis=1, keep_dims=True)
        if lanes.dtype.is_floating():
            largest = tl.where(_any_nan(lanes), float("nan"), largest)
        return largest
    else:
        return tl.reduce(lanes, 1, maximum, keep_dims=True)


@triton.jit
def step_max(lanes, term, mask):
    return tl.where(mask, maximum(lanes, term), lanes)


@triton.jit
def row_max(term, mask):
    """The largest of a row's terms."""
    return merge_max(tl.where(mask, term, lowest(term.dtype)))


@triton.jit
def merge_min(lanes):
    if INTERPRETED:
        least = tl.min(tl.where(lanes == lanes, lanes, highest(lanes.dtype)), axis=1, keep_dims=True)
        if lanes.dtype.is_floating():
            least = tl.where(_any_nan(lanes), float("nan"), least)
        return least
    else:
        return tl.reduce(lanes, 1, minimum, keep_dims=True)


@triton.jit
def step_min(lanes, term, mask):
    return tl.where(mask, minimum(lanes, term), lanes)


@triton.jit
def row_min(term, mask):
    """The least of a row's terms."""
    return merge_min(tl.where(mask, term, highest(term.dtype)))


# --- conditions -----------------------------------------------------------------------------------


@triton.jit
def merge_any(lanes):
    return tl.max(lanes.to(tl.int32), axis=1, keep_dims=True) != 0


@triton.jit
def step_any(lanes, term, mask):
    return lanes | (mask & term)


@triton.jit
def row_any(term, mask):
    """Whether some of a row's terms is true."""
    return merge_any(mask & term)


@triton.jit
def merge_all(lanes):
    return tl.min(lanes.to(tl.int32), axis=1, keep_dims=True) != 0


@triton.jit
def step_all(lanes, term, mask):
    return lanes & (term | (mask == 0))


@triton.jit
def row_all(term, mask):
    """Whether all of a row's terms are true."""
    return merge_all((mask == 0) | term)


# --- positions ------------------------------------------------------------------------------------


@triton.jit
def _takes_place(better, term, best, position, place):
    """Whether a lane takes a term: a better one, the first NaN, or its first of all, as positions ascend."""
    return ((better | (term != term)) & (best == best)) | (position < place)


@triton.jit
def step_argmax(best, place, term, position, mask):
    """The largest terms so far and their first positions."""
    takes = mask & _takes_place(term > best, term, best, position, place)
    return tl.where(takes, term, best), tl.where(takes, position.to(tl.int64), place)


@triton.jit
def merge_argmax(best, place):
    largest = merge_max(best)
    wins = (best == largest) | (best != best)
    return largest, tl.min(tl.where(wins, place, highest(tl.int64)), axis=1, keep_dims=True)


@triton.jit
def row_argmax(term, position, mask):
    """The largest of a row's terms and its first position."""
    # Lanes outside tie with a row that holds the least number alone, whose first position is before theirs.
    return merge_argmax(tl.where(mask, term, lowest(term.dtype)), position.to(tl.int64))


@triton.jit
def step_argmin(best, place, term, position, mask):
    """The least terms so far and their first positions."""
    takes = mask & _takes_place(term < best, term, best, position, place)
    return tl.where(takes, term, best), tl.where(takes, position.to(tl.int64), place)


@triton.jit
def merge_argmin(best, place):
    least = merge_min(best)
    wins = (best == least) | (best != best)
    return least, tl.min(tl.where(wins, place, highest(tl.int64)), axis=1, keep_dims=True)


@triton.jit
def row_argmin(term, position, mask):
    """The least of a row's terms and its first position."""
    # Lanes outside tie with a row that holds the largest number alone, whose first position is before theirs.
    return merge_argmin(tl.where(mask, term, highest(term.dtype)), position.to(tl.int64))


# --- squared distances from the mean --------------------------------------------------------------


@triton.jit
def step_squares(mean, squares, term, mask, seen):
    """Welford's recurrence: the means of the terms so far, and the sums of their squared distances from it.

    A lane has seen `seen` terms, this one included.
    """
    away = term - mean
    moved = mean + away * (1.0 / tl.cast(seen, mean.dtype))
    return tl.where(mask, moved, mean), tl.where(mask, squares + away * (term - moved), squares)


@triton.jit
def merge_squares(count, mean, squares):
    """The same for all terms together, of lanes that have seen `count` terms each."""
    count = tl.cast(count, mean.dtype)
    total = merge_sum(count + tl.zeros_like(mean))
    centre = merge_sum(count * mean) / tl.where(total == 0.0, 1.0, total)
    away = tl.where(count == 0.0, 0.0, mean - centre)
    return centre, merge_sum(squares + count * (away * away))


@triton.jit
def row_squares(term, mask, count):
    """The sum of the squared distances of a row's `count` terms from their mean."""
    away = term - mean_of(row_sum(term, mask), count)
    return row_sum(away * away, mask)


# --- sums of exponentials -------------------------------------------------------------------------


@triton.jit
def _below(term, top):
    """e^(term - top) for what is summed with a term of 1, so that its error counts little where the term is far below.

    Against an infinite largest term it is e^term: no sum of these is finite and not zero.
    """
    away = term - tl.where(tl.abs(top) == float("inf"), 0.0, top)
    if away.dtype == tl.float64:
        return tl.exp(away)
    else:
        return tl.exp2(away * 1.4426950408889634)


@triton.jit
def step_exps(peak, total, term, mask):
    """The largest terms so far, and the sums of e^(term - largest): a lane takes four columns, or all of fewer."""
    term = tl.where(mask, term, float("-inf"))
    term = tl.reshape(term, (term.shape[0], peak.shape[1], term.shape[1] // peak.shape[1]))
    if INTERPRETED:
        largest = tl.max(term, axis=2) + 0.0 * tl.sum(tl.where(term != term, term, 0.0), axis=2)
    else:
        largest = tl.reduce(term, 2, maximum)
    top = maximum(peak, largest)
    return top, total * _below(peak, top) + tl.sum(_below(term, top[:, :, None]), axis=2)


@triton.jit
def merge_exps(peak, total):
    top = merge_max(peak)
    return top, merge_sum(total * _below(peak, top))


@triton.jit
def row_exps(term, mask):
    """The largest of a row's terms, and the sum of e^(term - largest)."""
    term = tl.where(mask, term, float("-inf"))
    top = merge_max(term)
    return top, merge_sum(_below(term, top))


@triton.jit
def log_of_exps(peak, total):
    """log(sum(e^term)), from the largest term and the sum of e^(term - largest)."""
    return peak + log(total)


@triton.jit
def exps_below(peak, total):
    """sum(e^(term - largest)); NaN where the largest is infinite, as the difference then is."""
    return tl.where(tl.abs(peak) < float("inf"), total, float("nan"))
