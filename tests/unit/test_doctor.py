"""The doctor: machines that are described, and Pythons whose libraries are missing or broken."""

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from opgen.cli import main
from opgen.device import machine as machines
from opgen.device.doctor import diagnose
from opgen.device.known_bad import COMBINATIONS, Weight
from opgen.device.machine import PROGRAMS, Gpu, Library, Machine, ask, nearest_target
from opgen.device.units import UNITS, unit_in
from opgen.targets import TARGETS

H200 = Gpu("NVIDIA H200", "sm_90")
GOOD = Machine(
    system="Linux x86_64",
    python="3.12.3",
    gpus=(H200,),
    driver="580.159.04",
    driver_cuda="13.0",
    torch=Library(
        "2.13.0+cu130", facts={"cuda": "13.0", "architectures": ["sm_75", "sm_80", "sm_90", "sm_120"]}
    ),
    torch_pins="3.7.1",
    triton=Library("3.7.1", facts={"descriptors": True}),
    numpy=Library("2.4.0"),
    c_compiler="/usr/bin/gcc",
)


def with_gpu(architecture: str) -> Machine:
    return replace(GOOD, gpus=(Gpu("a GPU", architecture),))


def torch_built(**facts: object) -> Library:
    return Library("2.13.0", facts={**GOOD.torch.facts, **facts})


#: For each combination a machine that it applies to.
MACHINES = {
    "torch-broken": replace(GOOD, torch=Library(fault="ImportError: libcudart.so.13")),
    "triton-broken": replace(GOOD, triton=Library(fault="ImportError: libtriton.so")),
    "torch-missing": replace(GOOD, torch=Library(), gpus=()),
    "triton-missing": replace(GOOD, triton=Library()),
    "triton-old": replace(GOOD, triton=Library("3.5.1", facts={"descriptors": True})),
    "torch-old": replace(GOOD, torch=Library("2.9.0", facts=GOOD.torch.facts)),
    "triton-not-pinned": replace(GOOD, torch_pins="3.6.0"),
    "system": replace(GOOD, system="Darwin arm64"),
    "descriptors": replace(GOOD, triton=Library("3.6.0", facts={"descriptors": False})),
    "interpreter-numpy": replace(GOOD, triton=Library("3.6.0"), torch_pins="3.6.0"),
    "interpreter-without-numpy": replace(GOOD, numpy=Library()),
    "driver-old": replace(GOOD, driver="570.86.10"),
    "torch-for-cpu": replace(GOOD, torch=Library("2.13.0+cpu", facts={"cuda": None, "hip": None})),
    "torch-without-architecture": with_gpu("sm_100"),
    "before-turing": with_gpu("sm_70"),
    "turing-matrix-unit": with_gpu("sm_75"),
    "blackwell-old-triton": replace(with_gpu("sm_120"), triton=Library("3.2.0", facts={"descriptors": True})),
    "launcher": replace(GOOD, c_compiler=None),
}


def codes(machine: Machine) -> set[str]:
    return {found.combination.code for found in diagnose(machine).findings}


def test_a_good_machine_has_no_finding() -> None:
    assert codes(GOOD) == set()
    assert not diagnose(GOOD).is_broken


@pytest.mark.parametrize("combination", COMBINATIONS, ids=lambda one: one.code)
def test_each_combination_is_found(combination: object) -> None:
    code = combination.code  # type: ignore[attr-defined]
    diagnosis = diagnose(MACHINES[code])
    (found,) = [one for one in diagnosis.findings if one.combination.code == code]
    assert found.about in diagnosis.text
    assert found.combination.remedy in diagnosis.text
    if found.combination.weight is Weight.BROKEN:
        assert diagnosis.is_broken


def test_each_combination_has_a_source() -> None:
    assert {one.code for one in COMBINATIONS} == set(MACHINES)
    for one in COMBINATIONS:
        assert re.match(r"https://\S+$|measured: ", one.source), one.code


@pytest.mark.parametrize(
    ("machine", "code"),
    [
        (replace(GOOD, driver="525.60.13", torch=torch_built(cuda="12.8")), "driver-old"),
        (
            replace(GOOD, triton=Library("3.6.0"), torch_pins="3.6.0", numpy=Library("2.3.5")),
            "interpreter-numpy",
        ),
        (with_gpu("sm_86"), "torch-without-architecture"),
        (with_gpu("sm_121"), "torch-without-architecture"),
        (
            replace(with_gpu("sm_100"), torch=torch_built(architectures=["compute_90"])),
            "torch-without-architecture",
        ),
        (replace(GOOD, gpus=(), c_compiler=None), "launcher"),
        (replace(GOOD, gpus=(), torch=Library("2.13.0+cpu")), "torch-for-cpu"),
    ],
)
def test_near_misses_are_not_found(machine: Machine, code: str) -> None:
    assert code not in codes(machine)


def test_broken_ones_come_first() -> None:
    machine = replace(MACHINES["launcher"], triton=Library("3.6.0"), torch_pins="3.6.0")
    weights = [found.combination.weight for found in diagnose(machine).findings]
    assert weights == [Weight.BROKEN, Weight.LIMITED]


