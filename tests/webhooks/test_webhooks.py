"""Webhooks: what happened is told at least once, in order, signed, and to nobody else."""

from __future__ import annotations

import hashlib
import hmac
import json
from datetime import timedelta

import pytest
from django.db import connection
from django.db.backends.base.base import BaseDatabaseWrapper

from scheduling.feed.events import event, events_append
from scheduling.models import DeliveryState, Event, Webhook, WebhookDelivery, WebhookTry
from scheduling.webhooks.calls import CallOutcome
from scheduling.webhooks.changes import (
    MOST_WEBHOOKS,
    webhook_change,
    webhook_create,
    webhook_remove,
    webhook_replay,
    webhook_secret_renew,
)
from scheduling.webhooks.deliveries import Letter, deliveries_collect, tries_begin, try_end
from scheduling.webhooks.receivers import FAILING_TOO_LONG, FIRST_PAUSE, LEASE, LONGEST_PAUSE, MOST_FAILURES
from scheduling.webhooks.signing import ID_HEADER, SIGNATURE_HEADER, TIME_HEADER, new_secret, standard_signature
from tenants.access import Refused
from tenants.models import AuditEntry
from tenants.scoping import scope
from tests.tenants.builders import NOW, done
from tests.webhooks.hooks import (
    BROKE,
    TOOK,
    URL,
    Receiver,
    after,
    again,
    elsewhere,
    go,
    is_ours,
    lock,
    make,
    owner,
    rows,
    tell,
)


def test_the_guides_receiver_takes_what_the_standard_gives_as_its_example_and_nothing_old() -> None:
    secret, body = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", b'{"test": 2432232314}'
    number, stamp = "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330
    proof = standard_signature(secret, number, stamp, body)
    assert proof == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    fresh = int(NOW.timestamp())
    headers = {ID_HEADER: number, TIME_HEADER: str(fresh), SIGNATURE_HEADER: ""}
    headers[SIGNATURE_HEADER] = "v1,bm9uZQ== " + standard_signature(secret, number, fresh, body)
    assert is_ours(secret, headers, body)
    late = {**headers, TIME_HEADER: str(fresh - 301)}
    late[SIGNATURE_HEADER] = standard_signature(secret, number, fresh - 301, body)
    assert not is_ours(secret, late, body)
    assert not is_ours(new_secret("standard"), headers, body)


