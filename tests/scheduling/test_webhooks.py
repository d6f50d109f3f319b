"""Webhooks: what happened is told at least once, signed, to nobody else, and never inside our own network."""

from __future__ import annotations

import hashlib
import hmac
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from hypothesis import given
from hypothesis import strategies as st

from scheduling.models import DeliveryState, Event, Webhook, WebhookDelivery, WebhookTry
from scheduling.services.feed import event, events_append
from scheduling.services.webhooks.addresses import is_public, target_of
from scheduling.services.webhooks.calls import MOST_BYTES, Outcome, call
from scheduling.services.webhooks.changes import (
    MOST_WEBHOOKS,
    webhook_change,
    webhook_create,
    webhook_remove,
    webhook_replay,
    webhook_secret_renew,
)
from scheduling.services.webhooks.deliveries import (
    FAILING_TOO_LONG,
    FIRST_PAUSE,
    LEASE,
    LONGEST_PAUSE,
    LONGEST_QUIET,
    MOST_FAILURES,
    Letter,
    backoff,
    deliveries_collect,
    tries_begin,
    try_end,
)
from scheduling.services.webhooks.rounds import LOCK, deliveries_round
from scheduling.services.webhooks.signing import SIGNATURE_HEADER, TIME_HEADER, signature
from scheduling.tasks import webhooks_tick
from tenants.access import Access, Refused
from tenants.models import AuditEntry, Tenant
from tenants.roles import OWNER
from tenants.scoping import scope, scope_disabled
from tests.tenants.builders import NOW, access, done, make_member, make_tenant

URL = "https://93.184.216.34/hook"
TOOK = Outcome(204, "")
BROKE = Outcome(500, "The answer was 500. Only 200 to 299 count as taken.")


