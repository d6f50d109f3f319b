"""What if a job had said something else, for programs: asked with a POST, then read until it is worked out."""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

from django.http.response import HttpResponseBase
from django.urls import reverse
from django.utils import timezone
from rest_framework.request import Request

from scheduling.common.api.views import UNKNOWN_POOL, pool_by_slug
from scheduling.market.view import OPERATOR_ID
from scheduling.models import Pool
from scheduling.what_if.api.fields import (
    EXAMPLE,
    EXAMPLE_ASKED,
    FIELD_EXAMPLE,
    OPERATOR,
    ROW_EXAMPLE,
    WAITS_EXAMPLE,
    NewWhatIf,
    WhatIfField,
    WhatIfRow,
    WhatIfShown,
)
from scheduling.what_if.asking import what_if_cancel, what_if_fields, what_if_read, what_if_start, what_ifs_newest
from scheduling.what_if.otherwise import Misasked
from scheduling.what_if.read_words import FIELD_WORDS, outcome_sentence
from scheduling.what_if.seen import Result, WhatIfSeen
from tenants.access import Refused
from tenants.api.listing import Listing
from tenants.api.operations import operation
from tenants.api.views import TenantView
from tenants.models import Tenant
from tenants.roles import Permission

MOST = 200  # questions of one person in a list
REFUSALS = (
    "unknown_pool", "unknown_interval", "unknown_job", "did_not_wait", "invalid_value", "no_change", "floor_given",
    "decided_by_slot", "too_large", "other_specification", "archived", "unreadable", "too_many_open",
    "too_many_today", "too_many_in_all",
)  # fmt: skip


class _WhatIfs(TenantView):
    def _answered(self, outcome: WhatIfSeen | Refused, status: int = HTTPStatus.OK) -> HttpResponseBase:
        if isinstance(outcome, Misasked):
            return self.refused(outcome, {"interval": outcome.interval} if outcome.interval else None)
        if isinstance(outcome, Refused):
            return self.refused(outcome)
        row = _rows([outcome])[0]
        response = self.shown(WhatIfShown, row | {"result": _result(outcome)}, status)
        if status == HTTPStatus.ACCEPTED:
            response.headers["Location"] = reverse("api_what_if", args=[self.tenant.slug, outcome.id])
        return response


class WhatIfs(_WhatIfs):
    @operation(
        "what_ifs_list",
        summary="Own questions about the past",
        description="Those of whoever asks, about jobs of this tenant, the newest first; each is kept for seven days.",
        permission=Permission.JOBS_VIEW,
        listing=Listing(WhatIfRow),
        answer_example=ROW_EXAMPLE,
        tag="fairness",
    )
    def get(self, request: Request, tenant_slug: str) -> HttpResponseBase:
        return self.listed_values(_rows(what_ifs_newest(by=self.access, at=timezone.now(), most=MOST)))

    @operation(
        "what_ifs_create",
        summary="Ask what if a job had said something else",
        description="The interval is decided again, once as it was and once with one field of the job's report said "
        "otherwise. It goes on by itself: read the question that the answer names. It changes nothing of the market. "
        "Three questions of a person may wait, and sixty may be asked in a day.",
        permission=Permission.JOBS_VIEW,
        body=NewWhatIf,
        answer=WhatIfShown,
        status=HTTPStatus.ACCEPTED,
        request_example=EXAMPLE_ASKED,
        answer_example=WAITS_EXAMPLE,
        refusals=REFUSALS,
        costly=True,
        tag="fairness",
    )
    def post(self, request: Request, tenant_slug: str) -> HttpResponseBase:
        body = self.read(NewWhatIf)
        if (pool := pool_by_slug(body["pool"])) is None:
            return self.refused(UNKNOWN_POOL)
        outcome = what_if_start(
            pool_id=pool.pk,
            number=body["interval"],
            job_id=body["job"],
            field=body["field"],
            value=body["value"],
            by=self.access,
            at=timezone.now(),
        )
        return self._answered(outcome, HTTPStatus.ACCEPTED)


