"""Notifies open pages of a change, once it is committed. A message has only names of topics and numbers: the page then
requests its rows over HTTP, under the reader's scope and rights of that moment.

There is one group of sockets for each tenant, one for each person, and one for all readers of a pool. Lost messages do
no harm: a page that connects again catches up from the feed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from time import monotonic

from channels.layers import get_channel_layer
from django.db import transaction

from scheduling.feed.kinds import JOBS, MONEY, NOTICES, PRICES, SERVERS, SHARE, SLOT, WITH_MESSAGE, kind_of
from scheduling.feed.read_events import feed_cursor
from scheduling.models import Event

EVERYBODY = frozenset({SLOT, PRICES, JOBS, MONEY, SERVERS, SHARE, NOTICES})
CURSOR_SECONDS = 1.0

_cursor: tuple[float, int] | None = None  # of the feed: when this process read it last, and its value then


@dataclass
class News:
    """The news for one group. `is_urgent`: a reader may have asked to be notified at once of something in it."""

    topics: set[str] = field(default_factory=set)
    is_urgent: bool = False

    def add(self, event: Event) -> None:
        self.join(News(set(topics_of(event)), event.kind in WITH_MESSAGE))

    def join(self, other: News) -> None:
        self.topics |= other.topics
        self.is_urgent = self.is_urgent or other.is_urgent


@dataclass
class Telling:
    """All news of one transaction. It is sent after the commit, in one round trip to the broker."""

    savepoints: frozenset[str | None]  # open when this began; a rollback to one of them undoes all of this
    news: dict[str, News]

    def send(self) -> None:
        _send(self.news)

    def join(self, news: Mapping[str, News]) -> None:
        for group, one in news.items():
            self.news.setdefault(group, News()).join(one)


def tenant_group(tenant_id: int) -> str:
    return f"tenant.{tenant_id}"


def person_group(person_id: int) -> str:
    return f"person.{person_id}"


def pool_group(pool_id: int) -> str:
    return f"pool.{pool_id}"


def topics_of(event: Event) -> tuple[str, ...]:
    """Return the parts of pages that show what the event is about."""
    kind = kind_of(event.kind)
    topics = kind.topics if kind else ()
    return (*topics, event.subject) if event.subject.startswith("job:") else topics


def events_tell(events: Iterable[Event]) -> None:
    """Send news of the events after the commit. If the broker does not answer, nothing is undone."""
    news = _by_group(events)
    if news:
        _tell(news)


def slot_tell(pool_id: int) -> None:
    """Send news that a slot began: prices, countdown and charts change even if nothing else happened."""
    _tell({pool_group(pool_id): News({SLOT})})


def tenant_tell(tenant_id: int, *topics: str) -> None:
    """Send news of a change in one tenant that the feed has no event for."""
    _tell({tenant_group(tenant_id): News(set(topics))})


def persons_tell(person_ids: Iterable[int]) -> None:
    """Send news that the notices of these persons changed."""
    news = {person_group(person_id): News({NOTICES}) for person_id in person_ids}
    if news:
        _tell(news)


def _tell(news: dict[str, News]) -> None:
    """Send the news after the commit. It joins news that already waits for the commit, if every rollback that undoes
    that news undoes this news too."""
    connection = transaction.get_connection()
    open_now = frozenset(connection.savepoint_ids)
    for _, call, *_ in connection.run_on_commit:
        waiting = getattr(call, "__self__", None)
        if isinstance(waiting, Telling) and waiting.savepoints <= open_now:
            waiting.join(news)
            return
    transaction.on_commit(Telling(open_now, news).send, robust=True)


def _by_group(events: Iterable[Event]) -> dict[str, News]:
    news: defaultdict[str, News] = defaultdict(News)
    for event in events:
        if event.tenant_id is not None:
            news[tenant_group(event.tenant_id)].add(event)
        elif event.pool_id is not None:
            news[pool_group(event.pool_id)].add(event)
    return dict(news)


def _send(news: Mapping[str, News]) -> None:
    layer = get_channel_layer()
    if layer is None:
        return
    # A page that is notified at once, and connects again with this cursor, is not told of the same a second time.
    cursor = _cursor_now() if any(one.is_urgent for one in news.values()) else _cursor_of_late()
    layer.groups_tell(
        {
            group: {"type": "news", "topics": sorted(one.topics), "told": one.is_urgent, "cursor": cursor}
            for group, one in news.items()
        }
    )


def _cursor_of_late() -> int:
    """Return the cursor of the feed as this process read it at most a second ago. With an older cursor, a page that
    connects again renews a part once more than needed, and misses nothing."""
    if _cursor is None or monotonic() - _cursor[0] >= CURSOR_SECONDS:
        return _cursor_now()
    return _cursor[1]


def _cursor_now() -> int:
    global _cursor
    asked_at, cursor = monotonic(), feed_cursor()
    _cursor = (asked_at, cursor)
    return cursor
