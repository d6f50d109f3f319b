"""Programs that a tenant's jobs may name: listed, read, and its own registered, continued and retired."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from http import HTTPStatus
from typing import Any

from django.http import Http404, HttpResponse
from django.http.response import HttpResponseBase
from django.utils import timezone
from rest_framework.parsers import MultiPartParser
from rest_framework.request import Request

from scheduling.catalogue.api.fields import (
    DOCUMENT_EXAMPLE,
    EXAMPLE,
    PAGE_EXAMPLE,
    PROGRAMS_LISTED,
    UPLOAD,
    UPLOAD_EXAMPLE,
    VERSION,
    NewVersion,
    ProgramWithVersions,
    SentFile,
    UploadShown,
)
from scheduling.catalogue.read_catalogue import (
    ProgramLine,
    VersionLine,
    archive_of,
    may_read,
    read_catalogue,
    read_program,
)
from scheduling.catalogue.registration import InvalidProgram, Registered, program_register, program_retire
from scheduling.common import as_sentence
from scheduling.programs.catalogue import document_of
from scheduling.programs.parameters import document_of_parameter
from tenants.access import Refused
from tenants.api.operations import operation
from tenants.api.problems import FieldError, Problem, problem_response, status_of
from tenants.api.views import TenantView
from tenants.requests.uploads import GOOD_FOR, MOST_BYTES, ticket_for
from tenants.roles import Permission

REGISTER_REFUSALS = ("invalid_program", "programs_not_allowed", "too_many_programs")
GZIP = "application/gzip"
VERSIONS_NOTE = "What was registered never changes. A document that says what the newest version says makes no new one."


@dataclass(frozen=True)
class PageShown:
    """A program's page as the interface shows it. `document`: None to whoever may not read its words."""

    line: ProgramLine
    version: int | None
    parameters: list[dict[str, Any]]
    document: dict[str, Any] | None
    versions: tuple[VersionLine, ...]


@dataclass(frozen=True)
class UploadAllowed:
    upload: str
    expires_at: datetime
    most_bytes: int


class _Programs(TenantView):
    def _page(self, owner: str, name: str, version: int | None = None, status: int = HTTPStatus.OK) -> HttpResponse:
        page = read_program(owner=owner, name=name, version=version, tenant=self.tenant, at=timezone.now())
        if page is None:
            raise Http404
        reads = page.program is not None and may_read(self.access, owner)
        document = PageShown(
            line=page.line,
            version=page.program.version if page.program else None,
            parameters=[document_of_parameter(each) for each in page.parameters],
            document=document_of(page.program) if page.program is not None and reads else None,
            versions=page.versions,
        )
        return self.shown(ProgramWithVersions, document, status)

    def _registered(self, outcome: Registered | Refused) -> HttpResponse:
        if isinstance(outcome, InvalidProgram):
            errors = [
                FieldError(
                    f"document.{fault.field}" if fault.field else "document", outcome.code, as_sentence(fault.sentence)
                )
                for fault in outcome.faults
            ]
            return problem_response(Problem(status_of(outcome.code), outcome.code, outcome.sentence, errors=errors))
        if isinstance(outcome, Refused):
            return self.refused(outcome)
        status = HTTPStatus.OK if outcome.repeated else HTTPStatus.CREATED
        return self._page(self.tenant.slug, outcome.row.program.name, outcome.row.version, status)


class Programs(_Programs):
    @operation(
        "programs_list",
        summary="Programs that a job may name",
        description="The tenant's own first, then those that come with the product and those of the operator.",
        permission=Permission.PROGRAMS_VIEW,
        listing=PROGRAMS_LISTED,
        answer_example=EXAMPLE,
        tag="programs",
    )
    def get(self, request: Request, tenant_slug: str) -> HttpResponseBase:
        return self.listed_values(read_catalogue(tenant=self.tenant, at=timezone.now()))

    @operation(
        "programs_register",
        summary="Register a program of the tenant's own",
        description=f"Where the operator has let the tenant bring programs. {VERSIONS_NOTE}",
        permission=Permission.PROGRAMS_REGISTER,
        body=NewVersion,
        answer=ProgramWithVersions,
        status=HTTPStatus.CREATED,
        request_example={"document": DOCUMENT_EXAMPLE},
        answer_example=PAGE_EXAMPLE,
        refusals=(*REGISTER_REFUSALS, "program_exists"),
        tag="programs",
    )
    def post(self, request: Request, tenant_slug: str) -> HttpResponseBase:
        body = self.read(NewVersion)
        return self._registered(
            program_register(
                document=body["document"],
                archive=body.get("archive"),
                by=self.access,
                at=timezone.now(),
                is_new=True,
            )
        )


