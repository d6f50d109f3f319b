"""Half a day of the market at full speed; the whole week is a benchmark."""

from __future__ import annotations

import pytest

from scheduling.models import Award, TrainingJob
from tenants.scoping import scope_disabled
from tests.journeys.week import everything_holds, live, make_week


@pytest.mark.django_db
@pytest.mark.parametrize("seed", [1, 2])
def test_money_floors_and_capacity_hold_while_the_market_lives(seed: int) -> None:
    pool, tenants = make_week()
    live(pool, tenants, 72, seed=seed, on_slot=lambda slot, slots: None)
    counted = everything_holds(pool)
    assert min(counted.values()) > 0, counted
    with scope_disabled("the test looks at all tenants"):
        assert set(Award.objects.values_list("phase", flat=True)) >= {"own", "shared"}
        assert set(Award.objects.values_list("state", flat=True)) >= {"done", "void"}
        assert set(TrainingJob.objects.values_list("state", flat=True)) >= {"finished", "cancelled"}
