"""Specs in files that are right but have no kernels, or hints that no kernel can meet: what is said about them.

A case is a file; dropping one into the folder adds a test.
"""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from opgen.diagnostics import SpecError
from opgen.pipeline import compile_specs
from opgen.source import Source

CASES = Path(__file__).parent / "cases" / "plan"
PACKAGE = Path(__file__).parents[1] / "opgen"

Golden = Callable[[Path, str], None]


def source(name: str) -> Source:
    return Source(name, (CASES / name).read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", sorted(CASES.glob("*.op")), ids=lambda path: path.stem)
def test_is_refused(path: Path, golden: Golden) -> None:
    with pytest.raises(SpecError) as caught:
        compile_specs([source(path.name)], read=source)
    golden(path.with_suffix(".stderr"), f"{caught.value}\n")


def test_every_code_has_a_case() -> None:
    files = [*(PACKAGE / "plan").glob("*.py"), *(PACKAGE / "ir" / "passes").glob("*.py")]
    codes = {code for path in files for code in re.findall(r'"(OPG\d+)"', path.read_text(encoding="utf-8"))}
    expectations = (path.read_text(encoding="utf-8") for path in CASES.glob("*.stderr"))
    shown = {code for text in expectations for code in re.findall(r"error\[(OPG\d+)\]", text)}
    assert codes
    assert sorted(codes - shown) == []
