"""The page of a finished study, as an auditor opens it: through all of Django, without the network."""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from django.urls import reverse
from django.utils import timezone

from scheduling.lab.histories.assembling import Wishes, assemble
from scheduling.lab.histories.history import DAY, HOUR, Log, LoggedJob
from scheduling.lab.histories.machines import alike
from scheduling.lab.requests import file_keep, page_of
from scheduling.lab.studies.figures import figures_of
from scheduling.lab.studies.replays import Replay, ReplayTask, replay_make, replay_read
from scheduling.lab.studies.report import ReportPage, body_of
from scheduling.models import LabStudy, StudyState
from tenants.roles import AUDITOR
from tests.bench.bench_simulation import Figure, figure
from tests.lab.logs import BEGIN, STUDY, study_of
from tests.scheduling.pages import client_as

NEEDS_DATABASE = True

OWNERS, DAYS, JOBS_A_DAY, TIMES = 12, 80, 12, 21
RULES = ["alone", "backfill", "fair_share", "fifo", "market", "market_paper"]


def measure() -> Iterator[Figure]:
    body = study_body()
    study = LabStudy.objects.create(
        title="Eighty days",
        document={"title": "Eighty days", "rules": RULES},
        state=StudyState.DONE,
        asked_at=timezone.now(),
        ended_at=timezone.now(),
    )
    file_keep(study, page_of(None), body.encode())
    client, address, took, page_bytes = client_as(AUDITOR, None), reverse("lab_study", args=[study.pk]), [], 0
    for _ in range(TIMES):
        begin = time.perf_counter()
        answer = client.get(address, headers={"host": "localhost"})
        took.append(1e3 * (time.perf_counter() - begin))
        assert answer.status_code == 200
        assert body.encode() in answer.content
        page_bytes = len(answer.content)
    took.sort()
    detail = (
        f"{OWNERS} owners, {DAYS} days, {len(RULES)} rules; slowest of {TIMES}: {took[-1]:.0f} ms; {page_bytes:,} bytes"
    )
    yield figure("lab_page", round(took[TIMES // 2], 1), "ms", "at most 300", detail)


def study_body() -> str:
    """Return the page's body for a study as large as the Philly log's. That it has fewer jobs does not show."""
    dice, jobs = random.Random(3), []
    for day in range(DAYS):
        for _ in range(JOBS_A_DAY):
            owner, submitted = f"owner {dice.randrange(OWNERS)}", BEGIN + day * DAY + dice.randrange(DAY)
            jobs.append(LoggedJob("", owner, submitted, None, None, dice.randint(1, 9) * HOUR, dice.choice([1, 2, 4])))
    jobs.sort(key=lambda job: job.submitted)
    history = assemble(
        Log(tuple(jobs), len(jobs), {}, (), {}), alike(3, 4), Wishes("UTC", "gpu", slot_seconds=HOUR, days=DAYS)
    )
    with tempfile.TemporaryDirectory() as name:
        study = study_of(Path(name), STUDY + f"rules: [{', '.join(RULES)}]\n")
        replays: dict[tuple[str, str], Replay] = {}
        for rule in study.rules:
            for worth in study.worths_of(rule):
                replay_make(ReplayTask(history, study, rule, worth, Path(name) / "replay.npz"))
                replays[rule.name, worth] = replay_read(Path(name) / "replay.npz")
    return body_of(ReportPage(study, history, figures_of(study, history, replays), None))
