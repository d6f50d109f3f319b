"""One interval with everything that is needed to recompute its fairness by hand, for all tenants or for one of them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import isclose

from scheduling.core import records
from scheduling.core.collector import collector_resting
from scheduling.core.metrics.certificates import FLOOR_MISSED, OTHER_FLOOR, Certificate, certificates, realised
from scheduling.core.metrics.fairness import values_of
from scheduling.core.policies.elastic import Elastic
from scheduling.core.stored_jobs import view_shown
from scheduling.core.types import WAITING, Booking, Plan, Settlement, View
from scheduling.fairness.read_accounts import CertificateRow, IntervalAccount, RentPayment, RowsMade, TenantAccount
from scheduling.market.reads import READING_ERRORS, contents_of
from scheduling.models import Interval, IntervalFairness, Pool, TenantFairness
from tenants.models import Tenant
from tenants.scoping import scope_disabled

OPERATOR = "Operator"
NOT_THERE = -1  # the index of a tenant that a stored view does not have, so that no job is its own
PARTS = ("policy", "view", "plan")  # the parts of a stored interval that one can download


@dataclass(frozen=True)
class _Who:
    """The tenants of a stored interval, by their index in it."""

    ids: tuple[int, ...]
    names: tuple[str, ...]
    slugs: tuple[str, ...]

    def place(self, tenant: Tenant) -> int:
        return self.ids.index(tenant.pk) if tenant.pk in self.ids else NOT_THERE


def interval_account(pool: Pool, number: int, *, tenant: Tenant | None = None) -> IntervalAccount | None:
    """Return the account of an interval for all tenants, or only the parts that are one tenant's own."""
    with scope_disabled("an interval's figures are those of all tenants; of one tenant, what is its own is shown"):
        return _account(pool, number, tenant)


def _account(pool: Pool, number: int, tenant: Tenant | None) -> IntervalAccount | None:
    interval = Interval.objects.filter(pool=pool, number=number).first()
    if interval is None:
        return None
    fairness = IntervalFairness.objects.filter(interval=interval).first()
    with collector_resting():
        rows = _read(interval, fairness, tenant)
    jobs, payments, revenue = rows or ((), (), None)
    accounts = tuple(_tenants(fairness, tenant)) if fairness else ()
    last = Interval.objects.filter(pool=pool, number=number + 1).exists()
    return IntervalAccount(
        interval=interval,
        fairness=fairness,
        policy=str(json.loads(bytes(interval.policy))["name"]) if rows or interval.is_archived else "",
        tenants=accounts,
        jobs=jobs,
        payments=payments,
        readable=rows is not None,
        without_refunds=fairness is not None and _without_refunds(accounts, payments),
        whole_in_each_slot=fairness is not None and revenue is not None and not isclose(fairness.revenue, revenue),
        before=number - 1 if number > 1 else None,
        after=number + 1 if last else None,
    )


def interval_part(pool: Pool, number: int, part: str) -> bytes | None:
    """Return the stored bytes of the interval's policy, input or answer, as JSON."""
    interval = Interval.objects.filter(pool=pool, number=number).first()
    if interval is None or part not in PARTS:
        return None
    if part == "policy":
        return bytes(interval.policy)
    try:
        contents = contents_of(interval)
    except READING_ERRORS:  # somebody changed the bytes; verification says so
        return None
    return contents.view if part == "view" else contents.plan


def _read(
    interval: Interval, fairness: IntervalFairness | None, tenant: Tenant | None
) -> tuple[Sequence[CertificateRow], Sequence[RentPayment], float | None] | None:
    """Return certificates, broken ones first, and payments: those of all tenants, or one tenant's own; and where a
    single slot was decided, what all jobs are worth in it. Return None where the bytes are unreadable."""
    try:
        contents = contents_of(interval)
        view, plan = view_shown(contents.view), records.plan_from(contents.plan)
        who = _who(view)
        own = None if tenant is None else who.place(tenant)
        if json.loads(contents.policy)["name"] == Elastic.name:  # it gives no certificates
            return (), _payments(view, plan, who, own), sum(value for _, value in values_of(view, plan))
        return _jobs(view, plan, fairness, who, own), _payments(view, plan, who, own), None
    except READING_ERRORS:
        return None


