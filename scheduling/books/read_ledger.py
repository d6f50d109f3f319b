"""Read the ledger page: a tenant's movements grouped by the interval they are about, with a sentence and balances.

The newest come first, since a ledger is read from its end. Inside an interval, payments of one sort form one row (every
slot of a job, all that renters paid), unless each one is requested. Each row has the balance after it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import groupby

from scheduling.books.read_ledger_lines import LedgerGroup, LedgerRow, LedgerView
from scheduling.books.read_ledger_words import sentence_of
from scheduling.market.reads import AwardSeen, WindowSpan, awards_seen, spans_of, total
from scheduling.models import Pool, TrainingJob
from tenants.ledger.movements import (
    PAGE,
    Movement,
    MovementFilter,
    Position,
    balances_below,
    movements,
    movements_all,
    movements_by,
    period_sums,
)
from tenants.ledger.postings import TenantBalances
from tenants.models import Tenant


def ledger_view(
    *,
    tenant: Tenant,
    pools: Sequence[Pool],
    choice: MovementFilter,
    at: datetime,
    below: Position | None = None,
    each: bool = False,
    limit: int = PAGE,
    order: tuple[str, bool] | None = None,
) -> LedgerView:
    """Read one page. Needs the tenant's scope. With `each`, every transaction is a row of its own. `order` replaces the
    usual order, the newest first: it is "at" or an account, and whether the order is descending. Then only the first
    `limit` rows are returned, and there is no next page."""
    if order is None:
        rows = movements(tenant_id=tenant.pk, choice=choice, below=below, limit=limit + 1)
    else:
        rows = movements_by(tenant_id=tenant.pk, choice=choice, column=order[0], down=order[1], limit=limit + 1)
        below = None
    moves, has_more = rows[:limit], len(rows) > limit
    places = [below or Position(choice.end, 0), Position(choice.start, 0), Position(choice.end, 0), _after(at)]
    sums, (came,) = period_sums(tenant_id=tenant.pk, positions=places, periods=[(choice.start, choice.end)])
    top, opening, closing, now = sums
    return LedgerView(
        now=now,
        opening=opening,
        closing=closing,
        outside=came,
        groups=_flat(tenant, pools, moves) if order else _groups(tenant, pools, moves, choice, top, each=each),
        on_page=TenantBalances(*(sum(getattr(row, name) for row in moves) for name in ("available", "held", "earned"))),
        newer=below is not None,
        next=moves[-1].position if has_more and not order else None,
        flat=order is not None,
        cut=has_more and order is not None,
    )


def _after(at: datetime) -> Position:
    """Return a position later than everything that has happened: midnight of UTC two days later, as days end there."""
    return Position(at.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=2), 0)


def ledger_rows(*, tenant: Tenant, choice: MovementFilter) -> Iterator[LedgerRow]:
    """Yield every transaction of the choice, the newest first, read page by page (for CSV)."""
    pools = list(Pool.objects.all())
    for movement in movements_all(tenant_id=tenant.pk, choice=choice):
        above = Position(movement[0].at, movement[0].transaction_id + 1)
        top = balances_below(tenant_id=tenant.pk, position=above)
        for group in _groups(tenant, pools, movement, choice, top, each=True):
            yield from group.rows


@dataclass(frozen=True)
class _Placed:
    """A movement with the slot that it is about and its award."""

    movement: Movement
    pool: Pool | None
    slot: int | None
    award: AwardSeen | None
    job: tuple[int, str, str] | None  # id, name, who submitted it; only for the tenant's own jobs


def _groups(
    tenant: Tenant,
    pools: Sequence[Pool],
    moves: Sequence[Movement],
    choice: MovementFilter,
    top: TenantBalances,
    *,
    each: bool,
) -> tuple[LedgerGroup, ...]:
    placed = _placed(tenant, pools, moves)
    spans = spans_of((row.pool.pk, row.slot) for row in placed if row.pool and row.slot is not None)
    running = _start(choice, top)

    def span(row: _Placed) -> WindowSpan | None:
        return spans.get((row.pool.pk, row.slot)) if row.pool and row.slot is not None else None

    def place(row: _Placed) -> tuple[WindowSpan | None, Pool | None]:
        """Return the interval; of a slot of an elastic pool, whose intervals have no windows, the pool."""
        return span(row), row.pool if row.award and row.pool and row.pool.is_elastic else None

    groups = []
    for (where, by_slot), rows in groupby(placed, key=place):
        inside = list(rows)
        lines = []
        for bundle in [[row] for row in inside] if each else _bundles(inside):
            line = _row(bundle, running)
            running = None if running is None else running - _moved(line, choice)
            lines.append(line)
        groups.append(_group(where, inside[0].pool if where else by_slot, lines))
    return tuple(groups)


def _flat(tenant: Tenant, pools: Sequence[Pool], moves: Sequence[Movement]) -> tuple[LedgerGroup, ...]:
    """Return each movement as a row of its own, in the given order."""
    rows = tuple(_row([row], None) for row in _placed(tenant, pools, moves))
    return (LedgerGroup(None, None, None, None, rows),) if rows else ()


def _start(choice: MovementFilter, top: TenantBalances) -> int | None:
    """Return the balance from which the rows count: of all three accounts, or of the chosen one. Return None where a
    filter leaves kinds or jobs out."""
    if choice.kinds or choice.subject:
        return None
    return getattr(top, choice.account) if choice.account else total(top)


def _moved(row: LedgerRow, choice: MovementFilter) -> int:
    return int(getattr(row, choice.account)) if choice.account else row.total


def _placed(tenant: Tenant, pools: Sequence[Pool], moves: Sequence[Movement]) -> list[_Placed]:
    awards = awards_seen(tenant_id=tenant.pk, award_ids=[m.facts["award"] for m in moves if "award" in m.facts])
    by_number = {pool.pk: pool for pool in pools}
    only = next(iter(by_number.values())) if len(by_number) == 1 else None
    jobs = {
        f"job:{award.job_id}": (award.job_id, award.job_name, award.by) for award in awards.values() if award.job_id
    }
    jobs |= _jobs(movement for movement in moves if movement.subject not in jobs and "award" not in movement.facts)
    placed = []
    for row in moves:
        award = awards.get(row.facts.get("award", 0))
        pool = by_number.get(award.pool_id) if award else only
        slot = row.facts.get("slot", pool.slot_at(row.at) if pool else None)
        placed.append(_Placed(row, pool, slot, award, jobs.get(row.subject)))
    return placed


def _jobs(moves: Iterable[Movement]) -> dict[str, tuple[int, str, str]]:
    """Map subjects to jobs of the tenant. Jobs of others are not visible, because the scope is the tenant's."""
    ids = {int(m.subject[4:]) for m in moves if m.subject.startswith("job:") and m.subject[4:].isdecimal()}
    if not ids:
        return {}
    rows = TrainingJob.objects.filter(pk__in=ids).select_related("submitted_by").only("name", "submitted_by__name")
    return {f"job:{job.pk}": (job.pk, job.name, str(job.submitted_by or "")) for job in rows}


