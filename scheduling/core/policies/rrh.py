"""Risk-reward: jobs run in order of what they earn less the cost of delaying others, with a fixed number of workers.

A job is admitted when it arrives if its value at the end of its run is worth more than what the other jobs lose by
waiting for it. At every arrival and completion the admitted jobs are sorted anew. Those that fit run; the others
pause, free of charge, and keep their progress.

    yield            F_i = f_i at the end of a run that begins now and takes RPT_i slots
    cost of delay    C_i = sum over competing j of max(0, F_j - f_j if j begins only when i has ended)
    reward           (alpha F_i / (1 + delta RPT_i) - (1 - alpha) C_i) / (RPT_i (n_w + n_s))
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from scheduling.core.empty import fits_empty
from scheduling.core.gangs import GangUnits, gangs, workers_asked
from scheduling.core.placement import Cursors, Placement, Vacancies
from scheduling.core.scenario.fields import Section, whole_or_range
from scheduling.core.speed import TOLERANCE, ceiling
from scheduling.core.types import (
    REJECTED,
    WAITING,
    Booking,
    Cluster,
    FloatArray,
    Job,
    Plan,
    Reason,
    Refusal,
    UnitType,
    View,
)


@dataclass(frozen=True)
class Rrh:
    """The policy. `alpha` weighs yield against the cost of delay, `delta` discounts yields that lie far ahead, and a
    job whose yield does not exceed its cost of delay by more than `threshold` is not admitted. `workers` is as in
    FIFO."""

    name: ClassVar[str] = "rrh"
    workers: int | tuple[int, int] = (1, 30)
    alpha: float = 0.5
    delta: float = 0.0
    threshold: float = 0.0
    seed: int = 1

    def decide(self, view: View) -> Plan:
        """Book one slot for every admitted job that runs in it."""
        rows: Mapping[str, Any] = view.memory.get("runs", {})
        runs: list[_Run] = []
        refusals: list[Refusal] = []
        free = (view.cluster.capacity - view.occupied[:, :1].sum(axis=1)).sum(axis=1)
        for job, remaining in zip(view.waiting, view.remaining.tolist(), strict=True):
            if str(job.number) in rows:
                runs.append(_Run.read(job, remaining, rows[str(job.number)]))
                continue
            answer = self._admitted(job, remaining, runs, view, free)
            if isinstance(answer, _Run):
                runs.append(answer)
            else:
                refusals.append(Refusal(job.number, answer, REJECTED))
        numbers = [run.job.number for run in runs]
        if view.memory.get("jobs") != numbers or not _as_dealt(runs, view):
            self._deal(runs, view, free)
        bookings = [_booking(run, view) for run in runs if run.placement is not None]
        refusals += [
            Refusal(run.job.number, Reason("no_room", {"asked": run.gang.workers}), WAITING)
            for run in runs
            if run.placement is None
        ]
        memory = {"jobs": numbers, "runs": {str(run.job.number): run.memory() for run in runs}}
        return Plan(bookings, refusals, memory=memory)

    def _admitted(
        self, job: Job, remaining: float, runs: Sequence[_Run], view: View, free: FloatArray
    ) -> _Run | Reason:
        """Return the job with its gang, or why it is not admitted."""
        workers_wanted = workers_asked(job, self.workers, self.seed)
        gang = next((gang for gang in gangs(job, workers_wanted) if fits_empty(job, gang, view.cluster)), None)
        if gang is None:
            return Reason("no_room", {"asked": job.min_workers})
        run = _Run(job, remaining, gang)
        begin = _earliest_start(run, runs, view, free)
        gain = run.worth(begin + run.slots(view.cluster))
        cost = float(delay_costs([*runs, run], view, free)[-1])
        if gain - cost > self.threshold:
            return run
        return Reason("not_worth_it", {"best_value": gain, "delay_cost": cost})

    def _deal(self, runs: Sequence[_Run], view: View, free: FloatArray) -> None:
        """Place the runs in order of reward: where they were if that is free, else round robin. The rest pause."""
        costs = delay_costs(runs, view, free)
        rewards = [self.reward(run, float(cost), view) for run, cost in zip(runs, costs, strict=True)]
        room = Vacancies(view.cluster, view.occupied)
        cursors = Cursors()
        ranked = sorted(
            zip(rewards, runs, strict=True), key=lambda row: (-row[0], row[1].job.arrival, row[1].job.number)
        )
        for _, run in ranked:
            held = run.placement
            run.placement = None
            if held is not None and run.fits_at(held, room):
                run.placement = held
            elif (placement := room.place(run.job, run.gang, cursors)) is not None:
                run.placement, cursors = placement, placement.cursors

    def reward(self, run: _Run, delay_cost: float, view: View) -> float:
        """Return what one unit of the run earns in one slot."""
        slots = run.slots(view.cluster)
        gain = run.worth(view.slot + slots) / (1.0 + self.delta * slots)
        return (self.alpha * gain - (1.0 - self.alpha) * delay_cost) / (slots * (run.gang.workers + run.gang.ps))


@dataclass(eq=False)
class _Run:
    """An admitted job, with its gang, which never changes, and its placement in the coming slot, None if it pauses."""

    job: Job
    remaining: float
    gang: GangUnits
    placement: Placement | None = None

    @classmethod
    def read(cls, job: Job, remaining: float, row: Sequence[Any]) -> _Run:
        gang = GangUnits(*row[0])
        placement = None if row[1] is None else Placement(gang, row[1], row[2], Cursors())
        return cls(job, remaining, gang, placement)

    def memory(self) -> list[Any]:
        gang = [self.gang.workers, self.gang.ps, self.gang.worker_type, self.gang.ps_type]
        if self.placement is None:
            return [gang, None, None]
        return [gang, list(self.placement.workers), list(self.placement.ps)]

    def slots(self, cluster: Cluster) -> int:
        """Return RPT, the slots to the end: at the speed of its placement, or spread over servers if it pauses."""
        where = self.gang if self.placement is None else self.placement
        return max(1, ceiling(self.remaining / where.rate(self.job, cluster.slot_seconds)))

    def worth(self, end: int) -> float:
        """Return the value of the job if it completes at `end`."""
        return float(self.job.value(end - self.job.arrival))

    @property
    def units(self) -> tuple[UnitType, UnitType]:
        """Return the types that the job runs on: worker, parameter server."""
        return self.job.worker_types[self.gang.worker_type], self.job.ps_types[self.gang.ps_type]

    def demand(self) -> FloatArray:
        """Return the amounts (resources,) that the whole gang takes."""
        worker, ps = self.units
        return self.gang.workers * worker.demand + self.gang.ps * ps.demand

    def fits_at(self, placement: Placement, room: Vacancies) -> bool:
        """Take the placement's servers if they still hold the whole gang, and return whether they do."""
        return room.take_again(self.units, (placement.workers, placement.ps))


