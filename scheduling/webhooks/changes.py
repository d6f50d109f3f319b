"""The changes that owners make to webhooks: make one, change it, remove it, give it a new secret, and have an event
delivered again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import transaction

from scheduling.feed import OWN_KINDS, feed_cursor
from scheduling.models import DeliveryState, Webhook, WebhookDelivery, WebhookForm
from scheduling.webhooks.addresses import Resolver, addresses_of, target_of
from scheduling.webhooks.receivers import receiver_on
from scheduling.webhooks.signing import new_secret, secret_of
from tenants import history
from tenants.access import Access, Refused
from tenants.common.stored_secrets import Carried, store, stored_anew
from tenants.models import Tenant
from tenants.roles import Permission
from tenants.scoping import scope, scope_disabled
from tenants.services.members import NOT_ALLOWED

MOST_WEBHOOKS = 20  # of a tenant
UNKNOWN_WEBHOOK = Refused("unknown_webhook", "There is no such webhook.")
UNKNOWN_DELIVERY = Refused("unknown_delivery", "There is no such delivery.")
WEBHOOK_OFF = Refused("webhook_off", "This webhook is switched off. Switch it on first.")
STILL_WAITING = Refused("still_waiting", "This delivery is still waiting for its turn.")


@dataclass(frozen=True)
class IssuedWebhook:
    webhook: Webhook
    secret: str  # shown now, and never again


@transaction.atomic
def webhook_create(
    *, url: str, kinds: Sequence[str], by: Access, at: datetime, resolve: Resolver = addresses_of
) -> IssuedWebhook | Refused:
    """Make a webhook. It gets events from now on."""
    if by.tenant is None or not by.allows(Permission.WEBHOOKS_CHANGE):
        return NOT_ALLOWED
    if refusal := _flaw(url, kinds, resolve):
        return refusal
    with scope(by.tenant):
        Tenant.objects.select_for_update(no_key=True).get(pk=by.tenant.pk)
        if Webhook.objects.filter(removed_at=None).count() >= MOST_WEBHOOKS:
            return Refused("too_many_webhooks", f"A tenant has at most {MOST_WEBHOOKS} webhooks. Remove one first.")
        secret = new_secret(WebhookForm.STANDARD)
        row = Webhook.objects.create(
            tenant=by.tenant,
            url=url,
            kinds=sorted(set(kinds)),
            form=WebhookForm.STANDARD,
            secret=store(secret),
            created_at=at,
            created_by=by.user,
            cursor=feed_cursor(),
        )
        _remember("webhook_create", row, by, at, after=_values(row))
    return IssuedWebhook(row, secret)


def webhook_change(
    *,
    webhook_id: int,
    by: Access,
    at: datetime,
    url: str | None = None,
    kinds: Sequence[str] | None = None,
    active: bool | None = None,
    resolve: Resolver = addresses_of,
) -> Webhook | Refused:
    """Change a webhook; what is None stays. A webhook that is switched on again goes on where it stopped, and also gets
    what happened meanwhile."""
    if by.tenant is None or not by.allows(Permission.WEBHOOKS_CHANGE):
        return NOT_ALLOWED
    # The name server of the address may be as slow as its owner likes, so nothing is locked before it has answered. An
    # address that stays is not asked about: it was when it was set, and is at each call.
    stays = url is not None and Webhook.objects.filter(pk=webhook_id, url=url).exists()
    if refusal := _flaw(None if stays else url, kinds, resolve):
        return refusal
    with transaction.atomic():
        row = _mine(webhook_id, by)
        if isinstance(row, Refused):
            return row
        before = _values(row)
        row.url = row.url if url is None else url
        row.kinds = row.kinds if kinds is None else sorted(set(kinds))
        row.active = row.active if active is None else active
        if row.active and (row.active, row.url) != (before["active"], before["url"]):
            receiver_on(row)
        if (after := _values(row)) != before:
            row.save()
            _remember("webhook_change", row, by, at, before=before, after=after)
    return row


@transaction.atomic
def webhook_secret_renew(*, webhook_id: int, by: Access, at: datetime) -> IssuedWebhook | Refused:
    """Give the webhook a new secret. The old one proves nothing from now on, nor do tries that are under way. The form
    stays."""
    row = _mine(webhook_id, by)
    if isinstance(row, Refused):
        return row
    secret = new_secret(row.form)
    row.secret = store(secret)
    row.save(update_fields=["secret"])
    _remember("webhook_secret_renew", row, by, at)
    return IssuedWebhook(row, secret)


@transaction.atomic
def webhook_remove(*, webhook_id: int, by: Access, at: datetime) -> Refused | None:
    """Remove a webhook. Nothing is sent there any more. The row stays, for the log of what was sent."""
    row = _mine(webhook_id, by)
    if isinstance(row, Refused):
        return row
    before = _values(row)
    row.active, row.removed_at = False, at
    row.save(update_fields=["active", "removed_at"])
    _remember("webhook_remove", row, by, at, before=before)
    return None


@transaction.atomic
def webhook_replay(*, webhook_id: int, delivery_id: int, by: Access, at: datetime) -> WebhookDelivery | Refused:
    """Deliver an event once more, whatever became of it before: the same event under the same delivery number, with a
    new time and signature."""
    row = _mine(webhook_id, by)
    if isinstance(row, Refused):
        return row
    deliveries = WebhookDelivery.objects.select_for_update(of=("self",)).select_related("event", "event__pool")
    delivery = deliveries.filter(pk=delivery_id, webhook=row).first()
    if delivery is None:
        return UNKNOWN_DELIVERY
    if not row.active:
        return WEBHOOK_OFF
    if delivery.state == DeliveryState.WAITING:
        return STILL_WAITING
    delivery.state, delivery.failures, delivery.next_at, delivery.ended_at = DeliveryState.WAITING, 0, at, None
    delivery.save(update_fields=["state", "failures", "next_at", "ended_at"])
    _remember("webhook_replay", row, by, at, after={"delivery": delivery.pk, "event": delivery.event_id})
    return delivery


@transaction.atomic
def webhook_secrets_carry() -> Carried:
    """Store secrets that are stored under an older SECRET_KEY, or made of one, under today's. Receivers notice
    nothing."""
    with scope_disabled("a change of SECRET_KEY concerns webhooks of every tenant"):
        rows = list(Webhook.objects.select_for_update().filter(removed_at=None).order_by("pk"))
        hooks = [row for row in rows if not row.secret]
        for row in hooks:
            row.secret = store(secret_of(row))
            row.save(update_fields=["secret"])
        carried = stored_anew(rows)
    return Carried(carried.already - len(hooks), carried.carried + len(hooks), carried.unreadable)


def _mine(webhook_id: int, by: Access) -> Webhook | Refused:
    """Return the tenant's own webhook, locked. Needs the tenant's scope."""
    if by.tenant is None or not by.allows(Permission.WEBHOOKS_CHANGE):
        return NOT_ALLOWED
    rows = Webhook.objects.select_for_update(of=("self",)).select_related("tenant")
    return rows.filter(pk=webhook_id, removed_at=None).first() or UNKNOWN_WEBHOOK


def _flaw(url: str | None, kinds: Sequence[str] | None, resolve: Resolver) -> Refused | None:
    if unknown := sorted(set(kinds or ()) - OWN_KINDS):
        return Refused("invalid_webhook_kinds", f"There is no kind {unknown[0]} of events of a tenant's own.")
    target = None if url is None else target_of(url, resolve=resolve)
    return target if isinstance(target, Refused) else None


def _values(row: Webhook) -> dict[str, Any]:
    return {"url": row.url, "kinds": row.kinds, "active": row.active}


def _remember(
    action: str,
    row: Webhook,
    by: Access,
    at: datetime,
    before: history.Values | None = None,
    after: history.Values | None = None,
) -> None:
    subject = f"webhook {row.pk}"
    history.append(at=at, by=by, tenant=row.tenant, action=action, subject=subject, before=before, after=after)
