"""Turn a teacher's decisions into lessons: what it gave out in each slot, unit by unit, as the network would have to.

Any policy can teach, also one that books whole lives: what counts is which jobs ran with how many units in which slot.
Units are given round robin in order of arrival: first one of each kind while a job needs both, then the rest, then the
void action.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from scheduling.core.policies.dl2.choosing import Inference
from scheduling.core.policies.dl2.networks import Floats, Moments, Weights, adam, policy_gradient
from scheduling.core.policies.dl2.shape import ACTIONS, BOTH, PS_ONLY, WORKER_ONLY, NetworkShape
from scheduling.core.policies.dl2.slot import Batch, Slot, shares_of
from scheduling.core.scenario import Scenario
from scheduling.core.simulation import Outcome, Track
from scheduling.core.speed import TOLERANCE
from scheduling.core.types import REJECTED, BoolArray, View


@dataclass(frozen=True, eq=False)
class Lessons:
    """The states, the actions that were allowed in them, and the teacher's actions: (samples, ...)."""

    states: Floats
    allowed: BoolArray
    actions: np.ndarray[tuple[int], np.dtype[np.intp]]

    def __len__(self) -> int:
        return len(self.actions)


def lessons(runs: Sequence[tuple[Scenario, Outcome]], shape: NetworkShape) -> Lessons:
    """Return all lessons of a teacher's runs."""
    choices = [choice for scenario, outcome in runs for choice in _run(scenario, outcome, shape)]
    return Lessons(
        np.array([choice.state for choice in choices], np.float32).reshape(-1, shape.inputs),
        np.array([choice.allowed for choice in choices], np.bool_).reshape(-1, shape.actions),
        np.array([choice.action for choice in choices], np.intp),
    )


@dataclass
class _Running:
    """One job of a teacher's run, followed slot by slot."""

    track: Track
    remaining: float
    ran: int = 0


def _run(scenario: Scenario, outcome: Outcome, shape: NetworkShape) -> Iterator[Inference]:
    """Yield the teacher's choices slot by slot, from the waiting jobs as they were then and what each was given."""
    ordered = sorted(outcome.tracks, key=lambda track: (track.job.arrival, track.job.number))
    jobs = [_Running(track, float(track.job.work)) for track in ordered if track.state != REJECTED]
    last = max((booking.end for track in outcome.tracks for booking in track.bookings), default=0)
    use = np.zeros((len(scenario.cluster.resources), last, len(scenario.cluster.servers)))
    for part in scenario.preload:
        if part.slot < last:
            use[part.resource, part.slot, part.server] += part.amount
    for slot in range(last):
        open_jobs = [
            each
            for each in jobs
            if each.track.job.first_slot <= slot and each.remaining > TOLERANCE * each.track.job.work
        ]
        waiting = tuple(each.track.job for each in open_jobs)
        remaining = np.array([each.remaining for each in open_jobs])
        view = View(slot, scenario.slots, scenario.cluster, waiting, remaining, use[:, slot : slot + 1])
        sizes: dict[int, tuple[int, int]] = {}
        for each in open_jobs:
            if units := _units(each, slot):
                sizes[each.track.job.number] = units
        ages = {each.track.job.number: each.ran for each in open_jobs}
        yield from _slot(view, sizes, ages, shape)
        for each in open_jobs:
            done = sum(b.work / (b.end - b.start) for b in each.track.bookings if b.start <= slot < b.end)
            each.remaining -= done
            each.ran += done > 0


def _units(each: _Running, slot: int) -> tuple[int, int] | None:
    """Return the workers and parameter servers of a job in a slot, or None if it has none."""
    rows = [row for b in each.track.bookings for row in b.allocation if row.start <= slot < row.end]
    return (sum(row.workers for row in rows), sum(row.ps for row in rows)) if rows else None


def _slot(
    view: View, units: dict[int, tuple[int, int]], ages: dict[int, int], shape: NetworkShape
) -> Iterator[Inference]:
    shares, _ = shares_of(view, lambda job: ages[job.number])
    for batch in Slot(view, shares, shape).batches():
        batch.open()
        for action in _actions(batch, units):
            if not batch.allowed[:-1].any():
                break
            if batch.allowed[action]:
                choice = Inference(batch.state.copy(), batch.allowed.copy(), action, 1.0)
                if action == shape.void or batch.apply(action) is not None:
                    yield choice


def _actions(batch: Batch, units: dict[int, tuple[int, int]]) -> Iterator[int]:
    """Yield the actions that give out the rest of the units, in order, and the void action at the end."""
    wanted = []
    for share in batch.shares:
        workers, ps = units.get(share.job.number, (0, 0))
        wanted.append([max(0, workers - len(share.workers)), max(0, ps - len(share.ps))])
    for what, (takes_worker, takes_ps) in ((BOTH, (1, 1)), (WORKER_ONLY, (1, 0)), (PS_ONLY, (0, 1))):
        again = True
        while again:
            again = False
            for row, want in enumerate(wanted):
                if want[0] >= takes_worker and want[1] >= takes_ps:
                    want[0] -= takes_worker
                    want[1] -= takes_ps
                    again = True
                    yield ACTIONS * row + what
    yield batch.shape.void


def study(
    weights: Weights,
    moments: Moments,
    lessons: Lessons,
    shape: NetworkShape,
    dice: np.random.Generator,
    *,
    rate: float,
    batch: int,
    shuffle: bool,
) -> tuple[Weights, Moments, float]:
    """Make one pass over all lessons in a random order; return the weights, the moments and the mean cross-entropy.
    With `shuffle` the jobs of the states are put into random rows."""
    order = dice.permutation(len(lessons))
    losses = []
    for begin in range(0, len(order), batch):
        rows = order[begin : begin + batch]
        states, allowed, actions = lessons.states[rows], lessons.allowed[rows], lessons.actions[rows]
        if shuffle:
            states, allowed, actions = in_other_rows(states, allowed, actions, shape, dice.permutation(shape.jobs))
        ones = np.ones(len(rows), states.dtype)
        loss, gradients = policy_gradient(weights, states, allowed, actions, ones, 0.0)
        weights, moments = adam(weights, gradients, moments, rate)
        losses.append(loss)
    return weights, moments, float(np.mean(losses))


def in_other_rows(
    states: Floats,
    allowed: BoolArray,
    actions: np.ndarray[tuple[int], np.dtype[np.intp]],
    shape: NetworkShape,
    rows: np.ndarray[tuple[int], np.dtype[np.intp]],
) -> tuple[Floats, BoolArray, np.ndarray[tuple[int], np.dtype[np.intp]]]:
    """Return the same samples with the rows of their jobs exchanged: row k of the result is row rows[k] of before."""
    count = len(states)
    moved = states.reshape(count, shape.jobs, shape.row)[:, rows].reshape(count, -1)
    per_job = allowed[:, :-1].reshape(count, shape.jobs, ACTIONS)[:, rows].reshape(count, -1)
    places = np.empty(shape.jobs, np.intp)
    places[rows] = np.arange(shape.jobs)
    now = np.where(actions == shape.void, shape.void, 0)
    job, what = np.divmod(actions, ACTIONS)
    named = actions != shape.void
    now[named] = places[job[named]] * ACTIONS + what[named]
    return moved, np.concatenate([per_job, allowed[:, -1:]], axis=1), now
