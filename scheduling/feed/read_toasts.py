"""What a reader is told at once, on whatever page they are: money that moved, and what the platform did."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from scheduling.feed.kinds import TOLD_AT_ONCE, Message
from scheduling.feed.read_events import event_feed
from scheduling.models import Event, TrainingJob
from tenants.access import Access
from tenants.roles import Permission

MOST = 3


@dataclass(frozen=True)
class Toast:
    tone: str  # good | bad
    title: str
    text: str
    job_id: int | None


def toasts_after(*, by: Access, after: int | None) -> tuple[Toast, ...]:
    """The last few. Needs the tenant's scope. Without a cursor there is nothing new."""
    if after is None:
        return ()
    events = [event for event in event_feed(by=by, after=after).events if event.kind in TOLD_AT_ONCE][-MOST:]
    names = _job_names(events) if by.allows(Permission.JOBS_VIEW) else {}
    return tuple(_toast(event, TOLD_AT_ONCE[event.kind], names) for event in events)


def _toast(event: Event, message: Message, names: Mapping[int, str]) -> Toast:
    job_id = _job_id(event)
    name = names.get(job_id or 0, "A job")
    try:
        text = message.text(name, event.data)
    except (KeyError, TypeError, ValueError):
        text = ""  # an event of an older form: its title says enough
    return Toast("good" if message.is_good else "bad", message.title, text, job_id if job_id in names else None)


def _job_id(event: Event) -> int | None:
    kind, _, number = event.subject.partition(":")
    return int(number) if kind == "job" and number.isdigit() else None


def _job_names(events: list[Event]) -> dict[int, str]:
    ids = {job_id for event in events if (job_id := _job_id(event)) is not None}
    return dict(TrainingJob.objects.filter(pk__in=ids).values_list("pk", "name")) if ids else {}
