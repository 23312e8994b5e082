"""Where the grammar and the templates are found, in the repository and in a wheel."""

from pathlib import Path

import pytest

from opgen import resources

ROOT = Path(__file__).resolve().parents[2]


def test_in_the_repository() -> None:
    text = (ROOT / "grammar/opgen.lark").read_text(encoding="utf-8")
    assert resources.grammar_text("opgen.lark") == text
    assert resources.template_root() == ROOT / "templates"


def test_in_a_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "opgen"
    for folder in ("grammar", "templates"):
        (package / "_resources" / folder).mkdir(parents=True)
    (package / "_resources/grammar/a.lark").write_text("é", encoding="utf-8")
    monkeypatch.setattr(resources, "_PACKAGE", package)
    assert resources.grammar_text("a.lark") == "é"
    assert resources.template_root() == package / "_resources/templates"


def test_a_missing_file() -> None:
    with pytest.raises(FileNotFoundError):
        resources.grammar_text("no_such_file.lark")
