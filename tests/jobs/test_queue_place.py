"""Where a waiting job stands: by arrival, over all tenants, without a name; and how estimates held."""

from __future__ import annotations

import pytest
from django.utils import timezone

from scheduling.jobs import read_queue
from scheduling.jobs.read_queue import queue_place
from scheduling.models import AFTER_OTHERS, JobState, Pool, StartEstimate, TrainingJob
from tenants.models import Tenant
from tenants.roles import VIEWER
from tenants.scoping import scope, scope_disabled
from tests.scheduling.markets import make_market, make_waiting
from tests.scheduling.pages import client_as, text_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def waiting() -> tuple[Pool, list[Tenant], list[TrainingJob]]:
    """Lumen's, castor's, two of lumen's that came at the same moment."""
    pool, (lumen, castor) = make_market("lumen", "castor", epoch_at=timezone.now())
    owners = ((lumen, 0.1), (castor, 0.2), (lumen, 0.3), (lumen, 0.3))
    return pool, [lumen, castor], [make_waiting(pool, tenant, arrival) for tenant, arrival in owners]


def place(job: TrainingJob) -> tuple[int, int, bool] | None:
    with scope(job.tenant):
        job = TrainingJob.objects.select_related("pool").get(pk=job.pk)
        queue = queue_place(job, at=timezone.now())
        return None if queue is None else (queue.place, queue.mine, queue.more)


def test_the_place_is_that_of_the_arrival_and_of_jobs_that_came_together_the_first_is_first(waiting) -> None:
    _, _, jobs = waiting
    assert [place(job) for job in jobs] == [(1, 0, False), (2, 0, False), (3, 1, False), (4, 2, False)]


def test_who_waits_no_longer_is_before_nobody(waiting, monkeypatch) -> None:
    _, _, jobs = waiting
    with scope_disabled("the test ends jobs"):
        TrainingJob.objects.filter(pk__in=[jobs[0].pk]).update(state=JobState.RUNNING)
        TrainingJob.objects.filter(pk__in=[jobs[1].pk]).update(lane="instant")
    assert [place(job) for job in jobs] == [None, None, (1, 0, False), (2, 1, False)]
    monkeypatch.setattr(read_queue, "MOST_COUNTED", 0)
    assert place(jobs[3]) == (1, 0, True)


def test_who_waits_for_another_job_or_pauses_is_before_nobody(waiting) -> None:
    pool, _, jobs = waiting
    with scope_disabled("the test holds jobs back"):
        TrainingJob.objects.filter(pk=jobs[0].pk).update(not_before=AFTER_OTHERS)
        TrainingJob.objects.filter(pk=jobs[2].pk).update(not_before=pool.slot_at(timezone.now()) + 500)
    assert [place(job) for job in jobs] == [None, (1, 0, False), None, (2, 0, False)]


def test_a_new_job_is_decided_about_no_sooner_than_it_was_told(waiting) -> None:
    pool, (lumen, _), jobs = waiting
    slot = pool.slot_at(timezone.now()) + 3
    with scope(lumen):
        job = TrainingJob.objects.select_related("pool").get(pk=jobs[0].pk)
        job.reason_code, job.reason_numbers = "waiting_for_interval", {"slot": slot}
        queue = queue_place(job, at=timezone.now())
    assert queue is not None
    assert queue.decided_at == pool.slot_start(slot)


def test_the_page_says_the_place_and_how_the_last_estimates_held(waiting) -> None:
    _, (lumen, castor), jobs = waiting
    client = client_as(VIEWER, lumen)
    first = text_of(client.get(f"/t/lumen/jobs/{jobs[0].pk}/").content.decode())
    assert "It is the first of those that wait." in first
    assert "nobody can say how well estimates hold" in first
    with scope(lumen):
        for started in (3, 9):
            StartEstimate.objects.create(
                tenant=lumen, job=jobs[0], made_at=timezone.now(), earliest=2, latest=4, price_low=0, price_high=1,
                started=started, paid=0,
            )  # fmt: skip
    html = text_of(client.get(f"/t/lumen/jobs/{jobs[3].pk}/").content.decode())
    assert "It is number 4 of those that wait: 3 jobs of the next interval are before it, 2 of them yours." in html
    assert "Of your last 2 jobs here with an estimate that began, 1 began within the range that was said." in html
    assert castor.name not in html
