"""The generated tests see faults: samples of what `tests/planted_faults.py` plants everywhere."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).parents[1] / "planted_faults.py"
KIND = 8  # its place in a recorded result


@pytest.mark.parametrize(("module", "count"), [("silu_mul", 6), ("softmax", 6), ("linear_bias", 6)])
def test_sample_of_planted_faults(tmp_path: Path, module: str, count: int) -> None:
    record = tmp_path / "faults.json"
    command = [
        sys.executable,
        str(TOOL),
        module,
        "--sample",
        str(count),
        "--jobs",
        "1",
        "--json",
        str(record),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    kinds = [fault[KIND] for fault in json.loads(record.read_text())]
    assert len(kinds) == count
    assert kinds.count("caught") >= 2
