"""Old notices go: those that were read earlier than those that were not; the events stay."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from pytest_django.fixtures import Settings

from scheduling.app.retention import retention_apply, retention_preview
from scheduling.feed.kinds import EventKind
from scheduling.models import Event, Notice
from scheduling.notices.collecting import notices_collect
from scheduling.notices.forgetting import notices_forget
from tenants.models import User
from tenants.roles import OWNER
from tests.notices.test_notices import member, tell
from tests.tenants.builders import NOW, make_tenant

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("committed")]
DAY = timedelta(days=1)


@pytest.fixture(autouse=True)
def _limits(settings: Settings, tmp_path: Path) -> None:
    settings.RETENTION_DELIVERIES_DAYS = settings.RETENTION_RUN_FILES_DAYS = 0
    settings.RETENTION_NOTICES_READ_DAYS, settings.RETENTION_NOTICES_UNREAD_DAYS = 90, 365
    settings.RUNS_DIR = tmp_path / "runs"


@pytest.fixture
def person() -> User:
    return member(make_tenant(), OWNER)


def notice(person: User, name: str, days_ago: int, **fields: object) -> Notice:
    values = {"bell": True, "kind": "server_lost", "source": name, "at": NOW - days_ago * DAY} | fields
    return Notice.objects.create(person=person, **values)


def sources() -> set[str]:
    return set(Notice.objects.values_list("source", flat=True))


def apply(at: datetime = NOW) -> int:
    outcome = retention_apply(clock=lambda: at)
    assert outcome is not None
    return outcome["notices"]


def test_what_was_read_goes_after_90_days_and_what_was_not_after_a_year(person: User) -> None:
    notice(person, "read, old", 91, read_at=NOW)
    notice(person, "read, young", 89, read_at=NOW)
    notice(person, "unread, old", 366)
    notice(person, "unread, young", 364)
    notice(person, "mailed alone, old", 91, bell=False)
    notice(person, "to be mailed, old", 91, bell=False, mail_due_at=NOW)
    notice(person, "to be said in chat, old", 91, bell=False, chat_due_at=NOW)
    assert retention_preview(at=NOW)["notices"] == 3
    assert len(sources()) == 7
    assert (apply(), apply()) == (3, 0)
    assert sources() == {"read, young", "unread, young", "to be mailed, old", "to be said in chat, old"}


def test_zero_keeps_them_for_good(person: User, settings: Settings) -> None:
    settings.RETENTION_NOTICES_READ_DAYS = 0
    notice(person, "read", 100, read_at=NOW)
    notice(person, "unread", 400)
    assert apply() == 1
    assert sources() == {"read"}
    settings.RETENTION_NOTICES_UNREAD_DAYS = 0
    notice(person, "unread", 400)
    assert "notices" not in retention_preview(at=NOW)
    assert "notices" not in (retention_apply(clock=lambda: NOW) or {})
    assert sources() == {"read", "unread"}


def test_the_event_stays_and_makes_no_notice_a_second_time() -> None:
    tenant = make_tenant()
    member(tenant, OWNER)
    tell(tenant, EventKind.LOW_BALANCE, available=5_000_000, slots_left=2)
    notices_collect(at=NOW)
    Notice.objects.update(read_at=NOW)
    assert apply(NOW + 100 * DAY) == 1
    assert Event.objects.filter(kind="low_balance").count() == 1
    assert notices_collect(at=NOW + 100 * DAY) == 0


def test_it_goes_piece_by_piece_until_what_is_young(person: User) -> None:
    for number in range(7):
        notice(person, f"old {number}", 100, read_at=NOW)
    notice(person, "young", 1, read_at=NOW)
    limits = {"read_before": NOW - 90 * DAY, "unread_before": None}

    def pieces() -> Iterator[int]:
        after: int | None = 0
        while after is not None:
            piece = notices_forget(**limits, after=after, most=3)
            after = piece.last
            yield piece.notices

    assert list(pieces()) == [3, 3, 1]
    assert sources() == {"young"}
    assert notices_forget(**limits).notices == 0


def test_old_notices_are_found_without_reading_the_young_ones(person: User) -> None:
    """By number, which rises with time: the first page whose last one is young is the last page."""
    Notice.objects.bulk_create(
        [
            Notice(person=person, kind="server_lost", source=f"n{number}", at=NOW, bell=True, read_at=NOW)
            for number in range(50)
        ]
    )
    piece = notices_forget(read_before=NOW - 90 * DAY, unread_before=None, most=10)
    assert (piece.notices, piece.last) == (0, None)
