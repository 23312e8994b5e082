"""Expectations kept in files: the `golden` fixture, and `--update-golden`, which rewrites them."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

UPDATE = "--update-golden"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(UPDATE, action="store_true", help="rewrite the expectations kept in files")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption(UPDATE) and os.environ.get("CI"):
        raise pytest.UsageError(f"{UPDATE} is refused where CI is set: expectations are reviewed")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[Path, str], None]:
    """Compares a text with the one kept in a file; a missing file fails and says how to make it."""
    update = bool(request.config.getoption(UPDATE))

    def check(path: Path, text: str) -> None:
        if update:
            path.write_text(text, encoding="utf-8", newline="\n")
            return
        command = f"python -m pytest {UPDATE} '{request.node.nodeid}'"
        if not path.exists():
            pytest.fail(f"{path} is missing; write it with: {command}")
        expected = path.read_text(encoding="utf-8")
        assert text == expected, f"{path} differs; if that is right: {command}"

    return check
