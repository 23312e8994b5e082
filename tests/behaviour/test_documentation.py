"""The documentation says what is: its specs are accepted, its messages are the real ones, its code runs."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from opgen.diagnostics import Diagnostic, SpecError
from opgen.pipeline import compile_specs
from opgen.source import Source

ROOT = Path(__file__).parents[2]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
FENCE = re.compile(r"^```(?P<kind>[^\n]*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A fenced block: its page, the line it begins on, its kind, its text, and the text of the next block."""

    page: str
    line: int
    kind: str
    text: str
    following: str


def blocks() -> Iterator[Block]:
    for path in PAGES:
        page = path.read_text()
        found = list(FENCE.finditer(page))
        for place, fence in enumerate(found):
            following = found[place + 1]["text"] if place + 1 < len(found) else ""
            line = page.count("\n", 0, fence.start()) + 1
            yield Block(path.name, line, fence["kind"], fence["text"], following)


def of_kind(kind: str) -> list[Block]:
    return [block for block in blocks() if block.kind == kind]


def where(block: Block) -> str:
    return f"{block.page}:{block.line}"


def diagnostics(text: str) -> tuple[Diagnostic, ...]:
    def read(name: str) -> Source:
        raise FileNotFoundError(name)

    try:
        return compile_specs([Source("specs/demo.op", text)], targets=("sm_90",), read=read).warnings
    except SpecError as error:
        return error.diagnostics


@pytest.mark.parametrize("block", of_kind("op"), ids=where)
def test_specs_are_accepted(block: Block) -> None:
    assert not [diagnostic.render() for diagnostic in diagnostics(block.text)]


@pytest.mark.parametrize("block", of_kind("op fails"), ids=where)
def test_messages_are_the_real_ones(block: Block) -> None:
    said = "\n\n".join(diagnostic.render() for diagnostic in diagnostics(block.text))
    assert block.following == said + "\n"


@pytest.mark.parametrize(
    "block", [block for block in of_kind("python") if block.page == "README.md"], ids=where
)
def test_code_runs(block: Block, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT))
    exec(compile(block.text, where(block), "exec"), {"__name__": "example"})


def test_shown_files_are_the_real_ones() -> None:
    """A spec that is shown under the name of a file is that file."""
    readme = (ROOT / "README.md").read_text()
    shown = re.findall(
        r"^`(?P<name>[\w./]+)`:\n\n```\w+\n(?P<text>.*?)^```$", readme, re.MULTILINE | re.DOTALL
    )
    assert shown
    for name, text in shown:
        real = (ROOT / name).read_text()
        pieces = [piece.strip("\n") for piece in re.split(r"^ *# …\n", text, flags=re.MULTILINE)]
        assert all(piece in real for piece in pieces), name


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    prose = re.sub(r"`[^`\n]+`", "", FENCE.sub("", page.read_text()))
    for target in re.findall(r"\]\(([^)\s]+)\)", prose):
        name, _, anchor = target.partition("#")
        linked = page.parent / name if name else page
        assert linked.exists(), target
        headings = re.findall(r"^#+ (.*)$", linked.read_text(), re.MULTILINE)
        anchors = [re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings]
        assert not anchor or anchor in anchors, target
