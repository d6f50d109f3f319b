"""What one transaction tells open pages: once, and never of what it undid alone."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import pytest
from channels.layers import get_channel_layer
from django.conf import settings
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from redis import Redis

from scheduling.feed import notify
from scheduling.feed.events import event
from scheduling.feed.kinds import EventKind
from scheduling.feed.notify import JOBS, MONEY, SLOT, News, events_tell, slot_tell, tenant_group, tenant_tell
from tests.patience import PATIENCE

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def journeys(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, set[str]]]:
    """Group -> topics, for each journey to the broker."""
    journeys: list[dict[str, set[str]]] = []

    def send(news: Mapping[str, News]) -> None:
        journeys.append({group: one.topics for group, one in news.items()})

    monkeypatch.setattr(notify, "_send", send)
    return journeys


class _Undo(Exception):
    pass


def test_whatever_one_transaction_says_makes_one_journey(journeys: list[dict[str, set[str]]]) -> None:
    with transaction.atomic():
        tenant_tell(1, JOBS)
        with transaction.atomic():
            tenant_tell(1, MONEY)
            slot_tell(7)
        assert journeys == []
    assert journeys == [{tenant_group(1): {JOBS, MONEY}, notify.pool_group(7): {SLOT}}]


def test_what_is_said_after_an_undone_part_is_told_all_the_same(journeys: list[dict[str, set[str]]]) -> None:
    with transaction.atomic():
        with suppress(_Undo), transaction.atomic():
            tenant_tell(1, MONEY)
            raise _Undo
        tenant_tell(1, JOBS)
    assert journeys == [{tenant_group(1): {JOBS}}]


def test_an_undone_transaction_tells_nothing_and_the_next_only_its_own(journeys: list[dict[str, set[str]]]) -> None:
    with suppress(_Undo), transaction.atomic():
        tenant_tell(1, MONEY)
        raise _Undo
    tenant_tell(2, JOBS)  # without a transaction: at once
    assert journeys == [{tenant_group(2): {JOBS}}]


def test_all_groups_hear_what_a_thread_tells_in_one_journey() -> None:
    layer: Any = get_channel_layer()

    async def story() -> list[dict[str, Any]]:
        channels = [await layer.new_channel() for _ in "ab"]
        await layer.group_add("tenant.1", channels[0])
        await layer.group_add("pool.7", channels[1])
        await asyncio.to_thread(layer.groups_tell, {"tenant.1": {"topics": ["jobs"]}, "pool.7": {"topics": ["slot"]}})
        messages = [await asyncio.wait_for(layer.receive(channel), PATIENCE) for channel in channels]
        await layer.flush()
        return messages

    assert asyncio.run(story()) == [{"topics": ["jobs"]}, {"topics": ["slot"]}]


def test_news_is_not_lost_with_a_connection_that_was_cut_meanwhile() -> None:
    layer: Any = get_channel_layer()

    def cut() -> None:
        layer.groups_tell({"tenant.1": {"number": 1}})
        teller = layer._teller
        killer = Redis.from_url(settings.REDIS_URL)
        assert killer.client_kill_filter(_id=teller.client_id()) == 1
        killer.close()
        layer.groups_tell({"tenant.1": {"number": 2}})

    async def story() -> list[dict[str, Any]]:
        channel = await layer.new_channel()
        await layer.group_add("tenant.1", channel)
        await asyncio.to_thread(cut)
        messages = [await asyncio.wait_for(layer.receive(channel), PATIENCE) for _ in range(2)]
        await layer.flush()
        return messages

    assert asyncio.run(story()) == [{"number": 1}, {"number": 2}]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What a process reads that has told nothing yet."""
    now = [1_000.0]
    monkeypatch.setattr(notify, "_cursor", None)
    monkeypatch.setattr(notify, "monotonic", lambda: now[0])
    return now


def test_the_feed_is_asked_for_its_cursor_once_a_second(clock: list[float]) -> None:
    with CaptureQueriesContext(connection) as captured:
        for clock[0] in (1_000.0, 1_000.5, 1_000.9):
            tenant_tell(1, JOBS)
    assert len(captured) == 1
    with CaptureQueriesContext(connection) as captured:
        clock[0] = 1_001.0
        tenant_tell(1, JOBS)
    assert len(captured) == 1


def test_what_is_told_at_once_comes_with_the_cursor_of_the_moment(
    clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With an older one the page would be told of it a second time, beside the next."""
    layer, cursors = get_channel_layer(), iter((5, 9))
    places: list[int] = []
    monkeypatch.setattr(notify, "feed_cursor", lambda: next(cursors))
    monkeypatch.setattr(layer, "groups_tell", lambda messages: places.extend(m["cursor"] for m in messages.values()))
    tenant_tell(1, JOBS)
    tenant_tell(1, JOBS)
    events_tell([event(EventKind.JOB_FINISHED, pool_id=1, tenant_id=1, subject="job:4", at=timezone.now())])
    tenant_tell(1, JOBS)
    assert places == [5, 5, 9, 9]
