"""The same specs give the same bytes: in any process, folder and order, under any hash seed."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def build(project: Path, seed: str, *specs: str) -> dict[str, bytes]:
    """The files that a build of the shipped specs makes in a fresh project."""
    shutil.copytree(ROOT / "specs", project / "specs")
    shutil.copy(ROOT / "pyproject.toml", project)
    environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "opgen", "build", *specs]
    done = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    made = project / "generated"
    return {str(path.relative_to(made)): path.read_bytes() for path in made.rglob("*") if path.is_file()}


def test_builds_are_byte_identical(tmp_path: Path) -> None:
    names = sorted(f"specs/{path.name}" for path in (ROOT / "specs").glob("*.op"))
    first = build(tmp_path / "one", "0")
    second = build(tmp_path / "another" / "folder", "1", *reversed(names))
    assert first.keys() == second.keys()
    assert [name for name in first if first[name] != second[name]] == []


def test_files_name_no_machine(tmp_path: Path) -> None:
    made = build(tmp_path / "project", "2")
    for word in (str(tmp_path), str(ROOT), str(Path.home())):
        assert [name for name, content in made.items() if word.encode() in content] == []
