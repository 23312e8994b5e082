"""Set up for the generated tests: Triton's interpreter rounds to nearest, as GPUs do."""

from __future__ import annotations

import os

import torch

from .. import _runtime as rt

if "PYTEST_XDIST_WORKER" in os.environ:
    # The workers share the cores: each would start a thread for every core.
    torch.set_num_threads(1)

if rt.INTERPRETED:
    from ._interpreter import install

    install()
