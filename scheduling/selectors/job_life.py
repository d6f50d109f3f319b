"""The life of a job: four steps for a glance, and everything that was told of it, in order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from scheduling.models import Award, Event, JobFloor, JobState, Pool, TrainingJob
from scheduling.selectors.explain import reason_sentence

MOST = 200
DONE, NOW, AHEAD = "done", "now", ""


@dataclass(frozen=True)
class Happening:
    at: datetime
    kind: str
    title: str
    sentence: str


@dataclass(frozen=True)
class Step:
    """`state`: done, now, or nothing yet. `at` None: nobody knows."""

    state: str
    title: str
    at: datetime | None
    slot: int | None
    note: str


def happenings(pool: Pool, tenant_id: int, job_id: int) -> tuple[Happening, ...]:
    """The newest ones of the feed about this job, oldest first. One range of an index."""
    rows = Event.objects.filter(tenant=tenant_id, subject=f"job:{job_id}").order_by("-id")[:MOST]
    return tuple(
        Happening(row.at, row.kind, _TITLES.get(row.kind, row.kind), _sentence(pool, row)) for row in reversed(rows)
    )


_TITLES = {
    "job_submitted": "Submitted",
    "job_waiting": "Waits",
    "job_awarded": "Awarded",
    "job_started": "Started",
    "job_resized": "Sized anew",
    "job_finished": "Finished",
    "job_stopped": "Stopped",
    "job_failed": "Failed",
    "job_refused": "Refused",
    "job_expired": "Expired",
    "job_cancelled": "Cancelled",
    "job_queued": "Waits for the next interval",
    "job_requeued": "Queued again",
}


def _sentence(pool: Pool, row: Event) -> str:
    data: Mapping[str, Any] = row.data
    if "reason" in data and row.kind != "job_requeued":
        return reason_sentence(pool, data["reason"], data.get("numbers", {}))
    if row.kind == "job_submitted":
        return f"To the {data.get('lane', 'batch')} lane."
    if row.kind == "job_resized":
        before = f"{data['workers_before']} workers and {data['ps_before']} parameter servers"
        return (
            f"From {before} to {data['workers']} and {data['ps']}, from slot {data['start']} on.{_smaller(pool, row)}"
        )
    if row.kind in ("job_awarded", "job_started") and "end" in data:
        where = "at home" if data.get("phase") == "own" else "on rented units"
        span = f"slots {data['start']} to {data['end'] - 1}"
        return f"{data.get('workers')} workers {where}, {span}.{_smaller(pool, row)}"
    if row.kind == "job_requeued":
        return "A failure of the platform: what was not delivered is refunded."
    if row.kind == "job_cancelled":
        return f"By {data.get('by') or 'its tenant'}."
    return ""


def _smaller(pool: Pool, row: Event) -> str:
    """Of a job that runs with less than the pool's policy would have given it."""
    told = row.data.get("smaller")
    return f" {reason_sentence(pool, told['reason'], told['numbers'])}" if told else ""


def life(job: TrainingJob, award: Award | None, floor: JobFloor | None, told: Sequence[Happening]) -> tuple[Step, ...]:
    """Submitted, decided, begun, ended: each with its time, or with what is known of it."""
    who = f"by {job.submitted_by}" if job.submitted_by else "by a program"
    return (
        Step(DONE, "Submitted", job.submitted_at, job.pool.slot_at(job.submitted_at), f"{who}, {job.lane} lane"),
        _decided(job, award, told),
        _begun(job, award, floor),
        _ended(job, award),
    )


def _decided(job: TrainingJob, award: Award | None, told: Sequence[Happening]) -> Step:
    if award is not None and job.pool.is_elastic:
        return Step(DONE, "First sized", award.awarded_at, None, "and anew in every slot since")
    if award is not None:
        decided = next((each.at for each in reversed(told) if each.kind == "job_awarded"), None)
        interval = f"interval {award.interval.number}, " if award.interval else "instant lane, "
        where = "on your own cells" if award.phase == "own" else "rented from the pool"
        return Step(DONE, "Awarded", decided or job.submitted_at, None, interval + where)
    if job.state == JobState.QUEUED:
        since = next((each.at for each in told if each.kind in ("job_submitted", "job_requeued")), job.submitted_at)
        return Step(NOW, "Waits since", since, None, "for an interval that gives it a place")
    titles = {JobState.REJECTED: "Refused", JobState.EXPIRED: "Expired", JobState.CANCELLED: "Cancelled"}
    return Step(NOW, titles.get(JobState(job.state), job.get_state_display()), job.ended_at, None, "")


def _begun(job: TrainingJob, award: Award | None, floor: JobFloor | None) -> Step:
    pool = job.pool
    if award is None:
        if job.state == JobState.QUEUED and floor is not None and floor.end > floor.start:
            return Step(AHEAD, "Starts at the latest", pool.slot_start(floor.start), floor.start, "its place at home")
        waits = job.state == JobState.QUEUED
        return Step(AHEAD, "Starts" if waits else "Never started", None, None, "not known yet" if waits else "")
    at, workers = pool.slot_start(award.start), f"{award.workers} worker{'s' * (award.workers != 1)} at most"
    if job.state == JobState.AWARDED:
        return Step(NOW, "Starts", at, award.start, workers)
    if award.state == "ended" and award.cut_at is not None and award.cut_at <= award.start:
        return Step(AHEAD, "Never started", None, None, "")
    return Step(NOW if job.state == JobState.RUNNING else DONE, "Started", at, award.start, workers)


def _ended(job: TrainingJob, award: Award | None) -> Step:
    if job.ended_at is not None and job.state not in (JobState.QUEUED, JobState.AWARDED, JobState.RUNNING):
        done = job.state == JobState.FINISHED
        return Step(DONE if done else NOW, job.get_state_display(), job.ended_at, None, "")
    if award is None or job.pool.is_elastic:
        return Step(AHEAD, "Ends", None, None, "not known yet")
    return Step(AHEAD, "Ends", job.pool.slot_start(award.end), award.end, f"slot {award.end - 1} is its last")
