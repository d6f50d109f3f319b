"""Read a tenant's statement of a period: opening, earned, spent, given back, closing, and every job with its charge or
the reason why it has none. All sums are of entries of the book, so the parts add up exactly, to the micro-credit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime

from scheduling.books.read_gain_shares import gain_shares
from scheduling.books.read_uncharged import CHUNK, Reconciled, job_number, jobs_of_period, reconciled
from scheduling.market.reads import AwardSeen, awards_seen, reason_few
from scheduling.models import TrainingJob
from tenants.ledger.amounts import adding_up, price_of_one
from tenants.ledger.movements import MovementFilter, movements
from tenants.ledger.periods import PeriodRead, period_read
from tenants.ledger.postings import TENANT_KINDS, TenantBalances
from tenants.ledger.sums import EarnedFrom, MovedBy, moved_by_month
from tenants.models import Tenant

MOST_ROWS = 200  # rows of each list on the page; the CSV has them all
NOT_DELIVERED = ("cancel", "refund", "release")

TITLES = {
    "grant": "Paid in",
    "top_up": "Paid in",
    "withdraw": "Paid out",
    "hold": "Set aside for awards",
    "settle": "Settled: rent paid, and earned from renters",
    "cancel": "Cancelled before the start",
    "refund": "Refunded by the platform",
    "release": "Given back",
    "collect": "Earnings moved to available",
    "reverse": "Corrected",
}


@dataclass(frozen=True)
class Total:
    """What one sort of transaction changed on the three accounts."""

    title: str
    available: int
    held: int
    earned: int

    @property
    def total(self) -> int:
        return self.available + self.held + self.earned


@dataclass(frozen=True)
class EarnedRow:
    """What the tenant earned from one borrower's job. `quantity` is the tenant's part of its worker-slots in these
    payments."""

    borrower: str
    interval: int | None
    pool_id: int | None
    lane: str
    workers: int
    ps: int
    slots: int
    quantity: float
    unit_price: int | None  # micro-credits for a worker-slot, its parameter servers included
    amount: int
    first_at: datetime


@dataclass(frozen=True)
class SpentRow:
    job_id: int | None
    name: str
    payments: int
    amount: int
    last_at: datetime


@dataclass(frozen=True)
class BackRow:
    """Money that was returned. `kept` is what stayed with the owners when a rent was cancelled."""

    at: datetime
    job_id: int | None
    name: str
    cause: str
    returned: int
    kept: int


@dataclass(frozen=True)
class StatementHead:
    opening: Total
    lines: tuple[Total, ...]
    closing: Total


@dataclass(frozen=True)
class StatementView:
    start: datetime
    end: datetime
    head: StatementHead
    earned: tuple[EarnedRow, ...]
    earned_rows: int
    earned_sum: int
    spent: tuple[SpentRow, ...]
    spent_rows: int
    spent_sum: int
    spent_gain: int  # the part of `spent_sum` that is the owners' share of what renting gained
    back: tuple[BackRow, ...]
    back_rows: int
    back_sum: int
    adjusted: int  # the part of `back_sum` returned because jobs would have been worth more alone
    jobs: tuple[Reconciled, ...]
    jobs_rows: int
    jobs_sum: int
    uncharged: int  # how many of `jobs` have no charge

    @property
    def spent_price(self) -> int:
        """The part of what was spent that is the price of units."""
        return self.spent_sum - self.spent_gain

    @property
    def paid_in(self) -> int:
        """What was paid in from outside, less what was paid out: every change of the balance that was neither earned
        nor spent."""
        return self.head.closing.total - self.head.opening.total - self.earned_sum + self.spent_sum

    @property
    def digits(self) -> int:
        """The number of digits with which the amounts of the first sentence add up as shown."""
        parts = (self.head.opening.total, self.paid_in, self.earned_sum, -self.spent_sum)
        return adding_up((*parts, -self.head.closing.total))

    @property
    def difference(self) -> int:
        """The opening balance plus all movements, less the closing balance; 0 if the statement adds up."""
        return self.head.opening.total + sum(line.total for line in self.head.lines) - self.head.closing.total

    @property
    def difference_of_jobs(self) -> int:
        return self.spent_sum - self.jobs_sum


def months_with_entries(*, tenant: Tenant) -> list[tuple[date, tuple[int, int]]]:
    """Return (first day, (opened, closed)) of every month with any movement, the newest first. Only day totals are
    read.
    """
    moved = moved_by_month(tenant_id=tenant.pk)
    balance, months = 0, []
    for first, amount in moved:
        months.append((first, (balance, balance + amount)))
        balance += amount
    return months[::-1]


def statement_view(
    *, tenant: Tenant, start: datetime, end: datetime, at: datetime, most: int = MOST_ROWS
) -> StatementView:
    """Read the statement of a period, as it is at `at`. Needs the tenant's scope. Takes time linear in the period's
    jobs and awards. Lists are cut at `most` rows, sums are always complete."""
    period = period_read(tenant_id=tenant.pk, start=start, end=end, most=most)
    charges = charges_by_job(period)
    ids = jobs_of_period(tenant=tenant, start=start, end=end, moved=charges)
    back = back_rows(tenant, start, end, limit=most) if most else []
    jobs = tuple(reconciled(job_ids=ids[:most], charges=charges)) if most else ()
    shares = gain_shares(tenant=tenant, start=start, end=end, jobs=charges)
    return StatementView(
        start=start,
        end=end,
        head=head_of(period, start=start, end=end, at=at),
        earned=tuple(earned_rows(tenant, period.earned, 1)) if most else (),
        earned_rows=period.earned_rows,
        earned_sum=period.earned_sum,
        spent=tuple(named(spent_rows(period.paid))) if most else (),
        spent_rows=period.paid_rows,
        spent_sum=sum(period.subjects.values()),
        spent_gain=shares.gain,
        back=tuple(back),
        back_rows=count_back(period),
        back_sum=sum(period.by_kind[kind].available for kind in NOT_DELIVERED if kind in period.by_kind),
        adjusted=shares.adjusted,
        jobs=jobs,
        jobs_rows=len(ids),
        jobs_sum=sum(charges.values()),
        uncharged=sum(not row.charge for row in jobs),
    )


def head_of(period: PeriodRead, *, start: datetime, end: datetime, at: datetime) -> StatementHead:
    """Return the balances and movements. A period that is not over at `at` has not closed, and one that has not begun
    has not opened either."""
    opening = _total("Opened" if start <= at else "Not begun yet", period.opening)
    closing = _total("Closed" if end <= at else "So far", period.closing)
    return StatementHead(opening, _lines(period.by_kind), closing)


def charges_by_job(period: PeriodRead) -> dict[int, int]:
    """Map every job for which money moved to what was paid for it."""
    return {job: paid for name, paid in period.subjects.items() if (job := job_number(name)) is not None}


def count_back(period: PeriodRead) -> int:
    return sum(period.payments_by_kind.get(kind, 0) for kind in NOT_DELIVERED)


def earned_rows(tenant: Tenant, earned: Sequence[EarnedFrom], first: int) -> Iterator[EarnedRow]:
    """Yield what was earned, a row for each borrower's job. Borrowers have no names here; they are numbered from
    `first` on, in the order of their first payment."""
    awards = awards_seen(tenant_id=tenant.pk, award_ids=[row.award_id for row in earned if row.award_id])
    for number, row in enumerate(earned, first):
        yield _earned(row, awards.get(row.award_id or 0), number)


def _earned(row: EarnedFrom, award: AwardSeen | None, number: int) -> EarnedRow:
    if award is None:
        return EarnedRow(f"renter {number}", None, None, "", 0, 0, row.payments, 0.0, None, row.amount, row.first_at)
    # The part of everything that the owner gets by the terms over the award's life which was paid in this period.
    done = row.amount / award.mine if award.mine else 0.0
    quantity = award.part * award.worker_slots * done
    who = "your own job" if award.is_own else f"renter {number}"
    if row.kind != "settle":
        who = f"{who}, cancelled"
    price = price_of_one(row.amount, quantity) if quantity and row.kind == "settle" else None
    return EarnedRow(
        who,
        award.interval,
        award.pool_id,
        award.lane,
        award.workers,
        award.ps,
        row.payments,
        quantity if row.kind == "settle" else 0.0,
        price,
        row.amount,
        row.first_at,
    )


def spent_rows(rows: Sequence[MovedBy]) -> list[SpentRow]:
    """Return one row for each job, in the order of the last payment. Its name is read later, only for rows that are
    shown."""
    rows_by_name: dict[str, SpentRow] = {}
    for row in rows:
        before = rows_by_name.pop(row.subject, None)
        rows_by_name[row.subject] = SpentRow(
            job_number(row.subject),
            row.subject,
            row.payments + (before.payments if before else 0),
            row.spent + (before.amount if before else 0),
            row.last_at,
        )
    return list(rows_by_name.values())


def named(rows: Sequence[SpentRow]) -> Iterator[SpentRow]:
    names = _names(row.job_id for row in rows)
    for row in rows:
        yield SpentRow(row.job_id, names.get(row.job_id or 0, row.name), row.payments, row.amount, row.last_at)


def back_rows(tenant: Tenant, start: datetime, end: datetime, *, limit: int) -> list[BackRow]:
    """Return refunds and cancellations of the tenant's own rents with their cause, the newest first."""
    choice = MovementFilter(start, end, account="held", kinds=NOT_DELIVERED)
    moves = movements(tenant_id=tenant.pk, choice=choice, limit=limit)
    names = _names(job_number(row.subject) for row in moves)
    rows = []
    for row in moves:
        number = job_number(row.subject)
        stays = -(row.available + row.held)
        name = names.get(number or 0, row.subject)
        rows.append(BackRow(row.at, number, name, _cause(row.kind, dict(row.facts)), row.available, stays))
    return rows