def after(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def owner(slug: str = "lumen") -> Access:
    return access(make_member(make_tenant(slug), OWNER))


def tell(tenant: Tenant, *kinds: str, **data: Any) -> list[int]:
    events = [event(kind, pool_id=None, tenant_id=tenant.pk, at=NOW, data=data) for kind in kinds]
    events_append(events)
    return [found.pk for found in events]


def make(by: Access, *kinds: str) -> Webhook:
    with scope(by.tenant):
        return done(webhook_create(url=URL, kinds=kinds, by=by, at=NOW)).webhook


def again(row: Any) -> Any:
    with scope_disabled("the test looks at a row again"):
        return type(row).objects.get(pk=row.pk)


def rows(model: Any) -> list[Any]:
    with scope_disabled("the test looks at all"):
        return list(model.objects.order_by("pk"))


class Receiver:
    """Takes letters in place of the world; answers as told."""

    def __init__(self, *answers: Outcome) -> None:
        self.letters: list[Letter] = []
        self._answers = list(answers)

    def __call__(self, letter: Letter) -> Outcome:
        self.letters.append(letter)
        return self._answers.pop(0) if self._answers else TOOK

    @property
    def events(self) -> list[int]:
        return [json.loads(letter.body)["id"] for letter in self.letters]


def go(receiver: Receiver, at: datetime = NOW) -> int:
    return deliveries_round(clock=lambda: at, draw=lambda: 0.0, post=receiver)


@pytest.fixture
def committed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The test's own transaction counts as ended: else its events would be held back as not yet certain."""
    monkeypatch.setattr("scheduling.services.webhooks.changes.feed_cursor", newest)
    monkeypatch.setattr("scheduling.services.webhooks.deliveries.feed_cursor", newest)


def newest() -> int:
    return Event.objects.order_by("-pk").values_list("pk", flat=True).first() or 0


@pytest.mark.django_db
@pytest.mark.usefixtures("committed")
class TestTelling:
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
        stamp = letter.headers[TIME_HEADER]
        expected = hmac.new(issued.secret.encode(), f"{stamp}.".encode() + letter.body, hashlib.sha256).hexdigest()
        assert letter.headers[SIGNATURE_HEADER] == f"v1={expected}"
        assert signature(issued.secret, int(stamp) + 1, letter.body) != f"v1={expected}"
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
        assert len({letter.headers["Bourse-Webhook-Id"] for letter in receiver.letters}) == 1
        (delivery,) = rows(WebhookDelivery)
        assert (delivery.state, delivery.tries) == (DeliveryState.DELIVERED, 3)
        (webhook,) = rows(Webhook)
        assert (webhook.failures, webhook.failing_since, webhook.quiet_until) == (0, None, None)

    def test_crash_after_the_call_leaves_its_line_and_tells_the_event_again(self) -> None:
        by = owner()
        make(by)
        (told,) = tell(by.tenant, "job_started")
        deliveries_collect(at=NOW)
        (letter,) = tries_begin(at=NOW)
        assert tries_begin(at=after(1)) == []  # the process that had it is gone; nobody else may know
        receiver = Receiver()
        assert go(receiver, NOW + LEASE) == 1
        assert receiver.events == [told]
        assert [(row.number, row.ended_at is None) for row in rows(WebhookTry)] == [(1, True), (2, False)]
        assert receiver.letters[0].headers["Bourse-Webhook-Id"] == letter.headers["Bourse-Webhook-Id"]

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

    def test_long_failure_switches_off_with_an_event_and_loses_nothing(self) -> None:
        by = owner()
        webhook = make(by)
        tell(by.tenant, "job_started")
        go(Receiver(BROKE), NOW)
        go(Receiver(BROKE), NOW + FAILING_TOO_LONG)
        row = again(webhook)
        assert (row.active, row.switched_off_at) == (False, NOW + FAILING_TOO_LONG)
        (told,) = Event.objects.filter(kind="webhook_switched_off")
        assert (told.tenant_id, told.subject) == (by.tenant.pk, f"webhook:{webhook.pk}")
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
        expected = signature(fresh.secret, int(letter.headers[TIME_HEADER]), letter.body)
        assert letter.headers[SIGNATURE_HEADER] == expected
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
def test_second_process_makes_no_round_while_one_is_at_it() -> None:
    by = owner()
    make(by)
    tell(by.tenant, "job_started")
    found: list[int] = []

    def elsewhere(receiver: Receiver) -> None:
        try:
            found.append(go(receiver))
        finally:
            connection.close()

    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_lock(%s)", [LOCK])
        for _ in range(2):
            thread = threading.Thread(target=elsewhere, args=(Receiver(),))
            thread.start()
            thread.join(timeout=20)
            cursor.execute("SELECT pg_advisory_unlock(%s)", [LOCK])
    assert found == [0, 1]


@given(st.integers(1, 200), st.floats(0, 1, exclude_max=True))
def test_back_off_doubles_up_to_its_limit_and_jitter_takes_at_most_half(failures: int, draw: float) -> None:
    whole = min(FIRST_PAUSE * 2 ** min(failures - 1, 20), LONGEST_PAUSE)
    assert backoff(failures, 0.0) == whole
    assert whole / 2 <= backoff(failures, draw) <= whole
    assert LONGEST_QUIET < LONGEST_PAUSE


PRIVATE = [
    "127.0.0.1",
    "10.0.0.1",
    "172.16.5.4",
    "192.168.1.1",
    "169.254.169.254",
    "100.64.0.1",
    "0.0.0.0",  # noqa: S104
    "224.0.0.1",
    "255.255.255.255",
    "::1",
    "::",
    "fe80::1",
    "fd00:ec2::254",
    "ff02::1",
    "::ffff:127.0.0.1",
    "::ffff:10.0.0.1",
    "64:ff9b::a9fe:a9fe",
    "2002:7f00:1::",
    "2001:0:1234::1",
    "nonsense",
]


@pytest.mark.parametrize("address", PRIVATE)
def test_address_inside_is_not_public(address: str) -> None:
    assert not is_public(address)
    found = target_of("https://hooks.example/", resolve=lambda host, port: ["93.184.216.34", address])
    assert isinstance(found, Refused)
    assert found.code == "webhook_address_private"


@pytest.mark.parametrize("address", ["93.184.216.34", "2606:2800:220:1::1", "64:ff9b::5db8:d822"])
def test_address_outside_is_public(address: str) -> None:
    assert is_public(address)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "http://93.184.216.34/",
        "ftp://93.184.216.34/",
        "https://",
        "https://name@93.184.216.34/",
        "https://:word@93.184.216.34/",
        "https://93.184.216.34/#part",
        "https://93.184.216.34:0/",
        "https://93.184.216.34:99999/",
        "https://93.184.216.34/a b",
        "https://93.184.216.34/\r\nHost: other",
        "https://[::1",
        "https://93.184.216.34\\@127.0.0.1/",
        "https://exämple.org/",
        "https://93.184.216.34/" + "a" * 500,
    ],
)
def test_url_that_is_none_is_refused(url: str) -> None:
    found = target_of(url, resolve=lambda host, port: ["93.184.216.34"])
    assert isinstance(found, Refused)
    assert found.code == "invalid_webhook_url"


