"""How well the market's estimates held, and what an estimate said about one job."""

from __future__ import annotations

from dataclasses import dataclass

from scheduling.models import Pool, StartEstimate

LOOKED_AT = 100


@dataclass(frozen=True)
class Record:
    """Of the tenant's last estimates whose jobs have begun: how many began, and paid, within the range."""

    estimates: int
    started_in_range: int
    paid_in_range: int


def estimates_record(pool: Pool, *, most: int = LOOKED_AT) -> Record:
    """Needs the tenant's scope. One short range of an index, however many jobs there were."""
    rows = StartEstimate.objects.filter(job__pool=pool, started__isnull=False).order_by("-pk")
    estimated = rows.values_list("earliest", "latest", "started", "price_low", "price_high", "paid")[:most]
    started = paid = estimates = 0
    for earliest, latest, began, low, high, cost in estimated:
        estimates += 1
        started += earliest <= began <= latest
        paid += cost is not None and low <= cost <= high
    return Record(estimates, started, paid)
