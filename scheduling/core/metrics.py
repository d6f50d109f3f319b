"""What a run was worth, to whom, and how evenly: figures of an outcome, each a plain function of it.

A job counts as completed when all its work is booked; it completes at the end of its last booking. Amounts are
credits, times are slots.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from scheduling.core.cells import deal_cells
from scheduling.core.scenario import Scenario
from scheduling.core.types import (
    AWARDED,
    EXPIRED,
    REJECTED,
    SHARED,
    WAITING,
    Booking,
    FloatArray,
    Floor,
    Job,
    Window,
)

TOLERANCE = 1e-9  # relative, on sums of credits


class Track(Protocol):
    """What became of one job; see `simulation.Track`."""

    @property
    def job(self) -> Job: ...
    @property
    def state(self) -> str: ...
    @property
    def bookings(self) -> Sequence[Booking]: ...
    @property
    def floor(self) -> Floor | None: ...


class Outcome(Protocol):
    """A whole run; see `simulation.Outcome`."""

    @property
    def tracks(self) -> Sequence[Track]: ...
    @property
    def windows(self) -> Sequence[Window]: ...


@dataclass(frozen=True, eq=False)
class Books:
    """A run in arrays: who completed what when, and who paid and received what."""

    tenant: FloatArray  # (completed,) index
    end: FloatArray  # (completed,)
    elapsed: FloatArray  # (completed,) end - arrival
    value: FloatArray  # (completed,) f(end - arrival): the realised revenue
    paid: FloatArray  # (tenants,)
    received: FloatArray  # (owners,) payouts, a payer's own part included
    earned: FloatArray  # (owners,) payouts from others
    used: FloatArray  # (resources,) units x slots


def summary(scenario: Scenario, outcome: Outcome) -> dict[str, Any]:
    """The figures of a whole run, as plain JSON."""
    books = _books(scenario, outcome)
    makespan = max((booking.end for _, booking in _bookings(outcome)), default=0)
    states = Counter(track.state for track in outcome.tracks)
    ratios = [ratio for ratio in _fairness_ratios(scenario, books) if ratio is not None]
    return {
        "revenue": float(books.value.sum()),
        "ideal_revenue": float(sum(booking.ideal for _, booking in _bookings(outcome))),
        **{state: states[state] for state in (AWARDED, REJECTED, WAITING, EXPIRED)},
        "mean_completion_slots": float(books.elapsed.mean()) if len(books.elapsed) else 0.0,
        "median_completion_slots": float(np.median(books.elapsed)) if len(books.elapsed) else 0.0,
        "makespan_slots": makespan,
        "utilisation": _utilisation(scenario, books.used, makespan),
        "fairness_variance": float(np.var(ratios)) if ratios else None,
        "payments": float(books.paid.sum()),
        "payouts": float(books.received.sum()),
        "owners_income": float(books.earned[:-1].sum()),
        "operator_income": float(books.earned[-1]),
        "jain_index": jain_index(rewards(scenario, outcome)),
        "free_rides": sum(_is_free_ride(booking) for _, booking in _bookings(outcome)),
        "jobs_below_floor": len(below_floor(outcome)),
    }


def tenant_rows(scenario: Scenario, outcome: Outcome, alone: Sequence[float | None]) -> list[dict[str, Any]]:
    """One row per tenant: what it gained, and what it would have gained alone (where that is known)."""
    books = _books(scenario, outcome)
    columns = zip(
        scenario.cluster.tenants,
        _gains(scenario, books),
        alone,
        _fairness_ratios(scenario, books),
        np.bincount(books.tenant, books.value, len(scenario.cluster.tenants)),
        books.paid,
        books.earned[:-1],
        strict=True,
    )
    return [
        {
            "name": tenant.name,
            "gain": float(gain),
            "alone": None if without is None else float(without),
            "sharing_ratio": float(gain / without) if without is not None and without > 0 else None,
            "fairness_ratio": ratio,
            "revenue": float(revenue),
            "paid": float(paid),
            "earned": float(earned),
        }
        for tenant, gain, without, ratio, revenue, paid, earned in columns
    ]


def worse_off(rows: Iterable[dict[str, Any]]) -> list[str]:
    """The tenants of `tenant_rows` that gained less than they would have alone."""
    known = [row for row in rows if row["alone"] is not None]
    return [row["name"] for row in known if _below(row["gain"], row["alone"])]


def gains(scenario: Scenario, outcome: Outcome) -> FloatArray:
    """(tenants,) value of the own jobs, less what was paid, plus every payout received (Astraea, R23)."""
    return _gains(scenario, _books(scenario, outcome))


def alone_gains(scenario: Scenario, outcome: Outcome) -> FloatArray | None:
    """(tenants,) what each would have gained alone, on the run's own boundaries: its jobs' floor values.

    None where the policy gives no floors. A job that the end of the run left waiting for a floor still to come
    counts for nothing: it would wait alone, too.
    """
    if all(track.floor is None for track in outcome.tracks):
        return None
    alone = np.zeros(len(scenario.cluster.tenants))
    for track, floor in _floors_due(outcome):
        alone[track.job.tenant] += floor.value
    return alone


def alone_scenario(scenario: Scenario, tenant: int) -> Scenario:
    """The same scenario with one tenant's cells as the whole cluster and no jobs but its own.

    Where quotas are mere counts they are dealt to servers first. Tenants and jobs keep their numbers, so that
    whatever is drawn for a job is drawn alike in both worlds.
    """
    cluster = scenario.cluster
    cells = deal_cells(cluster.capacity, cluster.quota) if cluster.cells is None else cluster.cells
    servers = np.flatnonzero(cells[:, tenant].any(axis=0))
    kept = np.zeros_like(cells[:, :, servers])
    kept[:, tenant] = cells[:, tenant][:, servers]
    home = replace(
        cluster,
        servers=tuple(cluster.servers[server] for server in servers),
        capacity=kept[:, tenant],
        quota=kept.sum(axis=2),
        hosts_workers=cluster.hosts_workers[servers],
        hosts_ps=cluster.hosts_ps[servers],
        cells=None if cluster.cells is None else kept,
    )
    own = tuple(job for job in scenario.jobs if job.tenant == tenant)
    return replace(scenario, cluster=home, jobs=own, preload=())


def below_floor(outcome: Outcome) -> list[int]:
    """The jobs whose value less payment fell short of what their owner would have had alone (Astraea, G10)."""
    return [track.job.number for track, floor in _floors_due(outcome) if _below(_net(track), floor.value)]


def rewards(scenario: Scenario, outcome: Outcome) -> FloatArray:
    """(lenders,) credits earned from others per contributed share of the cluster and slot.

    A lender is a tenant that had idle units for sale in some published window. Its contribution is, per resource,
    those units as a share of all units, averaged over the resources.
    """
    total = scenario.cluster.total
    offered = np.zeros(len(scenario.cluster.owners))
    for window in outcome.windows:
        offered += (window.idle.sum(axis=2)[total > 0] / total[total > 0, None]).mean(axis=0)
    lenders = np.flatnonzero(offered[:-1] > 0)
    earned: FloatArray = _books(scenario, outcome).earned[lenders] / offered[lenders]
    return earned


def jain_index(amounts: FloatArray) -> float | None:
    """(sum x)^2 / (n sum x^2): 1 when all get the same, 1/n when one gets everything; None without any amount."""
    squares = float((amounts**2).sum())
    return float(amounts.sum()) ** 2 / (len(amounts) * squares) if squares > 0 else None


def fairness_ratios(scenario: Scenario, outcome: Outcome) -> list[float | None]:
    """Each tenant's share of all gains over its share of the quotas (Astraea, R25); None where either is nothing."""
    return _fairness_ratios(scenario, _books(scenario, outcome))


