"""Jobs that wait for other jobs of their tenant: they enter the market once those have ended well, and are refused if
one of those does not.

A job can name only jobs that existed before it, so there are no cycles, and one pass in the order of job numbers
settles whole chains.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import Q, QuerySet

from scheduling.feed import EventKind, events_append, job_event
from scheduling.market.calendar.lanes import Busy, closes, lane_lock
from scheduling.market.settle.run_states import not_heard_of
from scheduling.market.view.jobs import arrival_of
from scheduling.models import AFTER_OTHERS, Event, JobState, Lane, Pool, TrainingJob
from scheduling.models.jobs import LIVE_STATES
from scheduling.programs.ordering import (
    DONE,
    FAILED,
    NEVER,
    OPEN,
    READY,
    Waited,
    after_arrays,
    after_jobs,
    array_named,
    standing,
)
from tenants.common.repeated import RepeatedRead, Whose
from tenants.scoping import scope_disabled

_OUTCOMES: Mapping[str, str] = {**dict.fromkeys(LIVE_STATES, OPEN), JobState.FINISHED: DONE}


@dataclass(frozen=True)
class Fates:
    """What becomes of jobs that wait for others. Jobs in `free` may enter the market. `broken` maps a job to the first
    job that it waits for and that did not end well, and to the state of that one."""

    free: frozenset[int]
    broken: Mapping[int, tuple[int, str]]


@transaction.atomic
def dependents_move(*, pool: Pool, at: datetime) -> int | Busy:
    """Release or refuse jobs that wait for others, at a boundary before its interval is decided. Return how many no
    longer wait. `at` is the boundary: released jobs arrive then, and their value counts from then."""
    with scope_disabled("jobs of all tenants wait for others"):
        if not _any_held(pool_id=pool.pk):
            return 0
        # Cancelling a job takes this lock too.
        if lane_lock(pool_id=pool.pk, lane=Lane.BATCH, wait=False) is None:
            return Busy()
        # 1. Gather which jobs wait for which, and the states of those.
        waiting = dict(_held(pool.pk).order_by("pk").values_list("pk", "after"))
        waited = {each for after in waiting.values() for each in after}
        named = TrainingJob.objects.filter(Q(pk__in=after_jobs(waited)) | Q(array__in=after_arrays(waited)))
        named = named.annotate(unheard=not_heard_of()).order_by("pk")
        # A job whose time is over runs on for those that wait for it until its engine has said how its program ended,
        # since it may have been done in the last moment.
        states, members = dict[int, str](), dict[str, list[int]]()
        for number, state, array, unheard in named.values_list("pk", "state", "array", "unheard"):
            states[number] = JobState.RUNNING.value if unheard else state
            members.setdefault(array_named(array or 0), []).append(number)
        # 2. Decide.
        fate = fates(waiting, states, members)
        # 3. Apply.
        rows = TrainingJob.objects.filter(pk__in=fate.free | fate.broken.keys()).order_by("pk")
        rows = list(rows.select_for_update(of=("self",)))
        events = [
            _ended(job, *fate.broken[job.pk], at) if job.pk in fate.broken else _freed(job, pool, at) for job in rows
        ]
        TrainingJob.objects.bulk_update(
            rows, ["state", "reason_code", "reason_numbers", "arrival", "not_before", "ended_at"], batch_size=500
        )
        events_append(events)
        return len(rows)


def _held(pool_id: int) -> QuerySet[TrainingJob]:
    return TrainingJob.objects.filter(pool=pool_id, state=JobState.QUEUED, not_before=AFTER_OTHERS)


_any_held = RepeatedRead(lambda pool_id: _held(pool_id).order_by().values_list("pk")[:1], of=Whose.ALL, pool_id=-1)


def fates(
    waiting: Mapping[int, Sequence[Waited]],
    states: Mapping[int, str],
    members: Mapping[str, Sequence[int]] | None = None,
) -> Fates:
    """Decide what becomes of waiting jobs. `waiting` maps each job to what it waits for, in the order of job numbers.
    `states` has the states of all jobs that are named, and of the `members` of all arrays that are named. All of these
    have smaller numbers than the jobs that wait for them, so an array is evaluated once, when all its jobs are settled.
    """
    now, free, broken = dict(states), set[int](), dict[int, tuple[int, str]]()
    arrays: dict[str, tuple[str, int]] = {}  # the outcome of an array, and the first member that decides it

    def outcome(each: Waited) -> tuple[str, int]:
        if not isinstance(each, str):
            return _OUTCOMES.get(now[each], FAILED), each
        if each not in arrays:
            outcomes = [(_OUTCOMES.get(now[number], FAILED), number) for number in (members or {})[each]]
            arrays[each] = min(outcomes, key=lambda pair: (FAILED, OPEN, DONE).index(pair[0]))
        return arrays[each]

    for job, after in waiting.items():
        end = standing(after, {each: outcome(each)[0] for each in after})
        if end.state == READY:
            free.add(job)
        elif end.state == NEVER:
            _, other = outcome(end.jobs[0])
            broken[job] = other, now[other]
            now[job] = JobState.REJECTED.value
    return Fates(frozenset(free), broken)


def _freed(job: TrainingJob, pool: Pool, at: datetime) -> Event:
    """Make a job enter the market at `at`: from now on it is a job like any other. Return the event of that."""
    job.arrival, job.not_before = max(job.arrival, arrival_of(pool, at)), 0
    job.reason_code, job.reason_numbers = "waiting_for_interval", closes(pool, pool.slot_start(int(job.arrival)))
    data: dict[str, Any] = {"job": job.pk, "lane": job.lane, "after": job.after}
    return job_event(EventKind.JOB_QUEUED, job, at=at, data=data)


def _ended(job: TrainingJob, other: int, outcome: str, at: datetime) -> Event:
    at = max(at, job.submitted_at)  # a late clock may process boundaries from before the submission
    job.state, job.ended_at = JobState.REJECTED, at
    job.reason_code, job.reason_numbers = "dependency_failed", {"job": other, "outcome": outcome}
    data = {"job": job.pk, "reason": job.reason_code, "numbers": job.reason_numbers}
    return job_event(EventKind.JOB_REFUSED, job, at=at, data=data)
