"""The demonstration's past: two days of it, made with an interruption. By the market's own rules, clean, and once."""

from __future__ import annotations

import io
from collections.abc import Iterator
from datetime import timedelta

import pytest
from django.core.management import call_command
from pytest_django.fixtures import Settings

from scheduling.app.clock import pool_advance
from scheduling.audit.verification import intervals_verify, settings_verify
from scheduling.demo import content, habits
from scheduling.demo.habits import DEADLINE_DAYS, SLOTS_IN_A_DAY, long_jobs
from scheduling.demo.outside import long_submit, outside_tick
from scheduling.market.settle.use import use_in_turn
from scheduling.models import (
    Award,
    Event,
    Interval,
    IntervalFairness,
    LabStudy,
    LaneClock,
    Outage,
    Pool,
    PoolHour,
    Server,
    ServerState,
    TrainingJob,
)
from tenants import history
from tenants.ledger import audit
from tenants.models import AuditEntry
from tenants.scoping import scope_disabled
from tests.scheduling.builders import NOON

pytestmark = pytest.mark.django_db

DAYS = 2
LAST = DAYS * SLOTS_IN_A_DAY
AT = NOON + timedelta(minutes=40)
SLUGS = {tenant.slug for tenant in content.TENANTS}


@pytest.fixture(autouse=True)
def _short(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A past of two days has room for the server's loss too."""
    settings.DEVELOPMENT = True
    monkeypatch.setattr(habits, "LOST_AFTER", 1)
    monkeypatch.setattr(habits, "LOST_SLOTS", 4)
    with scope_disabled("the test looks at all tenants"):
        yield


def load() -> str:
    out = io.StringIO()
    call_command("demo", at=AT, past=DAYS, stdout=out)
    return out.getvalue()


def counts() -> dict[str, int]:
    return {
        model.__name__: model.objects.count() for model in (TrainingJob, Award, Interval, Event, LabStudy, AuditEntry)
    }


def assert_verified(pool: Pool) -> None:
    assert audit.verify().is_clean
    assert isinstance(history.verify(), history.VerifiedHistory)
    verified = intervals_verify(pool_ids=[pool.pk])
    assert verified.is_clean, verified.findings
    assert settings_verify(None) == []
    assert verified.intervals == Interval.objects.filter(pool=pool).count() > 2


def test_a_past_is_made_once_also_where_it_was_interrupted_and_the_market_goes_on_from_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # 1. It dies in its second day: the first one is there, and of the second nothing.
    def dies(pool: Pool, members: object, slot: int, **more: object) -> int:
        if slot == SLOTS_IN_A_DAY + 2:
            raise KeyboardInterrupt
        return long_submit(pool, members, slot, **more)  # type: ignore[arg-type]

    with monkeypatch.context() as dying:
        dying.setattr("scheduling.app.past.long_submit", dies)
        with pytest.raises(KeyboardInterrupt):
            load()
    pool = Pool.objects.get()
    assert (pool.slug, pool.epoch_at) == ("long-runs", NOON - timedelta(days=DAYS))
    assert LaneClock.objects.get(pool=pool, lane="batch").decided_slot == SLOTS_IN_A_DAY - 1

    # 2. The next start goes on, and then the pools with slots of seconds begin.
    assert "of Long runs in" in load()
    assert LaneClock.objects.get(pool=pool, lane="batch").decided_slot == pool.slot_at(AT) == LAST
    expected = [job.name for slot in range(LAST) for job in long_jobs(slot, pool.slot_start(slot))]
    expected += [job.name for job in long_jobs(LAST, NOON) if NOON + timedelta(hours=job.into * 3) <= AT]
    assert sorted(TrainingJob.objects.values_list("name", flat=True)) == sorted(expected), "each job once"
    assert Pool.objects.get(slug="main").epoch_at == AT
    assert LabStudy.objects.count() == 1

    # 3. It is the market's own: paid, counted by the hour, fair, and verified. A server was lost in it, and is back.
    assert_verified(pool)
    assert not Outage.objects.exists()
    assert Award.objects.filter(phase="shared", paid__gt=0, state="done").exists()
    assert Award.objects.filter(state="void").exists()
    assert Server.objects.get(name=habits.LOST_SERVER).state == ServerState.IN_SERVICE
    workers = PoolHour.objects.filter(pool=pool, resource__name="worker")
    assert (workers.count(), sum(row.slots for row in workers)) == (LAST, LAST)
    assert sum(row.down for row in workers) == habits.LOST_SLOTS * 6 * 1_000_000
    assert IntervalFairness.objects.count() == Interval.objects.count()

    # 4. Another start does nothing.
    before = counts()
    assert "Making a past" not in load()
    assert counts() == before

    # 5. The live market goes on at the next boundary, with no outage and nobody late.
    pool_advance(pool_id=pool.pk, at=AT)
    outside_tick(at=AT + timedelta(hours=2))
    later = pool.slot_start(LAST + 1) + timedelta(seconds=1)
    pool_advance(pool_id=pool.pk, at=pool.slot_start(LAST + 1) - timedelta(seconds=1))
    assert pool_advance(pool_id=pool.pk, at=later).boundaries == 1
    use_in_turn(at=later)
    assert not Outage.objects.filter(pool=pool).exists()
    assert audit.verify().is_clean


def test_five_tenants_differ_and_the_same_slot_brings_the_same_jobs() -> None:
    monday = NOON - timedelta(days=NOON.weekday(), hours=NOON.hour)
    moments = [monday + timedelta(hours=content.SLOT_HOURS * slot) for slot in range(7 * SLOTS_IN_A_DAY)]
    week = [(at, job) for slot, at in enumerate(moments) for job in long_jobs(slot, at)]
    assert week == [(at, job) for slot, at in enumerate(moments) for job in long_jobs(slot, at)]
    sizes = {slug: [job.spec["chunks"] * job.spec["epochs"] for _, job in week if job.tenant == slug] for slug in SLUGS}
    assert min(len(numbers) for numbers in sizes.values()) > 0
    assert sum(sizes[content.CASTOR]) > sum(sizes[content.LUMEN]) > sum(sizes[content.PELICAN])
    assert {at.hour for at, job in week if job.tenant == content.ORRIN} == {0, 21}
    assert [job.otherwise for _, job in week if job.lane == "instant"] == ["batch"] * 14
    owners = {slug for server in content.LONG_SERVERS for slug in server.cells}
    assert owners == SLUGS - {content.TARN}, "a guest owns nothing"
    hurried = [
        job
        for day in DEADLINE_DAYS
        for number, at in enumerate(moments[:SLOTS_IN_A_DAY])
        for job in long_jobs(day * SLOTS_IN_A_DAY + number, at)
        if job.tenant == content.CASTOR
    ]
    assert len(hurried) > len(sizes[content.CASTOR])
