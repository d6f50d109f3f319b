"""Read webhooks of the open tenant, and the log of what was sent to them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from django.db.models import QuerySet

from scheduling.models import Webhook, WebhookDelivery, WebhookTry


def webhook_list() -> QuerySet[Webhook]:
    return Webhook.objects.filter(removed_at=None).select_related("created_by")


def webhook_by_id(webhook_id: int) -> Webhook | None:
    return webhook_list().filter(pk=webhook_id).first()


def delivery_list(webhook: Webhook) -> QuerySet[WebhookDelivery]:
    return WebhookDelivery.objects.filter(webhook=webhook).select_related("event", "event__pool")


@dataclass(frozen=True)
class DeliverySeen:
    """A delivery with its tries, the earliest first."""

    delivery: WebhookDelivery
    tries: tuple[WebhookTry, ...]

    @property
    def last(self) -> WebhookTry | None:
        return self.tries[-1] if self.tries else None


def deliveries_seen(deliveries: Sequence[WebhookDelivery]) -> list[DeliverySeen]:
    """Return deliveries with their tries, in one query however many there are."""
    tries = _tries(row.pk for row in deliveries)
    return [DeliverySeen(row, tuple(tries.get(row.pk, ()))) for row in deliveries]


def _tries(delivery_ids: Iterable[int]) -> dict[int, list[WebhookTry]]:
    tries: dict[int, list[WebhookTry]] = {}
    for row in WebhookTry.objects.filter(delivery__in=list(delivery_ids)).order_by("delivery_id", "number"):
        tries.setdefault(row.delivery_id, []).append(row)
    return tries
