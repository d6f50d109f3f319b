"""The demonstration's programs do what they say, with any number of workers."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from scheduling.demo.programs import FIT


def test_workers_that_fit_a_line_share_a_folder_and_save_each_for_itself(tmp_path: Path) -> None:
    """All of them wrote one file, so that one of several workers found it gone as it put it in place, and the job
    failed."""
    for rank, steps in (("0", "3"), ("1", "2")):
        surroundings = {"BOURSE_CHECKPOINT": str(tmp_path), "BOURSE_PROGRESS": str(tmp_path / f"progress-{rank}")}
        surroundings |= {"BOURSE_RANK": rank, "BOURSE_PARAMETER_STEPS": steps, "BOURSE_PARAMETER_RATE": "0.5"}
        ran = subprocess.run(
            ["bash", "-eu", "-c", FIT], env={**os.environ, **surroundings}, capture_output=True, text=True, timeout=60
        )
        assert ran.stdout.endswith(f"after {steps} steps\n"), ran.stderr
    assert sorted(path.name for path in tmp_path.glob("state*")) == ["state-0.json", "state-1.json"]
