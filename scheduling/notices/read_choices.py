"""What persons chose to be told of, and how."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from scheduling.models import MailWay, NoticeChoice, NoticeProfile
from scheduling.notices.kinds import NoticeKind


@dataclass(frozen=True)
class Ways:
    """How one person is told of one kind."""

    bell: bool
    toast: bool
    mail: str = MailWay.NONE

    @property
    def is_stored(self) -> bool:
        """Whether there is a row for a notice: a toast alone is shown and forgotten."""
        return self.bell or self.mail != MailWay.NONE


def usual_ways(kind: NoticeKind) -> Ways:
    """Of somebody who chose nothing. Nobody is interrupted or mailed who did not ask for it."""
    return Ways(bell=kind.rings, toast=False)


@dataclass(frozen=True)
class Choices:
    """Of several persons."""

    ways: dict[tuple[int, str], Ways]
    all_jobs: frozenset[int]  # persons who want to hear of jobs that others submitted

    def of(self, person_id: int, kind: NoticeKind) -> Ways:
        return self.ways.get((person_id, kind)) or usual_ways(kind)


def choices_of(person_ids: Collection[int]) -> Choices:
    rows = NoticeChoice.objects.filter(person__in=person_ids)
    wide = NoticeProfile.objects.filter(person__in=person_ids, all_jobs=True)
    return Choices(
        {(row.person_id, row.kind): Ways(bell=row.bell, toast=row.toast, mail=row.mail) for row in rows},
        frozenset(wide.values_list("person_id", flat=True)),
    )
