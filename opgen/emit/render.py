"""Contexts to text: the only user of Jinja and black. Text in, text out; no decisions."""

from __future__ import annotations

import ast
import functools
import itertools
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

import black
import jinja2
from black.mode import TargetVersion
from black.parsing import InvalidInput

from opgen.diagnostics import InternalError
from opgen.emit.contexts import KernelContext, ModuleContext, ProductContext, RowKernelContext, TestContext
from opgen.emit.table_layout import laid_out, table_of
from opgen.resources import template_root

#: Generated text is checked in, so its format is pinned: black at the version of pyproject.toml, in this mode.
MODE = black.Mode(line_length=100, target_versions={TargetVersion.PY310}, magic_trailing_comma=False)


#: The template of each kind of kernel.
KERNEL_TEMPLATES: dict[type, str] = {
    KernelContext: "elementwise.py.j2",
    RowKernelContext: "row.py.j2",
    ProductContext: "product.py.j2",
}


@functools.cache
def make_environment() -> jinja2.Environment:
    """The one Jinja environment, for production and tests alike."""
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(template_root()),
        undefined=jinja2.StrictUndefined,
        autoescape=False,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def render_kernel(kernel: KernelContext | RowKernelContext | ProductContext) -> str:
    """The text of one kernel with its launcher, not laid out yet."""
    return make_environment().get_template(KERNEL_TEMPLATES[type(kernel)]).render({"kernel": kernel})


def render_module(module: ModuleContext) -> str:
    """The text of one generated module."""
    return _render("module.py.j2", {"module": module})


def render_test(test: TestContext) -> str:
    """The text of the property tests of one op."""
    return _render("test.py.j2", {"test": test})


def _render(template: str, names: Mapping[str, object]) -> str:
    text = make_environment().get_template(template).render(names)
    return formatted(text, template) if _LAYS_OUT.get() else text


_LAYS_OUT = ContextVar("lays_out", default=True)


@contextmanager
def as_rendered() -> Iterator[None]:
    """Within it, text stays as the templates give it, for who runs it and shows it to nobody: the layout takes most of
    a build's time."""
    token = _LAYS_OUT.set(False)
    try:
        yield
    finally:
        _LAYS_OUT.reset(token)


def formatted(text: str, origin: str) -> str:
    """Text in black's format. Raises `InternalError` with numbered lines where it is no Python.

    Black, which takes long, sees a name in the place of each table's data.
    """
    try:
        apart, tables = _without_tables(text)
        result = black.format_str(apart, mode=MODE)
    except (SyntaxError, InvalidInput) as error:
        numbered = "\n".join(f"{number:4} {line}" for number, line in enumerate(text.split("\n"), 1))
        raise InternalError(f"{origin} rendered no valid Python: {error}\n{numbered}") from error
    return "\n".join(tables.get(line, line) for line in result.split("\n"))


def _without_tables(text: str) -> tuple[str, dict[str, str]]:
    """Text with a stand-in for each table, and these lines with the tables that they stand for, laid out."""
    lines = text.split("\n")
    data = next(word for count in itertools.count(1) if (word := "data" + "_" * count) not in text)
    tables: dict[str, str] = {}
    for statement in ast.parse(text).body:
        place = statement.lineno - 1
        table = table_of(statement, lines[place])
        if table is not None:
            lines[place] = f"{table.name} = {data}{len(tables)}"
            tables[lines[place]] = laid_out(table, MODE.line_length)
    return "\n".join(lines), tables
