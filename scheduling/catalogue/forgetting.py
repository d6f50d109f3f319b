"""Forget the content of archives that were sent with batch scripts and that no job has used for long. The version
stays, with its name and the archive's digest; to submit the script again, one sends the files again.

This takes two steps. An archive is closed first, so that no new job can name it, and its content is removed some time
later, if no job has used it by then: a submission that began before the archive was closed has long ended, one way or
the other. So no submission waits for this, and none loses its files.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import connection, transaction
from django.db.models import Case, DateTimeField, Exists, IntegerField, Max, OuterRef, Q, QuerySet, Value, When
from django.db.models.fields.json import KT
from django.db.models.functions import Cast, Coalesce

from scheduling.models import (
    PROGRAM,
    ArchiveKeeping,
    ProgramArchive,
    ProgramArchivePiece,
    ProgramVersion,
    TrainingJob,
)
from scheduling.models.jobs import LIVE_STATES
from scheduling.programs.catalogue import FROM_SCRIPT
from tenants.scoping import scope_disabled

WAIT = timedelta(hours=1)  # from closing to removal: far longer than a request may take
PIECE = 100  # archives that are checked in one transaction


@dataclass(frozen=True)
class ClosedArchives:
    """How many archives were closed. `looked` are those that were old enough; some of them are in use."""

    looked: int
    closed: int


@dataclass(frozen=True)
class RemovedArchive:
    """An archive whose removal was decided. `bytes` is its size, or None if a job has used it, so that it stays."""

    bytes: int | None


def archives_old(before: datetime) -> QuerySet[ArchiveKeeping]:
    """Return open archives that only batch scripts have and that are not known to be used since that moment. Programs
    that were registered by hand keep their archives."""
    registered = Q(program__tenant=None) | ~Q(program__name__endswith=FROM_SCRIPT)
    others = ProgramVersion.objects.filter(registered, archive=OuterRef("pk"))
    return ArchiveKeeping.objects.filter(~Exists(others), closed_at=None, used_at__lt=before)


def archives_to_remove(at: datetime) -> QuerySet[ArchiveKeeping]:
    """Return the archives that were closed long enough ago."""
    return ArchiveKeeping.objects.filter(removed_at=None, closed_at__lte=at - WAIT)


def archives_unused(before: datetime, at: datetime) -> list[str]:
    """Return the digests of archives whose content would be removed, without changing anything."""
    old = list(archives_old(before).values_list("pk", flat=True))
    used = _uses(old, before, at)
    closed = ArchiveKeeping.objects.filter(closed_at__isnull=False, removed_at=None).values_list("pk", flat=True)
    return [*(digest for digest in old if digest not in used), *closed]


@transaction.atomic
def archives_close(*, before: datetime, at: datetime, most: int = PIECE) -> ClosedArchives:
    """Close some of the archives that no job has used since. For the others, note when they were used last, so that
    they are checked again only when that is as long ago."""
    rows = list(archives_old(before).select_for_update(skip_locked=True).order_by("used_at", "pk")[:most])
    used = _uses([row.archive_id for row in rows], before, at)
    for row in rows:
        row.used_at = used.get(row.archive_id, row.used_at)
        row.closed_at = None if row.archive_id in used else at
    ArchiveKeeping.objects.bulk_update(rows, ["used_at", "closed_at"])
    return ClosedArchives(len(rows), sum(row.closed_at is not None for row in rows))


@transaction.atomic
def archive_remove(*, before: datetime, at: datetime) -> RemovedArchive | None:
    """Remove the content of one archive that was closed some time ago, or open it again if a job has used it. Return
    None if there is none left."""
    row = archives_to_remove(at).select_for_update(skip_locked=True).order_by("closed_at", "pk").first()
    if row is None:
        return None
    if used := _uses([row.archive_id], before, at):
        row.used_at, row.closed_at = used[row.archive_id], None
        row.save(update_fields=["used_at", "closed_at"])
        return RemovedArchive(None)
    ProgramArchivePiece.objects.filter(archive=row.archive_id)._raw_delete(using=connection.alias)
    row.removed_at = at
    row.save(update_fields=["removed_at"])
    return RemovedArchive(ProgramArchive.objects.values_list("size", flat=True).get(pk=row.archive_id))


def _uses(digests: Iterable[str], before: datetime, at: datetime) -> dict[str, datetime]:
    """Return by digest when jobs last used an archive, if they have since that moment. A job that is not over uses it
    now."""
    versions: dict[tuple[int | None, str, int], str] = {
        (tenant_id, name, version): digest
        for tenant_id, name, version, digest in ProgramVersion.objects.filter(archive__in=list(digests)).values_list(
            "program__tenant", "program__name", "version", "archive"
        )
    }
    last_uses: dict[str, datetime] = {}
    with scope_disabled("archives of every tenant are as old"):
        for tenant_id in {tenant_id for tenant_id, _, _ in versions}:
            names = sorted({name for owner, name, _ in versions if owner == tenant_id})
            for use in _uses_of(tenant_id, names, before, at):
                if digest := versions.get((tenant_id, use["program"], use["version"])):
                    last_uses[digest] = max(use["last"], last_uses.get(digest, use["last"]))
    return last_uses


def _uses_of(tenant_id: int | None, names: list[str], before: datetime, at: datetime) -> Iterable[Mapping[str, Any]]:
    """Return the last uses of these programs of a tenant, by name and version."""
    live = Q(state__in=LIVE_STATES)
    last = Case(When(live, then=Value(at)), default=Coalesce("ended_at", "submitted_at"), output_field=DateTimeField())
    jobs = TrainingJob.objects.filter(live | Q(ended_at__gte=before) | Q(submitted_at__gte=before), tenant=tenant_id)
    jobs = jobs.filter(**{f"spec__{PROGRAM}__name__in": names}).order_by()
    named = {"program": KT(f"spec__{PROGRAM}__name"), "version": Cast(KT(f"spec__{PROGRAM}__version"), IntegerField())}
    return jobs.values(**named).annotate(last=Max(last))
