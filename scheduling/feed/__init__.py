"""The feed: what happened, told in the transaction in which it happens, and how the news reaches its readers."""

from scheduling.feed.events import event, events_append, job_event, job_subject
from scheduling.feed.kinds import OWN_KINDS, EventKind, kind_of
from scheduling.feed.notify import tenant_tell
from scheduling.feed.read_events import feed_cursor
from scheduling.feed.read_toasts import toasts_after

__all__ = [
    "OWN_KINDS",
    "EventKind",
    "event",
    "events_append",
    "feed_cursor",
    "job_event",
    "job_subject",
    "kind_of",
    "tenant_tell",
    "toasts_after",
]