@pytest.mark.django_db
@pytest.mark.usefixtures("committed")
class TestTelling:
    def test_webhook_of_before_keeps_its_form_also_with_a_new_secret(self) -> None:
        by = owner()
        webhook = make(by)
        with scope(by.tenant):
            Webhook.objects.filter(pk=webhook.pk).update(form="before")
            secret = done(webhook_secret_renew(webhook_id=webhook.pk, by=by, at=NOW)).secret
        tell(by.tenant, "job_started")
        receiver = Receiver()
        go(receiver)
        (letter,) = receiver.letters
        stamp = letter.headers["Bourse-Webhook-Timestamp"]
        expected = hmac.new(secret.encode(), f"{stamp}.".encode() + letter.body, hashlib.sha256).hexdigest()
        assert letter.headers["Bourse-Webhook-Signature"] == f"v1={expected}"
        assert letter.headers["Bourse-Webhook-Id"] == str(letter.delivery_id)
        assert ID_HEADER not in letter.headers

    def test_each_wanted_event_is_told_once_in_order_and_signed(self) -> None:
        by = owner()
        with scope(by.tenant):
            issued = done(webhook_create(url=URL, kinds=["job_started", "low_balance"], by=by, at=NOW))
        first, _, third = tell(by.tenant, "job_started", "job_finished", "low_balance", available=2_500_000)
        receiver = Receiver()
        assert go(receiver) == 2
        assert receiver.events == [first, third]
        letter = receiver.letters[1]
        body = json.loads(letter.body)
        assert (body["tenant"], body["kind"], body["data"]) == ("lumen", "low_balance", {"available": "2.500000"})
        assert is_ours(issued.secret, letter.headers, letter.body)
        assert not is_ours(issued.secret, letter.headers, letter.body + b" ")
        assert not is_ours(issued.secret, {**letter.headers, ID_HEADER: f"{letter.delivery_id}7"}, letter.body)
        assert go(Receiver()) == 0

    def test_other_tenants_and_public_events_are_never_told(self) -> None:
        by, other = owner("lumen"), owner("castor")
        make(by)
        theirs = make(other)
        tell(by.tenant, "job_started")
        events_append([event("slot_settled", pool_id=None, at=NOW)])
        receiver = Receiver()
        assert go(receiver) == 1
        assert b'"tenant":"lumen"' in receiver.letters[0].body
        assert [row.webhook_id for row in rows(WebhookDelivery) if row.webhook_id == theirs.pk] == []

    def test_what_happened_before_the_webhook_is_not_told(self) -> None:
        by = owner()
        tell(by.tenant, "job_started")
        make(by)
        assert go(Receiver()) == 0

    def test_failure_is_tried_again_later_each_time_with_one_line_for_each_try(self) -> None:
        by = owner()
        make(by)
        tell(by.tenant, "job_started")
        receiver = Receiver(BROKE, BROKE, TOOK)
        assert go(receiver, after(0)) == 1
        assert go(receiver, after(4.9)) == 0
        assert go(receiver, after(5)) == 1
        assert go(receiver, after(14.9)) == 0
        assert go(receiver, after(15)) == 1
        assert [(row.number, row.status, bool(row.flaw)) for row in rows(WebhookTry)] == [
            (1, 500, True),
            (2, 500, True),
            (3, 204, False),
        ]
        assert len({letter.headers[ID_HEADER] for letter in receiver.letters}) == 1
        (delivery,) = rows(WebhookDelivery)
        assert (delivery.state, delivery.tries) == (DeliveryState.DELIVERED, 3)
        (webhook,) = rows(Webhook)
        assert (webhook.failures, webhook.failing_since, webhook.quiet_until) == (0, None, None)

    def test_crash_after_the_call_leaves_its_line_and_tells_the_event_again(self) -> None:
        by = owner()
        make(by)
        (number,) = tell(by.tenant, "job_started")
        deliveries_collect(at=NOW)
        (letter,) = tries_begin(at=NOW)
        assert tries_begin(at=after(1)) == []  # the process that had it is gone; nobody else may know
        receiver = Receiver()
        assert go(receiver, NOW + LEASE) == 1
        assert receiver.events == [number]
        assert [(row.number, row.ended_at is None) for row in rows(WebhookTry)] == [(1, True), (2, False)]
        assert receiver.letters[0].headers[ID_HEADER] == letter.headers[ID_HEADER]

    def test_collecting_twice_makes_no_second_delivery_even_with_an_old_cursor(self) -> None:
        by = owner()
        webhook = make(by)
        tell(by.tenant, "job_started", "job_finished")
        assert deliveries_collect(at=NOW) == 2
        with scope(by.tenant):
            Webhook.objects.filter(pk=webhook.pk).update(cursor=0)
        deliveries_collect(at=NOW)
        assert len(rows(WebhookDelivery)) == 2

    def test_bad_event_does_not_hold_back_the_others_for_long(self) -> None:
        by = owner()
        make(by)
        bad, good = tell(by.tenant, "job_started", "job_finished")
        receiver = Receiver(BROKE)
        go(receiver, NOW)
        go(receiver, NOW + FIRST_PAUSE)
        assert receiver.events[0] == bad
        assert good in receiver.events[1:3]
        (webhook,) = rows(Webhook)
        assert webhook.failures == 0

    def test_delivery_is_given_up_after_so_many_failures_and_can_be_replayed(self) -> None:
        by = owner()
        webhook = make(by)
        tell(by.tenant, "job_started")
        at = NOW
        deliveries_collect(at=at)
        for _ in range(MOST_FAILURES):
            (letter,) = tries_begin(at=at)
            try_end(letter=letter, outcome=BROKE, at=at, draw=0.0)
            at += LONGEST_PAUSE
        assert tries_begin(at=at) == []
        (delivery,) = rows(WebhookDelivery)
        assert (delivery.state, delivery.tries) == (DeliveryState.GIVEN_UP, MOST_FAILURES)
        with scope(by.tenant):
            done(webhook_replay(webhook_id=webhook.pk, delivery_id=delivery.pk, by=by, at=at))
            refused = webhook_replay(webhook_id=webhook.pk, delivery_id=delivery.pk, by=by, at=at)
        assert isinstance(refused, Refused)
        assert refused.code == "still_waiting"
        receiver = Receiver()
        assert go(receiver, at + LONGEST_PAUSE) == 1
        assert [row.number for row in rows(WebhookTry)] == list(range(1, MOST_FAILURES + 2))

    def test_failure_of_an_address_from_before_does_not_count_against_the_one_of_now(self) -> None:
        """It was called as the owner changed it, for the last time that the event would have been told."""
        by = owner()
        webhook = make(by)
        (event_id,) = tell(by.tenant, "job_started")
        at = NOW
        deliveries_collect(at=at)
        for tries in reversed(range(MOST_FAILURES)):
            (letter,) = tries_begin(at=at)
            if not tries:
                with scope(by.tenant):
                    done(webhook_change(webhook_id=webhook.pk, url=f"{URL}/new", by=by, at=at))
            assert try_end(letter=letter, outcome=BROKE, at=at, draw=0.0)
            at += LONGEST_PAUSE
        assert again(webhook).failures == 0
        receiver = Receiver()
        assert go(receiver, at) == 1
        assert (receiver.letters[0].url, receiver.events) == (f"{URL}/new", [event_id])

    def test_long_failure_switches_off_with_an_event_and_loses_nothing(self) -> None:
        by = owner()
        webhook = make(by)
        tell(by.tenant, "job_started")
        go(Receiver(BROKE), NOW)
        go(Receiver(BROKE), NOW + FAILING_TOO_LONG)
        row = again(webhook)
        assert (row.active, row.switched_off_at) == (False, NOW + FAILING_TOO_LONG)
        (switch_off,) = Event.objects.filter(kind="webhook_switched_off")
        assert (switch_off.tenant_id, switch_off.subject) == (by.tenant.pk, f"webhook:{webhook.pk}")
        assert AuditEntry.objects.filter(action="webhook_switch_off", tenant=by.tenant).count() == 1
        tell(by.tenant, "job_finished")
        late = NOW + FAILING_TOO_LONG + timedelta(days=1)
        assert go(Receiver(), late) == 0
        with scope(by.tenant):
            done(webhook_change(webhook_id=webhook.pk, active=True, by=by, at=late))
        receiver = Receiver()
        assert go(receiver, late) == 3
        assert [json.loads(letter.body)["kind"] for letter in receiver.letters] == [
            "job_started",
            "webhook_switched_off",
            "job_finished",
        ]

    def test_removed_webhook_tells_nothing_any_more(self) -> None:
        by = owner()
        webhook = make(by)
        tell(by.tenant, "job_started")
        deliveries_collect(at=NOW)
        with scope(by.tenant):
            assert webhook_remove(webhook_id=webhook.pk, by=by, at=NOW) is None
        assert go(Receiver()) == 0

    @pytest.mark.parametrize("active", [True, False])
    def test_history_says_of_a_removed_webhook_whether_it_was_on(self, active: bool) -> None:
        by = owner()
        webhook = make(by)
        with scope(by.tenant):
            done(webhook_change(webhook_id=webhook.pk, active=active, by=by, at=NOW))
            assert webhook_remove(webhook_id=webhook.pk, by=by, at=NOW) is None
        entry = AuditEntry.objects.get(action="webhook_remove")
        assert entry.before == {"url": URL, "kinds": [], "active": active}

    def test_new_secret_signs_from_the_next_try_on_and_none_is_stored(self) -> None:
        by = owner()
        with scope(by.tenant):
            issued = done(webhook_create(url=URL, kinds=[], by=by, at=NOW))
            fresh = done(webhook_secret_renew(webhook_id=issued.webhook.pk, by=by, at=NOW))
        assert issued.secret != fresh.secret
        tell(by.tenant, "job_started")
        receiver = Receiver()
        go(receiver)
        (letter,) = receiver.letters
        assert is_ours(fresh.secret, letter.headers, letter.body)
        with connection.cursor() as cursor:
            cursor.execute("SELECT string_agg(row_to_json(w)::text, '') FROM scheduling_webhook w")
            stored = cursor.fetchone()[0]
        assert fresh.secret.removeprefix("whsec_") not in stored

    def test_webhooks_have_a_limit_and_other_tenants_are_not_found(self) -> None:
        by, other = owner("lumen"), owner("castor")
        theirs = make(other)
        for _ in range(MOST_WEBHOOKS):
            make(by)
        with scope(by.tenant):
            refused = webhook_create(url=URL, kinds=[], by=by, at=NOW)
            assert isinstance(refused, Refused)
            assert refused.code == "too_many_webhooks"
            for outcome in (
                webhook_change(webhook_id=theirs.pk, active=False, by=by, at=NOW),
                webhook_remove(webhook_id=theirs.pk, by=by, at=NOW),
                webhook_secret_renew(webhook_id=theirs.pk, by=by, at=NOW),
            ):
                assert isinstance(outcome, Refused)
                assert outcome.code == "unknown_webhook"


