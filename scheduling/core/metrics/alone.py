"""Compute what tenants would have gained alone, and which jobs got less than that."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from scheduling.core.cells import deal_cells
from scheduling.core.metrics.books import TOLERANCE, JobTrack, RunOutcome, net
from scheduling.core.scenario import Scenario
from scheduling.core.types import INSTANT, WAITING, FloatArray, Floor


def alone_gains(scenario: Scenario, outcome: RunOutcome) -> FloatArray | None:
    """Return what each tenant would have gained alone (tenants,), on the run's own boundaries: its jobs' floor values.

    Return None if the policy gives no floors. A job that at the end of the run still waits for its floor to begin, or
    has a draft, counts 0: it would wait alone, too. A job of the instant lane counts what its tenant's own cells would
    have given it when it was submitted: those that were idle then, neither used by the tenant nor sold for it.
    """
    due = list(_floors_due(outcome))
    if not due and all(track.floor is None for track in outcome.tracks):
        return None
    alone = np.zeros(len(scenario.cluster.tenants))
    for track, floor in due:
        alone[track.job.tenant] += floor.value
    return alone


def alone_scenario(scenario: Scenario, tenant: int) -> Scenario:
    """Return the scenario with one tenant's cells as the whole cluster and only that tenant's jobs.

    Quotas that are mere counts are dealt to servers first. Tenants and jobs keep their numbers, so that all that is
    drawn for a job is the same in both worlds. A tenant without cells can run nothing, so its scenario has no jobs.
    """
    cluster = scenario.cluster
    cells = deal_cells(cluster.capacity, cluster.quota) if cluster.cells is None else cluster.cells
    servers = np.flatnonzero(cells[:, tenant].any(axis=0))
    cells_left = np.zeros_like(cells[:, :, servers])
    cells_left[:, tenant] = cells[:, tenant][:, servers]
    home = replace(
        cluster,
        servers=tuple(cluster.servers[server] for server in servers),
        capacity=cells_left[:, tenant],
        quota=cells_left.sum(axis=2),
        hosts_workers=cluster.hosts_workers[servers],
        hosts_ps=cluster.hosts_ps[servers],
        cells=None if cluster.cells is None else cells_left,
    )
    own = tuple(job for job in scenario.jobs if job.tenant == tenant and len(servers))
    return replace(scenario, cluster=home, jobs=own, preload=())


def below_floor(outcome: RunOutcome) -> list[int]:
    """Return the jobs whose value less payment is below what their owner would have had alone (Astraea, G10)."""
    return [track.job.number for track, floor in _floors_due(outcome) if _below(net(track), floor.value)]


def worse_off(rows: Iterable[dict[str, Any]]) -> list[str]:
    """Return the names of the tenants in `tenant_rows` that gained less than they would have alone."""
    comparisons = [row for row in rows if row["alone"] is not None]
    return [row["name"] for row in comparisons if _below(row["gain"], row["alone"])]


def _floors_due(outcome: RunOutcome) -> Iterator[tuple[JobTrack, Floor]]:
    """Yield each job with the floor that was due to it. A floor that starts after the last decided window is left out
    while its job waits, and a draft counts as a floor of 0. For a job that was admitted at once it is what the job
    would have had at home, as its bookings say."""
    decided = max((window.end for window in outcome.windows), default=0)
    for track in outcome.tracks:
        if track.floor is not None and track.floor.draft:
            yield track, Floor(track.job.number)
        elif track.floor is not None and (track.state != WAITING or track.floor.start < decided):
            yield track, track.floor
        elif track.floor is None and track.job.lane == INSTANT:
            yield from ((track, Floor(track.job.number, b.floor)) for b in track.bookings if b.floor > 0)


def _below(amount: float, promised: float) -> bool:
    return amount < promised - TOLERANCE * max(1.0, abs(promised))
