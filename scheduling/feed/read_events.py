"""Reads of the feed: events in order, for readers that follow it with a cursor."""

from __future__ import annotations

from dataclasses import dataclass

from django.db import connection
from django.db.models import Q, QuerySet

from scheduling.feed.kinds import WITH_MESSAGE, Audience, kinds_for
from scheduling.models import Event
from tenants.access import Access
from tenants.roles import Permission
from tenants.scoping import tenant_require

PAGE = 200


@dataclass(frozen=True)
class Feed:
    """A page of the feed. `cursor` is where the next page begins; without events it is where this one began."""

    events: tuple[Event, ...]
    cursor: int


@dataclass(frozen=True)
class Messages:
    """Events with words for people. `cursor` is where the next reading begins. `more` means that another one is there
    already, and is held back."""

    events: tuple[Event, ...]
    cursor: int
    more: bool


def event_feed(*, by: Access, after: int = 0, limit: int = PAGE) -> Feed:
    """Return events with ids above `after`, oldest first: public ones, and those of the open tenant that the reader's
    roles may see. None is ever skipped: an event is held back while a writer may still commit one with a smaller id."""
    events = tuple(event_rows(by=by).filter(id__gt=after).order_by("id")[:limit])
    return Feed(events, events[-1].pk if events else after)


def event_rows(*, by: Access) -> QuerySet[Event]:
    """Return all events that the reader may see and before which no new event can appear: the list grows at its end
    only."""
    return _visible(by).filter(id__lte=_settled()).select_related("pool")


def event_news(*, by: Access, after: int) -> tuple[Event, ...]:
    """Return the events after the cursor that the reader may see, the newest first and at most a page. Unlike the feed
    it holds nothing back: a reader that only wants to know what changed may get an event twice."""
    rows = _visible(by).filter(id__gt=after).only("id", "kind", "subject", "tenant_id")
    return tuple(rows.order_by("-id")[:PAGE])


def event_messages(*, by: Access, after: int) -> Messages:
    """Return the newest events after the cursor that the reader may see and that have words for people, oldest first
    and at most a page. None is skipped for being committed late, as in the feed."""
    settled = _settled()
    rows = _visible(by).filter(id__gt=after, kind__in=WITH_MESSAGE)
    newest = rows.filter(id__lte=settled).order_by("-id")[:PAGE]
    return Messages(tuple(reversed(newest)), max(settled, after), rows.filter(id__gt=settled).exists())


def feed_cursor() -> int:
    """Return the cursor of now: a reader that begins here, and reads everything after it, misses nothing new."""
    return _settled()


def _visible(by: Access) -> QuerySet[Event]:
    if by.tenant is None:
        everything = by.allows(Permission.TENANTS_VIEW)
        return Event.objects.all() if everything else Event.objects.filter(tenant=None)
    tenant_require(by.tenant.pk)
    own = Q(tenant=by.tenant)
    if not by.allows(Permission.JOBS_VIEW):
        own &= ~Q(kind__in=kinds_for(Audience.TENANT_JOBS))
    if not by.allows(Permission.LEDGER_VIEW):
        own &= ~Q(kind__in=kinds_for(Audience.TENANT_MONEY))
    return Event.objects.filter(Q(tenant=None) | own)


def _settled() -> int:
    """Return the largest id such that no event with it or a smaller one can still appear. It must be read before the
    events are: see sql/feed.sql."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT scheduling_event_settled()")
        (settled,) = cursor.fetchone()
    return int(settled)
