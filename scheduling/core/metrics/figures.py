"""Compute the figures of a run, each by a pure function."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from scheduling.core.metrics.alone import below_floor
from scheduling.core.metrics.books import TOLERANCE, Books, RunOutcome, bookings, gathered
from scheduling.core.scenario import Scenario
from scheduling.core.types import AWARDED, EXPIRED, REJECTED, SHARED, WAITING, Booking, FloatArray


def summary(scenario: Scenario, outcome: RunOutcome) -> dict[str, Any]:
    """Return the figures of a whole run, as plain JSON."""
    books = gathered(scenario, outcome)
    makespan = max((booking.end for _, booking in bookings(outcome)), default=0)
    states = Counter(track.state for track in outcome.tracks)
    ratios = [ratio for ratio in _fairness_ratios(scenario, books) if ratio is not None]
    return {
        "revenue": float(books.value.sum() + books.begun.sum()),
        "ideal_revenue": float(sum(booking.ideal for _, booking in bookings(outcome))),
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
        "free_rides": sum(_is_free_ride(booking) for _, booking in bookings(outcome)),
        "jobs_below_floor": len(below_floor(outcome)),
    }


def tenant_rows(scenario: Scenario, outcome: RunOutcome, alone: Sequence[float | None]) -> list[dict[str, Any]]:
    """Return one row for each tenant: what it gained, and what it would have gained alone (if that is known)."""
    books = gathered(scenario, outcome)
    columns = zip(
        scenario.cluster.tenants,
        _gains(scenario, books),
        alone,
        _fairness_ratios(scenario, books),
        _values(scenario, books),
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


def gains(scenario: Scenario, outcome: RunOutcome) -> FloatArray:
    """Return each tenant's gain (tenants,): the value of its own jobs, less what it paid, plus every payout that it
    received (Astraea, R23)."""
    return _gains(scenario, gathered(scenario, outcome))


def rewards(scenario: Scenario, outcome: RunOutcome) -> FloatArray:
    """Return the credits that each lender earned from others per contributed share of the cluster and slot (lenders,).

    A lender is a tenant that had idle units for sale in some published window. Its contribution is, per resource,
    those units as a share of all units, averaged over the resources.
    """
    total = scenario.cluster.total
    offered = np.zeros(len(scenario.cluster.owners))
    for window in outcome.windows:
        offered += (window.idle.sum(axis=2)[total > 0] / total[total > 0, None]).mean(axis=0)
    lenders = np.flatnonzero(offered[:-1] > 0)
    earned: FloatArray = gathered(scenario, outcome).earned[lenders] / offered[lenders]
    return earned


def jain_index(amounts: FloatArray) -> float | None:
    """Return (sum x)^2 / (n sum x^2): 1 if all get the same, 1/n if one gets everything, None if all get nothing."""
    squares = float((amounts**2).sum())
    return float(amounts.sum()) ** 2 / (len(amounts) * squares) if squares > 0 else None


def dispersion(amounts: FloatArray) -> float | None:
    """Return the standard deviation over the mean; None where the mean is not above 0, as where nobody got anything, or
    more was given back than got."""
    mean = float(amounts.mean()) if amounts.size else 0.0
    return float(amounts.std()) / mean if mean > 0 else None


def fairness_ratios(scenario: Scenario, outcome: RunOutcome) -> list[float | None]:
    """Return each tenant's gain as a share of the revenue, over its share of the quotas (Astraea, R25); None where the
    revenue or the share of the quotas is not above 0."""
    return _fairness_ratios(scenario, gathered(scenario, outcome))


def _utilisation(scenario: Scenario, used: FloatArray, makespan: int) -> dict[str, float]:
    """Return the part of the capacity in use over [0, makespan), by resource; 0 where there is no capacity."""
    available = scenario.cluster.total * makespan
    share = np.divide(used, available, out=np.zeros_like(used), where=available > 0)
    return dict(zip(scenario.cluster.resources, share.tolist(), strict=True))


def _gains(scenario: Scenario, books: Books) -> FloatArray:
    gained: FloatArray = _values(scenario, books) - books.paid + books.received[:-1]
    return gained


def _values(scenario: Scenario, books: Books) -> FloatArray:
    """Return the value of each tenant's jobs (tenants,), the done parts of unfinished ones included."""
    values: FloatArray = np.bincount(books.tenant, books.value, len(scenario.cluster.tenants)) + books.begun
    return values


def _fairness_ratios(scenario: Scenario, books: Books) -> list[float | None]:
    quota = scenario.cluster.quota
    owned = quota.sum(axis=1)
    share = (quota[owned > 0] / owned[owned > 0, None]).mean(axis=0) if owned.any() else np.zeros(quota.shape[1])
    revenue = books.value.sum() + books.begun.sum()
    return [
        float(gain / revenue / part) if revenue > 0 and part > 0 else None
        for gain, part in zip(_gains(scenario, books), share, strict=True)
    ]


def _is_free_ride(booking: Booking) -> bool:
    """Return whether the booking is rented at a price of 0. (A renter that owns all that is for sale pays nothing of a
    price above 0; that is no free ride.)"""
    return booking.phase == SHARED and booking.cost <= TOLERANCE
