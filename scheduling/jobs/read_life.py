"""Read the life of a job: four steps for a glance, and all events of the feed about it, in order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from scheduling.feed import EventKind, kind_of
from scheduling.market.reads import is_late, jobs_named, reason_sentence, slots_words, units_words
from scheduling.models import (
    AFTER_OTHERS,
    NOT_DONE,
    NOT_NEEDED,
    Award,
    Event,
    Interval,
    JobFloor,
    JobState,
    Pool,
    TrainingJob,
)
from tenants.ledger.amounts import shown

MOST = 200
DONE, NOW, AHEAD = "done", "now", ""


@dataclass(frozen=True)
class Happening:
    at: datetime
    kind: str
    title: str
    sentence: str


@dataclass(frozen=True)
class LifeStep:
    """One step in the life of a job. `state` is done, now, or nothing yet. `at` is None where nobody knows the time."""

    state: str
    title: str
    at: datetime | None
    slot: int | None
    note: str


def happenings(pool: Pool, tenant_id: int, job_id: int) -> tuple[Happening, ...]:
    """Return the newest events of the feed about this job, oldest first. Reads one range of an index, and the intervals
    in which its size changed."""
    rows = list(Event.objects.filter(tenant=tenant_id, subject=f"job:{job_id}").order_by("-id")[:MOST])
    served = _jobs_served(pool, [row.data["start"] for row in rows if row.kind == EventKind.JOB_RESIZED])
    return tuple(
        Happening(row.at, row.kind, _heading(row.kind), _sentence(pool, row, served)) for row in reversed(rows)
    )


def _jobs_served(pool: Pool, slots: Sequence[int]) -> Mapping[int, int]:
    """Return how many jobs, of all tenants, got units in these slots of an elastic pool and in those before them."""
    if not slots:
        return {}
    rows = Interval.objects.filter(pool=pool, slot__in={each for slot in slots for each in (slot - 1, slot)})
    return dict(rows.values_list("slot", "jobs_awarded"))


def _heading(stored: str) -> str:
    """Return the heading of a kind of event; of a kind that another version wrote, its code as words."""
    kind = kind_of(stored)
    return kind.heading if kind and kind.heading else stored.replace("_", " ").capitalize()


def _sentence(pool: Pool, row: Event, served: Mapping[int, int]) -> str:
    data: Mapping[str, Any] = row.data
    if row.kind == EventKind.JOB_REQUEUED:
        return reason_sentence(pool, data.get("cause", data.get("reason")), data)
    if "reason" in data:
        return reason_sentence(pool, data["reason"], data.get("numbers", {}))
    if row.kind == EventKind.JOB_SUBMITTED:
        waits = f" It waits for {jobs_named(data['after'])}." if data.get("after") else ""
        return f"Sent to the {data.get('lane', 'batch')} lane.{waits}"
    if row.kind == EventKind.JOB_QUEUED and data.get("after"):
        return f"{jobs_named(data['after'])} ended well."
    if row.kind == EventKind.JOB_RESIZED:
        before, after = units_words(data["workers_before"], data["ps_before"]), units_words(data["workers"], data["ps"])
        why = _smaller(pool, row) or _among(data["start"], served)
        return f"From {before} to {after}, from slot {data['start']} on.{why}"
    if row.kind in (EventKind.JOB_AWARDED, EventKind.JOB_STARTED) and "end" in data:
        where = "at home" if data.get("phase") == "own" else "on rented units"
        workers, span = data.get("workers"), slots_words(data["start"], data["end"])
        return f"{workers} worker{'s' * (workers != 1)} {where}, {span}.{_smaller(pool, row)}"
    if row.kind == EventKind.JOB_SAVED:
        done, following = 100 * (1 - data["left"] / data["work"]), data["next"]
        rest = "The rest waits for the next interval." if following is None else f"It goes on in slot {following}."
        return f"A piece is over, and {done:.0f} % of the work is done. {rest}"
    if row.kind == EventKind.JOB_RUN_STARTED:
        return _program(data)
    if row.kind == EventKind.AWARD_GIVEN_UP:
        return "What it was still to get is given up."
    if row.kind == EventKind.AWARD_CUT and data.get("cause") == NOT_NEEDED:
        return reason_sentence(pool, NOT_NEEDED, data)
    if row.kind == EventKind.AWARD_CUT:
        return "A failure of the platform: what was not delivered is refunded."
    if row.kind == EventKind.AWARD_ADJUSTED:
        return f"{_why_less(data)}: {shown(data['refunded'])} credits came back."
    if row.kind == EventKind.JOB_CANCELLED:
        return f"By {data.get('by') or 'its tenant'}."
    return ""


def _why_less(data: Mapping[str, Any]) -> str:
    """Return why an award came cheaper in the end."""
    if data.get("cause") == NOT_DONE:
        return "The job was never done, and its parts are worth nothing"
    if data["to_slot"] <= data["from_slot"]:
        return "Alone it would have had no place, and its parts cost more than they were worth"
    return f"Alone it would have run in {slots_words(data['from_slot'], data['to_slot'])} and been worth more"


def _program(data: Mapping[str, Any]) -> str:
    """Return what was started. A built-in program has no version."""
    again = " It was started again." if data.get("run") else ""
    if "version" not in data:
        return again.strip()
    return f"{data['program']}, version {data['version']}.{again}"


def _smaller(pool: Pool, row: Event) -> str:
    """Return why a job runs with less than the pool's policy would have given it, or an empty text."""
    smaller_offer = row.data.get("smaller")
    return f" {reason_sentence(pool, smaller_offer['reason'], smaller_offer['numbers'])}" if smaller_offer else ""


