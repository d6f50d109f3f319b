"""The changes that a person makes to their own notices: what they are notified of and how, and what they have read."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from django.db import transaction

from scheduling.feed import persons_tell
from scheduling.models import Notice, NoticeChoice, NoticeProfile
from scheduling.notices.kinds import NoticeKind
from scheduling.notices.read_choices import Ways, usual_ways
from tenants.models import User


@transaction.atomic
def choices_set(*, person: User, ways: Mapping[NoticeKind, Ways], all_jobs: bool) -> None:
    """Set the person's choices of every kind at once; a kind that is left out gets the usual ones. They hold for what
    happens from now on."""
    User.objects.select_for_update(no_key=True).get(pk=person.pk)
    NoticeProfile.objects.update_or_create(person=person, defaults={"all_jobs": all_jobs})
    for kind in NoticeKind:
        choice = ways.get(kind, usual_ways(kind))
        NoticeChoice.objects.update_or_create(
            person=person,
            kind=kind,
            defaults={"bell": choice.bell, "toast": choice.toast, "mail": choice.mail, "chat": choice.chat},
        )


@transaction.atomic
def notices_read(*, person: User, at: datetime, until: int, only: int | None = None) -> int:
    """Mark the person's notices up to the number `until` as read, or `only` one, and return how many were unread. A
    notice that came after the page was made is not on it, so it stays unread."""
    rows = Notice.objects.filter(person=person, bell=True, read_at=None, pk__lte=until)
    changed = (rows if only is None else rows.filter(pk=only)).update(read_at=at)
    if changed:
        persons_tell([person.pk])
    return changed
