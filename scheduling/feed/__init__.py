"""The feed: events, written in the transaction of the change that they report, and how news of them reaches readers."""

from scheduling.feed.events import event, events_append, job_event, job_subject
from scheduling.feed.kinds import OWN_KINDS, EventKind, kind_of, message_text, subject_job
from scheduling.feed.notify import persons_tell, tenant_tell
from scheduling.feed.read_events import event_messages, feed_cursor

__all__ = [
    "OWN_KINDS",
    "EventKind",
    "event",
    "event_messages",
    "events_append",
    "feed_cursor",
    "job_event",
    "job_subject",
    "kind_of",
    "message_text",
    "persons_tell",
    "subject_job",
    "tenant_tell",
]
