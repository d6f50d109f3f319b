"""Delete old notices: those that were read sooner than those that were not. The events that they report stay."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.db import connection, transaction
from django.db.models import Q, QuerySet

from scheduling.models import Notice

PIECE = 5_000  # notices read in one transaction


@dataclass(frozen=True)
class ForgottenNotices:
    """How many notices were deleted. `last` is the number of the last one that was read, or None if nothing older is
    left."""

    notices: int
    last: int | None


def notices_over(*, read_before: datetime | None, unread_before: datetime | None) -> QuerySet[Notice]:
    """Return notices from before these moments; None means that such notices are kept for good. A notice that is in
    nobody's list counts as read once it was sent."""
    over = Q(pk__in=[])
    if read_before is not None:
        is_read = Q(read_at__isnull=False) | Q(bell=False)
        over |= is_read & Q(at__lt=read_before, mail_due_at=None, chat_due_at=None)
    if unread_before is not None:
        over |= Q(at__lt=unread_before)
    return Notice.objects.filter(over)


@transaction.atomic
def notices_forget(
    *, read_before: datetime | None, unread_before: datetime | None, after: int = 0, most: int = PIECE
) -> ForgottenNotices:
    """Delete one piece of old notices, the oldest first. Numbers rise with time, so what is young is not read."""
    limits = [each for each in (read_before, unread_before) if each is not None]
    page = list(Notice.objects.filter(pk__gt=after).order_by("pk").values_list("pk", "at")[:most])
    if not limits or not page:
        return ForgottenNotices(0, None)
    over = notices_over(read_before=read_before, unread_before=unread_before).filter(pk__gt=after, pk__lte=page[-1][0])
    # A notice that is read or sent at this moment is left for another day.
    numbers = [row.pk for row in over.select_for_update(skip_locked=True).only("pk")]
    if numbers:
        Notice.objects.filter(pk__in=numbers)._raw_delete(using=connection.alias)
    is_last = len(page) < most or page[-1][1] >= max(limits)
    return ForgottenNotices(len(numbers), None if is_last else page[-1][0])
