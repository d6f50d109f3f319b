"""The clock of a lane is made by whoever asks for it first; everybody else waits for it."""

from __future__ import annotations

import pytest
from django.db import transaction

from scheduling.market.calendar import lanes
from scheduling.market.calendar.lanes import lane_lock
from scheduling.models import Lane, LaneClock
from tests.scheduling.builders import make_pool

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("made_meanwhile", [False, True])
def test_the_first_to_ask_gets_the_clock_also_where_another_makes_it_meanwhile(
    made_meanwhile: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool, looks, look = make_pool(), [], lanes._locked

    def locked(pool_id: int, lane: Lane, wait: bool) -> LaneClock | None:
        clock = look(pool_id, lane, wait)
        looks.append(clock)
        if made_meanwhile and len(looks) == 1:
            LaneClock.objects.create(pool_id=pool_id, lane=lane)  # committed by another process at this very moment
        return clock

    monkeypatch.setattr(lanes, "_locked", locked)
    with transaction.atomic():
        clock = lane_lock(pool_id=pool.pk, lane=Lane.INSTANT)
    assert looks == [None, clock]
    assert clock is not None
    assert list(LaneClock.objects.filter(pool=pool)) == [clock]
