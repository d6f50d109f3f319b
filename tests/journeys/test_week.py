"""Half a day of the market at full speed; the whole week is a benchmark."""

from __future__ import annotations

import pytest

from scheduling.models import AlonePlan, Award, TrainingJob
from tenants.scoping import scope_disabled
from tests.journeys.week import everything_holds, live, make_week


@pytest.mark.wide
@pytest.mark.django_db
@pytest.mark.parametrize(("seed", "plan"), [(1, AlonePlan.KEEP), (2, AlonePlan.RENEW)])
def test_money_floors_and_capacity_hold_while_the_market_lives(seed: int, plan: str) -> None:
    pool, tenants = make_week(plan)
    live(pool, tenants, 72, seed=seed, on_slot=lambda slot, slots: None)
    counted = everything_holds(pool)
    assert min(counted.values()) > 0, counted
    with scope_disabled("the test looks at all tenants"):
        assert set(Award.objects.values_list("phase", flat=True)) >= {"own", "shared"}
        assert set(Award.objects.values_list("state", flat=True)) >= {"done", "void"}
        assert set(Award.objects.values_list("rent", flat=True)) >= ({""} if plan == AlonePlan.KEEP else {"", "closed"})
        assert set(TrainingJob.objects.values_list("state", flat=True)) >= {"finished", "cancelled"}
