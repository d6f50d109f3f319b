"""What pages, files and programs are shown of the money, against the book: to the micro-credit, of each job and tenant.

What is shown is read as the pages read it. What the book says is added up here, from the entries alone.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from django.db import transaction
from django.template.loader import render_to_string

from scheduling.books import charge_account
from scheduling.books.read_ledger import ledger_view
from scheduling.books.read_statement_rows import statement_rows
from scheduling.books.read_statements import StatementView, statement_view
from scheduling.cluster import pool_overview
from scheduling.jobs.api.fields import JobShown
from scheduling.jobs.cancel_preview import cancel_preview
from scheduling.jobs.cancellation import job_cancel
from scheduling.jobs.read_list import row_view, with_awards
from scheduling.jobs.read_page import JobPage, job_page
from scheduling.jobs.read_rows import job_rows
from scheduling.market.reads.awards import award_rows
from scheduling.market.reads.share import share_view
from scheduling.models import Award, Pool, TrainingJob
from scheduling.models.jobs import LIVE_STATES
from scheduling.money import limits, period_start
from tenants.access import Access
from tenants.ledger.amounts import MICRO
from tenants.ledger.movements import MovementFilter
from tenants.models import Tenant
from tenants.roles import OWNER
from tenants.scoping import scope
from tests.charges import charges_read
from tests.ledger.builders import run

AROUND = timedelta(days=2)  # of a world's moment, in which all of it lies


@dataclass
class Sums:
    """What the book says of some awards. Micro-credits."""

    set_aside: int = 0
    held: int = 0
    settled: int = 0
    owners_part: int = 0  # by the owners, of what was cancelled before its start
    back: int = 0
    to_owners: Counter[int] = field(default_factory=Counter)  # what was settled, by account

    @property
    def net(self) -> int:
        """What it costs its tenant, as far as that is known."""
        return self.set_aside - self.back

    def with_entry(self, kind: str, account: int, amount: int, *, tenant: int) -> None:
        available, held = 8 * tenant, 8 * tenant + 1
        if account == available:
            if kind == "hold":
                self.set_aside -= amount
            else:
                self.back += amount
        elif account == held:
            self.held += amount
        elif kind == "settle":
            self.settled += amount
            self.to_owners[account] += amount
        elif kind == "cancel":
            self.owners_part += amount


_ENTRIES = """
SELECT about.subject, (about.facts ->> 'award')::bigint, about.kind, entry.account_id, entry.amount
  FROM ledger_transaction AS about JOIN ledger_entry AS entry ON entry.transaction_id = about.id
 WHERE about.facts ? 'award' AND (%s::text IS NULL OR about.subject = %s::text)
"""


@dataclass
class Book:
    """By job and by award."""

    jobs: Mapping[int, Sums]
    awards: Mapping[int, Sums]

    def of(self, awards: Sequence[Award]) -> Sums:
        total = Sums()
        for each in (self.awards[award.pk] for award in awards):
            total.set_aside += each.set_aside
            total.held += each.held
            total.settled += each.settled
            total.owners_part += each.owners_part
            total.back += each.back
            total.to_owners.update(each.to_owners)
        return total


def book_read(only: str | None = None) -> Book:
    """Of all jobs, or of one by its subject."""
    tenants = dict(run("SELECT id, tenant_id FROM scheduling_trainingjob"))
    jobs, awards = defaultdict[int, Sums](Sums), defaultdict[int, Sums](Sums)
    for subject, award, kind, account, amount in run(_ENTRIES, [only, only]):
        job = int(subject.removeprefix("job:"))
        for sums in (jobs[job], awards[award]):
            sums.with_entry(kind, account, int(amount), tenant=tenants[job])
    return Book(jobs, awards)


def figures_that_differ(tenants: Sequence[Tenant], pools: Sequence[Pool], at: datetime) -> list[str]:
    """Each figure that is not the book's, in a sentence; nothing where all are."""
    book = book_read()
    wrong: list[str] = []
    for tenant in tenants:
        with scope(tenant):
            jobs = list(TrainingJob.objects.select_related("pool", "tenant", "submitted_by").order_by("pk"))
            wrong += _lists(jobs, book, at)
            for job in jobs:
                wrong += [f"{_name(job)}: {flaw}" for flaw in _job(job, book, at)]
            view = statement_view(tenant=tenant, start=at - AROUND, end=at + AROUND, at=at)
            flaws = [*_statement(tenant, view, book, jobs, pools, at), *_now(tenant, pools, at), *_budgets(tenant, at)]
            wrong += [f"tenant {tenant.slug}: {flaw}" for flaw in flaws]
    return [*wrong, *_feed(pools)]


