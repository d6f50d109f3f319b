"""Small worlds for OASiS: views with separate hosts for workers and parameter servers, and their plain numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from scheduling.core.policies.oasis import Oasis
from scheduling.core.posted.menu import PAPER
from scheduling.core.types import Cluster, FloatArray, Job, Tenant, UnitType, Value, View

SLOT_SECONDS = 3600.0


@dataclass(frozen=True)
class World:
    """Worker servers first, then servers for parameter servers; amounts taken beforehand are (slots, servers, r)."""

    worker_servers: Sequence[Sequence[float]]
    ps_servers: Sequence[Sequence[float]]
    slots: int
    policy: Oasis

    @property
    def cluster(self) -> Cluster:
        servers = [*self.worker_servers, *self.ps_servers]
        resources = len(servers[0])
        return Cluster(
            resources=tuple(f"r{index}" for index in range(resources)),
            servers=tuple(f"s{index}" for index in range(len(servers))),
            tenants=(Tenant("t", np.zeros(resources)),),
            slot_seconds=SLOT_SECONDS,
            capacity=np.array(servers, dtype=float).T,
            quota=np.zeros((resources, 1)),
            hosts_workers=np.array([True] * len(self.worker_servers) + [False] * len(self.ps_servers)),
            hosts_ps=np.array([False] * len(self.worker_servers) + [True] * len(self.ps_servers)),
        )

    def view(self, job: Job, occupied: FloatArray) -> View:
        """The view at the job's first slot; `occupied` is (resources, slots, servers) from slot 0."""
        return View(
            slot=job.first_slot,
            horizon=self.slots,
            cluster=self.cluster,
            waiting=(job,),
            remaining=np.array([job.work]),
            occupied=occupied[:, job.first_slot :],
            jobs={job.number: job},
        )

    def empty(self) -> FloatArray:
        """Nothing occupied: (resources, slots, servers)."""
        return np.zeros((len(self.cluster.resources), self.slots, len(self.cluster.servers)))


def make_policy(
    *,
    floors: tuple[float, float],
    ceilings: tuple[Mapping[str, float], Mapping[str, float]],
    units: str = "worker_slots",
    mode: str = PAPER,
) -> Oasis:
    """OASiS with (worker, ps) floors and ceilings, as the paper has it unless the `mode` says otherwise."""
    worker, ps = ({"floor": floor, "ceiling": dict(ceiling)} for floor, ceiling in zip(floors, ceilings, strict=True))
    return Oasis(worker, ps, units, mode)


def make_instant_job(
    number: int,
    *,
    arrival: float,
    value: Value,
    worker: Sequence[float],
    ps: Sequence[float],
    minibatch_slots: float = 1.0,
    bandwidths: tuple[float, float] = (1.0, 1.0),
    **fields: Any,
) -> Job:
    """A job whose mini-batch takes so many slots of computing and no exchange."""
    return Job(
        number=number,
        name=f"J{number}",
        tenant=0,
        arrival=arrival,
        minibatches=fields.pop("minibatches", 1),
        worker_types=(UnitType(np.array(worker, dtype=float), minibatch_slots * SLOT_SECONDS, bandwidths[0]),),
        ps_types=(UnitType(np.array(ps, dtype=float), 0.0, bandwidths[1]),),
        value=value,
        max_workers=fields.pop("max_workers", fields["chunks"]),
        **fields,
    )
