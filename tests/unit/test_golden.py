"""The `golden` fixture itself: what a run says about a missing, a wrong and a rewritten expectation."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TEST = """
from pathlib import Path

def test_text(golden):
    golden(Path(__file__).parent / "expected.txt", "new")
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copy(Path(__file__).parents[1] / "conftest.py", tmp_path / "conftest.py")
    (tmp_path / "test_it.py").write_text(TEST)
    return tmp_path


def run(folder: Path, *options: str, ci: str = "") -> tuple[int, str]:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options]
    environment = {**os.environ, "CI": ci, "PYTEST_ADDOPTS": ""}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def test_a_missing_expectation_fails_and_names_the_command(folder: Path) -> None:
    code, output = run(folder)
    assert code == 1
    assert "python -m pytest --update-golden 'test_it.py::test_text'" in output


def test_a_wrong_expectation_fails(folder: Path) -> None:
    (folder / "expected.txt").write_text("old")
    assert run(folder)[0] == 1
    assert (folder / "expected.txt").read_text() == "old"


def test_expectations_are_rewritten_when_asked(folder: Path) -> None:
    assert run(folder, "--update-golden")[0] == 0
    assert (folder / "expected.txt").read_text() == "new"
    assert run(folder)[0] == 0


def test_nothing_is_rewritten_where_ci_is_set(folder: Path) -> None:
    code, output = run(folder, "--update-golden", ci="true")
    assert code != 0
    assert "refused where CI is set" in output
    assert not (folder / "expected.txt").exists()