def _name(job: TrainingJob) -> str:
    return f"job {job.pk} ({job.state}, attempt {job.attempt}, {job.lane} of {job.pool.slug})"


def _differ(what: str, figure: object, of_book: object) -> Iterator[str]:
    if figure != of_book:
        yield f"{what}: shown is {figure}, the book says {of_book}"


def _lists(jobs: Sequence[TrainingJob], book: Book, at: datetime) -> Iterator[str]:
    """The list of jobs on a page, and as programs get it."""
    on_page = {row.pk: row_view(row, at) for row in with_awards(TrainingJob.objects.select_related("pool", "tenant"))}
    for row in job_rows(jobs):
        sums, name = book.jobs[row.job.pk], _name(row.job)
        document = JobShown(row).data
        yield from _differ(f"{name}: its price in the list", on_page[row.job.pk].price or 0, sums.net)
        yield from _differ(f"{name}: its price as programs get it", document["price"] or "0.000000", _text(sums.net))
        yield from _differ(f"{name}: what is held as programs get it", document["hold"], _text(sums.held))


def _text(amount: int) -> str:
    return f"{amount // MICRO}.{amount % MICRO:06}"


def _job(job: TrainingJob, book: Book, at: datetime) -> Iterator[str]:
    awards = list(Award.objects.filter(job=job).order_by("pk"))
    page = job_page(job, at=at, money=True)
    yield from _page(page, awards, book)
    for account in charge_account(job):
        sums, award = book.awards[account.award.pk], account.award.pk
        settled = sum(slot.paid for slot in account.slots if slot.state == "settled")
        held = sum(slot.paid for slot in account.slots if slot.state == "held")
        yield from _differ(f"award {award}, settled by its charge", settled, sums.settled)
        yield from _differ(f"award {award}, held by its charge", held, sums.held)
        yield from _differ(f"award {award}, what its slots miss", account.difference, 0)
    for row in award_rows(awards):
        paid = sum(payee.amount for payee in row.payees)
        yield from _differ(f"award {row.award.pk}, its payees together", paid, book.awards[row.award.pk].set_aside)
    if job.state in LIVE_STATES:
        yield from _cancelled(job, at)


def _page(page: JobPage, awards: Sequence[Award], book: Book) -> Iterator[str]:
    job, whole = page.job, book.jobs[page.job.pk]
    yield from _differ("its price on its page", page.view.price or 0, whole.net)
    pieces = [award for award in awards if award.work is not None]
    earlier = [award for award in awards if award.attempt != job.attempt and award.work is None]
    if page.by_use is not None:
        counted_awards = awards
        yield from _differ("what it has paid by use", page.by_use.paid, whole.net)
    elif page.pieces is not None:
        counted_awards = pieces
        yield from _differ("what its pieces cost together", page.pieces.paid, book.of(pieces).net)
    else:
        counted_awards = [award for award in awards if award.attempt == job.attempt]
    if page.by_use is None:
        attempts = [(each.paid, each.returned) for each in page.attempts]
        in_book = [(book.awards[each.pk].set_aside, book.awards[each.pk].back) for each in earlier]
        yield from _differ("what earlier attempts paid, and what came back", sorted(attempts), sorted(in_book))
    sums, slots = book.of(counted_awards), page.slots
    if slots is None:
        yield from _differ("what it pays for, where no slot is shown", 0, sums.net)
    else:
        yield from _differ("set aside by its slots", slots.paid, sums.set_aside)
        yield from _differ("settled by its slots", slots.settled, sums.settled)
        yield from _differ("held by its slots", slots.held, sums.held)
        yield from _differ("given back by its slots", slots.returned, sums.back)
        yield from _differ("kept by its slots", slots.kept, sums.owners_part)
        yield from _differ("all that its payees get", page.paid_sum, sums.settled + sums.held)
        by_account = {8 * owner + 2 if owner else 0: paid for owner, paid in slots.settled_by_owner.items() if paid}
        operators = sum(paid for account, paid in sums.to_owners.items() if account < 8)
        in_book = {account: paid for account, paid in sums.to_owners.items() if account >= 8}
        in_book |= {0: operators} if operators else {}
        yield from _differ("what each owner got", by_account, in_book)
    if page.in_market is not None and page.by_use is None and job.state in ("awarded", "running", "finished"):
        yield from _differ("what it pays as awarded", page.in_market.pays, sums.net)
    compared = page.gain is not None and page.pieces is None  # a job in pieces is not compared on its page
    if compared and (page.gain or 0) < 0 and all(each.rent != "open" for each in counted_awards):
        yield f"its page says that it is worse off than alone, by {-page.gain}"
    lead = render_to_string(page.lead, {"page": page, "job": job, "pool": job.pool})
    if "nothing</b>" in lead or "It cost nothing" in lead:
        before = page.paid_before if "before a loss" in lead else 0
        yield from _differ("what it costs, by the first sentence", before, whole.net)


