"""The page of a waiting job promises the place at home that still stands, and no other."""

from __future__ import annotations

from datetime import datetime

import pytest

from scheduling.jobs.projections import job_projection
from scheduling.jobs.read_life import LifeStep
from scheduling.jobs.read_page import JobPage, job_page
from scheduling.models import Pool, Server, TrainingJob
from scheduling.runs.failures import ServerLost, server_lose
from tenants.access import access_of_system
from tenants.models import Tenant
from tenants.scoping import scope, scope_disabled
from tests.scheduling.clocks import advance, moment
from tests.scheduling.markets import at, make_market, make_waiting, run_slots
from tests.scheduling.renewing import renewing

pytestmark = pytest.mark.django_db

LATEST, PROJECTED = "Starts at the latest", "Projected to start"


def page_of(job: TrainingJob, now: datetime) -> JobPage:
    with scope(job.tenant):
        row = TrainingJob.objects.select_related("pool", "tenant", "submitted_by").get(pk=job.pk)
        return job_page(row, at=now, money=True)


def step(page: JobPage, title: str) -> LifeStep | None:
    return next((each for each in page.steps if each.title == title), None)


def lose(pool: Pool, now: datetime) -> None:
    server = Server.objects.get(pool=pool)
    lost = server_lose(server=server, by=access_of_system("test"), reason="smoke", at=now)
    assert isinstance(lost, ServerLost)


def at_home() -> tuple[Pool, Tenant]:
    pool, (lumen,) = make_market("lumen", clock_first=8, clock_cap=8)
    return pool, lumen


def waits_for_home(pool: Pool, tenant: Tenant) -> TrainingJob:
    """Return a job that waits for its place at home, behind another one."""
    make_waiting(pool, tenant, epochs=4)
    job = make_waiting(pool, tenant, epochs=2)
    run_slots(pool, 0, 8)
    page = page_of(job, at(pool, 9))
    assert page.job.state == "queued"
    assert page.home is not None
    assert step(page, LATEST) is not None
    return job


def test_job_that_ran_on_a_lost_server_is_promised_nothing_by_its_page() -> None:
    pool, lumen = at_home()
    job = make_waiting(pool, lumen, epochs=2)
    run_slots(pool, 0, 8)
    assert page_of(job, at(pool, 9)).home is not None
    lose(pool, at(pool, 9))
    page = page_of(job, at(pool, 10))
    assert page.job.state == "queued"
    assert (page.home, page.asked_interval, step(page, LATEST)) == (None, None, None)
    waits, submitted = step(page, "Waits since"), step(page, "Submitted")
    assert waits is not None
    assert submitted is not None
    assert (submitted.at, waits.at) == (at(pool, 0), at(pool, 9))


def test_job_whose_promised_server_is_lost_before_it_began_is_promised_nothing() -> None:
    pool, lumen = at_home()
    job = waits_for_home(pool, lumen)
    lose(pool, at(pool, 9))
    page = page_of(job, at(pool, 10))
    assert (page.home, page.asked_interval, step(page, LATEST)) == (None, None, None)


def test_floor_of_this_attempt_is_void_too_where_its_server_was_lost_meanwhile() -> None:
    """A job that runs a piece elsewhere meanwhile keeps its attempt."""
    pool, lumen = at_home()
    job = waits_for_home(pool, lumen)
    with scope_disabled("as a loss leaves the row while a piece runs elsewhere"):
        Server.objects.filter(pool=pool).update(lost_after=8, lost_from=9)
    page = page_of(job, at(pool, 10))
    assert (page.home, step(page, LATEST)) == (None, None)


def test_projected_place_is_not_said_to_be_the_latest() -> None:
    world = renewing()
    advance(world.pool, 2.5)
    with scope(world.lumen):
        job = TrainingJob.objects.get(state="queued", arrival=0)
    page = page_of(job, moment(world.pool, 2.5))
    assert page.home is not None
    assert step(page, LATEST) is None
    projected = step(page, PROJECTED)
    assert projected is not None
    assert (projected.slot, projected.note) == (10, "its place at home, planned again at each interval")


def test_projection_of_an_earlier_attempt_is_not_shown() -> None:
    world = renewing()
    advance(world.pool, 2.5)
    with scope(world.lumen):
        job = TrainingJob.objects.select_related("pool").get(state="queued", arrival=0)
        assert job_projection(job, at=moment(world.pool, 2.5)) is not None
        job.attempt += 1  # as a failure leaves it
        assert job_projection(job, at=moment(world.pool, 2.5)) is None
