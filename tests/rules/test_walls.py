"""The walls inside the package: which module may import which, and who alone writes, prints or exits."""

import ast
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

TABLES = ("dtypes", "primitives", "targets")
ALL_STAGES = ("source", "diagnostics", "manifest", "resources", *TABLES, "syntax", "ir", "plan", "emit")

#: What each part of the package may import of the others; arrows go one way, to earlier lines.
MAY_IMPORT: dict[str, tuple[str, ...]] = {
    "source": (),
    "diagnostics": ("source",),
    "manifest": (),
    "resources": (),
    "dtypes": (),
    "primitives": ("dtypes",),
    "targets": ("dtypes",),
    "syntax": ("source", "diagnostics", "resources"),
    "ir": ("source", "diagnostics", "resources", *TABLES, "syntax"),
    "plan": ("source", "diagnostics", *TABLES, "ir"),
    # Advice is given where no kernel can be planned, too, from the typed graph alone.
    "advise": ("source", "diagnostics", *TABLES, "ir", "plan"),
    "emit": ("source", "diagnostics", "manifest", "resources", "dtypes", "primitives", "ir", "plan"),
    "pool": (),
    "pipeline": (*ALL_STAGES, "pool"),
    "folder_lock": (),
    "output": ("manifest", "folder_lock"),
    "config": ("source", "diagnostics"),
    "starter": ("dtypes",),
    "device": (*ALL_STAGES, "pool", "pipeline", "output", "config"),
}
COMMAND_LINE = "cli"  # `cli.py`, its parts `cli_*.py` and `__main__.py`: may import everything

#: The only parts that may import a library; a trailing dot stands for every module of a folder.
LIBRARIES = {
    "lark": ("syntax.parse",),
    "jinja2": ("emit.render",),
    "black": ("emit.render",),
    "torch": ("device.",),
    "triton": ("device.",),
    "numpy": ("device.",),
    "click": (COMMAND_LINE,),
    "matplotlib": ("advise.plot",),
    "tomli": ("config",),
}

#: What generated modules may import; `_runtime` stands for the generated modules whose name begins with `_`.
GENERATED = ("__future__", "typing", "torch", "triton", "_runtime")

WRITERS = ("output", "folder_lock", "device.scratch")  # the last: what is gone when a command ends
WRITING_METHODS = set("write_text write_bytes unlink rename touch mkdir rmdir symlink_to chmod".split())
WRITING_FUNCTIONS = {  # of a module; all of `shutil`'s are taken to write
    "os": set("replace remove rename unlink mkdir makedirs rmdir".split()),
    "shutil": None,
}
TELLING = set("print exit quit input sys.exit sys.stdout sys.stderr os._exit SystemExit".split())

Check = Callable[[str, ast.Module], list[str]]


@dataclass(frozen=True)
class Import:
    """An imported module; `typing_only` ones (under `if TYPE_CHECKING`) are not there at run time."""

    module: str
    typing_only: bool
    line: int


def imports(tree: ast.Module, package: str = "") -> Iterator[Import]:
    """All imports, in functions too; relative ones are made absolute against `package`."""
    guarded = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")
        for statement in node.body
        for inner in ast.walk(statement)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parents = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*parents, *([base] if base else [])])
            modules = [f"{base}.{alias.name}" for alias in node.names]
        else:
            continue
        yield from (Import(module, id(node) in guarded, node.lineno) for module in modules)


def part_of(module: str) -> str:
    """The part of the package that a module belongs to: `ir.passes.partition` is of `ir`."""
    part = module.partition(".")[0]
    return COMMAND_LINE if part == "__main__" or part.startswith(COMMAND_LINE) else part


def layer_faults(module: str, tree: ast.Module) -> list[str]:
    part = part_of(module)
    if part != COMMAND_LINE and part not in MAY_IMPORT:
        return [f"opgen.{module}: no row of the table of walls is about it"]
    faults = []
    for found in imports(tree, f"opgen.{module}".rpartition(".")[0]):
        names = found.module.split(".")
        if names[0] != "opgen" or len(names) == 1 or part == COMMAND_LINE:
            continue
        imported = part_of(".".join(names[1:]))
        if imported != part and imported not in MAY_IMPORT[part]:
            faults.append(f"opgen.{module}:{found.line}: imports opgen.{imported}")
    return faults


def library_faults(module: str, tree: ast.Module) -> list[str]:
    faults = []
    for found in imports(tree, f"opgen.{module}".rpartition(".")[0]):
        library = found.module.split(".")[0]
        allowed = LIBRARIES.get(library, ())
        may = any(module.startswith(owner) or part_of(module) == owner for owner in allowed)
        if library in LIBRARIES and not may and not found.typing_only:
            faults.append(f"opgen.{module}:{found.line}: imports {library}")
    return faults


def writing_faults(module: str, tree: ast.Module) -> list[str]:
    """Calls that change the file system."""
    if module in WRITERS:
        return []
    return [
        f"opgen.{module}:{node.lineno}: writes ({ast.unparse(node.func)})"
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and writes(node)
    ]


def writes(call: ast.Call) -> bool:
    function = call.func
    name = function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")
    if name == "open":
        modes = [*call.args, *(keyword.value for keyword in call.keywords if keyword.arg == "mode")]
        return any(
            isinstance(mode, ast.Constant)
            and isinstance(mode.value, str)
            and set(mode.value) & set("wax+")
            and set(mode.value) <= set("rwaxbt+")
            for mode in modes
        )
    if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name):
        owner = function.value.id
        if owner in WRITING_FUNCTIONS:
            names = WRITING_FUNCTIONS[owner]
            return names is None or name in names
    return isinstance(function, ast.Attribute) and name in WRITING_METHODS


