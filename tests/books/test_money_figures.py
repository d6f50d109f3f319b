"""Figures on the pages of money are those of the book, to the micro-credit."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest

from scheduling.books.read_ledger import ledger_rows, ledger_view
from scheduling.books.read_statements import statement_view
from scheduling.cluster.read_cluster import pool_overview
from scheduling.market.reads.intervals import interval_view
from scheduling.market.reads.payments import payments_of_intervals, settled_to
from scheduling.market.reads.period import PeriodMoney
from scheduling.market.reads.share import share_view
from scheduling.models import Interval, Lane, LaneClock
from scheduling.money.credits import credits_withdraw, earned_collect
from scheduling.runs.failures import server_lose
from scheduling.sharing.sharing import Sharing, sharing_change
from tenants.access import access_of_system
from tenants.ledger.amounts import MICRO
from tenants.ledger.movements import MovementFilter
from tenants.models import AuditEntry, Tenant
from tenants.roles import BILLING, OWNER
from tenants.scoping import scope
from tests.books.money_world import SECRET, World, awards_of, busiest, client, read, standing, text
from tests.scheduling.live import enter, make_award, member, money

pytestmark = pytest.mark.django_db


@pytest.fixture(scope="module")
def world(django_db_setup: None, django_db_blocker: Any) -> Iterator[World]:
    with django_db_blocker.unblock(), standing() as money_world:
        yield money_world


ALWAYS = MovementFilter(datetime(2020, 1, 1, tzinfo=UTC), datetime(2040, 1, 1, tzinfo=UTC))


def view(world: World, tenant: Tenant, choice: MovementFilter = ALWAYS, **options):
    with scope(tenant):
        return ledger_view(
            tenant=tenant, pools=[world.pool], choice=choice, at=world.pool.slot_start(world.slot), **options
        )


def statement(tenant: Tenant):
    with scope(tenant):
        return statement_view(tenant=tenant, start=ALWAYS.start, end=ALWAYS.end, at=ALWAYS.end)


def spent_by(tenant: Tenant, until: int) -> int:
    """By the terms of its awards, for the slots before `until`."""
    return sum(
        amount
        for award in awards_of(tenant)
        for slot in award.charges[: max(until - award.start, 0)]
        for _, amount in slot
    )


def earned_by(tenant: Tenant, others: Iterable[Tenant], until: int) -> int:
    return sum(
        amount
        for other in others
        for award in awards_of(other)
        for slot in award.charges[: max(until - award.start, 0)]
        for owner, amount in slot
        if owner == tenant.pk
    )


def test_balances_of_the_ledger_are_those_of_the_book_and_its_rows_add_up_to_them(world: World) -> None:
    for tenant in (world.lumen, world.castor):
        money_view = view(world, tenant)
        assert (money_view.now.available, money_view.now.held, money_view.now.earned) == money(tenant)
        rows = [row for group in money_view.groups for row in group.rows]
        assert sum(row.available for row in rows) == money_view.now.available
        assert sum(row.held for row in rows) == money_view.now.held
        assert sum(row.earned for row in rows) == money_view.now.earned
        assert money_view.opened + money_view.paid_in + money_view.earned - money_view.spent == money_view.closed


def test_spent_and_earned_are_what_the_terms_of_the_awards_say(world: World) -> None:
    until = world.slot
    assert view(world, world.lumen).spent == spent_by(world.lumen, until) > 0
    assert view(world, world.castor).earned == earned_by(world.castor, [world.lumen, world.castor], until) > 0


def test_balance_runs_along_the_rows_from_now_back_to_nothing(world: World) -> None:
    for each in (False, True):
        rows = [row for group in view(world, world.lumen, each=each).groups for row in group.rows]
        assert rows[0].balance == sum(money(world.lumen))
        for newer, older in pairwise(rows):
            assert older.balance == newer.balance - newer.total
        assert rows[-1].balance == rows[-1].total


def test_pages_one_after_the_other_are_the_whole_list(world: World) -> None:
    whole = [row.transaction_id for group in view(world, world.lumen, each=True).groups for row in group.rows]
    below, rows, balances = None, [], []
    while True:
        page = view(world, world.lumen, below=below, each=True, limit=1)
        rows += [row.transaction_id for group in page.groups for row in group.rows]
        balances += [row.balance for group in page.groups for row in group.rows]
        below = page.next
        if below is None:
            break
    assert rows == whole
    assert len(whole) > 3
    assert balances == [row.balance for group in view(world, world.lumen, each=True).groups for row in group.rows]


@pytest.mark.parametrize("account", ["available", "held", "earned"])
def test_one_account_alone_shows_its_own_balance(world: World, account: str) -> None:
    choice = MovementFilter(ALWAYS.start, ALWAYS.end, account=account)
    rows = [row for group in view(world, world.castor, choice).groups for row in group.rows]
    with_entries = [row for row in rows if getattr(row, account)]
    assert with_entries == rows
    if rows:
        assert rows[0].balance == money(world.castor)[("available", "held", "earned").index(account)]


def test_filters_by_kind_and_by_job_show_those_alone_and_no_balance(world: World) -> None:
    job = next(award.job_id for award in awards_of(world.lumen) if award.paid)
    of_job = MovementFilter(ALWAYS.start, ALWAYS.end, subject=f"job:{job}")
    rows = [row for group in view(world, world.lumen, of_job, each=True).groups for row in group.rows]
    assert {row.job_id for row in rows} == {job}
    assert {row.kind for row in rows} == {"hold", "settle"}
    assert {row.balance for row in rows} == {None}
    grants = MovementFilter(ALWAYS.start, ALWAYS.end, kinds=("grant", "top_up"))
    rows = [row for group in view(world, world.lumen, grants).groups for row in group.rows]
    assert [row.available for row in rows] == [1_000 * MICRO]


def test_rows_name_own_jobs_and_never_others(world: World) -> None:
    castor = [row for group in view(world, world.castor).groups for row in group.rows]
    assert any("Earned from" in row.text for row in castor)
    lumen = [row for group in view(world, world.lumen, each=True).groups for row in group.rows]
    assert SECRET not in {row.job_name for row in lumen}
    assert {row.job_name for row in lumen if row.kind == "hold"} == {"train"}


def test_payments_in_are_payments_out_and_equal_the_terms(world: World) -> None:
    spans = [(1, 0, world.slot)]
    with scope(world.castor):
        (sums,) = payments_of_intervals(
            pool=world.pool, spans=spans, tenant_id=world.castor.pk, until=settled_to(world.pool)
        )
    paid = spent_by(world.lumen, world.slot) + spent_by(world.castor, world.slot)
    assert (sums.paid, sums.difference) == (paid, 0)
    assert sums.to_me == earned_by(world.castor, [world.lumen, world.castor], world.slot)
    assert sums.to_me + sums.to_others + sums.to_operator == paid > 0


def test_statement_sums_exactly(world: World) -> None:
    for tenant in (world.lumen, world.castor):
        month = statement(tenant)
        assert (month.difference, month.difference_of_jobs) == (0, 0)
        closing = (month.head.closing.available, month.head.closing.held, month.head.closing.earned)
        assert closing == money(tenant)
        assert month.earned_sum == sum(row.amount for row in month.earned) == money(tenant)[2]
        assert month.spent_sum == sum(row.amount for row in month.spent) == spent_by(tenant, world.slot)
        for row in month.earned:
            assert row.unit_price is not None
            assert abs(row.quantity * row.unit_price - row.amount) <= row.quantity + 1


def test_statement_has_every_job_with_its_charge_or_the_reason_why_not(world: World) -> None:
    month = statement(world.lumen)
    assert month.jobs_rows == 5
    assert all(bool(job.charge) != bool(job.reason) for job in month.jobs)
    free = [job.reason for job in month.jobs if not job.charge]
    assert any("at home" in reason for reason in free)


def test_refund_stands_in_the_statement_with_its_cause_and_changes_no_total(world: World) -> None:
    server = world.pool.servers.order_by("pk")[0]
    charges = [[(world.castor, 60), (None, 40)], [(world.castor, 50), (None, 50)]]
    place = [[server.pk, world.slot, world.slot + 2, 4, 1]]
    enter(make_award(world.pool, world.lumen, start=world.slot, charges=charges, allocation=place))
    at = world.pool.slot_start(world.slot)
    lost = server_lose(server=server, by=access_of_system("test"), reason="fire", at=at)
    assert lost.refunded == 200
    month = statement(world.lumen)
    assert month.back_sum == sum(row.returned for row in month.back) == lost.refunded
    assert {row.cause for row in month.back} == {f"Server {server.name} was lost"}
    assert (month.difference, month.difference_of_jobs) == (0, 0)


def test_what_was_earned_stays_earned_when_it_can_be_spent_and_when_it_is_paid_out(world: World) -> None:
    before = view(world, world.castor)
    at = world.pool.slot_start(world.slot)
    brought = earned_collect(at=at)
    assert brought == before.earned > 0
    operator = access_of_system("test")
    credits_withdraw(tenant=world.castor, amount=5 * MICRO, key="k", by=operator, reason="asked for", at=at)
    money_view = view(world, world.castor)
    assert (money_view.earned, money_view.spent) == (before.earned, before.spent)
    assert money_view.paid_in == before.paid_in - 5 * MICRO
    assert sum(group.earned for group in money_view.groups) == before.earned
    assert statement(world.castor).earned_sum == brought
    assert (statement(world.castor).difference, statement(world.castor).difference_of_jobs) == (0, 0)
    with scope(world.castor):
        then, overview = at + timedelta(seconds=1), pool_overview(world.pool)
        share = share_view(tenant=world.castor, pool=world.pool, at=then, money=True, overview=overview)
    assert share.money is not None
    assert share.money.today == PeriodMoney(earned=brought, spent=before.spent)


def test_statement_as_csv_has_the_same_sums(world: World) -> None:
    browser = client(world.castor, BILLING)
    body = text(read(browser, world.castor, "statements/period/", format="csv"))
    rows = list(csv.DictReader(io.StringIO(body)))
    sums: dict[str, int] = {}
    for row in rows:
        sums[row["part"]] = sums.get(row["part"], 0) + round(float(row["amount"]) * MICRO)
    month = statement(world.castor)
    assert sums["earned"] == month.earned_sum
    assert sums.get("spent", 0) == sums["job"] == month.spent_sum
    assert {row["job"] for row in rows if row["part"] == "earned"} == {""}


def test_ledger_as_csv_is_every_entry_and_sums_to_the_balance(world: World) -> None:
    body = text(
        read(
            client(world.lumen, OWNER),
            world.lumen,
            "ledger/",
            **{"format": "csv", "from": "2020-01-01", "to": "2039-12-31"},
        )
    )
    rows = list(csv.DictReader(io.StringIO(body)))
    with scope(world.lumen):
        assert len(rows) == len(list(ledger_rows(tenant=world.lumen, choice=ALWAYS)))
    assert sum(round(float(row["total"]) * MICRO) for row in rows) == sum(money(world.lumen))


def test_share_counts_each_unit_once_and_earns_what_the_book_says(world: World) -> None:
    for tenant in (world.lumen, world.castor):
        with scope(tenant):
            now = world.pool.slot_start(world.slot) + timedelta(seconds=1)
            share = share_view(tenant=tenant, pool=world.pool, at=now, money=True, overview=pool_overview(world.pool))
        for total in share.units.totals:
            assert total.used + total.lent + total.idle == pytest.approx(total.units)
        for row in share.units.rows:
            assert sum(len(run.squares) for run in row.runs) == row.units
        assert share.money is not None
        assert share.money.today.earned == money(tenant)[2]
        assert share.money.held == money(tenant)[1]
        assert sum(row.to_come for row in share.money.renters) <= sum(award.paid for award in awards_of(world.lumen))


def test_who_keeps_its_units_forgoes_what_they_would_have_brought(world: World) -> None:
    by = member(world.castor, OWNER)
    sharing_change(pool=world.pool, sharing=Sharing(lend="keep"), by=by, at=world.pool.epoch_at)
    with scope(world.castor):
        now = world.pool.slot_start(world.slot) + timedelta(seconds=1)
        share = share_view(tenant=world.castor, pool=world.pool, at=now, money=True, overview=pool_overview(world.pool))
    assert share.money is not None
    assert share.money.forgone.total >= 0
    assert share.policy.lend == "keep"


def test_owner_changes_rent_and_lend_and_billing_may_not(world: World) -> None:
    fields = {"rent": "budget", "lend": "keep", "budget": "12.5", "budget_period": "week", "reserve-worker": "0.25"}
    address = f"/t/{world.lumen.slug}/share/"
    refused = client(world.lumen, BILLING).post(address, fields, secure=True, follow=True)
    assert "not allowed" in refused.content.decode().lower() or not AuditEntry.objects.filter(action="sharing_change")
    assert not AuditEntry.objects.filter(action="sharing_change").exists()
    browser = client(world.lumen, OWNER)
    version = re.search(r'name="version" value="([^"]*)"', browser.get(address, secure=True).content.decode())
    assert version is not None
    assert browser.post(address, fields | {"version": version[1]}, secure=True).status_code == 302
    entry = AuditEntry.objects.get(action="sharing_change")
    assert entry.after["budget"] == 12_500_000
    assert float(entry.after["reserve_price"]["worker"]) == 0.25


def test_error_of_the_policy_stands_at_its_field(world: World) -> None:
    fields = {"rent": "budget", "lend": "lend", "budget": "", "budget_period": "week", "reserve-ps": "-1"}
    answer = client(world.lumen, OWNER).post(f"/t/{world.lumen.slug}/share/", fields, secure=True)
    html = text(answer)
    assert "Renting within a budget needs one" in html
    assert html.count('aria-invalid="true"') == 2
    assert not AuditEntry.objects.filter(action="sharing_change").exists()


def test_interval_shows_own_bids_and_what_it_paid_out(world: World) -> None:
    number = busiest(world.pool).number
    with scope(world.lumen):
        mine = interval_view(tenant=world.lumen, pool=world.pool, number=number, money=True, jobs=True)
    with scope(world.castor):
        theirs = interval_view(tenant=world.castor, pool=world.pool, number=number, money=True, jobs=True)
    assert mine is not None
    assert theirs is not None
    assert mine.paid == busiest(world.pool).paid > 0
    assert {bid.name for bid in mine.bids} == {"train"}
    assert theirs.payments is not None
    assert theirs.earned == theirs.payments.to_me
    assert theirs.payments.difference == 0


def test_verify_button_proves_an_untouched_interval_and_finds_a_touched_one(world: World) -> None:
    browser, number = client(world.lumen, OWNER), busiest(world.pool).number
    address = f"/t/{world.lumen.slug}/intervals/main/{number}/"
    assert "0 differences" in text(browser.post(address, secure=True))
    LaneClock.objects.filter(pool=world.pool, lane=Lane.BATCH).update(head="f" * 64)
    last = f"/t/{world.lumen.slug}/intervals/main/{_last(world)}/"
    assert "the last digest of the chain" in text(browser.post(last, secure=True))


def _last(world: World) -> int:
    return Interval.objects.filter(pool=world.pool).order_by("-number")[0].number
