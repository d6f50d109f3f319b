"""Compute what each tenant would have had alone in one stored interval, and which promises the interval kept (Astraea,
G10)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from scheduling.core.cells import deal_cells
from scheduling.core.metrics.books import TOLERANCE
from scheduling.core.types import OWN, WAITING, Booking, Cluster, FloatArray, Floor, Job, Plan, Policy, View

BELOW_FLOOR, FLOOR_MISSED, OTHER_FLOOR, BELOW_ALONE = "below_floor", "floor_missed", "other_floor", "below_alone"


@dataclass(frozen=True)
class Certificate:
    """What a job got (value less payment, plus refund) against what its owner would have had alone. `broken` is empty
    if the promise was kept."""

    job: int
    tenant: int  # index
    gain: float
    alone: float
    broken: str = ""


class Promising(Policy, Protocol):
    """A policy that gives each new job a floor."""

    def promises(self, view: View) -> Sequence[Floor]:
        """Return the floors of the policy's plan for this view, at least those of positive value, and nothing else."""
        ...


def alone_plans(policy: Policy, view: View) -> dict[int, Plan]:
    """Return tenant -> what the same policy decides at this boundary for a tenant that is alone with its own cells.

    This is decided only for tenants with collected jobs, and for those whose plans are renewed; alone, the others would
    have had nothing to decide.
    """
    return {tenant: policy.decide(alone) for tenant, alone in _alone_views(view, [*_collected(view), *_renewed(view)])}


def alone_floors(policy: Promising, view: View) -> dict[int, Plan]:
    """Return tenant -> a plan with only the floors of a policy that promises floors. A certificate needs no more, and
    it takes longer to compute what a tenant alone would rent from itself. Tenants whose jobs all have their floors are
    left out, since they get no new ones."""
    without = [job for job in _collected(view) if job.number not in view.floors] + _renewed(view)
    return {tenant: Plan(floors=policy.promises(alone)) for tenant, alone in _alone_views(view, without)}


def _collected(view: View) -> list[Job]:
    return [job for job in view.waiting if job.arrival < view.slot]


def _renewed(view: View) -> list[Job]:
    """Return the jobs whose plan each boundary may change, whether they wait or were served by renting."""
    return [view.jobs[number] for number, floor in view.floors.items() if floor.draft]


def _alone_views(view: View, jobs: Sequence[Job]) -> Iterator[tuple[int, View]]:
    """Return (tenant, its view alone) for each tenant of the jobs."""
    tenants = sorted({job.tenant for job in jobs})
    cells = cells_of(view.cluster)
    return ((tenant, alone_view(view, tenant, cells)) for tenant in tenants)


def cells_of(cluster: Cluster) -> FloatArray:
    """Return the home cells (resources, tenants, servers); quotas that are mere counts are dealt to servers."""
    return deal_cells(cluster.capacity, cluster.quota) if cluster.cells is None else cluster.cells


def alone_view(view: View, tenant: int, cells: FloatArray) -> View:
    """Return the stored view with only what belongs to one tenant. All indexes stay the same."""
    home, quota = np.zeros_like(cells), np.zeros(cells.shape[:2])
    home[:, tenant] = cells[:, tenant]
    quota[:, tenant] = home[:, tenant].sum(axis=1)
    for array in (home, quota):
        array.setflags(write=False)  # else the cluster would make copies
    cluster = replace(
        view.cluster, capacity=home[:, tenant], quota=quota, cells=None if view.cluster.cells is None else home
    )
    active = tuple(b for b in view.active if view.jobs[b.job].tenant == tenant and b.phase == OWN)
    open_rents = tuple(rent for rent in view.open_rents if view.jobs[rent.job].tenant == tenant)
    waiting = [index for index, job in enumerate(view.waiting) if job.tenant == tenant]
    return replace(
        view,
        cluster=cluster,
        waiting=tuple(view.waiting[index] for index in waiting),
        remaining=view.remaining[waiting],
        occupied=_occupied(view, active),
        active=active,
        floors={number: floor for number, floor in view.floors.items() if view.jobs[number].tenant == tenant},
        windows=(),
        tail=None,
        resale=(),
        open_rents=open_rents,
    )


def certificates(
    view: View, plan: Plan, alone: Mapping[int, Plan], *, with_floors: bool
) -> tuple[tuple[Certificate, ...], tuple[float, ...]]:
    """Return each promise that this interval had to keep, and what each tenant would have gained alone by these jobs
    (tenants,)."""
    listed_certificates = tuple(_by_floors(view, plan, alone) if with_floors else _by_alone_plans(view, plan, alone))
    gains = [0.0] * len(view.cluster.tenants)
    for certificate in listed_certificates:
        gains[certificate.tenant] += certificate.alone
    return listed_certificates, tuple(gains)


def realised(job: Job, booking: Booking) -> float:
    """Return f(end - arrival) of a job that ends with this booking."""
    return float(job.value(booking.end - job.arrival))


