"""Compute how fair one interval was: what each tenant gained, contributed and earned, and what it would have had alone.

The figures are a pure function of the interval's stored input and answer, so that they can be computed again any time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from scheduling.core.metrics.certificates import Certificate, certificates, finishing, realised
from scheduling.core.metrics.figures import dispersion, jain_index
from scheduling.core.types import OWN, SHARED, WAITING, Booking, FloatArray, Plan, View, Window


@dataclass(frozen=True)
class TenantFairness:
    """One tenant in one interval. Amounts are credits; lists are unit-slots by resource.

    gain = own_value + rented_value - paid + received (Astraea, R23). Where jobs are decided slot by slot, each slot
    counts with the part of its job's work that it does. `received` includes the part of a payment that
    flows back to the payer; `earned` does not. What comes back of an open rent (K4) is taken off in the interval that
    settles it, so `paid`, `received`, `earned` and `reward` are below zero where more comes back than is paid.
    """

    own_value: float  # value of jobs served from the own share
    rented_value: float  # value of jobs that rent
    paid: float
    received: float
    gain: float
    alone: float
    share: float  # the tenant's share of the quotas, averaged over the resources
    ratio: float | None  # share of all value over share of the quotas (R25)
    earned: float
    contributed: float  # idle units offered, as a share of the cluster, times slots
    reward: float | None  # credits earned for each share of the cluster offered for a slot: earned / contributed
    offered: tuple[float, ...]
    sold: tuple[float, ...]
    kept: tuple[float, ...]  # idle and not offered, by a tenant that keeps its cells
    forgone: float  # what the unsold and the kept units would have brought at the posted prices
    rent_saved: float  # the part that it owed itself of the gross price of what it rents
    waiting: int  # jobs that continue to wait


@dataclass(frozen=True)
class Fairness:
    """The fairness of one interval. `columns` has each figure of `TenantFairness` as an array (tenants,) or (tenants,
    resources), NaN where there is none, so that a hundred tenants are quickly compared. `waiting_for` maps a reason to
    the number of jobs that continue to wait for it; `unsold` are unit-slots by resource."""

    columns: Mapping[str, npt.NDArray[Any]]
    revenue: float  # value of all that was awarded
    ratio_variance: float | None
    jain_index: float | None  # of the rewards
    reward_dispersion: float | None  # standard deviation of the rewards over their mean
    worst_off: int | None  # index of the contributor with the smallest reward, where rewards differ
    certificates: int
    broken: tuple[Certificate, ...]
    renters: int
    top_prices: tuple[float, ...]
    unsold: tuple[float, ...]
    waiting_for: Mapping[str, int]

    @cached_property
    def tenants(self) -> tuple[TenantFairness, ...]:
        rows = zip(*(figures_of(column) for column in self.columns.values()), strict=True)
        return tuple(TenantFairness(**dict(zip(self.columns, row, strict=True))) for row in rows)


def figures_of(column: npt.NDArray[Any]) -> list[Any]:
    """Return the figures of a column one by one: None where there is none, tuples where they are by resource."""
    if column.ndim == 2:
        return [tuple(amounts) for amounts in column.tolist()]
    absent = np.isnan(column)
    return [None if none else figure for figure, none in zip(column.tolist(), absent.tolist(), strict=True)]


@dataclass(frozen=True, eq=False)
class _Units:
    """The unit-slots of the interval's windows, (resources, owners), and `forgone`, (owners,) credits: what the unsold
    and the kept ones would have brought."""

    offered: FloatArray
    sold: FloatArray
    kept: FloatArray
    forgone: FloatArray


@dataclass(frozen=True, eq=False)
class _Sums:
    """What the figures are made of: what each booking is worth, units, and gains alone (tenants,)."""

    values: Sequence[tuple[Booking, float]]
    units: _Units
    alone: Sequence[float]


def interval_fairness(
    view: View,
    plan: Plan,
    alone: Mapping[int, Plan],
    *,
    with_floors: bool,
    with_refunds: bool = True,
    by_part: bool = True,
) -> Fairness:
    """Return the fairness of one interval. `alone` is what the policy decides for each tenant by itself, see
    `certificates.alone_plans`. Figures of before had no refunds, and counted a whole job in each of its slots."""
    listed_certificates, without = certificates(view, plan, alone, with_floors=with_floors)
    units = _units(view, plan)
    values = values_of(view, plan, by_part=by_part)
    columns = _columns(view, plan, _Sums(values, units, without), with_refunds=with_refunds)
    rewards, ratios = (columns[name][~np.isnan(columns[name])] for name in ("reward", "ratio"))
    prices = [window.prices.max(axis=1) for window in plan.windows if window.prices.size]
    codes = [refusal.reason.code for refusal in plan.refusals if refusal.state == WAITING]
    return Fairness(
        columns=columns,
        revenue=float(sum(value for _, value in values)),
        ratio_variance=float(ratios.var()) if ratios.size else None,
        jain_index=jain_index(rewards),
        reward_dispersion=dispersion(rewards),
        worst_off=_worst_off(columns["reward"]),
        certificates=len(listed_certificates),
        broken=tuple(certificate for certificate in listed_certificates if certificate.broken),
        renters=len({view.jobs[b.job].tenant for b in plan.bookings if b.phase == SHARED}),
        top_prices=_floats(np.max(prices, axis=0)) if prices else (),
        unsold=_floats((units.offered - units.sold).sum(axis=1)),
        waiting_for={code: codes.count(code) for code in sorted(set(codes))},
    )


def values_of(view: View, plan: Plan, *, by_part: bool = True) -> list[tuple[Booking, float]]:
    """Return the bookings that count, each with what it is worth. Where windows are dealt out, the whole job counts
    with the booking that ends it. Where single slots are, nobody knows which one will be the last: a program may be
    done sooner or later than planned. So each slot counts with its part of the work, as if the job ended with it."""
    if plan.windows or not by_part:
        return [(booking, realised(view.jobs[booking.job], booking)) for booking in finishing(view, plan)]
    parts = [(booking, view.jobs[booking.job]) for booking in plan.bookings]
    return [(booking, realised(job, booking) * min(booking.work / job.work, 1.0)) for booking, job in parts]


def _columns(view: View, plan: Plan, sums: _Sums, *, with_refunds: bool) -> dict[str, npt.NDArray[Any]]:
    """Return figure -> array (tenants,) or (tenants, resources), see `TenantFairness`."""
    units = sums.units
    money, share = _money(view, plan, sums.values, with_refunds=with_refunds), _shares(view.cluster.quota)
    revenue = float(money["own_value"].sum() + money["rented_value"].sum())
    gain = money["own_value"] + money["rented_value"] - money["paid"] + money["received"]
    total = view.cluster.total
    offered = units.offered[total > 0, :-1] / total[total > 0, None]
    contributed = offered.mean(axis=0) if offered.size else np.zeros(len(gain))
    waiting = [view.jobs[refusal.job].tenant for refusal in plan.refusals if refusal.state == WAITING]
    return {
        **money,
        **{name: getattr(units, name)[:, :-1].T for name in ("offered", "sold", "kept")},
        "gain": gain,
        "share": share,
        "contributed": contributed,
        "forgone": units.forgone[:-1],
        "ratio": _quotients(gain / revenue, share) if revenue > 0 else np.full(len(gain), np.nan),
        "reward": _quotients(money["earned"], contributed),
        "alone": np.array(sums.alone),
        "waiting": np.bincount(np.array(waiting, np.int64), minlength=len(gain)),
    }


def _quotients(amounts: FloatArray, weights: FloatArray) -> FloatArray:
    """Return amount / weight (tenants,); NaN where there is no weight."""
    return np.divide(amounts, weights, out=np.full(len(weights), np.nan), where=weights > 0)


def _money(
    view: View, plan: Plan, values: Sequence[tuple[Booking, float]], *, with_refunds: bool
) -> dict[str, FloatArray]:
    """Return the sums of money, each (tenants,). The value of a job that rents in pieces counts when its last piece is
    booked."""
    names = ("own_value", "rented_value", "paid", "received", "earned", "rent_saved")
    money = {name: np.zeros(len(view.cluster.tenants)) for name in names}
    for booking, value in values:
        phase = "rented_value" if booking.phase == SHARED else "own_value"
        money[phase][view.jobs[booking.job].tenant] += value
    for booking in plan.bookings:
        job = view.jobs[booking.job]
        money["paid"][job.tenant] += booking.paid
        if booking.payouts is None:
            continue
        others = booking.payouts[:-1].copy()
        own_part, others[job.tenant] = others[job.tenant], 0.0
        money["received"] += booking.payouts[:-1]
        money["earned"] += others
        money["rent_saved"][job.tenant] += booking.cost - (booking.paid - booking.dividend) + own_part
    for settled in plan.settlements if with_refunds else ():
        payer, others = view.jobs[settled.job].tenant, settled.reversal[:-1].copy()
        own_part, others[payer] = others[payer], 0.0
        money["paid"][payer] -= settled.refund
        money["received"] -= settled.reversal[:-1]
        money["earned"] -= others
        money["rent_saved"][payer] -= own_part
    return money


def _shares(quota: FloatArray) -> FloatArray:
    """Return each tenant's part of the quotas (tenants,), averaged over the resources of which anything is owned."""
    owned = quota.sum(axis=1)
    return (quota[owned > 0] / owned[owned > 0, None]).mean(axis=0) if owned.any() else np.zeros(quota.shape[1])