class OneProgram(_Programs):
    @operation(
        "programs_read",
        summary="One program",
        description="With its versions, and what it did for the tenant. `owner` is a tenant's short name, or "
        "`operator`. Words, script and archive are shown to the operator and to members of the owner alone.",
        permission=Permission.PROGRAMS_VIEW,
        answer=ProgramWithVersions,
        answer_example=PAGE_EXAMPLE,
        filters=(VERSION,),
        tag="programs",
    )
    def get(self, request: Request, tenant_slug: str, owner_slug: str, name: str) -> HttpResponseBase:
        return self._page(owner_slug, name, self.parameters.get("version"))


class ProgramVersions(_Programs):
    @operation(
        "program_versions_register",
        summary="Make the next version of a program",
        description=f"Of the tenant's own. The document says all of it, with the same name. {VERSIONS_NOTE} A program "
        "that was retired comes back with it.",
        permission=Permission.PROGRAMS_REGISTER,
        body=NewVersion,
        answer=ProgramWithVersions,
        status=HTTPStatus.CREATED,
        request_example={"document": DOCUMENT_EXAMPLE},
        answer_example=PAGE_EXAMPLE,
        refusals=(*REGISTER_REFUSALS, "unknown_program"),
        tag="programs",
    )
    def post(self, request: Request, tenant_slug: str, name: str) -> HttpResponseBase:
        body = self.read(NewVersion)
        return self._registered(
            program_register(
                document=body["document"],
                archive=body.get("archive"),
                by=self.access,
                at=timezone.now(),
                name=name,
                is_new=False,
            )
        )


class ProgramUploads(_Programs):
    @operation(
        "program_uploads_begin",
        summary="Ask to send an archive",
        description="For who may register programs. What is answered goes into the address of `programs_upload`, once "
        "or several times, for an hour.",
        permission=Permission.PROGRAMS_REGISTER,
        answer=UploadShown,
        answer_example=UPLOAD_EXAMPLE,
        tag="programs",
    )
    def post(self, request: Request, tenant_slug: str) -> HttpResponseBase:
        at = timezone.now()
        upload = UploadAllowed(upload=ticket_for(self.access), expires_at=at + GOOD_FOR, most_bytes=MOST_BYTES)
        return self.shown(UploadShown, upload)


class ProgramUpload(_Programs):
    parser_classes = (MultiPartParser,)

    @operation(
        "programs_upload",
        summary="Register a program with its archive as a file",
        description="A program's first version, or its next one. A form of two parts (`multipart/form-data`), whose "
        f"length is said. One of these is taken of a person at once, and two of a tenant. {VERSIONS_NOTE}",
        permission=Permission.PROGRAMS_REGISTER,
        body=SentFile,
        answer=ProgramWithVersions,
        status=HTTPStatus.CREATED,
        answer_example=PAGE_EXAMPLE,
        filters=(UPLOAD,),
        refusals=REGISTER_REFUSALS,
        tag="programs",
    )
    def post(self, request: Request, tenant_slug: str) -> HttpResponseBase:
        body = self.read(SentFile)
        return self._registered(
            program_register(
                document=body["document"],
                archive=body["archive"].file,
                by=self.access,
                at=timezone.now(),
            )
        )


class ProgramRetire(_Programs):
    @operation(
        "programs_retire",
        summary="Retire a program",
        description="Of the tenant's own. No new job can name it; jobs that were submitted with it keep their version.",
        permission=Permission.PROGRAMS_REGISTER,
        answer=ProgramWithVersions,
        answer_example=PAGE_EXAMPLE | {"program": EXAMPLE | {"retired_at": "2026-03-02T12:00:00Z"}},
        refusals=("unknown_program",),
        tag="programs",
    )
    def post(self, request: Request, tenant_slug: str, name: str) -> HttpResponseBase:
        outcome = program_retire(name=name, by=self.access, at=timezone.now())
        return self.refused(outcome) if isinstance(outcome, Refused) else self._page(self.tenant.slug, name)


class ProgramArchiveFile(_Programs):
    @operation(
        "program_archive_read",
        summary="The archive of a version",
        description="As it was uploaded, for the operator and members of the owner. The files of a batch script are "
        "kept as long as jobs use them.",
        permission=Permission.PROGRAMS_VIEW,
        file=GZIP,
        refusals=("unknown_archive",),
        tag="programs",
    )
    def get(self, request: Request, tenant_slug: str, owner_slug: str, name: str, version: int) -> HttpResponseBase:
        page = read_program(owner=owner_slug, name=name, version=version, tenant=self.tenant, at=timezone.now())
        if page is None or page.program is None or not may_read(self.access, owner_slug):
            raise Http404
        content = archive_of(owner=owner_slug, name=name, version=version)
        if content is None:
            raise Http404
        if isinstance(content, str):
            return self.refused(Refused("unknown_archive", content))
        return self.file(f"{name}-{version}.tar.gz", GZIP, content)
