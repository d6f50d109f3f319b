"""Why a projected start moved, and how past projections held: on the page of a job and for programs."""

from __future__ import annotations

from dataclasses import replace
from unittest import mock

import pytest
from django.template.loader import render_to_string
from django.test import Client

from scheduling.core.policies.astraea import Astraea, MoveCause
from scheduling.jobs.projections import PastProjections, Projection, _first_starts, _FirstStart, held, job_projection
from scheduling.market.decide import chain
from scheduling.models import AlonePlan, JobState, Pool, TenantPolicy, TrainingJob
from tenants.models import Tenant
from tenants.roles import OWNER
from tenants.scoping import scope
from tests.api.builders import program_of
from tests.scheduling.clocks import advance, moment
from tests.scheduling.markets import make_market, make_waiting
from tests.scheduling.renewing import ONE
from tests.tenants.builders import make_member

LINEAR = {"kind": "linear", "slope": -1.0}
STEEP = {"kind": "linear", "slope": -30.0, "base": 900.0}
QUEUED, CANCELLED, EXPIRED = JobState.QUEUED, JobState.CANCELLED, JobState.EXPIRED


def test_how_projections_held_is_counted_over_those_that_are_old_enough() -> None:
    projections = [
        _FirstStart(1, start=10, began=10, state=JobState.FINISHED),
        _FirstStart(1, start=10, began=4, state=JobState.FINISHED),  # it rented before
        _FirstStart(1, start=10, began=12, state=JobState.RUNNING),
        _FirstStart(1, start=10, began=18, state=JobState.FINISHED),
        _FirstStart(1, start=10, began=None, state=EXPIRED),
        _FirstStart(1, start=10, began=None, state=QUEUED),  # late already
        _FirstStart(1, start=30, began=None, state=EXPIRED),  # it will never start
        _FirstStart(1, start=30, began=None, state=QUEUED),  # nobody knows yet
        _FirstStart(1, start=10, began=22, state=JobState.AWARDED),  # late, and not begun yet
        _FirstStart(1, start=30, began=22, state=JobState.AWARDED),  # nobody knows yet
        _FirstStart(1, start=10, began=None, state=CANCELLED),
    ]
    past = held(projections, slot=20)
    assert past == PastProjections(projections=8, by_then=2, later=2, later_by=5.0, not_started=4)
    assert past.sentence == (
        "of 8 jobs with a projected start, 2 started by then; 2 later, half of them by at most 5 slots; "
        "4 not at all, or not yet."
    )
    assert held([], slot=20) == PastProjections()


@pytest.mark.django_db
def test_page_and_interface_say_which_job_took_the_place_since_when_and_how_projections_held() -> None:
    """One worker at home. The first job runs from 2 to 8, the second waits behind it. At 4 a third one comes, which is
    worth more for its size. A fourth one comes when all of them have begun: the second was late."""
    pool, lumen, waits = one_waits_behind_another()
    advance(pool, 2.5)
    before = projected(waits, 2.5)
    assert before is not None
    assert (before.start, before.moved, before.mine, before.pool) == (8, None, PastProjections(), PastProjections())
    comes = make_waiting(pool, lumen, 3.0, epochs=3, value=STEEP, **ONE)
    advance(pool, 4.5)
    now = projected(waits, 4.5)
    assert now is not None
    moved = now.moved
    assert moved is not None
    assert (now.start, moved.before, moved.why, moved.jobs) == (11, 8, MoveCause.WORTH, (comes.pk,))
    sentence = f"interval {moved.interval}: your job J-{comes.pk} is worth more for its size, and has that place now."
    text = " ".join(render_to_string("jobs/job_projection.html", {"projection": now}).split())
    assert f"Planned anew at {sentence}" in text
    assert "Before, it was projected to begin at" in text
    browser = Client()
    browser.force_login(make_member(lumen, OWNER).user)
    page = browser.get(f"/t/lumen/jobs/{waits.pk}/", secure=True).content.decode()
    assert f"Planned anew at {sentence}" in " ".join(page.split())
    caller = program_of(OWNER, lumen)
    plan = caller.get(f"tenants/lumen/jobs/{waits.pk}/explain/").json()["projection"]
    assert (plan["start_slot"], plan["moved"]["start_slot"], plan["moved"]["jobs"]) == (11, 8, [comes.pk])
    assert plan["moved"]["sentence"].endswith(sentence)
    advance(pool, 12.5)
    late = make_waiting(pool, lumen, 12.6, epochs=3, value={**LINEAR, "base": 300.0}, **ONE)
    advance(pool, 14.5)
    last = projected(late, 14.5)
    assert last is None  # it has begun at 14, for good
    with scope(lumen):
        assert held(_first_starts(pool, 14), 14) == PastProjections(
            projections=2, by_then=1, later=1, later_by=3.0, not_started=0
        )


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("decides", "why"), [("alike", MoveCause.WORTH), ("otherwise", MoveCause.UNKNOWN), ("nothing", MoveCause.UNKNOWN)]
)
def test_why_is_said_by_rules_of_another_version_too_where_they_decide_alike(
    monkeypatch: pytest.MonkeyPatch, decides: str, why: MoveCause
) -> None:
    pool, lumen, waits = one_waits_behind_another()
    with monkeypatch.context() as before:
        before.setattr(chain, "code_version", lambda: "core-0")
        advance(pool, 2.5)
        make_waiting(pool, lumen, 3.0, epochs=3, value=STEEP, **ONE)
        advance(pool, 4.5)
    decide = Astraea.decide
    if decides == "otherwise":
        monkeypatch.setattr(Astraea, "decide", lambda policy, view: replace(decide(policy, view), floors={}))
    elif decides == "nothing":
        monkeypatch.setattr(Astraea, "decide", mock.Mock(side_effect=AssertionError("no such view today")))
    now = projected(waits, 4.5)
    assert now is not None
    assert now.moved is not None
    assert now.moved.why == why


def one_waits_behind_another() -> tuple[Pool, Tenant, TrainingJob]:
    """Create a tenant of one worker with two jobs, and return it with the second one, which waits for the first."""
    pool, (lumen,) = make_market("lumen", worker=1, ps=1, clock_first=2, clock_cap=2, clock_restart=False)
    with scope(lumen):
        TenantPolicy.objects.create(pool=pool, plan=AlonePlan.RENEW)
    make_waiting(pool, lumen, epochs=6, priority=2, value={**LINEAR, "base": 300.0}, **ONE)
    return pool, lumen, make_waiting(pool, lumen, epochs=3, value={**LINEAR, "slope": -3.0, "base": 90.0}, **ONE)


def projected(job: TrainingJob, slot: float) -> Projection | None:
    with scope(job.tenant):
        row = TrainingJob.objects.select_related("pool").get(pk=job.pk)
        return job_projection(row, at=moment(job.pool, slot))