def _units(view: View, plan: Plan) -> _Units:
    shape = (len(view.cluster.resources), len(view.cluster.tenants) + 1)
    offered, sold, kept, forgone = np.zeros(shape), np.zeros(shape), np.zeros(shape), np.zeros(shape[1])
    for window in plan.windows:
        for_sale = window.idle.sum(axis=1)
        part = np.divide(window.rented, for_sale, out=np.zeros_like(for_sale), where=for_sale > 0)
        bought = window.idle * part[:, None]  # every sale is split by what each owner offered in the slot
        rest = np.zeros_like(window.idle)
        rest[:, :-1] = _idle_of_keepers(view, plan, window)
        offered, sold = offered + window.idle.sum(axis=2), sold + bought.sum(axis=2)
        kept = kept + rest.sum(axis=2)
        missed = ((window.idle - bought).clip(min=0.0) + rest) * window.prices[:, None]
        forgone = forgone + missed.sum(axis=(0, 2))
    return _Units(offered, sold, kept, forgone)


def _idle_of_keepers(view: View, plan: Plan, window: Window) -> FloatArray:
    """Return the units that tenants which keep their cells neither used nor offered, (resources, tenants, slots)."""
    cluster = view.cluster
    keeps = np.array([tenant.lend == "keep" for tenant in cluster.tenants], dtype=bool)
    if not keeps.any():
        return np.zeros_like(window.idle[:, :-1])
    used = np.zeros_like(window.idle[:, :-1])
    for booking in [*view.active, *plan.bookings]:
        job = view.jobs[booking.job]
        if booking.phase != OWN or not keeps[job.tenant]:
            continue
        worker, ps = job.worker_types[booking.worker_type].demand, job.ps_types[booking.ps_type].demand
        for row in booking.allocation:
            inside = slice(max(row.start - window.start, 0), max(row.end - window.start, 0))
            used[:, job.tenant, inside] += (row.workers * worker + row.ps * ps)[:, None]
    idle: FloatArray = (cluster.quota[:, :, None] - used - window.idle[:, :-1]).clip(min=0.0)
    return idle * keeps[:, None]


def _worst_off(rewards: FloatArray) -> int | None:
    """Return the tenant with the smallest of the rewards (tenants,), which are NaN where there is none; None if all are
    equal."""
    some = np.flatnonzero(~np.isnan(rewards))
    if not some.size or rewards[some].min() == rewards[some].max():
        return None
    return int(some[rewards[some].argmin()])


def _floats(array: FloatArray) -> tuple[float, ...]:
    return tuple(float(value) for value in array)
