"""Times of GPU work: all contenders in turn, the L2 cache cleared before each call, on the device's own clock."""

from __future__ import annotations

import platform
import subprocess
from collections.abc import Callable, Mapping
from statistics import median
from typing import Any

import torch
import triton

Work = Callable[[], Any]

#: Bytes written before each timed call: at least what `triton.testing.do_bench` writes, and above any L2 cache.
_CLEARED_BYTES = 256 * 2**20
_WARM_UP_CALLS = 3
_ROUNDS = 6
_ROUND_MILLISECONDS = 8.0
_CALLS_OF_A_ROUND = (5, 25)
#: What the GPU waits for before a round's calls, about 2 ms: the host is then ahead, and its time is not measured.
_HEAD_START_CYCLES = 4_000_000


def interleaved(contenders: Mapping[str, Work], *, rounds: int = _ROUNDS) -> dict[str, float]:
    """The median time of each contender's call, in microseconds.

    Each round times some calls of every contender, one contender after the other, so that a card that grows slower
    while it heats up does so for all. Before each call the L2 cache is overwritten, as `triton.testing.do_bench` does.
    """
    cache = _cache_sized_memory()
    calls = {name: _calls_of_a_round(work, cache) for name, work in contenders.items()}
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, work in contenders.items():
            times[name] += _timed(work, calls[name], cache)
    return {name: median(found) for name, found in times.items()}


def _cache_sized_memory() -> torch.Tensor:
    return torch.empty(_CLEARED_BYTES, dtype=torch.int8, device="cuda")


def copy_work(count: int, device: str = "cuda") -> Work:
    """A device-to-device copy that moves `count` bytes: half of them read, half written. The bytes are random."""
    source = torch.randint(256, (max(count // 2, 1),), dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    return lambda: target.copy_(source)


def _calls_of_a_round(work: Work, cache: torch.Tensor) -> int:
    """Warms a contender up, and says how many of its calls fill its share of a round."""
    for _ in range(_WARM_UP_CALLS):
        work()
    least, most = _CALLS_OF_A_ROUND
    milliseconds = median(_timed(work, _WARM_UP_CALLS, cache)) / 1000
    return max(least, min(most, int(_ROUND_MILLISECONDS / max(milliseconds, 1e-3))))


def _timed(work: Work, calls: int, cache: torch.Tensor) -> list[float]:
    """Times of single calls, in microseconds, between two events of the current stream."""
    starts = [torch.cuda.Event(enable_timing=True) for _ in range(calls)]
    ends = [torch.cuda.Event(enable_timing=True) for _ in range(calls)]
    torch.cuda._sleep(_HEAD_START_CYCLES)  # noqa: SLF001 - PyTorch's own tests wait on the device so
    for start, end in zip(starts, ends, strict=True):
        cache.zero_()
        start.record()
        work()
        end.record()
    torch.cuda.synchronize()
    return [1000 * start.elapsed_time(end) for start, end in zip(starts, ends, strict=True)]


def machine() -> dict[str, str]:
    """The versions and the GPU that a measurement belongs to; "none" where there is none."""
    has_gpu = torch.cuda.is_available()
    return {
        "gpu": torch.cuda.get_device_name() if has_gpu else "none",
        "driver": _driver() if has_gpu else "none",
        "cuda": torch.version.cuda or torch.version.hip or "none",
        "torch": torch.__version__,
        "triton": triton.__version__,
        "python": platform.python_version(),
    }


def _driver() -> str:
    """The driver's version as `nvidia-smi` tells it, or "unknown"."""
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        told = subprocess.run(command, capture_output=True, text=True, check=True, timeout=20)  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return told.stdout.strip().splitlines()[0] if told.stdout.strip() else "unknown"
