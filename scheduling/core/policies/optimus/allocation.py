"""How many parameter servers and workers each job gets: greedy by marginal gain (Optimus, section 4.1).

First every job gets its least gang, in order of arrival. Then one unit at a time goes to the job whose remaining time
falls most for the share of the cluster that the unit takes: (Q / f(p, w) - Q / f(p + 1, w)) / share, or the same with a
worker.

What a job takes next does not depend on the other jobs until a unit does not fit. So all jobs take their steps in
lockstep, the steps are sorted as a queue would have served them, and the sequence is cut where the cluster is full.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from scheduling.core.occupancy import ROUNDING
from scheduling.core.types import BoolArray, FloatArray

IntArray = npt.NDArray[np.intp]
PS, WORKER = 0, 1
SKIP, BREAK = "skip", "break"
ROUNDS = 6  # rounds of steps in lockstep; the rest, when most units no longer fit, is dealt out one by one
LEAST_WEIGHT = 1e-12  # the weight of a unit that takes nothing


@dataclass(frozen=True, eq=False)
class JobDemands:
    """The units that jobs, in order of (arrival, number), could use. Kinds are (parameter server, worker), in this
    order."""

    seconds: FloatArray  # (jobs, ps, workers) remaining time with that many more units than the least
    least: IntArray  # (jobs, kinds)
    most: IntArray  # (jobs, kinds)
    demand: FloatArray  # (jobs, kinds, resources) of one unit
    weight: FloatArray  # (jobs, kinds) what a gain is divided by
    factor: FloatArray  # (jobs,) what gains above zero are multiplied by


def dominant(demand: FloatArray, total: FloatArray, unit: str) -> FloatArray:
    """Return (jobs, kinds) the largest share of a resource that a unit takes or, unless `unit` is "share", the amount
    of that resource."""
    shares = np.divide(demand, total, out=np.zeros_like(demand), where=(demand > 0) & (total > 0))
    resource = shares.argmax(axis=2)[:, :, None]
    weights = shares if unit == "share" else demand
    return np.maximum(np.take_along_axis(weights, resource, axis=2)[:, :, 0], LEAST_WEIGHT)


def allocate(demands: JobDemands, free: FloatArray, stop: str = SKIP) -> IntArray:
    """Return (jobs, kinds) the units of each job: (0, 0) where not even the least gang fits into what is left of `free`
    (resources,).

    With `skip` a unit that does not fit ends only that kind for that job; with `break` it ends the allocation.
    Ties go to the earlier job, and within a job to the parameter server.
    """
    greedy = _Greedy(demands, free)
    greedy.first_round()
    for _ in range(ROUNDS):
        if not greedy.advance() or stop == BREAK:
            break
        greedy.retire()
    else:
        greedy.one_by_one()
    return np.where(greedy.served[:, None], demands.least + greedy.more, 0)


class _Greedy:
    """The state of an allocation. `more` is what a job has beyond its least, `room` what no job has."""

    def __init__(self, wishes: JobDemands, free: FloatArray) -> None:
        self.wishes = wishes
        self.room = free + ROUNDING * np.maximum(1.0, free)
        self.more = np.zeros_like(wishes.least)
        self.served = np.zeros(len(wishes.least), dtype=np.bool_)
        self.grows: BoolArray = np.ones(wishes.least.shape, dtype=np.bool_)  # kinds of which a job may get more
        self.limited = False  # whether some job can get no more of some kind
        self.gains = (_gains(wishes, PS), _gains(wishes, WORKER))

    def first_round(self) -> None:
        """Give each job its least gang. A job that finds no room gets nothing, and later jobs are still tried."""
        bundles = np.einsum("jk,jkr->jr", self.wishes.least, self.wishes.demand)
        rest = np.subtract.accumulate(np.concatenate([self.room[None], bundles]), axis=0)
        short = (rest < 0).any(axis=1)
        fitting = int(short.argmax()) - 1 if short.any() else len(bundles)  # jobs before the first that finds no room
        self.served[:fitting] = True
        room: list[float] = rest[fitting].tolist()
        for job, bundle in enumerate(bundles[fitting:].tolist(), fitting):
            some = [amount - need for amount, need in zip(room, bundle, strict=True)]
            if min(some, default=0.0) >= 0:
                room = some
                self.served[job] = True
        self.room = np.array(room)

    def advance(self) -> bool:
        """Deal out all steps up to the first that does not fit, and return whether there is such a step."""
        jobs, kinds = self._steps()
        demand = self.wishes.demand[jobs, kinds]
        short = (np.cumsum(demand, axis=0) > self.room).any(axis=1)
        count = int(short.argmax()) if short.any() else len(jobs)
        np.add.at(self.more, (jobs[:count], kinds[:count]), 1)
        self.room = self.room - demand[:count].sum(axis=0)
        return count < len(jobs)

    def retire(self) -> None:
        """Drop the kinds of units that do not fit now. They never will again, as room only shrinks."""
        self.grows &= (self.wishes.demand <= self.room).all(axis=2)
        self.limited = not self.grows.all()

    def one_by_one(self) -> None:
        """Deal out the rest by a queue with one entry for each job that still grows."""
        room: list[float] = self.room.tolist()
        growing = {job: _Growing(self, job) for job in np.flatnonzero(self.served & self.grows.any(axis=1)).tolist()}
        queue = [(-gain, job, kind) for job, each in growing.items() for gain, kind in [each.best()] if gain > 0]
        heapq.heapify(queue)
        while queue:
            _, job, kind = queue[0]
            each = growing[job]
            rest = [amount - need for amount, need in zip(room, each.demand[kind], strict=True)]
            if min(rest, default=0.0) >= 0:
                room = rest
                each.more[kind] += 1
            else:
                each.grows[kind] = False
            gain, kind = each.best()
            if gain > 0:
                heapq.heapreplace(queue, (-gain, job, kind))
            else:
                heapq.heappop(queue)
        for job, each in growing.items():
            self.more[job] = each.more

    def _steps(self) -> tuple[IntArray, IntArray]:
        """Return (jobs, kinds) of all steps that gain something, in the order in which a queue would serve them.

        A job whose gain rises is served again at once, so a step's turn comes with the least gain of its job so far.
        """
        _, most_ps, most_workers = self.gains[PS].shape
        closed = np.where(self.grows, 0.0, -np.inf).T.copy()  # (kinds, jobs) added to gains: -inf if closed
        jobs = np.flatnonzero(self.served)
        place = (jobs * most_ps + self.more[jobs, PS]) * most_workers + self.more[jobs, WORKER]  # in the flat gains
        turn = np.full(len(jobs), np.inf)
        path: list[tuple[IntArray, BoolArray, FloatArray]] = []
        while len(jobs):
            ps_gain, worker_gain = self.gains[PS].take(place), self.gains[WORKER].take(place)
            if self.limited:
                ps_gain += closed[PS].take(jobs)
                worker_gain += closed[WORKER].take(jobs)
            gain, worker = np.maximum(ps_gain, worker_gain), worker_gain > ps_gain
            if np.count_nonzero(on := gain > 0) < len(jobs):
                jobs, place, turn, gain, worker = jobs[on], place[on], turn[on], gain[on], worker[on]
            turn = np.minimum(turn, gain)
            path.append((jobs, worker, turn))
            place = place + np.where(worker, 1, most_workers)
        if not path:
            return np.zeros(0, np.intp), np.zeros(0, np.intp)
        steps, workers, turns = (np.concatenate(column) for column in zip(*path, strict=True))
        order = np.lexsort((steps, -turns))  # stable: of one job and turn, the earlier step
        return steps[order], workers[order].astype(np.intp)  # PS is 0, WORKER is 1


def _gains(demands: JobDemands, kind: int) -> FloatArray:
    """Return (jobs, ps, workers) what one more unit of a kind gains at each pair of numbers, -inf where it is not
    allowed.

    A gain depends on the pair alone, so all are worked out at once, and in place because there are many of them.
    """
    seconds, axis = demands.seconds, 1 + kind
    gains = np.full_like(seconds, -np.inf)
    before, after = [slice(None)] * 3, [slice(None)] * 3
    before[axis], after[axis] = slice(None, -1), slice(1, None)
    some = gains[tuple(before)]
    np.subtract(seconds[tuple(before)], seconds[tuple(after)], out=some)
    some /= demands.weight[:, kind, None, None]
    if (demands.factor != 1.0).any():
        some *= demands.factor[:, None, None]  # below zero too, as such gains are never used
    full = np.arange(seconds.shape[axis] - 1) >= (demands.most - demands.least)[:, kind, None]  # (jobs, more)
    if full.any():
        np.copyto(some, -np.inf, where=full[:, :, None] if kind == PS else full[:, None, :])
    return gains


class _Growing:
    """One job's part of a `_Greedy` as plain numbers: arrays are slow one element at a time."""

    __slots__ = ("demand", "factor", "grows", "more", "room", "seconds", "weight")

    def __init__(self, greedy: _Greedy, job: int) -> None:
        demands = greedy.wishes
        self.seconds: list[list[float]] = demands.seconds[job].tolist()
        self.demand: list[list[float]] = demands.demand[job].tolist()
        self.weight: list[float] = demands.weight[job].tolist()
        self.factor = float(demands.factor[job])
        self.room: list[int] = (demands.most[job] - demands.least[job]).tolist()
        self.more: list[int] = greedy.more[job].tolist()
        self.grows: list[bool] = greedy.grows[job].tolist()

    def best(self) -> tuple[float, int]:
        """Return the larger gain of one more unit, -inf where none is allowed, and the kind of that unit."""
        ps, workers = self.more
        gains = [-np.inf, -np.inf]
        for kind, then in ((PS, (ps + 1, workers)), (WORKER, (ps, workers + 1))):
            if self.grows[kind] and self.more[kind] < self.room[kind]:
                gain = (self.seconds[ps][workers] - self.seconds[then[0]][then[1]]) / self.weight[kind]
                gains[kind] = gain * self.factor if gain > 0 else gain
        kind = WORKER if gains[WORKER] > gains[PS] else PS
        return gains[kind], kind
