"""What one transaction tells open pages: once, and never of what it undid alone."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

import pytest
from django.db import transaction

from scheduling.feed import notify
from scheduling.feed.notify import JOBS, MONEY, SLOT, News, slot_tell, tenant_group, tenant_tell

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, set[str]]]:
    """Group -> topics, for each journey to the broker."""
    journeys: list[dict[str, set[str]]] = []

    def send(news: Mapping[str, News]) -> None:
        journeys.append({group: one.topics for group, one in news.items()})

    monkeypatch.setattr(notify, "_send", send)
    return journeys


class _Undo(Exception):
    pass


def test_whatever_one_transaction_says_makes_one_journey(sent: list[dict[str, set[str]]]) -> None:
    with transaction.atomic():
        tenant_tell(1, JOBS)
        with transaction.atomic():
            tenant_tell(1, MONEY)
            slot_tell(7)
        assert sent == []
    assert sent == [{tenant_group(1): {JOBS, MONEY}, notify.pool_group(7): {SLOT}}]


def test_what_is_said_after_an_undone_part_is_told_all_the_same(sent: list[dict[str, set[str]]]) -> None:
    with transaction.atomic():
        with suppress(_Undo), transaction.atomic():
            tenant_tell(1, MONEY)
            raise _Undo
        tenant_tell(1, JOBS)
    assert sent == [{tenant_group(1): {JOBS}}]


def test_an_undone_transaction_tells_nothing_and_the_next_only_its_own(sent: list[dict[str, set[str]]]) -> None:
    with suppress(_Undo), transaction.atomic():
        tenant_tell(1, MONEY)
        raise _Undo
    tenant_tell(2, JOBS)  # without a transaction: at once
    assert sent == [{tenant_group(2): {JOBS}}]