def _tenants(fairness: IntervalFairness, tenant: Tenant | None) -> Iterable[TenantAccount]:
    rows = TenantFairness.objects.filter(fairness=fairness).order_by("tenant")
    rows = list(rows if tenant is None else rows.filter(tenant=tenant))
    tenants = Tenant.objects.in_bulk([row.tenant_id for row in rows])
    for row in rows:
        tenant = tenants[row.tenant_id]
        yield TenantAccount(tenant.name, tenant.slug, row, fairness.revenue)


def _jobs(
    view: View, plan: Plan, fairness: IntervalFairness | None, who: _Who, own: int | None
) -> Sequence[CertificateRow]:
    """Return the rows of certificates. `own` is the index of a tenant in the view, whose jobs alone are listed."""
    runs = _runs(view, plan)
    certificate_rows = _certificates(view, plan, fairness)
    listed_jobs = {certificate.job for certificate in certificate_rows}
    unknown = [booking for booking in plan.bookings if booking.job not in listed_jobs]
    rows: list[Certificate | Booking] = [
        *(row for row in certificate_rows if own is None or row.tenant == own),
        *(row for row in unknown if own is None or view.jobs[row.job].tenant == own),
    ]

    def certificate_row(row: Certificate | Booking) -> CertificateRow:
        return (
            _job(view, row, runs.get(row.job, _JobEnd()), who)
            if isinstance(row, Certificate)
            else _unknown(view, row, who)
        )

    return RowsMade(
        sorted(rows, key=lambda row: (isinstance(row, Booking) or not row.broken, row.job)), certificate_row
    )


def _payments(view: View, plan: Plan, who: _Who, own: int | None) -> Sequence[RentPayment]:
    """Return the payments of rents, and what comes back of open ones. For one tenant's own, the other owners who get a
    part have no name."""
    payments: list[Booking | Settlement] = [booking for booking in plan.bookings if booking.cost]
    payments += [settled for settled in plan.settlements if settled.refund]
    ours = [each for each in payments if own is None or view.jobs[each.job].tenant == own]

    def rent_payment(each: Booking | Settlement) -> RentPayment:
        row = _payment(view, each, who) if isinstance(each, Booking) else _refund(view, each, who)
        return row if own is None else replace(row, parts=_anonymous(row.parts, who.names[own]))

    return RowsMade(ours, rent_payment)


def _who(view: View) -> _Who:
    ids = tuple(int(tenant.name) for tenant in view.cluster.tenants)
    tenants = Tenant.objects.in_bulk(ids)
    names = tuple(tenants[pk].name if pk in tenants else f"tenant {pk}" for pk in ids)
    return _Who(ids, names, tuple(tenants[pk].slug if pk in tenants else "" for pk in ids))


def _certificates(view: View, plan: Plan, fairness: IntervalFairness | None) -> list[Certificate]:
    """Return the certificates. Those of floors follow from the stored bytes alone. Whether a new floor is that of being
    alone, and what paper mode would have given alone, was worked out with the figures: of that, the broken ones are
    kept."""
    if fairness is None:
        return []
    index = {int(tenant.name): place for place, tenant in enumerate(view.cluster.tenants)}
    broken = [
        Certificate(row["job"], index[row["tenant"]], row["got"], row["alone"], row["broken"])
        for row in fairness.broken
        if row["tenant"] in index
    ]
    if not fairness.with_floors:
        return broken
    silent = replace(plan, floors=())  # with nothing to compare them with, new floors would count as wrong
    floors = {**view.floors, **{floor.job: floor for floor in plan.floors}}
    settled, _ = certificates(replace(view, floors=floors), silent, {}, with_floors=True)
    keys = {(row.job, row.broken) for row in settled}
    return [*settled, *(row for row in broken if (row.job, row.broken) not in keys)]


@dataclass(frozen=True)
class _JobEnd:
    """The outcome of a job. `value` is what it is worth; `booking` is the one by which it ends or has ended, or None
    where it was not served."""

    value: float = 0.0
    booking: Booking | None = None

    def paid(self, certificate: Certificate) -> float:
        """Return what the job paid, also for pieces of earlier intervals, less what came back: the amount by which its
        value exceeds what it got."""
        paid = self.booking.paid if self.booking else 0.0
        if certificate.broken in (FLOOR_MISSED, OTHER_FLOOR) or isclose(self.value - paid, certificate.gain):
            return paid
        return self.value - certificate.gain


