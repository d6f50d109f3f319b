"""What fairness looks like to a program; `examples` has one of each."""

from __future__ import annotations

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from scheduling.fairness.alerts import MEASURES
from scheduling.models import AuditKind, AuditState
from tenants.api.fields import Answer, CoreCredits, Credits, Moment, Numbers

BY_RESOURCE = {"type": "object", "additionalProperties": {"type": "number"}}
BY_REASON = {"type": "object", "additionalProperties": {"type": "integer"}}


@extend_schema_field(BY_RESOURCE)
class Units(serializers.DictField):
    """Unit-slots by resource."""


@extend_schema_field(BY_REASON)
class Reasons(serializers.DictField):
    """Reason -> jobs."""


class SpreadShown(Answer):
    ratio_variance = serializers.FloatField(allow_null=True, help_text="Over the tenants that have a ratio.")
    lowest_ratio = serializers.FloatField(allow_null=True)
    jain_index = serializers.FloatField(allow_null=True, help_text="Of the rewards; 1 when all are the same.")
    reward_dispersion = serializers.FloatField(allow_null=True, help_text="Standard deviation over mean.")


class OverviewShown(Answer):
    first = serializers.DateField(help_text="The first day, of UTC.")
    last = serializers.DateField(help_text="The last day, which counts.")
    intervals = serializers.IntegerField(source="health.intervals")
    behind = serializers.IntegerField(help_text="Closed intervals whose figures are not worked out yet.")
    revenue = CoreCredits(help_text="Value of all that was awarded.")
    certificates = serializers.IntegerField(help_text="Certificates that were settled; an elastic pool gives none.")
    broken = serializers.IntegerField(help_text="Of them, those that gave less than being alone.")
    worst_off = serializers.CharField(
        source="worst_off.slug", allow_null=True, default=None, help_text="The owner with the smallest reward."
    )
    spread = SpreadShown()
    before = SpreadShown(help_text="Of as many days before these.")


class TenantFairnessShown(Answer):
    tenant = serializers.CharField(source="slug")
    name = serializers.CharField()
    ratio = serializers.FloatField(allow_null=True, help_text="Part of the gains over part of the cells.")
    part_of_cells = serializers.FloatField(allow_null=True)
    part_of_gains = serializers.FloatField(allow_null=True)
    own_value = CoreCredits(help_text="Of jobs served from the own share.")
    rented_value = CoreCredits(help_text="Of jobs that rented.")
    paid = CoreCredits(help_text="Less what came back of open rents.")
    received = CoreCredits(help_text="Less what was given back of open rents.")
    gain = Credits(source="gain_shown", help_text="own_value + rented_value - paid + received.")
    alone = CoreCredits(
        help_text="What it would have gained alone by the same jobs; 0 in an elastic pool, which promises nothing."
    )
    earned = CoreCredits(help_text="From others, less what was given back to them.")
    contributed = serializers.FloatField(
        help_text="Idle units offered, as a share of the cluster, times slots; in an elastic pool nothing is offered."
    )
    reward = serializers.FloatField(allow_null=True, help_text="earned / contributed.")
    offered = Units()
    sold = Units()
    kept = Units()
    forgone = CoreCredits(help_text="What unsold and kept units would have brought at the posted prices.")
    rent_saved = CoreCredits(help_text="The own part of the own rent.")
    intervals_waiting = serializers.IntegerField(source="waiting", help_text="In which work of it went on waiting.")
    broken = serializers.IntegerField()


class MarketHealthShown(Answer):
    intervals = serializers.IntegerField()
    with_renters = serializers.IntegerField(help_text="Intervals in which anybody rented.")
    one_bidder = serializers.IntegerField()
    price_jumps = serializers.IntegerField(help_text="Highest price at least twice that of the interval before.")
    waiting = serializers.IntegerField(help_text="Intervals after which work went on waiting.")
    idle_beside_waiting = serializers.IntegerField(help_text="Of them, those in which units stayed unsold.")
    waiting_for = Reasons(help_text="Why, in these intervals; a job counts once in each.")
    unsold = Units()
    highest = Units(help_text="Price by resource.")


