"""Specs in files: the graphs that they lower to, and what is said about wrong ones.

A case is a file; dropping one into a folder adds a test.
"""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from opgen.diagnostics import SpecError
from opgen.ir.lower import Lowered, lower
from opgen.ir.pretty import format_op
from opgen.source import Source
from opgen.syntax.parse import parse

CASES = Path(__file__).parent / "cases" / "lower"
LIMITS = Path(__file__).parent / "unit" / "test_lower_limits.py"
LOWERING = Path(__file__).parents[1] / "opgen" / "ir"

Golden = Callable[[Path, str], None]


def cases(folder: str) -> list[Path]:
    return sorted((CASES / folder).glob("*.op"))


def lowered(path: Path) -> Lowered:
    def read(used: str) -> Source:
        return Source(used, (path.parent / used).read_text(encoding="utf-8"))

    return lower(parse(Source(path.name, path.read_text(encoding="utf-8"))), read=read)


@pytest.mark.parametrize("path", cases("ok"), ids=lambda path: path.stem)
def test_lowers(path: Path, golden: Golden) -> None:
    result = lowered(path)
    warnings = [f"{warning.render()}\n" for warning in result.warnings]
    golden(path.with_suffix(".ir"), "\n".join([*warnings, *(format_op(op) for op in result.ops)]))


@pytest.mark.parametrize("path", cases("err"), ids=lambda path: path.stem)
def test_is_refused(path: Path, golden: Golden) -> None:
    with pytest.raises(SpecError) as caught:
        lowered(path)
    golden(path.with_suffix(".stderr"), f"{caught.value}\n")


def test_every_code_has_a_case() -> None:
    modules = (path.read_text(encoding="utf-8") for path in LOWERING.glob("*.py"))
    codes = {code for text in modules for code in re.findall(r'"(OPG\d+)"', text)}
    expectations = [*(CASES / "err").glob("*.stderr"), *(CASES / "ok").glob("*.ir")]
    shown = {
        code
        for path in expectations
        for code in re.findall(r"(?:error|warning)\[(OPG\d+)\]", path.read_text(encoding="utf-8"))
    }
    # Limits are reached by specs that are too long to keep.
    shown |= set(re.findall(r'"(OPG\d+)"', LIMITS.read_text(encoding="utf-8")))
    assert codes
    assert sorted(codes - shown) == []
