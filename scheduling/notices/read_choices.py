"""Read what persons chose to be notified of, and how."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from django.db.models import Exists, OuterRef

from scheduling.models import ChatAddress, MailWay, NoticeChoice, NoticeProfile
from scheduling.notices.kinds import NoticeKind
from tenants.models import User


@dataclass(frozen=True)
class Ways:
    """How one person is notified of one kind."""

    bell: bool
    toast: bool
    mail: str = MailWay.NONE
    chat: bool = False

    @property
    def is_stored(self) -> bool:
        """Return whether there is a row for a notice: a toast alone is shown and forgotten."""
        return self.bell or self.chat or self.mail != MailWay.NONE


def usual_ways(kind: NoticeKind) -> Ways:
    """Return the ways of a person who chose nothing. Nobody is interrupted or mailed who did not ask for it."""
    return Ways(bell=kind.rings, toast=False)


@dataclass(frozen=True)
class Choices:
    """The choices of several persons."""

    ways: dict[tuple[int, str], Ways]
    all_jobs: frozenset[int]  # persons who want to hear of jobs that others submitted
    in_chat: frozenset[int]  # persons who have a chat address that is on

    def of(self, person_id: int, kind: NoticeKind) -> Ways:
        """Return the ways that the person chose."""
        return self.ways.get((person_id, kind)) or usual_ways(kind)

    def now(self, person_id: int, kind: NoticeKind) -> Ways:
        """Return the ways that hold now: nothing is sent to chat where there is no address, or it is off."""
        ways = self.of(person_id, kind)
        return ways if person_id in self.in_chat else replace(ways, chat=False)


def choices_of(person_ids: Collection[int]) -> Choices:
    told_in_chat = ChatAddress.objects.filter(person=OuterRef("person"), active=True)
    rows = list(NoticeChoice.objects.filter(person__in=person_ids).annotate(in_chat=Exists(told_in_chat)))
    wide = NoticeProfile.objects.filter(person__in=person_ids, all_jobs=True)
    return Choices(
        {(row.person_id, row.kind): Ways(bell=row.bell, toast=row.toast, mail=row.mail, chat=row.chat) for row in rows},
        frozenset(wide.values_list("person_id", flat=True)),
        frozenset(row.person_id for row in rows if row.in_chat),
    )


def chat_of(person: User) -> ChatAddress | None:
    """Return the person's chat address without its secret. A page may show only `shown` of it."""
    return ChatAddress.objects.filter(person=person).defer("secret").first()
