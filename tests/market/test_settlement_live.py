"""At the end of a slot its cost is paid to the owners, once and exactly, and awards begin and end."""

from __future__ import annotations

import pytest
from django.db import IntegrityError

from scheduling.market.settle.slots import HeldTooLittle, slot_settle
from scheduling.models import Award, AwardState, Lane, LaneClock, StartEstimate
from tenants.ledger.models import Transaction
from tenants.ledger.services import release
from tenants.scoping import scope, scope_disabled
from tests.database import as_superuser
from tests.scheduling.builders import NOON, make_pool, make_tenant
from tests.scheduling.live import again, book_is_sound, events, fund, make_award, moment, money, operator_money, settle

pytestmark = pytest.mark.django_db


def market():
    """Lumen rents of castor and the operator: ten micro-credits in slot 0, seven in slot 1."""
    pool, lumen, castor = make_pool(), make_tenant("lumen"), make_tenant("castor")
    fund(lumen, 1)
    award = make_award(pool, lumen, charges=[[(castor, 7), (None, 3)], [(castor, 7)]])
    return pool, lumen, castor, award


def test_pays_each_owner_what_the_award_says_slot_by_slot() -> None:
    pool, lumen, castor, _ = market()
    (first,) = settle(pool, 0)
    assert (first.paid, first.owners, first.operator) == (10, 7, 3)
    assert (money(lumen), money(castor), operator_money()) == ((999_983, 7, 0), (0, 0, 7), 3)
    settle(pool, 1)
    assert (money(lumen), money(castor), operator_money()) == ((999_983, 0, 0), (0, 0, 14), 3)
    assert book_is_sound()


def test_settles_a_slot_once_however_often_it_is_asked() -> None:
    pool, lumen, _, _ = market()
    settle(pool, 0)
    assert slot_settle(pool_id=pool.pk, slot=0, at=moment(9)) is None
    assert money(lumen) == (999_983, 7, 0)


def test_settles_no_slot_before_the_one_before_it() -> None:
    pool, lumen, _, _ = market()
    assert slot_settle(pool_id=pool.pk, slot=1, at=moment(2)) is None
    assert money(lumen) == (999_983, 17, 0)


def test_starts_what_begins_at_the_boundary_and_finishes_what_ends_there() -> None:
    pool, lumen, castor, award = market()
    later = make_award(pool, lumen, start=2, slots=1, charges=[[(castor, 1)]])
    settle(pool, 0)
    assert (again(award).state, again(award.job).state) == ("running", "running")  # begun late: at the next boundary
    (second,) = settle(pool, 1)
    assert (second.started, second.ended) == (1, 1)
    assert (again(award).state, again(award.job).state) == ("done", "finished")
    assert again(award.job).ended_at == moment(2)
    assert (again(later).state, again(later.job).state) == ("running", "running")
    settle(pool, 2)
    assert [event.subject for event in events("job_finished")] == [f"job:{award.job_id}", f"job:{later.job_id}"]
    assert [event.data["slot"] for event in events("job_started")] == [0, 2]


def test_an_own_award_runs_and_ends_without_a_posting() -> None:
    pool, lumen = make_pool(), make_tenant("lumen")
    award = make_award(pool, lumen, slots=1, phase="own")
    (settled,) = settle(pool, 0)
    assert (settled.awards, settled.paid) == (0, 0)
    assert again(award.job).state == "finished"
    assert not events("slot_settled")


def test_a_run_that_was_given_up_is_paid_to_its_end_and_its_job_stays_cancelled() -> None:
    pool, lumen, castor, award = market()
    settle(pool, 0)
    with scope(lumen):
        Award.objects.filter(pk=award.pk).update(cut_at=1)
        award.job.state, award.job.reason_code = "cancelled", "cancelled_by"
        award.job.save(update_fields=["state", "reason_code"])
    settle(pool, 1)
    assert money(castor) == (0, 0, 14)
    assert (again(award).state, again(award.job).state) == (AwardState.ENDED, "cancelled")


def test_nothing_of_the_slot_stays_when_its_money_cannot_be_posted() -> None:
    pool, lumen, _, award = market()
    with scope(lumen):
        release(key="stolen", tenant_id=lumen.pk, amount=17, at=NOON)
    with pytest.raises(HeldTooLittle):
        slot_settle(pool_id=pool.pk, slot=0, at=moment(1))
    assert again(award).state == "booked"
    assert not LaneClock.objects.filter(settled_slot=0).exists()


