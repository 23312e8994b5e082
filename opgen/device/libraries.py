"""Links a kernel with the few functions that it calls of a vendor's library: the whole takes as long to read as the
kernel to compile.

The library is linked once with nothing but declarations of what a kernel lacks. What comes of that, written down, is
the library of each kernel that lacks the same.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from triton._C.libtriton import ir, llvm

from opgen.device.scratch import write

Link = Callable[[Any, Sequence[str]], None]

_DECLARED = re.compile(r"^declare (\w+) @([\w.]+)\(([\w, ]*)\)", re.MULTILINE)
_TYPES = {"float": "f32", "double": "f64", "i16": "i16", "i32": "i32", "i64": "i64"}


def is_known() -> bool:
    """Whether this release of Triton links as known ones do."""
    return all(hasattr(llvm, name) for name in ("link_extern_libs", "to_module")) and hasattr(
        ir, "parse_mlir_module"
    )


def link_little(folder: Path) -> None:
    """Makes Triton link so in this process; `folder` keeps the small libraries."""
    llvm.link_extern_libs = functools.partial(_link, llvm.link_extern_libs, folder)


def _link(whole: Link, folder: Path, module: Any, paths: Sequence[str]) -> None:
    lacked = sorted(one.name for one in module.get_functions() if _is_lacked(one))
    library = folder / f"{_digest((paths, lacked))}.ll"
    declarations = None if library.exists() else _declarations(str(module), lacked)
    if declarations:
        write(library, _library(whole, declarations, folder, paths).encode())
    whole(module, [str(library)] if library.exists() else paths)


def _is_lacked(function: Any) -> bool:
    return function.is_declaration() and not function.name.startswith("llvm.")


def _declarations(text: str, names: Sequence[str]) -> tuple[str, ...] | None:
    """Functions as MLIR declares them, from the text of LLVM's form; None where a type is not a plain one."""
    found = {
        name: (result, *filter(None, taken.split(", "))) for result, name, taken in _DECLARED.findall(text)
    }
    if not all(name in found and _TYPES.keys() >= {*found[name]} for name in names):
        return None
    types = {name: [_TYPES[one] for one in found[name]] for name in names}
    return tuple(
        f"llvm.func @{name}({', '.join(taken)}) -> {result}" for name, (result, *taken) in types.items()
    )


def _library(whole: Link, declarations: Sequence[str], folder: Path, paths: Sequence[str]) -> str:
    """The declared functions of libraries and what these call, in LLVM's form."""
    source = folder / f"{_digest(declarations)}.mlir"
    write(source, "\n".join(declarations).encode())
    context, target_context = ir.context(), llvm.context()
    ir.load_dialects(context)
    parsed = ir.parse_mlir_module(str(source), context)
    module = llvm.to_module(parsed, target_context)
    whole(module, paths)
    return str(module).replace("define internal ", "define ")


def _digest(value: object) -> str:
    return sha256(repr(value).encode()).hexdigest()
