"""The measures of a replay for each owner on each day, compared with another replay."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from scheduling.lab.histories.history import HOUR, History
from scheduling.lab.studies.replays import NEVER, Replay

Numbers = npt.NDArray[np.float64]

# All are by owner and day of submission, but `lent` and `borrowed` are by the day on which units were in use.
MEASURES = {
    "waited_against": "hours of waiting under the other rule, of jobs that ran under both",
    "waited": "hours of waiting, of jobs that ran under both",
    "saved": "hours of waiting saved",
    "asked": "unit-hours of all jobs",
    "in_time_against": "unit-hours of jobs that ended within twice their run time, under the other rule",
    "in_time": "unit-hours of jobs that ended within twice their run time",
    "in_time_more": "unit-hours in time more than under the other rule",
    "undone_against": "jobs that never ended under the other rule",
    "undone": "jobs that never ended",
    "earned": "credits from others",
    "spent": "credits to others",
    "net": "credits earned less spent",
    "lent": "own unit-hours that others used",
    "borrowed": "unit-hours used beyond the own ones",
}


def waits(history: History, replay: Replay) -> Numbers:
    """Return (jobs,) hours from the first slot in which a job may run to its end, less its run; NaN where it never
    ended.

    A job that is paused, or that rents in pieces, also waits between them. A replay knows whole slots, so the part of a
    slot before the first one counts as nobody's waiting.
    """
    first = np.array([np.ceil(history.slot_of(job.submitted)) for job in history.jobs])
    slots = np.array([history.run_slots(job) for job in history.jobs])
    waited = (replay.end - first - slots) * history.slot_seconds / HOUR
    hours: Numbers = np.where(replay.end == NEVER, np.nan, waited)
    return hours


def measured(history: History, replay: Replay, against: Replay) -> Mapping[str, Numbers]:
    """Return (owners + 1, days) of each measure; the last owner is the operator, who has no jobs."""
    numbers = {name: number for number, name in enumerate(history.owners)}
    owner = np.array([numbers[job.owner] for job in history.jobs])
    day = history.day_of([job.submitted for job in history.jobs])
    slots = np.array([history.run_slots(job) for job in history.jobs])
    work = slots * np.array([job.units for job in history.jobs]) * history.slot_seconds / HOUR
    here, there = waits(history, replay), waits(history, against)
    both = ~np.isnan(here) & ~np.isnan(there)
    run_hours = slots * history.slot_seconds / HOUR

    def summed(amounts: npt.NDArray[np.float64] | npt.NDArray[np.bool_]) -> Numbers:
        table = np.zeros((len(history.owners) + 1, history.days))
        np.add.at(table, (owner, day), np.asarray(amounts, dtype=np.float64))
        return table

    figures = {
        "waited_against": summed(np.where(both, there, 0.0)),
        "waited": summed(np.where(both, here, 0.0)),
        "asked": summed(work),
        "in_time_against": summed(np.where(there <= run_hours, work, 0.0)),  # NaN is never in time
        "in_time": summed(np.where(here <= run_hours, work, 0.0)),
        "undone_against": summed(np.isnan(there)),
        "undone": summed(np.isnan(here)),
        "earned": replay.earned,
        "spent": replay.spent,
    }
    lent, borrowed = _lending(history, replay)
    figures |= {"lent": lent, "borrowed": borrowed}
    figures["saved"] = figures["waited_against"] - figures["waited"]
    figures["in_time_more"] = figures["in_time"] - figures["in_time_against"]
    figures["net"] = figures["earned"] - figures["spent"]
    return {name: figures[name] for name in MEASURES}


def _lending(history: History, replay: Replay) -> tuple[Numbers, Numbers]:
    """Return (owners + 1, days) unit-hours lent and borrowed. In a slot an owner borrows what its jobs hold beyond its
    own units. An owner that lends has a part of what is borrowed, by its idle units, as the market splits a payment.
    What those who lend now cannot have lent was lent by those who lend at night, and still runs."""
    use = np.vstack([replay.use, np.zeros((1, replay.use.shape[1]), dtype=np.int64)]).astype(np.float64)
    owned = replay.owned[:, None]
    borrowed, idle = np.maximum(use - owned, 0.0), np.maximum(owned - use, 0.0)
    later = replay.lends.any(axis=1, keepdims=True) & ~replay.lends
    now = np.minimum(borrowed.sum(axis=0), (idle * replay.lends).sum(axis=0))
    lent = _dealt(now, idle * replay.lends) + _dealt(borrowed.sum(axis=0) - now, idle * later)
    return by_day(history, lent), by_day(history, borrowed)


def _dealt(whole: Numbers, weights: Numbers) -> Numbers:
    """Return (owners + 1, slots) each slot's whole, (slots,), in proportion to the weights; nothing where there are
    none."""
    sums = weights.sum(axis=0)
    dealt: Numbers = weights * np.divide(whole, sums, out=np.zeros_like(sums), where=sums > 0)
    return dealt


def by_day(history: History, by_slot: Numbers) -> Numbers:
    """Return (rows, days) unit-hours of (rows, slots) units; slots after the last day count as in it."""
    begins = history.midnights[0] + np.arange(by_slot.shape[1]) * history.slot_seconds
    table = np.zeros((by_slot.shape[0], history.days))
    np.add.at(table.T, history.day_of(begins), by_slot.T * history.slot_seconds / HOUR)
    return table


def use_by_day(history: History, replay: Replay) -> Numbers:
    """Return (days,) unit-hours in use within each day; slots after the last day are left out."""
    within = -(-(history.midnights[-1] - history.midnights[0]) // history.slot_seconds)
    return by_day(history, replay.use[:, :within].astype(np.float64)).sum(axis=0)


def logged_waits(history: History) -> Numbers:
    """Return (jobs,) hours that jobs waited by the log; NaN where it does not say."""
    return np.array([np.nan if job.started is None else (job.started - job.submitted) / HOUR for job in history.jobs])
