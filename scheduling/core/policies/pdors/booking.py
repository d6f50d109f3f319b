"""Make a booking of a chosen schedule: its rows, and the payouts to the owners."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from scheduling.core.policies.pdors.quote import BestGangs
from scheduling.core.policies.pdors.solver import Deployment
from scheduling.core.posted.answers import payment, terms
from scheduling.core.posted.market import PostedMarket
from scheduling.core.posted.pieces import merged
from scheduling.core.types import CENTRALIZED, DISTRIBUTED, Allocation, Booking, FloatArray, Job


def book(job: Job, best: BestGangs, market: PostedMarket, mode: str, floor: float) -> Booking:
    """Book the deployments, and split the payment of each slot by what was bought from each owner.

    `floor` is the value that the job would have had, for nothing, on its tenant's own idle cells.
    """
    deployments = {offset: deployment for offset, deployment in enumerate(best.deployments) if deployment is not None}
    pieces: list[Allocation] = []
    credits = np.zeros((len(best.deployments), len(market.cluster.owners)))
    for offset, deployment in deployments.items():
        pieces.extend(_pieces(best.first + offset, deployment))
        row = best.first - market.slot + offset
        credits[offset] = market.owners_of(_amounts(job, best, deployment, offset), min(row, market.rows - 1))
    begin, end = min(deployments), max(deployments) + 1
    return Booking(
        job=job.number,
        start=best.first + begin,
        end=best.first + end,
        allocation=merged(pieces),
        work=float(job.work),
        workers=max(int(deployment.workers.sum()) for deployment in deployments.values()),
        ps=max(int(deployment.ps.sum()) for deployment in deployments.values()),
        worker_type=best.worker_type,
        ps_type=best.ps_type,
        placement=CENTRALIZED if all(best.internal) else DISTRIBUTED,
        **terms(job, best.choice, mode, first=best.first, end=best.first + end, floor=floor),
        **payment(best.choice, credits[begin:end]),
    )


def _amounts(job: Job, best: BestGangs, deployment: Deployment, offset: int) -> FloatArray:
    """Return (resources, servers) what a deployment costs in its slot."""
    worker, ps = job.worker_types[best.worker_type].demand, job.ps_types[best.ps_type].demand
    prices = best.slots.prices[:, min(offset, best.slots.prices.shape[1] - 1)]
    return prices * (worker[:, None] * deployment.workers + ps[:, None] * deployment.ps)


def _pieces(slot: int, deployment: Deployment) -> Iterable[Allocation]:
    for server in np.flatnonzero((deployment.workers > 0) | (deployment.ps > 0)).tolist():
        yield Allocation(server, slot, slot + 1, int(deployment.workers[server]), int(deployment.ps[server]))
