"""Verifying everything goes on in pieces, shows how far it is, and is taken up again where it was left."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import OperationalError

from scheduling.audit.requests import audit_cancel, audit_progress, verify_start
from scheduling.audit.rounds import audits_next, verification_round
from scheduling.audit.verification import pieces
from scheduling.fairness.intervals import fairness_catch_up
from scheduling.models import AuditKind, AuditRun, AuditState, Interval, VerificationRun
from tenants import history
from tenants.access import Refused
from tenants.common.guards import Flaw
from tenants.ledger.checks import SHEET_PARTS
from tests.audit.auditors import AUDIT, MEMBER, Clock, everything_asked, everything_begun, work_off
from tests.audit.test_verification import deciding, make_history
from tests.ledger.builders import commit_checks, tamper
from tests.scheduling.builders import NOON, make_pool, make_server, tell_history
from tests.scheduling.live import make_live_pool, settle, submitted
from tests.scheduling.markets import give, make_tenant, run_slots

pytestmark = pytest.mark.django_db


def read(run: AuditRun) -> AuditRun:
    run.refresh_from_db()
    return run


def steps_done(run: AuditRun) -> int:
    progress = audit_progress(read(run))
    assert progress is not None
    return progress.done


def findings(run: AuditRun) -> list[str]:
    return [f"{one['where']}: {one['what']}" for one in read(run).result["findings"]]


def walk_of_pool() -> VerificationRun:
    return VerificationRun.objects.exclude(pool=None).order_by("-pk")[0]


def test_finds_nothing_where_nothing_was_touched_and_counts_all_of_it() -> None:
    pool, _ = make_history()
    fairness_catch_up()
    commit_checks()
    run = everything_begun()
    progress = audit_progress(run)
    # Intervals, three jobs, the end of the chains, one day; looks at a short ledger with its rules, seals and day
    # sheets, the history, the rules of the market, and what was set.
    assert progress is not None
    assert (progress.done, progress.total) == (0, Interval.objects.count() + 3 + 2 + 15 + 4 + SHEET_PARTS)
    assert verification_round(clock=Clock()) > 0
    assert (read(run).state, run.is_clean, run.result["count"], run.result["findings"]) == ("done", True, 0, [])
    assert run.result["heads"] == {pool.slug: Interval.objects.order_by("-number")[0].digest}
    assert run.sentence.startswith(f"{Interval.objects.count()} intervals decided again")
    assert ", 3 awards, " in run.sentence
    assert run.ended_at is not None
    assert verification_round(clock=Clock()) == 0  # nothing is left to be done


def test_goes_on_from_its_last_piece_and_shows_how_far_it_is() -> None:
    make_history()
    run = everything_begun()
    progress = [0]
    while read(run).state == AuditState.RUNNING:
        assert verification_round(clock=Clock(6.0)) == 1  # a piece is over after one step, and the round with it
        assert len(progress) < 50
        progress += [steps_done(run)] if read(run).state == AuditState.RUNNING else []
    steps = list(range(Interval.objects.count()))
    assert progress[: len(steps)] == steps
    assert sorted(progress) == progress
    assert run.is_clean


def test_a_piece_that_was_lost_with_its_process_is_done_again(monkeypatch: pytest.MonkeyPatch) -> None:
    make_history()
    run = everything_begun()

    def die(*_: object, **__: object) -> bool:
        raise OperationalError("the server went away")

    with monkeypatch.context() as broken:
        broken.setattr(pieces, "walk_on", die)
        with pytest.raises(OperationalError):
            verification_round(clock=Clock())
    assert steps_done(run) == 0
    work_off(Clock())
    assert read(run).is_clean


def test_a_piece_over_which_processes_end_is_not_tried_for_ever() -> None:
    make_history()
    run = everything_begun()
    VerificationRun.objects.filter(pk=walk_of_pool().pk).update(tries=pieces.MOST_TRIES)
    work_off(Clock())
    assert (read(run).state, run.is_clean) == ("failed", None)
    assert "it broke off in intervals after 0 (5 processes ended over what comes next)" in run.sentence


def test_the_same_piece_done_twice_is_kept_once() -> None:
    make_history()
    everything_begun()
    stale = walk_of_pool()
    assert pieces.verification_piece(walk_of_pool(), clock=Clock())
    before = VerificationRun.objects.filter(pk=stale.pk).values().get()
    assert not pieces.verification_piece(stale, clock=Clock())
    assert VerificationRun.objects.filter(pk=stale.pk).values().get() | {"tries": 0} == before


def test_names_what_differs_and_goes_on_to_the_end() -> None:
    pool, _ = make_history()
    interval = deciding(pool)
    tamper("UPDATE scheduling_interval SET paid = paid + 1 WHERE id = %s", [interval.pk])
    run = everything_asked(pool)
    work_off(Clock())
    assert (read(run).state, run.result["count"], run.is_clean) == ("done", 1, False)
    (finding,) = findings(run)
    assert finding.startswith(f"interval {interval.number} of pool {pool.pk}: what its awards pay is")


def test_looks_at_awards_that_were_made_at_once_and_at_the_whole_ledger() -> None:
    pool = make_live_pool()
    make_server(pool)
    tenant = make_tenant("lumen")
    give(tenant, 1_000)
    award = submitted(pool, tenant).award
    assert award is not None
    assert award.paid
    tell_history(pool)
    run_slots(pool, 0, 0)
    settle(pool, *range(award.end))
    commit_checks()
    clean = everything_asked()
    work_off(Clock())
    assert read(clean).is_clean
    assert ", 1 award, " in clean.sentence
    tamper("UPDATE ledger_entry SET amount = amount + 1 WHERE account_id = %s AND amount > 0", [tenant.pk * 8])
    tamper("UPDATE scheduling_award SET paid = paid + 1 WHERE id = %s", [award.pk])
    run = everything_asked()
    work_off(Clock())
    flaws = findings(run)
    assert any(f"award {award.pk} of job {award.job_id}: the sum of its charges is" in one for one in flaws), flaws
    assert any(one.startswith("ledger, transaction") for one in flaws), flaws


def test_looks_at_the_history_of_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    make_history()
    monkeypatch.setattr(history, "verify", lambda: history.Broken((Flaw("entry 7", "the entry is missing"),)))
    run = everything_asked()
    work_off(Clock())
    assert findings(run) == ["the history: entry 7: the entry is missing"]


def test_a_second_request_waits_for_the_first_and_then_looks_again() -> None:
    pool, _ = make_history()
    first, second = everything_begun(pool), everything_asked()
    assert audits_next(clock=Clock()) == 0
    assert read(second).state == AuditState.QUEUED
    work_off(Clock())
    assert (read(first).is_clean, read(second).is_clean) == (True, True)
    assert second.verifications.count() == 2


def test_each_pool_has_a_walk_and_the_book_is_looked_at_once() -> None:
    pool, _ = make_history()
    empty = make_pool("empty")
    tell_history(empty)
    run = everything_begun()
    assert list(run.verifications.order_by("pk").values_list("pool", flat=True)) == [pool.pk, empty.pk, None]
    work_off(Clock())
    assert read(run).is_clean
    assert set(run.result["heads"]) == {pool.slug, empty.slug}


def test_whatever_else_is_asked_for_has_its_turn_after_the_piece() -> None:
    _, jobs = make_history()
    run = everything_begun()
    request: dict[str, Any] = {"kind": AuditKind.CHARGE, "pool": None, "number": jobs[0].pk, "by": AUDIT, "at": NOON}
    charge = verify_start(**request)
    assert isinstance(charge, AuditRun)
    assert verification_round(clock=Clock()) == 0  # not even a first piece
    assert audits_next(clock=Clock()) == 1
    assert (read(charge).state, read(run).state) == ("done", "running")
    assert verification_round(clock=Clock()) > 0


def test_a_cancelled_run_stays_cancelled_whoever_was_at_it() -> None:
    make_history()
    run = everything_begun()
    at_it = walk_of_pool()
    refused = audit_cancel(run_id=run.pk, by=MEMBER, at=NOON)
    assert isinstance(refused, Refused)
    assert refused.code == "not_allowed"
    cancelled = audit_cancel(run_id=run.pk, by=AUDIT, at=NOON)
    assert isinstance(cancelled, AuditRun)
    assert (cancelled.state, cancelled.ended_at, cancelled.is_clean) == ("cancelled", NOON, None)
    assert not pieces.verification_piece(at_it, clock=Clock())
    work_off(Clock())
    assert (read(run).state, run.result) == ("cancelled", {})
    again = audit_cancel(run_id=run.pk, by=AUDIT, at=NOON)
    assert isinstance(again, Refused)
    assert again.code == "audit_over"
    another = everything_asked()
    work_off(Clock())
    assert read(another).is_clean


def test_what_is_worked_on_at_one_go_cannot_be_called_off() -> None:
    make_pool("main")
    run = AuditRun.objects.create(kind=AuditKind.BUNDLE, state=AuditState.RUNNING, asked_at=NOON)
    refused = audit_cancel(run_id=run.pk, by=AUDIT, at=NOON)
    assert isinstance(refused, Refused)
    assert refused.code == "audit_under_way"
