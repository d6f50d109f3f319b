"""The feed of what happened, in order, for whoever follows it with a cursor."""

from __future__ import annotations

from dataclasses import dataclass

from django.db import connection
from django.db.models import Q, QuerySet

from scheduling.feed.kinds import Audience, kinds_for
from scheduling.models import Event
from tenants.access import Access
from tenants.roles import Permission
from tenants.scoping import tenant_require

PAGE = 200


@dataclass(frozen=True)
class Feed:
    """`cursor`: what to ask after next. With no events it is the one that was asked after."""

    events: tuple[Event, ...]
    cursor: int


def event_feed(*, by: Access, after: int = 0, limit: int = PAGE) -> Feed:
    """Events with ids above `after`, oldest first: public ones, and those of the open tenant that the reader's roles
    may see. None is ever skipped: what a writer may still bring in below an event holds that event back."""
    events = tuple(event_rows(by=by).filter(id__gt=after).order_by("id")[:limit])
    return Feed(events, events[-1].pk if events else after)


def event_rows(*, by: Access) -> QuerySet[Event]:
    """All that the reader may see and that can no longer be preceded by an event still unseen: a list of them never
    grows but at its end."""
    return _visible(by).filter(id__lte=_settled()).select_related("pool")


def event_news(*, by: Access, after: int) -> tuple[Event, ...]:
    """What the reader may know of what happened after the cursor, the newest first and no more than a page of it.
    Unlike the feed it holds nothing back: whoever only wants to know what moved may be told twice."""
    rows = _visible(by).filter(id__gt=after).only("id", "kind", "subject", "tenant_id")
    return tuple(rows.order_by("-id")[:PAGE])


def feed_cursor() -> int:
    """After this one nothing has been missed yet by whoever reads everything else from now on."""
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
    """No event with this id or a smaller one can still appear. Asked before the events are: see sql/feed.sql."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT scheduling_event_settled()")
        (settled,) = cursor.fetchone()
    return int(settled)
