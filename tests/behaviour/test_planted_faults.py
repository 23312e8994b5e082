"""The generated tests see faults: a sample of what `tests/planted_faults.py` plants everywhere."""

import json
import subprocess
import sys
from pathlib import Path

TOOL = Path(__file__).parents[1] / "planted_faults.py"


def test_sample_of_planted_faults(tmp_path: Path) -> None:
    record = tmp_path / "faults.json"
    command = [sys.executable, str(TOOL), "silu_mul", "--sample", "8", "--jobs", "1", "--json", str(record)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    kinds = [fault["kind"] for fault in json.loads(record.read_text())]
    assert len(kinds) == 8
    assert kinds.count("caught") >= 2
