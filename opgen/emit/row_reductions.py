"""How each kind of reduction is written: over rows in registers, over lanes in a loop, and over pieces of rows.

In a spelling, `{term}` is what is reduced and `{position}` where it stands; the names of the state stand for its parts.
"""

from __future__ import annotations

from dataclasses import dataclass

from opgen.dtypes import DTYPES, DType


@dataclass(frozen=True)
class Spelling:
    """One kind.

    `whole` gives the state, or just what `result` needs of it, of a row in registers; `step` and `merge` give it lane
    by lane and for all lanes, `join` for the pieces of a row. `state` names its parts, with what each begins with
    (`least`, `largest` or a number) and its type (empty for that of the term).
    """

    whole: str
    step: str
    merge: str
    result: str
    state: tuple[tuple[str, str, str], ...] = (("total", "0", ""),)
    whole_result: str = ""
    join: str = ""
    lanes: str = "COLUMNS"

    @property
    def is_own_state(self) -> bool:
        """Whether what a reduction gives is all of its state."""
        return len(self.state) == 1 and self.result == f"{{{self.state[0][0]}}}"


def _simple(kind: str, begin: str, dtype: str = "") -> Spelling:
    return Spelling(
        whole=f"row_{kind}({{term}}, mask)",
        step=f"step_{kind}({{total}}, {{term}}, mask)",
        merge=f"merge_{kind}({{total}})",
        result="{total}",
        state=(("total", begin, dtype),),
    )


def _position(kind: str, begin: str) -> Spelling:
    return Spelling(
        whole=f"row_{kind}({{term}}, {{position}}, mask)",
        step=f"step_{kind}({{best}}, {{place}}, {{term}}, {{position}}, mask)",
        merge=f"merge_{kind}({{best}}, {{place}})",
        result="{place}",
        state=(("best", begin, ""), ("place", "largest", "i64")),
    )


def _moments(result: str) -> Spelling:
    return Spelling(
        whole="row_squares({term}, mask, count)",
        whole_result=result,
        step="step_squares({mean}, {squares}, {term}, mask, (start - first) // COLUMNS + 1)",
        merge="merge_squares(lane_counts(first, last, COLUMNS), {mean}, {squares})",
        join="merge_squares(piece_counts(count, blocks * COLUMNS, SPLITS), {mean}, {squares})",
        result=result,
        state=(("mean", "0", ""), ("squares", "0", "")),
    )


def _exponentials(result: str) -> Spelling:
    return Spelling(
        whole="row_exps({term}, mask)",
        step="step_exps({peak}, {total}, {term}, mask)",
        merge="merge_exps({peak}, {total})",
        result=result,
        state=(("peak", "least", ""), ("total", "0", "")),
        lanes="(COLUMNS + 3) // 4",
    )


SPELLINGS = {
    "sum": _simple("sum", "0"),
    "mean": Spelling(
        whole="row_sum({term}, mask)",
        step="step_sum({total}, {term}, mask)",
        merge="merge_sum({total})",
        result="mean_of({total}, count)",
    ),
    "prod": _simple("prod", "1"),
    "min": _simple("min", "largest"),
    "max": _simple("max", "least"),
    "any": _simple("any", "0"),
    "all": _simple("all", "1"),
    "argmax": _position("argmax", "least"),
    "argmin": _position("argmin", "largest"),
    "var": _moments("mean_of({squares}, count)"),
    "squares": _moments("{squares}"),
    "logsumexp": _exponentials("log_of_exps({peak}, {total})"),
    "exps": _exponentials("exps_below({peak}, {total})"),
    "peak": Spelling(whole="", step="", merge="", result="{peak}", state=()),
}


def begin_text(begin: str, dtype: DType) -> str:
    """What a part of a state begins with, as a number of its type."""
    if dtype.is_bool:
        return str(begin == "1")
    if begin not in ("least", "largest"):
        return begin if dtype.is_integer else f"{begin}.0"
    if dtype.is_float:
        return 'float("-inf")' if begin == "least" else 'float("inf")'
    bits = DTYPES[dtype.name].bits
    return str(-(2 ** (bits - 1)) if begin == "least" else 2 ** (bits - 1) - 1)
