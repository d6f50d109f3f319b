"""Change the catalogue: register a program or its next version, retire or offer it, and let a tenant bring programs.

A tenant's members register programs of the tenant; the operator registers its own, for all tenants or for some.
The history has the person and the digest, never a program's words.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import IO, Any

from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet, Sum

from scheduling.catalogue.read_entries import PIECE, archive_refusals, digest_of
from scheduling.catalogue.secrets import secret_refusals
from scheduling.engines.programs import PROGRAMS
from scheduling.models import (
    ArchiveKeeping,
    CatalogueProgram,
    ProgramArchive,
    ProgramArchivePiece,
    ProgramSwitch,
    ProgramVersion,
)
from scheduling.programs.catalogue import FROM_SCRIPT, Program, ProgramOwner, document_of, edit, read
from scheduling.programs.fields import FieldRefusal
from scheduling.programs.stored import OPERATOR, program_of_row
from tenants import history
from tenants.access import Access, Refused
from tenants.common.limits import LimitOverAll, limit_lock
from tenants.models import Tenant
from tenants.roles import Permission
from tenants.services.members import NOT_ALLOWED, REASON_LONGEST, REASON_TOO_LONG, reason_refusal, strangers_refusal

MOST_PROGRAMS = 200  # programs of one owner, without those made of batch scripts
MOST_SCRIPTS = 10_000  # programs of one owner made of batch scripts: people who experiment name each job anew
MOST_VERSIONS = 100_000  # versions of a program: people who experiment change a line each time
MOST_KEPT = 4 * 1024**3  # bytes of the archives of one owner
UNKNOWN_PROGRAM = Refused("unknown_program", "There is no such program.")
MAY_NOT_BRING = Refused("programs_not_allowed", "The operator has not allowed this tenant to bring programs.")
NAME_IN_USE = Refused("program_exists", "There is a program of this name already. Make its next version.")
CHANGED = Refused(
    "program_changed",
    "Somebody has registered another version while you wrote this one. Open the program anew to see it, or register "
    "once more to make what stands here the next version.",
)
TOO_MANY = Refused(
    "too_many_programs",
    f"An owner has at most {MOST_PROGRAMS} programs, {MOST_SCRIPTS:,} from scripts, {MOST_VERSIONS:,} versions of "
    f"each, and archives of {MOST_KEPT // 1024**3} GiB in all.",
)


@dataclass(frozen=True)
class InvalidProgram(Refused):
    """A program that is refused. `faults` are all that is wrong, each with its field."""

    field: str
    faults: tuple[FieldRefusal, ...]


@dataclass(frozen=True)
class Registered:
    """The version that was registered. `repeated`: the newest version was the same already, and stays the newest."""

    row: ProgramVersion
    repeated: bool


@transaction.atomic
def program_register(
    *,
    document: Mapping[str, Any],
    archive: IO[bytes] | None,
    by: Access,
    at: datetime,
    reason: str = "",
    tenants: Sequence[str] | None = None,
    name: str | None = None,
    is_new: bool | None = None,
    latest_seen: int | None = None,
) -> Registered | Refused:
    """Register a document as a program's first or next version. A retired program comes back with it.

    `archive` is a file that can be read more than once; it is never whole in memory. `name` is the program that is
    edited, and `latest_seen` its newest version that the writer of the document saw: nobody undoes a version that they
    did not see. `is_new` says whether the program must be new (True) or exist (False); None allows both. `tenants` are
    those to whom the operator offers its program; None means all if it is new, else the same as before.
    """
    # 1. Check who registers it, and whether the document can be a program at all.
    if refusal := _may_register(by, reason, tenants):
        return refusal
    reading = _read(document, archive, by.tenant, name)
    if isinstance(reading, Refused):
        return reading
    program, digest = reading.program, reading.digest
    rows = CatalogueProgram.objects.filter(tenant=by.tenant)
    is_there = rows.filter(name=program.name).exists()
    if archive is not None or not is_there:  # what the owner has is counted one after the other
        if by.tenant is not None:
            Tenant.objects.select_for_update(no_key=True).get(pk=by.tenant.pk)
        else:
            limit_lock(LimitOverAll.PROGRAMS_OF_OPERATOR)
    if refusal := _archive_refusal(program, archive, by.tenant):
        return refusal
    if is_new is False and not is_there:
        return UNKNOWN_PROGRAM
    if not is_there and _are_too_many(rows, program.name):
        return TOO_MANY
    # 2. Lock its row, as versions of one program are made one after the other.
    offered = None if tenants is None else sorted(set(tenants))
    new_row = CatalogueProgram(tenant=by.tenant, name=program.name, tenants=offered, created_at=at)
    CatalogueProgram.objects.bulk_create([new_row], ignore_conflicts=True)
    row = rows.select_for_update(no_key=True).get(name=program.name)
    newest = ProgramVersion.objects.filter(program=row).select_related("program__tenant").order_by("-version").first()
    # 3. Decide what becomes of it: the same version again, the next one, or the first.
    before = None if newest is None else program_of_row(newest)
    after = program if before is None else edit(before, reading.words)
    if isinstance(after, tuple):
        return invalid_program(after)
    repeated = before is not None and after.version == before.version
    if is_new and newest is not None and not (repeated and newest.version == 1):
        return NAME_IN_USE
    if latest_seen is not None and newest is not None and newest.version != latest_seen and not repeated:
        return CHANGED
    if after.version > MOST_VERSIONS:
        return TOO_MANY
    comes_back, offer_changes = row.retired_at is not None, offered is not None and row.tenants != offered
    # 4. Write what is new, with an entry of the history.
    if archive is not None:
        _keep_archive(archive, digest, at)
    if comes_back or offer_changes:
        row.retired_at, row.tenants = None, row.tenants if offered is None else offered
        row.save(update_fields=["retired_at", "tenants"])
    version = newest if repeated and newest is not None else _version_store(row, after, by, at)
    if comes_back or offer_changes or not repeated:
        values = {"version": after.version, "digest": after.digest, "archive": after.archive, "tenants": row.tenants}
        _remember("program_register", row, by, at, reason, after=values)
    return Registered(version, repeated)


@dataclass(frozen=True)
class _ProgramDocument:
    """A document that is a program. `words` are the document's, with the `digest` of its archive if there is one."""

    program: Program
    words: Mapping[str, Any]
    digest: str


