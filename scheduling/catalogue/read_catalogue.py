"""The catalogue as its readers see it: programs with their newest version, one with its newest versions, and its runs.

Words, scripts and archives are shown to the operator and to members of the owner, and to nobody else: `may_read`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db.models import Count, DurationField, ExpressionWrapper, F, Max, OuterRef, Q, QuerySet, Subquery, Sum
from django.db.models.fields.json import KT, KeyTextTransform, KeyTransform

from scheduling.engines.programs import PROGRAMS, TrainerParameter
from scheduling.models import (
    ArchiveKeeping,
    CatalogueProgram,
    ProgramArchive,
    ProgramSwitch,
    ProgramVersion,
    Run,
    RunState,
)
from scheduling.programs.catalogue import FROM_SCRIPT, PARAMETER_SERVER, Program
from scheduling.programs.parameters import Parameter
from scheduling.programs.stored import OPERATOR, archive_pieces, program_of_row
from tenants.access import Access
from tenants.common.zones import day_of
from tenants.models import Tenant
from tenants.roles import OPERATOR as OPERATOR_ROLE
from tenants.roles import TENANT_ROLES, Permission

DAYS = 30  # days for which a program's runs are counted
MOST_RUNS, MOST_VERSIONS_SHOWN = 20, 200  # the most that a program's page shows
MOST_SCRIPTS_SHOWN = 100  # the most that the page of programs shows


@dataclass(frozen=True)
class Deeds:
    """The sums of a program's runs in the last days. `hours` go from start to end, of the runs that are over."""

    runs: int = 0
    ended_well: int = 0
    hours: float = 0.0
    last_at: datetime | None = None


@dataclass(frozen=True)
class ProgramLine:
    """A program with its newest version. `owner` is a tenant's short name, or "operator"."""

    name: str
    title: str
    description: str
    owner: str
    owner_name: str
    tenants: tuple[str, ...] | None
    shape: str
    version: int | None  # None if it is built in, and comes with the product
    versions: int
    digest: str
    registered_at: datetime | None
    retired_at: datetime | None
    deeds: Deeds = Deeds()

    @property
    def is_operators(self) -> bool:
        return self.owner == OPERATOR


@dataclass(frozen=True)
class VersionLine:
    """One version. `by` is the person who registered it. `archive_bytes` is None if it has no archive, or its content
    is not kept any more."""

    version: int
    digest: str
    registered_at: datetime
    by: str
    archive: str
    archive_bytes: int | None


@dataclass(frozen=True)
class ProgramPage:
    """A program's page. `program` is the version that is shown, with its words; a reader who may not read these gets
    only `line`."""

    line: ProgramLine
    program: Program | None  # None if it is built in
    versions: tuple[VersionLine, ...]
    runs: tuple[Run, ...]
    parameters: tuple[Parameter, ...]


def read_catalogue(
    *,
    tenant: Tenant,
    at: datetime,
    name: str | None = None,
    most_scripts: int | None = None,
    deeds: Mapping[tuple[str, str], Deeds] | None = None,
) -> list[ProgramLine]:
    """Return what a tenant sees: its own programs, then the built-in ones and those that the operator offers to it.

    `name` limits the tenant's and the operator's programs to those of this name. `most_scripts` limits the programs
    that were made of batch scripts to the newest names. `deeds` are those of the tenant's runs, where they were read
    already."""
    rows = _some(_programs().filter(Q(tenant=tenant) | Q(tenant=None)), name, most_scripts)
    lines = _lines(rows, deeds_of(tenant_deeds(at)) if deeds is None else deeds)
    in_sight = [
        line
        for line in lines
        if not line.is_operators or (line.retired_at is None and (line.tenants is None or tenant.slug in line.tenants))
    ]
    return _in_order(in_sight)


def read_all(*, name: str | None = None, most_scripts: int | None = None) -> list[ProgramLine]:
    """Return what the operator sees: all programs, without runs, which only tenants see."""
    return _in_order(_lines(_some(_programs(), name, most_scripts), {}))


def scripts_count(tenant: Tenant | None = None) -> int:
    """Return how many programs were made of batch scripts, by one tenant or by all."""
    rows = CatalogueProgram.objects.filter(name__endswith=FROM_SCRIPT)
    return (rows if tenant is None else rows.filter(tenant=tenant)).count()


