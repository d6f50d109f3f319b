"""Find jobs that no interval of a pool will ever serve, so that their submitters learn of it at once."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any
from weakref import WeakKeyDictionary

from scheduling.core.types import BATCH, HasWindows, Job, Policy, Reason
from scheduling.core.value import Linear
from scheduling.market.decide import batch_policy
from scheduling.market.reads import reason_sentence
from scheduling.market.view import JobReader, PoolFrame, PoolShape, for_the_core, frame_of, pool_text, worth_kept
from scheduling.models import Pool, TrainingJob
from tenants.access import Refused
from tenants.scoping import scope_disabled

WORTH = ("value", "max_price")  # of a specification; a job that is served without them is served whatever they say
NOTHING = Linear(0.0, 0.0)
MOST_KNOWN = 1_000  # questions about a pool that are remembered


@dataclass(frozen=True)
class NeverFits(Refused):
    """No interval will ever serve the job. The numbers say what would help: `enough_workers` at once,
    `epochs_that_fit`, a program that goes on in `fewest_pieces` or more, or an operator who lets intervals grow to
    `needs_slots`. Of a job that rents in pieces, also one that saves and loads in `most_save_slots`, and intervals of
    `piece_slots`. None means that nothing of that kind would help. `home_end` is the slot with which its own cells
    would have ended it, worth nothing by then; None where they never hold it."""

    needs_slots: int | None
    window_slots: int | None
    enough_workers: int | None
    epochs_that_fit: int | None
    home_end: int | None
    fewest_pieces: int | None
    piece_slots: int | None = None
    most_save_slots: int | None = None


class Fitting:
    """What ever fits in a pool, for jobs of one tenant. The pool is read when the first job is checked, unless its
    `text` was read just now. Jobs that ask for the same are checked once, and those that fit a window whenever they
    come, once in this process."""

    def __init__(self, pool: Pool, tenant_id: int, text: str | None = None) -> None:
        self._pool, self._tenant_id, self._text = pool, tenant_id, text
        self._fits: dict[str, bool] = {}  # what a job asks for, and when -> whether it is served whatever it is worth

    def never(self, row: TrainingJob, *, frontier: int) -> NeverFits | None:
        """Return why the job will never be served, or None. It is to wait in the batch lane from its arrival on, and
        need not be stored yet."""
        if self._pool.is_elastic:
            return None
        wanted = {name: value for name, value in for_the_core(row.spec).items() if name not in WORTH}
        fitting_wishes, wish = (
            _fitting_windows(self._frame.shape),
            json.dumps([*self._settings, wanted], sort_keys=True),
        )
        if wish in fitting_wishes or not isinstance(self._policy, HasWindows):
            return None
        job = self._read(row)
        worthless = replace(job, value=NOTHING)  # what can be served so can be served whatever it is worth
        if self._policy.fits_a_window(self._frame.batch_cluster, worthless):
            fitting_wishes.add(wish)
            return None
        slot = max(int(-(-row.arrival // 1)), frontier)
        question = json.dumps([wanted, row.arrival, slot], sort_keys=True)
        if question not in self._fits:
            self._fits[question] = self._never(worthless, slot) is None
        reason = None if self._fits[question] else self._never(job, slot)
        return None if reason is None else _refused(self._pool, reason)

    def most_together(self, row: TrainingJob) -> int | None:
        """Return a number of jobs like this one, more of which no interval will ever serve at once, or None where that
        cannot be known."""
        if not isinstance(self._policy, HasWindows):
            return None
        job = self._read(row)
        return self._policy.most_together(self._frame.batch_cluster, job)

    def _read(self, row: TrainingJob) -> Job:
        """Return the job of a row that may not be stored, as one of the batch lane."""
        own: dict[str, Any] = {"tenant_id": self._tenant_id, "arrival": row.arrival, "lane": BATCH}
        return worth_kept(self._reader.read_spec(row.spec, number=0, **own), row.worth_from)

    def _never(self, job: Job, slot: int) -> Reason | None:
        assert isinstance(self._policy, HasWindows)  # noqa: S101  `never` asks no other policy
        return self._policy.never_serves(self._frame.batch_cluster, job, slot)

    @cached_property
    def _settings(self) -> tuple[Any, ...]:
        """Return all that the answer depends on besides the pool's shape and the job."""
        pool = self._pool
        clock = (pool.clock_first, pool.clock_cap, pool.clock_restart)
        return self._tenant_id, pool.batch_policy, pool.instant_policy is None, clock

    @cached_property
    def _frame(self) -> PoolFrame:
        with scope_disabled("what fits depends on everybody's cells"):
            text = pool_text(self._pool) if self._text is None else self._text
        return frame_of(self._pool, text, also=[self._tenant_id])

    @cached_property
    def _policy(self) -> Policy:
        return batch_policy(self._frame)

    @cached_property
    def _reader(self) -> JobReader:
        return JobReader(self._frame)


_fitting: WeakKeyDictionary[PoolShape, set[str]] = WeakKeyDictionary()


def _fitting_windows(shape: PoolShape) -> set[str]:
    """Return what was asked for and fits a window of the pool in this shape. A pool that changes has another shape."""
    wishes = _fitting.setdefault(shape, set())
    if len(wishes) >= MOST_KNOWN:
        wishes.clear()
    return wishes


def never_fits(row: TrainingJob, *, frontier: int) -> NeverFits | None:
    """Return the same for a single job."""
    return Fitting(row.pool, row.tenant_id).never(row, frontier=frontier)


def _refused(pool: Pool, reason: Reason) -> NeverFits:
    numbers: Mapping[str, Any] = reason.numbers
    return NeverFits(
        "larger_than_window",
        reason_sentence(pool, reason.code, numbers),
        needs_slots=numbers["needs_slots"],
        window_slots=numbers["window_slots"],
        enough_workers=numbers.get("enough_workers"),
        epochs_that_fit=numbers.get("epochs_that_fit"),
        home_end=numbers.get("home_end"),
        fewest_pieces=numbers.get("fewest_pieces"),
        piece_slots=numbers.get("piece_slots"),
        most_save_slots=numbers.get("most_save_slots"),
    )
