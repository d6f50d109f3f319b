"""What an elastic pool decides live: as simulated, once whatever breaks or ticks beside it, and provable afterwards."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
from django.core.management import call_command
from django.db import connection, transaction

from scheduling.app.clock import pool_advance
from scheduling.audit.bundle import check
from scheduling.audit.verdicts import _runs_text, verified
from scheduling.audit.verification import intervals_verify
from scheduling.core.scenario import Scenario
from scheduling.core.settlement import micro
from scheduling.core.simulation import simulate
from scheduling.market.decide import plans
from scheduling.market.decide.interval import batch_policy
from scheduling.market.decide.terms import allocation_rows
from scheduling.market.view.frame import pool_frame
from scheduling.market.view.jobs import JobReader
from scheduling.models import AuditKind, AuditRun, Award, Interval, LaneClock, TrainingJob
from tenants.access import Refused
from tenants.ledger.audit import verify
from tenants.scoping import scope_disabled
from tests.ledger.builders import commit_checks, tamper
from tests.patience import PATIENCE
from tests.scheduling.clocks import advance, moment
from tests.scheduling.elastic_world import all_is_sound, make_elastic, make_elastic_job, run, slots_of
from tests.scheduling.live import money
from tests.scheduling.markets import MICRO, again

pytestmark = pytest.mark.django_db


@pytest.mark.one_case
@pytest.mark.parametrize("policy", [{"name": "optimus"}, {"name": "srtf"}])
def test_live_slots_are_those_of_the_simulation(policy: dict[str, str]) -> None:
    pool, owner, renter = make_elastic(policy)
    draw = np.random.default_rng(3)
    for arrival in np.sort(draw.uniform(0, 8, size=9)):
        gang = int(draw.integers(1, 5))
        make_elastic_job(
            pool,
            (owner, renter)[int(draw.integers(2))],
            round(float(arrival), 3),
            slots=int(draw.integers(1, 5)),
            chunks=gang,
            max_workers=gang,
            gradient_mb=float(draw.choice([0.0, 20.0])),
            worker_mbps=1_000.0,
            ps_mbps=4_000.0,
            **({"max_price": 2.5} if draw.random() < 0.4 else {}),
        )
    frame = pool_frame(pool, also={owner.pk, renter.pk})
    reader = JobReader(frame)
    with scope_disabled("the test looks at every job"):
        jobs = tuple(reader.read(row) for row in TrainingJob.objects.order_by("pk"))
    scenario = Scenario(frame.cluster, jobs, 24, {"name": "elastic"})
    outcome = simulate(scenario, {"batch": batch_policy(frame, 0)})
    run(pool, 0, 24)
    booked = [
        (b.job, b.start, b.workers, b.ps, allocation_rows(frame, b.allocation), micro(b.paid))
        for track in outcome.tracks
        for b in track.bookings
    ]
    with scope_disabled("the test looks at everybody's slots"):
        awards = Award.objects.order_by("job", "start")
        live = [(a.job_id, a.start, a.workers, a.ps, a.allocation, a.paid) for a in awards]
        waiting = {job.pk: job.reason_code for job in TrainingJob.objects.filter(state="queued")}
    assert live == booked
    assert len(live) > 12
    reasons = {track.job.number: track.reason.code for track in outcome.tracks if track.reason}
    assert waiting == reasons
    all_is_sound(pool)


def test_a_crash_between_decision_and_its_end_leaves_nothing_and_the_next_tick_does_it_once() -> None:
    pool, _, renter = make_elastic()
    job = make_elastic_job(pool, renter)

    class Died(BaseException):
        pass

    for broken in ("jobs_award", "holds_of"):
        with patch.object(plans, broken, side_effect=Died), pytest.raises(Died):
            advance(pool, 0)
        assert slots_of(job) == []
        assert (again(job).state, money(renter)[:2]) == ("queued", (1_000 * MICRO, 0))
        assert not Interval.objects.exists()
    run(pool, 0, 3)
    assert [award.start for award in slots_of(job)] == [0, 1, 2]
    assert money(renter)[:2] == (991 * MICRO, 0)
    all_is_sound(pool)


@pytest.mark.django_db(transaction=True)
def test_two_workers_that_tick_at_once_decide_and_charge_once() -> None:
    pool, _, renter = make_elastic()
    job = make_elastic_job(pool, renter, slots=4)

    def tick(slot: int) -> Callable[[], None]:
        def body() -> None:
            try:
                pool_advance(pool_id=pool.pk, at=moment(pool, slot))
            finally:
                connection.close()

        return body

    for slot in range(5):
        threads = [threading.Thread(target=tick(slot)) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=PATIENCE)
            assert not thread.is_alive()
        advance(pool, slot)  # whoever was busy is followed by another tick
    assert [award.start for award in slots_of(job)] == [0, 1, 2, 3]
    assert money(renter)[:2] == (988 * MICRO, 0)
    assert LaneClock.objects.get(pool=pool, lane="batch").settled_slot == 3
    assert verify_book()


def verify_book() -> bool:
    with scope_disabled("the audit reads everybody's entries"):
        return verify().is_clean


def test_a_slot_whose_row_was_changed_is_found() -> None:
    pool, _, renter = make_elastic()
    job = make_elastic_job(pool, renter)
    run(pool, 0, 3)
    commit_checks()
    second = slots_of(job)[1].pk
    for change in ("work_left = 15", "paid_before = 1", "paid = 1", "workers = 3"):
        with transaction.atomic():
            tamper(f"UPDATE scheduling_award SET {change} WHERE id = %s", [second])  # noqa: S608
            flaws = intervals_verify(pool_ids=[pool.pk]).findings
            transaction.set_rollback(True)
        assert change.split()[0] in " ".join(map(str, flaws))


def test_a_bundle_of_an_elastic_pool_agrees_with_itself(tmp_path: Path) -> None:
    pool, _, renter = make_elastic()
    make_elastic_job(pool, renter)
    run(pool, 0, 4)
    commit_checks()
    span = {"start": moment(pool, 0) - timedelta(days=1), "end": moment(pool, 0) + timedelta(days=1)}
    call_command("audit_bundle", pool=pool.slug, out=tmp_path / "b.zip", stdout=io.StringIO(), **span)
    assert check.check(tmp_path / "b.zip") == []


def test_a_verified_charge_names_intervals_that_follow_each_other_as_one_span() -> None:
    """A job of some hours has some thousand of them."""
    pool, _, renter = make_elastic()
    job = make_elastic_job(pool, renter, slots=3)
    run(pool, 0, 3)
    verdict = verified(AuditRun(kind=AuditKind.CHARGE, number=job.pk))
    assert not isinstance(verdict, Refused)
    assert "3 awards" in verdict.sentence
    assert "intervals 1 to 3 decided again" in verdict.sentence
    assert [_runs_text(numbers) for numbers in ([7], [7, 8], [1, 3, 4, 5, 9])] == ["7", "7 to 8", "1, 3 to 5, 9"]