def _among(slot: int, served: Mapping[int, int]) -> str:
    """Return among how many jobs the pool's policy dealt out the slot, and the one before, as far as both are known."""
    now, before = served.get(slot), served.get(slot - 1)
    if now is None or before is None:
        return ""
    have = f" {now} job{'s have' if now != 1 else ' has'} units in that slot"
    return f"{have}, {'as many as' if before == now else f'{before} had'} in the one before."


def life(
    job: TrainingJob,
    award: Award | None,
    floor: JobFloor | None,
    news: Sequence[Happening],
    at: datetime,
    *,
    first_piece: Award | None,
) -> tuple[LifeStep, ...]:
    """Return the steps submitted, decided, begun and ended, each with its time, or with what is known of it at this
    moment. Of a job that goes on in pieces, `award` is all of them together, and its first one was decided first."""
    who = f"by {job.submitted_by}" if job.submitted_by else "by a program"
    came = LifeStep(DONE, "Submitted", job.submitted_at, job.pool.slot_at(job.submitted_at), f"{who}, {job.lane} lane")
    decided = _decided(job, first_piece or award, news)
    if award is None and job.state in (JobState.REJECTED, JobState.EXPIRED, JobState.CANCELLED):
        return came, decided  # nothing begins or ends any more
    return came, decided, _begun(job, award, floor, at), _ended(job, award, at)


def _decided(job: TrainingJob, award: Award | None, news: Sequence[Happening]) -> LifeStep:
    if award is not None and job.pool.is_elastic:
        return LifeStep(DONE, "First sized", award.awarded_at, None, "and again in every slot since")
    if award is not None:
        newest_first = news if award.work is not None else tuple(reversed(news))  # the first of its pieces began it
        decided = next((each.at for each in newest_first if each.kind == EventKind.JOB_AWARDED), None)
        interval = f"interval {award.interval.number}, " if award.interval else "instant lane, "
        where = "on your own cells" if award.phase == "own" else "rented from the pool"
        return LifeStep(DONE, "Awarded", decided or job.submitted_at, None, interval + where)
    if job.state == JobState.QUEUED:
        since = next(
            (each.at for each in reversed(news) if each.kind in (EventKind.JOB_SUBMITTED, EventKind.JOB_REQUEUED)),
            job.submitted_at,
        )
        note = "for other jobs" if job.not_before == AFTER_OTHERS else "for an interval that gives it a place"
        return LifeStep(NOW, "Waits since", since, None, note)
    return LifeStep(NOW, job.get_state_display(), job.ended_at, None, "")


def _begun(job: TrainingJob, award: Award | None, floor: JobFloor | None, now: datetime) -> LifeStep:
    pool = job.pool
    if award is None:
        if job.state == JobState.QUEUED and floor is not None and floor.end > floor.start:
            title, note = "Starts at the latest", "its place at home"
            if floor.draft:
                title, note = "Projected to start", f"{note}, planned again at each interval"
            return LifeStep(AHEAD, title, pool.slot_start(floor.start), floor.start, note)
        waits = job.state == JobState.QUEUED
        return LifeStep(AHEAD, "Starts" if waits else "Never started", None, None, "not known yet" if waits else "")
    at, workers = pool.slot_start(award.start), f"{award.workers} worker{'s' * (award.workers != 1)} at most"
    if job.state == JobState.AWARDED:
        return LifeStep(NOW, "Was to start" if is_late(at, now) else "Starts", at, award.start, workers)
    never = award.cut_at is not None and award.cut_at <= award.start and award.pays_from is None
    if award.state == "ended" and never:
        return LifeStep(AHEAD, "Never started", None, None, "")
    return LifeStep(NOW if job.state == JobState.RUNNING else DONE, "Started", at, award.start, workers)


def _ended(job: TrainingJob, award: Award | None, now: datetime) -> LifeStep:
    if job.ended_at is not None and job.state not in (JobState.QUEUED, JobState.AWARDED, JobState.RUNNING):
        done = job.state == JobState.FINISHED
        return LifeStep(DONE if done else NOW, job.get_state_display(), job.ended_at, None, "")
    if award is None or job.pool.is_elastic:
        return LifeStep(AHEAD, "Ends", None, None, "not known yet")
    at = job.pool.slot_start(award.end)
    return LifeStep(
        AHEAD, "Was to end" if is_late(at, now) else "Ends", at, award.end, f"slot {award.end - 1} is its last"
    )