class BrokenShown(Answer):
    job = serializers.IntegerField()
    tenant = serializers.IntegerField(help_text="Its number.")
    got = CoreCredits()
    alone = CoreCredits()
    broken = serializers.CharField(help_text="`below_floor`, `floor_missed`, `other_floor` or `below_alone`.")


class FairIntervalShown(Answer):
    number = serializers.IntegerField()
    decided_at = Moment()
    with_floors = serializers.BooleanField(help_text="Whether the policy gives floors.")
    revenue = CoreCredits()
    certificates = serializers.IntegerField()
    broken_count = serializers.IntegerField()
    broken = BrokenShown(many=True)
    ratio_variance = serializers.FloatField(allow_null=True)
    jain_index = serializers.FloatField(allow_null=True)
    reward_dispersion = serializers.FloatField(allow_null=True)
    renters = serializers.IntegerField()
    top_prices = Units()
    unsold = Units(source="left_unsold")
    waiting_for = Reasons()


class CertificateShown(Answer):
    job = serializers.IntegerField()
    tenant = serializers.CharField(source="slug")
    served = serializers.BooleanField()
    elapsed_slots = serializers.FloatField(source="elapsed", allow_null=True, help_text="From its arrival to its end.")
    value = CoreCredits()
    paid = CoreCredits()
    got = Credits(source="got_shown", help_text="value - paid.")
    alone = CoreCredits(allow_null=True, help_text="Null: only worked out where it was not reached.")
    broken = serializers.CharField(help_text="Empty: kept.")


class InIntervalShown(Answer):
    tenant = serializers.CharField(source="slug")
    own_value = CoreCredits()
    rented_value = CoreCredits()
    paid = CoreCredits()
    received = CoreCredits()
    gain = Credits(source="gain_shown", help_text="own_value + rented_value - paid + received.")
    alone = CoreCredits()
    share = serializers.FloatField(help_text="Of the quotas, averaged over the resources.")
    ratio = serializers.FloatField(allow_null=True)
    earned = CoreCredits()
    contributed = serializers.FloatField()
    reward = serializers.FloatField(allow_null=True)
    offered = Units()
    sold = Units()
    kept = Units()
    forgone = CoreCredits()
    rent_saved = CoreCredits()
    waiting = serializers.IntegerField()


class IntervalAccountShown(Answer):
    number = serializers.IntegerField(source="interval.number")
    digest = serializers.CharField(source="interval.digest")
    fairness = FairIntervalShown(allow_null=True, help_text="Null: not worked out yet.")
    tenants = InIntervalShown(many=True)
    certificates = CertificateShown(source="jobs", many=True)
    out_of_sum = CoreCredits(help_text="All gains and the operator's part, less the value of all jobs: nothing.")


class AlertShown(Answer):
    measure = serializers.ChoiceField(tuple(MEASURES))
    title = serializers.CharField()
    side = serializers.ChoiceField(("at_most", "at_least"), help_text="What is well, of the threshold.")
    threshold = serializers.FloatField(allow_null=True, help_text="Null: nobody is told.")
    value = serializers.FloatField(allow_null=True, help_text="Of the last seven days, as last looked at.")
    passed_at = Moment(allow_null=True, help_text="Since when it is beyond its threshold.")


class AuditShown(Answer):
    id = serializers.IntegerField()
    kind = serializers.ChoiceField(AuditKind.choices)
    state = serializers.ChoiceField(AuditState.choices)
    pool = serializers.CharField(source="pool.slug", allow_null=True, default=None)
    number = serializers.IntegerField(allow_null=True, help_text="Of the job, or of the interval.")
    period_start = Moment(allow_null=True)
    period_end = Moment(allow_null=True)
    asked_at = Moment()
    ended_at = Moment(allow_null=True)
    clean = serializers.BooleanField(source="is_clean", allow_null=True, help_text="Null: nothing was verified.")
    sentence = serializers.CharField(help_text="What came of it.")
    result = Numbers(
        help_text="`findings` and their `count`; of everything also the digests with which the chains end, to be noted "
        "elsewhere: `heads` by pool, `ledger_head`, `history_head`; of a bundle its `public_key`."
    )
    size = serializers.IntegerField(help_text="Bytes of the file.")
    done = serializers.IntegerField(allow_null=True, help_text="While it runs: how far it is.")
    total = serializers.IntegerField(allow_null=True)
