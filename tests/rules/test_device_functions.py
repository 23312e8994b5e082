"""The device functions of the runtime: their names, and what they may mention.

PyTorch's compiler copies a kernel and every function that it calls, by name, into one module of its own. So a name
means one function in all of these files, and a function mentions nothing that such a module does not have.
"""

import ast
import builtins
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from opgen.emit.names import DEVICE_FUNCTIONS

ROOT = Path(__file__).resolve().parents[2]
RUNTIME = ROOT / "templates" / "runtime"
FILES = (
    *sorted(RUNTIME.glob("_math*.py")),
    *sorted(RUNTIME.glob("*_tiles.py")),
    RUNTIME / "_row_reductions.py",
)

#: Builtins that Triton's compiler knows.
KNOWN = frozenset({"float", "hasattr", "int", "isinstance", "len", "max", "min", "range"})
#: Modules of Triton that device functions use besides `tl`.
TRITONS = frozenset({"libdevice"})


def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), path.name)


def device_functions(tree: ast.Module) -> list[ast.FunctionDef]:
    """The functions of a module that Triton compiles."""
    return [node for node in tree.body if isinstance(node, ast.FunctionDef) and _is_compiled(node)]


def _is_compiled(function: ast.FunctionDef) -> bool:
    marks = [mark.func if isinstance(mark, ast.Call) else mark for mark in function.decorator_list]
    return any(ast.unparse(mark) == "triton.jit" for mark in marks)


def constants(tree: ast.Module) -> Iterator[str]:
    """The names of a module's compile-time constants."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.value).startswith("tl.constexpr("):
            yield from (target.id for target in node.targets if isinstance(target, ast.Name))


def defined(tree: ast.Module) -> list[str]:
    """What a module adds to the one that PyTorch's compiler makes."""
    return [*(function.name for function in device_functions(tree)), *constants(tree)]


def faults(tree: ast.Module, shared: frozenset[str]) -> list[str]:
    """What a module's device functions mention beside each other, `tl` and what is imported of `shared`."""
    imported = {
        alias.asname or alias.name
        for node in tree.body
        if isinstance(node, ast.ImportFrom) and node.level == 1
        for alias in node.names
        if alias.name in shared and alias.asname in (None, alias.name)
    }
    known = {*defined(tree), *imported, *KNOWN, *TRITONS, "tl"}
    return [
        f"{function.name}, line {name.lineno}: {name.id}"
        for function in device_functions(tree)
        for name in _free_names(function)
        if name.id not in known
    ]


def _free_names(function: ast.FunctionDef) -> list[ast.Name]:
    """The names that a function's signature and body read without having assigned them anywhere."""
    names = [
        node
        for part in (function.args, *function.body)
        for node in ast.walk(part)
        if isinstance(node, ast.Name)
    ]
    arguments = {argument.arg for argument in ast.walk(function.args) if isinstance(argument, ast.arg)}
    own = arguments | {name.id for name in names if isinstance(name.ctx, ast.Store)}
    return [name for name in names if name.id not in own]


SHARED = frozenset(name for path in FILES for name in defined(parsed(path)))


def test_names_are_unique() -> None:
    counts = Counter(name for path in FILES for name in defined(parsed(path)))
    assert counts
    assert [name for name, count in counts.items() if count > 1] == []


def test_names_hide_nothing_that_triton_knows() -> None:
    assert KNOWN.issubset(dir(builtins))
    assert KNOWN.isdisjoint(SHARED)


def test_each_is_called_by_kernels_or_by_another() -> None:
    called = {
        name.id
        for path in FILES
        for function in device_functions(parsed(path))
        for name in _free_names(function)
        if name.id != function.name
    }
    assert sorted(SHARED - called - DEVICE_FUNCTIONS) == []
    assert sorted(DEVICE_FUNCTIONS - SHARED) == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_runtime_mentions_only_what_is_copied(path: Path) -> None:
    tree = parsed(path)
    assert device_functions(tree)
    assert faults(tree, SHARED) == []


def test_generated_kernels_mention_only_what_is_copied() -> None:
    files = [path for path in sorted((ROOT / "generated").glob("*.py")) if not path.name.startswith("_")]
    assert files
    found = {path.name: faults(parsed(path), SHARED) for path in files}
    assert {name: what for name, what in found.items() if what} == {}


# --- the check itself ---------------------------------------------------------------------------

HEAD = "import triton\nimport triton.language as tl\nfrom ._math import exp\nfrom . import _runtime as rt\n"


@pytest.mark.parametrize(
    "text",
    [
        "LIMIT = 3\n@triton.jit\ndef f(x):\n    return x + LIMIT",
        "def g(x):\n    return x\n@triton.jit\ndef f(x):\n    return g(x)",
        "@triton.jit\ndef f(x):\n    return rt.exp(x)",
        "@triton.jit\ndef f(x):\n    return triton.cdiv(x, 2)",
        "@triton.jit(do_not_specialize=(0,))\ndef f(x):\n    return log(x)",
        "@triton.jit\ndef f(x, y=OTHER):\n    return x",
        "@triton.jit\ndef f(x):\n    return abs(x)",
        "from ._math import exp as e\n@triton.jit\ndef f(x):\n    return e(x)",
    ],
)
def test_fault_is_found(text: str) -> None:
    assert len(faults(ast.parse(HEAD + text), frozenset({"exp"}))) == 1


@pytest.mark.parametrize(
    "text",
    [
        "LIMIT = tl.constexpr(3)\n@triton.jit\ndef f(x):\n    return x + LIMIT",
        "@triton.jit\ndef g(x):\n    return x\n@triton.jit\ndef f(x, N: tl.constexpr):\n    return g(exp(x)) + N",
        "@triton.jit\ndef f(x):\n    for i in range(2):\n        a, b = x, i\n    return tl.abs(a) + float('inf') + b",
        "def host(x):\n    return triton.cdiv(x, 2)",
    ],
)
def test_sound_function_passes(text: str) -> None:
    assert faults(ast.parse(HEAD + text), frozenset({"exp"})) == []
