"""Jobs of a tenant: submit, list, read, explain, cancel one or many, and let a refused one wait for an interval.

The model for every other resource: a view parses, calls one service or selector, and renders.
"""

from __future__ import annotations

import hashlib
from http import HTTPStatus
from typing import Any

from django.http import Http404, HttpResponse
from django.http.response import HttpResponseBase
from django.urls import reverse
from django.utils import timezone
from rest_framework.request import Request

from scheduling.common.api.shown import refusal_numbers
from scheduling.common.api.views import UNKNOWN_POOL, pool_by_slug
from scheduling.jobs.api.describing import after_of, said_of
from scheduling.jobs.api.fields import (
    CANCELLED_EXAMPLE,
    EXPLAIN_EXAMPLE,
    JOB_EXAMPLE,
    JOB_WITH_SPEC_EXAMPLE,
    NEW_EXAMPLE,
    Cancellation,
    CancelOutcomes,
    Explanation,
    JobShown,
    JobsToCancel,
    JobWithSpec,
    Submission,
)
from scheduling.jobs.cancellation import job_cancel
from scheduling.jobs.describing import job_describe
from scheduling.jobs.projections import job_projection
from scheduling.jobs.read_rows import JobRow, job_by_id, job_list, job_row, job_rows
from scheduling.jobs.second_chance import job_queue
from scheduling.jobs.submission import InvalidJob, job_submit
from scheduling.models import JobState, Lane, TrainingJob
from tenants.access import Refused
from tenants.api.listing import Listing, choice, moment, whole, word
from tenants.api.operations import operation
from tenants.api.views import TenantView
from tenants.roles import Permission

FOLDED = "folded"
JOBS = Listing(
    JobShown,
    orderings=("-id", "id"),
    filters=(
        choice("state", JobState.values, "Only jobs in one of these states."),
        choice("lane", Lane.values, "Only jobs of this lane."),
        word("pool", "Only jobs in the pool of this short name.", "pool__slug"),
        word("name", "Only jobs of exactly this name."),
        whole("array", "Only members of this array."),
        choice("arrays", (FOLDED,), "`folded`: of each array only its first member, which has its sums.", ""),
        word("reason", "Only jobs with this reason's code.", "reason_code"),
        moment("submitted_from", "Submitted at this time or later.", "submitted_at__gte"),
        moment("submitted_before", "Submitted before this time.", "submitted_at__lt"),
    ),
)
# The codes with which a submission or a quote may be refused.
SUBMIT_REFUSALS = (
    "unknown_pool",
    "invalid_job",
    "over_budget",
    "larger_than_window",
    "pool_not_open",
    "pool_draining",
    "lane_closed",
    "market_held",
    "cooling",
    "key_reused",
    "programs_not_allowed",
    "invalid_program",
    "too_many_programs",
)


class Jobs(TenantView):
    @operation(
        "jobs_list",
        summary="Jobs of the tenant",
        description="The newest first, with the lane, price, payer and reason of each.",
        permission=Permission.JOBS_VIEW,
        listing=JOBS,
        answer_example=JOB_EXAMPLE,
        refusals=("unknown_pool",),
        tag="jobs",
    )
    def get(self, request: Request, tenant_slug: str) -> HttpResponseBase:
        if "pool" in self.parameters and pool_by_slug(self.parameters["pool"]) is None:
            return self.refused(UNKNOWN_POOL)
        rows = job_list()
        return self.listed(rows.filter(array_place=0) if self.parameters.get("arrays") else rows, job_rows)

    def is_whole(self) -> bool:
        """A submission that tries both lanes lets go of the lock of the first before it takes the other one. A script
        is registered before its job is submitted."""
        return "otherwise" not in self.request.data and "script" not in self.request.data

    @operation(
        "jobs_create",
        summary="Submit a job",
        description="Said by `spec`, in `hours` or by a `script`. The answer says lane, price, payer and hold as "
        "they are now. In the instant lane the job is decided: `awarded` or `running` with its price, or "
        "`rejected` with the reason (`over_share` where it asks for more of the pool than one job may have). With "
        "`otherwise` it then waits for the next interval, as every job of the batch lane does. With an "
        "`Idempotency-Key` a repetition never makes a second job or a second hold.",
        permission=Permission.JOBS_SUBMIT,
        body=Submission,
        answer=JobWithSpec,
        status=HTTPStatus.CREATED,
        request_example=NEW_EXAMPLE,
        answer_example=JOB_WITH_SPEC_EXAMPLE,
        refusals=SUBMIT_REFUSALS,
        tag="jobs",
    )
    def post(self, request: Request, tenant_slug: str) -> HttpResponseBase:
        body, at = self.read(Submission), timezone.now()
        wording = said_of(body)
        if isinstance(wording, Refused):
            return self.refused(wording)
        if (pool := pool_by_slug(body["pool"])) is None:
            return self.refused(UNKNOWN_POOL)
        wish: dict[str, Any] = {"pool": pool, "by": self.access, "at": at, "client_key": client_key_of(request)}
        wish |= {name: body[name] for name in ("lane", "otherwise") if name in body}
        if wording is not None:
            outcome = job_describe(wording=wording, **wish)
        elif missing := [name for name in ("spec", "name") if name not in body]:
            return self.refused(InvalidJob("invalid_job", f"{missing[0]}: must be said.", missing[0]))
        else:
            later = {"after": after_of(body)} | ({"begin": body["begin"]} if "begin" in body else {})
            outcome = job_submit(name=body["name"], spec=body["spec"], **later, **wish)
        if isinstance(outcome, Refused):
            return submission_refused(self, outcome)
        row = _row(outcome.job.pk) if outcome.repeated else job_row(outcome.job, outcome.award)
        response = self.shown(JobWithSpec, row, HTTPStatus.CREATED)
        response.headers["Location"] = reverse("api_job", args=[tenant_slug, outcome.job.pk])
        return response