def _by_floors(view: View, plan: Plan, alone: Mapping[int, Plan]) -> Iterator[Certificate]:
    """Yield the certificates of jobs that were served or refused for good, of jobs whose floor was due but that still
    wait, and of new floors that differ from what the tenant would have got alone."""
    floors = {**view.floors, **{floor.job: floor for floor in plan.floors}}
    provisional = {booking.job for booking in plan.bookings if booking.provisional}
    for job, gain in _settled(view, plan).items():
        floor = floors.get(job, Floor(job))
        # Otherwise the rent is open: what the job is worth alone, or has paid, is known when it is settled (K6, D16).
        if not floor.draft and job not in provisional:
            yield _certificate(view, job, gain, floor.value, BELOW_FLOOR)
    rents: dict[int, list[Booking]] = {}
    for rent in view.open_rents:
        rents.setdefault(rent.job, []).append(rent)
    for settlement in plan.settlements:
        job, paid = settlement.job, sum(rent.paid for rent in rents[settlement.job])
        value = realised(view.jobs[job], rents[job][-1]) if settlement.worth is None else settlement.worth
        yield _certificate(view, job, value - paid + settlement.refund, floors.get(job, Floor(job)).value, BELOW_FLOOR)
    end = max((window.end for window in plan.windows), default=view.slot)
    for refusal in plan.refusals:
        due = floors.get(refusal.job)
        if refusal.state == WAITING and due is not None and due.value > 0 and due.start < end:
            yield Certificate(refusal.job, view.jobs[refusal.job].tenant, 0.0, due.value, FLOOR_MISSED)
    again = {floor.job: floor for lone in alone.values() for floor in lone.floors}
    for floor in plan.floors:
        other = again.get(floor.job, Floor(floor.job))  # without one the job is refused alone, as it fits nowhere
        if other != floor and (other.value or floor.value):
            yield Certificate(floor.job, view.jobs[floor.job].tenant, floor.value, other.value, OTHER_FLOOR)


def _by_alone_plans(view: View, plan: Plan, alone: Mapping[int, Plan]) -> Iterator[Certificate]:
    """Yield the certificates of jobs that were served here or alone: what they got in this interval against what they
    would have got in it alone."""
    if not alone:  # the policy deals out no windows
        return
    without = {b.job: realised(view.jobs[b.job], b) for lone in alone.values() for b in lone.bookings}
    gains = {b.job: realised(view.jobs[b.job], b) - b.paid for b in plan.bookings}
    for job in sorted(gains.keys() | without.keys()):
        yield _certificate(view, job, gains.get(job, 0.0), without.get(job, 0.0), BELOW_ALONE)


def _settled(view: View, plan: Plan) -> dict[int, float]:
    """Return job -> value less payment, for jobs about which nothing more will be decided. The payment of a job that
    was begun includes its earlier pieces, less refunds; if such a job is given up, its value is the stored worth."""
    paid = dict(view.paid)
    for booking in plan.bookings:
        paid[booking.job] = paid.get(booking.job, 0.0) + booking.paid
    for settlement in plan.settlements:
        paid[settlement.job] = paid.get(settlement.job, 0.0) - settlement.refund
    worths = {**view.worths, **plan.worths}
    refused = {
        refusal.job: (worths[refusal.job] or 0.0) - paid.get(refusal.job, 0.0) if refusal.job in worths else 0.0
        for refusal in plan.refusals
        if refusal.state != WAITING
    }
    return refused | {b.job: realised(view.jobs[b.job], b) - paid[b.job] for b in finishing(view, plan)}


def finishing(view: View, plan: Plan) -> list[Booking]:
    """Return the bookings that end their jobs' runs. Pieces that leave work, or that are followed by others of the same
    plan, are left out."""
    rests = {job.number: amount for job, amount in zip(view.waiting, view.remaining.tolist(), strict=True)}
    of_divisible: dict[int, list[Booking]] = {}
    whole = []
    for booking in plan.bookings:
        if view.jobs[booking.job].divisible:
            of_divisible.setdefault(booking.job, []).append(booking)
        else:
            whole.append(booking)
    for job, bookings in of_divisible.items():
        if sum(booking.work for booking in bookings) > rests[job] - 0.5:  # mini-batches are whole
            whole.append(max(bookings, key=lambda booking: booking.end))
    return whole


def _certificate(view: View, job: int, gain: float, alone: float, broken: str) -> Certificate:
    below = gain < alone - TOLERANCE * max(1.0, abs(alone))
    return Certificate(job, view.jobs[job].tenant, gain, alone, broken if below else "")


def _occupied(view: View, active: tuple[Booking, ...]) -> FloatArray:
    """Return what these bookings hold from the boundary on, (resources, slots, servers)."""
    reach = max((row.end for booking in active for row in booking.allocation), default=view.slot) - view.slot
    occupied = np.zeros((len(view.cluster.resources), max(reach, 0), len(view.cluster.servers)))
    for booking in active:
        job = view.jobs[booking.job]
        worker, ps = job.worker_types[booking.worker_type].demand, job.ps_types[booking.ps_type].demand
        for row in booking.allocation:
            inside = slice(max(row.start - view.slot, 0), max(row.end - view.slot, 0))
            occupied[:, inside, row.server] += (row.workers * worker + row.ps * ps)[:, None]
    return occupied
