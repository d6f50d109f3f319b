"""Builders of core values for tests. A test states only what it is about; the rest has plain, valid values.

Units are easy to compute with: one slot is one hour, a worker trains one mini-batch in a slot, and the resources are
"worker" and "ps".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from scheduling.core.scenario import Preload, Scenario
from scheduling.core.types import Cluster, Job, Tenant, UnitType, Value, View
from scheduling.core.value import Linear

SLOT_SECONDS = 3600.0
RESOURCES = ("worker", "ps")


def make_unit_type(demand: Sequence[float] = (1, 0), *, seconds: float = SLOT_SECONDS, mbps: float = 1.0) -> UnitType:
    """Return a worker (or, with other numbers, a parameter server) by the amounts that one unit of it takes."""
    return UnitType(demand=np.asarray(demand, dtype=np.float64), seconds=seconds, mbps=mbps)


def make_worker(*, seconds: float = SLOT_SECONDS, mbps: float = 1.0) -> UnitType:
    """Return a worker that takes one unit of the first resource."""
    return make_unit_type((1, 0), seconds=seconds, mbps=mbps)


def make_ps(*, seconds: float = 0.0, mbps: float = 1.0) -> UnitType:
    """Return a parameter server that takes one unit of the second resource."""
    return make_unit_type((0, 1), seconds=seconds, mbps=mbps)


def make_job(
    number: int = 0,
    *,
    tenant: int = 0,
    arrival: float = 0.0,
    epochs: int = 1,
    chunks: int = 1,
    minibatches: int = 1,
    worker_types: Sequence[UnitType] | None = None,
    ps_types: Sequence[UnitType] | None = None,
    value: Value | None = None,
    max_workers: int | None = None,
    **fields: Any,
) -> Job:
    """Return a job. `name` follows from the number, and `max_workers` from the chunks."""
    return Job(
        number=number,
        name=fields.pop("name", f"j{number}"),
        tenant=tenant,
        arrival=arrival,
        epochs=epochs,
        chunks=chunks,
        minibatches=minibatches,
        worker_types=tuple(worker_types or (make_worker(),)),
        ps_types=tuple(ps_types or (make_ps(),)),
        value=value or Linear(slope=-1.0, base=100.0),
        max_workers=chunks if max_workers is None else max_workers,
        **fields,
    )


def make_tenant(name: str = "u0", *, reserve_price: Sequence[float] | None = None, **fields: Any) -> Tenant:
    """Return a tenant that lends all that it has and rents without limit."""
    return Tenant(name=name, reserve_price=np.asarray(reserve_price or (0.0, 0.0)), **fields)


def make_cluster(
    capacity: Sequence[Sequence[float]] = ((4,), (2,)),
    *,
    quota: Sequence[Sequence[float]] | None = None,
    cells: Sequence[Sequence[Sequence[float]]] | None = None,
    tenants: Sequence[Tenant] | None = None,
    resources: Sequence[str] = RESOURCES,
    slot_seconds: float = SLOT_SECONDS,
    hosts_workers: Sequence[bool] | None = None,
    hosts_ps: Sequence[bool] | None = None,
) -> Cluster:
    """Return a cluster by `capacity` (resources, servers). The quota is the cells' sum; without both, one tenant owns
    all."""
    units = np.asarray(capacity, dtype=np.float64)
    if quota is None:
        quota = np.asarray(cells).sum(axis=2) if cells is not None else units.sum(axis=1, keepdims=True)
    owned = np.asarray(quota, dtype=np.float64)
    if tenants is None:
        nothing = (0.0,) * len(resources)
        tenants = [make_tenant(f"u{index}", reserve_price=nothing) for index in range(owned.shape[1])]
    servers = units.shape[1]
    return Cluster(
        resources=tuple(resources),
        servers=tuple(f"s{index}" for index in range(servers)),
        tenants=tuple(tenants),
        slot_seconds=slot_seconds,
        capacity=units,
        quota=owned,
        hosts_workers=np.ones(servers, bool) if hosts_workers is None else np.asarray(hosts_workers),
        hosts_ps=np.ones(servers, bool) if hosts_ps is None else np.asarray(hosts_ps),
        cells=None if cells is None else np.asarray(cells, dtype=np.float64),
    )


def make_scenario(
    jobs: Sequence[Job] = (),
    *,
    cluster: Cluster | None = None,
    slots: int = 64,
    policy: Mapping[str, Any] | None = None,
    preload: Sequence[Preload] = (),
) -> Scenario:
    """Return a scenario of jobs on a cluster for `slots` slots."""
    return Scenario(
        cluster=cluster or make_cluster(),
        jobs=tuple(jobs),
        slots=slots,
        policy=policy or {"name": "astraea"},
        preload=tuple(preload),
    )


def make_view(
    waiting: Sequence[Job] = (),
    *,
    slot: int = 0,
    cluster: Cluster | None = None,
    horizon: int = 64,
    occupied: np.ndarray | None = None,
    **fields: Any,
) -> View:
    """Return the view of a policy at a boundary before which nothing happened."""
    cluster = cluster or make_cluster()
    empty = np.zeros((len(cluster.resources), 0, len(cluster.servers)))
    return View(
        slot=slot,
        horizon=horizon,
        cluster=cluster,
        waiting=tuple(waiting),
        remaining=np.array([float(job.work) for job in waiting]),
        occupied=empty if occupied is None else occupied,
        jobs=fields.pop("jobs", {job.number: job for job in waiting}),
        **fields,
    )