def delay_costs(runs: Sequence[_Run], view: View, free: FloatArray) -> FloatArray:
    """Return the cost of delay C (runs,) of each run. Two runs compete if both take a resource of which all runs
    together want more than is `free` (resources,)."""
    if not runs:
        return np.zeros(0)
    demands = np.array([run.demand() for run in runs])
    wanted = (demands > 0) & (demands.sum(axis=0) > free + TOLERANCE)
    slots = np.array([run.slots(view.cluster) for run in runs])
    costs = np.zeros(len(runs))
    for j in np.flatnonzero(wanted.any(axis=1)).tolist():
        delayed_by = (wanted & wanted[j]).any(axis=1)
        delayed_by[j] = False
        ends = view.slot + slots[j] + np.where(delayed_by, slots, 0)
        values = runs[j].job.value(ends - runs[j].job.arrival)
        costs += np.where(delayed_by, np.maximum(0.0, values[j] - values), 0.0)  # values[j] is without delay
    return costs


def _earliest_start(run: _Run, runs: Sequence[_Run], view: View, free: FloatArray) -> int:
    """Return the slot at which the gang would find room if the runs that run now end as planned. Room is counted on
    the cluster as a whole."""
    running = sorted(
        (other for other in runs if other.placement is not None), key=lambda other: other.slots(view.cluster)
    )
    room = free - sum((other.demand() for other in running), np.zeros_like(free))
    begin = view.slot
    for other in running:
        if (run.demand() <= room + TOLERANCE).all():
            break
        room = room + other.demand()
        begin = view.slot + other.slots(view.cluster)
    return begin


def _as_dealt(runs: Sequence[_Run], view: View) -> bool:
    """Return whether all runs that ran in the last slot can stay where they are, and no paused run has room beside
    them. There may be room without a job that has gone, as when servers are back."""
    room = Vacancies(view.cluster, view.occupied)
    if not all(run.fits_at(run.placement, room) for run in runs if run.placement is not None):
        return False
    paused = {(run.gang, *(unit.named for unit in run.units)): run for run in runs if run.placement is None}
    return all(room.place(run.job, run.gang, Cursors()) is None for run in paused.values())


def _booking(run: _Run, view: View) -> Booking:
    """Book the coming slot. Only the booking that completes the job carries the value of the run."""
    job, gang, placement = run.job, run.gang, run.placement
    assert placement is not None  # noqa: S101 - only runs with a place are booked
    rate = placement.rate(job, view.cluster.slot_seconds)
    end = view.slot + 1
    completes = rate >= run.remaining - TOLERANCE * job.work
    return Booking(
        job=job.number,
        start=view.slot,
        end=end,
        allocation=placement.allocation(view.slot, end),
        work=run.remaining if completes else rate,
        workers=gang.workers,
        ps=gang.ps,
        worker_type=gang.worker_type,
        ps_type=gang.ps_type,
        placement=placement.kind,
        value=float(job.value(end - job.arrival)) if completes else 0.0,
        ideal=float(job.value(end - job.first_slot)) if completes else 0.0,
    )


def build(fields: Mapping[str, Any], cluster: Cluster, jobs: Sequence[Job]) -> Rrh:
    """Build risk-reward with the settings of a scenario."""
    section = Section(fields, "policy", ("workers", "alpha", "delta", "threshold", "seed"))
    return Rrh(
        workers=whole_or_range(section.raw("workers", Rrh.workers), "policy.workers"),
        alpha=section.number("alpha", Rrh.alpha, least=0.0, most=1.0),
        delta=section.number("delta", Rrh.delta, least=0.0),
        threshold=section.number("threshold", Rrh.threshold),
        seed=section.whole("seed", Rrh.seed, least=0),
    )
