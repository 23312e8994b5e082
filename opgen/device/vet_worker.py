"""A worker of `opgen vet`: compiles one job after another, and reads the figures of each."""

from __future__ import annotations

import functools
import gc
import importlib
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from triton import knobs

from opgen.device import front_end, libraries, optimised, scratch, twins
from opgen.device.assembly import Figures, figures_of
from opgen.device.offline import Job, compile_job, source_of
from opgen.targets import TARGETS

_OBJECTS_A_COLLECTION = 1_000_000
"""Triton's front end makes many objects that live as long as a job: each look through them takes its time again."""


@dataclass(frozen=True)
class Place:
    """The folder that holds the package of the jobs' kernels, and one for what several jobs have in common."""

    folder: str
    shared: str


def compiling(place: Place) -> Callable[[Job], Figures]:
    """What compiles the jobs of a package, one by one; what is the same for several is made once."""
    os.environ.pop("TRITON_INTERPRET", None)
    sys.path.insert(0, place.folder)
    shared = Path(place.shared)
    if libraries.is_known():
        libraries.link_little(shared)
    if optimised.is_known():
        optimised.optimise_once(shared)
    if twins.is_known():
        twins.share_ptx(shared)
    # The compiled kernels of all jobs together would fill a disk; lines of their source change no figure.
    scratch.keep_forms_in(shared / f"of_{os.getpid()}")
    knobs.compilation.disable_line_info = True
    gc.freeze()
    gc.set_threshold(_OBJECTS_A_COLLECTION)
    return functools.partial(_compile, shared if front_end.is_known() else None)


def _compile(forms: Path | None, job: Job) -> Figures:
    """Compiles a job; `forms` keeps what the front end made for other targets."""
    kernel = getattr(importlib.import_module(job.module), job.kernel)
    source = source_of(kernel, job)
    if forms is not None:
        source = front_end.SharedSource(source, job, forms)
    target = TARGETS[job.target]
    return figures_of(compile_job(source, job, target), target)
