"""A job pays no more than its highest price for its whole run, whatever the platform loses of it."""

from __future__ import annotations

import pytest
from django.db.models import F, Sum

from scheduling.audit.verification import intervals_verify
from scheduling.models import Award, Budget, Pool, Server, TrainingJob
from scheduling.reasons import reason_sentence
from scheduling.runs.failures import ServerLost, server_lose
from tenants.access import access_of_system
from tenants.models import Tenant
from tenants.scoping import scope, scope_disabled
from tests.database import as_superuser
from tests.scheduling.clocks import advance, moment
from tests.scheduling.live import INSTANT, submitted
from tests.scheduling.markets import MICRO, SPEC, again, make_renting, make_waiting
from tests.tenants.builders import make_person

pytestmark = pytest.mark.django_db

FIVE_SLOTS = {"epochs": 5, "minibatches": 2}  # of four workers: a slot of them costs as much as any other


def paid_for(job: TrainingJob) -> int:
    with scope_disabled("the test looks at what a job paid"):
        return Award.objects.filter(job=job).aggregate(sum=Sum(F("paid") - F("returned")))["sum"] or 0


def awards_of(job: TrainingJob) -> list[Award]:
    with scope_disabled("the test looks at what a job got"):
        return list(Award.objects.filter(job=job).order_by("attempt"))


def lose_its_server(award: Award, slot: float) -> None:
    server = Server.objects.get(pk=award.allocation[0][0])
    lost = server_lose(server=server, by=access_of_system("test"), reason="smoke", at=moment(award.pool, slot))
    assert isinstance(lost, ServerLost)


def lost_after_four_slots(**spec: object) -> tuple[Pool, Tenant, TrainingJob]:
    """Return a job that has paid for four of its five slots when its server is lost."""
    pool, _, renter = make_renting(clock_first=8, clock_cap=8)
    job = make_waiting(pool, renter, **FIVE_SLOTS, **spec)
    advance(pool, 8.5)
    (award,) = awards_of(job)
    assert award.end - award.start == 5
    advance(pool, award.start + 4.1)
    lose_its_server(award, award.start + 4.2)
    return pool, renter, job


def test_job_without_a_limit_is_bought_again_after_a_loss() -> None:
    pool, _, job = lost_after_four_slots()
    assert paid_for(job) == 200_000
    advance(pool, 16.5)
    first, second = awards_of(job)
    assert (first.paid, second.paid, paid_for(job)) == (250_000, 250_000, 450_000)


def test_job_pays_no_more_than_its_highest_price_across_a_loss_and_is_told_why() -> None:
    pool, _, job = lost_after_four_slots(max_price=0.3)
    advance(pool, 16.5)
    assert paid_for(job) == 200_000
    row = again(job)
    assert (row.state, row.reason_code) == ("queued", "over_max_price")
    numbers = row.reason_numbers
    assert (numbers["max_price"], numbers["spent"]) == (0.3, 0.2)
    assert reason_sentence(pool, row.reason_code, numbers) == ("Costs 0.25, and 0.10 of your limit 0.30 are left.")
    assert intervals_verify(pool_ids=[pool.pk]).findings == ()


def test_job_buys_again_what_its_limit_still_allows() -> None:
    pool, _, job = lost_after_four_slots(max_price=0.45)
    advance(pool, 16.5)
    assert (len(awards_of(job)), paid_for(job)) == (2, 450_000)
    assert intervals_verify(pool_ids=[pool.pk]).findings == ()


@pytest.mark.parametrize(("hard", "bought"), [(460_000, True), (440_000, False)])
def test_what_was_paid_before_a_loss_counts_once_toward_a_members_budget(hard: int, bought: bool) -> None:
    pool, renter, job = lost_after_four_slots()
    person = make_person()
    with scope(renter), as_superuser():
        Budget.objects.create(tenant=renter, period="month", member=person, hard_limit=hard)
        TrainingJob.objects.filter(pk=job.pk).update(submitted_by=person)
    advance(pool, 16.5)
    assert paid_for(job) == (450_000 if bought else 200_000)
    assert bought or again(job).reason_code == "over_budget"


def test_what_an_instant_award_cost_before_its_loss_counts_in_the_batch_lane() -> None:
    pool, _, renter = make_renting(clock_first=8, clock_cap=8, instant_policy=INSTANT)
    advance(pool, 8.5)  # from now on home cells are sold at once
    first = submitted(pool, renter, slot=8.6, **(SPEC | FIVE_SLOTS), max_price=1_000.0)
    (award,) = awards_of(first.job)
    advance(pool, award.start + 2.1)
    lose_its_server(award, award.start + 2.2)
    before = paid_for(first.job)
    assert before > 0
    with scope(renter), as_superuser():  # a limit that leaves nothing after that
        TrainingJob.objects.filter(pk=first.job.pk).update(spec=first.job.spec | {"max_price": before / MICRO})
    advance(pool, 24.5)
    row = again(first.job)
    assert (row.lane, row.state, row.reason_code) == ("batch", "queued", "over_max_price")
    assert paid_for(first.job) == before
