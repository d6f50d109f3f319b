"""Fifty submissions at once for the last free cell: one wins, the others learn why not, and one price is paid."""

from __future__ import annotations

import json
import os
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest
from django.db import IntegrityError, connection

from scheduling.jobs import submission as jobs
from scheduling.jobs.submission import Submitted
from scheduling.market.decide import instant
from scheduling.models import Award, CalendarCell, Lane, LaneClock, Pool, TrainingJob
from tenants.models import Tenant
from tenants.scoping import scope_disabled
from tests.concurrency.beside import beside
from tests.concurrency.last_cell import last_cell, submit_all
from tests.database import serving_addresses
from tests.patience import PATIENCE
from tests.scheduling.live import book_is_sound, money, submit

pytestmark = pytest.mark.django_db(transaction=True)

SUBMISSIONS, WORKERS = 50, 2


@pytest.mark.wide
def test_of_fifty_submissions_by_two_workers_one_wins_and_the_others_get_the_reason() -> None:
    pool, tenants = last_cell()
    share = SUBMISSIONS // WORKERS
    with ExitStack() as open_ones, ThreadPoolExecutor(max_workers=WORKERS) as threads:
        workers = [open_ones.enter_context(beside(os.environ | serving_addresses())) for _ in range(WORKERS)]
        rushes = [
            threads.submit(worker.done, f"rush {pool.slug} {n * share} {(n + 1) * share}")
            for n, worker in enumerate(workers)
        ]
        outcomes = Counter(answer for rush in rushes for answer in json.loads(rush.result()))
    assert outcomes == {"running": 1, "rejected no_room": SUBMISSIONS - 1}
    _one_is_sold(pool, tenants)


def _one_is_sold(pool: Pool, tenants: list[Tenant]) -> None:
    with scope_disabled("the test looks at all tenants"):
        assert TrainingJob.objects.count() == SUBMISSIONS
        (award,) = Award.objects.all()
    assert sum(money(tenant)[1] for tenant in tenants) == award.paid > 0
    assert all(cell.instant <= cell.capacity for cell in CalendarCell.objects.filter(pool=pool))
    assert book_is_sound()


def test_without_the_lanes_lock_buyers_meet_in_the_calendar_and_fail_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten decide on one state of the calendar. Its constraint still sells the cell once; the rest get no answer."""
    pool, tenants = last_cell()
    together = threading.Barrier(10)
    decide = instant.instant_answer

    def decide_together(*arguments: Any) -> Any:
        answer = decide(*arguments)
        together.wait(PATIENCE)
        return answer

    clock = LaneClock.objects.create(pool=pool, lane=Lane.INSTANT)
    monkeypatch.setattr(jobs, "lane_lock", lambda **_: LaneClock.objects.get(pk=clock.pk))
    monkeypatch.setattr(instant, "instant_answer", decide_together)
    counts = Counter(submit_all(pool, tenants, range(10)))
    assert counts == {"running": 1, IntegrityError.__name__: 9}


def test_the_same_key_from_many_at_once_is_one_job() -> None:
    pool, (tenant, *_) = last_cell()
    ready = threading.Barrier(8)

    def one(_: int) -> tuple[int, bool]:
        ready.wait(PATIENCE)
        try:
            answer = submit(pool, tenant, key="k1")
        finally:
            connection.close()
        assert isinstance(answer, Submitted), answer
        return answer.job.pk, answer.repeated

    with ThreadPoolExecutor(max_workers=8) as threads:
        answers = [future.result(PATIENCE) for future in [threads.submit(one, number) for number in range(8)]]
    assert len({number for number, _ in answers}) == 1
    assert Counter(repeated for _, repeated in answers) == {False: 1, True: 7}
    assert book_is_sound()