def _cancelled(job: TrainingJob, at: datetime) -> Iterator[str]:
    """What a cancellation is said to do, and what it does: it is undone again."""
    subject = f"job:{job.pk}"
    forecast, before = cancel_preview(job, at), book_read(subject).jobs[job.pk]
    with transaction.atomic():
        inside = transaction.savepoint()
        job_cancel(job_id=job.pk, by=Access(user=None, tenant=job.tenant, roles=frozenset({OWNER})), at=at)
        after = book_read(subject).jobs[job.pk]
        transaction.savepoint_rollback(inside)
    yield from _differ("what would come back if it were cancelled", forecast.returned, after.back - before.back)
    yield from _differ("what would stay with the owners", forecast.kept, after.owners_part - before.owners_part)
    yield from _differ("what would still be paid", forecast.still_paid, after.held)


def _statement(
    tenant: Tenant, view: StatementView, book: Book, jobs: Sequence[TrainingJob], pools: Sequence[Pool], at: datetime
) -> Iterator[str]:
    """The page, the file and the ledger's head, of a period in which all lies."""
    sums = [book.jobs[job.pk] for job in jobs]
    yield from _differ("the statement, what its movements miss", view.difference, 0)
    yield from _differ("the statement, what its jobs miss", view.difference_of_jobs, 0)
    yield from _differ("the statement, spent", view.spent_sum, sum(each.settled + each.owners_part for each in sums))
    yield from _differ("the statement, given back", view.back_sum, sum(each.back for each in sums))
    earned = sum(each.to_owners[8 * tenant.pk + 2] for each in book.jobs.values())
    earned += run(_KEPT_FOR, [8 * tenant.pk + 2])[0][0]
    yield from _differ("the statement, earned", view.earned_sum, earned)
    by_part: Counter[str] = Counter()
    for row in statement_rows(tenant=tenant, start=view.start, end=view.end, at=at):
        by_part[row.part] += row.amount
    of_page = (view.earned_sum, view.spent_sum, view.back_sum, view.jobs_sum)
    of_file = tuple(by_part[part] for part in ("earned", "spent", "given back", "job"))
    yield from _differ("the statement as a file: earned, spent, given back, of jobs", of_file, of_page)
    ledger = ledger_view(tenant=tenant, pools=list(pools), choice=MovementFilter(view.start, view.end), at=at)
    head = (ledger.earned, ledger.spent, ledger.paid_in)
    yield from _differ("the ledger: earned, spent, paid in", head, (view.earned_sum, view.spent_sum, view.paid_in))
    balances = tuple(int(run(_BALANCE, [8 * tenant.pk + number])[0][0]) for number in range(3))
    yield from _differ("the balances now", (ledger.now.available, ledger.now.held, ledger.now.earned), balances)


