"""HiveD: every tenant's virtual cluster is made of cells, which are there whenever their owner needs them.

A guaranteed job starts in its owner's cells, first in, first out, as soon as they hold its gang, and keeps them until
it is done. A job that must wait may meanwhile run as an opportunistic one, slot by slot, on what is idle in the whole
cluster. When the cells' owner needs them, the job is interrupted, keeps what it has done, and waits again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any, ClassVar

import numpy as np

from scheduling.core.gangs import GangUnits, gangs, workers_asked
from scheduling.core.policies.hived.cells import VirtualClusters, WholeUnits, homes, place
from scheduling.core.policies.hived.idle import Idle, named
from scheduling.core.scenario.fields import BadScenario, Section, quoted, whole_or_range
from scheduling.core.slot_bookings import slot_booking
from scheduling.core.speed import TOLERANCE, ceiling
from scheduling.core.types import (
    OWN,
    REJECTED,
    SHARED,
    Booking,
    Cluster,
    FloatArray,
    Job,
    Plan,
    Reason,
    Refusal,
    View,
)

MOST_LOST = 0.9  # the most of a slot that a start can cost, however long it takes


@dataclass(frozen=True)
class Hived:
    """The policy. `workers` is as in FIFO. Without `opportunistic` a job runs in its owner's cells or not at all. An
    opportunistic job that resumes or moves loses `restart` seconds of the slot."""

    name: ClassVar[str] = "hived"
    workers: int | tuple[int, int] = (1, 30)
    opportunistic: bool = True
    restart: float = 0.0
    seed: int = 1

    def decide(self, view: View) -> Plan:
        """Book the guaranteed starts of every tenant, then one slot for waiting jobs that find idle cells."""
        virtual = VirtualClusters(view)
        asks = _Asks(self, view)
        bookings: list[Booking] = []
        refusals: list[Refusal] = []
        waiting: list[tuple[Job, float, GangUnits]] = []
        blocked: set[int] = set()
        for job, remaining in zip(view.waiting, view.remaining.tolist(), strict=True):
            gang, guaranteed = asks.gang(job)
            if gang is None:
                refusals.append(Refusal(job.number, Reason("no_room", {"asked": job.min_workers}), REJECTED))
                continue
            if guaranteed and job.tenant not in blocked:
                booking = _guaranteed(job, remaining, gang, virtual, asks)
                if booking is not None:
                    bookings.append(booking)
                    asks.take(job, booking)
                    continue
                blocked.add(job.tenant)
            waiting.append((job, remaining, gang))
        memory: dict[str, Any] = {"places": {}, "slot": view.slot}
        if self.opportunistic:
            idle = Idle(asks.free_now() - virtual.spare, view.cluster)
            waiting = [row for row in waiting if not self._runs(row, idle, view, bookings, memory)]
        refusals += [Refusal(job.number, Reason("no_room", {"asked": gang.workers})) for job, _, gang in waiting]
        return Plan(bookings, refusals, memory=memory)

    def _runs(
        self, row: tuple[Job, float, GangUnits], idle: Idle, view: View, bookings: list[Booking], memory: dict[str, Any]
    ) -> bool:
        """Book and remember the job if it gets the coming slot on idle cells. Return whether it does."""
        job, remaining, gang = row
        before = view.memory.get("places", {}).get(str(job.number))
        placement = idle.place(job, gang, before)
        if placement is None:
            return False
        places = [list(placement.workers), list(placement.ps)]
        memory["places"][str(job.number)] = places
        begun = remaining < job.work * (1.0 - TOLERANCE)
        goes_on = before == places and view.memory.get("slot") == view.slot - 1
        lost = 0.0 if goes_on or not begun else min(MOST_LOST, self.restart / view.cluster.slot_seconds)
        booking = slot_booking(job, remaining, placement, view, SHARED)
        if lost:
            done = slot_booking(job, float("inf"), placement, view).work * (1.0 - lost)
            if done < remaining - TOLERANCE * job.work:
                booking = replace(booking, work=done, value=0.0, ideal=0.0)
        bookings.append(booking)
        return True


class _Asks:
    """The gang of every job, and what is free for a guaranteed one."""

    def __init__(self, settings: Hived, view: View) -> None:
        self.settings, self.view, self.cluster = settings, view, view.cluster
        self.answers = _answers(view.cluster)
        self.now = view.occupied[:, 0].copy() if view.occupied.shape[1] else np.zeros_like(view.cluster.capacity)

    def gang(self, job: Job) -> tuple[GangUnits | None, bool]:
        """Return the gang that the job asks for, halved until it fits, and whether its owner's cells could ever hold
        that."""
        workers = workers_asked(job, self.settings.workers, self.settings.seed)
        own = next((gang for gang in gangs(job, workers) if self._holds(job, gang, job.tenant)), None)
        if own is not None or not self.settings.opportunistic:
            return own, own is not None
        return next((gang for gang in gangs(job, workers) if self._holds(job, gang, None)), None), False

    @cached_property
    def stays_free(self) -> bool:
        """Return whether what is free in the coming slot is free in all later ones. It goes through the whole calendar,
        so it is worked out only if a job may begin."""
        occupied = self.view.occupied
        return bool((occupied[:, 1:] <= occupied[:, :-1]).all())

    @cached_property
    def later(self) -> FloatArray:
        """Return (resources, slots, servers) what is in use from the coming slot on. It is needed only where that does
        not just become less."""
        return self.view.occupied.copy()

    def free_now(self) -> FloatArray:
        """Return (resources, servers) what is free in the coming slot."""
        return self.cluster.capacity - self.now

    def free_until(self, slots: int) -> FloatArray:
        """Return (resources, servers) what is free in each of the next `slots` slots."""
        if self.stays_free:
            return self.free_now()
        free: FloatArray = self.cluster.capacity - self.later[:, :slots].max(axis=1)
        return free

    def take(self, job: Job, booking: Booking) -> None:
        """Take the units of a guaranteed job that begins now."""
        worker, ps = job.worker_types[booking.worker_type].demand, job.ps_types[booking.ps_type].demand
        for row in booking.allocation:
            amounts = row.workers * worker + row.ps * ps
            self.now[:, row.server] += amounts
            if not self.stays_free:
                self.later[:, : booking.end - self.view.slot, row.server] += amounts[:, None]

    def _holds(self, job: Job, gang: GangUnits, tenant: int | None) -> bool:
        """Return whether the tenant's cells, or for None the whole cluster, could ever hold the gang."""
        key = (tenant, gang.workers, gang.ps, *named(job, gang))
        if key not in self.answers:
            where = self.cluster.capacity if tenant is None else homes(self.cluster)[:, tenant]
            self.answers[key] = place(job, gang, WholeUnits(where, self.cluster)) is not None
        return self.answers[key]


