"""The course of a job by the feed: the state that it must have after all that happened to it. It depends on its events
alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from scheduling.feed import EventKind
from scheduling.models import AFTER_OTHERS, JobState, Lane


class JobEvent(NamedTuple):
    """One event about a job."""

    kind: str
    at: datetime
    data: Mapping[str, Any]


@dataclass(frozen=True)
class Cut:
    """An award cut short; `void` where the platform did it. `freed` are the slots [begin, end) in which what it gave up
    is sold for its tenant's account. `pays_from` is the first slot that it pays for after those that came back."""

    cut_at: int | None
    freed: tuple[int, int] | None
    void: bool
    pays_from: int | None = None


@dataclass
class Life:
    """A job after its events. `digest` is that of its submission; it is None where an older version wrote none, and no
    cuts either. `reason` is code and numbers where they are final, or must be empty; it is None where the next boundary
    writes them anew."""

    digest: str | None
    submitted_lane: str
    lane: str
    arrived_at: datetime
    worth_from: datetime | None = None  # from when its worth counts at the latest, where it names a moment
    state: str = JobState.QUEUED.value
    reason: tuple[str, Mapping[str, Any]] | None = None
    attempt: int = 0
    not_before: int = 0
    ended_at: datetime | None = None
    started: int | None = None  # the first slot in which it ever started
    awards: dict[int, int] = field(default_factory=dict)  # award named by an event -> the job's attempt at that time
    cuts: dict[int, Cut] = field(default_factory=dict)  # by award, as the last event says


def life_of(events: Iterable[JobEvent], *, elastic: bool) -> Life | None:
    """Return the job after its events, or None where no event says that it was submitted."""
    life: Life | None = None
    for event in events:
        if event.kind == EventKind.JOB_SUBMITTED and life is None:
            lane = str(event.data.get("lane"))
            begins_at = event.data.get("begins_at")
            arrived_at = event.at if begins_at is None else datetime.fromisoformat(begins_at)
            life = Life(event.data.get("digest"), lane, lane, arrived_at)
            if event.data.get("names_moment"):
                counts_from = event.data.get("worth_from")
                life.worth_from = arrived_at if counts_from is None else datetime.fromisoformat(counts_from)
            life.not_before = AFTER_OTHERS if event.data.get("after") else 0
        elif life is not None and event.kind in _STEPS:
            if event.data.get("award") is not None:
                life.awards.setdefault(event.data["award"], life.attempt)
            _STEPS[event.kind](life, event, elastic)
    return life


def _waiting(life: Life, event: JobEvent, elastic: bool) -> None:
    del event, elastic
    life.state, life.reason, life.ended_at = JobState.QUEUED.value, None, None


def _queued(life: Life, event: JobEvent, elastic: bool) -> None:
    """Let an instant job that was refused wait after all, or a job that waited for others enter the market."""
    _waiting(life, event, elastic)
    life.lane, life.arrived_at, life.not_before = Lane.BATCH.value, max(life.arrived_at, event.at), 0


def _requeued(life: Life, event: JobEvent, elastic: bool) -> None:
    """Count another attempt, except where slots are awarded one by one. An event without a cause means that only a
    promise was missed."""
    _waiting(life, event, elastic)
    life.lane = Lane.BATCH.value
    life.attempt += 0 if elastic else 1
    if "cause" in event.data:
        # Older versions let the job wait for the award's cut, which may be later than the first slot of the loss.
        first = event.data.get("from_slot", event.data.get("cut_at"))
        life.not_before = max(event.data.get("next_slot", 0), first or 0)
        _void(life, event, elastic)


def _awarded(life: Life, event: JobEvent, elastic: bool) -> None:
    del event
    life.state, life.reason = JobState.AWARDED.value, None if elastic else ("", {})


def _started(life: Life, event: JobEvent, elastic: bool) -> None:
    _awarded(life, event, elastic)
    life.state = JobState.RUNNING.value
    if life.started is None:
        life.started = event.data.get("slot", event.data.get("start"))


def _void(life: Life, event: JobEvent, elastic: bool) -> None:
    """Cut the award. A later cut has an earlier slot; what was given up before stays given up. An award that pays on
    only got back slots that were not delivered."""
    del elastic
    _cut(life, event, void=not event.data.get("pays_on", False))


def _cut(life: Life, event: JobEvent, *, void: bool) -> None:
    award = event.data.get("award")
    if award is not None:
        before = life.cuts.get(award)
        freed = tuple(event.data["freed"]) if event.data.get("freed") else before.freed if before else None
        life.cuts[award] = Cut(event.data.get("cut_at"), freed, void, event.data.get("pays_from"))


def _ends(state: JobState) -> Callable[[Life, JobEvent, bool], None]:
    def end(life: Life, event: JobEvent, elastic: bool) -> None:
        code, numbers = event.data.get("reason", ""), event.data.get("numbers", {})
        given_up = state == JobState.FAILED and "refunded" in numbers
        life.attempt += given_up and not elastic  # the last attempt is over, as after every loss
        life.state, life.reason, life.ended_at = state.value, (code, numbers), event.at
        life.not_before = 0 if given_up else life.not_before
        _cut(life, event, void=given_up)

    return end


def _cancelled(life: Life, event: JobEvent, elastic: bool) -> None:
    del elastic
    life.state, life.ended_at = JobState.CANCELLED.value, event.at
    life.reason = "cancelled_by", {"user": event.data.get("by")}
    _cut(life, event, void=False)


def _saved(life: Life, event: JobEvent, elastic: bool) -> None:
    """End a piece of the job: it waits for the next one, or begins with an award that it has already."""
    _waiting(life, event, elastic)
    if event.data.get("next") is not None:
        life.state, life.reason = JobState.AWARDED.value, ("", {})


def _given_up(life: Life, event: JobEvent, elastic: bool) -> None:
    """Cut a further award of a job that is over."""
    del elastic
    _cut(life, event, void=False)


def _adjusted(life: Life, event: JobEvent, elastic: bool) -> None:
    """Change nothing: what came back because alone was better does not affect the job's course."""
    del life, event, elastic


# What each kind of event that moves a job does to it; a life begins with the submission. Kinds that do not move a job
# say so in `scheduling.feed.kinds`.
_STEPS: Mapping[str, Callable[[Life, JobEvent, bool], None]] = {
    EventKind.JOB_QUEUED: _queued,
    EventKind.JOB_WAITING: _waiting,
    EventKind.JOB_REQUEUED: _requeued,
    EventKind.JOB_AWARDED: _awarded,
    EventKind.JOB_STARTED: _started,
    EventKind.JOB_RESIZED: _started,
    EventKind.JOB_SAVED: _saved,
    EventKind.AWARD_CUT: _void,
    EventKind.AWARD_GIVEN_UP: _given_up,
    EventKind.AWARD_ADJUSTED: _adjusted,
    EventKind.JOB_FINISHED: _ends(JobState.FINISHED),
    EventKind.JOB_STOPPED: _ends(JobState.STOPPED),
    EventKind.JOB_FAILED: _ends(JobState.FAILED),
    EventKind.JOB_REFUSED: _ends(JobState.REJECTED),
    EventKind.JOB_EXPIRED: _ends(JobState.EXPIRED),
    EventKind.JOB_CANCELLED: _cancelled,
}
