"""Before a tenant changes its plan it sees what the next interval would plan for its waiting jobs under each."""

from __future__ import annotations

import re

import pytest
from django.test import Client
from django.utils import timezone

from scheduling.core import records
from scheduling.core.metrics.certificates import alone_view, cells_of
from scheduling.market.view import batch_view
from scheduling.models import AlonePlan, JobFloor, Lane, LaneClock, TenantPolicy
from scheduling.quotes.plans import NO_PLANS, HomePlace, Plans, plans_compare
from tenants.access import Refused
from tenants.roles import BILLING, OWNER
from tenants.scoping import scope, scope_disabled
from tests.api.builders import program_of
from tests.scheduling.builders import make_pool, make_tenant
from tests.scheduling.clocks import advance, moment
from tests.scheduling.live import member
from tests.scheduling.markets import MICRO, make_market, make_waiting
from tests.scheduling.renewing import ONE
from tests.tenants.builders import make_member

pytestmark = pytest.mark.django_db
CLOCK = {"clock_first": 2, "clock_cap": 2, "clock_restart": False}
LONG = {"epochs": 6, "value": {"kind": "linear", "slope": -1.0, "base": 40.0}, "rent": "never"}
DENSE = {"epochs": 2, "value": {"kind": "linear", "slope": -8.0, "base": 100.0}, "rent": "never"}


def test_shows_what_the_next_interval_then_plans_under_the_plan_that_was_chosen() -> None:
    """Both wait for one worker from slot 2 on. Kept: first come, first served. Planned anew: the dense one first."""
    pool, (lumen, _) = make_market("lumen", "castor", worker=1, ps=1, **CLOCK)
    long, dense = (make_waiting(pool, lumen, **spec, **ONE) for spec in (LONG, DENSE))
    plans = plans_compare(pool=pool, by=member(lumen), at=moment(pool, 0.5))
    assert isinstance(plans, Plans), plans
    assert (plans.chosen, plans.slot, plans.waiting, plans.free) == ("keep", 2, 2, 2)
    keep = {each.job.pk: each.keep for each in plans.jobs}
    renew = {each.job.pk: each.renew for each in plans.jobs}
    assert keep == {long.pk: HomePlace(2, 8, 32 * MICRO, False), dense.pk: HomePlace(8, 10, 20 * MICRO, False)}
    assert renew == {long.pk: HomePlace(4, 10, 30 * MICRO, True), dense.pk: HomePlace(2, 4, 68 * MICRO, False)}
    assert (plans.keep_worth, plans.renew_worth) == (52 * MICRO, 98 * MICRO)
    with scope_disabled("the test looks whether anything was written"):
        assert not JobFloor.objects.exists()
    with scope(lumen):
        TenantPolicy.objects.create(pool=pool, plan=AlonePlan.RENEW)
    advance(pool, 2.5)
    with scope(lumen):
        planned = {
            row.job_id: HomePlace(row.start, row.end, round(row.value * MICRO), row.draft)
            for row in JobFloor.objects.all()
        }
    assert planned == renew


def test_jobs_that_are_collected_keep_the_plan_they_have() -> None:
    pool, (lumen,) = make_market("lumen", worker=1, ps=1, **CLOCK)
    for spec in (LONG, LONG, DENSE):
        make_waiting(pool, lumen, **spec, **ONE)
    advance(pool, 2.5)
    late = make_waiting(pool, lumen, 2.6, **DENSE, **ONE)
    plans = plans_compare(pool=pool, by=member(lumen), at=moment(pool, 2.7))
    assert isinstance(plans, Plans), plans
    assert (plans.slot, plans.waiting, plans.free) == (4, 3, 1)
    assert {each.job.pk for each in plans.jobs if not each.collected} == {late.pk}
    assert all(each.same for each in plans.jobs if each.collected)


def test_what_others_have_and_do_changes_nothing_of_it() -> None:
    pool, (lumen, castor) = make_market("lumen", "castor", worker=1, ps=1, **CLOCK)
    make_waiting(pool, lumen, **LONG, **ONE)
    before = plans_compare(pool=pool, by=member(lumen), at=moment(pool, 0.5))
    make_waiting(pool, castor, **DENSE, **ONE)
    assert plans_compare(pool=pool, by=member(lumen), at=moment(pool, 0.5)) == before


def test_what_a_tenant_has_alone_is_read_without_what_others_have() -> None:
    """What a tenant has alone is the same to the byte, whether the rest of the market was read or not."""
    pool, tenants = make_market("lumen", "castor", "orrin", worker=2, ps=2, **CLOCK)
    for tenant in tenants:
        for spec in (LONG, DENSE, LONG):
            make_waiting(pool, tenant, **spec, **ONE)
    advance(pool, 4.5)
    for tenant in tenants:
        make_waiting(pool, tenant, 4.6, **DENSE, **ONE)
    clock, at = LaneClock.objects.get(pool=pool, lane=Lane.BATCH), moment(pool, 4.7)
    with scope_disabled("the test compares what everybody has"):
        whole = batch_view(pool, 6, clock, at)
        for tenant in tenants:
            index, part = whole.frame.tenant_index[tenant.pk], batch_view(pool, 6, clock, at, alone=tenant.pk)
            alone, again = (alone_view(one.view, index, cells_of(one.view.cluster)) for one in (whole, part))
            assert alone.active
            assert alone.floors
            assert records.view_bytes(alone) == records.view_bytes(again)
            assert {one.job for one in part.view.active} < {one.job for one in whole.view.active}


def test_who_has_no_jobs_no_floors_or_no_right_is_told_so() -> None:
    pool, (lumen,) = make_market("lumen", **CLOCK)
    plans = plans_compare(pool=pool, by=member(lumen), at=moment(pool, 0.5))
    assert isinstance(plans, Plans)
    assert (plans.waiting, plans.jobs) == (0, ())
    paper = make_pool("paper", batch_policy={"name": "astraea", "mode": "paper"})
    assert plans_compare(pool=paper, by=member(lumen), at=moment(paper, 0.5)) == NO_PLANS
    refused = plans_compare(pool=pool, by=member(lumen, BILLING), at=moment(pool, 0.5))
    assert isinstance(refused, Refused)
    assert refused.code == "not_allowed"


def test_page_and_interface_say_the_same() -> None:
    pool, (lumen,) = make_market("lumen", worker=1, ps=1, epoch_at=timezone.now(), slot_seconds=600, **CLOCK)
    jobs = [make_waiting(pool, lumen, **spec, **(ONE | {"minibatch_seconds": 600.0})) for spec in (LONG, DENSE)]
    browser = Client()
    browser.force_login(make_member(lumen, OWNER).user)
    page = " ".join(browser.get(f"/t/lumen/share/plans/?pool={pool.slug}").content.decode().split())
    body = program_of(OWNER, lumen).get(f"tenants/lumen/pools/{pool.slug}/sharing/plans/").json()
    assert body["waiting"] == len(jobs)
    for each in body["jobs"]:
        assert each["name"] in page
        for place in (each["keep"], each["renew"]):
            begin, end = (f'title="slot {place[name]}">[^<]*</time>' for name in ("start_slot", "end_slot"))
            assert re.search(f"{begin} – <time [^>]*{end}", page)
    assert "no waiting job is collected yet: the choice is about all of them" in page
    assert "share/plans/" in browser.get(f"/t/lumen/share/?pool={pool.slug}").content.decode()
    assert browser.get("/t/lumen/share/plans/?pool=none").status_code == 404
    assert make_tenant("stranger") is not None
    assert browser.get("/t/stranger/share/plans/").status_code in (403, 404)