def test_what_follows_on_a_gpu() -> None:
    text = diagnose(GOOD).text
    assert "configs of sm_90" in text
    assert "(wgmma)" in text
    text = diagnose(with_gpu("sm_89")).text
    assert "tensor descriptors are not used" in text
    text = diagnose(with_gpu("sm_75")).text
    assert "products of f16, bf16, f32, f8e5m2, f64 use no matrix unit" in text
    assert "f8 values are decoded" in text
    assert "no kernel runs there (torch-for-cpu)" in diagnose(MACHINES["torch-for-cpu"]).text


def test_units_name_every_target() -> None:
    assert all(set(row) == set(TARGETS) for row in UNITS.values())
    assert unit_in("wgmma.mma_async.sync.aligned.m64n64k16") == "wgmma"
    assert unit_in("v_mfma_f32_32x32x8_bf16_1k a[0:15]") == "mfma"
    assert unit_in("fma.rn.f32 %f1") is None


@pytest.mark.parametrize(
    ("architecture", "nearest"),
    [
        *((name, name) for name in TARGETS),
        ("sm_103", "sm_100"),
        ("sm_121", "sm_120"),
        ("sm_87", "sm_86"),
        ("gfx1201", "gfx1100"),
        ("gfx941", "gfx90a"),
        ("sm_70", None),
        ("gfx908", None),
        ("xe2", None),
    ],
)
def test_nearest_target(architecture: str, nearest: str | None) -> None:
    found = nearest_target(architecture)
    assert (found.name if found else None) == nearest


# --- Pythons whose libraries are missing or broken ----------------------------------------------


def fake_library(folder: Path, name: str, text: str) -> str:
    """A Python that imports a library of this name from a folder: a script that puts it in front."""
    (folder / f"{name}.py").write_text(text)
    python = folder / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH="{folder}" exec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    return str(python)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("raise ImportError('libcudart.so.13: cannot open shared object file')", "libcudart.so.13"),
        ("import a_module_that_is_not_there", "a_module_that_is_not_there"),
        ("import os\nos.abort()", "signal 6"),
        ("import os\nos._exit(3)", "ends the process with 3"),
        ("raise SystemExit(0)", "prints something else"),
    ],
)
@pytest.mark.parametrize("name", ["torch", "triton"])
def test_a_broken_library_is_a_finding(name: str, text: str, fault: str, tmp_path: Path) -> None:
    library = ask(fake_library(tmp_path, name, text), PROGRAMS[name])
    machine = replace(GOOD, torch=library) if name == "torch" else replace(GOOD, triton=library)
    assert library.version is None
    assert library.fault is not None
    assert fault in library.fault
    assert f"{name}-broken" in codes(machine)


def test_a_missing_library_is_no_fault(tmp_path: Path) -> None:
    program = "import json, no_such_library; print(json.dumps({}))"
    assert ask(sys.executable, program) == Library()
    assert ask(str(tmp_path / "no_python"), program).fault is not None


# --- the commands -------------------------------------------------------------------------------

Output = pytest.CaptureFixture[str]


@pytest.fixture
def good(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machines, "probe", lambda: GOOD)


@pytest.mark.usefixtures("good")
def test_doctor(capsys: Output) -> None:
    assert main(["doctor"]) == 0
    assert "NVIDIA H200 (sm_90)" in capsys.readouterr().out
    assert main(["doctor", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["machine"]["driver"] == "580.159.04"
    assert told["findings"] == []


def test_doctor_fails_where_something_is_broken(monkeypatch: pytest.MonkeyPatch, capsys: Output) -> None:
    monkeypatch.setattr(machines, "probe", lambda: MACHINES["driver-old"])
    assert main(["doctor", "--json"]) == 1
    (finding,) = json.loads(capsys.readouterr().out)["findings"]
    assert finding["code"] == "driver-old"


@pytest.mark.usefixtures("good")
def test_targets_of_this_machine(capsys: Output) -> None:
    assert main(["targets", "--this"]) == 0
    out, err = capsys.readouterr()
    assert [line.split()[0] for line in out.splitlines()] == ["target", "sm_90"]
    assert err == ""
    assert main(["targets", "--this", "--json"]) == 0
    assert list(json.loads(capsys.readouterr().out)) == ["sm_90"]


@pytest.mark.parametrize(
    ("machine", "code", "remark"),
    [
        (with_gpu("sm_121"), 0, "sm_121 is no target; it takes the configs of sm_120"),
        (with_gpu("sm_70"), 1, "there is no target for sm_70"),
        (replace(GOOD, gpus=()), 1, "no GPU"),
    ],
)
def test_targets_of_other_machines(
    machine: Machine, code: int, remark: str, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    monkeypatch.setattr(machines, "probe", lambda: machine)
    assert main(["targets", "--this"]) == code
    assert remark in capsys.readouterr().err


def test_doctor_needs_neither_torch_nor_triton(tmp_path: Path) -> None:
    """In a Python where neither can be imported, the doctor tells so, and fails only where one is broken."""
    program = (
        "import sys\n"
        "class Gone:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name in ('torch', 'triton'): raise ModuleNotFoundError(f'No module named {name!r}', name=name)\n"
        "sys.meta_path.insert(0, Gone())\n"
    )
    python = fake_library(tmp_path, "sitecustomize", program)
    told = subprocess.run([python, "-m", "opgen", "doctor"], capture_output=True, text=True, check=False)
    assert "torch-missing" in told.stdout, told.stderr
    # This interpreter asks itself again, and its own libraries are hidden from it in the same way.
    assert told.returncode == 0
