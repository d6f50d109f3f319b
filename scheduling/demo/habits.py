"""What the five tenants do with the pool of long runs: who works when, with how many workers, and what it is worth.

This is pure and seeded: the same slot brings the same jobs, in the past that a first start makes and later, live.

- Pelican Bio owns three of eight servers and uses little: it lends, and earns.
- Castor Vision trains in office hours with more workers than it owns: it rents. For a week a deadline is near.
- Orrin Speech transcribes at night.
- Lumen Lab trains for half a day at a time, on its own servers.
- Tarn Climate owns nothing: a guest that computes two forecasts a day, at once if it can. On Mondays it begins two days
  of an ocean model, which is longer than any window: in pieces.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np

from scheduling.demo.content import CASTOR, LUMEN, ORRIN, PELICAN, SLOT_HOURS, TARN
from scheduling.models import Lane

SEED = 31
SLOTS_IN_A_DAY = 24 // SLOT_HOURS
WORKDAYS, WEEKEND, EVERY_DAY, MONDAY = range(5), range(5, 7), range(7), range(1)  # Monday is 0
# A power supply breaks: the server fails the first time that it is busy after LOST_AFTER, for LOST_SLOTS slots.
LOST_SERVER, LOST_AFTER, LOST_SLOTS = "h04", 8 * SLOTS_IN_A_DAY, 9
DEADLINE_DAYS = range(17, 24)  # of Castor Vision, counted from the pool's first day
DEADLINE_JOBS, DEADLINE_WORTH = 2.0, 2.5  # factors on the number of jobs and on their worth


@dataclass(frozen=True)
class Habit:
    """One kind of work. Each pair has the least and the most, both possible."""

    tenant: str
    names: tuple[str, ...]
    weekdays: range
    hours: tuple[int, ...]  # hours of UTC: it is submitted in the slots that begin then
    jobs: float  # in each of these slots, on average; a whole number is exact
    workers: tuple[int, int]
    slots: tuple[int, int]
    worth: tuple[float, float]  # credits for each worker and slot, if it ended at once
    patience: int  # slots after which it is worth nothing
    at_once: bool = False  # sent to the instant lane; if that refuses it, it waits for the next interval
    save_slots: float | None = None  # slots that a save and a load take, of jobs that rent in pieces


@dataclass(frozen=True)
class LongJob:
    """One job of the pool of long runs. It is submitted when the part `into` of the slot has passed."""

    tenant: str
    name: str
    into: float
    lane: str
    otherwise: str | None
    spec: dict[str, Any]


HABITS = (
    Habit(PELICAN, ("fold-screen", "ligand-rank"), WORKDAYS, (9, 15), 0.3, (4, 8), (1, 2), (0.5, 1.5), 16),
    Habit(CASTOR, ("detector", "segmenter", "tracker"), WORKDAYS, (6, 9, 12, 15), 1.3, (6, 14), (2, 4), (0.3, 1.6), 14),
    Habit(CASTOR, ("detector-eval",), WEEKEND, (9, 15), 0.5, (2, 6), (1, 2), (0.4, 1.0), 8),
    Habit(ORRIN, ("transcribe", "diarise"), EVERY_DAY, (0, 21), 1.3, (6, 12), (1, 3), (0.3, 1.0), 8),
    Habit(LUMEN, ("pretrain-small", "pretrain-large"), EVERY_DAY, (6, 18), 0.75, (8, 12), (3, 4), (0.4, 1.0), 24),
    Habit(LUMEN, ("probe", "ablation"), WORKDAYS, (9, 15), 0.5, (2, 4), (1, 1), (0.6, 1.8), 8),
    Habit(TARN, ("forecast",), EVERY_DAY, (3, 15), 1.0, (8, 8), (1, 1), (1.2, 2.0), 4, at_once=True),
    Habit(TARN, ("reanalysis",), WEEKEND, (12,), 1.0, (12, 16), (2, 4), (0.2, 0.6), 16),
    Habit(TARN, ("ocean-spinup",), MONDAY, (6,), 1.0, (6, 8), (14, 16), (1.0, 1.4), 200, save_slots=0.1),
)


def long_jobs(slot: int, starts_at: datetime) -> Iterator[LongJob]:
    """Yield what is submitted during the slot, in order of time. The slot begins at `starts_at`, in the zone UTC."""
    dice = np.random.default_rng([SEED, slot])
    coming: list[LongJob] = []
    for habit in HABITS:
        if starts_at.weekday() not in habit.weekdays or starts_at.hour not in habit.hours:
            continue
        hurried = habit.tenant == CASTOR and slot // SLOTS_IN_A_DAY in DEADLINE_DAYS
        jobs = habit.jobs * (DEADLINE_JOBS if hurried else 1.0)
        for number in range(int(jobs) if jobs.is_integer() else int(dice.poisson(jobs))):
            name = f"{dice.choice(habit.names)}-{starts_at:%m%d-%H}{'abcdefghij'[number] if number else ''}"
            worth = float(dice.uniform(*habit.worth)) * (DEADLINE_WORTH if hurried else 1.0)
            coming.append(_job(habit, name, worth, dice))
    yield from sorted(coming, key=lambda job: job.into)


def _job(habit: Habit, name: str, each: float, dice: np.random.Generator) -> LongJob:
    workers = int(dice.integers(habit.workers[0], habit.workers[1], endpoint=True))
    slots = int(dice.integers(habit.slots[0], habit.slots[1], endpoint=True))
    base = round(each * workers * slots, 4)
    spec = {
        "epochs": slots,
        "chunks": workers,
        "minibatches": 10,
        "minibatch_seconds": SLOT_HOURS * 360.0,  # an epoch of all workers takes a slot
        "worker_demand": {"worker": 1},
        "ps_demand": {"ps": 1},
        "worker_mbps": 100,
        "ps_mbps": 600,  # one parameter server serves six workers
        "min_workers": 1,
        "value": {"kind": "linear", "slope": -round(base / habit.patience, 4), "base": base},
    }
    if habit.save_slots is not None:
        spec |= {"divisible": True, "save_slots": habit.save_slots}
    lane, otherwise = (Lane.INSTANT, str(Lane.BATCH)) if habit.at_once else (Lane.BATCH, None)
    return LongJob(habit.tenant, name, float(dice.uniform(0.05, 0.95)), str(lane), otherwise, spec)