_KEPT_FOR = """
SELECT coalesce(sum(entry.amount), 0)::bigint
  FROM ledger_transaction AS about JOIN ledger_entry AS entry ON entry.transaction_id = about.id
 WHERE about.kind = 'cancel' AND entry.account_id = %s
"""
_BALANCE = "SELECT coalesce(sum(amount), 0) FROM ledger_entry WHERE account_id = %s"
_OPEN = (
    "SELECT start, state, cut_at, pays_from, owners, amounts FROM scheduling_award WHERE pool_id = %s AND rent = 'open'"
)


def _now(tenant: Tenant, pools: Sequence[Pool], at: datetime) -> Iterator[str]:
    """What the page of its share says is not certain yet."""
    for pool in pools:
        view = share_view(tenant=tenant, pool=pool, at=at, money=True, overview=pool_overview(pool))
        provisional = 0
        for start, state, cut, again, owners, amounts in run(_OPEN, [pool.pk]):
            for slot, parts in enumerate(charges_read(owners, amounts), start):
                pays_on = cut is not None and (slot >= again if again else not (state == "void" or cut <= start))
                if cut is None or slot < cut or pays_on:
                    provisional += sum(amount for owner, amount in parts if owner == tenant.pk)
        assert view.money is not None
        yield from _differ(f"what is provisional in {pool.slug}", view.money.provisional, provisional)


_SPENT = """
SELECT coalesce(-sum(entry.amount), 0)::bigint
  FROM ledger_transaction AS about JOIN ledger_entry AS entry ON entry.transaction_id = about.id
  JOIN scheduling_award AS award ON award.id = (about.facts ->> 'award')::bigint
 WHERE entry.account_id = %s AND about.kind IN ('hold', 'refund', 'cancel') AND award.awarded_at >= %s
"""


def _budgets(tenant: Tenant, at: datetime) -> Iterator[str]:
    for limit in limits(tenant_ids=[tenant.pk], at=at):
        spent = run(_SPENT, [8 * tenant.pk, period_start(limit.period, at)])[0][0]
        yield from _differ(f"what was spent of the budget per {limit.period}", limit.spent, spent)


_FEED_PAYMENTS = """
SELECT coalesce(sum((data ->> CASE kind WHEN 'slot_settled' THEN 'paid' ELSE 'arrears' END)::bigint), 0)::bigint
  FROM scheduling_event WHERE pool_id = %s AND kind IN ('slot_settled', 'interval_closed', 'market_stopped')
"""
_PAID = """
SELECT coalesce(-sum(entry.amount), 0)::bigint
  FROM ledger_transaction AS about JOIN ledger_entry AS entry ON entry.transaction_id = about.id
  JOIN scheduling_award AS award ON award.id = (about.facts ->> 'award')::bigint
 WHERE about.kind = 'settle' AND entry.account_id %% 8 = 1 AND entry.account_id > 8 AND award.pool_id = %s
"""


_TOLD_BACK = """
SELECT coalesce(sum(coalesce(data ->> 'refunded', data -> 'numbers' ->> 'refunded', data ->> 'returned')::bigint), 0)
  FROM scheduling_event
 WHERE pool_id = %s AND kind IN
       ('job_requeued', 'award_cut', 'award_adjusted', 'job_failed', 'job_cancelled', 'award_given_up')
"""
_CAME_BACK = """
SELECT coalesce(sum(entry.amount), 0)
  FROM ledger_transaction AS about JOIN ledger_entry AS entry ON entry.transaction_id = about.id
  JOIN scheduling_award AS award ON award.id = (about.facts ->> 'award')::bigint
 WHERE about.kind IN ('refund', 'cancel') AND entry.account_id = 8 * award.tenant_id AND award.pool_id = %s
"""


def _feed(pools: Sequence[Pool]) -> Iterator[str]:
    """What is told of the payments: to everybody, of slots and of rents that an interval or an outage settled; to
    tenants, of what came back to them."""
    for pool in pools:
        payments, paid, told_back, came_back = (
            int(run(text, [pool.pk])[0][0]) for text in (_FEED_PAYMENTS, _PAID, _TOLD_BACK, _CAME_BACK)
        )
        yield from _differ(f"paid in {pool.slug} by the feed", payments, paid)
        yield from _differ(f"come back in {pool.slug} by the feed", told_back, came_back)
