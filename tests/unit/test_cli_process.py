"""The command line as a process of its own: what it imports, pipes, signals, and many at once."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

#: Runs the command line with imports of the named modules failing.
POISONED = """
import sys

class Poison:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {poison}:
            raise AssertionError(name + " was imported")

sys.meta_path.insert(0, Poison())
from opgen.cli import main
sys.exit(main({arguments}))
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with settings and two of the shipped specs."""
    (tmp_path / "specs").mkdir()
    (tmp_path / "pyproject.toml").write_text("[tool.opgen]\n")
    for name in ("swish.op", "gelu.op"):
        shutil.copy(ROOT / "specs" / name, tmp_path / "specs")
    return tmp_path


def python(project: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **variables}
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, check=False)


def poisoned(project: Path, poison: set[str], *arguments: str) -> subprocess.CompletedProcess[str]:
    code = POISONED.replace("{poison}", repr(poison)).replace("{arguments}", repr(arguments))
    return python(project, "-c", code, OPGEN_DEBUG="1")


def test_no_command_but_bench_needs_torch_or_triton(project: Path) -> None:
    for arguments in (
        ("new", "fresh"),
        ("build",),
        ("check",),
        ("fmt", "--check"),
        ("explain", "specs/swish.op", "--form", "ast"),
        ("explain", "specs/swish.op", "--form", "ir"),
        ("explain", "specs/swish.op", "--target", "sm_90"),
        ("targets",),
    ):
        done = poisoned(project, {"torch", "triton", "numpy"}, *arguments)
        assert done.returncode == 0, (arguments, done.stdout, done.stderr)


def test_poison_works(project: Path) -> None:
    done = poisoned(project, {"lark"}, "check")
    assert done.returncode == 2
    assert "lark was imported" in done.stderr


@pytest.mark.parametrize("arguments", [("--version",), ("--help",), ("targets",), ("new", "fresh")])
def test_simple_commands_import_nothing_large(project: Path, arguments: tuple[str, ...]) -> None:
    done = poisoned(project, {"black", "jinja2", "lark"}, *arguments)
    assert done.returncode == 0, done.stderr


def test_starter_spec_builds_and_is_formatted(project: Path) -> None:
    python(project, "-m", "opgen", "new", "fresh")
    done = python(project, "-m", "opgen", "build", "specs/fresh.op")
    assert (done.returncode, done.stderr) == (0, "")
    done = python(project, "-m", "opgen", "fmt", "--check", "specs/fresh.op")
    assert (done.returncode, done.stderr) == (0, "")


def test_reader_that_goes_away(project: Path) -> None:
    """`opgen targets | head -0`: no traceback."""
    read, write = os.pipe()
    os.close(read)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "opgen", "targets"]
    process = subprocess.Popen(command, cwd=project, env=environment, stdout=write, stderr=subprocess.PIPE)
    os.close(write)
    _, err = process.communicate(timeout=20)
    assert (process.returncode, err) == (141, b"")


def test_interrupt_by_signal(project: Path) -> None:
    """`opgen fmt -` waits for its input until it is interrupted."""
    code = (
        "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); "  # ignored in a background job
        "from opgen.cli import main; print('ready', flush=True); sys.exit(main(['fmt', '-']))"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=project,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    time.sleep(0.3)  # from there to where it reads
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=20)
    assert (process.returncode, err) == (130, "interrupted\n")


def test_sixteen_builds_of_the_same_spec_at_once(project: Path) -> None:
    code = (
        "import sys; from opgen.cli import main; code = main(['build', 'specs/swish.op']); "
        "compile(open('generated/swish.py').read(), 'swish', 'exec'); sys.exit(code)"
    )
    command = [sys.executable, "-c", code]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    quiet = subprocess.DEVNULL
    processes = [subprocess.Popen(command, cwd=project, env=environment, stdout=quiet) for _ in range(16)]
    assert [process.wait() for process in processes] == [0] * 16
    done = python(project, "-m", "opgen", "build", "--check", "specs/swish.op")
    assert done.returncode == 0, done.stderr


def test_two_files_that_make_the_same_op(project: Path) -> None:
    shutil.copy(project / "specs/swish.op", project / "specs/again.op")
    done = python(project, "-m", "opgen", "build")
    assert done.returncode == 1
    assert "specs/again.op:" in done.stderr
    assert "specs/swish.op:" in done.stderr
