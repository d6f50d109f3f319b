"""Small worlds for PD-ORS: views of servers that host both kinds of units, and jobs counted in samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from scheduling.core.policies.pdors import Pdors
from scheduling.core.posted.menu import PAPER
from scheduling.core.types import Cluster, FloatArray, Job, Samples, Tenant, UnitType, Value, View

SLOT_SECONDS = 3600.0


@dataclass(frozen=True)
class World:
    """Servers by what they have of each resource."""

    servers: Sequence[Sequence[float]]
    slots: int
    policy: Pdors

    @property
    def cluster(self) -> Cluster:
        resources, count = len(self.servers[0]), len(self.servers)
        return Cluster(
            resources=tuple(f"r{index}" for index in range(resources)),
            servers=tuple(f"s{index}" for index in range(count)),
            tenants=(Tenant("t", np.zeros(resources)),),
            slot_seconds=SLOT_SECONDS,
            capacity=np.array(self.servers, dtype=float).T,
            quota=np.zeros((resources, 1)),
            hosts_workers=np.ones(count, bool),
            hosts_ps=np.ones(count, bool),
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
        return np.zeros((len(self.servers[0]), self.slots, len(self.servers)))


def make_policy(*, floor: float, ceiling: Mapping[str, float], mode: str = PAPER, **fields: Any) -> Pdors:
    """PD-ORS with one floor, and ceilings by resource, as the paper has it unless the `mode` says otherwise."""
    return Pdors({"floor": floor, "ceiling": dict(ceiling)}, mode=mode, **fields)


def make_sample_job(
    number: int,
    *,
    arrival: float,
    value: Value,
    worker: Sequence[float],
    ps: Sequence[float],
    samples: float,
    batch: int,
    sample_slots: float = 1.0,
    exchange: float = 0.0,
    rates: tuple[float, float] = (1.0, 1.0),
    ratio: float = 1.0,
    epochs: int = 1,
    **fields: Any,
) -> Job:
    """A job in the papers' plain numbers: q = sample_slots + 2 * exchange * ratio / (rate * batch) slots, with the
    first of `rates` on one server and the second elsewhere."""
    megabytes = exchange * SLOT_SECONDS / 8  # a rate of 1 then moves an exchange of 1 in a slot
    return Job(
        number=number,
        name=f"J{number}",
        tenant=0,
        arrival=arrival,
        epochs=epochs,
        chunks=batch,
        minibatches=1,
        worker_types=(UnitType(np.array(worker, dtype=float), SLOT_SECONDS, rates[1]),),
        ps_types=(UnitType(np.array(ps, dtype=float), 0.0, rates[1]),),
        value=value,
        gradient_mb=megabytes,
        max_workers=fields.pop("max_workers", batch),
        samples=Samples(
            total=samples,
            batch_size=batch,
            seconds=sample_slots * SLOT_SECONDS,
            internal_mbps=rates[0],
            ps_ratio=ratio,
        ),
        **fields,
    )
