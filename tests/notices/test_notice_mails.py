"""Notices by mail: at once or once a day, at least once, never to whoever may not know, and ended by a link."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from itertools import count
from queue import SimpleQueue
from smtplib import SMTPServerDisconnected
from typing import Any

import pytest
from django.conf import settings
from django.core import mail
from django.core.mail import EmailMessage
from django.db import connection
from django.test import Client

from scheduling.feed.events import event, events_append
from scheduling.feed.kinds import EventKind
from scheduling.models import MailWay, Notice, NoticeChoice
from scheduling.notices import collecting, mails
from scheduling.notices.choices import choices_set
from scheduling.notices.collecting import notices_collect
from scheduling.notices.kinds import NoticeKind
from scheduling.notices.mails import MOST_TRIES, PAUSE, mail_due, mails_round, mails_stop, stop_path
from scheduling.notices.read_choices import Ways
from tenants.models import Membership, Tenant, User
from tenants.roles import OWNER
from tenants.scoping import scope
from tenants.selectors import access_of
from tenants.services import join_request_create, may_be_asked_set
from tests.feed.test_events import Writer
from tests.notices.test_notices import lines, member, tell
from tests.operator.test_cell_races import wait_until_done_or_waiting
from tests.patience import PATIENCE
from tests.tenants.builders import NOW, done, make_member, make_person, make_tenant

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("committed")]

NOW_MAIL = Ways(bell=False, toast=False, mail=MailWay.NOW)
DIGEST = Ways(bell=True, toast=False, mail=MailWay.DIGEST)


def go(at: datetime = NOW) -> int:
    return mails_round(clock=lambda: at)


def wants(person: User, **ways: Ways) -> None:
    choices_set(person=person, ways={NoticeKind(kind): way for kind, way in ways.items()}, all_jobs=False)


def low(tenant: Tenant) -> None:
    tell(tenant, EventKind.LOW_BALANCE, available=5_000_000, slots_left=2)


@pytest.mark.parametrize(
    ("way", "hour", "due"),
    [("now", 9, (2, 9)), ("digest", 6, (2, 7)), ("digest", 7, (2, 7)), ("digest", 9, (3, 7)), ("", 9, None)],
)
def test_a_mail_is_due_at_once_or_at_seven(way: str, hour: int, due: tuple[int, int] | None) -> None:
    due_at = mail_due(way, datetime(2026, 3, 2, hour, tzinfo=UTC))
    assert due_at == (datetime(2026, 3, due[0], due[1], tzinfo=UTC) if due else None)


def test_a_mail_goes_to_whoever_asked_for_it_and_says_what_the_page_says() -> None:
    tenant = make_tenant(name="Lumen")
    owner, other = member(tenant, OWNER), member(tenant, OWNER)
    wants(owner, low_balance=NOW_MAIL)
    low(tenant)
    notices_collect(at=NOW)
    assert (go(), go()) == (1, 0)
    (message,) = mail.outbox
    assert (message.to, message.subject) == ([owner.email], "[Bourse] Low balance. Lumen")
    assert "5.00 credits last 2 slots." in message.body
    assert f"{settings.PUBLIC_URL}/t/{tenant.slug}/ledger/" in message.body
    assert f"No more mails of notices: {settings.PUBLIC_URL}{stop_path(owner)}" in message.body
    assert message.extra_headers["List-Unsubscribe"] == f"<{settings.PUBLIC_URL}{stop_path(owner)}>"
    assert lines(owner) == []  # the bell was not asked for
    assert len(lines(other)) == 1


def test_a_name_of_two_lines_neither_stops_the_mails_nor_looks_like_words_of_ours() -> None:
    """As programs could give one to a tenant in older versions, and whoever signed up to themselves."""
    odd, usual = make_tenant(), make_tenant()
    Tenant.objects.filter(pk=odd.pk).update(name="Odd\nLab")
    odd.refresh_from_db()
    owners = member(odd, OWNER), member(usual, OWNER)
    for owner, tenant in zip(owners, (odd, usual), strict=True):
        wants(owner, low_balance=NOW_MAIL, join_request=NOW_MAIL)
        low(tenant)
    notices_collect(at=NOW)
    assert go() == 2
    assert [message.subject for message in mail.outbox] == [
        "[Bourse] Low balance. Odd Lab",
        f"[Bourse] Low balance. {usual}",
    ]
    person = make_person()
    person.name = "Mallory\n\n01 Mar 10:00 (Odd Lab)  Your account ends: https://elsewhere.example"
    person.save()
    done(may_be_asked_set(tenant=odd, on=True, by=access_of(owners[0], odd), at=NOW))
    done(join_request_create(tenant=odd.slug, why="to help", person=person, at=NOW))
    notices_collect(at=NOW)
    assert go() == 1
    text = mail.outbox[-1].body
    assert "Mallory 01 Mar 10:00" in text
    assert [line for line in text.splitlines() if line.startswith("01 Mar")] == []


def test_a_digest_is_one_mail_a_day() -> None:
    tenant = make_tenant()
    owner = member(tenant, OWNER)
    wants(owner, low_balance=DIGEST, budget=DIGEST)
    for _ in range(2):
        low(tenant)
    tell(tenant, EventKind.BUDGET_PASSED)
    notices_collect(at=NOW)
    assert go(NOW + timedelta(hours=20)) == 0
    assert (go(NOW + timedelta(hours=21)), go(NOW + timedelta(hours=21))) == (1, 0)
    (message,) = mail.outbox
    assert message.subject == "[Bourse] 3 notices"
    assert message.body.count("Low balance.") == 2


def test_a_digest_is_one_mail_a_day_also_of_days_that_the_market_catches_up_with() -> None:
    tenant = make_tenant()
    owner = member(tenant, OWNER)
    wants(owner, low_balance=DIGEST)
    for hours in (30, 20, 1):
        at = NOW - timedelta(hours=hours)
        data = {"available": 5_000_000, "slots_left": 2}
        events_append([event(EventKind.LOW_BALANCE, pool_id=None, tenant_id=tenant.pk, at=at, data=data)])
        notices_collect(at=NOW)
        assert go(NOW) == 0
    assert go(NOW + timedelta(hours=21)) == 1
    (message,) = mail.outbox
    assert message.subject == "[Bourse] 3 notices"


def test_whoever_left_meanwhile_gets_no_mail() -> None:
    tenant = make_tenant()
    membership = make_member(tenant, OWNER)
    wants(membership.user, low_balance=DIGEST)
    low(tenant)
    notices_collect(at=NOW)
    with scope(tenant):
        Membership.objects.filter(pk=membership.pk).delete()
    assert go(NOW + timedelta(days=1)) == 0
    assert mail.outbox == []
    assert not Notice.objects.filter(mail_due_at__isnull=False).exists()


def test_a_mail_neither_shows_nor_counts_what_its_person_may_no_longer_see(monkeypatch: pytest.MonkeyPatch) -> None:
    former, stays = make_tenant(name="Left"), make_tenant(name="Stays")
    membership = make_member(former, OWNER)
    make_member(stays, OWNER, membership.user)
    wants(membership.user, low_balance=DIGEST)
    for tenant in (former, stays, stays):
        low(tenant)
    notices_collect(at=NOW)
    with scope(former):
        Membership.objects.filter(pk=membership.pk).delete()
    monkeypatch.setattr(mails, "MOST_LINES", 1)
    assert go(NOW + timedelta(days=1)) == 1
    (message,) = mail.outbox
    assert "Left" not in message.subject + message.body
    assert "And 1 more: " in message.body


def test_a_mail_that_is_not_taken_is_tried_again_later_and_not_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    tenant = make_tenant()
    wants(member(tenant, OWNER), low_balance=NOW_MAIL)
    low(tenant)
    notices_collect(at=NOW)
    tries = count()

    def refuse(_: EmailMessage, **__: Any) -> int:
        next(tries)
        raise SMTPServerDisconnected

    monkeypatch.setattr(EmailMessage, "send", refuse)
    for moment in moments():
        assert go(moment) == 0
    assert next(tries) == MOST_TRIES


def moments() -> Iterator[datetime]:
    """Often enough to find every try due."""
    at = NOW
    for _ in range(2 * MOST_TRIES):
        yield at
        at += PAUSE * 2**MOST_TRIES


def test_an_end_before_the_mark_sends_the_mail_again_and_loses_none(monkeypatch: pytest.MonkeyPatch) -> None:
    tenant = make_tenant()
    wants(member(tenant, OWNER), low_balance=NOW_MAIL)
    low(tenant)
    notices_collect(at=NOW)
    with monkeypatch.context() as dies:
        dies.setattr(mails, "_mark_sent", _dies)
        with pytest.raises(_Death):
            go()
    assert go() == 0  # its claim still stands
    assert (go(NOW + PAUSE), go(NOW + 2 * PAUSE)) == (1, 0)
    assert len(mail.outbox) == 2


class _Death(Exception):
    pass


def _dies(*_: object) -> None:
    raise _Death


def test_the_link_in_a_mail_ends_them_without_a_log_in_and_only_when_it_is_pressed() -> None:
    tenant = make_tenant()
    owner, other = member(tenant, OWNER), member(tenant, OWNER)
    wants(owner, low_balance=NOW_MAIL, budget=DIGEST)
    wants(other, low_balance=NOW_MAIL)
    low(tenant)
    notices_collect(at=NOW)
    client = Client(enforce_csrf_checks=True)
    path = stop_path(owner)
    assert client.get(path).status_code == 200
    assert NoticeChoice.objects.filter(person=owner).exclude(mail="").count() == 2
    assert client.post(path, {"List-Unsubscribe": "One-Click"}).status_code == 200
    assert NoticeChoice.objects.filter(person=owner).exclude(mail="").count() == 0
    go()
    assert [message.to for message in mail.outbox] == [[other.email]]
    assert client.post(path[:-2] + "x/").status_code == 404
    assert NoticeChoice.objects.filter(person=other).exclude(mail="").count() == 1


@pytest.mark.django_db(transaction=True)
def test_no_mail_follows_the_end_of_them_where_both_come_at_once() -> None:
    """The end is not committed yet when what is due is looked for."""
    tenant = make_tenant()
    owner = member(tenant, OWNER)
    wants(owner, low_balance=NOW_MAIL)
    low(tenant)
    notices_collect(at=NOW)
    stop = Writer(lambda: mails_stop(owner))
    with ThreadPoolExecutor(1) as threads:
        round_made = beside(threads, go)
        stop.commit()
        assert round_made.result(PATIENCE) == 0
    assert mail.outbox == []
    assert not Notice.objects.filter(mail_due_at__isnull=False).exists()


@pytest.mark.django_db(transaction=True)
def test_no_mail_is_due_by_a_choice_that_ended_while_notices_were_made(monkeypatch: pytest.MonkeyPatch) -> None:
    tenant = make_tenant()
    owner = member(tenant, OWNER)
    notices_collect(at=NOW)
    wants(owner, low_balance=DIGEST)
    low(tenant)
    stops: list[Future[Any]] = []

    def stop_meanwhile(_: object) -> None:
        """The notices are written by now, and not committed."""
        stops.append(beside(threads, lambda: mails_stop(owner)))

    monkeypatch.setattr(collecting, "persons_tell", stop_meanwhile)
    with ThreadPoolExecutor(1) as threads:
        assert notices_collect(at=NOW) == 1
        stops[0].result(PATIENCE)
    assert go(NOW + timedelta(days=1)) == 0
    assert mail.outbox == []


def beside(threads: ThreadPoolExecutor, work: Callable[[], Any]) -> Future[Any]:
    """Begin the work on another connection, and return once it is done or waits for a lock."""
    backends = SimpleQueue[int]()

    def alone() -> Any:
        try:
            connection.ensure_connection()
            backends.put(connection.connection.info.backend_pid)
            return work()
        finally:
            connection.close()

    begun = threads.submit(alone)
    wait_until_done_or_waiting(begun, backends.get(timeout=PATIENCE))
    return begun


def test_the_page_chooses_how_mails_come() -> None:
    person = member(make_tenant(), OWNER)
    client = Client()
    client.force_login(person)
    client.post("/notices/choices/", {"failed.mail": "now", "ended.mail": "digest", "market.mail": "pigeon"})
    choices = NoticeChoice.objects.filter(person=person).exclude(mail="").values_list("kind", "mail")
    assert dict(choices) == {"failed": "now", "ended": "digest"}
