"""The outside of the demonstration, and the demonstration with it: money moves within the first minute."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

import pytest
from django.test import override_settings
from pytest_django.fixtures import Settings

from scheduling.app.clock import pool_advance
from scheduling.demo.demo import demo_load
from scheduling.demo.outside import outside_tick, really, wishes
from scheduling.market.decide.programs import program_of
from scheduling.models import Award, Interval, Pool, PriceTick, TrainingJob
from tenants.ledger import audit
from tenants.ledger.postings import earned
from tenants.ledger.selectors import balance
from tenants.models import Tenant
from tenants.scoping import scope_disabled
from tests.scheduling.builders import NOON
from tests.worlds import built_once

pytestmark = pytest.mark.django_db


SLOTS, MINUTE = 14, 6  # all that are played, and those of the first minute


@dataclass(frozen=True)
class Played:
    """The demonstration's two pools. Of the main one's first minute: intervals that sold and prices of a worker; and
    what all tenants had earned then."""

    main: Pool
    sweeps: Pool
    intervals: int
    prices: int
    earned: int


def play() -> Played:
    """The demo as beat drives it."""
    with override_settings(DEVELOPMENT=True):
        demo_load(at=NOON)
        main, sweeps = (Pool.objects.get(slug=slug) for slug in ("main", "sweeps"))
        early = (0, 0, 0)
        for slot in range(SLOTS + 1):
            for pool in (main, sweeps):
                pool_advance(pool_id=pool.pk, at=pool.slot_start(slot))
            if slot == MINUTE:
                early = first_minute(main)
            if slot < SLOTS:
                outside_tick(at=main.slot_start(slot) + timedelta(seconds=1))
    return Played(main, sweeps, *early)


def first_minute(main: Pool) -> tuple[int, int, int]:
    sold = Interval.objects.filter(pool=main, window_start__isnull=False).count()
    prices = PriceTick.objects.filter(resource__pool=main, resource__name="worker").values("price").distinct().count()
    with scope_disabled("the test looks at all tenants"):
        assert Award.objects.filter(pool=main, paid__gt=0).exists()
        return sold, prices, sum(balance(account=earned(tenant.pk)) for tenant in Tenant.objects.all())


played = built_once(play)


@pytest.mark.wide
def test_intervals_close_prices_move_and_owners_earn_within_the_first_minute(played: Played) -> None:
    assert played.intervals >= 2
    assert played.prices >= 2
    assert played.earned > 0
    assert audit.verify().is_clean


def test_batch_lane_rents_too(played: Played) -> None:
    with scope_disabled("the test looks at all tenants"):
        assert Award.objects.filter(lane="batch", phase="shared", paid__gt=0).exists()
        assert Award.objects.filter(lane="instant", paid__gt=0).exists()
        assert TrainingJob.objects.filter(state="finished").exists()


def test_slot_brings_its_jobs_once(nothing_built: None, settings: Settings) -> None:
    settings.DEVELOPMENT = True
    demo_load(at=NOON)
    assert outside_tick(at=NOON + timedelta(seconds=1)) > 0
    with scope_disabled("the test looks at all tenants"):
        jobs = TrainingJob.objects.count()
        outside_tick(at=NOON + timedelta(seconds=4))
        assert TrainingJob.objects.count() == jobs


def test_same_seed_brings_the_same_jobs() -> None:
    assert list(wishes(3, 40, 5)) == list(wishes(3, 40, 5))
    assert list(wishes(3, 40, 5, jobs=9)) != list(wishes(4, 40, 5, jobs=9))


@pytest.mark.parametrize("debug", [True, False])
def test_nothing_comes_from_outside_but_in_the_demo(debug: bool, nothing_built: None, settings: Settings) -> None:
    settings.DEVELOPMENT = True
    if not debug:
        demo_load(at=NOON)
    settings.DEVELOPMENT = debug
    assert outside_tick(at=NOON + timedelta(seconds=1)) == 0


def test_every_third_slot_one_job_is_a_program_that_may_run() -> None:
    wish = next(each for slot in range(9) for each in wishes(3, slot, 5))
    real = really(wish, 6)
    program = program_of(real.spec)
    assert program is not None
    assert program[0].name == "trainer"
    work = [each.spec["epochs"] * each.spec["minibatches"] for each in (wish, real)]
    assert work[0] == work[1]
    assert real.spec["chunks"] == 2


def test_jobs_of_the_elastic_pool_are_resized_pay_by_slot_and_one_comes_to_its_limit(played: Played) -> None:
    pool = played.sweeps
    with scope_disabled("the test looks at all tenants"):
        awards = Award.objects.filter(pool=pool)
        sizes = {name: set(awards.filter(job__name=name).values_list("workers", flat=True)) for name in FIRST}
        limited = TrainingJob.objects.get(name="sweep-0-2")
        tenants = set(awards.values_list("tenant__slug", flat=True))
    assert min(len(each) for each in sizes.values()) > 1
    assert (limited.state, limited.reason_code) == ("queued", "over_max_price")
    assert len(tenants) >= 3
    assert audit.verify().is_clean


FIRST = ("sweep-0-0", "sweep-0-1", "sweep-0-2")


@pytest.mark.usefixtures("nothing_built")
def test_first_jobs_of_the_elastic_pool_come_once_in_whichever_slot_somebody_looks_first(settings: Settings) -> None:
    settings.DEVELOPMENT = True
    demo_load(at=NOON)
    for slot in (2, 3, 4):
        outside_tick(at=NOON + timedelta(seconds=10 * slot + 1))
    with scope_disabled("the test looks at all tenants"):
        names = TrainingJob.objects.filter(pool__slug="sweeps").order_by("name").values_list("name", flat=True)
        assert tuple(names) == FIRST
