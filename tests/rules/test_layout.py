"""What opgen lays out itself is what black would make of it: black leaves every generated file as it is."""

from pathlib import Path

import black
import pytest

from opgen.emit.render import MODE
from opgen.manifest import MANIFEST, parse_manifest

GENERATED = Path(__file__).resolve().parents[2] / "generated"
MADE = parse_manifest((GENERATED / MANIFEST).read_text(encoding="utf-8")).entries


@pytest.mark.parametrize("path", [entry.path for entry in MADE if entry.spec is not None])
def test_black_changes_nothing(path: str) -> None:
    text = (GENERATED / path).read_text(encoding="utf-8")
    assert black.format_str(text, mode=MODE) == text