@pytest.mark.parametrize("url", ["https://127.0.0.1/", "https://2130706433/", "https://0x7f.1/", "https://localhost/"])
def test_loopback_in_any_spelling_is_refused_by_the_real_resolver(url: str) -> None:
    assert isinstance(target_of(url), Refused)


@contextmanager
def server(serve: Callable[[socket.socket], None]) -> Iterator[tuple[str, list[bytes]]]:
    """Somebody on loopback who is called once. The requests that came."""
    came: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(10)

        def run() -> None:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            with connection:
                connection.settimeout(10)
                came.append(connection.recv(65_536))
                with suppress(OSError):
                    serve(connection)

        thread = threading.Thread(target=run)
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/hook?a=1", came
    thread.join(timeout=10)


def says(content: bytes) -> Callable[[socket.socket], None]:
    return lambda connection: connection.sendall(content)


def floods(connection: socket.socket) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
    while True:
        connection.sendall(b"x" * 65_536)


def drips(connection: socket.socket) -> None:
    while True:
        connection.sendall(b"H")
        time.sleep(0.01)


@pytest.fixture
def inside(settings: Any) -> None:
    settings.WEBHOOKS_ALLOW_PRIVATE = True


@pytest.mark.usefixtures("inside")
class TestCalling:
    def test_body_and_headers_arrive(self) -> None:
        with server(says(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")) as (url, came):
            outcome = call(url, headers={"X-One": "1"}, body=b'{"a":1}')
        assert outcome == Outcome(200, "", "ok")
        head, _, body = came[0].partition(b"\r\n\r\n")
        assert head.startswith(b"POST /hook?a=1 HTTP/1.1\r\nHost: 127.0.0.1:")
        assert b"X-One: 1" in head
        assert body == b'{"a":1}'

    def test_redirect_is_not_followed(self) -> None:
        with server(says(b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n")) as (
            url,
            _,
        ):
            outcome = call(url, headers={}, body=b"")
        assert (outcome.status, outcome.worked) == (302, False)

    def test_answer_without_end_is_cut_off(self) -> None:
        began = time.monotonic()
        with server(floods) as (url, _):
            outcome = call(url, headers={}, body=b"", patience=30.0)
        assert time.monotonic() - began < 10
        assert (outcome.status, outcome.worked) == (200, True)
        assert len(outcome.answer) <= MOST_BYTES

    def test_answer_that_drips_is_not_waited_for(self) -> None:
        began = time.monotonic()
        with server(drips) as (url, _):
            outcome = call(url, headers={}, body=b"", patience=0.3)
        assert outcome == Outcome(None, "No answer in 0.3 seconds.")
        assert time.monotonic() - began < 5

    @pytest.mark.parametrize("content", [b"", b"nonsense\r\n\r\n", b"HTTP/1.1 2\r\n", b"SSH-2.0-x\r\n"])
    def test_what_is_not_http_is_a_failure(self, content: bytes) -> None:
        with server(says(content)) as (url, _):
            assert not call(url, headers={}, body=b"").worked

    def test_nobody_there_is_a_failure(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
        outcome = call(f"http://127.0.0.1:{port}/", headers={}, body=b"")
        assert outcome.flaw.startswith("No connection")

    def test_certificate_of_nobody_we_trust_is_a_failure(self) -> None:
        with server(says(b"HTTP/1.1 200 OK\r\n\r\n")) as (url, _):
            outcome = call(url.replace("http:", "https:"), headers={}, body=b"")
        assert outcome.flaw.startswith("No trusted connection")


def test_name_that_points_inside_by_the_time_of_the_call_is_not_called() -> None:
    """DNS rebinding: public when the webhook was made, loopback now."""
    asked: list[str] = []
    answers = [["93.184.216.34"], ["127.0.0.1"]]

    def resolve(host: str, port: int) -> list[str]:
        asked.append(host)
        return answers.pop(0)

    assert not isinstance(target_of("https://hooks.example/", resolve=resolve), Refused)
    outcome = call("https://hooks.example/", headers={}, body=b"", resolve=resolve)
    assert outcome == Outcome(None, "This address is not a public one.")
    assert asked == ["hooks.example"] * 2


def test_name_is_looked_up_once_for_a_call_and_that_address_is_connected_to(settings, monkeypatch) -> None:
    connected: list[Any] = []

    def connect(address: Any, timeout: float) -> socket.socket:
        connected.append(address)
        raise ConnectionRefusedError(111, "Connection refused")

    monkeypatch.setattr("scheduling.services.webhooks.calls.socket.create_connection", connect)
    asked: list[str] = []

    def resolve(host: str, port: int) -> list[str]:
        asked.append(host)
        return ["93.184.216.34"]

    call("https://hooks.example/", headers={}, body=b"", resolve=resolve)
    assert (asked, connected) == (["hooks.example"], [("93.184.216.34", 443)])


def test_receiver_of_the_guide_takes_our_calls_and_nobody_elses() -> None:
    text = (Path(__file__).resolve().parents[2] / "docs" / "guide" / "webhooks.md").read_text(encoding="utf-8")
    found: dict[str, Any] = {}
    exec(text.split("```python\n")[1].split("```")[0], found)  # noqa: S102  our own page
    stamp, body = str(int(time.time())), b'{"id":1}'
    good = signature("whsec_1", int(stamp), body)
    assert found["is_ours"]("whsec_1", stamp, good, body)
    assert not found["is_ours"]("whsec_2", stamp, good, body)
    assert not found["is_ours"]("whsec_1", stamp, good, body + b" ")
    late = str(int(stamp) - 301)
    assert not found["is_ours"]("whsec_1", late, signature("whsec_1", int(late), body), body)


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("inside")
def test_task_tells_a_real_receiver_what_was_committed() -> None:
    by = owner()
    with server(says(b"HTTP/1.1 204 No Content\r\n\r\n")) as (url, came):
        with scope(by.tenant):
            issued = done(webhook_create(url=url, kinds=["job_started"], by=by, at=NOW))
        (told,) = tell(by.tenant, "job_started")
        webhooks_tick()
    head, _, body = came[0].partition(b"\r\n\r\n")
    fields = dict(line.split(": ", 1) for line in head.decode().split("\r\n")[1:])
    assert json.loads(body)["id"] == told
    assert fields[SIGNATURE_HEADER] == signature(issued.secret, int(fields[TIME_HEADER]), body)
    (delivery,) = rows(WebhookDelivery)
    assert delivery.state == DeliveryState.DELIVERED
