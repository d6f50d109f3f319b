"""A month of the guarantee: its certificate holds in every interval. Finer slots and more work are a benchmark."""

from __future__ import annotations

import pytest

from scheduling.models import IntervalFairness
from tests.journeys.month import DAY_SECONDS, DAYS, live, make_month, promises

SLOT_SECONDS = 6 * 3600


@pytest.mark.wide
@pytest.mark.django_db
def test_the_certificate_holds_in_every_interval_of_a_month() -> None:
    pool, tenants = make_month(slot_seconds=SLOT_SECONDS, clock_cap=2)
    lost = live(pool, tenants, DAYS * DAY_SECONDS // SLOT_SECONDS, jobs=3.0)
    found = promises(pool, servers_lost=lost)
    print(f"\na month of ten tenants: {found}")
    assert found.broken == ()
    assert found.with_window > 50
    assert found.certificates > 200
    assert lost >= 4
    awards = IntervalFairness.objects.filter(pool=pool, renters__gt=0).count()
    assert awards > 10, "nobody had to rent: the month proves too little"


@pytest.mark.django_db
def test_a_month_of_the_papers_own_rules_breaks_promises() -> None:
    """The same owners for ten days in paper mode: the count above can be something else than zero."""
    pool, tenants = make_month("paper", slot_seconds=SLOT_SECONDS)
    lost = live(pool, tenants, 40, jobs=3.0)
    found = promises(pool, servers_lost=lost)
    print(f"\nten days in paper mode: {found}")
    assert found.broken
    assert all(got < alone for _, _, _, got, alone in found.broken)
