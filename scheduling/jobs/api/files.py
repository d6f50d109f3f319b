"""The files of a job: what its program wrote into its folder, listed and sent."""

from __future__ import annotations

from typing import Any

from django.http.response import HttpResponseBase
from django.utils import timezone
from rest_framework import serializers
from rest_framework.request import Request

from scheduling.jobs.api.jobs import job_or_404
from scheduling.jobs.read_files import MOST_FILES, UNKNOWN_FILE, job_file, job_files
from scheduling.jobs.read_stranger_files import Parts, path_said, path_shown
from tenants.access import Refused
from tenants.api.fields import Answer, Moment
from tenants.api.listing import Filter
from tenants.api.operations import operation
from tenants.api.views import TenantView
from tenants.common.downloads import part_download
from tenants.roles import Permission

BYTES = "application/octet-stream"
LONGEST_PATH = 4_000  # characters of a path as it is written
AS_WRITTEN = "A byte of a name that is no printable sign is written `\\xNN`, and a backslash `\\\\`."


def _path(text: str) -> Parts:
    parts = path_said(text) if len(text) <= LONGEST_PATH else None
    if parts is None:
        raise ValueError("must be a path as the list of the job's files has it")
    return parts


PATH_SCHEMA = {"type": "string", "minLength": 1, "maxLength": LONGEST_PATH}
AFTER = Filter("after", "", PATH_SCHEMA, "The last path of a list that had `more`: what comes after it.", _path)
PATH = Filter("path", "", PATH_SCHEMA, "Which one, as the list has it.", _path)


class JobFileShown(Answer):
    path = serializers.CharField(help_text=f"From the job's folder. {AS_WRITTEN}")
    bytes = serializers.IntegerField()
    changed_at = Moment(help_text="When it was last written, as its server's clock had it.")


class JobFilesShown(Answer):
    files = JobFileShown(many=True, help_text=f"In order of their paths, at most {MOST_FILES:,}.")
    more = serializers.BooleanField(help_text="There are others after the last one.")
    left_out = serializers.IntegerField(help_text="Links, pipes, devices, and files that cannot be read here.")
    sentence = serializers.CharField(help_text="Why there are none; empty where there are some.")
    kept_until = Moment(allow_null=True, help_text="From then on they may be removed; null: not by the clock.")


FILES_EXAMPLE: dict[str, Any] = {
    "files": [
        {"path": "checkpoint/model.pt", "bytes": 48213904, "changed_at": "2026-03-02T12:34:56.120000Z"},
        {"path": "train.py", "bytes": 2190, "changed_at": "2026-03-02T12:20:00.300000Z"},
    ],
    "more": False,
    "left_out": 0,
    "sentence": "",
    "kept_until": "2026-04-02T00:00:00Z",
}


class JobFiles(TenantView):
    @operation(
        "jobs_files",
        summary="The files of a job",
        description="What its program has in its folder: what it wrote, in `checkpoint/` what stays from one start to "
        "the next, and what came with its archive. The platform's own files are left out. Files that came with the "
        "archive of a program are for those who may read its words. A path that is given as `after` need not be there.",
        permission=Permission.JOBS_VIEW,
        answer=JobFilesShown,
        filters=(AFTER,),
        answer_example=FILES_EXAMPLE,
        tag="jobs",
    )
    def get(self, request: Request, tenant_slug: str, job_id: int) -> HttpResponseBase:
        after = self.parameters.get("after", ())
        return self.shown(JobFilesShown, job_files(job_or_404(job_id), self.access, timezone.now(), after=after))


class JobFileContent(TenantView):
    @operation(
        "jobs_file_content",
        summary="A file of a job",
        description="Its bytes, as they are. A part of them is sent (206) where `Range` asks for one, and with "
        "`If-Range` only while the file is the same. A file that a program writes meanwhile is sent as long as it was "
        "at the beginning; an answer that is shorter than it says is of one that was cut.",
        permission=Permission.JOBS_VIEW,
        filters=(PATH,),
        file=BYTES,
        refusals=(UNKNOWN_FILE,),
        tag="jobs",
    )
    def get(self, request: Request, tenant_slug: str, job_id: int) -> HttpResponseBase:
        opened = job_file(job_or_404(job_id), self.access, timezone.now(), self.parameters.get("path", ()))
        if isinstance(opened, Refused):
            return self.refused(opened)
        name = path_shown(opened.about.path[-1:])
        return part_download(request._request, name, opened)
