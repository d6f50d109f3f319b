"""A live pool with an instant lane for tests: people who submit, awards made by hand, and how to read the book."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from scheduling.jobs.submission import Submitted, job_submit
from scheduling.market.calendar.units import UnitReader
from scheduling.market.reads.explain import JobView, jobs_explain
from scheduling.market.settle.slots import Settled, slot_settle
from scheduling.models import Award, CalendarCell, Event, JobState, Lane, LaneClock, Pool, ServerCapacity, TrainingJob
from tenants.access import Access, Refused
from tenants.ledger.amounts import MICRO
from tenants.ledger.audit import verify
from tenants.ledger.postings import OPERATOR, AccountName, available, earned, held
from tenants.ledger.selectors import balances
from tenants.ledger.services import hold
from tenants.models import Tenant
from tenants.roles import SUBMITTER
from tenants.scoping import scope, scope_disabled
from tests.ledger.builders import grant
from tests.scheduling.builders import NOON, make_pool

# One worker trains one mini-batch in a slot of ten seconds; four of them and a parameter server need one slot.
SPEC: dict[str, Any] = {
    "epochs": 1,
    "chunks": 4,
    "minibatch_seconds": 10.0,
    "worker_demand": {"worker": 1},
    "ps_demand": {"ps": 1},
    "worker_mbps": 1.0,
    "ps_mbps": 4.0,  # one parameter server serves four workers
    "max_workers": 4,
    "value": {"kind": "linear", "slope": -1.0, "base": 100.0},
}
BOUNDS = {"floor": 0.01, "ceiling": {"worker": 10.0, "ps": 10.0}}
INSTANT = {"name": "oasis", "worker_price": BOUNDS, "ps_price": BOUNDS}


def make_live_pool(**fields: object) -> Pool:
    return make_pool(**({"instant_policy": INSTANT} | fields))


def moment(slot: float) -> datetime:
    """Return the moment of a slot in a pool whose slots take ten seconds from noon on."""
    return NOON + timedelta(seconds=10 * slot)


def fund(tenant: Tenant, credits: int = 1_000) -> None:
    with scope_disabled("money from outside"):
        grant(tenant.pk, credits * MICRO, key=f"grant:{tenant.slug}")


def member(tenant: Tenant, role: str = SUBMITTER) -> Access:
    return Access(user=None, tenant=tenant, roles=frozenset({role}))


def submit(
    pool: Pool, tenant: Tenant, *, lane: str = "instant", slot: float = 0.0, key: str | None = None, **spec: Any
) -> Submitted | Refused:
    return job_submit(
        pool=pool,
        name="train",
        spec=SPEC | spec,
        lane=lane,
        by=member(tenant),
        at=moment(slot),
        client_key=key,
    )


def submitted(pool: Pool, tenant: Tenant, **fields: Any) -> Submitted:
    answer = submit(pool, tenant, **fields)
    assert isinstance(answer, Submitted), answer
    return answer


def make_award(
    pool: Pool,
    tenant: Tenant,
    *,
    start: int = 0,
    slots: int = 2,
    charges: Sequence[Sequence[tuple[Tenant | None, int]]] = (),
    allocation: Sequence[Sequence[int]] = (),
    spec: Mapping[str, Any] = SPEC,
    **fields: Any,
) -> Award:
    """Create a batch job with an award as a decision leaves it: booked, its payment held. Owner None is the
    operator."""
    by_slot = [[[owner.pk if owner else 0, amount] for owner, amount in slot] for slot in charges]
    paid = sum(amount for slot in by_slot for _, amount in slot)
    with scope(tenant):
        job = TrainingJob.objects.create(
            tenant=tenant,
            pool=pool,
            name="train",
            lane=Lane.BATCH,
            state=JobState.AWARDED,
            spec=spec,
            submitted_at=NOON,
            arrival=0.0,
            request_digest="0" * 64,
        )
        award = Award.objects.create(
            tenant=tenant,
            job=job,
            pool=pool,
            lane=Lane.BATCH,
            start=start,
            end=start + slots,
            workers=4,
            ps=1,
            allocation=[list(row) for row in allocation],
            value=100.0,
            paid=paid,
            charges=by_slot,
            **({"phase": "shared", "awarded_at": NOON} | fields),
        )
        if paid:
            about = {"subject": f"job:{job.pk}", "facts": {"award": award.pk}}
            hold(key=f"award:{award.pk}", tenant_id=tenant.pk, amount=paid, at=NOON, **about)
    return award


def enter(award: Award) -> None:
    """Enter the award's units into the calendar as the batch lane does: in home cells."""
    with scope_disabled("the test enters units"):
        for unit, amount in UnitReader(award.pool).units_of(award, award.job, since=award.start).items():
            capacity = ServerCapacity.objects.get(server=unit.server_id, resource=unit.resource_id).units
            place = {"server_id": unit.server_id, "resource_id": unit.resource_id, "part": unit.part, "slot": unit.slot}
            row, _ = CalendarCell.objects.get_or_create(pool=award.pool, **place, defaults={"capacity": capacity})
            CalendarCell.objects.filter(pk=row.pk).update(batch=row.batch + amount)


def settle(pool: Pool, *slots: int) -> list[Settled]:
    """Settle these slots in order, each at its end."""
    outcomes = [slot_settle(pool_id=pool.pk, slot=slot, at=moment(slot + 1)) for slot in slots]
    assert all(isinstance(outcome, Settled) for outcome in outcomes), outcomes
    return [outcome for outcome in outcomes if isinstance(outcome, Settled)]


def money(tenant: Tenant) -> tuple[int, int, int]:
    """Return what the tenant has: available, held, earned."""
    names = [available(tenant.pk), held(tenant.pk), earned(tenant.pk)]
    sums = amounts(*names)
    return sums[names[0]], sums[names[1]], sums[names[2]]


def operator_money() -> int:
    return amounts(OPERATOR)[OPERATOR]


def amounts(*names: AccountName) -> Mapping[AccountName, int]:
    with scope_disabled("the test looks at the book"):
        return balances(accounts=names)


def again(row: Any) -> Any:
    """Return the row as it is in the database now."""
    with scope_disabled("the test looks at a row again"):
        return type(row).objects.get(pk=row.pk)


def explained(job: TrainingJob) -> JobView:
    """Needs the tenant's scope."""
    return jobs_explain(job.pool, [job])[0]


def events(kind: str) -> list[Event]:
    return list(Event.objects.filter(kind=kind).order_by("pk"))


def publish(pool: Pool, *, frontier: int, settled: int = -1) -> None:
    """Set how far batch plans reach, without a plan. Home cells before the frontier are for the instant lane."""
    LaneClock.objects.update_or_create(
        pool=pool, lane=Lane.BATCH, defaults={"frontier": frontier, "settled_slot": settled, "decided_slot": settled}
    )


def holdings(pool: Pool, lane: str = "instant") -> dict[tuple[str, str, str, int], float]:
    """Return (server, resource, part, slot) -> amount that the lane holds."""
    rows = CalendarCell.objects.filter(pool=pool).select_related("server", "resource")
    held_amounts = {(c.server.name, c.resource.name, c.part, c.slot): getattr(c, lane) for c in rows}
    return {place: amount for place, amount in sorted(held_amounts.items()) if amount}


def book_is_sound() -> bool:
    """Return whether the audit of the book finds nothing wrong."""
    with scope_disabled("the audit reads everybody's entries"):
        return not verify().findings