def _books(scenario: Scenario, outcome: Outcome) -> Books:
    completed = [track for track in outcome.tracks if track.state == AWARDED]
    owners = len(scenario.cluster.owners)
    paid, received, kept = np.zeros(owners - 1), np.zeros(owners), np.zeros(owners)
    for job, booking in _bookings(outcome):
        paid[job.tenant] += booking.paid
        if booking.payouts is not None:
            received += booking.payouts
            kept[job.tenant] += booking.payouts[job.tenant]
    end = np.array([_end(track) for track in completed], dtype=np.float64)
    return Books(
        tenant=np.array([track.job.tenant for track in completed], dtype=np.intp),
        end=end,
        elapsed=end - np.array([track.job.arrival for track in completed]),
        value=np.array([_realised(track) for track in completed]),
        paid=paid,
        received=received,
        earned=received - kept,
        used=_used(scenario, outcome),
    )


def _bookings(outcome: Outcome) -> Iterator[tuple[Job, Booking]]:
    return ((track.job, booking) for track in outcome.tracks for booking in track.bookings)


def _end(track: Track) -> int:
    return max(booking.end for booking in track.bookings)


def _realised(track: Track) -> float:
    return float(track.job.value(_end(track) - track.job.arrival)) if track.state == AWARDED else 0.0


