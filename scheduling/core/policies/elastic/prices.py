"""What a booking of one slot costs at posted prices, and who is paid."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from scheduling.core.types import OWN, SHARED, Booking, Cluster, FloatArray, Job, View


class NotOneSlot(RuntimeError):
    """The policy of an elastic pool booked more than the coming slot."""


def owners_shares(cluster: Cluster) -> FloatArray:
    """(resources, owners, servers) the part of each server's units that is each owner's; counts say it for all
    servers alike where there are no cells. What nobody has is the operator's."""
    if cluster.cells is None:
        owned = np.repeat(cluster.shares[:, :, None], len(cluster.servers), axis=2)
    else:
        owned = np.concatenate([cluster.cells, cluster.operator_cells[:, None, :]], axis=1)
    total = owned.sum(axis=1, keepdims=True)
    shares: FloatArray = np.divide(owned, total, out=np.zeros_like(owned), where=total > 0)
    shares[:, -1] += total[:, 0] <= 0
    return shares


def slot_costs(booking: Booking, job: Job, rates: FloatArray, servers: int) -> FloatArray:
    """(resources, servers) credits for what a booking of one slot takes."""
    worker, ps = job.worker_types[booking.worker_type].demand, job.ps_types[booking.ps_type].demand
    taken = np.zeros((len(rates), servers))
    for row in booking.allocation:
        taken[:, row.server] += row.workers * worker + row.ps * ps
    costs: FloatArray = taken * rates[:, None]
    return costs


def priced(booking: Booking, view: View, rates: FloatArray, shares: FloatArray) -> Booking:
    """The booking with what it costs and who is paid."""
    if (booking.start, booking.end) != (view.slot, view.slot + 1):
        raise NotOneSlot(f"job {booking.job}: [{booking.start}, {booking.end}) in slot {view.slot}")
    job = view.jobs[booking.job]
    costs = slot_costs(booking, job, rates, shares.shape[2])
    payouts = np.einsum("rs,ros->o", costs, shares)
    payouts[job.tenant] = 0.0
    paid = float(payouts.sum())
    amounts = {"payouts": payouts, "slot_payouts": payouts[None, :]} if paid > 0 else {}
    at_home = paid <= 0 < costs.sum()
    return replace(booking, cost=float(costs.sum()), paid=paid, phase=OWN if at_home else SHARED, **amounts)
