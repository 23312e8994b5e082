"""Where the grammar and the templates are: beside the package in the repository, in it in a wheel."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def _folder(name: str) -> Path:
    """The folder `name` of the wheel if there is one, else that of the repository."""
    installed = _PACKAGE / "_resources" / name
    return installed if installed.is_dir() else _PACKAGE.parent / name


def grammar_text(name: str) -> str:
    """The text of a file of `grammar/`, such as `opgen.lark`. Raises `FileNotFoundError`."""
    return (_folder("grammar") / name).read_text(encoding="utf-8")


def template_root() -> Path:
    """The folder that holds the templates."""
    return _folder("templates")