@lru_cache(maxsize=16)
def _answers(cluster: Cluster) -> dict[tuple[object, ...], bool]:
    """Return the cache of which gangs the cells could ever hold, by tenant and demand. It depends on the cluster alone,
    which never changes."""
    del cluster
    return {}


def _guaranteed(job: Job, remaining: float, gang: GangUnits, virtual: VirtualClusters, asks: _Asks) -> Booking | None:
    """Book the job's gang in its owner's cells from now until it is done. Return None if it must wait."""
    if not virtual.could_hold(job, gang):
        return None
    view = virtual.view
    longest = max(1, ceiling(remaining / gang.rate(job, view.cluster.slot_seconds)))
    placement = virtual.place(job, gang, asks.free_until(longest))
    if placement is None:
        return None
    end = view.slot + max(1, ceiling(remaining / placement.rate(job, view.cluster.slot_seconds)))
    return Booking(
        job=job.number,
        start=view.slot,
        end=end,
        allocation=placement.allocation(view.slot, end),
        work=remaining,
        workers=gang.workers,
        ps=gang.ps,
        worker_type=gang.worker_type,
        ps_type=gang.ps_type,
        phase=OWN,
        placement=placement.kind,
        value=float(job.value(end - job.arrival)),
        ideal=float(job.value(end - view.slot)),
    )


def build(fields: Mapping[str, Any], cluster: Cluster, jobs: Sequence[Job]) -> Hived:
    """Build HiveD with the settings of a scenario."""
    section = Section(fields, "policy", ("workers", "opportunistic", "restart", "seed"))
    opportunistic = section.raw("opportunistic", Hived.opportunistic)
    if not isinstance(opportunistic, bool):
        raise BadScenario("policy.opportunistic", f"must be true or false, not {quoted(opportunistic)}")
    return Hived(
        workers=whole_or_range(section.raw("workers", Hived.workers), "policy.workers"),
        opportunistic=opportunistic,
        restart=section.number("restart", Hived.restart, least=0.0),
        seed=section.whole("seed", Hived.seed, least=0),
    )
