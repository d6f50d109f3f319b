"""A job that is outbid in its last chance is told of once, just before it expires, and nothing else is said of it."""

from __future__ import annotations

from typing import Any

import pytest

from scheduling.audit.verification import intervals_verify
from scheduling.models import Event, JobState, TrainingJob
from scheduling.notices.choices import choices_set
from scheduling.notices.collecting import notices_collect
from tenants.roles import SUBMITTER
from tests.notices.test_notices import lines, member
from tests.scheduling.markets import again, at, make_renting, make_waiting, run_slots

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("committed")]
POOR: dict[str, Any] = {"kind": "linear", "slope": -0.002, "base": 0.05}  # worth less than any place costs


def events_of(job: TrainingJob) -> list[Event]:
    return list(Event.objects.filter(tenant=job.tenant, subject=f"job:{job.pk}").order_by("pk"))


def test_a_job_is_told_once_that_its_last_chance_is_gone_and_expires_at_the_next_boundary() -> None:
    pool, _, renter = make_renting(clock_cap=4)
    person = member(renter, SUBMITTER)
    job = make_waiting(pool, renter, value=POOR)
    choices_set(person=person, ways={}, all_jobs=True)
    run_slots(pool, 0, 40)
    assert again(job).state == JobState.EXPIRED
    kinds = [event.kind for event in events_of(job)]
    assert kinds[-3:] == ["job_waiting", "job_last_chance", "job_expired"]
    assert kinds.count("job_last_chance") == 1
    last = events_of(job)[-2]
    assert last.data["reason"] == "outbid"
    assert 0 < last.data["numbers"]["value"] < last.data["numbers"]["price"]
    slots = [pool.slot_at(event.at) for event in events_of(job)[-2:]]
    assert slots[1] - slots[0] == 4  # the very next boundary
    notices_collect(at=at(pool, 40))
    titles = [line.title for line in lines(person)]
    assert titles[:2] == ["Expired.", "Last chance missed."]
    assert intervals_verify(pool_ids=[pool.pk]).findings == ()


def test_a_job_whose_first_chance_is_its_last_is_told_so_and_not_that_it_is_looked_at_again() -> None:
    pool, _, renter = make_renting(clock_cap=4)
    person = member(renter, SUBMITTER)
    choices_set(person=person, ways={}, all_jobs=True)
    busy = make_waiting(
        pool, renter, value={"kind": "linear", "slope": 0.0, "base": 0.01}
    )  # so that intervals are long
    job = make_waiting(pool, renter, arrival=20.0, value={"kind": "linear", "slope": -0.004, "base": 0.03})
    run_slots(pool, 0, 40)
    assert again(busy).state == JobState.QUEUED
    waiting, last, expired = events_of(job)[-3:]
    assert [each.kind for each in (waiting, last, expired)] == ["job_waiting", "job_last_chance", "job_expired"]
    assert (waiting.at, waiting.data["last_chance"]) == (last.at, True)
    notices_collect(at=at(pool, 40))
    titles = [line.title for line in lines(person) if line.link.endswith(f"/{job.pk}/")]
    assert titles == ["Expired.", "Last chance missed."]


def test_a_job_that_is_worth_the_same_for_ever_has_no_last_chance() -> None:
    pool, _, renter = make_renting(clock_cap=4)
    job = make_waiting(pool, renter, value={"kind": "linear", "slope": 0.0, "base": 0.01})
    run_slots(pool, 0, 40)
    assert again(job).state == JobState.QUEUED
    assert "job_last_chance" not in [event.kind for event in events_of(job)]