class WhatIfFields(_WhatIfs):
    @operation(
        "what_ifs_fields",
        summary="What can be said otherwise",
        description="The fields of a job's report, in the words of a specification, and what each means.",
        permission=Permission.JOBS_VIEW,
        listing=Listing(WhatIfField),
        answer_example=FIELD_EXAMPLE,
        tag="fairness",
    )
    def get(self, request: Request, tenant_slug: str) -> HttpResponseBase:
        fields = [(name, FIELD_WORDS[name]) for name in what_if_fields()]
        return self.listed_values(
            [
                {"field": name, "title": words.title, "meaning": words.meaning, "unit": words.unit}
                for name, words in fields
            ]
        )


class WhatIf(_WhatIfs):
    @operation(
        "what_ifs_read",
        summary="A question about the past, and its answer",
        description="`done` of `total` steps while it is worked out; then what would have been different: the job, "
        "the jobs that would have got something else, everybody's gains and the prices. Another tenant has no name "
        "here, and only a difference. Whoever did not ask gets 404, but for the staff (a "
        "token: with `audit:read`).",
        permission=Permission.JOBS_VIEW,
        answer=WhatIfShown,
        answer_example=EXAMPLE,
        refusals=("unknown_what_if",),
        tag="fairness",
    )
    def get(self, request: Request, tenant_slug: str, what_if_id: int) -> HttpResponseBase:
        return self._answered(what_if_read(what_if_id=what_if_id, by=self.access, at=timezone.now()))


class WhatIfCancel(_WhatIfs):
    @operation(
        "what_ifs_cancel",
        summary="Call a question off",
        description="Before it is worked out. The staff may call off others' questions, too (a token: with "
        "`audit:read` and `audit:write`).",
        permission=Permission.JOBS_VIEW,
        answer=WhatIfShown,
        answer_example=WAITS_EXAMPLE | {"state": "cancelled"},
        refusals=("unknown_what_if", "what_if_over"),
        tag="fairness",
    )
    def post(self, request: Request, tenant_slug: str, what_if_id: int) -> HttpResponseBase:
        return self._answered(what_if_cancel(what_if_id=what_if_id, by=self.access, at=timezone.now()))


def _rows(answers: Sequence[WhatIfSeen]) -> list[dict[str, Any]]:
    slugs = dict(Pool.objects.filter(pk__in={row.pool_id for row in answers}).values_list("pk", "slug"))
    return [{"id": row.id, "pool": slugs[row.pool_id], "seen": row} for row in answers]


def _result(answer: WhatIfSeen) -> dict[str, Any] | None:
    result = answer.result
    row_of_question = next((row for row in result.jobs if row.is_asked), None) if result else None
    if result is None or row_of_question is None:
        return None
    slugs = _slugs(result)
    return {
        "in_words": outcome_sentence(f"J-{answer.job_id}", row_of_question.before, row_of_question.after),
        "is_whole": result.is_whole,
        "jobs": [
            {"job": row.job, "tenant": slugs.get(row.tenant), "is_asked": row.is_asked}
            | {"before": row.before, "after": row.after}
            for row in result.jobs
        ],
        "tenants": [
            {"tenant": slugs.get(row.tenant), "before": row.before, "after": row.after}
            | {"difference": row.difference, "promised": row.promised}
            for row in result.tenants
        ],
        "prices": result.prices,
    }


def _slugs(result: Result) -> dict[int | None, str]:
    """Return the short names of the tenants that this reader may know by name, and of the operator, by id."""
    tenants = [*(row.tenant for row in result.jobs), *(row.tenant for row in result.tenants)]
    named = {tenant for tenant in tenants if tenant is not None}
    slugs: dict[int | None, str] = dict(Tenant.objects.filter(pk__in=named).values_list("pk", "slug"))
    return slugs | {OPERATOR_ID: OPERATOR}
