"""Measuring, as far as it needs no GPU: arguments, bytes, the check of results, rows, table and errors."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch

from opgen.cli import main as opgen
from opgen.device import bench, contenders, inputs, timing
from opgen.device.bench import Measurements, Row
from opgen.device.closeness import disagreement
from opgen.device.inputs import Case
from opgen.device.load import load_sources
from opgen.device.table import markdown_table, text_table
from opgen.device.timing import Work
from opgen.diagnostics import SpecError
from opgen.ir.nodes import Op
from opgen.source import Source

SPEC = '''
op scaled(x: T[..., N], bias: T[N], cap: f32, slope: f32 = 0.1) -> y: T[..., N]
  for T in {f16, bf16, f32}
{
  y = min(slope * x + bias, cap)
  reference """(
    torch.clamp(slope * x + bias, max=cap)
  )"""
  sizes { one: ... = 2, N = 8, two: ... = 4, N = 16 }
  test { x in 1 .. 2; cap in 3 .. 5 }
}

op looked_up(ids: i64[...], table: T[V, D], keep: bool[...]) -> y: T[..., D]
  for T in {f16, f32}
{
  y = where(keep, table[V: ids], 0)
  sizes { one: ... = 5, V = 100, D = 8, small: ... = 500, V = 3, D = 8 }
}

op halves(x: T[..., D]) -> y: T[..., D] for T in {f32} {
  y = x + x[D: index[D] ^ 1]
  sizes { one: ... = 3, D = 4 }
}

op unpacked(w: i4[N, K], scale: f32[N]) -> y: bf16[N, K] {
  y = w * scale
  sizes { one: N = 6, K = 10 }
}

op averaged(inout mean: f32[...], x: T[...], rate: f32 = 0.25) for T in {bf16, f32} {
  mean = mean + rate * (x - mean)
  reference "mean + rate * (x.to(mean.dtype) - mean)"
  sizes { one: ... = 7 }
}

op counted(x: i32[...]) -> y: i32[...] {
  y = x + 1
}
'''


def read(name: str) -> Source:
    raise AssertionError(f"{name} is not used")


@pytest.fixture(scope="module")
def built() -> tuple[dict[str, Op], ModuleType]:
    build, package = load_sources([Source("some.op", SPEC)], read)
    return {op.ir.name: op.ir for spec in build.specs for op in spec.ops}, package


@pytest.fixture
def ops(built: tuple[dict[str, Op], ModuleType]) -> dict[str, Op]:
    return built[0]


@pytest.fixture(autouse=True)
def nothing_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contenders, "compiled", lambda function: function)


def only(op: Op, label: str, *dtypes: str) -> Case:
    (case,) = inputs.cases(op, [label], dtypes or None)
    return case


def timer(times: Mapping[str, float]) -> bench.Timer:
    """Calls every contender, and tells these times."""

    def told(works: Mapping[str, Work]) -> dict[str, float]:
        for work in works.values():
            work()
        return {name: times[name] for name in works}

    return told


TIMES = {"copy": 1.0, "eager": 4.0, "compile": 2.5, "ours": 2.0}


def measure(built: tuple[dict[str, Op], ModuleType], name: str, **module: Any) -> list[Row]:
    """The rows of an op, some functions of whose module are replaced."""
    ops, package = built
    found: Any = bench.op_module(package, ops[name])
    if module:
        found = SimpleNamespace(**{**vars(found), **module})
    return list(bench.measure(ops[name], found, None, None, "cpu", timer(TIMES)))


# --- cases and arguments ------------------------------------------------------------------------


def test_each_entry_meets_each_choice_of_types(ops: dict[str, Op]) -> None:
    found = [(case.label, case.dtype) for case in inputs.cases(ops["scaled"], None, None)]
    assert found == [(label, dtype) for label in ("one", "two") for dtype in ("f16", "bf16", "f32")]


@pytest.mark.parametrize(
    ("labels", "dtypes", "expected"),
    [
        (["two"], ["bf16", "f32"], [("two", "bf16"), ("two", "f32")]),
        (["one", "two"], ["f16"], [("one", "f16"), ("two", "f16")]),
        (["other"], None, []),
    ],
)
def test_labels_and_types_select(
    ops: dict[str, Op], labels: list[str], dtypes: list[str] | None, expected: list[tuple[str, str]]
) -> None:
    assert [(case.label, case.dtype) for case in inputs.cases(ops["scaled"], labels, dtypes)] == expected


def test_arguments_have_the_declared_shapes_and_ranges(ops: dict[str, Op]) -> None:
    values = inputs.draw(only(ops["scaled"], "two", "bf16"), "cpu")
    assert list(values) == ["x", "bias", "cap", "slope"]
    assert (values["x"].shape, values["x"].dtype) == ((4, 16), torch.bfloat16)
    assert values["bias"].shape == (16,)
    assert values["x"].min() >= 1
    assert values["x"].max() <= 2
    assert values["bias"].unique().numel() > 8
    assert values["slope"] == torch.tensor(0.1, dtype=torch.float32).item()
    assert 3 <= values["cap"] <= 5
    assert values["cap"] == torch.tensor(values["cap"], dtype=torch.float32).item()


@pytest.mark.parametrize(("label", "rows"), [("one", 100), ("small", 3)])
def test_ids_stay_inside_the_table(ops: dict[str, Op], label: str, rows: int) -> None:
    values = inputs.draw(only(ops["looked_up"], label, "f32"), "cpu")
    assert values["ids"].dtype == torch.int64
    assert values["ids"].min() >= 0
    assert values["ids"].max() < rows
    if label == "small":
        assert sorted(values["ids"].unique().tolist()) == [0, 1, 2]
        assert sorted(values["keep"].unique().tolist()) == [False, True]


def test_packed_tensors_are_bytes(ops: dict[str, Op]) -> None:
    values = inputs.draw(only(ops["unpacked"], "one"), "cpu")
    assert (values["w"].shape, values["w"].dtype) == ((6, 5), torch.uint8)
    assert values["w"].unique().numel() > 10


# --- bytes --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "label", "dtype", "expected"),
    [
        ("scaled", "two", "bf16", 2 * (64 + 16 + 64)),
        ("scaled", "two", "f32", 4 * (64 + 16 + 64)),
        ("looked_up", "one", "f32", 5 * 8 + 5 * 8 * 4 + 5 + 5 * 8 * 4),  # ids, rows that are read, keep, y
        ("looked_up", "small", "f16", 500 * 8 + 3 * 8 * 2 + 500 + 500 * 8 * 2),  # at most the whole table
        ("halves", "one", "f32", 12 * 4 * 2),  # read and gathered from: once
        ("unpacked", "one", None, 30 + 6 * 4 + 60 * 2),
        ("averaged", "one", "bf16", 7 * (4 + 2) + 7 * 4),  # read and written
    ],
)
def test_moved_bytes(ops: dict[str, Op], name: str, label: str, dtype: str | None, expected: int) -> None:
    assert inputs.moved_bytes(only(ops[name], label, *([dtype] if dtype else []))) == expected


# --- contenders and their check -----------------------------------------------------------------


def test_eager_gives_the_declared_types_and_updates_in_place(
    built: tuple[dict[str, Op], ModuleType],
) -> None:
    ops, package = built
    case = only(ops["averaged"], "one", "bf16")
    function = contenders.eager(case, bench.op_module(package, case.op))
    mean, x = torch.zeros(7), torch.full((7,), 4.0, dtype=torch.bfloat16)
    assert function(mean, x, 0.25) == ()
    assert mean.tolist() == [1.0] * 7


def test_ops_are_right_and_timed(built: tuple[dict[str, Op], ModuleType]) -> None:
    for name, rows in (("scaled", 6), ("looked_up", 4), ("halves", 1), ("unpacked", 1), ("averaged", 2)):
        found = measure(built, name)
        assert [(row.faults, row.times) for row in found] == [({}, TIMES)] * rows, name
    assert measure(built, "scaled")[0].checked_against == "the spec's reference in f64"
    assert measure(built, "halves")[0].checked_against == "the generated reference in f32"


def wrong_scaled(
    x: torch.Tensor, bias: torch.Tensor, cap: float, slope: float, out: torch.Tensor | None = None
) -> torch.Tensor:
    """The sign of the bias is wrong."""
    y = torch.clamp(slope * x - bias, max=cap)
    return y if out is None else out.copy_(y)


def test_a_wrong_result_is_told_and_has_no_time(built: tuple[dict[str, Op], ModuleType]) -> None:
    for row in measure(built, "scaled", scaled=wrong_scaled):
        assert row.faults["ours"].startswith("wrong: y: ")
        assert set(row.times) == {"copy", "eager", "compile"}
        assert row.loss == float("inf")


def test_an_element_that_is_not_written_is_found(built: tuple[dict[str, Op], ModuleType]) -> None:
    def partly(x: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
        y = x + x[:, [1, 0, 3, 2]]
        if out is None:
            return y
        out[:-1] = y[:-1]
        return out

    (row,) = measure(built, "halves", halves=partly)
    assert "nan" in row.faults["ours"]


def test_a_contender_that_fails_is_told(built: tuple[dict[str, Op], ModuleType]) -> None:
    def failing(*arguments: Any) -> Any:
        raise NotImplementedError("not for\nthese")

    (row,) = measure(built, "halves", reference=failing)
    assert row.faults == {"row": "NotImplementedError: not for these"}  # nothing is there to check against


# --- rows without times -------------------------------------------------------------------------


def test_rows_tell_why_there_is_no_time(
    built: tuple[dict[str, Op], ModuleType], monkeypatch: pytest.MonkeyPatch
) -> None:
    (row,) = measure(built, "counted")
    assert row.faults == {"row": "the spec gives no `sizes`"}
    op = built[0]["halves"]
    (entry,) = op.sizes
    bare = replace(op, sizes=(replace(entry, sizes=entry.sizes[:1]),))
    (row,) = bench.measure(bare, ModuleType("unused"), None, None, "cpu", timer(TIMES))
    assert row.faults == {"row": "its sizes say nothing about D"}
    monkeypatch.setattr(bench, "_free_memory", lambda device: 100.0)
    (row,) = measure(built, "halves")
    assert row.faults["row"].startswith("needs about ")
    assert "GPU are free" in row.faults["row"]


# --- the table ----------------------------------------------------------------------------------


def rows_of(*ours: float) -> tuple[Row, ...]:
    return tuple(
        Row("swish", f"case{place}", "bf16", 4_000_000, "", {**TIMES, "ours": time}, {})
        for place, time in enumerate(ours)
    )


def test_figures_of_a_row() -> None:
    (row,) = rows_of(2.0)
    assert row.bandwidth == 2000.0
    assert row.ratio("copy", "ours") == 0.5
    assert row.ratio("ours", "eager") == 0.5
    assert row.loss == 0.8


def test_text_has_the_machine_the_faults_and_the_table() -> None:
    skipped = Row("rope", "long", "f32", faults={"row": "needs about 200.0 GB"})
    text = Measurements({"gpu": "H200", "torch": "2.11"}, (*rows_of(3.0, 2.0), skipped)).text
    assert text.splitlines()[:2] == ["gpu H200, torch 2.11", "rope long f32: needs about 200.0 GB"]
    assert [line.split() for line in text.splitlines()[2:5]] == [
        ["op", "case", "type", "MB", "time", "GB/s", "of", "copy", "/eager", "/compile"],
        ["swish", "case0", "bf16", "4", "3.0", "1333", "0.333", "0.750", "1.200"],
        ["swish", "case1", "bf16", "4", "2.0", "2000", "0.500", "0.500", "0.800"],
    ]


def test_json_holds_every_time() -> None:
    found = json.loads(Measurements({"gpu": "H200"}, rows_of(2.0)).json)
    assert found["machine"] == {"gpu": "H200"}
    assert found["rows"][0]["times"] == TIMES
    assert (found["rows"][0]["gb_per_s"], found["rows"][0]["of_copy"]) == (2000.0, 0.5)


def test_losses_come_first(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = rows_of(2.0, 3.0, 2.2)
    monkeypatch.setattr(bench, "measure", lambda *arguments: rows)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(bench, "machine", dict)
    source = Source("one.op", "op one(x: f32[...]) -> y: f32[...] { y = x + 1 }")
    found = bench.main([source], read=read, sizes=None, dtypes=None)
    assert [row.case for row in found.rows] == ["case1", "case2", "case0"]


def test_tables_are_aligned() -> None:
    columns, rows = ("op", "time"), [("swish", "9.5"), ("x", "130.0"), ("mish", "-")]
    assert text_table(columns, rows).splitlines() == [
        "op      time",
        "swish    9.5",
        "x      130.0",
        "mish       -",
    ]
    assert text_table(columns, []) == "op  time"
    assert markdown_table(columns, rows[:1]).splitlines() == [
        "| op | time |",
        "| --- | --- |",
        "| swish | 9.5 |",
    ]


# --- refusals -----------------------------------------------------------------------------------


def test_without_a_gpu_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(SpecError) as raised:
        bench.main([Source("some.op", SPEC)], read=read, sizes=None, dtypes=None)
    (found,) = raised.value.diagnostics
    assert (found.code, "needs a GPU" in found.message) == (bench.NO_GPU, True)


def test_the_command_fails_without_a_gpu(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text("[tool.opgen]\n", encoding="utf-8")
    (tmp_path / "some.op").write_text(SPEC, encoding="utf-8")
    assert opgen(["bench", "some.op"]) == 1
    told = capsys.readouterr()
    assert "measuring needs a GPU" in told.out + told.err


@pytest.mark.parametrize(
    ("sizes", "dtypes", "code", "advice"),
    [
        (["tow"], None, bench.UNKNOWN_SIZES, "did you mean `two`?"),
        (["decode"], None, bench.UNKNOWN_SIZES, "there are one, small, two"),
        (None, ["bf61"], bench.UNKNOWN_TYPE, "did you mean `bf16`?"),
    ],
)
def test_unknown_labels_and_types(
    ops: dict[str, Op], sizes: Sequence[str] | None, dtypes: Sequence[str] | None, code: str, advice: str
) -> None:
    with pytest.raises(SpecError) as raised:
        bench.refuse_unknown(list(ops.values()), sizes, dtypes)
    (found,) = raised.value.diagnostics
    assert (found.code, found.help) == (code, advice)


# --- closeness ----------------------------------------------------------------------------------


def neighbours(x: torch.Tensor, steps: int) -> torch.Tensor:
    """Floats a few steps above."""
    width = {torch.float16: torch.int16, torch.bfloat16: torch.int16, torch.float32: torch.int32}[x.dtype]
    return (x.view(width) + steps).view(x.dtype)


@pytest.mark.parametrize(("dtype", "steps"), [(torch.float16, 2), (torch.bfloat16, 2), (torch.float32, 2000)])
def test_close_results_agree_and_others_do_not(dtype: torch.dtype, steps: int) -> None:
    expected = torch.linspace(0.5, 4, 999, dtype=torch.float64)
    right = expected.to(dtype)
    assert disagreement(right, expected) is None
    wrong = right.clone()
    wrong[17] = neighbours(right, steps)[17]
    assert "1 of 999 elements are wrong, first at (17,)" in (disagreement(wrong, expected) or "")


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_special_values_meet_their_like_only(value: float) -> None:
    expected = torch.tensor([1.0, value], dtype=torch.float64)
    assert disagreement(expected.to(torch.float16), expected) is None
    assert disagreement(torch.tensor([1.0, 2.0], dtype=torch.float16), expected) is not None
    assert disagreement(expected.to(torch.float16), torch.tensor([1.0, 2.0], dtype=torch.float64)) is not None


def test_f8_saturates() -> None:
    expected = torch.tensor([1e4, -1e4, 1.1], dtype=torch.float64)
    assert disagreement(torch.tensor([448.0, -448.0, 1.125]).to(torch.float8_e4m3fn), expected) is None
    assert disagreement(torch.tensor([240.0, -448.0, 1.125]).to(torch.float8_e4m3fn), expected) is not None


def test_integers_may_differ_by_rare_decisions() -> None:
    expected = torch.arange(10_000)
    for wrong, agrees in ((3, True), (30, False)):
        result = expected.clone()
        result[:wrong] += 1
        assert (disagreement(result, expected) is None) == agrees


def test_shapes_are_compared() -> None:
    assert disagreement(torch.ones(2), torch.ones(2, 1)) == "shape (2,) instead of (2, 1)"


# --- timing -------------------------------------------------------------------------------------


def test_contenders_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Medians over all rounds; a slow contender makes fewer calls in a round."""
    turns: list[tuple[str, int]] = []

    def timed(work: Work, calls: int, cache: torch.Tensor) -> list[float]:
        name, spent = work()
        turns.append((name, calls))
        return [spent] * calls

    monkeypatch.setattr(timing, "_cache_sized_memory", lambda: torch.empty(0))
    monkeypatch.setattr(timing, "_timed", timed)
    quick, slow = ("quick", 10.0), ("slow", 1000.0)
    found = timing.interleaved({"quick": lambda: quick, "slow": lambda: slow}, rounds=2)
    assert found == {"quick": 10.0, "slow": 1000.0}
    assert turns[2:] == [("quick", 25), ("slow", 8), ("quick", 25), ("slow", 8)]


def test_a_copy_reads_half_and_writes_half() -> None:
    target = timing.copy_work(4096, "cpu")()
    assert target.numel() * target.element_size() == 2048
    assert target.unique().numel() > 100


def test_the_machine_is_named() -> None:
    found = timing.machine()
    assert found["torch"] == torch.__version__
    assert all(found.values())
