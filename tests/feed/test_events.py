"""The feed of events: in order, nothing skipped, and to each what is its own."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection, connections, transaction

from scheduling.common import event_document
from scheduling.feed.events import event, events_append
from scheduling.feed.read_events import Feed, event_feed
from scheduling.models import Event
from tenants.access import Access, access_of_system
from tenants.models import Tenant
from tenants.roles import BILLING, SUBMITTER
from tenants.scoping import ForeignTenant, scope
from tests.patience import PATIENCE
from tests.scheduling.builders import NOON, make_tenant

STAFF = access_of_system("the tests")


def tell(kind: str, tenant: Tenant | None = None) -> None:
    events_append([event(kind, pool_id=None, tenant_id=tenant.pk if tenant else None, at=NOON)])


def kinds(feed: Feed) -> list[str]:
    return [event.kind for event in feed.events]


def kinds_for(tenant: Tenant, role: str) -> list[str]:
    with scope(tenant):
        return kinds(event_feed(by=Access(user=None, tenant=tenant, roles=frozenset({role}))))


@pytest.mark.django_db(transaction=True)
def test_feed_goes_on_after_its_cursor() -> None:
    for number in range(5):
        tell(f"e{number}")
    first = event_feed(by=STAFF, limit=3)
    second = event_feed(by=STAFF, after=first.cursor)
    assert (kinds(first), kinds(second)) == (["e0", "e1", "e2"], ["e3", "e4"])
    assert event_feed(by=STAFF, after=second.cursor) == Feed((), second.cursor)


class Writer:
    """Another connection that holds a transaction open until told to commit."""

    def __init__(self, work: Callable[[], None]) -> None:
        self._wrote, self._commit = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, args=[work])
        self._thread.start()
        assert self._wrote.wait(PATIENCE)

    def _run(self, work: Callable[[], None]) -> None:
        try:
            with transaction.atomic():
                work()
                self._wrote.set()
                assert self._commit.wait(PATIENCE)
        finally:
            connections.close_all()

    def commit(self) -> None:
        self._commit.set()
        self._thread.join(PATIENCE)


@pytest.mark.django_db(transaction=True)
def test_event_waits_for_a_smaller_one_that_is_not_committed_yet() -> None:
    slow = Writer(lambda: tell("slow"))
    try:
        tell("fast")
        assert kinds(event_feed(by=STAFF)) == []
    finally:
        slow.commit()
    assert kinds(event_feed(by=STAFF)) == ["slow", "fast"]


@pytest.mark.django_db(transaction=True)
def test_event_waits_also_for_one_whose_transaction_is_the_younger_one() -> None:
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_current_xact_id()")
        younger = Writer(lambda: tell("younger"))
        tell("older")
    try:
        assert kinds(event_feed(by=STAFF)) == []
    finally:
        younger.commit()
    assert kinds(event_feed(by=STAFF)) == ["younger", "older"]


@pytest.mark.django_db(transaction=True)
def test_writer_that_was_rolled_back_holds_nothing_back() -> None:
    with transaction.atomic():
        tell("never")
        transaction.set_rollback(True)
    with transaction.atomic():
        with transaction.atomic():
            tell("not this one")
            transaction.set_rollback(True)
        tell("this one")
    assert kinds(event_feed(by=STAFF)) == ["this one"]


@pytest.mark.django_db(transaction=True)
def test_tenant_sees_public_events_and_its_own_as_its_roles_allow() -> None:
    lumen, castor = make_tenant("lumen"), make_tenant("castor")
    tell("interval_closed")
    for tenant in (lumen, castor):
        tell("job_awarded", tenant)
        tell("low_balance", tenant)
    assert Event.objects.count() == 5
    assert kinds_for(lumen, SUBMITTER) == ["interval_closed", "job_awarded"]
    assert kinds_for(lumen, BILLING) == ["interval_closed", "low_balance"]
    with scope(castor), pytest.raises(ForeignTenant):
        event_feed(by=Access(user=None, tenant=lumen, roles=frozenset({SUBMITTER})))


@pytest.mark.parametrize(
    ("kind", "data", "document"),
    [
        ("use_prices_set", {"prices": {"worker": 200_000}}, {"prices": {"worker": "0.200000"}}),
        ("interval_closed", {"prices": {"worker": [0.01, 0.25]}}, {"prices": {"worker": ["0.010000", "0.250000"]}}),
        ("interval_closed", {"paid": 3, "arrears": 10**18}, {"paid": "0.000003", "arrears": "1000000000000.000000"}),
        ("award_adjusted", {"refunded": 5, "alone": 46.0}, {"refunded": "0.000005", "alone": "46.000000"}),
        (
            "job_queued",
            {"instant": {"reason": "outbid", "numbers": {"price": 1.5}}},
            {"instant": {"reason": "outbid", "numbers": {"price": "1.500000"}}},
        ),
        (
            "job_resized",
            {"paid": 750_000, "smaller": {"reason": "smaller_size", "numbers": {"price": 0.75, "workers": 1}}},
            {"paid": "0.750000", "smaller": {"reason": "smaller_size", "numbers": {"price": "0.750000", "workers": 1}}},
        ),
    ],
)
def test_programs_are_told_credits_as_decimal_texts(kind: str, data: dict[str, Any], document: dict[str, Any]) -> None:
    row = Event(pk=1, kind=kind, at=NOON, data=data)
    assert event_document(row, None)["data"] == document
