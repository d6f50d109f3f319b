"""The market as figures for a monitor. Every query here is bounded by the cluster, the tenants, the jobs that are
alive, and the last intervals: none grows with the market's age."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np
from django.db.models import Count, Min

from scheduling.cluster import PoolOverview, pool_overview
from scheduling.core.metrics.figures import jain_index
from scheduling.market.reads import ResourceShare, contents_of, holdings_in, payments_of_latest, prices_now, units_now
from scheduling.models import AFTER_OTHERS, Interval, JobState, Lend, Pool, TenantPolicy, TrainingJob
from scheduling.operator.read_engines import engine_states, engines_needed, runs_open
from scheduling.operator.read_operator import PoolClock, pool_states
from tenants.ledger.amounts import credits_of
from tenants.ledger.sums import book_difference, earned_since
from tenants.models import Tenant
from tenants.scoping import scope_disabled

NOBODY = 0  # no tenant, so that no tenant's part of the payments is shown apart

Labels = Mapping[str, str]


@dataclass(frozen=True)
class Gauge:
    """One figure. `name` is one of `MEANING`."""

    name: str
    value: float
    labels: Labels


MEANING: Mapping[str, str] = {
    "nominal_quota_units": "Units of the tenant's own cells.",
    "own_use_units": "Of these, units that its own jobs hold in this slot.",
    "lent_units": "Of these, units that jobs of others hold in this slot.",
    "borrowed_units": "Units of others and of the operator that the tenant's jobs hold in this slot.",
    "capacity_units": "Units of all servers of the pool.",
    "operator_units": "Units that belong to no tenant.",
    "pending_jobs": "Jobs that wait in a queue.",
    "pending_oldest_seconds": "How long the job that has waited longest has waited.",
    "posted_price_credits": "Posted price of one unit in this slot, per slot; NaN while none is for sale.",
    "value_realised_credits": "Value of the schedules that the last interval with an award gave.",
    "value_idealised_credits": "Their value if each job had come just when that interval was decided.",
    "reward_per_contributed_unit_credits": "Earned since midnight UTC, for each unit of the cells that may be lent.",
    "reward_jain_index": "Jain's index of these rewards: 1 when all are alike. Not there until somebody earned.",
    "payment_imbalance_credits": "Payments less payouts, of the last five paid intervals. Anything but 0 is a fault.",
    "ledger_imbalance_credits": "Sum of all balances of the book. Anything but 0 is a fault.",
    "interval_duration_seconds": "Length of the last interval.",
    "interval_number": "Intervals decided so far.",
    "queue_lag_seconds": "How long the first boundary that is not decided has been due.",
    "boundaries_behind": "Boundaries that have passed and are not decided.",
    "runs": "Gangs that begin or run.",
    "engine_seen_seconds": "Seconds since the engine gave its last sign of life.",
    "engine_alerts": "What is wrong with the engine's cluster; the page Health has the sentences.",
}


def gauges(at: datetime) -> list[Gauge]:
    slugs = dict(Tenant.objects.values_list("pk", "slug"))
    gauges_now: list[Gauge] = []
    lendable: defaultdict[int, float] = defaultdict(float)
    with scope_disabled("a monitor of the staff reads sums over all tenants"):
        for state in pool_states(at):
            overview = pool_overview(state.pool)
            gauges_now += [*_units(state, overview, slugs), *_market(state, slugs, at), *_intervals(state.pool)]
            for tenant_id, units in _lendable(overview).items():
                lendable[tenant_id] += units
        gauges_now += _rewards(lendable, slugs, at)
        gauges_now.append(Gauge("ledger_imbalance_credits", credits_of(book_difference()), {}))
    gauges_now += _engines(at)
    order = list(MEANING)
    return sorted(gauges_now, key=lambda gauge: order.index(gauge.name))


def _units(state: PoolClock, overview: PoolOverview, slugs: Mapping[int, str]) -> Iterator[Gauge]:
    pool = state.pool
    holdings = holdings_in(pool, state.slot)
    for total in overview.totals:
        labels = {"pool": pool.slug, "resource": total.resource}
        yield Gauge("capacity_units", total.units, labels)
        yield Gauge("operator_units", total.operator_units, labels)
    concerned = {tenant_id for total in overview.totals for tenant_id in total.units_by_tenant}
    concerned |= {holding.tenant_id for holding in holdings}
    for tenant_id in sorted(concerned):
        now = units_now(tenant_id=tenant_id, pool=pool, slot=state.slot, holdings=holdings, overview=overview)
        for share in now.totals:
            yield from _share(share, {"pool": pool.slug, "tenant": slugs[tenant_id], "resource": share.name})


def _share(share: ResourceShare, labels: Labels) -> Iterator[Gauge]:
    yield Gauge("nominal_quota_units", share.units, labels)
    yield Gauge("own_use_units", share.used, labels)
    yield Gauge("lent_units", share.lent, labels)
    yield Gauge("borrowed_units", share.rented, labels)


def _market(state: PoolClock, slugs: Mapping[int, str], at: datetime) -> Iterator[Gauge]:
    of_pool = {"pool": state.pool.slug}
    yield Gauge("queue_lag_seconds", state.late_seconds, of_pool)
    yield Gauge("boundaries_behind", state.behind, of_pool)
    queued = TrainingJob.objects.filter(pool=state.pool, state=JobState.QUEUED, not_before__lt=AFTER_OTHERS).order_by()
    rows = queued.values_list("tenant_id").annotate(Count("pk"), Min("submitted_at"))
    oldest = at
    for tenant_id, jobs, first in rows:
        oldest = min(oldest, first)
        yield Gauge("pending_jobs", jobs, of_pool | {"tenant": slugs[tenant_id]})
    yield Gauge("pending_oldest_seconds", (at - oldest).total_seconds(), of_pool)
    for posted in prices_now(state.pool, state.slot):
        labels = of_pool | {"lane": posted.lane, "resource": posted.resource}
        yield Gauge("posted_price_credits", float("nan") if posted.price is None else posted.price, labels)


def _intervals(pool: Pool) -> Iterator[Gauge]:
    of_pool = {"pool": pool.slug}
    paid = payments_of_latest(pool=pool, tenant_id=NOBODY)
    yield Gauge("payment_imbalance_credits", credits_of(sum(each.difference for each in paid)), of_pool)
    rows = Interval.objects.filter(pool=pool).order_by("-number")
    last = rows.values_list("number", "window_start", "window_end").first()
    if last is None:
        return
    number, start, end = last
    yield Gauge("interval_number", number, of_pool)
    if start is not None and end is not None:
        yield Gauge("interval_duration_seconds", (end - start) * pool.slot_seconds, of_pool)
    bookings = _bookings(rows.filter(number__gt=number - 20, jobs_awarded__gt=0)[:1])
    yield Gauge("value_realised_credits", sum(row["value"] or 0.0 for row in bookings), of_pool)
    yield Gauge("value_idealised_credits", sum(row["ideal"] or 0.0 for row in bookings), of_pool)


def _bookings(intervals: Iterable[Interval]) -> list[dict[str, float | None]]:
    return [row for interval in intervals for row in json.loads(contents_of(interval).plan)["bookings"]]


def _engines(at: datetime) -> Iterator[Gauge]:
    """Yield figures of engines that have worked; the engine of an open run has. One that nobody needs any more may be
    silent, whatever was last wrong with its cluster."""
    runs = runs_open()
    for (engine, state), number in sorted(runs.items()):
        yield Gauge("runs", number, {"engine": engine, "state": state})
    needed = engines_needed() | {engine for engine, _ in runs}
    for each in engine_states(at):
        if each.alive_at is not None and each.name in needed:
            of_engine = {"engine": each.name}
            yield Gauge("engine_seen_seconds", (at - each.alive_at).total_seconds(), of_engine)
            yield Gauge("engine_alerts", len(each.alerts), of_engine)


def _lendable(overview: PoolOverview) -> dict[int, float]:
    """Return tenant id -> units of its cells, over all resources, that its policy lends."""
    keepers = set(TenantPolicy.objects.filter(pool=overview.pool, lend=Lend.KEEP).values_list("tenant_id", flat=True))
    sums: defaultdict[int, float] = defaultdict(float)
    for total in overview.totals:
        for tenant_id, units in total.units_by_tenant.items():
            if tenant_id not in keepers:
                sums[tenant_id] += units
    return sums


def _rewards(lendable: Mapping[int, float], slugs: Mapping[int, str], at: datetime) -> Iterator[Gauge]:
    amounts = earned_since(tenant_ids=list(lendable), day=at.astimezone(UTC).date())
    rewards = {
        tenant_id: credits_of(amounts[tenant_id]) / units for tenant_id, units in sorted(lendable.items()) if units
    }
    for tenant_id, reward in rewards.items():
        yield Gauge("reward_per_contributed_unit_credits", reward, {"tenant": slugs[tenant_id]})
    if (index := jain_index(np.array(list(rewards.values())))) is not None:
        yield Gauge("reward_jain_index", index, {})
