"""Every test runs in exactly one stage of `python -m tests`; those that need a GPU run in none."""

import ast
from pathlib import Path, PurePosixPath

import pytest

from tests.__main__ import ROOT, STAGES

NEED_A_GPU = "tests/gpu"


def collects(arguments: tuple[str, ...], file: str) -> bool:
    """Whether pytest, with the folders and the `--ignore=` of a stage, collects a file."""
    ignored = [one.removeprefix("--ignore=") for one in arguments if one.startswith("--ignore=")]
    given = [one for one in arguments if not one.startswith("-")]
    path = PurePosixPath(file)
    inside = any(path.is_relative_to(one) for one in given)
    return path.name.startswith("test_") and inside and not any(path.is_relative_to(one) for one in ignored)


def holds_tests(path: Path) -> bool:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return any(isinstance(node, ast.FunctionDef) and node.name.startswith("test_") for node in tree.body)


def test_each_file_is_of_one_stage() -> None:
    files = {
        path.relative_to(ROOT).as_posix()
        for folder in ("tests", "generated/tests")
        for path in (ROOT / folder).rglob("*.py")
        if holds_tests(path)
    }
    assert len(files) > len(STAGES)
    stages = {
        file: [name for name, stage in STAGES.items() if collects(stage.arguments, file)] for file in files
    }
    wanted = {file: 0 if file.startswith(f"{NEED_A_GPU}/") else 1 for file in files}
    assert {file: names for file, names in stages.items() if len(names) != wanted[file]} == {}


@pytest.mark.parametrize(
    ("file", "collected"),
    [
        ("tests/unit/test_cli.py", True),
        ("tests/unit/helpers.py", False),
        ("tests/behaviour/test_math.py", False),
        ("tests/behaviours/test_math.py", True),
        ("other/test_math.py", False),
    ],
)
def test_what_is_collected(file: str, collected: bool) -> None:
    assert collects(("tests", "--ignore=tests/behaviour"), file) is collected
