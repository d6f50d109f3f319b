"""Arrays of jobs: submitted in one call, read as one, taken back in one."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from django.http import Http404
from django.http.response import HttpResponseBase
from django.urls import reverse
from django.utils import timezone
from rest_framework.request import Request

from scheduling.common.api.views import UNKNOWN_POOL, pool_by_slug
from scheduling.jobs.api.describing import after_of, said_of
from scheduling.jobs.api.fields import ARRAY_EXAMPLE, NEW_ARRAY_EXAMPLE, ArrayShown, Cancellation, NewArray
from scheduling.jobs.api.jobs import SUBMIT_REFUSALS, client_key_of, submission_refused
from scheduling.jobs.arrays import array_describe, array_submit
from scheduling.jobs.cancellation import array_cancel
from scheduling.jobs.read_arrays import ArraySums, array_by_id
from scheduling.jobs.submission import InvalidJob
from tenants.access import Refused
from tenants.api.operations import operation
from tenants.api.views import TenantView
from tenants.roles import Permission


class Arrays(TenantView):
    def is_whole(self) -> bool:
        """A script is registered before its jobs are submitted."""
        return "script" not in self.request.data

    @operation(
        "arrays_create",
        summary="Submit an array of jobs",
        description="A script with `#SBATCH --array`, or a `count` of jobs said by `spec` or in `hours`: 1,000 at "
        "most, all of them or none. Where their program has a parameter `index`, each job is told its own. They wait "
        "for the next interval and are decided one by one, or `together`. An `Idempotency-Key` "
        "makes a repetition no second array.",
        permission=Permission.JOBS_SUBMIT,
        body=NewArray,
        answer=ArrayShown,
        status=HTTPStatus.CREATED,
        request_example=NEW_ARRAY_EXAMPLE,
        answer_example=ARRAY_EXAMPLE,
        refusals=SUBMIT_REFUSALS,
        tag="jobs",
    )
    def post(self, request: Request, tenant_slug: str) -> HttpResponseBase:
        body, at = self.read(NewArray), timezone.now()
        wording = said_of(body)
        if isinstance(wording, Refused):
            return self.refused(wording)
        if (pool := pool_by_slug(body["pool"])) is None:
            return self.refused(UNKNOWN_POOL)
        wish: dict[str, Any] = {"pool": pool, "by": self.access, "at": at, "client_key": client_key_of(request)}
        wish |= {name: body[name] for name in ("together", "lane") if name in body}
        if wording is not None:
            outcome = array_describe(wording=wording, count=body.get("count"), **wish)
        elif missing := [name for name in ("spec", "name", "count") if name not in body]:
            return self.refused(InvalidJob("invalid_job", f"{missing[0]}: must be said.", missing[0]))
        else:
            later = {"after": after_of(body)} | ({"begin": body["begin"]} if "begin" in body else {})
            outcome = array_submit(name=body["name"], spec=body["spec"], count=body["count"], **later, **wish)
        if isinstance(outcome, Refused):
            return submission_refused(self, outcome)
        response = self.shown(ArrayShown, _sums(outcome.array.pk), HTTPStatus.CREATED)
        response.headers["Location"] = reverse("api_array", args=[tenant_slug, outcome.array.pk])
        return response


class Array(TenantView):
    @operation(
        "arrays_read",
        summary="One array of jobs",
        description="How many of its members are in which state, and what they pay in all. `?array=` lists them.",
        permission=Permission.JOBS_VIEW,
        answer=ArrayShown,
        answer_example=ARRAY_EXAMPLE,
        tag="jobs",
    )
    def get(self, request: Request, tenant_slug: str, array_id: int) -> HttpResponseBase:
        return self.shown(ArrayShown, _sums(array_id))


class ArrayCancel(TenantView):
    @operation(
        "array_cancel",
        summary="Cancel an array of jobs",
        description="All members that are not over, in one act, each by the rule of its state. Where all are over, "
        "nothing changes.",
        permission=Permission.JOBS_CANCEL,
        body=Cancellation,
        answer=ArrayShown,
        request_example={"most": "0"},
        answer_example=ARRAY_EXAMPLE | {"states": {"finished": 1, "cancelled": 9}},
        refusals=("unknown_job", "costs_more"),
        tag="jobs",
    )
    def post(self, request: Request, tenant_slug: str, array_id: int) -> HttpResponseBase:
        most = self.read(Cancellation).get("most")
        outcome = array_cancel(array_id=array_id, by=self.access, at=timezone.now(), most=most)
        if isinstance(outcome, Refused):
            return submission_refused(self, outcome)
        return self.shown(ArrayShown, _sums(array_id))


def _sums(array_id: int) -> ArraySums:
    if (sums := array_by_id(array_id)) is None:
        raise Http404
    return sums
