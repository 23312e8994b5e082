"""A worker of `opgen vet`: compiles one job after another, and reads the figures of each."""

from __future__ import annotations

import importlib
import os
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass

from triton import knobs

from opgen.device.assembly import Figures, figures_of
from opgen.device.offline import Job, compile_job
from opgen.targets import TARGETS


@dataclass(frozen=True)
class Place:
    """The folder that holds the package of the jobs' kernels."""

    folder: str


def compiling(place: Place) -> Callable[[Job], Figures]:
    """What compiles the jobs of a package."""
    os.environ.pop("TRITON_INTERPRET", None)
    sys.path.insert(0, place.folder)
    return _compile


def _compile(job: Job) -> Figures:
    """Compiles a job in a cache of its own: the compiled kernels of all jobs together would fill a disk.

    Without the lines of its source, which change no figure.
    """
    kernel = getattr(importlib.import_module(job.module), job.kernel)
    target = TARGETS[job.target]
    with (
        tempfile.TemporaryDirectory(prefix="opgen-vet-") as folder,
        knobs.cache.scope(),
        knobs.compilation.scope(),
    ):
        knobs.cache.dir = folder
        knobs.compilation.disable_line_info = True
        return figures_of(compile_job(kernel, job, target), target)
