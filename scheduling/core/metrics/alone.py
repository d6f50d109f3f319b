"""What a tenant would have had alone, and which jobs got less than that."""

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
    """(tenants,) what each would have gained alone, on the run's own boundaries: its jobs' floor values.

    None where the policy gives no floors. A job that the end of the run left waiting for a floor still to come, or with
    a draft, counts for nothing: it would wait alone, too. A job of the instant lane counts for what its tenant's own
    cells would have given it as it asked: those that were idle then, neither used by the tenant nor sold for it.
    """
    due = list(_floors_due(outcome))
    if not due and all(track.floor is None for track in outcome.tracks):
        return None
    alone = np.zeros(len(scenario.cluster.tenants))
    for track, floor in due:
        alone[track.job.tenant] += floor.value
    return alone


def alone_scenario(scenario: Scenario, tenant: int) -> Scenario:
    """The same scenario with one tenant's cells as the whole cluster and no jobs but its own.

    Where quotas are mere counts they are dealt to servers first. Tenants and jobs keep their numbers, so that
    whatever is drawn for a job is drawn alike in both worlds. Who owns nothing runs nothing: its world has no jobs.
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
    """The jobs whose value less payment fell short of what their owner would have had alone (Astraea, G10)."""
    return [track.job.number for track, floor in _floors_due(outcome) if _below(net(track), floor.value)]


def worse_off(rows: Iterable[dict[str, Any]]) -> list[str]:
    """The tenants of `tenant_rows` that gained less than they would have alone."""
    comparisons = [row for row in rows if row["alone"] is not None]
    return [row["name"] for row in comparisons if _below(row["gain"], row["alone"])]


def _floors_due(outcome: RunOutcome) -> Iterator[tuple[JobTrack, Floor]]:
    """The floors, but for those of jobs that wait for one beyond the last window decided; and what jobs that were
    admitted at once would have had at home, which their bookings say."""
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
