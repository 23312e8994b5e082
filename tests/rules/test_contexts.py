"""Contexts and templates agree: a template mentions only fields that there are, and each field is mentioned."""

import dataclasses
import inspect
import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from jinja2 import DictLoader, Environment, FileSystemLoader, nodes

from opgen.emit import contexts
from opgen.resources import template_root

#: The templates that are rendered, and what each is given by which name; the others are included in them.
ROOTS: dict[str, dict[str, type]] = {
    "module.py.j2": {"module": contexts.ModuleContext},
    "elementwise.py.j2": {"kernel": contexts.KernelContext},
    "row.py.j2": {"kernel": contexts.RowKernelContext},
    "product.py.j2": {"kernel": contexts.ProductContext},
    "test.py.j2": {"test": contexts.TestContext},
}

Scope = Mapping[str, Any]  # a name to its type, as annotated


@dataclass(frozen=True)
class Use:
    """A field that a template mentions."""

    record: type
    field: str


@dataclass
class Reading:
    """The walk through a template and those that it includes: what it mentions, and what is wrong with that."""

    environment: Environment
    uses: set[Use] = dataclasses.field(default_factory=set)
    templates: set[str] = dataclasses.field(default_factory=set)
    faults: list[str] = dataclasses.field(default_factory=list)

    def template(self, name: str, scope: Scope) -> None:
        assert self.environment.loader is not None
        source, _, _ = self.environment.loader.get_source(self.environment, name)
        self.templates.add(name)
        self._block(name, self.environment.parse(source).body, scope)

    def _block(self, name: str, body: list[nodes.Node], scope: Scope) -> None:
        for node in body:
            if isinstance(node, nodes.Output):
                for hole in node.nodes:
                    if not isinstance(hole, nodes.TemplateData):
                        self._expect(name, hole, scope, str)
            elif isinstance(node, nodes.If):
                self._expect(name, node.test, scope, bool)
                self._block(name, [*node.body, *node.else_], scope)
            elif isinstance(node, nodes.For):
                assert isinstance(node.target, nodes.Name)
                self._block(name, node.body, {**scope, node.target.name: self._item(name, node.iter, scope)})
            elif isinstance(node, nodes.Include):
                assert isinstance(node.template, nodes.Const)
                self.template(node.template.value, scope)

    def _item(self, name: str, node: nodes.Node, scope: Scope) -> Any:
        """The type of what a loop runs over."""
        kind = self._type(name, node, scope)
        if typing.get_origin(kind) is tuple:
            return typing.get_args(kind)[0]
        self.faults.append(f"{name}, line {node.lineno}: a loop over {kind}")
        return None

    def _expect(self, name: str, node: nodes.Node, scope: Scope, wanted: type) -> None:
        kind = self._type(name, node, scope)
        if kind not in (wanted, None):
            self.faults.append(f"{name}, line {node.lineno}: {kind} where a {wanted.__name__} is wanted")

    def _type(self, name: str, node: nodes.Node, scope: Scope) -> Any:
        """The type of a name or of a field; None, and a fault, where there is none."""
        if isinstance(node, nodes.Getattr):
            record = self._type(name, node.node, scope)
            fields = typing.get_type_hints(record) if dataclasses.is_dataclass(record) else {}
            if isinstance(record, type) and node.attr in fields:
                self.uses.add(Use(record, node.attr))
                return fields[node.attr]
            if record is not None:
                self.faults.append(f"{name}, line {node.lineno}: no field {node.attr}")
            return None
        assert isinstance(node, nodes.Name)
        if node.name not in scope:
            self.faults.append(f"{name}, line {node.lineno}: no name {node.name}")
        return scope.get(node.name)


def fields(records: list[type]) -> Iterator[Use]:
    for record in records:
        yield from (Use(record, field.name) for field in dataclasses.fields(record))


def test_templates_and_contexts_agree() -> None:
    reading = Reading(Environment(loader=FileSystemLoader(template_root()), autoescape=False))
    for name, scope in ROOTS.items():
        reading.template(name, scope)
    records = [
        one
        for _, one in inspect.getmembers(contexts, dataclasses.is_dataclass)
        if isinstance(one, type) and one.__module__ == contexts.__name__
    ]
    assert records
    assert reading.faults == []
    assert set(fields(records)) - reading.uses == set(), "fields that no template mentions"
    assert {path.name for path in template_root().glob("*.j2")} == reading.templates


# --- the walk itself ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Line:
    text: str
    last: bool


@dataclass(frozen=True)
class Page:
    title: str
    lines: tuple[Line, ...]


def read(text: str) -> Reading:
    reading = Reading(
        Environment(loader=DictLoader({"page": text, "part": "{{ line.text }}"}), autoescape=False)
    )
    reading.template("page", {"page": Page})
    return reading


@pytest.mark.parametrize(
    "text",
    [
        "{{ page.name }}",
        "{{ other }}",
        "{{ page.lines }}",
        "{{ page }}",
        "{% if page.title %}x{% endif %}",
        "{% for line in page.title %}x{% endfor %}",
        "{% for line in page.lines %}{{ line }}{% endfor %}",
        "{% for line in page.lines %}{% if line.last %}{{ line.number }}{% endif %}{% endfor %}",
        "{% include 'part' %}",
        "{% for line in page.lines %}{% endfor %}{{ line.text }}",
    ],
)
def test_fault_is_found(text: str) -> None:
    assert len(read(text).faults) == 1


def test_uses_are_found() -> None:
    text = "{{ page.title }}{% for line in page.lines %}{% include 'part' %}{% endfor %}"
    reading = read(text)
    assert reading.faults == []
    assert set(fields([Page, Line])) - reading.uses == {Use(Line, "last")}
    assert reading.templates == {"page", "part"}
