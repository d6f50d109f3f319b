"""Read what a reader is notified of at once, on whatever page they are: of the kinds that they asked for, and no
others."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from scheduling.feed import event_messages, kind_of, message_text, subject_job
from scheduling.models import Event, TrainingJob
from scheduling.notices.kinds import OF_JOBS, notice_kind
from scheduling.notices.read_choices import choices_of
from scheduling.notices.read_notices import pool_name
from tenants.access import Access
from tenants.models import User
from tenants.roles import Permission

MOST = 3


@dataclass(frozen=True)
class Toast:
    tone: str  # good | bad
    title: str
    text: str
    job_id: int | None


@dataclass(frozen=True)
class Toasts:
    """The last few toasts, the cursor from which the page goes on, and whether it should ask again in a moment: an
    event is held back until all before it are there."""

    toasts: tuple[Toast, ...]
    cursor: int | None
    more: bool


NO_TOASTS = Toasts((), None, more=False)


def toasts_after(*, by: Access, after: int | None) -> Toasts:
    """Return the toasts since the cursor. Needs the tenant's scope. Without a cursor nothing is new."""
    if after is None or by.user is None:
        return NO_TOASTS
    news = event_messages(by=by, after=after)
    events = [event for event in news.events if notice_kind(event.kind, event.data)]
    jobs = _jobs(events) if by.allows(Permission.JOBS_VIEW) else {}
    wanted = _wanted(by, by.user, events, jobs)[-MOST:] if events else []
    return Toasts(tuple(_toast(event, jobs) for event in wanted), news.cursor, news.more)


def _wanted(by: Access, person: User, events: Iterable[Event], jobs: dict[int, TrainingJob]) -> list[Event]:
    choices = choices_of([person.pk])
    wanted = []
    for event in events:
        kind, job = notice_kind(event.kind, event.data), jobs.get(subject_job(event.subject) or 0)
        concerns = kind not in OF_JOBS or person.pk in choices.all_jobs or (job and job.submitted_by_id == person.pk)
        if kind is not None and by.allows(kind.permission) and concerns and choices.of(person.pk, kind).toast:
            wanted.append(event)
    return wanted


def _toast(event: Event, jobs: dict[int, TrainingJob]) -> Toast:
    kind = kind_of(event.kind)
    assert kind is not None  # noqa: S101  `notice_kind` knows it,
    assert kind.message is not None  # noqa: S101  and every kind that makes notices has words
    message, job_id = kind.message, subject_job(event.subject)
    job = jobs.get(job_id or 0)
    name = job.name if job else "A job" if job_id else pool_name(event)
    text = message_text(message, name, event.data)
    return Toast("good" if message.is_good else "bad", message.title, text, job.pk if job else None)


def _jobs(events: Iterable[Event]) -> dict[int, TrainingJob]:
    ids = {job_id for event in events if (job_id := subject_job(event.subject)) is not None}
    return TrainingJob.objects.only("id", "name", "submitted_by").in_bulk(ids) if ids else {}