@pytest.mark.django_db(transaction=True)
def test_nothing_is_locked_while_the_name_of_a_new_address_is_looked_up() -> None:
    by = owner()
    webhook = make(by)
    with elsewhere() as other:

        def resolve(host: str, port: int) -> list[str]:
            lock(other, webhook)
            other.rollback()
            return ["93.184.216.34"]

        with scope(by.tenant):
            changed = done(
                webhook_change(webhook_id=webhook.pk, url="https://other.example/", by=by, at=NOW, resolve=resolve)
            )
    assert changed.url == again(webhook).url == "https://other.example/"


class Changing(Receiver):
    """A webhook is changed as its letter comes, until the last letter of the others comes or, where `is_long`, until
    after the round."""

    def __init__(self, webhook: Webhook, other: BaseDatabaseWrapper, *, is_long: bool) -> None:
        super().__init__()
        self._webhook, self._other, self._is_long = webhook, other, is_long

    def __call__(self, letter: Letter) -> CallOutcome:
        if letter.webhook_id == self._webhook.pk:
            lock(self._other, self._webhook)
        elif len(self.letters) == 2 and not self._is_long:
            self._other.rollback()
        return super().__call__(letter)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("is_long", [False, True])
def test_webhook_that_is_being_changed_holds_up_no_other(is_long: bool) -> None:
    by, theirs = owner("lumen"), owner("castor")
    webhook = make(by)
    make(theirs)
    (event_id,) = tell(by.tenant, "job_started")
    tell(theirs.tenant, "job_started", "job_finished")
    with elsewhere() as other:
        receiver = Changing(webhook, other, is_long=is_long)
        assert go(receiver) == 3
        waiting = [row.webhook_id for row in rows(WebhookDelivery) if row.state != DeliveryState.DELIVERED]
    assert waiting == ([webhook.pk] if is_long else [])
    late = Receiver()
    assert go(late) == 0
    go(late, NOW + LEASE)
    assert late.events == ([event_id] if is_long else [])
    assert {row.state for row in rows(WebhookDelivery)} == {DeliveryState.DELIVERED}