def _read(
    document: Mapping[str, Any], archive: IO[bytes] | None, owner: Tenant | None, name: str | None
) -> _ProgramDocument | InvalidProgram:
    digest = "" if archive is None else digest_of(archive)
    words = dict(document) | ({"archive": digest} if digest else {})
    program = read(words, ProgramOwner(owner.slug) if owner else ProgramOwner())
    if isinstance(program, tuple):
        return invalid_program(program)
    flaws = [*_flaws(program, document, digest, name), *secret_refusals(program, owner)]
    if flaws := flaws or ([] if archive is None else archive_refusals(archive)):
        return invalid_program(flaws)
    return _ProgramDocument(program, words, digest)


def _version_store(row: CatalogueProgram, program: Program, by: Access, at: datetime) -> ProgramVersion:
    return ProgramVersion.objects.create(
        program=row,
        version=program.version,
        document=document_of(program),
        digest=program.digest,
        archive_id=program.archive or None,
        registered_at=at,
        registered_by=by.user,
        registered_by_name=by.actor_name,
    )


@transaction.atomic
def program_retire(*, name: str, by: Access, at: datetime, reason: str = "") -> CatalogueProgram | Refused:
    """Retire a program, so that no new job can name it. Jobs that were submitted with it keep their version."""
    if refusal := _may_register(by, reason, None, retires=True):
        return refusal
    rows = CatalogueProgram.objects.select_for_update(no_key=True).filter(tenant=by.tenant, name=name)
    if (row := rows.first()) is None:
        return UNKNOWN_PROGRAM
    if row.retired_at is None:
        row.retired_at = at
        row.save(update_fields=["retired_at"])
        _remember("program_retire", row, by, at, reason)
    return row


@transaction.atomic
def program_offer(
    *, name: str, tenants: Sequence[str] | None, by: Access, at: datetime, reason: str
) -> CatalogueProgram | Refused:
    """Set the tenants to whom a program of the operator's is offered from now on; None means all tenants."""
    if by.tenant is not None:
        return NOT_ALLOWED
    if refusal := _may_register(by, reason, tenants):
        return refusal
    row = CatalogueProgram.objects.select_for_update(no_key=True).filter(tenant=None, name=name).first()
    if row is None:
        return UNKNOWN_PROGRAM
    before, row.tenants = row.tenants, None if tenants is None else sorted(set(tenants))
    if before != row.tenants:
        row.save(update_fields=["tenants"])
        _remember("program_offer", row, by, at, reason, before={"tenants": before}, after={"tenants": row.tenants})
    return row


@transaction.atomic
def programs_allow(
    *, tenant: Tenant, may_bring: bool, by: Access, at: datetime, reason: str
) -> ProgramSwitch | Refused:
    """Set whether members of a tenant may bring programs. If not, no new job can name those that it has."""
    if not by.allows(Permission.PROGRAMS_OFFER):
        return NOT_ALLOWED
    if refusal := reason_refusal(reason):
        return refusal
    ProgramSwitch.objects.bulk_create([ProgramSwitch(tenant=tenant)], ignore_conflicts=True)
    row = ProgramSwitch.objects.select_for_update(of=("self",), no_key=True).get(tenant=tenant)
    if row.may_bring != may_bring:
        row.may_bring = may_bring
        row.save(update_fields=["may_bring"])
        values = {"before": {"may_bring": not may_bring}, "after": {"may_bring": may_bring}}
        subject = f"programs of {tenant.slug}"
        history.append(at=at, by=by, tenant=tenant, action="programs_allow", subject=subject, reason=reason, **values)
    return row


