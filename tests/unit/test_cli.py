"""The command line around a stand-in for the pipeline: settings, specs, exit codes, drift, JSON, colours."""

import io
import json
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from opgen.cli import main
from opgen.cli_report import MANY_SPECS
from opgen.cli_session import cores
from opgen.diagnostics import Diagnostic, InternalError, Severity, SpecError
from opgen.manifest import HEADER, MANIFEST, VERSION, describe
from opgen.source import Source, Span

SPEC = "op swish(x: T[...]) -> y: T[...] { y = x * sigmoid(x) }\n"


@dataclass(frozen=True)
class _Spec:
    source: Source


@dataclass(frozen=True)
class _Build:
    files: tuple[tuple[str, str], ...]
    specs: tuple[_Spec, ...]
    warnings: tuple[Diagnostic, ...]


def _word(source: Source, word: str) -> Span:
    start = source.text.index(word)
    return Span(source, start, start + len(word))


def stand_in(
    sources: Sequence[Source],
    *,
    targets: Sequence[str],
    read: Callable[[str], Source],
    progress: Callable[[Source], None],
    jobs: int,
) -> _Build:
    """A module that holds the spec's text and the targets, or what the text asks for."""
    specs, files, warnings = [], [], []
    for source in sources:
        progress(source)
        specs.append(_Spec(source))
        if "wrong" in source.text:
            help_text = "write it right"
            raise SpecError([Diagnostic("OPG123", "this is wrong", _word(source, "wrong"), help=help_text)])
        if "odd" in source.text:
            warnings.append(Diagnostic("OPG124", "this is odd", _word(source, "odd"), Severity.WARNING))
        if "crash" in source.text:
            raise InternalError("a graph without values\nand more")
        if "interrupt" in source.text:
            raise KeyboardInterrupt
        name = Path(source.name).stem
        text = f"{HEADER} from {source.name}\nTEXT = {source.text!r}\nTARGETS = {list(targets)}\n"
        files.append((f"{name}.py", text, source.name))
    entries = [(path, text) for path, text, _ in files]
    return _Build((*sorted(entries), (MANIFEST, describe(files).text())), tuple(specs), tuple(warnings))


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with settings and two specs, as the current folder."""
    pipeline = ModuleType("opgen.pipeline")
    vars(pipeline).update(compile_specs=stand_in, package_index=str)
    monkeypatch.setitem(sys.modules, "opgen.pipeline", pipeline)
    for variable in ("NO_COLOR", "FORCE_COLOR", "OPGEN_DEBUG"):
        monkeypatch.delenv(variable, raising=False)
    root = tmp_path / "project"
    (root / "specs").mkdir(parents=True)
    (root / "pyproject.toml").write_text("[tool.opgen]\n")
    (root / "specs/a.op").write_text(SPEC)
    (root / "specs/b.op").write_text(SPEC)
    monkeypatch.chdir(root)
    return root


Output = pytest.CaptureFixture[str]


def run(capsys: Output, *arguments: str) -> tuple[int, str, str]:
    """Exit code, standard output, standard error."""
    capsys.readouterr()
    code = main(arguments)
    out, err = capsys.readouterr()
    return code, out, err


# --- build and check ----------------------------------------------------------------------------


def test_build_then_check(project: Path, capsys: Output) -> None:
    code, out, err = run(capsys, "build")
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "created generated/a.py",
        "created generated/b.py",
        "created generated/manifest.json",
        "2 specs: 3 created",
    ]
    assert run(capsys, "build", "--check") == (0, "3 files of 2 specs are up to date\n", "")
    assert run(capsys, "build") == (0, "2 specs: 3 unchanged\n", "")


def test_check_reports_each_kind_of_drift(project: Path, capsys: Output) -> None:
    (project / "specs/c.op").write_text(SPEC)
    run(capsys, "build")
    (project / "specs/a.op").write_text(SPEC + "# more\n")
    (project / "generated/b.py").write_text(f"{HEADER}\nedited = 1\n")
    (project / "specs/c.op").unlink()
    (project / "specs/d.op").write_text(SPEC)
    code, out, err = run(capsys, "build", "--check")
    assert (code, out) == (1, "")
    assert "generated/a.py: error[OPG911]: is not what its spec makes now" in err
    assert "generated/b.py: error[OPG912]: was changed by hand" in err
    assert "generated/c.py: error[OPG913]: is generated, but no spec makes it any more" in err
    assert "generated/d.py: error[OPG914]: is missing" in err
    assert "-edited = 1" in err
    assert (project / "generated/b.py").read_text() == f"{HEADER}\nedited = 1\n"
    code, out, _ = run(capsys, "build")
    assert code == 0
    assert "updated generated/b.py (changes made by hand are overwritten)" in out
    assert "removed generated/c.py" in out
    assert run(capsys, "build", "--check")[0] == 0


def test_check_looks_at_the_specs_alone(project: Path, capsys: Output) -> None:
    assert run(capsys, "check") == (0, "2 specs are fine\n", "")
    assert not (project / "generated").exists()
    (project / "specs/b.op").write_text("# first\nso wrong\n")
    code, out, err = run(capsys, "check")
    assert (code, out) == (1, "")
    assert "specs/b.op:2:4: error[OPG123]: this is wrong" in err


def test_kept_orphan_is_an_error(project: Path, capsys: Output) -> None:
    run(capsys, "build")
    (project / "generated/b.py").write_text(f"{HEADER}\nedited = 1\n")
    (project / "specs/b.op").unlink()
    code, _, err = run(capsys, "build")
    assert code == 1
    assert "generated/b.py: error[OPG916]" in err


def test_build_of_one_spec(project: Path, capsys: Output) -> None:
    run(capsys, "build")
    (project / "specs/a.op").write_text(SPEC + "# more\n")
    (project / "specs/b.op").write_text(SPEC + "# more\n")
    code, out, _ = run(capsys, "build", "specs/a.op")
    assert (code, out.splitlines()[0]) == (0, "updated generated/a.py")
    assert run(capsys, "build", "--check", "specs/a.op")[0] == 0
    code, _, err = run(capsys, "build", "--check")
    assert code == 1
    assert "generated/b.py" in err
    assert "generated/a.py" not in err


def test_folder_as_spec_from_another_folder(
    project: Path, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "elsewhere").mkdir()
    monkeypatch.chdir(project / "elsewhere")
    code, out, _ = run(capsys, "build", "../specs", "--out", "made")
    assert (code, out.splitlines()[0]) == (0, "created elsewhere/made/a.py")
    first = (project / "elsewhere/made/a.py").read_text().splitlines()[0]
    assert first == f"{HEADER} from specs/a.op"  # relative to the project, wherever it is built from


def test_spec_through_a_link_has_the_same_name(project: Path, capsys: Output) -> None:
    link = project.parent / "link"
    link.symlink_to(project)
    run(capsys, "build", str(link / "specs/a.op"))
    assert (project / "generated/a.py").read_text().startswith(f"{HEADER} from specs/a.op\n")


def test_targets_of_flag_and_settings(project: Path, capsys: Output) -> None:
    (project / "pyproject.toml").write_text('[tool.opgen]\ntargets = ["sm_90", "sm_80"]\n')
    run(capsys, "build")
    assert "TARGETS = ['sm_90', 'sm_80']" in (project / "generated/a.py").read_text()
    run(capsys, "build", "--target", "gfx942, sm_80")
    assert "TARGETS = ['gfx942', 'sm_80']" in (project / "generated/a.py").read_text()
    code, _, err = run(capsys, "build", "--target", "sm90")
    assert code == 1
    assert "there is no target `sm90`; did you mean `sm_90`?" in err


def test_warning_is_told_and_fine(project: Path, capsys: Output) -> None:
    (project / "specs/a.op").write_text("odd\n")
    code, _, err = run(capsys, "build")
    assert code == 0
    assert err.startswith("specs/a.op:1:1: warning[OPG124]: this is odd\n1 | odd\n  | ^^^\n")


def test_read_only_output_is_the_users_to_change(project: Path, capsys: Output) -> None:
    (project / "generated").write_text("a file is in the way\n")
    code, out, err = run(capsys, "build")
    assert (code, out) == (1, "")
    assert "generated: File exists" in err


# --- specs that are not there -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("specs/none.op", "specs/none.op: error[OPG902]: there is no such file or folder"),
        ("empty", "empty: error[OPG902]: this folder holds no spec (*.op); `opgen new NAME` starts one"),
        (
            "pyproject.toml",
            "pyproject.toml: error[OPG902]: this is not a spec: the name of a spec ends in",
        ),
        ("specs/latin.op", "specs/latin.op:2:6: error[OPG904]: the file is not UTF-8: byte 0xe9 stands here"),
    ],
)
@pytest.mark.parametrize("command", ["build", "check", "fmt"])
def test_unusable_argument(project: Path, capsys: Output, command: str, argument: str, message: str) -> None:
    (project / "empty").mkdir()
    (project / "specs/latin.op").write_bytes("# ü\n# caf".encode() + b"\xe9\n")
    code, out, err = run(capsys, command, argument)
    assert (code, out) == (1, "")
    assert err.startswith(message)


def test_project_without_specs(project: Path, capsys: Output) -> None:
    (project / "pyproject.toml").write_text('[tool.opgen]\nspecs = ["ops"]\n')
    code, _, err = run(capsys, "build")
    assert code == 1
    assert err.startswith("ops/: error[OPG902]: there is no such file or folder")


def test_specs_in_hidden_folders_are_not_taken(project: Path, capsys: Output) -> None:
    (project / ".venv").mkdir()
    (project / ".venv/prelude.op").write_text("wrong")
    assert run(capsys, "build", ".")[0] == 0


# --- settings -----------------------------------------------------------------------------------


def test_settings_are_found_upward(project: Path, capsys: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    (project / "pyproject.toml").write_text('[tool.opgen]\nout = "made/here"\nspecs = ["specs/b.op"]\n')
    (project / "deep/down").mkdir(parents=True)
    monkeypatch.chdir(project / "deep/down")
    code, out, _ = run(capsys, "build")
    assert (code, out.splitlines()[0]) == (0, "created made/here/b.py")
    assert not (project / "made/here/a.py").exists()


def test_without_pyproject_the_current_folder_is_the_project(project: Path, capsys: Output) -> None:
    (project / "pyproject.toml").unlink()
    code, out, _ = run(capsys, "build")
    assert (code, out.splitlines()[-1]) == (0, "2 specs: 3 created")


@pytest.mark.parametrize(
    ("text", "start"),
    [
        (
            '[tool.opgen]\noutt = "x"\n',
            "pyproject.toml:2:1: error[OPG901]: [tool.opgen] has no setting `outt`\n",
        ),
        ("[tool.opgen]\nout = 3\n", "pyproject.toml:2:1: error[OPG901]: `out` is the path of a folder\n"),
        ("[tool.opgen]\nspecs = 'x'\n", "pyproject.toml:2:1: error[OPG901]: `specs` is a list of strings"),
        ("[tool.opgen]\ntargets = []\n", "pyproject.toml:2:1: error[OPG901]: `targets` is a list of strings"),
        ("[tool]\nopgen = 3\n", "pyproject.toml: error[OPG901]: `tool.opgen` is a table of settings"),
        ("[tool.opgen\n", "pyproject.toml: error[OPG901]: this is not TOML"),
    ],
)
def test_settings_that_are_not_understood(project: Path, capsys: Output, text: str, start: str) -> None:
    (project / "pyproject.toml").write_text(text)
    code, out, err = run(capsys, "build")
    assert (code, out) == (1, "")
    assert err.startswith(start)


def test_unknown_setting_proposes_the_near_one(project: Path, capsys: Output) -> None:
    (project / "pyproject.toml").write_text('[tool.opgen]\ntarget = ["sm_90"]\n')
    assert "help: did you mean `targets`?" in run(capsys, "build")[2]


# --- exit codes ---------------------------------------------------------------------------------


def test_mistake_in_a_spec(project: Path, capsys: Output) -> None:
    (project / "specs/b.op").write_text("# first\nso wrong\n")
    code, out, err = run(capsys, "build")
    assert (code, out) == (1, "")
    assert err == (
        "specs/b.op:2:4: error[OPG123]: this is wrong\n2 | so wrong\n  |    ^^^^^\nhelp: write it right\n"
    )
    assert not (project / "generated").exists()


def test_internal_error_is_one_line_that_names_the_spec(
    project: Path, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "specs/b.op").write_text("crash\n")
    code, out, err = run(capsys, "build")
    assert (code, out) == (2, "")
    assert err.startswith("internal error: specs/b.op: InternalError: a graph without values and more;")
    assert err.count("\n") == 1
    monkeypatch.setenv("OPGEN_DEBUG", "1")
    code, _, err = run(capsys, "build")
    assert code == 2
    assert err.startswith("Traceback")


def test_interrupt(project: Path, capsys: Output) -> None:
    (project / "specs/b.op").write_text("interrupt\n")
    assert run(capsys, "build") == (130, "", "interrupted\n")


@pytest.mark.parametrize(
    "arguments", [["biuld"], ["build", "--oops"], ["build", "--format", "xml"], ["explain"], ["new", "a b"]]
)
def test_usage_error(project: Path, capsys: Output, arguments: list[str]) -> None:
    code, out, err = run(capsys, *arguments)
    assert (code, out) == (1, "")
    assert "Error: " in err


def test_version_and_help(project: Path, capsys: Output) -> None:
    assert run(capsys, "--version") == (0, f"opgen {VERSION}\n", "")
    code, out, _ = run(capsys, "--help")
    assert code == 0
    assert "explain" in out


# --- JSON ---------------------------------------------------------------------------------------


def records(capsys: Output, *arguments: str) -> tuple[int, list[dict[str, Any]]]:
    code, out, _ = run(capsys, *arguments)
    return code, json.loads(out)


@pytest.mark.parametrize("command", ["build", "check"])
def test_json_of_nothing(project: Path, capsys: Output, command: str) -> None:
    run(capsys, "build")
    assert records(capsys, command, "--format", "json") == (0, [])


def test_json_of_a_mistake(project: Path, capsys: Output) -> None:
    (project / "specs/b.op").write_text("# first\nso wrong\n")
    assert records(capsys, "build", "--format=json") == (
        1,
        [
            {
                "code": "OPG123",
                "severity": "error",
                "message": "this is wrong",
                "file": "specs/b.op",
                "line": 2,
                "column": 4,
                "end_line": 2,
                "end_column": 9,
                "notes": [],
                "help": "write it right",
            }
        ],
    )


@pytest.mark.parametrize(
    ("arguments", "code", "diagnostic"),
    [
        (["build", "--check", "specs/a.op"], 1, "OPG914"),
        (["check", "nowhere.op"], 1, "OPG902"),
        (["build", "nowhere.op"], 1, "OPG902"),
        (["build", "--oops"], 1, "OPG900"),
        (["build", "--target", "sm_1"], 1, "OPG900"),
        (["build", "specs/crash.op"], 2, "OPG999"),
        (["build", "specs/a.op", "--out", "pyproject.toml"], 1, "OPG905"),
        (["fmt", "nowhere.op"], 1, "OPG902"),
    ],
)
def test_json_is_valid_however_it_ends(
    project: Path, capsys: Output, arguments: list[str], code: int, diagnostic: str
) -> None:
    (project / "specs/crash.op").write_text("crash")
    ended, found = records(capsys, *arguments, "--format", "json")
    assert ended == code
    assert found[0]["code"] == diagnostic


# --- colours and progress -----------------------------------------------------------------------


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def on_terminal(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> str:
    terminal = _Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    main(arguments)
    return terminal.getvalue()


def test_colours(project: Path, monkeypatch: pytest.MonkeyPatch, capsys: Output) -> None:
    (project / "specs/b.op").write_text("so wrong\n")
    monkeypatch.setenv("TERM", "xterm")
    colored = on_terminal(monkeypatch, "build")
    assert colored.splitlines()[:3] == [
        "specs/b.op:1:4: \033[1;31merror\033[0m[OPG123]: this is wrong",
        "1 | so wrong",
        "  |    \033[1;31m^^^^^\033[0m",
    ]
    assert "\033" not in on_terminal(monkeypatch, "build", "--no-color")
    assert "\033" not in on_terminal(monkeypatch, "--no-color", "build")
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\033" not in on_terminal(monkeypatch, "build")


def test_colours_in_a_pipe_only_when_forced(
    project: Path, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "specs/b.op").write_text("so wrong\n")
    assert "\033" not in run(capsys, "build")[2]
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\033[1;31merror\033[0m" in run(capsys, "build")[2]


def test_progress(project: Path, capsys: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(capsys, "build")[2] == ""  # two specs are not worth it
    for i in range(MANY_SPECS - 2):
        (project / f"specs/s{i}.op").write_text(SPEC)
    lines = run(capsys, "build")[2].splitlines()
    assert lines[0] == f"[1/{MANY_SPECS}] specs/a.op"
    assert len(lines) == MANY_SPECS
    shown = on_terminal(monkeypatch, "build")
    assert "\n" not in shown
    assert shown.endswith("\r\033[K")


@pytest.mark.parametrize(
    ("specs", "arguments", "expected"),
    [(2, ["--jobs", "4"], 1), (16, ["--jobs", "1"], 1), (16, ["--jobs", "3"], 3), (16, ["--jobs", "40"], 4)],
)
@pytest.mark.parametrize("command", ["build", "check"])
def test_processes_share_many_specs(
    project: Path,
    capsys: Output,
    monkeypatch: pytest.MonkeyPatch,
    command: str,
    specs: int,
    arguments: list[str],
    expected: int,
) -> None:
    given: list[int] = []

    def noting(sources: Sequence[Source], *, jobs: int, **others: Any) -> _Build:
        given.append(jobs)
        return stand_in(sources, jobs=jobs, **others)

    monkeypatch.setattr(sys.modules["opgen.pipeline"], "compile_specs", noting)
    for i in range(specs - 2):
        (project / f"specs/s{i}.op").write_text(SPEC)
    assert run(capsys, command, *arguments)[0] == 0
    assert given == [expected]


def test_a_build_takes_all_cores(project: Path, capsys: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "default: the cores" in run(capsys, "build", "--help")[1]
    assert 1 <= cores() <= (os.cpu_count() or 1)
    assert run(capsys, "build", "--jobs", "0")[0] == 1


# --- fmt and new --------------------------------------------------------------------------------


def test_fmt(project: Path, capsys: Output) -> None:
    run(capsys, "fmt")
    formatted = (project / "specs/a.op").read_text()
    (project / "specs/a.op").write_text(formatted.replace(" = ", "="))
    code, out, err = run(capsys, "fmt", "--check")
    assert (code, out) == (1, "")
    assert err == "specs/a.op: error[OPG915]: is not formatted\nhelp: `opgen fmt` formats it\n"
    assert run(capsys, "fmt") == (0, "formatted specs/a.op\n", "")
    assert (project / "specs/a.op").read_text() == formatted
    assert run(capsys, "fmt", "--check") == (0, "", "")
    assert records(capsys, "fmt", "--check", "--format", "json") == (0, [])


def test_fmt_of_standard_input(project: Path, capsys: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    run(capsys, "fmt")
    formatted = (project / "specs/a.op").read_text()

    def feed(text: str) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))

    feed(formatted.replace(" = ", "="))
    assert run(capsys, "fmt", "-") == (0, formatted, "")
    feed(formatted.replace(" = ", "="))
    assert run(capsys, "fmt", "-", "--check")[:2] == (1, "")
    feed(formatted)
    assert run(capsys, "fmt", "-", "--check") == (0, "", "")
    feed("op op op")
    code, out, err = run(capsys, "fmt", "-")
    assert (code, out) == (1, "")
    assert err.startswith("<stdin>:1:")


def test_fmt_formats_what_it_can(project: Path, capsys: Output) -> None:
    (project / "specs/a.op").write_text("op op op")
    code, _, err = run(capsys, "fmt")
    assert code == 1
    assert err.startswith("specs/a.op:1:")
    assert run(capsys, "fmt", "--check", "specs/b.op")[0] == 0


def test_new(project: Path, capsys: Output) -> None:
    code, out, _ = run(capsys, "new", "my_op")
    assert (code, out) == (0, "created specs/my_op.op; `opgen build specs/my_op.op` builds it\n")
    text = (project / "specs/my_op.op").read_text()
    assert "op my_op(" in text
    (project / "specs/my_op.op").write_text("mine")
    code, _, err = run(capsys, "new", "my_op")
    assert code == 1
    assert "my_op.op: File exists" in err
    assert (project / "specs/my_op.op").read_text() == "mine"


@pytest.mark.parametrize("name", ["lambda", "2nd", "a-b", "../up", "", "true", "f16", "pi"])
def test_new_refuses_names(project: Path, capsys: Output, name: str) -> None:
    before = sorted(project.rglob("*"))
    code, _, err = run(capsys, "new", name)
    assert code == 1
    assert f"an op cannot be called `{name}`" in err
    assert sorted(project.rglob("*")) == before


# --- files to write -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "option"), [("vet", "--json"), ("vet", "--md"), ("bench", "--json"), ("advise", "--plot")]
)
def test_reports_are_not_written_over_specs(project: Path, capsys: Output, command: str, option: str) -> None:
    code, _, err = run(capsys, command, option, "specs/a.op", "specs/b.op")
    assert code == 1
    assert f"{option}" in err
    assert "it takes the file to write, and specs/a.op is a spec" in err
    assert (project / "specs/a.op").read_text() == SPEC
