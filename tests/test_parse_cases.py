"""Specs in files: what they parse to, how they are formatted, and what is said about wrong ones.

A case is a file; dropping one into a folder adds a test.
"""

import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from opgen.diagnostics import SpecError
from opgen.source import Source
from opgen.syntax.dump import dump
from opgen.syntax.parse import parse
from opgen.syntax.pretty import WIDTH, format_file

CASES = Path(__file__).parent / "cases"
SYNTAX = Path(__file__).parents[1] / "opgen" / "syntax"

Golden = Callable[[Path, str], None]


def cases(folder: str) -> list[Path]:
    return sorted((CASES / folder).glob("*.op"))


def source(path: Path) -> Source:
    # Read as bytes, so that line ends and a byte order mark reach the parser as they are.
    return Source(path.name, path.read_bytes().decode("utf-8"))


@pytest.mark.parametrize("path", cases("parse/ok"), ids=lambda path: path.stem)
def test_parses(path: Path, golden: Golden) -> None:
    golden(path.with_suffix(".ast"), dump(parse(source(path))))


@pytest.mark.parametrize("path", cases("parse/err"), ids=lambda path: path.stem)
def test_is_refused(path: Path, golden: Golden) -> None:
    with pytest.raises(SpecError) as caught:
        parse(source(path))
    golden(path.with_suffix(".stderr"), f"{caught.value}\n")


@pytest.mark.parametrize("path", cases("fmt"), ids=lambda path: path.stem)
def test_formats(path: Path, golden: Golden) -> None:
    golden(path.with_suffix(".out"), format_file(parse(source(path))))


@pytest.mark.parametrize(
    "path", cases("parse/ok") + cases("fmt"), ids=lambda path: f"{path.parent.name}-{path.stem}"
)
def test_formatting_keeps_meaning_and_comments(path: Path) -> None:
    file = parse(source(path))
    text = format_file(file)
    again = parse(Source("formatted", text))
    assert again.items == file.items
    assert format_file(again) == text
    kept, written = (Counter(comment.text for comment in tree.comments) for tree in (again, file))
    assert kept == written


@pytest.mark.parametrize("path", cases("parse/ok"), ids=lambda path: path.stem)
def test_lines_are_short(path: Path) -> None:
    """Strings and comments are kept as they are; whatever else is long is broken."""
    text = format_file(parse(source(path)))
    bare = re.sub(r'""".*?"""|"[^"\n]*"|#.*', "", text, flags=re.DOTALL)
    assert max(map(len, bare.split("\n"))) <= WIDTH


def test_every_code_has_a_case() -> None:
    modules = (path.read_text(encoding="utf-8") for path in SYNTAX.glob("*.py"))
    codes = {code for text in modules for code in re.findall(r'"(OPG\d+)"', text)}
    shown = {
        code
        for path in (CASES / "parse/err").glob("*.stderr")
        for code in re.findall(r"error\[(OPG\d+)\]", path.read_text(encoding="utf-8"))
    }
    assert codes
    assert codes == shown
