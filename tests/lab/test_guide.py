"""The guide's fifteen minutes: its study and its command, as they stand there, on a log as Slurm prints it."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from zoneinfo import ZoneInfo

from scheduling.lab.histories.history import DAY
from scheduling.lab.studies.study import FIELDS, HISTORY_FIELDS, KINDS, RULE_FIELDS
from scheduling.lab.studies.worth import WORTHS
from tests.lab.logs import made_jobs, sacct_text
from tests.lab.test_sacct import HEADING
from tests.management.files import PATIENCE, ROOT

GUIDE = (ROOT / "docs" / "guide" / "lab.md").read_text(encoding="utf-8")


def block(language: str) -> str:
    """The first block of a language."""
    match = re.search(rf"```{language}\n(.*?)\n```", GUIDE, re.DOTALL)
    assert match is not None
    return match[1]


def test_the_guide_from_its_own_text(tmp_path: Path) -> None:
    columns = re.search(r"--format=(JobIDRaw\S+)", block("text"))
    assert columns is not None
    assert columns[1].replace(",", "|") == HEADING  # what the log below is printed with
    october_jobs = [replace(job, submitted=job.submitted + 3 * DAY) for job in made_jobs(days=3, each=8)]  # in October
    jobs = [
        replace(job, started=job.submitted, ended=job.submitted + job.seconds, owner="speech" if k % 3 else "vision")
        for k, job in enumerate(october_jobs)
    ]
    (tmp_path / "log.txt").write_text(sacct_text(jobs, ZoneInfo("Europe/Berlin")), encoding="utf-8")
    (tmp_path / "nodes.txt").write_text("".join(f"n{n}|64|gpu:a100:4(S:0-1)|gpu*\n" for n in (1, 2, 3)))
    (tmp_path / "STUDY.yaml").write_text(block("yaml"), encoding="utf-8")
    install, command = block("sh").splitlines()
    assert install == "make install"
    program, script, *arguments = shlex.split(command)
    assert (program, script) == (".venv/bin/python", "manage.py")
    done = subprocess.run(
        [sys.executable, str(ROOT / script), *arguments],
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "market beside alone" in done.stdout
    report = (tmp_path / "october" / "report.html").read_text(encoding="utf-8")
    assert "October, shared instead of alone" in report
    assert {path.name for path in (tmp_path / "october").iterdir()} == {"report.html", "figures.csv", "replays"}


def test_the_guide_names_every_field_rule_and_assumption() -> None:
    for name in (*FIELDS, *HISTORY_FIELDS, *KINDS, *WORTHS):
        assert re.search(rf"`(history\.)?{name}`", GUIDE), name
    for name in RULE_FIELDS:
        assert re.search(rf"\b{name}: ", GUIDE), name
