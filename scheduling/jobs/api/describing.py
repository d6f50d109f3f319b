"""Jobs as people describe them: what a description means, and how a job was described."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, timedelta, timezone, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

from django.http import Http404
from django.http.response import HttpResponseBase
from django.utils import timezone as clock
from rest_framework.request import Request

from scheduling.common.api.shown import refusal_numbers
from scheduling.common.api.views import UNKNOWN_POOL, pool_by_slug
from scheduling.jobs.api.fields import (
    DESCRIPTION_EXAMPLE,
    PARSE_EXAMPLE,
    PARSED_EXAMPLE,
    DescriptionShown,
    Parsed,
    Question,
)
from scheduling.jobs.describing import JobWording, job_understood
from scheduling.jobs.read_description import description_shown, lines_shown, with_description
from scheduling.jobs.submission import InvalidJob
from scheduling.models import TrainingJob
from scheduling.programs.ordering import Waited, after_arrays, after_jobs, array_named
from tenants.access import Refused
from tenants.api.operations import operation
from tenants.api.views import TenantView
from tenants.roles import Permission

WAYS = ("spec", "hours", "script")


class JobsParse(TenantView):
    @operation(
        "jobs_parse",
        summary="What does a description mean?",
        description="A job in hours, or a batch script of Slurm: what the market will be asked, and of a script what "
        "comes of each line. Nothing is stored. A refusal names in its numbers, under `faults`, all that is wrong: "
        "each with the line of the script or the field, a sentence, and what is nearest to it and allowed.",
        permission=Permission.JOBS_SUBMIT,
        body=Question,
        answer=Parsed,
        request_example=PARSE_EXAMPLE,
        answer_example=PARSED_EXAMPLE,
        refusals=("unknown_pool", "invalid_job", "programs_not_allowed", "invalid_program"),
        tag="jobs",
    )
    def post(self, request: Request, tenant_slug: str) -> HttpResponseBase:
        body = self.read(Question)
        wording = said_of(body)
        if isinstance(wording, Refused):
            return self.refused(wording)
        if wording is None:
            return self.refused(InvalidJob("invalid_job", "script: say the job in hours or by a script.", "script"))
        if (pool := pool_by_slug(body["pool"])) is None:
            return self.refused(UNKNOWN_POOL)
        outcome = job_understood(pool=pool, wording=wording, by=self.access, at=clock.now())
        if isinstance(outcome, Refused):
            return self.refused(outcome, refusal_numbers(outcome))
        lines = lines_shown(wording.script or "", outcome.lines)
        fields = ("how", "name", "spec", "begin", "indexes")
        after = {"after": after_jobs(outcome.after), "after_arrays": after_arrays(outcome.after)}
        script = {"lines": lines, "program": outcome.document}
        return self.shown(Parsed, {field: getattr(outcome, field) for field in fields} | after | script)


class JobDescribed(TenantView):
    @operation(
        "jobs_description",
        summary="How a job was described",
        description="As its submitter said it; the specification is what the market was asked. A script, with its "
        "lines, is shown to the operator and to members of the tenant alone.",
        permission=Permission.JOBS_VIEW,
        answer=DescriptionShown,
        answer_example=DESCRIPTION_EXAMPLE,
        tag="jobs",
    )
    def get(self, request: Request, tenant_slug: str, job_id: int) -> HttpResponseBase:
        job = with_description(TrainingJob.objects.filter(pk=job_id)).first()
        if job is None:
            raise Http404
        described = description_shown(job, self.access) or {"how": "detail", "said": {}, "lines": []}
        return self.shown(DescriptionShown, described)


def said_of(body: Mapping[str, Any]) -> JobWording | InvalidJob | None:
    """Return the job that a body describes in hours or by a script, or None if the body has neither."""
    ways = [way for way in WAYS if way in body]
    if len(ways) > 1:
        return InvalidJob("invalid_job", f"{ways[1]}: say either this or {ways[0]}.", ways[1])
    if ways != ["script"] and ways != ["hours"]:
        if "divisible" in body:
            return InvalidJob("invalid_job", "divisible: say it in the specification.", "divisible")
        if "archive" in body:
            return InvalidJob("invalid_job", "archive: belongs to a script.", "archive")
        return None
    if "index" in body and ways != ["script"]:
        return InvalidJob("invalid_job", "index: belongs to a script with --array.", "index")
    if named := [name for name in ("archive", "files") if name in body and ways != ["script"]]:
        return InvalidJob("invalid_job", f"{named[0]}: belongs to a script.", named[0])
    if "program" in body and ways == ["script"]:
        return InvalidJob("invalid_job", "program: the script itself is what runs.", "program")
    if "worth" not in body:
        return InvalidJob("invalid_job", "worth: say by when you want it and what it is worth by then.", "worth")
    if (zone := _zone(body.get("zone", "UTC"))) is None:
        return InvalidJob("invalid_job", "zone: must be one such as Europe/Berlin or +02:00.", "zone")
    names = ("script", "hours", "name", "begin", "program", "index", "divisible", "archive")
    fields = {name: body[name] for name in names if name in body}
    fields |= {"files": tuple(body["files"])} if "files" in body else {}
    return JobWording(worth=body["worth"], zone=zone, after=tuple(after_of(body)), **fields)


def after_of(body: Mapping[str, Any]) -> list[Waited]:
    """Return the jobs and arrays that a job of this body waits for."""
    return [*body.get("after", ()), *map(array_named, body.get("after_arrays", ()))]


def _zone(text: str) -> tzinfo | None:
    if offset := re.fullmatch(r"([+-])([0-9]{2}):?([0-5][0-9])", text, re.ASCII):
        minutes = int(offset[2]) * 60 + int(offset[3])
        return timezone(timedelta(minutes=-minutes if offset[1] == "-" else minutes)) if minutes < 24 * 60 else None
    try:
        return UTC if text == "UTC" else ZoneInfo(text)
    except (ValueError, OSError, LookupError):
        return None
