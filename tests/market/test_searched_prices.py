"""A pool that searches its price and pays owners a dividend: what is booked is what the plan says, and it is proved."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from scheduling.audit.verification import intervals_verify
from scheduling.books.read_charge_account import charge_account
from scheduling.books.read_statements import statement_view
from scheduling.core.policies.astraea.renting.offers import KAPPAS
from scheduling.jobs.read_page import job_page
from scheduling.market.reads.intervals import interval_view
from scheduling.market.view.policy import fixed_settings, unusable
from scheduling.models import AlonePlan, Award, Interval, Pool, TenantPolicy
from scheduling.quotes.pages.submit_form import worth_help
from tenants.ledger.audit import verify
from tenants.ledger.postings import earned
from tenants.ledger.selectors import balances
from tenants.models import Tenant
from tenants.scoping import scope, scope_disabled
from tests.database import as_superuser
from tests.scheduling.builders import make_cells, make_pool, make_server, make_tenant
from tests.scheduling.clocks import advance, moment
from tests.scheduling.markets import MICRO, give, make_waiting

pytestmark = pytest.mark.django_db

BOTH = {"price": "searched", "dividend": 0.5, "price_floor": 0.1, "unit_value": {"worker": 5.0, "ps": 5.0}}


def market(**fields: Any) -> tuple[Pool, Tenant, Tenant]:
    """One owner who lends all it has, and a tenant without cells whose three jobs rent."""
    pool = make_pool(batch_policy={"name": "astraea", "mode": "guarantee", **fields}, clock_first=2)
    owner, renter = make_tenant("owner"), make_tenant("renter")
    make_cells(make_server(pool, "s1", worker=4, ps=2), owner, {"worker": 4, "ps": 2})
    give(renter, 1_000)
    with scope(renter):
        TenantPolicy.objects.create(pool=pool, plan=AlonePlan.RENEW)
    for worth in (60.0, 90.0, 120.0):
        make_waiting(pool, renter, value={"kind": "linear", "slope": -1.0, "base": worth})
    return pool, owner, renter


def rents(pool: Pool) -> list[Award]:
    with scope_disabled("the test looks at every award"):
        return list(
            Award.objects.filter(pool=pool, paid__gt=0).select_related("job__pool", "job__tenant").order_by("pk")
        )


def test_price_and_share_of_the_gain_are_told_apart_and_all_is_proved() -> None:
    pool, _, renter = market(**BOTH)
    assert unusable(pool, ["worker", "ps"]) is None
    advance(pool, 12.5)
    awards = rents(pool)
    assert awards
    assert all(0 < award.dividend < award.paid for award in awards)
    with scope_disabled("the test verifies everything"):
        assert intervals_verify(pool_ids=[pool.pk]).findings == ()
    assert verify().is_clean
    award = awards[0]
    with scope(renter):
        page = job_page(award.job, at=moment(pool, 12.5), money=True)
        (account,) = charge_account(award.job)
        number = Interval.objects.get(pk=award.interval_id).number
        view = interval_view(tenant=renter, pool=pool, number=number, money=True, jobs=True)
    assert page.in_market is not None
    assert page.in_market.dividend == award.dividend
    assert account.has_factors  # units x price
    assert abs(account.own_part) <= 1
    assert sum(slot.paid for slot in account.slots) == award.paid
    assert view is not None
    assert [each.kappa for each in view.tries] == list(KAPPAS)
    (posted,) = [each for each in view.tries if each.posted]
    assert posted.score == max(each.score for each in view.tries)


def test_verification_names_a_dividend_that_was_changed() -> None:
    pool, _, _ = market(**BOTH)
    advance(pool, 4.5)
    award = rents(pool)[0]
    with as_superuser(), scope_disabled("somebody changes a row"):
        Award.objects.filter(pk=award.pk).update(dividend=award.dividend - MICRO // 10)
        flaws = intervals_verify(pool_ids=[pool.pk]).findings
    assert [each.where for each in flaws] == [f"award {award.pk} of job {award.job_id}"]


def test_owners_are_paid_slot_by_slot_by_a_renter_that_has_nothing_alone() -> None:
    """Its plans are made anew, it has no cells, and one job keeps some worth: there is nothing to wait for."""
    pool, owner, renter = market()
    make_waiting(pool, renter, value={"kind": "convex", "scale": 10_000.0, "power": 0.6})
    advance(pool, 40.5)
    awards = rents(pool)
    assert len(awards) == 4
    assert {award.rent for award in awards} == {""}
    with scope_disabled("the test looks at an owner's book"):
        earnings = balances(accounts=[earned(owner.pk)])[earned(owner.pk)]
    assert earnings == sum(award.paid for award in awards) > 0


def test_a_pool_that_says_nothing_posts_its_prices_and_pays_no_dividend() -> None:
    pool, _, _ = market()
    advance(pool, 12.5)
    assert rents(pool)
    assert not any(award.dividend for award in rents(pool))


def test_that_the_truth_is_best_is_said_only_where_it_is_true() -> None:
    assert "the truth is best" in worth_help({"name": "astraea", "mode": "guarantee"})
    for policy in ({"price": "searched"}, {"dividend": 0.25}, BOTH):
        assert "the truth is best" not in worth_help(policy)
        assert "saying less than the truth may pay" in worth_help(policy)


def test_usual_value_follows_the_jobs_of_late_where_nothing_else_is_written() -> None:
    policy = {"name": "astraea", "price": "searched", "theta": {"worker": 3.0}}
    pool = Pool(name="main", batch_policy=policy, clock_first=1, clock_cap=8)
    assert "trailing" in fixed_settings(pool, ["worker", "ps"])


def test_a_statement_tells_price_and_share_of_the_gain_apart_and_its_parts_add_up() -> None:
    pool, _, renter = market(**BOTH)
    advance(pool, 12.5)
    awards = rents(pool)
    first, last = pool.slot_start(0), pool.slot_start(13)
    middle = pool.slot_start(min(award.start for award in awards) + 1)
    edge = middle + timedelta(seconds=1)
    with scope(renter):
        whole, early, late = (
            statement_view(tenant=renter, start=begin, end=end, at=last)
            for begin, end in ((first, last), (first, edge), (edge, last))
        )
    assert whole.spent_gain == sum(award.dividend for award in awards)
    assert whole.spent_price == sum(award.paid - award.dividend for award in awards)
    assert early.spent_sum > 0
    assert late.spent_sum > 0
    assert early.spent_gain + late.spent_gain == whole.spent_gain
    assert early.spent_price + late.spent_price == whole.spent_price
    assert 0 < early.spent_gain < early.spent_sum