class JobsCancel(TenantView):
    @operation(
        "jobs_cancel",
        summary="Cancel many jobs",
        description="Each by itself: some may be cancelled and others not, and the answer says which and why. A job "
        "that is cancelled already counts as cancelled.",
        permission=Permission.JOBS_CANCEL,
        body=JobsToCancel,
        answer=CancelOutcomes,
        request_example={"jobs": [4711, 4712]},
        answer_example={
            "results": [
                {"id": 4711, "cancelled": True, "code": "", "detail": ""},
                {"id": 4712, "cancelled": False, "code": "already_over", "detail": "The job is finished."},
            ]
        },
        whole=False,  # each job has its own transaction, and cancelling again changes nothing
        tag="jobs",
    )
    def post(self, request: Request, tenant_slug: str) -> HttpResponseBase:
        ids: list[int] = self.read(JobsToCancel)["jobs"]
        now = timezone.now()
        outcomes = {job_id: job_cancel(job_id=job_id, by=self.access, at=now) for job_id in dict.fromkeys(ids)}
        return self.shown(CancelOutcomes, {"results": [_cancelled(job_id, outcomes[job_id]) for job_id in ids]})


class Job(TenantView):
    @operation(
        "jobs_read",
        summary="One job",
        description="With its specification as it was submitted.",
        permission=Permission.JOBS_VIEW,
        answer=JobWithSpec,
        answer_example=JOB_WITH_SPEC_EXAMPLE,
        tag="jobs",
    )
    def get(self, request: Request, tenant_slug: str, job_id: int) -> HttpResponseBase:
        return self.shown(JobWithSpec, _row(job_id))


class JobExplain(TenantView):
    @operation(
        "jobs_explain",
        summary="Why is the job where it is?",
        description="The reason as a code with its numbers, and in a sentence. Of a job whose place at home is planned "
        "anew at each interval: where that is now, why it moved, and how past projections held.",
        permission=Permission.JOBS_VIEW,
        answer=Explanation,
        answer_example=EXPLAIN_EXAMPLE,
        tag="jobs",
    )
    def get(self, request: Request, tenant_slug: str, job_id: int) -> HttpResponseBase:
        row = _row(job_id)
        projection = job_projection(row.job, at=timezone.now())
        return self.shown(Explanation, {"job": row.job, "view": row.view, "projection": projection})


class JobCancel(TenantView):
    @operation(
        "job_cancel",
        summary="Cancel a job",
        description="Before its start what is not settled comes back, less what the pool's rule keeps for the owners. "
        "Once it runs, what it reserved is paid. A job that is cancelled already stays as it is.",
        permission=Permission.JOBS_CANCEL,
        body=Cancellation,
        answer=JobWithSpec,
        request_example={"most": "0"},
        answer_example=CANCELLED_EXAMPLE,
        refusals=("unknown_job", "already_over", "costs_more"),
        tag="jobs",
    )
    def post(self, request: Request, tenant_slug: str, job_id: int) -> HttpResponseBase:
        most = self.read(Cancellation).get("most")
        return _changed(self, job_cancel(job_id=job_id, by=self.access, at=timezone.now(), most=most))


class JobQueue(TenantView):
    @operation(
        "job_queue",
        summary="Let a refused job wait",
        description="A job that the instant lane refused waits for the next interval instead.",
        permission=Permission.JOBS_SUBMIT,
        answer=JobWithSpec,
        answer_example=JOB_WITH_SPEC_EXAMPLE | {"lane": "batch", "state": "queued", "price": None, "hold": "0.000000"},
        refusals=("unknown_job", "not_refused", "larger_than_window", "pool_not_open", "pool_draining", "over_budget"),
        tag="jobs",
    )
    def post(self, request: Request, tenant_slug: str, job_id: int) -> HttpResponseBase:
        return _changed(self, job_queue(job_id=job_id, by=self.access, at=timezone.now()))


def submission_refused(view: TenantView, refused: Refused) -> HttpResponse:
    return view.refused(refused, refusal_numbers(refused))


def _changed(view: TenantView, outcome: TrainingJob | Refused) -> HttpResponse:
    if isinstance(outcome, Refused):
        return submission_refused(view, outcome)
    return view.shown(JobWithSpec, _row(outcome.pk))


def job_or_404(job_id: int) -> TrainingJob:
    """Return the job. A job of another tenant is not found, as if it did not exist."""
    job = job_by_id(job_id)
    if job is None:
        raise Http404
    return job


def _row(job_id: int) -> JobRow:
    return job_rows([job_or_404(job_id)])[0]


def _cancelled(job_id: int, outcome: TrainingJob | Refused) -> dict[str, Any]:
    refused = outcome if isinstance(outcome, Refused) else None
    return {
        "id": job_id,
        "cancelled": refused is None,
        "code": refused.code if refused else "",
        "detail": refused.sentence if refused else "",
    }


def client_key_of(request: Request) -> str | None:
    """Return the digest of the request's key, or None without a key. The job keeps it for good, long after the answer
    is forgotten. Two people may use the same key, because the person is part of the digest."""
    key = request.headers.get("Idempotency-Key")
    return None if key is None else hashlib.sha256(f"{request.user.pk} {key}".encode()).hexdigest()
