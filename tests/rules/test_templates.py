"""Templates hold no logic: only holes, loops over a name, tests of a name, and includes by a literal name."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from jinja2 import Environment, nodes

TEMPLATES = Path(__file__).resolve().parents[2] / "templates"
MOST_LINES = 80
MOST_BLOCKS = 2  # a block in a block: one level of nesting

_ENVIRONMENT = Environment(autoescape=False)


def faults(text: str) -> list[str]:
    """What a template does that templates must not."""
    tree = _ENVIRONMENT.parse(text)
    lines = text.count("\n")
    too_long = [f"{lines} lines, more than {MOST_LINES}"] if lines > MOST_LINES else []
    return [*too_long, *_statement_faults(tree.body, depth=0)]


def _statement_faults(body: list[nodes.Node], depth: int) -> Iterator[str]:
    for node in body:
        if isinstance(node, nodes.For | nodes.If):
            if depth == MOST_BLOCKS:
                yield f"line {node.lineno}: nested too deeply"
            yield from _block_faults(node)
            yield from _statement_faults([*node.body, *node.else_], depth + 1)
        elif isinstance(node, nodes.Include):
            literal = isinstance(node.template, nodes.Const) and isinstance(node.template.value, str)
            if not literal or node.ignore_missing:
                yield f"line {node.lineno}: an include that is not by a literal name"
        elif isinstance(node, nodes.Output):
            for hole in node.nodes:
                if not isinstance(hole, nodes.TemplateData) and not _is_name(hole):
                    yield f"line {hole.lineno}: a hole that computes ({type(hole).__name__})"
        else:
            yield f"line {node.lineno}: {type(node).__name__}"


def _block_faults(node: nodes.For | nodes.If) -> Iterator[str]:
    if isinstance(node, nodes.If):
        if not _is_name(node.test):
            yield f"line {node.lineno}: `if` of something else than a name"
        if node.elif_:
            yield f"line {node.lineno}: `elif`"
        return
    if not _is_name(node.iter) or not isinstance(node.target, nodes.Name):
        yield f"line {node.lineno}: `for` over something else than a name"
    if node.test is not None or node.else_ or node.recursive:
        yield f"line {node.lineno}: `for` with a condition, an `else` or recursion"


def _is_name(node: nodes.Node) -> bool:
    """Whether it is a name or an attribute of one."""
    while isinstance(node, nodes.Getattr):
        node = node.node
    return isinstance(node, nodes.Name)


def test_templates() -> None:
    files = sorted(TEMPLATES.rglob("*.j2"))
    assert files
    found = {str(file.relative_to(TEMPLATES)): faults(file.read_text(encoding="utf-8")) for file in files}
    assert {name: what for name, what in found.items() if what} == {}


@pytest.mark.parametrize(
    "text",
    [
        "{{ a + 1 }}",
        "{{ a | join }}",
        "{{ f(a) }}",
        "{{ a[0] }}",
        "{{ 'text' }}",
        "{{ a if b else c }}",
        "{% if a == 1 %}x{% endif %}",
        "{% if not a %}x{% endif %}",
        "{% if a %}x{% elif b %}y{% endif %}",
        "{% for x in f() %}{% endfor %}",
        "{% for x, y in pairs %}{% endfor %}",
        "{% for x in xs if x.big %}{% endfor %}",
        "{% for x in xs %}{% else %}none{% endfor %}",
        "{% set a = 1 %}",
        "{% macro m() %}{% endmacro %}",
        "{% include name %}",
        "{% include 'a' ignore missing %}",
        "{% import 'a' as a %}",
        "{% extends 'a' %}",
        "{% filter upper %}x{% endfilter %}",
        "{% for a in b %}{% for c in a %}{% if c %}x{% endif %}{% endfor %}{% endfor %}",
        "x\n" * 81,
    ],
)
def test_fault_is_found(text: str) -> None:
    assert len(faults(text)) == 1


@pytest.mark.parametrize(
    "text",
    [
        "x\n" * 80,
        "{# why #}{{ a }} {{ a.b.c }}",
        "{% for x in a.xs %}{{ x }}{% if x.last %};{% else %},{% endif %}{% endfor %}",
        "{% include 'header.j2' %}",
        "{% raw %}{{ 1 + 1 }}{% endraw %}",
    ],
)
def test_plain_template_passes(text: str) -> None:
    assert faults(text) == []