def _are_too_many(programs: QuerySet[CatalogueProgram], name: str) -> bool:
    """Return whether an owner has as many other programs of this kind as it may: made of batch scripts, or others."""
    others, from_scripts = programs.exclude(name=name), Q(name__endswith=FROM_SCRIPT)
    if name.endswith(FROM_SCRIPT):
        return others.filter(from_scripts).count() >= MOST_SCRIPTS
    return others.exclude(from_scripts).count() >= MOST_PROGRAMS


def _archive_refusal(program: Program, archive: IO[bytes] | None, tenant: Tenant | None) -> Refused | None:
    """Return why a program's archive is refused. If the owner does not have it yet, it must be sent along, and needs
    room among the owner's other archives."""
    versions = ProgramVersion.objects.filter(program__tenant=tenant).exclude(archive=None)
    if not program.archive:
        return None
    closed = ArchiveKeeping.objects.filter(pk=OuterRef("archive"), closed_at__isnull=False)
    version = versions.filter(archive=program.archive).annotate(is_closed=Exists(closed)).only("pk").first()
    if version is not None and not version.is_closed:
        return None
    if archive is None:  # otherwise one could read another owner's archive by naming its digest
        sentence = "is kept no more, as no job used it for long" if version is not None else "is none of yours"
        return invalid_program([FieldRefusal("archive", f"{sentence}: send it along")])
    removed = ArchiveKeeping.objects.filter(removed_at__isnull=False).values("pk")
    contents = ProgramArchive.objects.filter(pk__in=versions.values("archive")).exclude(pk__in=removed)
    size = contents.aggregate(total=Sum("size"))["total"]
    return TOO_MANY if (size or 0) + archive.seek(0, os.SEEK_END) > MOST_KEPT else None


def _keep_archive(archive: IO[bytes], digest: str, at: datetime) -> None:
    """Store an archive, once even if two senders store the same now: the second waits for the first, and then finds it.
    An archive that was closed, or whose content was removed, is stored as if it were new."""
    row = ProgramArchive(digest=digest, size=archive.seek(0, os.SEEK_END), added_at=at)
    ProgramArchive.objects.bulk_create([row], ignore_conflicts=True)
    ArchiveKeeping.objects.bulk_create(
        [ArchiveKeeping(archive_id=digest, used_at=at)],
        update_conflicts=True,
        unique_fields=["archive"],
        update_fields=["used_at", "closed_at", "removed_at"],
    )
    if ProgramArchivePiece.objects.filter(archive=digest).exists():
        return
    archive.seek(0)
    for number, content in enumerate(iter(lambda: archive.read(PIECE), b"")):
        ProgramArchivePiece.objects.create(archive_id=digest, number=number, content=content)


def invalid_program(faults: Sequence[FieldRefusal]) -> InvalidProgram:
    first, more = faults[0], len(faults) - 1
    rest = f" {more} more {'things are' if more > 1 else 'thing is'} wrong." if more else ""
    stop = "" if first.sentence.endswith("?") else "."
    sentence = f"{first.field or 'The program'}: {first.sentence}{stop}{rest}"
    return InvalidProgram("invalid_program", sentence, first.field, tuple(faults))


def _may_register(by: Access, reason: str, tenants: Sequence[str] | None, *, retires: bool = False) -> Refused | None:
    """Return why somebody may not change programs. A tenant's members may if the operator has allowed the tenant to
    bring programs, which is not needed for retiring; the operator may, with a reason."""
    if by.tenant is not None:
        if not by.allows(Permission.PROGRAMS_REGISTER) or tenants is not None:
            return NOT_ALLOWED
        if len(reason) > REASON_LONGEST:
            return REASON_TOO_LONG
        allowed = retires or ProgramSwitch.objects.filter(tenant=by.tenant, may_bring=True).exists()
        return None if allowed else MAY_NOT_BRING
    if not by.allows(Permission.PROGRAMS_OFFER):
        return NOT_ALLOWED
    return reason_refusal(reason) or strangers_refusal(tenants or [])


def _flaws(program: Program, document: Mapping[str, Any], digest: str, name: str | None) -> list[FieldRefusal]:
    if program.name in PROGRAMS:
        return [FieldRefusal("name", f"{program.name} is the name of a program that is built in")]
    if name is not None and program.name != name:
        return [FieldRefusal("name", f"must stay {name}: what has another name is another program")]
    if digest and document.get("archive", digest) != digest:
        return [FieldRefusal("archive", "is the digest of another archive than the one that came along")]
    return []


def _remember(
    action: str,
    row: CatalogueProgram,
    by: Access,
    at: datetime,
    reason: str,
    before: history.Values | None = None,
    after: history.Values | None = None,
) -> None:
    subject = f"program {row.name} of {by.tenant.slug if by.tenant else OPERATOR}"
    history.append(
        at=at, by=by, tenant=by.tenant, action=action, subject=subject, reason=reason, before=before, after=after
    )
