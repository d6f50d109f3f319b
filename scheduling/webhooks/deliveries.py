"""Deliver events to the addresses that want them: at least once each, never forgotten, and never all at once.

Each webhook has a cursor in the feed. `deliveries_collect` writes one delivery for each wanted event and moves the
cursor in the same transaction, so a crash loses nothing and doubles nothing. `tries_begin` records the try before the
address is called, `try_end` records what came of it. A try that a crash cut short stays in the log without an end, and
the delivery is tried again when the webhook's lease is over.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import datetime

from django.db import transaction
from django.db.models import Exists, OuterRef, Q

from scheduling.common import event_document
from scheduling.feed import EventKind, event, events_append, feed_cursor
from scheduling.models import DeliveryState, Event, Webhook, WebhookDelivery, WebhookTry
from scheduling.webhooks.calls import CallOutcome
from scheduling.webhooks.receivers import (
    AT_ONCE,
    FAILING_TOO_LONG,
    LEASE,
    MOST_FAILURES,
    STATE,
    backoff,
    receiver_failed,
    receiver_worked,
)
from scheduling.webhooks.signing import body_of, headers_of, secret_of
from tenants import history
from tenants.access import access_of_system
from tenants.common.stored_secrets import UnreadableSecret
from tenants.scoping import scope_disabled

EVENTS_AT_ONCE = 500  # of one webhook
SWITCHED_OFF = EventKind.WEBHOOK_SWITCHED_OFF
SYSTEM = "webhooks"
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Letter:
    """All that a call needs. It is made in the transaction that recorded the try."""

    try_id: int
    delivery_id: int
    webhook_id: int
    url: str
    body: bytes
    headers: dict[str, str]


def deliveries_collect(*, at: datetime) -> int:
    """Write deliveries for what happened since each active webhook's cursor, and return how many."""
    with scope_disabled("webhooks of every tenant are served together, each with its own tenant's events"):
        ids = list(Webhook.objects.filter(active=True).values_list("pk", flat=True))
        return sum(_collect(webhook_id, at) for webhook_id in ids)


@transaction.atomic
def _collect(webhook_id: int, at: datetime) -> int:
    row = Webhook.objects.select_for_update(skip_locked=True).filter(pk=webhook_id, active=True).first()
    if row is None:
        return 0
    settled = feed_cursor()
    events = Event.objects.filter(tenant=row.tenant_id, id__gt=row.cursor, id__lte=settled).order_by("id")
    events_new = list(events.only("id", "kind")[:EVENTS_AT_ONCE])
    wanted = [one.pk for one in events_new if not row.kinds or one.kind in row.kinds]
    fresh = [
        WebhookDelivery(tenant_id=row.tenant_id, webhook=row, event_id=event_id, next_at=at, created_at=at)
        for event_id in wanted
    ]
    WebhookDelivery.objects.bulk_create(fresh, ignore_conflicts=True)
    if events_new:
        Webhook.objects.filter(pk=row.pk).update(cursor=events_new[-1].pk)
    return len(fresh)


@transaction.atomic
def tries_begin(*, at: datetime) -> list[Letter]:
    """Begin one try for each of some webhooks that are due, with the longest waiting delivery of each. These webhooks
    are then busy for the next caller."""
    with scope_disabled("webhooks of every tenant are served together"):
        due = WebhookDelivery.objects.filter(webhook=OuterRef("pk"), state=DeliveryState.WAITING, next_at__lte=at)
        rows = Webhook.objects.select_for_update(of=("self",), skip_locked=True).select_related("tenant")
        rows = rows.filter(Q(quiet_until=None) | Q(quiet_until__lte=at), Exists(due), active=True)
        begun = [_begin(row, at) for row in rows.order_by("quiet_until", "pk")[:AT_ONCE]]
    return [letter for letter in begun if letter]


def _begin(row: Webhook, at: datetime) -> Letter | None:
    """Begin a try. Return None if no secret can be read to sign it: the webhook rests, and the operator's log and
    doctor say so."""
    Webhook.objects.filter(pk=row.pk).update(quiet_until=at + LEASE)
    try:
        secret = secret_of(row)
    except UnreadableSecret as error:
        log.error("webhook %s of %s is not told: %s", row.pk, row.tenant.slug, error)
        return None
    waiting = WebhookDelivery.objects.filter(webhook=row, state=DeliveryState.WAITING, next_at__lte=at)
    delivery = waiting.select_related("event", "event__pool").order_by("next_at", "pk")[0]
    delivery.tries += 1
    delivery.save(update_fields=["tries"])
    one = WebhookTry.objects.create(tenant_id=row.tenant_id, delivery=delivery, number=delivery.tries, started_at=at)
    body = body_of(event_document(delivery.event, delivery.event.pool), row.tenant.slug)
    headers = headers_of(form=row.form, secret=secret, delivery_id=delivery.pk, body=body, at=at)
    return Letter(one.pk, delivery.pk, row.pk, row.url, body, headers)


@transaction.atomic
def try_end(*, letter: Letter, outcome: CallOutcome, at: datetime, draw: float) -> bool:
    """Record what came of a try. Return False if somebody changes the webhook at this moment: nothing is recorded
    then, so that the others' tries need not wait."""
    with scope_disabled("webhooks of every tenant are served together"):
        rows = Webhook.objects.select_for_update(of=("self",), skip_locked=True).select_related("tenant")
        row = rows.filter(pk=letter.webhook_id).first()
        if row is None:
            return False
        delivery = WebhookDelivery.objects.select_for_update(of=("self",)).get(pk=letter.delivery_id)
        WebhookTry.objects.filter(pk=letter.try_id).update(
            ended_at=at, status=outcome.status, flaw=outcome.flaw, answer=outcome.answer
        )
        if outcome.worked:
            receiver_worked(row)
            delivery.state, delivery.ended_at = DeliveryState.DELIVERED, at
        elif letter.url == row.url:  # what an address from before did not take says nothing of the one of now
            _failed(row, delivery, at, draw)
        row.save(update_fields=STATE)
        delivery.save(update_fields=["state", "failures", "next_at", "ended_at"])
    return True


def _failed(row: Webhook, delivery: WebhookDelivery, at: datetime, draw: float) -> None:
    delivery.failures += 1
    delivery.next_at = at + backoff(delivery.failures, draw)
    if delivery.failures >= MOST_FAILURES:
        delivery.state, delivery.ended_at = DeliveryState.GIVEN_UP, at
    if receiver_failed(row, at, draw):
        _tell_switched_off(row, at)


def _tell_switched_off(row: Webhook, at: datetime) -> None:
    """Report that the webhook was switched off. Its deliveries wait, and are sent when an owner switches it on
    again."""
    data = {"webhook": row.pk, "failures": row.failures}
    subject = f"webhook:{row.pk}"
    events_append([event(SWITCHED_OFF, pool_id=None, tenant_id=row.tenant_id, subject=subject, at=at, data=data)])
    by = access_of_system(SYSTEM)
    history.append(
        at=at,
        by=by,
        tenant=row.tenant,
        action="webhook_switch_off",
        subject=f"webhook {row.pk}",
        reason=f"Nothing was taken there for {FAILING_TOO_LONG.days} days.",
        before={"active": True},
        after={"active": False},
    )
