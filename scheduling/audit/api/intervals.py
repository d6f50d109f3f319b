"""Intervals: the list of decisions, one of them with what it published, a tenant's part in it, and its proof."""

from __future__ import annotations

from django.http import Http404
from django.http.response import HttpResponseBase
from rest_framework.request import Request

from scheduling.audit.api.interval_fields import (
    EXAMPLE,
    OWN_EXAMPLE,
    ROW_EXAMPLE,
    VERDICT_EXAMPLE,
    IntervalRowShown,
    IntervalShown,
    IntervalVerdict,
    OwnIntervalShown,
)
from scheduling.audit.verification import findings_for, in_turn, interval_verify
from scheduling.common.api.views import PoolView, TenantPoolView
from scheduling.market.reads import interval_public, interval_rows, interval_view
from tenants.access import Refused
from tenants.api.listing import Listing, moment, whole
from tenants.api.operations import operation
from tenants.roles import Permission

INTERVALS = Listing(
    IntervalRowShown,
    orderings=("-number", "number"),
    filters=(
        whole("from_number", "Only this interval and later ones.", "number__gte"),
        moment("decided_from", "Decided at this time or later.", "decided_at__gte"),
        moment("decided_before", "Decided before this time.", "decided_at__lt"),
    ),
)


class Intervals(PoolView):
    @operation(
        "intervals_list",
        summary="Intervals of a pool",
        description="Every decision of the batch lane, the newest first, each with the digest that chains it to the "
        "one before.",
        permission=Permission.QUOTA_VIEW,
        listing=INTERVALS,
        answer_example=ROW_EXAMPLE,
        tag="intervals",
    )
    def get(self, request: Request, pool_slug: str) -> HttpResponseBase:
        return self.listed(interval_rows(self.pool))


class IntervalRead(PoolView):
    @operation(
        "intervals_read",
        summary="One interval",
        description="With what was for sale in its window, what was sold, and the range of prices.",
        permission=Permission.QUOTA_VIEW,
        answer=IntervalShown,
        answer_example=EXAMPLE,
        tag="intervals",
    )
    def get(self, request: Request, pool_slug: str, number: int) -> HttpResponseBase:
        if (interval := interval_public(self.pool, number)) is None:
            raise Http404
        return self.shown(IntervalShown, interval)


class IntervalVerify(PoolView):
    @operation(
        "intervals_verify",
        summary="Verify an interval",
        description="Decides it again from its stored input and compares the answer byte by byte, its links to both "
        "sides, its awards, and what the book says about them. Changes nothing. One verification at a time for each "
        "person; findings that name jobs are shown to auditors and operators.",
        permission=Permission.QUOTA_VIEW,
        answer=IntervalVerdict,
        answer_example=VERDICT_EXAMPLE,
        refusals=("unknown_interval", "too_large", "archived", "still_verifying"),
        costly=True,
        tag="verification",
    )
    def post(self, request: Request, pool_slug: str, number: int) -> HttpResponseBase:
        verdict = in_turn(request.user.pk or 0, lambda: interval_verify(pool_id=self.pool.pk, number=number))
        if isinstance(verdict, Refused):
            return self.refused(verdict)
        everything = self.access.allows(Permission.FAIRNESS_VIEW)
        findings = verdict.findings if everything else findings_for(verdict.findings, ())
        hidden = len(verdict.findings) - len(findings)
        document = vars(verdict) | {"clean": not verdict.findings, "findings": findings, "hidden": hidden}
        return self.shown(IntervalVerdict, document)


class OwnInterval(TenantPoolView):
    @operation(
        "own_intervals_read",
        summary="One interval, as the tenant took part in it",
        description="What became of its jobs that waited, and what its cells brought.",
        permission=Permission.QUOTA_VIEW,
        answer=OwnIntervalShown,
        answer_example=OWN_EXAMPLE,
        tag="intervals",
    )
    def get(self, request: Request, tenant_slug: str, pool_slug: str, number: int) -> HttpResponseBase:
        money, jobs = (self.access.allows(right) for right in (Permission.LEDGER_VIEW, Permission.JOBS_VIEW))
        view = interval_view(tenant=self.tenant, pool=self.pool, number=number, money=money, jobs=jobs)
        if view is None:
            raise Http404
        return self.shown(OwnIntervalShown, view)