def _bundles(rows: Sequence[_Placed]) -> list[list[_Placed]]:
    """Bundle the settlements of each job, and the payments of renters. Bundles are in the order of their newest row."""
    bundles: dict[object, list[_Placed]] = {}
    for number, row in enumerate(rows):
        bundles.setdefault(_sort(row, number), []).append(row)
    return list(bundles.values())


def _sort(row: _Placed, number: int) -> object:
    if row.movement.kind == "settle" and row.movement.held:
        return ("paid", row.movement.subject)
    if row.movement.kind in ("settle", "cancel") and row.movement.earned and not row.movement.held:
        return ("earned", row.movement.kind)
    return number


def _row(bundle: Sequence[_Placed], balance: int | None) -> LedgerRow:
    newest = bundle[0]
    movement, job = newest.movement, newest.job
    return LedgerRow(
        at=movement.at,
        slot=newest.slot,
        text=sentence_of([(row.movement, row.award) for row in bundle], job[2] if job else ""),
        job_id=job[0] if job else None,
        job_name=job[1] if job else "",
        count=len(bundle),
        transaction_id=movement.transaction_id,
        kind=movement.kind,
        available=sum(row.movement.available for row in bundle),
        held=sum(row.movement.held for row in bundle),
        earned=sum(row.movement.earned for row in bundle),
        balance=balance,
    )


def _group(span: WindowSpan | None, pool: Pool | None, rows: Sequence[LedgerRow]) -> LedgerGroup:
    if span is None or pool is None:
        return LedgerGroup(None, pool, None, None, tuple(rows))
    return LedgerGroup(span.number, pool, pool.slot_start(span.start), pool.slot_start(span.end), tuple(rows))