def test_tells_everybody_what_the_slot_brought() -> None:
    pool, *_ = market()
    settle(pool, 0)
    (event,) = events("slot_settled")
    assert event.tenant_id is None
    assert event.data == {"slot": 0, "awards": 1, "paid": 10, "owners": 7, "operator": 3}


def test_warns_once_of_a_balance_that_will_not_last_through_the_longest_interval() -> None:
    pool, lumen, castor = make_pool(clock_cap=8), make_tenant("lumen"), make_tenant("castor")
    fund(lumen, 1)
    make_award(pool, lumen, slots=8, charges=[[(castor, 100_000)]] * 8)  # 200,000 stay: two more slots
    settle(pool, 0, 1, 2)
    (notice,) = events("low_balance")
    assert notice.tenant_id == lumen.pk
    assert (notice.data["slots_left"], notice.data["per_slot"]) == (2, 100_000)
    assert notice.data["until"] == moment(3).isoformat()


def test_a_balance_that_lasts_gives_no_warning() -> None:
    pool, lumen, castor = make_pool(clock_cap=8), make_tenant("lumen"), make_tenant("castor")
    fund(lumen, 2)
    make_award(pool, lumen, slots=8, charges=[[(castor, 100_000)]] * 8)
    settle(pool, 0)
    assert not events("low_balance")


def test_what_is_spent_in_all_pools_counts_and_is_told_once() -> None:
    lumen, castor = make_tenant("lumen"), make_tenant("castor")
    pool, slow = make_pool(clock_cap=8), make_pool(slug="slow", clock_cap=8, slot_seconds=20)
    LaneClock.objects.create(pool=slow, lane=Lane.BATCH)  # the market begins there, too
    fund(lumen, 3)
    make_award(pool, lumen, slots=8, charges=[[(castor, 100_000)]] * 8)
    make_award(slow, lumen, slots=6, charges=[[(castor, 200_000)]] * 6)  # 1,000,000 stay: ten slots, or five
    settle(pool, 0)
    (notice,) = events("low_balance")
    assert (notice.data["slots_left"], notice.data["per_slot"]) == (5, 200_000)
    slot_settle(pool_id=slow.pk, slot=0, at=moment(2))
    settle(pool, 1)
    assert len(events("low_balance")) == 1


def test_an_estimate_learns_when_its_job_really_started() -> None:
    pool, lumen, _, award = market()
    with scope(lumen):
        StartEstimate.objects.create(
            tenant=lumen, job=award.job, made_at=NOON, earliest=0, latest=3, price_low=0, price_high=9
        )
    settle(pool, 0)
    with scope_disabled("the test looks at an estimate"):
        estimate, award = StartEstimate.objects.get(), Award.objects.get()
        assert (estimate.started, estimate.paid) == (0, award.paid)


OTHER_TERMS = {"paid": 1, "owners": [], "amounts": b"", "lists": [], "start": -1, "allocation": [[1]]}
OTHER_TERMS |= {"on_operator": [[1]], "lane": "instant"}


@pytest.mark.parametrize("column", OTHER_TERMS)
def test_the_terms_of_an_award_cannot_be_changed(column: str) -> None:
    *_, award = market()
    with scope_disabled("the test tampers"), pytest.raises(IntegrityError, match="fixed"), as_superuser():
        Award.objects.filter(pk=award.pk).update(**{column: OTHER_TERMS[column]})


def test_a_slot_whose_awards_fill_several_batches_is_the_same_slot(monkeypatch: pytest.MonkeyPatch) -> None:
    def settled(slug: str) -> list[object]:
        pool, lumen, castor = make_pool(slug=slug), make_tenant("lumen"), make_tenant("castor")
        awards = [make_award(pool, lumen, slots=1, charges=[[(castor, 7 + number), (None, 3)]]) for number in range(5)]
        before = money(lumen), money(castor), operator_money()
        (sums,) = settle(pool, 0)
        after = money(lumen), money(castor), operator_money()
        assert [Transaction.objects.filter(key=f"settle:{pool.pk}:0:{award.pk}").count() for award in awards] == [1] * 5
        return [sums, [new - old for new, old in zip([*after[0], *after[1]], [*before[0], *before[1]], strict=True)]]

    fund(make_tenant("lumen"), 1)
    whole = settled("whole")
    monkeypatch.setattr("scheduling.market.settle.slots.BATCH", 2)
    assert settled("cut") == whole
    assert book_is_sound()
