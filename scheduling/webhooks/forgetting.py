"""Delete the old log of what was sent to webhooks. The events themselves stay."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.db import connection, transaction
from django.db.models import Q, QuerySet

from scheduling.models import WebhookDelivery, WebhookTry
from tenants.scoping import scope_disabled

PIECE = 5_000  # deliveries read in one transaction


@dataclass(frozen=True)
class ForgottenDeliveries:
    """How many rows were deleted. `last` is the number of the last delivery that was read, or None if nothing older is
    left."""

    deliveries: int
    tries: int
    last: int | None


def deliveries_over(before: datetime) -> QuerySet[WebhookDelivery]:
    """Return deliveries from before that moment that were delivered, given up, or for a webhook that was removed. Needs
    a scope."""
    over = Q(ended_at__lt=before) | Q(webhook__removed_at__lt=before)
    return WebhookDelivery.objects.filter(over, created_at__lt=before)


@transaction.atomic
def deliveries_forget(*, before: datetime, after: int = 0, most: int = PIECE) -> ForgottenDeliveries:
    """Delete one piece of the log, the oldest first. Numbers rise with time, so what is young is not read."""
    with scope_disabled("the log of every tenant's webhooks is as old"):
        rows = WebhookDelivery.objects.filter(pk__gt=after).order_by("pk")
        page = list(rows.values_list("pk", "created_at")[:most])
        if not page:
            return ForgottenDeliveries(0, 0, None)
        # A delivery that somebody replays at this moment is left for another day.
        over = deliveries_over(before).filter(pk__gt=after, pk__lte=page[-1][0])
        numbers = [row.pk for row in over.select_for_update(of=("self",), skip_locked=True).only("pk")]
        tries = 0
        if numbers:
            tries = WebhookTry.objects.filter(delivery__in=numbers)._raw_delete(using=connection.alias)
            WebhookDelivery.objects.filter(pk__in=numbers)._raw_delete(using=connection.alias)
    is_last = len(page) < most or page[-1][1] >= before
    return ForgottenDeliveries(len(numbers), tries, None if is_last else page[-1][0])
