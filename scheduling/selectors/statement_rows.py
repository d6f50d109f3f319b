"""A statement as one list, part by part, for CSV and for programs. The amounts of a part add up to the line that closes
it, and every line is there, however many."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from scheduling.selectors.statements import (
    NOT_DELIVERED,
    back_rows,
    charges_by_job,
    earned_rows,
    named,
    reconciled_all,
    spent_rows_of,
    statement_head,
)
from scheduling.selectors.uncharged import CHUNK, jobs_of_period
from tenants.ledger.sums import MovedBy, earned_by_award, moved_by_subject
from tenants.models import Tenant

PARTS = ("balance", "movement", "earned", "spent", "given back", "job")


@dataclass(frozen=True)
class StatementRow:
    """`quantity`: worker-slots. Amounts are micro-credits."""

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


def statement_rows(*, tenant: Tenant, start: datetime, end: datetime) -> Iterator[StatementRow]:
    """Needs the tenant's scope, also while it is read."""
    head = statement_head(tenant=tenant, start=start, end=end)
    yield StatementRow("balance", start, "Opened", head.opening.total)
    for line in head.lines:
        yield StatementRow("movement", None, line.title, line.total)
    yield StatementRow("balance", end, "Closed", head.closing.total)
    yield from _earned(tenant, start, end)
    moved = moved_by_subject(tenant_id=tenant.pk, start=start, end=end)
    for spent in named(spent_rows_of(moved)):
        yield StatementRow("spent", spent.last_at, spent.name, spent.amount, spent.job_id)
    yield from _given_back(tenant, start, end, moved)
    ids = jobs_of_period(tenant=tenant, start=start, end=end, subjects=[row.subject for row in moved])
    for job in reconciled_all(job_ids=ids, charges=charges_by_job(moved)):
        yield StatementRow("job", job.submitted_at, job.name, job.charge, job.job_id, job.lane, reason=job.reason)


def _earned(tenant: Tenant, start: datetime, end: datetime) -> Iterator[StatementRow]:
    found = earned_by_award(tenant_id=tenant.pk, start=start, end=end)
    for begin in range(0, len(found), CHUNK):
        for row in earned_rows(tenant, found[begin : begin + CHUNK], begin + 1):
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


def _given_back(tenant: Tenant, start: datetime, end: datetime, moved: list[MovedBy]) -> Iterator[StatementRow]:
    count = sum(row.payments for row in moved if row.kind in NOT_DELIVERED)
    for back in back_rows(tenant, start, end, limit=count + 1):
        yield StatementRow("given back", back.at, back.name, back.returned, back.job_id, reason=back.cause)
