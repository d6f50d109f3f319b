"""The outside of the demonstration, and the demonstration with it: money moves within the first minute."""

from __future__ import annotations

from datetime import timedelta

import pytest
from pytest_django.fixtures import Settings

from scheduling.models import Award, Interval, Pool, PriceTick, TrainingJob
from scheduling.services.clock import pool_advance
from scheduling.services.demo import demo_load
from scheduling.services.outside import outside_tick, really, wishes
from scheduling.services.programs import program_of
from tenants.ledger import audit
from tenants.ledger.postings import earned
from tenants.ledger.selectors import balance
from tenants.models import Tenant
from tenants.scoping import scope_disabled
from tests.scheduling.builders import NOON

pytestmark = pytest.mark.django_db


def play(slots: int, slug: str = "main") -> Pool:
    """The demo as beat drives it; of one of its pools."""
    demo_load(at=NOON)
    pool = Pool.objects.get(slug=slug)
    for slot in range(slots):
        pool_advance(pool_id=pool.pk, at=pool.slot_start(slot))
        outside_tick(at=pool.slot_start(slot) + timedelta(seconds=1))
    pool_advance(pool_id=pool.pk, at=pool.slot_start(slots))
    return pool


def test_intervals_close_prices_move_and_owners_earn_within_the_first_minute(settings: Settings) -> None:
    settings.DEBUG = True
    play(6)
    assert Interval.objects.filter(window_start__isnull=False).count() >= 2
    assert PriceTick.objects.filter(resource__name="worker").values("price").distinct().count() >= 2
    with scope_disabled("the test looks at all tenants"):
        assert sum(balance(account=earned(tenant.pk)) for tenant in Tenant.objects.all()) > 0
    assert audit.verify().is_clean


def test_batch_lane_rents_too(settings: Settings) -> None:
    settings.DEBUG = True
    play(14)
    with scope_disabled("the test looks at all tenants"):
        assert Award.objects.filter(lane="batch", phase="shared", paid__gt=0).exists()
        assert Award.objects.filter(lane="instant", paid__gt=0).exists()
        assert TrainingJob.objects.filter(state="finished").exists()


def test_slot_brings_its_jobs_once(settings: Settings) -> None:
    settings.DEBUG = True
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
def test_nothing_comes_from_outside_but_in_the_demo(debug: bool, settings: Settings) -> None:
    settings.DEBUG = True
    if not debug:
        demo_load(at=NOON)
    settings.DEBUG = debug
    assert outside_tick(at=NOON + timedelta(seconds=1)) == 0


def test_every_third_slot_one_job_is_a_program_that_may_run() -> None:
    wish = next(each for slot in range(9) for each in wishes(3, slot, 5))
    real = really(wish, 6)
    found = program_of(real.spec)
    assert found is not None
    assert found[0].name == "trainer"
    work = [each.spec["epochs"] * each.spec["minibatches"] for each in (wish, real)]
    assert work[0] == work[1]
    assert real.spec["chunks"] == 2


def test_jobs_of_the_elastic_pool_are_resized_pay_by_slot_and_one_comes_to_its_limit(settings: Settings) -> None:
    settings.DEBUG = True
    pool = play(14, "sweeps")
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


def test_first_jobs_of_the_elastic_pool_come_once_in_whichever_slot_somebody_looks_first(settings: Settings) -> None:
    settings.DEBUG = True
    demo_load(at=NOON)
    for slot in (2, 3, 4):
        outside_tick(at=NOON + timedelta(seconds=10 * slot + 1))
    with scope_disabled("the test looks at all tenants"):
        found = TrainingJob.objects.filter(pool__slug="sweeps").order_by("name").values_list("name", flat=True)
        assert tuple(found) == FIRST
