"""The modules that are copied into the generated tests, loaded from the templates."""

import importlib
import sys
from pathlib import Path
from types import ModuleType

FOLDER = Path(__file__).parents[2] / "templates" / "runtime" / "tests"
PACKAGE = "opgen_oracle_templates"


def load(name: str) -> ModuleType:
    """The template module `name`, such as `_oracle`."""
    if PACKAGE not in sys.modules:
        package = ModuleType(PACKAGE)
        package.__path__ = [str(FOLDER)]
        sys.modules[PACKAGE] = package
    return importlib.import_module(f"{PACKAGE}.{name}")