def _net(track: Track) -> float:
    return _realised(track) - sum(booking.paid for booking in track.bookings)


def _used(scenario: Scenario, outcome: Outcome) -> FloatArray:
    """(resources,) units x slots of all bookings. Few jobs differ in their demands, so those are multiplied last."""
    units: Counter[int] = Counter()
    demands: dict[int, FloatArray] = {}
    for job, booking in _bookings(outcome):
        worker = job.worker_types[booking.worker_type].demand
        ps = job.ps_types[booking.ps_type].demand
        demands[id(worker)], demands[id(ps)] = worker, ps
        for row in booking.allocation:
            units[id(worker)] += row.workers * (row.end - row.start)
            units[id(ps)] += row.ps * (row.end - row.start)
    used = np.zeros(len(scenario.cluster.resources))
    for key, amount in units.items():
        used += amount * demands[key]
    return used


def _utilisation(scenario: Scenario, used: FloatArray, makespan: int) -> dict[str, float]:
    """Part of the capacity in use over [0, makespan), by resource; 0 where there is none."""
    available = scenario.cluster.total * makespan
    share = np.divide(used, available, out=np.zeros_like(used), where=available > 0)
    return dict(zip(scenario.cluster.resources, share.tolist(), strict=True))


def _gains(scenario: Scenario, books: Books) -> FloatArray:
    value = np.bincount(books.tenant, books.value, len(scenario.cluster.tenants))
    gained: FloatArray = value - books.paid + books.received[:-1]
    return gained


def _fairness_ratios(scenario: Scenario, books: Books) -> list[float | None]:
    quota = scenario.cluster.quota
    owned = quota.sum(axis=1)
    share = (quota[owned > 0] / owned[owned > 0, None]).mean(axis=0) if owned.any() else np.zeros(quota.shape[1])
    revenue = books.value.sum()
    return [
        float(gain / revenue / part) if revenue > 0 and part > 0 else None
        for gain, part in zip(_gains(scenario, books), share, strict=True)
    ]


def _is_free_ride(booking: Booking) -> bool:
    """Rented at a price of nothing. (A renter that owns all there is for sale pays nothing of a price above it.)"""
    return booking.phase == SHARED and booking.cost <= TOLERANCE


def _floors_due(outcome: Outcome) -> Iterator[tuple[Track, Floor]]:
    """The floors, but for those of jobs that wait for one beyond the last window decided."""
    decided = max((window.end for window in outcome.windows), default=0)
    for track in outcome.tracks:
        if track.floor is not None and (track.state != WAITING or track.floor.start < decided):
            yield track, track.floor


def _below(amount: float, promised: float) -> bool:
    return amount < promised - TOLERANCE * max(1.0, abs(promised))
