"""The price of a booking of one slot at posted prices, and the payouts to the owners."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from scheduling.core.types import OWN, SHARED, Booking, Cluster, FloatArray, Job, View


class NotOneSlot(RuntimeError):
    """The policy of an elastic pool booked more than the coming slot."""


def owners_shares(cluster: Cluster) -> FloatArray:
    """Return (resources, owners, servers) each owner's part of each server's units. Where there are no cells, the parts
    follow from the tenants' counts and are the same on all servers. Where a server has no units, the operator has the
    whole part."""
    if cluster.cells is None:
        owned = np.repeat(cluster.shares[:, :, None], len(cluster.servers), axis=2)
    else:
        owned = np.concatenate([cluster.cells, cluster.operator_cells[:, None, :]], axis=1)
    total = owned.sum(axis=1, keepdims=True)
    shares: FloatArray = np.divide(owned, total, out=np.zeros_like(owned), where=total > 0)
    shares[:, -1] += total[:, 0] <= 0
    return shares


def units_of(booking: Booking, job: Job, resources: int, servers: int) -> FloatArray:
    """Return (resources, servers) the units that a booking of one slot takes."""
    worker, ps = job.worker_types[booking.worker_type].demand, job.ps_types[booking.ps_type].demand
    units = np.zeros((resources, servers))
    for row in booking.allocation:
        units[:, row.server] += row.workers * worker + row.ps * ps
    return units


def priced(booking: Booking, view: View, rates: FloatArray, shares: FloatArray) -> Booking:
    """Return the booking with its cost and the payouts to the owners."""
    if (booking.start, booking.end) != (view.slot, view.slot + 1):
        raise NotOneSlot(f"job {booking.job}: [{booking.start}, {booking.end}) in slot {view.slot}")
    job, least = view.jobs[booking.job], view.cluster.least_payment
    units = units_of(booking, job, len(rates), shares.shape[2])
    costs = units * rates[:, None]
    payouts = np.einsum("rs,ros->o", costs, shares)
    payouts[job.tenant] = 0.0
    cost = float(costs.sum())
    if payouts.sum() < least:
        payouts = _at_least(least, payouts, units, shares, job.tenant)
        cost = max(cost, float(payouts.sum()))
    paid = float(payouts.sum())
    amounts = {"payouts": payouts, "slot_payouts": payouts[None, :]} if paid > 0 else {}
    return replace(booking, cost=cost, paid=paid, phase=OWN if paid <= 0 < cost else SHARED, **amounts)


def _at_least(least: float, payouts: FloatArray, units: FloatArray, shares: FloatArray, payer: int) -> FloatArray:
    """Return (owners,) payouts that sum to the least that can be paid for a slot. They go to the owners who are paid,
    in proportion. Where nothing is charged they go to the other tenants by what is taken of theirs; the operator may
    give its own units for nothing."""
    weights = payouts
    if not weights.any():
        weights = np.einsum("rs,ros->o", units, shares)
        weights[[payer, -1]] = 0.0
    return weights * (least / weights.sum()) if weights.any() else payouts
