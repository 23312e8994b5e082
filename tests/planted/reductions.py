"""Faults in device functions of reductions that change nothing."""

from __future__ import annotations

from tests.planted.operators import Site

_COUNTS = "counts are whole numbers, and what stands in for a count of 0 is multiplied with it"
_NANS = "tl.sum(tl.where(term != term, term, 0.0), axis=2)"
_OF_NAN = "what is added is 0, or NaN where a term is"
_SPELLINGS = "e^x in either spelling, as exactly as its sum with a term of 1 needs it"

#: Why faults change nothing, by function, operator and what is written, or that and what is then; "" for anything.
_SAME = {
    ("merge_squares", "term dropped", "count + tl.zeros_like(mean)"): "all rows have as many terms",
    ("merge_squares", "constant changed", ""): _COUNTS,
    ("merge_squares", "operands swapped", "mean - centre"): "the difference is squared",
    ("row_squares", "operands swapped", ""): "the difference is squared",
    ("_below", "constant changed", "0.0"): (
        "no sum of e^term whose largest term is infinite is finite and not 0, with another such factor, either"
    ),
    ("step_exps", "constant changed", "0.0"): _OF_NAN,
    ("step_exps", "factor dropped", f"0.0 * {_NANS} -> {_NANS}"): _OF_NAN,
    ("_below", "branches swapped", ""): _SPELLINGS,
    ("_below", "comparison changed", "away.dtype == tl.float64"): _SPELLINGS,
}


def why_same(site: Site) -> str | None:
    """Why a fault changes nothing, or None."""
    texts = (f"{site.before} -> {site.after}", site.before, "")
    keys = ((site.function, site.operator, text) for text in texts)
    return next((_SAME[key] for key in keys if key in _SAME), None)
