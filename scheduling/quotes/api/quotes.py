"""Quotes: what would become of a job, without its consequence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.http.response import HttpResponseBase
from django.utils import timezone
from rest_framework import serializers
from rest_framework.request import Request

from scheduling.common.api.views import UNKNOWN_POOL, pool_by_slug
from scheduling.jobs.api.fields import NEW_EXAMPLE, NewJob, ReasonShown
from scheduling.jobs.api.jobs import SUBMIT_REFUSALS, submission_refused
from scheduling.market.reads import reason_in_words
from scheduling.models import Lane, Pool
from scheduling.quotes.desks import QuotedTerms
from scheduling.quotes.quotes import Change, Quote, job_quote
from tenants.access import Refused
from tenants.api.fields import Answer, CoreCredits, Credits, Moment, Numbers
from tenants.api.operations import operation
from tenants.api.views import TenantView
from tenants.ledger.amounts import exported, micro, micro_up
from tenants.models import Tenant
from tenants.roles import Permission

OPERATOR = "operator"
# Codes that refuse a submission, but no quote: a quote reports the first one in its terms.
ONLY_SUBMITTED = ("larger_than_window", "market_held", "key_reused")
OF_MONEY = frozenset({"higher_value", "more_budget", "higher_max_price"})  # changes whose figures are credits


class Payee(Answer):
    payee = serializers.CharField(help_text="A tenant's short name, or `operator`.")
    amount = Credits()


class CourseShown(Answer):
    share = serializers.FloatField(help_text="Of all its work, what the first piece does, from 0 to 1.")
    pieces = serializers.IntegerField(help_text="A guess: so many pieces as large.")
    end_slot = serializers.IntegerField(source="end", help_text="A guess, unless the rest is done at home.")
    price = Credits(help_text="A guess: all pieces at the price of the first.")


class TermsShown(Answer):
    admitted = serializers.BooleanField()
    reason = ReasonShown(allow_null=True, help_text="Why not; or what else is to be said.")
    phase = serializers.CharField(allow_null=True, help_text="`own`, `shared`, or null where it would get nothing.")
    start_slot = serializers.IntegerField(allow_null=True)
    end_slot = serializers.IntegerField(allow_null=True)
    starts_at = Moment(allow_null=True)
    ends_at = Moment(allow_null=True)
    workers = serializers.IntegerField()
    price = Credits(help_text="All that would be set aside.")
    own_part = Credits(help_text="Of the price, what comes back to the payer, who owns part of what it rents.")
    net_price = Credits(source="net", help_text="What it costs in the end; the instant lane decides by it.")
    worth = CoreCredits(help_text="What an end at that time is worth by the job's value.")
    payees = Payee(many=True, help_text="Who would be paid, and what.")
    course = CourseShown(
        allow_null=True, help_text="Of a job that would be begun in pieces: the terms are those of its first one."
    )


class EstimateShown(Answer):
    earliest_slot = serializers.IntegerField()
    latest_slot = serializers.IntegerField()
    starts_at_earliest = Moment()
    starts_at_latest = Moment()
    price_low = Credits()
    price_high = Credits()


class ChangeShown(Answer):
    what = serializers.CharField(
        help_text="`later`, `fewer_workers`, `more_workers`, `fewer_epochs`, `higher_value`, `more_budget` or "
        "`higher_max_price`."
    )
    before = serializers.CharField(help_text="A slot, a number of workers or epochs, or credits.")
    after = serializers.CharField()
    spec = Numbers(help_text="The fields of the specification to change.")
    price = Credits(allow_null=True, help_text="What it would cost then; null where only money is missing.")


class ByUseShown(Answer):
    workers = serializers.IntegerField(help_text="The most that the job asks for.")
    parameter_servers = serializers.IntegerField(source="ps")
    price_per_slot = Credits(source="per_slot", help_text="At that size and the prices of the next slot.")
    estimated_slots = serializers.IntegerField(source="slots", help_text="An estimate: if it always gets that size.")
    estimated_price = Credits(source="total", help_text="An estimate: so many slots at that price.")


class RestartsShown(Answer):
    count = serializers.IntegerField(help_text="How often its size or place changes.")
    seconds = serializers.FloatField(help_text="Each time, for saving and ending: the program's grace.")
    lost_unit_slots = serializers.FloatField(help_text="Workers and parameter servers held meanwhile, in slots.")
    price = Credits(help_text="Of the price, what is paid for them.")


class QuoteShown(Answer):
    pool = serializers.CharField()
    lane = serializers.ChoiceField(Lane.choices)
    payer = serializers.CharField()
    terms = TermsShown()
    estimate = EstimateShown(allow_null=True, help_text="Batch lane: the range, since others may still come.")
    change = ChangeShown(allow_null=True, help_text="The cheapest change found that would win.")
    by_use = ByUseShown(
        allow_null=True, help_text="Elastic pool: what a slot costs. `terms` are then those of the next slot alone."
    )
    restarts = RestartsShown(
        allow_null=True,
        help_text="What a program loses that is saved, ended and started again at another size. What it takes to load "
        "comes on top.",
    )


EXAMPLE: dict[str, Any] = {
    "pool": "main",
    "lane": "instant",
    "payer": "lumen",
    "terms": {
        "admitted": True,
        "reason": None,
        "phase": "shared",
        "start_slot": 120,
        "end_slot": 145,
        "starts_at": "2026-03-02T12:20:00Z",
        "ends_at": "2026-03-02T12:24:10Z",
        "workers": 4,
        "price": "12.500000",
        "own_part": "0.000000",
        "net_price": "12.500000",
        "worth": "27.500000",
        "payees": [{"payee": "quarry", "amount": "11.000000"}, {"payee": "operator", "amount": "1.500000"}],
        "course": None,
    },
    "estimate": None,
    "change": None,
    "by_use": None,
    "restarts": None,
}


class Quotes(TenantView):
    @operation(
        "quotes_create",
        summary="Ask for a quote",
        description="The body of a submission without `otherwise`, for each lane is asked by itself, and no "
        "consequence: would the job be admitted, when, at what price, who "
        "would be paid, and the cheapest change that would make it win. Nothing is written to the market.",
        permission=Permission.QUOTES_MAKE,
        body=NewJob,
        answer=QuoteShown,
        request_example=NEW_EXAMPLE,
        answer_example=EXAMPLE,
        refusals=tuple(code for code in SUBMIT_REFUSALS if code not in ONLY_SUBMITTED),
        costly=True,
        tag="quotes",
    )
    def post(self, request: Request, tenant_slug: str) -> HttpResponseBase:
        body = self.read(NewJob)
        if (pool := pool_by_slug(body.pop("pool"))) is None:
            return self.refused(UNKNOWN_POOL)
        outcome = job_quote(pool=pool, by=self.access, at=timezone.now(), **body)
        if isinstance(outcome, Refused):
            return submission_refused(self, outcome)
        return self.shown(QuoteShown, quote_values(pool, outcome, payer=self.tenant.slug))


def quote_values(pool: Pool, quote: Quote, *, payer: str) -> dict[str, Any]:
    estimate = quote.estimate
    return {
        "pool": pool.slug,
        "lane": quote.lane,
        "payer": payer,
        "terms": _terms(pool, quote.terms),
        "change": _change(quote.change),
        "by_use": quote.by_use,
        "restarts": quote.restarts,
        "estimate": estimate
        and {
            "earliest_slot": estimate.earliest,
            "latest_slot": estimate.latest,
            "starts_at_earliest": pool.slot_start(estimate.earliest),
            "starts_at_latest": pool.slot_start(estimate.latest),
            "price_low": estimate.price_low,
            "price_high": estimate.price_high,
        },
    }


def _terms(pool: Pool, terms: QuotedTerms) -> dict[str, Any]:
    reason = terms.reason
    return {
        "admitted": terms.admitted,
        "reason": reason and reason_in_words(pool, reason.code, reason.numbers),
        "phase": terms.phase,
        "start_slot": terms.start,
        "end_slot": terms.end,
        "starts_at": None if terms.start is None else pool.slot_start(terms.start),
        "ends_at": None if terms.end is None else pool.slot_start(terms.end),
        "workers": terms.workers,
        "price": terms.price,
        "own_part": terms.own_part,
        "net": terms.net,
        "worth": terms.worth,
        "payees": _payees(terms.payees or {}),
        "course": terms.course,
    }


def _payees(parts: Mapping[int, int]) -> list[dict[str, Any]]:
    """Return who is paid how much, the largest part first."""
    slugs = dict(Tenant.objects.filter(pk__in=parts).values_list("pk", "slug"))
    ordered = sorted(parts.items(), key=lambda part: (-part[1], part[0]))
    return [{"payee": slugs.get(owner, OPERATOR), "amount": amount} for owner, amount in ordered if amount]


def _change(change: Change | None) -> dict[str, Any] | None:
    if change is None:
        return None
    if change.what in OF_MONEY:
        before, after = exported(micro(change.before)), exported(micro_up(change.after))  # rounded up, to be enough
    else:
        before, after = f"{change.before:g}", f"{change.after:g}"
    return {
        "what": change.what,
        "before": before,
        "after": after,
        "spec": dict(change.fields),
        "price": change.terms.price if change.terms else None,
    }
