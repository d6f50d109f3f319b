"""A month of a market with ten owners of very different size, bursts of work and servers that fail; and its promises.

Nobody submits through the service and nothing is sold at once, so that a month takes seconds. What is looked at are
the stored intervals, whose fairness is worked out as the product does it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta

import numpy as np

from scheduling.fairness.intervals import fairness_catch_up
from scheduling.feed.events import events_append
from scheduling.market.decide.interval import Busy, interval_run
from scheduling.market.decide.submissions import submission_event
from scheduling.market.settle.slots import slot_settle
from scheduling.market.view.jobs import arrival_of
from scheduling.models import Interval, IntervalFairness, Pool, Server, TrainingJob
from scheduling.operator.server_states import server_return
from scheduling.runs.failures import server_lose
from tenants.access import Refused, access_of_system
from tenants.models import Tenant
from tenants.scoping import scope_disabled
from tests.scheduling.builders import make_cells, make_pool, make_server, make_tenant
from tests.scheduling.markets import SPEC, at, give

DAYS, DAY_SECONDS = 30, 24 * 3600
WORKERS = (12, 8, 8, 6, 4, 4, 2, 2, 1, 0)  # of each tenant; the last owns nothing
BURST_DAYS = 2  # for so long one tenant has most of the work, and then another
LOST_EVERY, LOST_FOR = 6, 1  # days
OPERATOR = access_of_system("a simulated month")


@dataclass(frozen=True)
class Promises:
    """What a stretch of intervals had to keep, and what it broke: rows of interval, job, tenant, got and alone."""

    intervals: int
    with_window: int
    awards: int
    certificates: int
    broken: tuple[tuple[int, int, int, float, float], ...]
    servers_lost: int = 0

    def __str__(self) -> str:
        counts = f"{self.certificates} certificates in {self.intervals} intervals ({self.with_window} with a window)"
        return f"{counts}, {self.awards} awards, {self.servers_lost} servers lost, {len(self.broken)} promises broken"


def make_month(mode: str = "guarantee", *, slot_seconds: int, clock_cap: int = 4) -> tuple[Pool, list[Tenant]]:
    """A server for each owner with eight workers or fewer, two where it has more, and one of the operator's."""
    pool = make_pool(
        batch_policy={"name": "astraea", "mode": mode} | ({"clock": _PAPER_CLOCK} if mode == "paper" else {}),
        slot_seconds=slot_seconds,
        clock_cap=clock_cap,
    )
    tenants = [make_tenant(f"tenant-{number}") for number in range(len(WORKERS))]
    for number, (tenant, workers) in enumerate(zip(tenants, WORKERS, strict=True)):
        for part, units in enumerate(_servers(workers)):
            server = make_server(pool, f"s{number}{part}", worker=units, ps=2)
            make_cells(server, tenant, {"worker": units, "ps": 2})
        give(tenant, 100_000)
    make_server(pool, "operator", worker=4, ps=2)
    return pool, tenants


_PAPER_CLOCK = {"first": 4, "cap": 4, "restart": True}


def _servers(workers: int) -> list[int]:
    return [workers - workers // 2, workers // 2] if workers > 8 else [workers] if workers else []


def live(
    pool: Pool,
    tenants: list[Tenant],
    slots: int,
    *,
    jobs: float,
    seed: int = 7,
    also: Callable[[int], None] | None = None,
) -> int:
    """So many slots from the epoch on, so many jobs in each on average. `also` happens at the end of each slot.
    Returns how many servers were lost."""
    dice, lost = np.random.default_rng(seed), 0
    day = DAY_SECONDS // int(pool.slot_seconds)
    with scope_disabled("the month is that of all tenants"):
        for slot in range(slots):
            slot_settle(pool_id=pool.pk, slot=slot - 1, at=at(pool, slot))
            assert not isinstance(interval_run(pool_id=pool.pk, slot=slot, at=at(pool, slot)), Busy)
            busiest = tenants[(slot // (BURST_DAYS * day)) % len(tenants)]
            come = TrainingJob.objects.bulk_create(_jobs(pool, tenants, busiest, slot, int(dice.poisson(jobs)), dice))
            events_append([submission_event(job, at=job.submitted_at) for job in come])
            lost += _fail(pool, slot, day, dice)
            if also is not None:
                also(slot)
    return lost


def _jobs(
    pool: Pool, tenants: list[Tenant], busiest: Tenant, slot: int, count: int, dice: np.random.Generator
) -> Iterator[TrainingJob]:
    for moment in np.sort(dice.uniform(slot, slot + 1, size=count)):
        tenant = busiest if dice.random() < 0.5 else tenants[int(dice.integers(len(tenants)))]
        workers, length = int(dice.integers(1, 7)), int(dice.integers(1, 7))
        submitted_at = pool.epoch_at + timedelta(seconds=pool.slot_seconds * float(moment))
        base = workers * length * float(dice.uniform(0.3, 3.0))
        yield TrainingJob(
            tenant=tenant,
            pool=pool,
            name="train",
            lane="batch",
            reason_code="waiting_for_interval",
            spec=SPEC
            | {
                "epochs": length,
                "chunks": workers,
                "minibatches": 10,
                "minibatch_seconds": float(pool.slot_seconds) / 10,
                "max_workers": workers,
                "value": {"kind": "linear", "slope": -round(base / 30, 4), "base": round(base, 4)},
            },
            submitted_at=submitted_at,
            arrival=arrival_of(pool, submitted_at),
            request_digest="0" * 64,
        )


def _fail(pool: Pool, slot: int, day: int, dice: np.random.Generator) -> int:
    """Every few days one server is lost for a day."""
    moment, since = at(pool, slot) + (at(pool, 1) - at(pool, 0)) * 0.9, slot % (LOST_EVERY * day)
    if since == 3 * day:
        servers = list(Server.objects.filter(pool=pool).order_by("pk"))
        server = servers[int(dice.integers(len(servers)))]
        assert not isinstance(server_lose(server=server, by=OPERATOR, reason="a fire", at=moment), Refused)
        return 1
    if since == (3 + LOST_FOR) * day:
        for server in Server.objects.filter(pool=pool, state="lost"):
            assert server_return(server=server, by=OPERATOR, reason="repaired", at=moment) is None
    return 0


def promises(pool: Pool, *, servers_lost: int = 0) -> Promises:
    """From the stored intervals alone."""
    while fairness_catch_up(most=1_000):
        pass
    rows = list(IntervalFairness.objects.filter(pool=pool).order_by("number"))
    intervals = Interval.objects.filter(pool=pool)
    assert len(rows) == intervals.count()
    return Promises(
        intervals=len(rows),
        with_window=intervals.exclude(window_start=None).count(),
        awards=sum(intervals.values_list("jobs_awarded", flat=True)),
        certificates=sum(row.certificates for row in rows),
        broken=tuple((row.number, c["job"], c["tenant"], c["got"], c["alone"]) for row in rows for c in row.broken),
        servers_lost=servers_lost,
    )
