"""Read how well the market's estimates of starts and prices held."""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import BigIntegerField, Exists, F, OuterRef, Q, Subquery, Sum
from django.db.models.functions import Coalesce

from scheduling.models import Award, Pool, StartEstimate
from scheduling.models.jobs import LIVE_STATES

LOOKED_AT = 100


@dataclass(frozen=True)
class Record:
    """How many of the tenant's last estimates whose jobs have begun held: how many began, and paid, within the range. A
    job that goes on in pieces counts once it is over, as nobody knows before what all of them cost."""

    estimates: int
    started_in_range: int
    paid_in_range: int


def estimates_record(pool: Pool) -> Record:
    """Return the record of a pool. Needs the tenant's scope. Reads one short range of an index, however many jobs there
    were."""
    rows = StartEstimate.objects.filter(job__pool=pool, started__isnull=False).order_by("-pk")
    pieces = Award.objects.filter(job=OuterRef("job"), work__isnull=False).order_by()
    in_all = pieces.values("job").annotate(total=Sum(F("paid") - F("returned"))).values("total")
    rows = rows.annotate(in_all=Coalesce(Subquery(in_all), F("paid"), output_field=BigIntegerField()))
    rows = rows.exclude(Q(job__state__in=LIVE_STATES) & Exists(pieces))
    estimated = rows.values_list("earliest", "latest", "started", "price_low", "price_high", "in_all")[:LOOKED_AT]
    started = paid = estimates = 0
    for earliest, latest, began, low, high, cost in estimated:
        estimates += 1
        started += earliest <= began <= latest
        paid += cost is not None and low <= cost <= high
    return Record(estimates, started, paid)
