"""Tells open pages that something moved, once it is committed. Names of topics and numbers only: a page then asks for
its rows over HTTP, where the reader's scope and rights are those of the moment.

One group of sockets for each tenant, one for everybody who looks at a pool. Lost messages do no harm: whoever
connects again catches up from the feed.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from asgiref.sync import async_to_sync
from channels.layers import get_channel_layer
from django.db import transaction

from scheduling.models import Event
from scheduling.selectors.events import TOLD_AT_ONCE, feed_cursor

SLOT, PRICES, JOBS, MONEY, SERVERS, SHARE = "slot", "prices", "jobs", "money", "servers", "share"
EVERYBODY = frozenset({SLOT, PRICES, JOBS, MONEY, SERVERS, SHARE})

_TOPICS: Mapping[str, tuple[str, ...]] = {
    "slot_settled": (SLOT, MONEY),  # of whoever pays or earns in the slot
    "interval_closed": (PRICES, SERVERS, MONEY),  # what is decided is held or paid
    "prices_posted": (PRICES,),
    "job_awarded": (JOBS, MONEY, SERVERS),
    "low_balance": (MONEY,),
    "budget_passed": (MONEY,),
    "fairness_alert": (),
    "fairness_alert_over": (),
    "fairness_concern": (),
    "server_changed": (SERVERS, SHARE, PRICES),
    "server_lost": (SERVERS, SHARE, PRICES),
    "sharing_changed": (SHARE,),
}


@dataclass
class News:
    """What a group is told. `told`: something among it is worth more than a part that moves."""

    topics: set[str] = field(default_factory=set)
    told: bool = False

    def add(self, event: Event) -> None:
        self.topics |= set(topics_of(event))
        self.told = self.told or event.kind in TOLD_AT_ONCE


def tenant_group(tenant_id: int) -> str:
    return f"tenant.{tenant_id}"


def pool_group(pool_id: int) -> str:
    return f"pool.{pool_id}"


def topics_of(event: Event) -> tuple[str, ...]:
    """The parts of pages that show what the event is about."""
    if event.kind in _TOPICS:
        topics = _TOPICS[event.kind]
    elif event.kind.startswith("job_"):
        topics = (JOBS, SERVERS, MONEY)
    else:
        topics = (PRICES, SERVERS) if event.tenant_id is None else ()
    return (*topics, event.subject) if event.subject.startswith("job:") else topics


def events_tell(events: Iterable[Event]) -> None:
    """After the commit of the open transaction. A broker that does not answer undoes nothing."""
    news = _by_group(events)
    if news:
        transaction.on_commit(lambda: _send(news), robust=True)


def slot_tell(pool_id: int) -> None:
    """A slot began: prices, countdown and charts move even where nothing else happened."""
    news = {pool_group(pool_id): News({SLOT})}
    transaction.on_commit(lambda: _send(news), robust=True)


def tenant_tell(tenant_id: int, *topics: str) -> None:
    """Something of one tenant moved that the feed does not tell of."""
    news = {tenant_group(tenant_id): News(set(topics))}
    transaction.on_commit(lambda: _send(news), robust=True)


def _by_group(events: Iterable[Event]) -> dict[str, News]:
    news: defaultdict[str, News] = defaultdict(News)
    for event in events:
        if event.tenant_id is not None:
            news[tenant_group(event.tenant_id)].add(event)
        elif event.pool_id is not None:
            news[pool_group(event.pool_id)].add(event)
    return dict(news)


def _send(news: Mapping[str, News]) -> None:
    cursor = feed_cursor()
    messages = {
        group: {"type": "news", "topics": sorted(one.topics), "told": one.told, "cursor": cursor}
        for group, one in news.items()
    }
    async_to_sync(_send_all)(messages)


async def _send_all(messages: Mapping[str, dict[str, Any]]) -> None:
    layer = get_channel_layer()
    if layer is not None:
        await asyncio.gather(*(layer.group_send(group, message) for group, message in messages.items()))