def telling_faults(module: str, tree: ast.Module) -> list[str]:
    """Places that print or exit."""
    if part_of(module) == COMMAND_LINE:
        return []
    return [
        f"opgen.{module}:{node.lineno}: prints or exits ({ast.unparse(node)})"
        for node in ast.walk(tree)
        if isinstance(node, ast.Name | ast.Attribute) and ast.unparse(node) in TELLING
    ]


def generated_faults(name: str, tree: ast.Module) -> list[str]:
    """Imports of a generated module that its reader's machine need not have."""
    is_runtime = name.startswith("_")
    faults = []
    for found in imports(tree, "generated"):
        first, _, rest = found.module.partition(".")
        local = first == "generated" and (rest.startswith("_") or name == "__init__")
        known = first in GENERATED or local
        if first == "opgen" or not (known or (is_runtime and first not in LIBRARIES)):
            faults.append(f"generated/{name}.py:{found.line}: imports {found.module}")
    return faults


def modules() -> Iterable[tuple[str, ast.Module]]:
    package = ROOT / "opgen"
    for file in sorted(package.rglob("*.py")):
        names = file.relative_to(package).with_suffix("").parts
        yield ".".join(names), ast.parse(file.read_text(encoding="utf-8"))


CHECKS = (layer_faults, library_faults, writing_faults, telling_faults)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_package(check: Check) -> None:
    found = [fault for module, tree in modules() if module != "__init__" for fault in check(module, tree)]
    assert found == []


def test_generated_modules() -> None:
    files = sorted((ROOT / "generated").glob("*.py"))
    assert files
    found = [
        fault for file in files for fault in generated_faults(file.stem, ast.parse(file.read_text("utf-8")))
    ]
    assert found == []


def test_generated_tests_do_not_import_opgen() -> None:
    files = sorted((ROOT / "generated/tests").glob("*.py"))
    assert files
    found = [(file.name, name) for file in files for name in imports(ast.parse(file.read_text("utf-8")))]
    assert [(file, name) for file, name in found if name.module.split(".")[0] == "opgen"] == []


def test_arrows_go_one_way() -> None:
    seen: set[str] = set()
    for part, allowed in MAY_IMPORT.items():
        assert set(allowed) <= seen, part
        seen.add(part)


# --- the checks themselves ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("check", "module", "text"),
    [
        (layer_faults, "plan.space", "from opgen.emit import names"),
        (layer_faults, "emit.exprs", "from opgen.targets import TARGETS"),
        (layer_faults, "emit.exprs", "def f():\n    import opgen.targets"),
        (layer_faults, "ir.lower", "from opgen import plan"),
        (layer_faults, "syntax.parse", "from ..plan import space"),
        (layer_faults, "pipeline", "from opgen.output import write"),
        (layer_faults, "output", "from opgen.diagnostics import SpecError"),
        (layer_faults, "surprise", ""),
        (library_faults, "ir.lower", "import torch"),
        (library_faults, "cli", "import triton.language as tl"),
        (library_faults, "syntax.pretty", "from lark import Lark"),
        (library_faults, "emit.exprs", "import black"),
        (library_faults, "pipeline", "def f():\n    from jinja2 import Template"),
        (library_faults, "advise.model", "import matplotlib"),
        (layer_faults, "advise.model", "from opgen.emit import names"),
        (layer_faults, "plan.op", "from opgen.advise import rates"),
        (writing_faults, "pipeline", "open(path, 'w')"),
        (writing_faults, "pipeline", "path.open(mode='a+')"),
        (writing_faults, "device.tune", "path.write_text(text)"),
        (writing_faults, "cli", "import os\nos.replace(a, b)"),
        (writing_faults, "cli", "import shutil\nshutil.rmtree(a)"),
        (telling_faults, "emit.render", "print('here')"),
        (telling_faults, "device.bench", "import sys\nsys.exit(1)"),
        (telling_faults, "pipeline", "import sys\nsys.stdout.write('x')"),
        (telling_faults, "output", "raise SystemExit(1)"),
        (generated_faults, "swish", "import opgen"),
        (generated_faults, "swish", "import os"),
        (generated_faults, "swish", "from .other import kernel"),
        (generated_faults, "_runtime", "from opgen import dtypes"),
        (generated_faults, "_runtime", "import numpy"),
    ],
)
def test_check_finds(check: Check, module: str, text: str) -> None:
    assert len(check(module, ast.parse(text))) == 1


@pytest.mark.parametrize(
    ("check", "module", "text"),
    [
        (layer_faults, "ir.passes.partition", "from opgen.ir.nodes import Op\nimport re"),
        (layer_faults, "cli_report", "from opgen.output import Drift"),
        (library_faults, "syntax.pieces", "if TYPE_CHECKING:\n    from lark import Token"),
        (library_faults, "device.vet", "import torch, triton"),
        (library_faults, "syntax.parse_errors", "import lark"),
        (writing_faults, "config", "open(path)\npath.open('rb')\ntext.replace('w', 'a')\nopen(path, 'r')"),
        (telling_faults, "cli_report", "print(1)"),
        (
            generated_faults,
            "swish",
            "import torch\nimport triton\nfrom . import _runtime as rt",
        ),
        (generated_faults, "__init__", "from .swish import swish"),
        (generated_faults, "_runtime", "import os\nimport torch"),
    ],
)
def test_check_lets_pass(check: Check, module: str, text: str) -> None:
    assert check(module, ast.parse(text)) == []
