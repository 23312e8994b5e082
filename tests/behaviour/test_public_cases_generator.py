"""The language and the generator: failures that were reported in public, with what is right here."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from opgen.diagnostics import SpecError
from tests.behaviour.building import build_module, build_package

ROOT = Path(__file__).parents[2]

#: What generated code would like to call its own things.
TAKEN = (
    "cdiv next_power_of_2 grid launch torch tl triton math forward backward self ctx mask offsets pid block "
    "num_warps num_stages kernel config reference program row rows cols numel stride strides rt runtime run "
    "entry Any call device dtype tensors x_ptr y_ptr BLOCK"
).split()


def opgen(folder: Path, *arguments: str, seed: str = "0") -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": seed, "NO_COLOR": "1"}
    return subprocess.run(
        [sys.executable, "-m", "opgen", *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def project(folder: Path, **specs: str) -> Path:
    (folder / "specs").mkdir(parents=True)
    (folder / "pyproject.toml").write_text('[tool.opgen]\nspecs = ["specs"]\nout = "generated"\n')
    for name, text in specs.items():
        (folder / "specs" / f"{name}.op").write_text(text)
    return folder


def contents(folder: Path) -> dict[str, str]:
    files = (path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {path.relative_to(folder).as_posix(): path.read_text() for path in files}


def test_ops_may_have_the_names_of_helpers(tmp_path: Path, device: torch.device) -> None:
    """User's op name equals a helper's name (pytorch/helion#3181)."""
    text = "\n".join(
        f"op {name}(x: f32[...]) -> y: f32[...] {{ y = x + {place} }}" for place, name in enumerate(TAKEN)
    )
    ops = build_package(text, tmp_path)
    x = torch.zeros(3, device=device)
    for place, name in enumerate(TAKEN):
        assert getattr(ops, name)(x).tolist() == [float(place)] * 3, name


def test_parameters_values_and_results_may_have_the_names_of_helpers(
    tmp_path: Path, device: torch.device
) -> None:
    """User's parameter name equals a helper's name (pytorch/helion#3181)."""
    text = "\n".join(
        f"op take_{name}({name}: f32[..., N], s: f32 = 2) -> result: f32[..., N] {{ result = {name} * s }}\n"
        f"op make_{name}(x: f32[..., N]) -> {name}: f32[..., N] {{ {name} = x + 1 }}\n"
        f"op pass_{name}(x: f32[..., N]) -> y: f32[..., N] {{ {name} = x * 3  y = {name} + {name} }}\n"
        f"op scale_{name}(x: f32[..., N], {name}: f32) -> y: f32[..., N] {{ y = x * {name} }}\n"
        for name in TAKEN
    )
    ops = build_package(text, tmp_path)
    x = torch.tensor([[1.0, 2.0]], device=device)
    for name in TAKEN:
        assert getattr(ops, f"take_{name}")(**{name: x}).tolist() == [[2.0, 4.0]], name
        assert getattr(ops, f"make_{name}")(x).tolist() == [[2.0, 3.0]], name
        assert getattr(ops, f"pass_{name}")(x).tolist() == [[6.0, 12.0]], name
        assert getattr(ops, f"scale_{name}")(x, **{name: 0.5}).tolist() == [[0.5, 1.0]], name


def test_dims_may_have_the_names_of_helpers(tmp_path: Path, device: torch.device) -> None:
    """A dim's name equals a helper's name (pytorch/helion#3181)."""
    text = "\n".join(
        f"op along_{name}(x: f32[M, {name}], b: f32[{name}]) -> y: f32[M, {name}]"
        f" {{ y = x + b * index[{name}] }}"
        for name in TAKEN
    )
    ops = build_package(text, tmp_path)
    x, b = torch.ones(2, 3, device=device), torch.ones(3, device=device)
    for name in TAKEN:
        assert getattr(ops, f"along_{name}")(x, b).tolist() == [[1.0, 2.0, 3.0]] * 2, name


SPECS = {
    "first": "op alpha(x: T[...], s: f32 = 2) -> y: T[...] { y = x * s }\n"
    "op beta(x: T[..., N], b: T[N]) -> y: T[..., N] { y = gelu(x + b) }\n",
    "second": "op gamma(a: f32[M, N], i: i64[M]) -> y: f32[M, N] { y = a[M: i] * index[N] }\n",
}


def test_the_same_spec_gives_the_same_bytes(tmp_path: Path) -> None:
    """Output changes from process to process (pytorch/torchdynamo#575, pytorch/pytorch#143951)."""
    made = []
    for seed, place in (("0", "here"), ("1", "there/deeper"), ("2", "here too")):
        folder = project(tmp_path / place, **SPECS)
        done = opgen(folder, "build", seed=seed)
        assert done.returncode == 0, done.stderr
        made.append(contents(folder / "generated"))
    assert made[0] == made[1] == made[2]
    assert not any(str(tmp_path) in text for text in made[0].values())


def test_other_ops_do_not_change_an_ops_module(tmp_path: Path) -> None:
    """Any order of unrelated ops gives the same text for each (pytorch/torchdynamo#575)."""
    alpha, beta = SPECS["first"].splitlines()
    made = []
    for place, text in (("one", f"{alpha}\n{beta}"), ("two", f"{beta}\n{alpha}")):
        folder = project(tmp_path / place, first=text)
        assert opgen(folder, "build").returncode == 0
        made.append(contents(folder / "generated"))
    for name in ("alpha.py", "beta.py", "tests/test_alpha.py", "tests/test_beta.py"):
        assert made[0][name] == made[1][name]


def test_builds_at_the_same_time_and_damaged_files(tmp_path: Path) -> None:
    """Half-written generated modules (flagos-ai/FlagGems#532, pytorch/torchdynamo#1347)."""
    folder = project(tmp_path / "project", **SPECS)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "opgen", "build"]
    running = [
        subprocess.Popen(
            command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        for _ in range(4)
    ]
    outputs = [process.communicate()[0] for process in running]
    assert [process.returncode for process in running] == [0] * 4, outputs
    whole = contents(folder / "generated")
    assert {"alpha.py", "beta.py", "gamma.py", "manifest.json"} <= whole.keys()
    assert not [name for name in whole if name.endswith("tmp")]

    module = folder / "generated" / "alpha.py"
    for damaged in (whole["alpha.py"][:100], "\0" * 4096, ""):
        module.write_text(damaged)
        assert opgen(folder, "check").returncode == 1
        assert opgen(folder, "build").returncode == 0
        assert contents(folder / "generated") == whole


@pytest.mark.parametrize("word", ["lambda", "in", "is", "None", "class", "def", "not"])
def test_words_of_python_are_refused_as_names(word: str, tmp_path: Path) -> None:
    """Python keywords as identifiers (lark-parser/lark#434, jsiek/deduce#1032)."""
    with pytest.raises(SpecError) as caught:
        build_module(f"op f({word}: f32[...]) -> y: f32[...] {{ y = {word} + 1 }}", tmp_path)
    assert f"{word}_" in str(caught.value)


@pytest.mark.parametrize(
    "name", ["lambda_", "x_in", "print", "sum", "max", "input", "id", "match", "type", "_"]
)
def test_words_that_only_look_reserved_work(name: str, tmp_path: Path, device: torch.device) -> None:
    """Python keywords as identifiers (jsiek/deduce#1032): builtins and soft keywords are mere names."""
    module = build_module(f"op f({name}: f32[...]) -> y: f32[...] {{ y = {name} + 1 }}", tmp_path)
    assert module.f(**{name: torch.zeros(2, device=device)}).tolist() == [1.0, 1.0]


def test_a_value_is_named_once(tmp_path: Path) -> None:
    """Re-using a name inside a loop aborts the compiler (triton-lang/triton#2015): a name is given once."""
    with pytest.raises(SpecError, match=r"`k`|\bk\b"):
        build_module("op f(x: f32[...]) -> y: f32[...] { k = x + 1  k = k * 2  y = k }", tmp_path)


def test_variants_of_an_op_do_not_share_a_cache(tmp_path: Path, device: torch.device) -> None:
    """Two variants, one cache key (pytorch/pytorch#143353)."""
    spec = "op f(x: f32[...]) -> y: f32[...] {{ y = x {operation}  tile {{ ... = {block} }} }}"
    first = build_module(spec.format(operation="+ 1", block=256), tmp_path / "first")
    second = build_module(spec.format(operation="* 3", block=256), tmp_path / "second")
    third = build_module(spec.format(operation="+ 1", block=1024), tmp_path / "third")
    x = torch.full((2000,), 5.0, device=device)
    for _ in range(2):
        assert first.f(x).eq(6).all()
        assert second.f(x).eq(15).all()
        assert third.f(x).eq(6).all()
