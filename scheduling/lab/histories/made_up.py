"""A made-up month of a made-up cluster, for people who have no log at hand: the demonstration has a study of it.

Each owner has quiet days and busy ones, as people before a deadline do, and works little on Saturdays and Sundays. Jobs
ran by first come, first served with backfill, and the log says how long each waited for that.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta

from scheduling.core.simulation import simulate
from scheduling.core.types import BATCH
from scheduling.lab.histories.assembling import Wishes, assemble
from scheduling.lab.histories.history import DAY, HOUR, History, Log, LoggedJob
from scheduling.lab.histories.machines import alike
from scheduling.lab.studies.backfill import Backfill
from scheduling.lab.studies.study import study_of
from scheduling.lab.studies.worlds import world

LOG = "month.csv"
UNITS_OF_A_SERVER = 4
SIZES = (1, 1, 2, 2, 3, 4)  # units of a job
JOBS_A_DAY = 16  # jobs for each server of an owner, on a weekday that is neither quiet nor busy
BUSY = (0.1, 0.5, 1.0, 2.5)


def made_up_month(owners: Mapping[str, int], first: date, days: int, seed: int) -> tuple[dict[str, object], bytes]:
    """Return a study's document and its log. `owners` says how many servers each owner has."""
    document: dict[str, object] = {
        "title": "A made-up month of deadlines, shared instead of alone",
        "history": {
            "format": "jobs",
            "file": LOG,
            "first_day": first.isoformat(),
            "days": days,
            "slot_minutes": 30,
            "machines": {"servers": sum(owners.values()), "units": UNITS_OF_A_SERVER},
            "quotas": {owner: servers * UNITS_OF_A_SERVER for owner, servers in owners.items()},
        },
        "rules": ["alone", "backfill", "market"],
        "worth": ["deadline"],
    }
    dice = random.Random(seed)  # noqa: S311  nothing secret is drawn
    jobs = _jobs(owners, int(datetime.combine(first, time(), UTC).timestamp()), days, dice)
    history, study = _history(jobs, owners, first, days), study_of(document, "", str)
    scenario = world(history, study, study.rule("backfill"), "by_hour")
    tracks = simulate(scenario, {BATCH: Backfill()}).tracks
    rows = ["job_id,tenant,submit_s,gpus,duration_s,queue_s"]
    for job, track in zip(history.jobs, tracks, strict=True):
        begin = history.midnights[0] + track.bookings[0].start * history.slot_seconds
        waited = max(0, begin - job.submitted)
        rows.append(f"{job.name},{job.owner},{job.submitted},{job.units},{job.seconds},{waited}")
    return document, "\n".join([*rows, ""]).encode()


def _jobs(owners: Mapping[str, int], begin: int, days: int, dice: random.Random) -> list[LoggedJob]:
    """Return about as much work as the cluster can do on a weekday, unevenly over owners and days."""
    jobs: list[LoggedJob] = []
    for number, (owner, servers) in enumerate(owners.items()):
        busy = 1.0
        for day in range(days):
            moment = datetime.fromtimestamp(begin, UTC) + timedelta(days=day)
            if (day + 2 * number) % 3 == 0:  # how busy an owner is changes every few days, at its own times
                busy = dice.choice(BUSY)
            weekend = 0.3 if moment.weekday() >= 5 else 1.0
            for _ in range(round(servers * JOBS_A_DAY * busy * weekend + dice.random())):
                hour = min(23.9, max(0.0, dice.gauss(13.5, 4.0)))
                submitted = begin + day * DAY + round(hour * HOUR)
                halves = min(4, 1 + int(2 * dice.lognormvariate(-0.4, 0.7)))  # half hours: no market rents for longer
                seconds = halves * HOUR // 2 - dice.randrange(150)
                jobs.append(LoggedJob("", owner, submitted, None, None, seconds, dice.choice(SIZES)))
    jobs.sort(key=lambda job: job.submitted)
    return [replace(job, name=str(1000 + number)) for number, job in enumerate(jobs)]


def _history(jobs: list[LoggedJob], owners: Mapping[str, int], first: date, days: int) -> History:
    log = Log(tuple(jobs), len(jobs), {}, (), {})
    wishes = Wishes("UTC", "gpu", first_day=first, days=days, slot_seconds=HOUR // 2)
    return assemble(log, alike(sum(owners.values()), UNITS_OF_A_SERVER), wishes)
