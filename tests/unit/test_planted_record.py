"""Records of planted faults: written and read again, counted, and shown as a page."""

from pathlib import Path

import pytest

from tests.planted.operators import sites
from tests.planted.record import Result, read, report, table, write

SOURCE = "def f(x):\n    return x + 1 + 1\n"
FOUND = list(sites(SOURCE))


def results() -> list[Result]:
    kinds = ("caught", "not planted", "equivalent", "left")
    made = [
        Result.of("f", "tests", site, kinds[number % 4], f"reason {number % 4}", 0.5)
        for number, site in enumerate(FOUND)
    ]
    return [Result.of("f", "tests", None, "left", "", 0.1), *made]


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "record.json"
    write(file, results())
    assert read(file) == results()[1:]  # without the module that has no fault
    assert [path.name for path in tmp_path.iterdir()] == ["record.json"]


def test_each_site_has_a_key_of_its_own() -> None:
    keys = {Result.key_of("f", site) for site in FOUND}
    assert len(keys) == len(FOUND) > 4
    assert [one.key for one in results()[1:]] == [Result.key_of("f", site) for site in FOUND]


@pytest.mark.parametrize(
    ("kind", "reason", "fails"), [("left", "", False), ("left", "loose", True), ("caught", "", True)]
)
def test_a_module_without_a_fault_must_pass(kind: str, reason: str, fails: bool) -> None:
    assert Result.of("f", "", None, kind, reason, 0.0).fails_without_fault is fails
    assert not Result.of("f", "", FOUND[0], kind, reason, 0.0).fails_without_fault


def test_counts_and_page() -> None:
    rows = [line.strip("| ").split(" | ") for line in table(results()[1:]).splitlines()[2:]]
    *by_operator, total = [[int(cell) for cell in row[2:]] for row in rows]
    assert total == [sum(column) for column in zip(*by_operator, strict=True)]
    assert total[0] == len(FOUND) == sum(total[1:])
    page = report(results()[1:], {"g": 7}, "Made somewhere.")
    assert "Made somewhere." in page
    assert "| g | 7 | 0 | 0 | 0 | 0 | 7 |" in page
    assert page.count("reason 2") >= 1  # of equivalent ones
    assert "reason 1" not in page
    left = [one for one in results()[1:] if one.kind == "left"]
    assert sum(line.startswith("- `f.f:1: ") for line in page.splitlines()) == len(left)
    assert "Nothing." in report([one for one in results()[1:] if one.kind != "left"], {}, "")
