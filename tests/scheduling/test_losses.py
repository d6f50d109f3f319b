"""A job that the platform loses again and again: it rests longer each time, and is given up in the end."""

from __future__ import annotations

import pytest

from scheduling.models import LaneClock
from scheduling.selectors.explain import reason_sentence
from scheduling.services.failures import AwardFailed, after_losses, award_fail
from scheduling.services.refunds import Next
from scheduling.snapshots.batch import batch_view, glance
from tenants.scoping import scope_disabled
from tests.scheduling.clocks import advance
from tests.scheduling.live import again, events, money
from tests.scheduling.test_outages import at, market, money_is_right

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("losses", "following"),
    [
        (0, Next()),
        (1, Next()),
        (2, Next(not_before=12)),
        (4, Next(not_before=18)),
        (5, Next(given_up=True)),
        (9, Next(given_up=True)),
    ],
)
def test_a_job_rests_longer_after_each_loss_and_is_given_up_in_the_end(losses: int, following: Next) -> None:
    assert after_losses(losses, 10) == following


def test_a_job_that_rests_keeps_its_arrival_and_is_not_looked_at_before_its_slot() -> None:
    pool, _, _, award = market()
    advance(pool, 2.2)
    failed = award_fail(award_id=award.pk, slot=2, detail="out of disk", at=at(2.5), losses=2)
    assert isinstance(failed, AwardFailed)
    assert failed.waits
    job = again(award.job)
    assert (job.state, job.reason_code, job.arrival, job.not_before) == ("queued", "engine_error", 0.0, 4)
    assert job.reason_numbers == {"detail": "out of disk", "refunded": 40, "losses": 2, "next_slot": 4}
    with scope_disabled("the test asks what the lane sees"):
        clock = LaneClock.objects.get(pool=pool, lane="batch")
        assert [list(batch_view(pool, slot, clock, at(slot)).waiting) for slot in (3, 4)] == [[], [job.pk]]
        assert [list(glance(pool, slot, clock).waiting) for slot in (3, 4)] == [[], [job.pk]]
    assert money_is_right(pool)


def test_a_job_that_is_given_up_has_failed_with_its_refund_and_waits_no_more() -> None:
    pool, lumen, castor, award = market()
    advance(pool, 2.2)
    failed = award_fail(award_id=award.pk, slot=2, detail="out of disk", at=at(2.5), losses=5)
    assert isinstance(failed, AwardFailed)
    assert (failed.refunded, failed.waits) == (40, False)
    job = again(award.job)
    assert (job.state, job.reason_code, job.ended_at) == ("failed", "given_up", at(2.5))
    assert job.reason_numbers == {"detail": "out of disk", "refunded": 40, "losses": 5}
    assert (money(lumen), money(castor)) == ((1_000_000_000 - 20, 0, 0), (0, 0, 20))
    assert [told.data["reason"] for told in events("job_failed")] == ["given_up"]
    assert events("job_requeued") == []
    assert "5 times in a row" in reason_sentence(pool, job.reason_code, job.reason_numbers)
    advance(pool, 9)
    assert again(award.job).state == "failed"
    assert money_is_right(pool)
