"""Tells open pages that something moved, once it is committed. Names of topics and numbers only: a page then asks for
its rows over HTTP, where the reader's scope and rights are those of the moment.

One group of sockets for each tenant, one for each person, one for everybody who looks at a pool. Lost messages do no
harm: whoever connects again catches up from the feed.
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

_cursor: tuple[float, int] | None = None  # of the feed: when this process asked for it last, and what it was then


@dataclass
class News:
    """What a group is told. `told`: a reader may have asked to be told at once of something among it."""

    topics: set[str] = field(default_factory=set)
    is_urgent: bool = False

    def add(self, event: Event) -> None:
        self.join(News(set(topics_of(event)), event.kind in WITH_MESSAGE))

    def join(self, other: News) -> None:
        self.topics |= other.topics
        self.is_urgent = self.is_urgent or other.is_urgent


@dataclass
class Telling:
    """What one transaction has to tell, once it is committed: one journey to the broker, however often it was said."""

    savepoints: frozenset[str | None]  # those that were open when this began; with one of them all of this is undone
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
    """The parts of pages that show what the event is about."""
    kind = kind_of(event.kind)
    topics = kind.topics if kind else ()
    return (*topics, event.subject) if event.subject.startswith("job:") else topics


def events_tell(events: Iterable[Event]) -> None:
    """After the commit of the open transaction. A broker that does not answer undoes nothing."""
    news = _by_group(events)
    if news:
        _tell(news)


def slot_tell(pool_id: int) -> None:
    """A slot began: prices, countdown and charts move even where nothing else happened."""
    _tell({pool_group(pool_id): News({SLOT})})


def tenant_tell(tenant_id: int, *topics: str) -> None:
    """Something of one tenant moved that the feed does not tell of."""
    _tell({tenant_group(tenant_id): News(set(topics))})


def persons_tell(person_ids: Iterable[int]) -> None:
    """The notices of these persons moved."""
    news = {person_group(person_id): News({NOTICES}) for person_id in person_ids}
    if news:
        _tell(news)


def _tell(news: dict[str, News]) -> None:
    """Joins what waits for this commit already, if whatever undoes that undoes this too."""
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
    # Whoever was told at once comes back with this cursor for what to be told of next, and hears nothing twice.
    cursor = _cursor_now() if any(one.is_urgent for one in news.values()) else _cursor_of_late()
    layer.groups_tell(
        {
            group: {"type": "news", "topics": sorted(one.topics), "told": one.is_urgent, "cursor": cursor}
            for group, one in news.items()
        }
    )


def _cursor_of_late() -> int:
    """As this process asked for it a second ago or less: with an older one, a page that connects again renews a part
    once more, and misses nothing."""
    if _cursor is None or monotonic() - _cursor[0] >= CURSOR_SECONDS:
        return _cursor_now()
    return _cursor[1]


def _cursor_now() -> int:
    global _cursor
    asked_at, cursor = monotonic(), feed_cursor()
    _cursor = (asked_at, cursor)
    return cursor
