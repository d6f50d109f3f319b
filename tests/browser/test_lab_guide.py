"""The guide's fifteen minutes on the Philly log, as Slurm prints it and in the Standard Workload Format: the guide's
own studies and its command, and the report in a browser. Skipped where the Philly log or Chromium is not there."""

from __future__ import annotations

import csv
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
import yaml

from tenants.ledger.amounts import THOUSANDS
from tests.lab.logs import sacct_text, study_of, swf_text
from tests.lab.philly import JOBS, ZONE, philly_jobs
from tests.lab.test_guide import GUIDE, block
from tests.management.files import ROOT
from tests.patience import PATIENCE

FIRST, DAYS, SERVERS = 60, 3, 40
pytestmark = [
    pytest.mark.wide,
    pytest.mark.skipif(not JOBS.exists(), reason="no Philly log here; PHILLY_TRACE may name its folder"),
]


def run_as_the_guide_says(folder: Path, document: dict[str, Any]) -> Path:
    """The guide's command in a folder with a log; the folder that it writes."""
    (folder / "STUDY.yaml").write_text(yaml.safe_dump(document), encoding="utf-8")
    _, script, *arguments = shlex.split(block("sh").splitlines()[-1])
    done = subprocess.run(
        [sys.executable, str(ROOT / script), *arguments],
        cwd=folder,
        env={"PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=4 * PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return folder / arguments[-1]


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The folder of each format's report."""
    folder = tmp_path_factory.mktemp("philly")
    jobs = philly_jobs(study_of(folder), FIRST, DAYS, SERVERS)
    assert len(jobs) > 1000
    owners = sorted({job.owner for job in jobs})
    slurm, standard = (yaml.safe_load(text) for text in re.findall(r"```yaml\n(.*?)\n```", GUIDE, re.DOTALL)[:2])
    for name in ("sacct", "swf"):
        (folder / name).mkdir()
    begin = min(job.submitted for job in jobs)
    (folder / "sacct" / slurm["history"]["file"]).write_text(sacct_text(jobs, ZoneInfo(ZONE)), encoding="utf-8")
    (folder / "swf" / standard["history"]["file"]).write_text(swf_text(jobs, begin, owners), encoding="utf-8")
    machines = {"servers": SERVERS, "units": 8}
    for field in ("nodes", "first_day", "days"):
        del slurm["history"][field]
    slurm["history"] |= {"zone": ZONE, "machines": machines}
    standard["history"] |= {"zone": ZONE, "machines": machines}
    return {
        "sacct": run_as_the_guide_says(folder / "sacct", slurm),
        "swf": run_as_the_guide_says(folder / "swf", standard),
    }


def rows(folder: Path) -> dict[tuple[str, ...], list[str]]:
    with (folder / "figures.csv").open(encoding="utf-8", newline="") as file:
        return {tuple(row[:7]): row[7:] for row in csv.reader(file)}


def test_both_formats_give_one_answer(reports: dict[str, Path]) -> None:
    slurm, standard = rows(reports["sacct"]), rows(reports["swf"])
    assert len(slurm) > 500
    together = {key for key in slurm if key[0] in ("owner", "log", "verdict") and key[4] == ""}
    assert {key: slurm[key] for key in together} == {key: standard[key] for key in together}
    waits = [slurm["log", "backfill", "log", "", "", "", measure] for measure in ("wait_mean", "wait_90")]
    assert all(abs(float(wait[0])) < 0.5 for wait in waits)  # hours: the replay is of the rule that made the log


@pytest.mark.parametrize("form", ["sacct", "swf"])
@pytest.mark.parametrize("width", [1440, 390])
def test_the_report_is_read_in_a_browser(chromium: Any, reports: dict[str, Path], form: str, width: int) -> None:
    context = chromium.new_context(viewport={"width": width, "height": 900})
    page, complaints = context.new_page(), []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda request: request.url.startswith("file:") or complaints.append(request.url))
    page.goto((reports[form] / "report.html").as_uri())
    [saved] = (
        row for key, row in rows(reports[form]).items() if key[1:] == ("market", "alone", "all", "", "", "saved")
    )
    figure = page.locator(".price [data-figure]").first.inner_text()
    assert abs(float(figure.replace(THOUSANDS, "").replace("−", "-")) - float(saved[0])) <= 0.5
    assert page.locator("section.panel").count() >= 6
    assert page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") == 0
    context.close()
    assert complaints == []
