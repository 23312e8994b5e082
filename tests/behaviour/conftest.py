"""Where the behaviour tests run: on the GPU when there is one, else on the CPU in Triton's interpreter."""

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

if not torch.cuda.is_available():  # before anything imports triton: the decorator of a kernel reads it
    os.environ.setdefault("TRITON_INTERPRET", "1")


#: Tests of many cases each, of which `python -m tests` runs one in so many, as of the generated tests' calls.
SAMPLED = (
    "test_divided_dims",
    "test_generated_tests",
    "test_math_exact",
    "test_oracle_reductions",
    "test_products",
    "test_reference_reductions",
    "test_rows_kinds",
    "test_rows_layouts",
    "test_rows_special",
    "test_shipped_ops",
    "test_shipped_structured_ops",
)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out cases of the sampled files where not all are asked for; the first of each test stays."""
    one_in = int(os.environ.get("OPGEN_ONE_CALL_IN", "1"))
    seen: Counter[str] = Counter()
    kept: list[pytest.Item] = []
    left_out: list[pytest.Item] = []
    for item in items:
        test = item.nodeid.partition("[")[0]
        sampled = Path(item.path).stem in SAMPLED
        (left_out if sampled and seen[test] % one_in else kept).append(item)
        seen[test] += 1
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = kept


@pytest.fixture(scope="session")
def device() -> torch.device:
    """The device that kernels run on."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


@pytest.fixture
def generator() -> torch.Generator:
    """A freshly seeded CPU generator, so that each test draws the same numbers on every machine."""
    return torch.Generator().manual_seed(20240229)


@pytest.fixture(autouse=True)
def infinities_are_no_mistake() -> Iterator[None]:
    """The interpreter computes with NumPy, which would warn of each NaN that a test asks for."""
    with np.errstate(all="ignore"):
        yield
