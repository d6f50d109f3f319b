"""A live market never gives units of somebody else away: a micro-credit a slot at least, paid, settled and proved."""

from __future__ import annotations

from typing import Any

import pytest

from scheduling.audit.verification import charge_verify
from scheduling.books.read_charge_account import charge_account
from scheduling.market.reads.award_prices import ROUNDED_UP
from scheduling.market.view import frame, specs
from scheduling.models import Award, Pool
from scheduling.quotes.quotes import Quote, job_quote
from tenants.models import Tenant
from tenants.scoping import scope_disabled
from tests.scheduling.builders import make_cells, make_pool, make_server, make_tenant
from tests.scheduling.clocks import advance
from tests.scheduling.elastic_world import all_is_sound, set_prices
from tests.scheduling.live import SPEC, again, fund, member, moment, money, operator_money, publish, submitted
from tests.scheduling.markets import award_of

pytestmark = pytest.mark.django_db

FREE = {"worker": 0.0, "ps": 0.0}
TINY = {"floor": 1e-15, "ceiling": {"worker": 1e-15, "ps": 1e-15}}
POLICIES: dict[str, dict[str, Any]] = {
    "guarantee": {"batch_policy": {"name": "astraea", "mode": "guarantee", "price_floor": FREE}},
    "paper": {"batch_policy": {"name": "astraea", "mode": "paper"}},
    "instant": {"instant_policy": {"name": "oasis", "worker_price": TINY, "ps_price": TINY}},
    "pdors": {"instant_policy": {"name": "pdors", "price": TINY}},
    "elastic": {"batch_policy": {"name": "srtf", "workers": 4}},
}


def world(kind: str, *, cells: bool = True) -> tuple[Pool, Tenant, Tenant]:
    """Eight workers and four parameter servers of the owner, or of the operator, for which nobody asks anything."""
    pool, owner, renter = make_pool(clock_first=2, **POLICIES[kind]), make_tenant("owner"), make_tenant("renter")
    server = make_server(pool, worker=8, ps=4)
    if cells:
        make_cells(server, owner, {"worker": 8, "ps": 4})
    if kind == "elastic":
        set_prices(pool, FREE)
    if kind in ("instant", "pdors"):
        publish(pool, frontier=8)
    fund(renter)
    return pool, owner, renter


def lane_of(kind: str) -> str:
    return "instant" if kind in ("instant", "pdors") else "batch"


def quoted(kind: str, pool: Pool, renter: Tenant, **spec: Any) -> Quote:
    quote = job_quote(pool=pool, name="train", spec=SPEC | spec, lane=lane_of(kind), by=member(renter), at=moment(0.5))
    assert isinstance(quote, Quote)
    return quote


def run(pool: Pool, *slots: int) -> None:
    for slot in slots:
        advance(pool, slot)


@pytest.mark.parametrize("kind", POLICIES)
def test_units_of_another_tenant_cost_a_micro_credit_a_slot_at_least(kind: str) -> None:
    pool, owner, renter = world(kind)
    quote = quoted(kind, pool, renter, epochs=2)
    job = submitted(pool, renter, lane=lane_of(kind), slot=0.5, epochs=2).job
    run(pool, *range(1, 9))
    with scope_disabled("the test looks at what was sold"):
        awards = list(Award.objects.filter(job=job).order_by("start"))
    slots = sum(award.end - award.start for award in awards)
    assert slots >= 1
    assert all(award.paid >= award.end - award.start for award in awards)
    assert quote.terms.price == awards[0].paid
    paid = sum(award.paid for award in awards)
    assert (money(owner)[2], money(renter)) == (paid, (1_000_000_000 - paid, 0, 0))
    all_is_sound(pool)
    with scope_disabled("the test looks at a charge"):
        assert charge_verify(job_id=job.pk).findings == ()


@pytest.mark.parametrize("kind", ["guarantee", "elastic"])
def test_the_page_of_a_charge_says_what_was_rounded_up(kind: str) -> None:
    pool, _, renter = world(kind)
    job = submitted(pool, renter, lane="batch", slot=0.5).job
    run(pool, 1, 2, 3)
    with scope_disabled("the test looks at a charge"):
        account = charge_account(again(job))[0]
    (slot,) = account.slots
    assert slot.factors[-1].label == ROUNDED_UP
    assert (slot.own_part, account.own_part, account.difference) == (0, 0, 0)
    assert sum(factor.amount for factor in slot.factors) * 1_000_000 == pytest.approx(account.paid)


def test_the_operator_may_ask_nothing_for_its_own_units() -> None:
    pool, _, renter = world("elastic", cells=False)
    job = submitted(pool, renter, lane="batch", slot=0.5).job
    run(pool, 1, 2, 3)
    assert award_of(job).paid == 0
    assert (money(renter), operator_money()) == ((1_000_000_000, 0, 0), 0)
    all_is_sound(pool)


@pytest.mark.parametrize("kind", ["guarantee", "instant", "pdors"])
def test_neither_does_dust_that_was_let_in_before_there_was_a_rule(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pool, owner, renter = world(kind)
    dust = {"worker_demand": {"worker": 1e-9}, "ps_demand": {"ps": 1e-9}}
    with monkeypatch.context() as patch:
        patch.setattr(specs, "demands_check", lambda *_: None)
        job = submitted(pool, renter, lane=lane_of(kind), slot=0.5, **dust).job
    run(pool, *range(1, 6))
    award = award_of(job)
    assert award.paid >= award.workers + award.ps
    assert money(owner)[2] == award.paid
    all_is_sound(pool)


def test_the_owner_itself_runs_free_on_its_own_units() -> None:
    pool, owner, _ = world("guarantee")
    job = submitted(pool, owner, lane="batch", slot=0.5).job
    run(pool, 1, 2, 3)
    award = award_of(job)
    assert (award.phase, award.paid) == ("own", 0)
    all_is_sound(pool)


def test_an_interval_of_before_is_decided_again_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its bytes know of no smallest amount."""
    pool, _, renter = world("guarantee")
    frame._shape.cache_clear()
    with monkeypatch.context() as patch:
        patch.setattr(frame, "SMALLEST", 0.0)
        job = submitted(pool, renter, lane="batch", slot=0.5).job
        run(pool, 1, 2, 3)
    frame._shape.cache_clear()
    award = award_of(job)
    assert (award.phase, award.paid, award.charges) == ("shared", 0, [])
    all_is_sound(pool)
