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
    "cdiv next_power_of_2 grid launch torch tl triton math forward backward self ctx mask numel num_warps kernel "
    "config reference program rows at rt Any device T_ptr BLOCK via"
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


def test_names_of_helpers_are_names_like_others(tmp_path: Path, device: torch.device) -> None:
    """User's op name equals a helper's name (pytorch/helion#3181): each name, in each role."""
    roles = [tuple(TAKEN[(place + role) % len(TAKEN)] for role in range(6)) for place in range(len(TAKEN))]
    text = "\n".join(
        f"op {op}({tensor}: f32[..., {dim}], {scalar}: f32) -> {result}: f32[..., {dim}] {{\n"
        f"  {value} = {tensor} * {scalar} + index[{dim}]\n"
        f"  {result} = {value} + {value}\n"
        "}"
        for op, tensor, scalar, dim, value, result in roles
    )
    ops = build_package(text, tmp_path)
    x = torch.tensor([[1.0, 2.0]], device=device)
    for op, tensor, scalar, *_ in roles:
        assert getattr(ops, op)(**{tensor: x, scalar: 3}).tolist() == [[6.0, 14.0]], op


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
        for _ in range(3)
    ]
    outputs = [process.communicate()[0] for process in running]
    assert [process.returncode for process in running] == [0] * 3, outputs
    whole = contents(folder / "generated")
    assert {"alpha.py", "beta.py", "gamma.py", "manifest.json"} <= whole.keys()
    assert not [name for name in whole if name.endswith("tmp")]

    (folder / "generated" / "alpha.py").write_text(whole["alpha.py"][:100])
    (folder / "generated" / "beta.py").write_text("\0" * 4096)
    assert opgen(folder, "build", "--check").returncode == 1
    assert opgen(folder, "build").returncode == 0
    assert contents(folder / "generated") == whole


@pytest.mark.parametrize("word", ["lambda", "in", "is", "None", "class", "def", "not"])
def test_words_of_python_are_refused_as_names(word: str, tmp_path: Path) -> None:
    """Python keywords as identifiers (lark-parser/lark#434, jsiek/deduce#1032)."""
    with pytest.raises(SpecError) as caught:
        build_module(f"op f({word}: f32[...]) -> y: f32[...] {{ y = {word} + 1 }}", tmp_path)
    assert f"{word}_" in str(caught.value)


def test_words_that_only_look_reserved_work(tmp_path: Path, device: torch.device) -> None:
    """Python keywords as identifiers (jsiek/deduce#1032): builtins and soft keywords are mere names."""
    names = ("lambda_", "x_in", "print", "sum", "max", "input", "id", "match", "type", "_")
    text = "\n".join(f"op f{name}({name}: f32[...]) -> y: f32[...] {{ y = {name} + 1 }}" for name in names)
    ops = build_package(text, tmp_path)
    for name in names:
        assert getattr(ops, f"f{name}")(**{name: torch.zeros(2, device=device)}).tolist() == [1.0, 1.0]


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
