"""Verifying everything goes on in pieces, shows how far it is, and is taken up again where it was left."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from django.db import OperationalError

from scheduling.models import Interval, VerificationRun
from scheduling.services.fairness import fairness_catch_up
from scheduling.services.verification import (
    VerificationSeen,
    pieces,
    verification_round,
    verify_cancel,
    verify_newest,
    verify_read,
    verify_start,
    walk,
)
from tenants.access import Access, Refused
from tenants.roles import AUDITOR, OWNER
from tests.ledger.builders import commit_checks, tamper
from tests.scheduling.builders import NOON, make_server
from tests.scheduling.live import make_live_pool, settle, submitted
from tests.scheduling.markets import give, make_tenant, run_slots
from tests.scheduling.test_verification import deciding, make_history

pytestmark = pytest.mark.django_db
AUDIT = Access(user=None, tenant=None, roles=frozenset({AUDITOR}))
MEMBER = Access(user=None, tenant=None, roles=frozenset({OWNER}))


class Clock:
    """Moves on by so many seconds whenever it is looked at."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.now, self.step = NOON, timedelta(seconds=seconds)

    def __call__(self) -> datetime:
        self.now += self.step
        return self.now


def started(pool, **options) -> VerificationSeen:
    answer = verify_start(pool_id=pool.pk, by=AUDIT, at=NOON, **options)
    assert isinstance(answer, VerificationSeen), answer
    return answer


def read(run: VerificationSeen) -> VerificationSeen:
    answer = verify_read(run_id=run.id, by=AUDIT, at=NOON)
    assert isinstance(answer, VerificationSeen), answer
    return answer


def test_finds_nothing_where_nothing_was_touched_and_counts_all_of_it() -> None:
    pool, _ = make_history()
    fairness_catch_up()
    commit_checks()
    run = started(pool)
    assert (run.state, run.done, run.of) == ("waiting", 0, Interval.objects.count() + 1)
    assert verification_round(clock=Clock()) > 0
    run = read(run)
    assert (run.state, run.done, run.awards, run.differences, run.is_clean) == ("done", run.of, 3, 0, True)
    assert run.findings == ()
    assert run.head == Interval.objects.order_by("-number")[0].digest
    assert run.ended_at is not None
    assert verification_round(clock=Clock()) == 0  # nothing is left to be done


def test_goes_on_from_its_last_piece_and_shows_how_far_it_is(monkeypatch) -> None:
    pool, _ = make_history()
    run = started(pool)
    monkeypatch.setattr(walk.walk_on, "__kwdefaults__", {**walk.walk_on.__kwdefaults__, "most": 2})
    seen = [run.done]
    while read(run).is_open:
        assert verification_round(clock=Clock(4.0)) == 1  # its time is over after one piece
        assert len(seen) < 50
        seen.append(read(run).done)
    steps = list(range(0, run.of - 1, 2))
    assert seen[: len(steps)] == steps
    assert sorted(seen) == seen
    assert read(run).is_clean


def test_a_piece_that_was_lost_with_its_process_is_done_again(monkeypatch) -> None:
    pool, _ = make_history()
    run = started(pool)

    def die(*_: object, **__: object) -> bool:
        raise OperationalError("the server went away")

    with monkeypatch.context() as broken:
        broken.setattr(pieces, "walk_on", die)
        with pytest.raises(OperationalError):
            verification_round(clock=Clock())
    assert (read(run).state, read(run).done) == ("waiting", 0)
    verification_round(clock=Clock())
    assert read(run).is_clean


def test_the_same_piece_done_twice_is_kept_once() -> None:
    pool, _ = make_history()
    run = started(pool)
    stale = VerificationRun.objects.get()
    assert pieces.verification_piece(VerificationRun.objects.get(), clock=Clock())
    before = read(run)
    assert not pieces.verification_piece(stale, clock=Clock())
    assert read(run) == before


def test_names_what_differs_and_goes_on_to_the_end() -> None:
    pool, _ = make_history()
    interval = deciding(pool)
    tamper("UPDATE scheduling_interval SET paid = paid + 1 WHERE id = %s", [interval.pk])
    run = started(pool)
    verification_round(clock=Clock())
    run = read(run)
    assert (run.state, run.differences, run.is_clean) == ("done", 1, False)
    assert run.findings[0].where == f"interval {interval.number} of pool {pool.pk}"
    assert run.findings[0].what.startswith("what its awards pay is")


def test_looks_at_awards_that_were_made_at_once_and_at_the_whole_ledger() -> None:
    pool = make_live_pool()
    make_server(pool)
    tenant = make_tenant("lumen")
    give(tenant, 1_000)
    award = submitted(pool, tenant).award
    assert award is not None
    assert award.paid
    run_slots(pool, 0, 0)
    settle(pool, *range(award.end))
    commit_checks()
    clean = started(pool)
    verification_round(clock=Clock())
    assert (read(clean).is_clean, read(clean).awards) == (True, 1), read(clean)
    tamper("UPDATE ledger_entry SET amount = amount + 1 WHERE account_id = %s AND amount > 0", [tenant.pk * 8])
    tamper("UPDATE scheduling_award SET paid = paid + 1 WHERE id = %s", [award.pk])
    run = started(pool)
    verification_round(clock=Clock())
    told = [str(finding) for finding in read(run).findings]
    assert any(f"award {award.pk} of job {award.job_id}: the sum of its charges is" in one for one in told), told
    assert any(one.startswith("ledger, transaction") for one in told), told


def test_one_at_a_time_for_each_pool_and_only_for_those_who_may() -> None:
    pool, _ = make_history()
    run = started(pool)
    answers = {
        "verification_under_way": verify_start(pool_id=pool.pk, by=AUDIT, at=NOON),
        "unknown_pool": verify_start(pool_id=0, by=AUDIT, at=NOON),
        "unknown_interval": verify_start(pool_id=pool.pk, by=AUDIT, at=NOON, first=999),
        "unknown_verification": verify_read(run_id=0, by=AUDIT, at=NOON),
    }
    for answer in (
        verify_start(pool_id=pool.pk, by=MEMBER, at=NOON),
        verify_read(run_id=run.id, by=MEMBER, at=NOON),
        verify_newest(pool_id=pool.pk, by=MEMBER),
        verify_cancel(run_id=run.id, by=MEMBER, at=NOON),
    ):
        assert isinstance(answer, Refused)
        assert answer.code == "not_allowed"
    assert [answer.code for answer in answers.values() if isinstance(answer, Refused)] == list(answers)
    assert verify_newest(pool_id=pool.pk, by=AUDIT) == run


def test_a_cancelled_run_stays_cancelled_whoever_was_at_it() -> None:
    pool, _ = make_history()
    run = started(pool)
    at_it = VerificationRun.objects.get()
    cancelled = verify_cancel(run_id=run.id, by=AUDIT, at=NOON)
    assert isinstance(cancelled, VerificationSeen)
    assert (cancelled.state, cancelled.ended_at) == ("cancelled", NOON)
    assert not pieces.verification_piece(at_it, clock=Clock())
    assert read(run).state == "cancelled"
    again = verify_cancel(run_id=run.id, by=AUDIT, at=NOON)
    assert isinstance(again, Refused)
    assert again.code == "verification_over"
    assert started(pool).id != run.id


def test_a_run_from_the_middle_takes_what_is_before_on_trust() -> None:
    pool, _ = make_history()
    run = started(pool, first=3)
    assert run.of == Interval.objects.count() - 2 + 1
    verification_round(clock=Clock())
    assert read(run).is_clean