def _some(
    programs: QuerySet[CatalogueProgram], name: str | None, most_scripts: int | None
) -> QuerySet[CatalogueProgram]:
    if name is not None:
        programs = programs.filter(name=name)
    if most_scripts is None:
        return programs
    from_scripts = Q(name__endswith=FROM_SCRIPT)
    newest = list(programs.filter(from_scripts).order_by("-pk").values_list("pk", flat=True)[:most_scripts])
    return programs.filter(~from_scripts | Q(pk__in=newest))


def read_program(
    *, owner: str, name: str, version: int | None = None, tenant: Tenant | None, at: datetime
) -> ProgramPage | None:
    """Return one program with its newest versions, and its runs for the current tenant. `version` is the one shown;
    None means the newest."""
    in_sight = read_catalogue(tenant=tenant, at=at, name=name) if tenant else read_all(name=name)
    line = next((line for line in in_sight if (line.owner, line.name) == (owner, name)), None)
    if line is None:
        return None
    runs = tuple(_runs_of(line, at).order_by("-id")[:MOST_RUNS].select_related("job")) if tenant else ()
    if line.version is None:
        return ProgramPage(line, None, (), runs, tuple(map(_as_parameter, PROGRAMS[name].parameters)))
    whose = Q(program__tenant=None) if line.is_operators else Q(program__tenant__slug=owner)
    rows = ProgramVersion.objects.filter(whose, program__name=name).select_related("program__tenant", "registered_by")
    row = rows.filter(version=line.version if version is None else version).first()
    if row is None:
        return None
    program = program_of_row(row)
    return ProgramPage(line, program, _versions(rows), runs, program.parameters)


def archive_of(*, owner: str, name: str, version: int) -> Iterator[bytes] | str | None:
    """Return the archive of a version in pieces, for readers who `may_read` it; a sentence if it is not kept any more;
    None if there is none."""
    whose = Q(program__tenant=None) if owner == OPERATOR else Q(program__tenant__slug=owner)
    row = ProgramVersion.objects.filter(whose, program__name=name, version=version).only("archive_id").first()
    if row is None or row.archive_id is None:
        return None
    return archive_closed(row.archive_id) or archive_pieces(row.archive_id)


def archive_closed(digest: str) -> str:
    """Return a sentence that an archive's files are not kept any more; "" if they are."""
    keeping = ArchiveKeeping.objects.filter(pk=digest, closed_at__isnull=False).first()
    if keeping is None or keeping.closed_at is None:
        return ""
    return (
        "The files of this version are kept no more, as no job used them for long before"
        f" {day_of(keeping.closed_at, UTC)}. Whoever submits the script again sends them along again."
    )


def may_read(by: Access, owner: str) -> bool:
    """Return whether words, script and archive are shown: to the operator, and to members of the owner."""
    if not by.allows(Permission.PROGRAMS_VIEW):
        return False
    is_member = by.tenant is not None and by.tenant.slug == owner and not by.roles.isdisjoint(TENANT_ROLES)
    return is_member or OPERATOR_ROLE in by.roles


def may_bring(tenant: Tenant) -> bool:
    return ProgramSwitch.objects.filter(tenant=tenant, may_bring=True).exists()


def tenants_that_may_bring() -> set[int]:
    return set(ProgramSwitch.objects.filter(may_bring=True).values_list("tenant_id", flat=True))


def deeds_of(runs: QuerySet[Run]) -> dict[tuple[str, str], Deeds]:
    """Return the sums of runs by a program's owner and name. The owner is the one in a specification: "operator", or
    empty for the tenant's own."""
    lasted = ExpressionWrapper(F("ended_at") - F("started_at"), output_field=DurationField())
    whose = KeyTextTransform("owner", KeyTransform("program", "job__spec"))
    counted = runs.values("program", whose=whose).annotate(
        count=Count("pk"),
        well=Count("pk", filter=Q(state=RunState.FINISHED)),
        lasted=Sum(lasted),
        last_at=Max("due_at"),
    )
    return {
        (each["whose"] or "", each["program"]): Deeds(
            each["count"], each["well"], (each["lasted"] or timedelta()).total_seconds() / 3600, each["last_at"]
        )
        for each in counted.order_by()
    }


