"""Seals close over every event that no longer can be preceded by another, once, whoever writes meanwhile."""

from __future__ import annotations

import threading

import pytest
from django.db import connection, transaction

from scheduling.audit.feed_seals import events_between, feed_seal, members_of
from scheduling.audit.verification.feed import FeedWalk, feed_walk
from scheduling.feed.events import event, events_append
from scheduling.market.decide.chain import START
from scheduling.models import Event, FeedSeal, TrainingJob
from tenants.scoping import scope_disabled
from tests.audit.proven import seal_feed
from tests.database import undone
from tests.ledger.builders import tamper
from tests.patience import PATIENCE
from tests.scheduling.builders import NOON, make_pool, make_tenant
from tests.scheduling.markets import make_market, make_waiting, run_slots

pytestmark = pytest.mark.django_db(transaction=True)


def tell(*kinds: str) -> None:
    with transaction.atomic():
        events_append(event(kind, pool_id=None, at=NOON) for kind in kinds)


def findings() -> list[str]:
    walk, newest = FeedWalk(), FeedSeal.objects.count()
    while feed_walk(walk, upto=newest):
        pass
    return [str(finding) for finding in walk.findings]


def test_blocks_are_chained_and_nothing_is_closed_over_twice() -> None:
    assert feed_seal(at=NOON) == 0
    tell(*("one" for _ in range(7)))
    assert (feed_seal(at=NOON, block=3), feed_seal(at=NOON)) == (7, 0)
    tell("two")
    assert feed_seal(at=NOON) == 1
    seals = list(FeedSeal.objects.order_by("number"))
    assert [(seal.number, len(bytes(seal.members)) // 40) for seal in seals] == [(1, 3), (2, 3), (3, 1), (4, 1)]
    assert [seal.previous for seal in seals] == [START, *(seal.digest for seal in seals[:-1])]
    assert findings() == []


def test_an_event_that_may_still_be_preceded_is_left_for_the_next_seal() -> None:
    """A transaction that has written one and is still open holds back all that came after it."""
    tell("before")
    wrote, closed = threading.Event(), threading.Event()

    def write() -> None:
        try:
            with transaction.atomic():
                events_append([event("slow", pool_id=None, at=NOON)])
                wrote.set()
                assert closed.wait(timeout=PATIENCE)
        finally:
            connection.close()

    slow = threading.Thread(target=write)
    slow.start()
    assert wrote.wait(timeout=PATIENCE)
    tell("after")
    sealed = feed_seal(at=NOON)
    closed.set()
    slow.join(timeout=PATIENCE)
    assert not slow.is_alive()
    assert (sealed, feed_seal(at=NOON)) == (1, 2)
    assert [row.kind for row in events_between(0, 2**62)] == ["before", "slow", "after"]
    assert findings() == []


def test_two_sealers_at_once_close_over_everything_once() -> None:
    tell(*("one" for _ in range(50)))

    def seal() -> None:
        try:
            feed_seal(at=NOON, block=5)
        finally:
            connection.close()

    threads = [threading.Thread(target=seal) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=PATIENCE)
        assert not thread.is_alive()
    assert [seal.number for seal in FeedSeal.objects.order_by("number")] == list(range(1, 11))
    assert findings() == []


def test_a_seal_over_events_of_an_older_version_closes_over_their_rows_as_well() -> None:
    """They told no digest: of the job and of the award of the instant lane nothing else would be proved."""
    pool, (lumen,) = make_market("lumen")
    job = make_waiting(pool, lumen)
    run_slots(pool, 0, 1)
    with transaction.atomic():
        tamper("UPDATE scheduling_event SET data = data - 'digest' WHERE kind = 'job_submitted'")
    with transaction.atomic():
        seal_feed(NOON)
    assert findings() == []
    for change in ("name = 'other'", """spec = '{"epochs": 9}'""", "submitted_by_id = 7"):
        with undone():
            tamper(f"UPDATE scheduling_trainingjob SET {change} WHERE id = %s", [job.pk])  # noqa: S608
            (finding,) = findings()
        assert f"(job_submitted of job:{job.pk}): it or what it tells of was changed after seal 1" in finding
    with scope_disabled("the test changes nothing"):
        rows = [row for row in events_between(0, 2**62) if row.kind == "job_submitted"]
        with undone():
            tamper("DELETE FROM scheduling_trainingjob")
            assert members_of(rows) not in bytes(FeedSeal.objects.get().members)
        assert TrainingJob.objects.exists()


def test_a_job_that_was_submitted_is_there_in_its_pool() -> None:
    pool, tenant = make_pool(), make_tenant()
    job = make_waiting(pool, tenant)
    feed_seal(at=NOON)
    assert findings() == []
    with undone():
        tamper("DELETE FROM scheduling_trainingjob")
        assert findings() == [f"job {job.pk}: it was submitted to pool {pool.pk}, and is gone"]
    assert Event.objects.filter(kind="job_submitted").count() == 1
