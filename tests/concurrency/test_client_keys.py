"""One client's key at several doors at the same moment: a job by itself, jobs in bulk, an array. One makes its jobs."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction

from scheduling.jobs import bulk, submission
from scheduling.jobs.arrays import array_submit
from scheduling.jobs.bulk import JobWords, jobs_submit
from scheduling.jobs.submission import Submitted, job_submit
from scheduling.models import Pool, TrainingJob
from tenants.access import Refused
from tenants.models import Tenant
from tenants.scoping import scope, scope_disabled
from tests.patience import PATIENCE
from tests.scheduling.live import INSTANT, SPEC, book_is_sound, member, moment
from tests.scheduling.markets import make_market

pytestmark = pytest.mark.django_db(transaction=True)

Door = Callable[[Pool, Tenant, str], Any]


def alone(pool: Pool, tenant: Tenant, key: str, lane: str = "batch") -> Any:
    more: dict[str, Any] = {"by": member(tenant), "at": moment(0.5), "client_key": key}
    return job_submit(pool=pool, name="one", spec=SPEC, lane=lane, **more)


def in_bulk(pool: Pool, tenant: Tenant, key: str) -> Any:
    words = [JobWords("first", SPEC), JobWords("second", SPEC)]
    return jobs_submit(pool=pool, words=words, by=member(tenant), at=moment(0.5), client_key=key)


def as_array(pool: Pool, tenant: Tenant, key: str) -> Any:
    more: dict[str, Any] = {"by": member(tenant), "at": moment(0.5), "client_key": key}
    return array_submit(pool=pool, name="one", spec=SPEC, count=3, **more)


def market() -> tuple[Pool, Tenant, Tenant]:
    pool, (lumen, castor) = make_market("lumen", "castor", worker=8, ps=8, instant_policy=INSTANT)
    return pool, lumen, castor


def in_a_thread(threads: ThreadPoolExecutor, door: Door, *words: Any, ready: threading.Barrier | None = None) -> Future:
    def through() -> Any:
        try:
            if ready is not None:
                ready.wait(PATIENCE)
            return door(*words)
        finally:
            connection.close()

    return threads.submit(through)


def jobs_made() -> int:
    with scope_disabled("the test counts everything"):
        return TrainingJob.objects.count()


def test_of_three_doors_one_makes_its_jobs_and_the_others_learn_that_the_key_is_used() -> None:
    pool, lumen, _ = market()
    doors = [alone, in_bulk, as_array] * 3
    ready = threading.Barrier(len(doors))
    with ThreadPoolExecutor(max_workers=len(doors)) as threads:
        rush = [in_a_thread(threads, door, pool, lumen, "k1", ready=ready) for door in doors]
        answers = [each.result(PATIENCE) for each in rush]
    refused = [answer.code for answer in answers if isinstance(answer, Refused)]
    submissions = [answer for answer in answers if not isinstance(answer, Refused)]
    assert refused == ["key_reused"] * 6
    assert len({type(answer) for answer in submissions}) == 1
    assert Counter(answer.repeated for answer in submissions) == {False: 1, True: 2}
    assert jobs_made() == {"Submitted": 1, "SubmittedJobs": 2, "SubmittedArray": 3}[type(submissions[0]).__name__]
    assert book_is_sound()


@pytest.mark.parametrize("module", [submission, bulk])
def test_without_the_lock_two_meet_at_the_constraint_and_one_fails(
    module: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool, lumen, _ = market()
    both = threading.Barrier(2)

    def only_look(tenant: Tenant, key: str) -> int | None:
        both.wait(PATIENCE)
        with scope(tenant):
            return TrainingJob.objects.filter(client_key=key).values_list("pk", flat=True).first()

    monkeypatch.setattr(module, "client_key_take", only_look)
    door = {submission: alone, bulk: in_bulk}[module]
    with ThreadPoolExecutor(max_workers=2) as threads:
        rush = [in_a_thread(threads, door, pool, lumen, "k1") for _ in range(2)]
        errors = [type(each.exception(PATIENCE)) for each in rush]
    assert sorted(error.__name__ for error in errors) == ["IntegrityError", "NoneType"]
    assert issubclass(IntegrityError, next(error for error in errors if error is not type(None)))


@pytest.mark.parametrize("lane", ["batch", "instant"])
@pytest.mark.parametrize("door", [alone, in_bulk, as_array])
def test_a_key_waits_for_its_own_submission_and_for_nobody_elses(door: Door, lane: str) -> None:
    pool, lumen, castor = market()
    with ThreadPoolExecutor(max_workers=3) as threads:
        with transaction.atomic():
            first = alone(pool, lumen, "k1", lane) if door is alone else door(pool, lumen, "k1")
            again = in_a_thread(threads, door, pool, lumen, "k1", *([lane] if door is alone else []))
            waits_for_a_key()
            others = [in_a_thread(threads, door, pool, *who) for who in ((lumen, "k2"), (castor, "k1"))]
            assert [each.result(PATIENCE).repeated for each in others] == [False, False]
            assert not again.done()
        answer = again.result(PATIENCE)
    assert (first.repeated, answer.repeated) == (False, True)


def test_who_waited_for_a_submission_that_came_to_nothing_makes_the_job() -> None:
    class Undo(Exception):
        pass

    pool, lumen, _ = market()
    with ThreadPoolExecutor(max_workers=1) as threads:
        with suppress(Undo), transaction.atomic():
            lost_answer = alone(pool, lumen, "k1")
            again = in_a_thread(threads, alone, pool, lumen, "k1")
            waits_for_a_key()
            raise Undo
        answer = again.result(PATIENCE)
    assert isinstance(answer, Submitted)
    assert not answer.repeated
    assert answer.job.pk != lost_answer.job.pk
    assert jobs_made() == 1


def waits_for_a_key() -> None:
    """Comes back once somebody waits for a lock that a key stands for, whoever has it."""
    ends = time.monotonic() + PATIENCE
    with connection.cursor() as cursor:
        while time.monotonic() < ends:
            cursor.execute("SELECT EXISTS(SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted)")
            if cursor.fetchone()[0]:
                return
    raise AssertionError("nobody waits")
