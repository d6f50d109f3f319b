"""One slot while it is dealt out: what each job holds of it, what the network sees, and which actions are allowed next.

The network sees up to J jobs at once. More jobs are served in batches in order of arrival, each from what the batches
before it left.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from scheduling.core.empty import possible_types
from scheduling.core.gangs import GangUnits
from scheduling.core.placement import Cursors, Placement
from scheduling.core.policies.dl2.networks import FORBIDDEN, Floats
from scheduling.core.policies.dl2.room import PS, WORKER, SlotRoom
from scheduling.core.policies.dl2.shape import ACTIONS, BOTH, PS_ONLY, WORKER_ONLY, NetworkShape
from scheduling.core.slot_bookings import slot_booking
from scheduling.core.types import Booking, BoolArray, Job, UnitType, View

Pair = tuple[int, int]  # worker type, parameter server type


@dataclass(eq=False)
class JobShare:
    """A job in this slot, with the servers of its units so far, in the order in which they were dealt out."""

    job: Job
    remaining: float  # mini-batches
    ran: int  # slots in which it ran before
    choices: Sequence[Pair]  # the types that it could run on
    types: Pair = (0, 0)
    workers: list[int] = field(default_factory=list)
    ps: list[int] = field(default_factory=list)
    hopeless: bool = False  # its least gang found no room, and room only shrinks

    @property
    def units(self) -> tuple[UnitType, UnitType]:
        """Return the types that the job runs on: worker, parameter server."""
        return self.job.worker_types[self.types[0]], self.job.ps_types[self.types[1]]

    @property
    def runs(self) -> bool:
        """Return whether the units that the job holds are a gang."""
        return len(self.workers) >= self.job.min_workers and len(self.ps) >= self.job.least_ps

    def booking(self, view: View) -> Booking:
        """Book the coming slot."""
        gang = GangUnits(len(self.workers), len(self.ps), *self.types)
        return slot_booking(self.job, self.remaining, Placement(gang, self.workers, self.ps, Cursors()), view)


def shares_of(view: View, ran: Callable[[Job], int]) -> tuple[list[JobShare], list[Job]]:
    """Return the waiting jobs that could run here, and those that never could."""
    shares, never = [], []
    for job, remaining in zip(view.waiting, view.remaining.tolist(), strict=True):
        choices = possible_types(job, view.cluster)
        if choices:
            shares.append(JobShare(job, remaining, ran(job), choices, choices[0]))
        else:
            never.append(job)
    return shares, never


class Slot:
    """The whole slot. With first bundles every job gets its least gang, in order of arrival, while there is room."""

    def __init__(self, view: View, shares: Sequence[JobShare], shape: NetworkShape) -> None:
        units: list[tuple[int, UnitType]] = []
        for share in shares:
            units += [(WORKER, unit) for unit in share.job.worker_types] + [(PS, unit) for unit in share.job.ps_types]
        self.shape, self.shares = shape, shares
        self.room = SlotRoom(view, units)
        total = view.cluster.total
        part = np.divide(self.room.demand, total, out=np.zeros_like(self.room.demand), where=total > 0)
        self._part: list[list[float]] = part.tolist()
        self._parts: dict[Pair, list[tuple[float, float]]] = {}
        if shape.first_bundle:
            for share in shares:
                self._first_bundle(share)

    def kinds(self, share: JobShare) -> Pair:
        """Return the kinds, which are indices in the room, of the job's worker and parameter server."""
        worker, ps = share.units
        return self.room.kind(WORKER, worker), self.room.kind(PS, ps)

    def parts(self, kinds: Pair) -> list[tuple[float, float]]:
        """Return, by resource, the parts of the cluster that a worker and a parameter server take. They are kept, as
        most jobs have the same kinds."""
        if kinds not in self._parts:
            self._parts[kinds] = list(zip(*(self._part[kind] for kind in kinds), strict=True))
        return self._parts[kinds]

    def batches(self) -> list[Batch]:
        """Return the batches of at most J jobs each. Each is to be opened only when it has its turn."""
        size = self.shape.jobs
        return [Batch(self, self.shares[begin : begin + size]) for begin in range(0, len(self.shares), size)]

    def _first_bundle(self, share: JobShare) -> None:
        for types in share.choices:
            share.types = types
            worker, ps = self.kinds(share)
            workers = self.room.deal(worker, share.job.min_workers)
            if workers is None:
                continue
            servers = self.room.deal(ps, share.job.least_ps)
            if servers is not None:
                share.workers, share.ps = workers, servers
                return
            self.room.give_back(worker, workers)
        share.types, share.hopeless = share.choices[0], True


def _most_ps(job: Job, most: int) -> int:
    """Return the most parameter servers that a job may get where none may have more than `most`."""
    if job.all_reduce:
        return 0
    return most if job.max_ps is None else min(job.max_ps, most)


