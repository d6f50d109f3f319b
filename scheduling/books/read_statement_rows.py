"""Read a statement as one list, part by part, for CSV and for programs. The amounts of each part add up (the opening
balance and the movements to the closing balance), and no row is left out, however many there are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from scheduling.books.read_statements import (
    back_rows,
    charges_by_job,
    count_back,
    earned_rows,
    head_of,
    named,
    reconciled_all,
    spent_rows,
)
from scheduling.books.read_uncharged import CHUNK, jobs_of_period
from tenants.ledger.periods import period_read
from tenants.ledger.sums import EarnedFrom
from tenants.models import Tenant

PARTS = ("balance", "movement", "earned", "spent", "given back", "job")


@dataclass(frozen=True)
class StatementRow:
    """One row of a statement. `quantity` is worker-slots. Amounts are micro-credits."""

    part: str
    at: datetime | None
    what: str
    amount: int
    job: int | None = None
    lane: str = ""
    interval: int | None = None
    quantity: float | None = None
    unit_price: int | None = None
    reason: str = ""


def statement_rows(
    *, tenant: Tenant, start: datetime, end: datetime, at: datetime, most: int | None = None
) -> Iterator[StatementRow]:
    """Yield the rows of a statement, as it is at `at`. `most` limits the rows of each part; None means all. Needs the
    tenant's scope until the last row has been read."""
    period = period_read(tenant_id=tenant.pk, start=start, end=end, most=most)
    head = head_of(period, start=start, end=end, at=at)
    yield StatementRow("balance", start, head.opening.title, head.opening.total)
    for line in head.lines:
        yield StatementRow("movement", None, line.title, line.total)
    yield StatementRow("balance", end, head.closing.title, head.closing.total)
    yield from _earned(tenant, period.earned)
    for spent in named(spent_rows(period.paid)):
        yield StatementRow("spent", spent.last_at, spent.name, spent.amount, spent.job_id)
    limit = count_back(period) + 1 if most is None else most
    for back in back_rows(tenant, start, end, limit=limit):
        yield StatementRow("given back", back.at, back.name, back.returned, back.job_id, reason=back.cause)
    charges = charges_by_job(period)
    ids = jobs_of_period(tenant=tenant, start=start, end=end, moved=charges)
    for job in reconciled_all(job_ids=ids[:most], charges=charges):
        yield StatementRow("job", job.submitted_at, job.name, job.charge, job.job_id, job.lane, reason=job.reason)


def _earned(tenant: Tenant, sources: Sequence[EarnedFrom]) -> Iterator[StatementRow]:
    for begin in range(0, len(sources), CHUNK):
        for row in earned_rows(tenant, sources[begin : begin + CHUNK], begin + 1):
            yield StatementRow(
                "earned",
                row.first_at,
                row.borrower,
                row.amount,
                lane=row.lane,
                interval=row.interval,
                quantity=row.quantity or None,
                unit_price=row.unit_price,
            )