def reconciled_all(*, job_ids: Sequence[int], charges: dict[int, int]) -> Iterator[Reconciled]:
    """Yield the charges of all these jobs, read chunk by chunk."""
    for begin in range(0, len(job_ids), CHUNK):
        yield from reconciled(job_ids=job_ids[begin : begin + CHUNK], charges=charges)


def _cause(kind: str, facts: dict[str, object]) -> str:
    if kind == "refund" and facts.get("cause") == "server_lost":
        return f"Server {facts.get('server', '')} was lost"
    if kind == "cancel":
        return "Cancelled before its start"
    few = reason_few(str(facts.get("cause", "not needed")))
    return few[:1].upper() + few[1:]


def _lines(by_kind: Mapping[str, TenantBalances]) -> tuple[Total, ...]:
    """Return the sums by title: kinds of transactions that mean the same to a reader are added up."""
    sums: dict[str, TenantBalances] = {}
    for kind, moved in by_kind.items():
        title = TITLES.get(kind, kind.replace("_", " ").capitalize())
        before = sums.get(title, TenantBalances(0, 0, 0))
        sums[title] = TenantBalances(*(getattr(before, name) + getattr(moved, name) for name in TENANT_KINDS))
    order = {title: place for place, title in enumerate(TITLES.values())}
    titles = sorted(sums, key=lambda title: (order.get(title, len(order)), title))
    return tuple(_total(title, sums[title]) for title in titles)


def _total(title: str, balances: TenantBalances) -> Total:
    return Total(title, balances.available, balances.held, balances.earned)


def _names(ids: Iterable[int | None]) -> dict[int, str]:
    wanted = {number for number in ids if number is not None}
    return dict(TrainingJob.objects.filter(pk__in=wanted).values_list("pk", "name"))
