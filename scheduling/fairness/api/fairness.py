"""Fairness for programs: a pool over some days, each tenant, each interval, and where the market did not clear."""

from __future__ import annotations

from datetime import UTC, date, timedelta
from typing import Any

from django.http import Http404
from django.http.response import HttpResponseBase
from django.utils import timezone
from rest_framework.request import Request

from scheduling.books.api.periods import PERIOD, period_asked, period_parameters
from scheduling.common.api.views import PoolView, TenantPoolView
from scheduling.fairness.api.examples import ACCOUNT_EXAMPLE, EXAMPLE, HEALTH_EXAMPLE, INTERVAL_EXAMPLE, TENANT_EXAMPLE
from scheduling.fairness.api.fields import (
    FairIntervalShown,
    IntervalAccountShown,
    MarketHealthShown,
    OverviewShown,
    TenantFairnessShown,
)
from scheduling.fairness.read_days import MOST_DAYS, fairness_overview
from scheduling.fairness.read_interval import interval_account
from scheduling.fairness.read_lists import BLOCKED, BROKEN, fairness_intervals
from scheduling.fairness.read_values import Overview
from tenants.api.listing import Listing, moment, whole
from tenants.api.operations import operation
from tenants.api.problems import FieldError, Problem, ProblemRaised
from tenants.common.zones import day_of
from tenants.roles import Permission

DAYS = f"Days are those of UTC, at most {MOST_DAYS}."
INTERVALS = Listing(
    FairIntervalShown,
    orderings=("-number", "number"),
    filters=(
        whole("from_number", "Only this interval and later ones.", "number__gte"),
        moment("decided_from", "Decided at this time or later.", "decided_at__gte"),
        moment("decided_before", "Decided before this time.", "decided_at__lt"),
    ),
)
TENANTS = Listing(TenantFairnessShown, filters=PERIOD)


class _Days(PoolView):
    def overview(self) -> Overview:
        return fairness_overview(self.pool, **days_asked(self.parameters))


class FairnessRead(_Days):
    @operation(
        "fairness_read",
        summary="Is it fair?",
        description="How far apart the tenants of a pool are, how many certificates were settled and how many broken. "
        + DAYS,
        permission=Permission.FAIRNESS_VIEW,
        answer=OverviewShown,
        filters=PERIOD,
        answer_example=EXAMPLE,
        tag="fairness",
    )
    def get(self, request: Request, pool_slug: str) -> HttpResponseBase:
        return self.shown(OverviewShown, self.overview())


class FairnessTenants(_Days):
    @operation(
        "fairness_tenants_list",
        summary="Fairness by tenant",
        description="Gain and its parts, what being alone would have given, contribution and reward of each. " + DAYS,
        permission=Permission.FAIRNESS_VIEW,
        listing=TENANTS,
        answer_example=TENANT_EXAMPLE,
        tag="fairness",
    )
    def get(self, request: Request, pool_slug: str) -> HttpResponseBase:
        days = days_asked(self.parameters)
        tenants = fairness_overview(self.pool, **days).tenants
        return self.listed_values(tenants, period_parameters(self.parameters, **days))


class FairnessHealth(_Days):
    @operation(
        "fairness_health_read",
        summary="Where the market did not clear",
        description="Intervals with one bidder, price jumps, unsold units beside waiting work and why. " + DAYS,
        permission=Permission.FAIRNESS_VIEW,
        answer=MarketHealthShown,
        filters=PERIOD,
        answer_example=HEALTH_EXAMPLE,
        tag="fairness",
    )
    def get(self, request: Request, pool_slug: str) -> HttpResponseBase:
        return self.shown(MarketHealthShown, self.overview().health)


class FairnessIntervals(PoolView):
    @operation(
        "fairness_intervals_list",
        summary="Fairness by interval",
        description="The figures that were worked out when each interval had closed, the newest first.",
        permission=Permission.FAIRNESS_VIEW,
        listing=INTERVALS,
        answer_example=INTERVAL_EXAMPLE,
        tag="fairness",
    )
    def get(self, request: Request, pool_slug: str) -> HttpResponseBase:
        return self.listed(fairness_intervals(self.pool))


class FairnessCertificates(PoolView):
    @operation(
        "fairness_certificates_list",
        summary="Broken certificates",
        description="Intervals in which a job got less than its owner would have had alone, with these jobs.",
        permission=Permission.FAIRNESS_VIEW,
        listing=INTERVALS,
        answer_example=INTERVAL_EXAMPLE,
        tag="fairness",
    )
    def get(self, request: Request, pool_slug: str) -> HttpResponseBase:
        return self.listed(fairness_intervals(self.pool, BROKEN))


class FairnessBlocked(PoolView):
    @operation(
        "fairness_blocked_list",
        summary="Blocked demand",
        description="Intervals in which units stayed unsold and work went on waiting, with the reasons. An elastic "
        "pool offers no units, so it has none here.",
        permission=Permission.FAIRNESS_VIEW,
        listing=INTERVALS,
        answer_example=INTERVAL_EXAMPLE,
        tag="fairness",
    )
    def get(self, request: Request, pool_slug: str) -> HttpResponseBase:
        return self.listed(fairness_intervals(self.pool, BLOCKED))


class FairnessInterval(PoolView):
    @operation(
        "fairness_intervals_read",
        summary="One interval's fairness, to recompute",
        description="Every tenant's gain with its parts, and every certificate with its arithmetic.",
        permission=Permission.FAIRNESS_VIEW,
        answer=IntervalAccountShown,
        answer_example=ACCOUNT_EXAMPLE,
        tag="fairness",
    )
    def get(self, request: Request, pool_slug: str, number: int) -> HttpResponseBase:
        if (account := interval_account(self.pool, number)) is None:
            raise Http404
        return self.shown(IntervalAccountShown, account)


class OwnFairness(TenantPoolView):
    @operation(
        "own_fairness_read",
        summary="The tenant's own fairness",
        description="Its own numbers; of the others nothing. 404 where it took no part in these days. " + DAYS,
        permission=Permission.LEDGER_VIEW,
        answer=TenantFairnessShown,
        filters=PERIOD,
        answer_example=TENANT_EXAMPLE,
        tag="fairness",
    )
    def get(self, request: Request, tenant_slug: str, pool_slug: str) -> HttpResponseBase:
        tenant_fairness = fairness_overview(self.pool, **days_asked(self.parameters)).tenant(self.tenant.pk)
        if tenant_fairness is None:
            raise Http404
        return self.shown(TenantFairnessShown, tenant_fairness)


def days_asked(parameters: Any) -> dict[str, date]:
    """Return the first and the last day. More days than are read at once are answered with 400."""
    start, end = period_asked(parameters, today=day_of(timezone.now(), UTC))
    if end - start > timedelta(days=MOST_DAYS):
        sentence = f"At most {MOST_DAYS} days."
        errors = [FieldError("from", "invalid_parameter", sentence)]
        raise ProblemRaised(Problem(400, "invalid_request", f"from: {sentence}", errors=errors))
    return {"first": day_of(start, UTC), "last": day_of(end - timedelta(days=1), UTC)}