def own_deeds(deeds: Mapping[tuple[str, str], Deeds]) -> list[Deeds]:
    """Return those of a tenant's own programs, of the ones that are not listed too."""
    return [each for (owner, name), each in deeds.items() if not owner and name not in PROGRAMS]


def tenant_deeds(at: datetime) -> QuerySet[Run]:
    """Return the current tenant's runs of the last `DAYS` days."""
    return Run.objects.filter(due_at__gte=at - timedelta(days=DAYS))


def _as_parameter(parameter: TrainerParameter) -> Parameter:
    return Parameter(
        name=parameter.name,
        kind=parameter.kind,
        default=parameter.default,
        title=parameter.title,
        help=parameter.help,
        unit=parameter.unit,
        least=parameter.minimum,
        most=parameter.maximum,
        choices=tuple(value for value, _ in parameter.choices),
    )


def _runs_of(line: ProgramLine, at: datetime) -> QuerySet[Run]:
    runs = tenant_deeds(at).filter(program=line.name)
    if line.version is None:
        return runs
    if line.is_operators:
        return runs.filter(job__spec__program__owner=OPERATOR)
    return runs.filter(job__spec__program__owner__isnull=True)


def _programs() -> QuerySet[CatalogueProgram]:
    newest = ProgramVersion.objects.filter(program=OuterRef("pk")).order_by("-version")
    return CatalogueProgram.objects.select_related("tenant").annotate(newest=Subquery(newest.values("pk")[:1]))


def _lines(programs: QuerySet[Any], deeds: Mapping[tuple[str, str], Deeds]) -> list[ProgramLine]:
    rows = {row.pk: row for row in programs}
    versions = ProgramVersion.objects.filter(pk__in=[row.newest for row in rows.values()])
    texts = {name: KT(f"document__{name}") for name in ("title", "description", "shape")}  # a script may be long
    newest: QuerySet[Any] = versions.defer("document").annotate(**texts)
    lines = []
    for version in newest:
        program = rows[version.program_id]
        owner = program.tenant.slug if program.tenant else OPERATOR
        lines.append(
            ProgramLine(
                name=program.name,
                title=version.title or "",
                description=version.description or "",
                owner=owner,
                owner_name=program.tenant.name if program.tenant else "Operator",
                tenants=None if program.tenants is None else tuple(program.tenants),
                shape=version.shape,
                version=version.version,
                versions=version.version,
                digest=version.digest,
                registered_at=version.registered_at,
                retired_at=program.retired_at,
                deeds=deeds.get(("" if program.tenant else OPERATOR, program.name), Deeds()),
            )
        )
    built_in = [
        ProgramLine(
            name=each.name,
            title=each.title,
            description=each.description,
            owner=OPERATOR,
            owner_name="Operator",
            tenants=None,
            shape=PARAMETER_SERVER,
            version=None,
            versions=0,
            digest="",
            registered_at=None,
            retired_at=None,
            deeds=deeds.get(("", each.name), Deeds()),
        )
        for each in PROGRAMS.values()
    ]
    return [*built_in, *lines]


def _in_order(lines: Sequence[ProgramLine]) -> list[ProgramLine]:
    """Return tenants' own programs first, then the built-in ones, then the operator's, each by name."""
    return sorted(lines, key=lambda line: (line.is_operators, line.version is not None, line.owner, line.name))


def _versions(rows: QuerySet[ProgramVersion]) -> tuple[VersionLine, ...]:
    newest = list(rows.order_by("-version").defer("document")[:MOST_VERSIONS_SHOWN])
    archives = {row.archive_id for row in newest if row.archive_id}
    closed = ArchiveKeeping.objects.filter(closed_at__isnull=False).values("pk")
    rows_open = ProgramArchive.objects.filter(pk__in=archives).exclude(pk__in=closed)
    sizes = dict(rows_open.values_list("pk", "size"))
    return tuple(
        VersionLine(
            version=row.version,
            digest=row.digest,
            registered_at=row.registered_at,
            by=str(row.registered_by) if row.registered_by else row.registered_by_name,
            archive=row.archive_id or "",
            archive_bytes=sizes.get(row.archive_id or ""),
        )
        for row in newest
    )
