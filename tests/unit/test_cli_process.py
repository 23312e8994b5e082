"""The command line as a process of its own: what it imports, pipes, signals, and many at once."""

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from importlib import metadata
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


def without(project: Path, package: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs the command line where a package cannot be imported."""
    code = f"import sys; sys.modules[{package!r}] = None; from opgen.cli import main; sys.exit(main({arguments}))"
    return python(project, "-c", code)


@pytest.mark.parametrize("command", ["build", "check"])
@pytest.mark.parametrize("package", ["black", "jinja2", "lark"])
def test_a_missing_package_is_told_in_one_line(project: Path, package: str, command: str) -> None:
    (requirement,) = (one for one in metadata.requires("opgen") or () if one.startswith(package))
    message = f"opgen needs {package}, which is not installed: pip install {shlex.quote(requirement)}"
    done = without(project, package, command)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"error: {message}\n")
    done = without(project, package, command, "--format", "json")
    assert (done.returncode, done.stderr) == (2, "")
    (record,) = json.loads(done.stdout)
    assert (record["code"], record["message"]) == ("OPG998", message)


def test_a_missing_module_of_opgen_is_a_mistake_of_opgen(project: Path) -> None:
    for module in ("opgen.pipeline", "fractions"):
        done = without(project, module, "build")
        assert done.returncode == 2
        assert done.stderr.startswith("internal error: ")


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


# --- several processes share the specs ------------------------------------------------------------

MANY = 10

#: Runs the command line after a change of the pipeline that takes effect in processes of the build alone.
CHANGED = """
import os, signal, sys
import opgen.pipeline
from opgen.cli import main

ours, module_context = os.getpid(), opgen.pipeline.module_context

def changed(op, plans, spec):
    if os.getpid() != ours:
        {change}
    return module_context(op, plans, spec)

opgen.pipeline.module_context = changed
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in a background job
sys.exit(main({arguments}))
"""


@pytest.fixture
def many(tmp_path: Path) -> Path:
    """A folder with settings and small specs."""
    (tmp_path / "specs").mkdir()
    (tmp_path / "pyproject.toml").write_text('[tool.opgen]\ntargets = ["sm_90"]\n')
    for number in range(MANY):
        text = f"op scaled_{number}(x: T[...]) -> y: T[...] {{ y = x * {number} }}\n"
        (tmp_path / f"specs/scaled_{number:02}.op").write_text(text)
    return tmp_path


def made_by(project: Path, *arguments: str) -> tuple[int, str, str, dict[str, bytes]]:
    """Exit code, output, and the files that a fresh build makes."""
    shutil.rmtree(project / "generated", ignore_errors=True)
    done = python(project, "-m", "opgen", "build", *arguments)
    files = {path.name: path.read_bytes() for path in (project / "generated").rglob("*") if path.is_file()}
    return done.returncode, done.stdout, done.stderr, files


def test_a_build_does_not_depend_on_processes(many: Path) -> None:
    alone = made_by(many, "--jobs", "1")
    assert (alone[0], len(alone[2].splitlines())) == (0, MANY)
    assert made_by(many, "--jobs", "2") == alone


def test_mistakes_do_not_depend_on_processes(many: Path) -> None:
    for number in (9, 3, 7):
        (many / f"specs/scaled_{number:02}.op").write_text("op wrong(x: T[...]) -> y: T[...] { y = z }\n")
    (many / "specs/scaled_05.op").write_text("op scaled_4(x: T[...]) -> y: T[...] { y = x }\n")
    for arguments in ([], ["--format", "json"]):
        alone = made_by(many, "--jobs", "1", *arguments)
        assert (alone[0], alone[3]) == (1, {})
        assert made_by(many, "--jobs", "2", *arguments) == alone


def test_what_befalls_a_process_does_not_show(many: Path) -> None:
    alone = made_by(many, "--jobs", "1")
    for change in (
        "os.kill(os.getpid(), signal.SIGKILL)",
        "raise ValueError('only here')",
        "print('loud', file=sys.stderr)",
    ):
        shutil.rmtree(many / "generated")
        code = CHANGED.replace("{change}", change).replace("{arguments}", "['build', '--jobs', '2']")
        done = python(many, "-c", code)
        assert (done.returncode, done.stdout, done.stderr) == alone[:3], change


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_mistake_of_opgen_names_its_spec(many: Path, jobs: str) -> None:
    code = (
        "import opgen.pipeline, sys; from opgen.cli import main; lower = opgen.pipeline.lower; "
        "opgen.pipeline.lower = lambda file, read: 1 / ('_08.op' not in file.source.name) and lower(file, read=read); "
        f"sys.exit(main(['check', '--jobs', '{jobs}']))"
    )
    done = python(many, "-c", code)
    *lines, last = done.stderr.splitlines()
    assert (done.returncode, done.stdout, len(lines)) == (2, "", 9)
    assert last.startswith("internal error: specs/scaled_08.op: ZeroDivisionError: division by zero;")


@pytest.mark.parametrize("seconds", [0.1, 0.4])
def test_interrupt_of_processes(many: Path, seconds: float) -> None:
    """Ctrl-C goes to all processes of the terminal's group."""
    change = "import time; time.sleep(1)"
    code = CHANGED.replace("{change}", change).replace("{arguments}", "['build', '--jobs', '2']")
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=many,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stderr is not None
    assert process.stderr.readline() == f"[1/{MANY}] specs/scaled_00.op\n"
    time.sleep(seconds)
    os.killpg(process.pid, signal.SIGINT)
    *lines, last = process.communicate(timeout=60)[1].splitlines()
    assert (process.returncode, last) == (130, "interrupted")
    assert [line for line in lines if not line.startswith("[")] == []
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)
    assert not (many / "generated").exists()


def test_an_interrupt_that_is_dropped_ends_the_build_before_it_writes(project: Path) -> None:
    """As Python drops what is raised in a callback of its own."""
    code = """
import contextlib, os, signal, sys
import opgen.pipeline
from opgen.cli import main

module_context = opgen.pipeline.module_context

def changed(*arguments):
    with contextlib.suppress(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    return module_context(*arguments)

opgen.pipeline.module_context = changed
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.exit(main(["build", "--jobs", "1"]))
"""
    done = python(project, "-c", code)
    assert (done.returncode, done.stderr.splitlines()[-1]) == (130, "interrupted")
    assert not (project / "generated").exists()


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
