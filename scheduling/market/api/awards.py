"""Awards: a tenant's own with their terms, and everybody's without a name."""

from __future__ import annotations

from functools import partial
from typing import Any

from django.http import Http404
from django.http.response import HttpResponseBase
from django.utils import timezone
from rest_framework import serializers
from rest_framework.request import Request

from scheduling.common.api.spans import SlotSpan, span_filters, span_read
from scheduling.common.api.views import PoolView
from scheduling.market.reads.awards import (
    AwardRow,
    anonymous_rows,
    award_by_id,
    award_list,
    award_rows,
    awards_anonymous,
)
from scheduling.models import AwardState, Lane, RentState
from tenants.api.fields import Answer, Credits, Moment, time_text
from tenants.api.listing import Listing, choice, whole, word
from tenants.api.operations import operation
from tenants.api.views import TenantView
from tenants.roles import Permission

USUAL_SLOTS, MOST_SLOTS = 96, 1_000
PHASES = ("own", "shared")


class PlacedShown(Answer):
    server = serializers.CharField()
    start_slot = serializers.IntegerField(source="start")
    end_slot = serializers.IntegerField(source="end", help_text="The first slot after it.")
    workers = serializers.IntegerField()
    parameter_servers = serializers.IntegerField(source="ps")


class PayeeShown(Answer):
    payee = serializers.CharField(help_text="A tenant's short name, or `operator`.")
    amount = Credits(help_text="By the terms, before anything is given back.")


class _AwardBase(Answer):
    lane = serializers.ChoiceField(Lane.choices, source="award.lane")
    state = serializers.ChoiceField(AwardState.choices, source="award.state")
    phase = serializers.CharField(source="award.phase", help_text="`own`: on the tenant's cells; `shared`: rented.")
    start_slot = serializers.IntegerField(source="award.start")
    end_slot = serializers.IntegerField(source="award.end", help_text="The first slot after it.")
    starts_at = serializers.SerializerMethodField()
    ends_at = serializers.SerializerMethodField()
    cut_at_slot = serializers.IntegerField(
        source="award.cut_at", allow_null=True, help_text="Slots from here on were given up, or not delivered."
    )
    workers = serializers.IntegerField(source="award.workers", help_text="At most, in any slot.")
    parameter_servers = serializers.IntegerField(source="award.ps")
    allocation = PlacedShown(source="placed", many=True)

    def get_starts_at(self, row: AwardRow) -> str:
        return time_text(row.award.pool.slot_start(row.award.start))

    def get_ends_at(self, row: AwardRow) -> str:
        return time_text(row.award.pool.slot_start(row.award.end))


class AwardShown(_AwardBase):
    id = serializers.IntegerField(source="award.pk")
    job = serializers.IntegerField(source="award.job_id")
    job_name = serializers.CharField(source="award.job_name")
    attempt = serializers.IntegerField(source="award.attempt")
    pool = serializers.CharField(source="award.pool.slug")
    interval = serializers.IntegerField(
        source="award.interval_number", allow_null=True, default=None, help_text="Null: the instant lane's."
    )
    awarded_at = Moment(source="award.awarded_at")
    price = Credits(source="award.paid")
    returned = Credits(source="award.returned", help_text="Of the price, what came back.")
    dividend = Credits(
        source="award.dividend", help_text="Of the price, the owners' share of what renting gains the job."
    )
    rent_state = serializers.ChoiceField(
        source="award.rent",
        choices=RentState.choices,
        help_text="Of what was rented while the job's plan at home is made anew: `open`, all of it stays held until it "
        "is known what the job would have had alone; or, where parts are worth nothing, until the job is done or over. "
        "`closed`: the owners are paid. Else empty.",
    )
    adjusted = Credits(
        source="award.adjusted",
        help_text="Of what came back, what the job would have had more of alone, or all, as it was never done.",
    )
    own_part = Credits(
        source="award.own_part", help_text="Of the price, what the tenant pays itself, as one of the owners."
    )
    payees = PayeeShown(many=True)


