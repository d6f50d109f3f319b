"""A month of the guarantee: its certificate holds in every interval. Finer slots and more work are a benchmark."""

from __future__ import annotations

import pytest

from scheduling.models import AlonePlan, Award, IntervalFairness, TenantPolicy
from tenants.scoping import scope_disabled
from tests.journeys.month import DAY_SECONDS, DAYS, live, make_month, promises
from tests.journeys.upsets import Upsets
from tests.journeys.week import everything_holds

SLOT_SECONDS = 6 * 3600


@pytest.mark.wide
@pytest.mark.django_db
def test_the_certificate_holds_in_every_interval_of_a_month() -> None:
    pool, tenants = make_month(slot_seconds=SLOT_SECONDS, clock_cap=2)
    lost = live(pool, tenants, DAYS * DAY_SECONDS // SLOT_SECONDS, jobs=3.0)
    record = promises(pool, servers_lost=lost)
    print(f"\na month of ten tenants: {record}")
    assert record.broken == ()
    assert record.with_window > 50
    assert record.certificates > 200
    assert lost >= 4
    awards = IntervalFairness.objects.filter(pool=pool, renters__gt=0).count()
    assert awards > 10, "nobody had to rent: the month proves too little"


@pytest.mark.wide
@pytest.mark.django_db
def test_a_month_of_the_papers_own_rules_breaks_promises() -> None:
    """The same owners for ten days in paper mode: the count above can be something else than zero."""
    pool, tenants = make_month("paper", slot_seconds=SLOT_SECONDS)
    lost = live(pool, tenants, 40, jobs=3.0)
    record = promises(pool, servers_lost=lost)
    print(f"\nten days in paper mode: {record}")
    assert record.broken
    assert all(got < alone for _, _, _, got, alone in record.broken)


@pytest.mark.wide
@pytest.mark.django_db
@pytest.mark.parametrize("seed", [1, 2])
def test_a_month_with_both_plans_in_which_everything_happens(seed: int) -> None:
    """Slots of three hours. Half of the tenants keep their plans, half renew them; some change their mind. Servers are
    lost and drained, cells sold, jobs taken back, and processes die while they pay."""
    pool, tenants = make_month(slot_seconds=SLOT_SECONDS // 2, clock_cap=4)
    with scope_disabled("of all tenants"):
        for number, tenant in enumerate(tenants):
            plan = (AlonePlan.KEEP, AlonePlan.RENEW)[number % 2]
            TenantPolicy.objects.update_or_create(pool=pool, tenant=tenant, defaults={"plan": plan})
        upsets = Upsets(pool, tenants, seed=seed)
        slots = DAYS * 2 * DAY_SECONDS // SLOT_SECONDS
        lost = live(pool, tenants, slots, jobs=4.0, seed=seed, also=upsets)
        adjusted = Award.objects.filter(pool=pool, adjusted__gt=0).count()
        closed = Award.objects.filter(pool=pool, rent="closed").count()
    record = promises(pool, servers_lost=lost)
    held = everything_holds(pool)
    print(
        f"\na month of both plans: {record}; {dict(upsets.counts)}; {closed} rents closed, {adjusted} gave back; {held}"
    )
    assert record.broken == ()
    assert record.certificates > 200
    assert lost >= 4
    assert closed > 10
    assert adjusted, "alone was never better than what was rented: nothing came back"
    happened = ("cancelled", "drained", "returned", "sold", "plans", "died paying", "died deciding")
    assert all(upsets.counts[what] for what in happened)
