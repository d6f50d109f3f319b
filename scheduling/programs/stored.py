"""Read programs of the catalogue from its rows: the one module here that uses the database.

It is in this room, below the engines and the market, because both have to know which program a job names.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from django.db.models import Exists, OuterRef, QuerySet

from scheduling.models import ArchiveKeeping, CatalogueProgram, ProgramArchivePiece, ProgramSwitch, ProgramVersion
from scheduling.programs.catalogue import FROM_SCRIPT, Program, ProgramOwner, read
from tenants.models import Tenant

OPERATOR = "operator"  # as `program.owner` of a specification: the operator's program, not the tenant's own


@dataclass(frozen=True)
class StoredProgram:
    """One version as it was registered. `archive` is the tar.gz, if the program has one and it was requested. If
    `is_closed`, no new job can name the version, as its archive is not kept any more."""

    program: Program
    version: int
    archive: bytes | None
    is_closed: bool = False


def program_choice(program: Program) -> str:
    """Return the version of a program in one word, as the form of a job and addresses that lead there name it."""
    return f"{'' if program.owner.tenant else OPERATOR}:{program.name}:{program.version}"


def stored_program(
    *, tenant_id: int, name: str, version: int | None, owner: str | None = None, with_archive: bool = True
) -> StoredProgram | None:
    """Return the tenant's own program of this name, else the operator's; with `owner` "operator" only the operator's.

    Without a version it is the newest one of a program that the tenant may use now. A version that is named is returned
    even if the program is retired or no longer offered, since a job that was submitted with it keeps it.
    """
    if version is None:
        newest = usable_programs(tenant_id=tenant_id, name=name, owner=owner)[:1]
        return _with_archive(newest[0]) if newest and with_archive else next(iter(newest), None)
    rows = ProgramVersion.objects.filter(program__in=_programs(tenant_id, owner).filter(name=name), version=version)
    row = rows.select_related("program__tenant").order_by("program__tenant").first()  # no tenant sorts last
    if row is None:
        return None
    stored = StoredProgram(program_of_row(row), row.version, None)
    return _with_archive(stored) if with_archive else stored


def usable_programs(
    *,
    tenant_id: int,
    name: str | None = None,
    owner: str | None = None,
    version: int | None = None,
    most_scripts: int | None = None,
) -> list[StoredProgram]:
    """Return the programs that a new job of the tenant may name: the newest version of each, without archives, the
    tenant's own programs first.

    Of two with one name the job gets the first. `version` asks for that version of each in place of the newest.
    `most_scripts` limits the programs that were made of batch scripts to that many, those with the newest names.
    """
    programs = _usable(tenant_id, owner)
    if name is not None:
        programs = [program for program in programs if program.name == name]
    if most_scripts is not None:
        scripts = [program for program in programs if program.name.endswith(FROM_SCRIPT)]
        older = set(sorted((program.pk for program in scripts), reverse=True)[most_scripts:])
        programs = [program for program in programs if program.pk not in older]
    closed = ArchiveKeeping.objects.filter(pk=OuterRef("archive"), closed_at__isnull=False)
    rows = ProgramVersion.objects.filter(program__in=programs).select_related("program__tenant")
    rows = rows.annotate(is_closed=Exists(closed))
    if version is None:
        rows = rows.order_by("program_id", "-version").distinct("program_id")
    else:
        rows = rows.filter(version=version)
    by_program = {row.program_id: row for row in rows}
    versions = [by_program[program.pk] for program in programs if program.pk in by_program]
    return [StoredProgram(program_of_row(row), row.version, None, row.is_closed) for row in versions]


def usable_names(*, tenant_id: int) -> list[str]:
    """Return the names of all programs that a new job of the tenant may name, without reading their versions."""
    return sorted({program.name for program in _usable(tenant_id, None)})


def is_retired(*, tenant_id: int, name: str) -> bool:
    """Return whether the tenant retired its own program of this name. Of a program that the operator retired a tenant
    sees nothing any more."""
    return CatalogueProgram.objects.filter(tenant=tenant_id, name=name, retired_at__isnull=False).exists()


def program_of_row(row: ProgramVersion) -> Program:
    """Return the value of a version's row, which must have its program and that program's tenant loaded."""
    program = row.program
    value = read(row.document, ProgramOwner(program.tenant.slug if program.tenant else ""))
    if isinstance(value, tuple):
        raise RuntimeError(f"{row} cannot be read any more: {value[0].field} {value[0].sentence}")
    return replace(value, version=row.version)


def _programs(tenant_id: int, owner: str | None) -> QuerySet[CatalogueProgram]:
    operators = CatalogueProgram.objects.filter(tenant=None)
    return operators if owner == OPERATOR else operators | CatalogueProgram.objects.filter(tenant=tenant_id)


def _usable(tenant_id: int, owner: str | None) -> list[CatalogueProgram]:
    """Return the tenant's own programs, then those that the operator offers to it, each by name."""
    switched_on = Exists(ProgramSwitch.objects.filter(tenant=OuterRef("pk"), may_bring=True))
    slug, may_bring = Tenant.objects.values_list("slug", switched_on).get(pk=tenant_id)
    usable = [
        program
        for program in _programs(tenant_id, owner).filter(retired_at=None)
        if (may_bring if program.tenant_id else program.tenants is None or slug in program.tenants)
    ]
    return sorted(usable, key=lambda program: (program.tenant_id is None, program.name))


def _with_archive(stored: StoredProgram) -> StoredProgram:
    if not stored.program.archive:
        return stored
    return replace(stored, archive=b"".join(archive_pieces(stored.program.archive)))


def archive_pieces(digest: str) -> Iterator[bytes]:
    """Yield an archive in pieces, each read when it is needed. There is none if its content is not kept any more."""
    numbers = ProgramArchivePiece.objects.filter(archive=digest).order_by("number").values_list("pk", flat=True)
    for pk in list(numbers):
        yield bytes(ProgramArchivePiece.objects.values_list("content", flat=True).get(pk=pk))