class Batch:
    """Up to J jobs as the network sees them.

    `state` (inputs,) and `allowed` (actions,) are updated after every unit, three numbers at a time, and never made
    anew. `shut` (actions,) is added to the network's outputs: zero for allowed actions, and far below all outputs for
    the others.
    """

    def __init__(self, slot: Slot, shares: Sequence[JobShare]) -> None:
        self.slot, self.shares, self.shape = slot, shares, slot.shape
        self.width, self.first = slot.shape.row, slot.shape.columns + 2

    def open(self) -> None:
        """Set the state and the allowed actions, from the room that is left now."""
        shape = self.shape
        self.kinds = [self.slot.kinds(share) for share in self.shares]
        self.parts = [self.slot.parts(kinds) for kinds in self.kinds]
        self.apart: set[int] = set()  # rows where a worker and a parameter server fit alone but not together
        self.caps = [
            (
                min(share.job.max_workers, max(shape.max_workers, share.job.min_workers)),
                _most_ps(share.job, shape.max_ps),
            )
            for share in self.shares
        ]
        self.state: Floats = np.zeros(shape.inputs, np.float32)
        self.allowed: BoolArray = np.zeros(shape.actions, np.bool_)
        self.shut: Floats = np.full(shape.actions, FORBIDDEN, np.float32)
        self.allowed[-1], self.shut[-1] = True, 0.0
        self.doors = [(False, False, False)] * len(self.shares)  # by row, which of its actions are allowed
        self.open_rows = 0  # how many rows have an allowed action
        for row, share in enumerate(self.shares):
            begin = row * shape.row
            self.state[begin + shape.column(share.job.samples.model)] = 1.0
            self.state[begin + shape.columns] = shape.age(share.ran)
            self.state[begin + shape.columns + 1] = share.remaining / share.job.work
            self._note(row)
        self.room_changed()

    @property
    def most(self) -> int:
        """Return an upper bound of the number of actions: each one deals a unit, or is forbidden from then on."""
        return sum(workers + ps for workers, ps in self.caps) + ACTIONS * len(self.shares) + 1

    def numbers(self, row: int) -> int:
        """Return the index in the state at which r, w and u of a job begin."""
        return row * self.width + self.first

    def apply(self, action: int) -> int | None:
        """Deal out the units of an action, update the state and return the row that changed. If the units do not fit,
        return None: the action is forbidden from now on, and nothing else changes."""
        row, what = divmod(action, ACTIONS)
        share, (worker, ps) = self.shares[row], self.kinds[row]
        room = self.slot.room
        on = room.deal_one(worker) if what != PS_ONLY else None
        if on is None and what != PS_ONLY:
            self._shut(row)
            return None
        at = room.deal_one(ps) if what != WORKER_ONLY else None
        if at is None and what != WORKER_ONLY:
            if on is not None:
                room.give_back(worker, [on])
            self._shut(row)
            return None
        if on is not None:
            share.workers.append(on)
        if at is not None:
            share.ps.append(at)
        self._note(row)
        if room.narrowed:
            self.room_changed()
        else:
            self._allow(row)
        return row

    def _shut(self, row: int) -> None:
        """Forbid the action that deals one of each, as the two do not fit together."""
        self.apart.add(row)
        self._allow(row)

    def room_changed(self) -> None:
        """Work out anew what every job may still get."""
        self.slot.room.narrowed = False
        for row in range(len(self.shares)):
            self._allow(row)

    def _allow(self, row: int) -> None:
        share, (worker, ps), (most_workers, most_ps) = self.shares[row], self.kinds[row], self.caps[row]
        room = self.slot.room
        more_workers = not share.hopeless and len(share.workers) < most_workers and room.has(worker)
        more_ps = not share.hopeless and len(share.ps) < most_ps and room.has(ps)
        doors = more_workers, more_ps, more_workers and more_ps and row not in self.apart
        before = self.doors[row]
        if doors == before:
            return
        self.doors[row] = doors
        self.open_rows += any(doors) - any(before)
        begin = row * ACTIONS
        for what, is_open in zip((WORKER_ONLY, PS_ONLY, BOTH), doors, strict=True):
            self.allowed[begin + what] = is_open
            self.shut[begin + what] = 0.0 if is_open else FORBIDDEN

    def _note(self, row: int) -> None:
        """Update r, w and u of one job in the state."""
        share = self.shares[row]
        workers, servers = len(share.workers), len(share.ps)
        where, state = self.numbers(row), self.state
        largest = 0.0
        for worker, ps in self.parts[row]:
            part = workers * worker + servers * ps
            if part > largest:
                largest = part
        state[where] = largest
        state[where + 1] = workers / self.shape.max_workers
        state[where + 2] = servers / self.shape.max_ps
