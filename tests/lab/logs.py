"""Logs that tests write: of a made-up cluster whose every run is known."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, tzinfo
from pathlib import Path

import numpy as np

from scheduling.core.scenario import Scenario
from scheduling.core.simulation import simulate
from scheduling.core.types import BATCH
from scheduling.lab.histories.assembling import Wishes, assemble
from scheduling.lab.histories.history import DAY, HOUR, History, Log, LoggedJob
from scheduling.lab.histories.machines import alike
from scheduling.lab.studies.backfill import Backfill
from scheduling.lab.studies.study import Study, study_read
from scheduling.lab.studies.worlds import world
from tests.lab.test_sacct import HEADING

BEGIN = 1_790_640_000  # 2026-09-29T00:00:00 UTC
STUDY = """title: A made-up cluster
history:
  format: sacct
  file: log.txt
  zone: UTC
  machines: {servers: 3, units: 4}
  slot_minutes: 60
draws: 40
"""


def made_jobs(days: int = 6, each: int = 26, seed: int = 5) -> list[LoggedJob]:
    """Jobs of three owners, more than the cluster can run at once."""
    dice = random.Random(seed)
    jobs = []
    for day in range(days):
        for _ in range(each):
            owner = dice.choice(["vision", "vision", "speech", "climate"])
            submitted = BEGIN + day * DAY + dice.randrange(DAY)
            hours, units = dice.randint(1, 9), dice.choice([1, 1, 2, 4])
            jobs.append(LoggedJob("", owner, submitted, None, None, hours * HOUR - dice.randrange(1800), units))
    jobs.sort(key=lambda job: job.submitted)
    return [replace(job, name=str(1000 + number)) for number, job in enumerate(jobs)]


def history_of(jobs: Iterable[LoggedJob]) -> History:
    rows = tuple(jobs)
    return assemble(Log(rows, len(rows), {}, (), {}), alike(3, 4), Wishes("UTC", "gpu", slot_seconds=HOUR))


def study_of(folder: Path, text: str = STUDY) -> Study:
    (folder / "log.txt").touch()
    (folder / "STUDY.yaml").write_text(text, encoding="utf-8")
    return study_read(folder / "STUDY.yaml")


def shared_world(history: History, study: Study) -> Scenario:
    return world(history, study, study.rule("backfill"), study.worths[0])


def simulated_log(folder: Path, jobs: Iterable[LoggedJob]) -> list[LoggedJob]:
    """The jobs as they run by first come, first served with backfill: a known simulation, as a log would tell of it."""
    history = history_of(jobs)
    outcome = simulate(shared_world(history, study_of(folder)), {BATCH: Backfill()})
    starts = [history.midnights[0] + track.bookings[0].start * HOUR for track in outcome.tracks]
    return [
        replace(job, started=start, ended=start + job.seconds) for job, start in zip(history.jobs, starts, strict=True)
    ]


def sacct_text(jobs: Iterable[LoggedJob], zone: tzinfo) -> str:
    """As Slurm prints them, in a zone."""

    def moment_text(moment: int | None) -> str:
        return "Unknown" if moment is None else datetime.fromtimestamp(moment, zone).strftime("%Y-%m-%dT%H:%M:%S")

    rows = [
        f"{job.name}|anna|{job.owner}|gpu|{moment_text(job.submitted)}|{moment_text(job.submitted)}|{moment_text(job.started)}|"
        f"{moment_text(job.ended)}|{job.seconds}|1440|COMPLETED|gres/gpu={job.units}|gres/gpu={job.units}|n1|normal"
        for job in jobs
    ]
    return "\n".join([HEADING, *rows, ""])


def swf_text(jobs: Iterable[LoggedJob], begin: int, owners: list[str]) -> str:
    """In the Standard Workload Format; owners are groups, by their number in the list."""
    rows = [
        f"{number} {job.submitted - begin} {-1 if job.started is None else job.started - job.submitted} {job.seconds} "
        f"{job.units} -1 -1 {job.units} -1 -1 1 1 {owners.index(job.owner)} -1 1 1 -1 -1"
        for number, job in enumerate(jobs, 1)
    ]
    return "\n".join([f"; UnixStartTime: {begin}", *rows, ""])


def write_study(folder: Path, jobs: Iterable[LoggedJob], text: str = STUDY) -> Path:
    """A study in a folder, with its log."""
    (folder / "log.txt").write_text(sacct_text(jobs, UTC), encoding="utf-8")
    (folder / "STUDY.yaml").write_text(text, encoding="utf-8")
    return folder / "STUDY.yaml"


def is_close(one: float, other: float) -> bool:
    """Whether two numbers are one but for rounding."""
    return bool(np.isclose(one, other, rtol=1e-9, atol=1e-9))
