"""What an interval looks like to a program, to everybody and to one tenant; with examples."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from scheduling.audit.api.charges import FindingShown
from scheduling.market.reads import slots_dealt
from scheduling.models import Interval, Lane
from tenants.api.fields import Answer, CoreCredits, Credits, Moment, time_text


class IntervalRowShown(Answer):
    number = serializers.IntegerField()
    slot = serializers.IntegerField(help_text="It was decided at the boundary before this slot.")
    start_slot = serializers.SerializerMethodField(help_text="Null: nothing but the clock or refusals changed.")
    end_slot = serializers.SerializerMethodField(help_text="The first slot after it.")
    starts_at = serializers.SerializerMethodField()
    ends_at = serializers.SerializerMethodField()
    decided_at = Moment()
    jobs_waiting = serializers.IntegerField()
    jobs_awarded = serializers.IntegerField()
    paid = Credits(help_text="By all its awards.")
    previous = serializers.CharField(help_text="The digest of the interval before.")
    digest = serializers.CharField(help_text="Over the one before, the input, the answer and the policy.")

    def get_start_slot(self, row: Interval) -> int | None:
        return _edge(row, 0)

    def get_end_slot(self, row: Interval) -> int | None:
        return _edge(row, 1)

    def get_starts_at(self, row: Interval) -> str | None:
        return _time(row, _edge(row, 0))

    def get_ends_at(self, row: Interval) -> str | None:
        return _time(row, _edge(row, 1))


class OfferShown(Answer):
    resource = serializers.CharField()
    offered = serializers.FloatField(help_text="Unit-slots for sale.")
    sold = serializers.FloatField(help_text="Of them, sold.")
    lowest_price = CoreCredits(source="lowest", allow_null=True, help_text="Per unit and slot; null without a window.")
    highest_price = CoreCredits(source="highest", allow_null=True)


class IntervalShown(Answer):
    interval = IntervalRowShown()
    policy = serializers.CharField(help_text="Its name.")
    code_version = serializers.CharField(source="interval.code_version", help_text="Of the code that decided.")
    offers = OfferShown(many=True, help_text="One for each resource, over the whole window.")


class BidShown(Answer):
    job = serializers.IntegerField(source="job_id")
    name = serializers.CharField()
    alone = Credits(source="floor", allow_null=True, help_text="What it was worth alone; null: given earlier.")
    state = serializers.CharField(help_text="`awarded`, or the state in which it was left.")
    sentence = serializers.CharField(source="text")
    price = Credits(source="paid")
    worth = Credits(source="value", help_text="Of an end when the award ends.")


class PayoutShown(Answer):
    borrower = serializers.CharField(help_text="`your own job`, or `renter 1`, `renter 2`, ...: never a name.")
    lane = serializers.ChoiceField(Lane.choices)
    workers = serializers.IntegerField()
    parameter_servers = serializers.IntegerField(source="ps")
    slots = serializers.IntegerField(help_text="Of the window, paid for.")
    part = serializers.FloatField(help_text="Of what the job pays, the tenant's.")
    amount = Credits()


class OwnIntervalShown(Answer):
    number = serializers.IntegerField(source="interval.number")
    starts_at = Moment(allow_null=True)
    ends_at = Moment(allow_null=True)
    bids = BidShown(many=True, help_text="The tenant's jobs that waited, for those who may see jobs.")
    payouts = PayoutShown(many=True, help_text="What came for the tenant's cells, for those who may see money.")
    paid = Credits(help_text="By the tenant's jobs that are shown.")
    earned = Credits(help_text="By the payouts that are shown.")


class IntervalVerdict(Answer):
    number = serializers.IntegerField()
    clean = serializers.BooleanField(help_text="Whether it was decided as the rules say and the money followed.")
    jobs = serializers.IntegerField(help_text="That waited in it.")
    awards = serializers.IntegerField(help_text="That were compared with the answer.")
    payments = serializers.IntegerField(source="slots_settled", help_text="That were looked for in the book.")
    plan_bytes = serializers.IntegerField(help_text="Of the answer, compared one by one.")
    findings = FindingShown(many=True)
    hidden = serializers.IntegerField(
        help_text="Findings that name others' jobs, or figures of tenants, which are not shown."
    )


def _edge(row: Interval, place: int) -> int | None:
    """Return the first of the slots that the interval dealt out, or the first one after them."""
    span = slots_dealt(row.pool, row)
    return span[place] if span else None


def _time(row: Interval, slot: int | None) -> str | None:
    return None if slot is None else time_text(row.pool.slot_start(slot))


DIGEST = "5d1f0c3a9e7b42860fd4c5b1a2938476e0f1d2c3b4a5968778695a4b3c2d1e0f"
ROW_EXAMPLE: dict[str, Any] = {
    "number": 17,
    "slot": 120,
    "start_slot": 120,
    "end_slot": 128,
    "starts_at": "2026-03-02T12:20:00Z",
    "ends_at": "2026-03-02T12:21:20Z",
    "decided_at": "2026-03-02T12:20:00Z",
    "jobs_waiting": 6,
    "jobs_awarded": 4,
    "paid": "31.250000",
    "previous": "0" * 64,
    "digest": DIGEST,
}
EXAMPLE: dict[str, Any] = {
    "interval": ROW_EXAMPLE,
    "policy": "astraea",
    "code_version": "core-5b0a9f33c1d27e48",
    "offers": [
        {
            "resource": "worker",
            "offered": 192.0,
            "sold": 96.0,
            "lowest_price": "0.250000",
            "highest_price": "0.310000",
        }
    ],
}
OWN_EXAMPLE: dict[str, Any] = {
    "number": 17,
    "starts_at": "2026-03-02T12:20:00Z",
    "ends_at": "2026-03-02T12:21:20Z",
    "bids": [
        {
            "job": 4711,
            "name": "nightly",
            "alone": "21.000000",
            "state": "awarded",
            "sentence": "Awarded on rented units: 4 workers at most, 8 slots.",
            "price": "12.500000",
            "worth": "27.500000",
        }
    ],
    "payouts": [
        {
            "borrower": "renter 1",
            "lane": "batch",
            "workers": 2,
            "parameter_servers": 1,
            "slots": 8,
            "part": 0.5,
            "amount": "3.000000",
        }
    ],
    "paid": "12.500000",
    "earned": "3.000000",
}
VERDICT_EXAMPLE: dict[str, Any] = {
    "number": 17,
    "clean": True,
    "jobs": 6,
    "awards": 4,
    "payments": 28,
    "plan_bytes": 9120,
    "findings": [],
    "hidden": 0,
}
