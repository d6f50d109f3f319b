"""The Philly log as other logs: each job begins where first come, first served with backfill begins it."""

from __future__ import annotations

import gzip
from dataclasses import replace

from scheduling.core.simulation import simulate
from scheduling.core.types import BATCH
from scheduling.lab.histories.assembling import Wishes, assemble
from scheduling.lab.histories.history import DAY, HOUR, Log, LoggedJob
from scheduling.lab.histories.jobs_table import jobs_table
from scheduling.lab.histories.machines import alike
from scheduling.lab.studies.backfill import Backfill
from scheduling.lab.studies.study import Study
from scheduling.lab.studies.worlds import world
from tests.bench.bench_simulation import TRACE
from tests.lab.logs import BEGIN

JOBS = TRACE / "jobs.csv.gz"
ZONE = "America/Los_Angeles"  # that of the log


def philly_jobs(study: Study, first: int, days: int, servers: int) -> list[LoggedJob]:
    """The jobs of so many days of the log, as they run on so many machines with eight GPUs. `study` is any one: its
    rule is not looked at. The log has no moment at which it begins; here its first day is the one of other logs."""
    with gzip.open(JOBS, "rt", encoding="utf-8") as lines:
        log = jobs_table(lines, place=JOBS.name)
    window = [job for job in log.jobs if first * DAY <= job.submitted < (first + days) * DAY]
    jobs = tuple(replace(job, submitted=job.submitted - first * DAY + BEGIN) for job in window)
    history = assemble(
        Log(jobs, len(jobs), {}, (), {}), alike(servers, 8), Wishes("UTC", "gpu", slot_seconds=HOUR // 4)
    )
    tracks = simulate(world(history, study, study.rule("backfill"), study.worths[0]), {BATCH: Backfill()}).tracks
    owners = {job.name: job.owner for job in jobs}  # the smallest stay apart from each other
    placed = []
    for job, track in zip(history.jobs, tracks, strict=True):
        start = max(history.midnights[0] + track.bookings[0].start * history.slot_seconds, job.submitted)
        number = job.name.removeprefix("p")
        placed.append(replace(job, name=number, owner=owners[job.name], started=start, ended=start + job.seconds))
    return placed
