"""Where the behaviour tests run: on the GPU when there is one, else on the CPU in Triton's interpreter."""

import os
from collections.abc import Iterator

import numpy as np
import pytest
import torch

if not torch.cuda.is_available():  # before anything imports triton: the decorator of a kernel reads it
    os.environ.setdefault("TRITON_INTERPRET", "1")


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