class AnonymousAward(_AwardBase):
    pass


PLACED_EXAMPLE = {"server": "s03", "start_slot": 120, "end_slot": 145, "workers": 4, "parameter_servers": 1}
ANONYMOUS_EXAMPLE: dict[str, Any] = {
    "lane": "batch",
    "state": "running",
    "phase": "shared",
    "start_slot": 120,
    "end_slot": 145,
    "starts_at": "2026-03-02T12:20:00Z",
    "ends_at": "2026-03-02T12:24:10Z",
    "cut_at_slot": None,
    "workers": 4,
    "parameter_servers": 1,
    "allocation": [PLACED_EXAMPLE],
}
EXAMPLE = ANONYMOUS_EXAMPLE | {
    "id": 91,
    "job": 4711,
    "job_name": "nightly",
    "attempt": 0,
    "pool": "main",
    "interval": 17,
    "awarded_at": "2026-03-02T12:19:50Z",
    "price": "12.500000",
    "returned": "0.000000",
    "dividend": "0.000000",
    "rent_state": "",
    "adjusted": "0.000000",
    "own_part": "0.000000",
    "payees": [{"payee": "quarry", "amount": "11.000000"}, {"payee": "operator", "amount": "1.500000"}],
}
_KINDS = (
    choice("state", AwardState.values, "Only awards in one of these states."),
    choice("lane", Lane.values, "Only awards of this lane."),
)
OWN = Listing(
    AwardShown,
    orderings=("-id", "id"),
    filters=(
        *_KINDS,
        whole("job", "Only awards of this job.", "job_id"),
        word("pool", "Only awards in the pool of this short name.", "pool__slug"),
        choice("phase", PHASES, "Only awards on own cells, or rented ones."),
    ),
)
EVERYBODYS = Listing(
    AnonymousAward,
    orderings=("start", "-start"),
    filters=(*_KINDS, *span_filters(f"{USUAL_SLOTS} slots from the running one on", MOST_SLOTS)),
)


class Awards(TenantView):
    @operation(
        "awards_list",
        summary="Awards of the tenant",
        description="What its jobs were given, where, and on what terms; the newest first.",
        permission=Permission.JOBS_VIEW,
        listing=OWN,
        answer_example=EXAMPLE,
        tag="awards",
    )
    def get(self, request: Request, tenant_slug: str) -> HttpResponseBase:
        return self.listed(award_list(), award_rows)


class AwardOfTenant(TenantView):
    @operation(
        "awards_read",
        summary="One award",
        description="With its servers by slot, its price and who is paid.",
        permission=Permission.JOBS_VIEW,
        answer=AwardShown,
        answer_example=EXAMPLE,
        tag="awards",
    )
    def get(self, request: Request, tenant_slug: str, award_id: int) -> HttpResponseBase:
        if (award := award_by_id(award_id)) is None:
            raise Http404
        return self.shown(AwardShown, award_rows([award])[0])


class PoolAwards(PoolView):
    @operation(
        "pool_awards_list",
        summary="Awards of everybody, without a name",
        description="What holds units in the slots asked for: where, when and how much, and never whose it is or what "
        "it pays.",
        permission=Permission.QUOTA_VIEW,
        listing=EVERYBODYS,
        answer_example=ANONYMOUS_EXAMPLE,
        tag="awards",
    )
    def get(self, request: Request, pool_slug: str) -> HttpResponseBase:
        now = max(self.pool.slot_at(timezone.now()), 0)
        span = span_read(self.pool, self.parameters, usual=SlotSpan(now, now + USUAL_SLOTS), most=MOST_SLOTS)
        rows = awards_anonymous(self.pool, span.first, span.end)
        return self.listed(rows, partial(anonymous_rows, self.pool), span.parameters())