def _runs(view: View, plan: Plan) -> dict[int, _JobEnd]:
    """Return the end by job: for those that this interval serves, for those whose rents it settles, which may have run
    long ago, and for those that were begun in pieces and do not continue."""
    worths = {**view.worths, **plan.worths}
    over = [refusal.job for refusal in plan.refusals if refusal.state != WAITING]
    runs = {number: _JobEnd(worths.get(number) or 0.0) for number in over}
    rents = {rent.job: rent for rent in sorted(view.open_rents, key=lambda rent: rent.end)}
    for settled in plan.settlements:
        rent = rents[settled.job]
        runs[settled.job] = _JobEnd(
            realised(view.jobs[settled.job], rent) if settled.worth is None else settled.worth, rent
        )
    for booking in sorted(plan.bookings, key=lambda each: each.end):  # keeps the later of two: piece, rest at home
        runs[booking.job] = _JobEnd(realised(view.jobs[booking.job], booking), booking)
    return runs


def _job(view: View, certificate: Certificate, run: _JobEnd, who: _Who) -> CertificateRow:
    job, booking = view.jobs[certificate.job], run.booking
    return CertificateRow(
        job=certificate.job,
        tenant_id=who.ids[certificate.tenant],
        tenant=who.names[certificate.tenant],
        slug=who.slugs[certificate.tenant],
        served=booking is not None,
        elapsed=None if booking is None else booking.end - job.arrival,
        value=run.value,
        paid=run.paid(certificate),
        got=certificate.gain,
        alone=certificate.alone,
        broken=certificate.broken,
    )


def _unknown(view: View, booking: Booking, who: _Who) -> CertificateRow:
    job = view.jobs[booking.job]
    value = float(booking.value) if job.divisible else realised(job, booking)  # a piece: the value of what is done
    elapsed, gain = booking.end - job.arrival, value - booking.paid
    about = (booking.job, who.ids[job.tenant], who.names[job.tenant], who.slugs[job.tenant])
    return CertificateRow(*about, True, elapsed, value, booking.paid, gain, None, "")


def _payment(view: View, booking: Booking, who: _Who) -> RentPayment:
    payer = view.jobs[booking.job].tenant
    payouts = [] if booking.payouts is None else booking.payouts.tolist()
    parts = tuple((name, part) for name, part in zip([*who.names, OPERATOR], payouts, strict=False) if part)
    return RentPayment(
        booking.job,
        who.ids[payer],
        who.names[payer],
        booking.start,
        booking.end,
        booking.cost,
        booking.paid,
        parts,
        booking.dividend,
    )


def _without_refunds(accounts: Sequence[TenantAccount], payments: Sequence[RentPayment]) -> bool:
    """Return whether the figures are those of a version before: something comes back, and it was not taken off. Refunds
    are the last of the payments."""
    if not payments or not payments[-1].is_refund:
        return False
    return not isclose(sum(each.row.paid for each in accounts), sum(each.paid for each in payments), abs_tol=1e-6)


def _refund(view: View, settled: Settlement, who: _Who) -> RentPayment:
    """Return what comes back of a job's open rents, as a payment below zero."""
    payer = view.jobs[settled.job].tenant
    rents = [rent for rent in view.open_rents if rent.job == settled.job]
    parts = tuple(
        (name, -part) for name, part in zip([*who.names, OPERATOR], settled.reversal.tolist(), strict=False) if part
    )
    start, end = min(rent.start for rent in rents), max(rent.end for rent in rents)
    return RentPayment(
        settled.job, who.ids[payer], who.names[payer], start, end, -settled.refund, -settled.refund, parts
    )


def _anonymous(parts: Sequence[tuple[str, float]], own: str) -> tuple[tuple[str, float], ...]:
    others = sum(amount for name, amount in parts if name not in (own, OPERATOR))
    named = [(name, amount) for name, amount in parts if name in (own, OPERATOR)]
    return (*([("Other owners", others)] if others else []), *named)
