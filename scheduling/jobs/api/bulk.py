"""Many jobs in one call, each with words of its own: all of them are submitted, or none."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from django.http import HttpResponse
from django.http.response import HttpResponseBase
from django.utils import timezone
from rest_framework.request import Request

from scheduling.common.api.shown import refusal_numbers
from scheduling.common.api.views import UNKNOWN_POOL, pool_by_slug
from scheduling.jobs.api.describing import after_of, said_of
from scheduling.jobs.api.fields import BULK_EXAMPLE, NEW_BULK_EXAMPLE, BulkShown, NewBulk
from scheduling.jobs.api.jobs import SUBMIT_REFUSALS, client_key_of, submission_refused
from scheduling.jobs.bulk import JobsRefused, JobWords, jobs_refused, jobs_submit
from scheduling.jobs.submission import InvalidJob
from scheduling.models import Lane
from tenants.access import Refused
from tenants.api.operations import operation
from tenants.api.problems import FieldError, Problem, problem_response, status_of
from tenants.api.views import TenantView
from tenants.roles import Permission


class JobsBulk(TenantView):
    @operation(
        "jobs_bulk",
        summary="Submit many jobs in one call",
        description="1,000 at most, each with words of its own, said by `spec` or in `hours`; jobs that differ in an "
        "index alone are an array. All of them are submitted or none: `errors` of a refusal names each job that cannot "
        "be by its index and field (the first 100), and `figures` of its numbers has the figures of each. They wait "
        "for the next interval and are decided one by one, as if they had been submitted by themselves. An "
        "`Idempotency-Key` makes a repetition no second submission. A tenant may have "
        "few of these calls under way at once.",
        permission=Permission.JOBS_SUBMIT,
        body=NewBulk,
        answer=BulkShown,
        status=HTTPStatus.CREATED,
        request_example=NEW_BULK_EXAMPLE,
        answer_example=BULK_EXAMPLE,
        refusals=("jobs_refused", *SUBMIT_REFUSALS),
        costly=True,
        most_values=50_000,  # a thousand jobs with programs have half as many
        tag="jobs",
    )
    def post(self, request: Request, tenant_slug: str) -> HttpResponseBase:
        body, at = self.read(NewBulk), timezone.now()
        if (pool := pool_by_slug(body["pool"])) is None:
            return self.refused(UNKNOWN_POOL)
        words = [_words(each) for each in body["jobs"]]
        unclear = [(index, each) for index, each in enumerate(words) if isinstance(each, Refused)]
        if unclear:
            return _refused(jobs_refused(unclear, len(words)))
        wordings = [each for each in words if isinstance(each, JobWords)]
        lane, key = body.get("lane", Lane.BATCH.value), client_key_of(request)
        outcome = jobs_submit(pool=pool, words=wordings, by=self.access, at=at, client_key=key, lane=lane)
        if isinstance(outcome, JobsRefused):
            return _refused(outcome)
        if isinstance(outcome, Refused):
            return submission_refused(self, outcome)
        return self.shown(BulkShown, {"pool": pool, "jobs": outcome.jobs}, HTTPStatus.CREATED)


def _words(body: Mapping[str, Any]) -> JobWords | Refused:
    wording = said_of(body)
    if isinstance(wording, Refused):
        return wording
    if wording is not None:
        return JobWords(wording=wording)
    if missing := [name for name in ("spec", "name") if name not in body]:
        return InvalidJob("invalid_job", f"{missing[0]}: must be said.", missing[0])
    return JobWords(body["name"], body["spec"], body.get("begin"), after_of(body))


def _refused(refused: JobsRefused) -> HttpResponse:
    errors = [FieldError(_place(index, each), each.code, each.sentence) for index, each in refused.faults]
    figures = [
        {"index": index, "code": each.code, "numbers": numbers}
        for index, each in refused.faults
        if (numbers := refusal_numbers(each))
    ]
    numbers = {"jobs": refused.jobs, "refused": refused.refused, "figures": figures}
    return problem_response(Problem(status_of(refused.code), refused.code, refused.sentence, numbers, errors))


def _place(index: int, refusal: Refused) -> str:
    field = getattr(refusal, "field", "")
    return f"jobs[{index}].{field}" if field else f"jobs[{index}]"
