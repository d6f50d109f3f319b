"""A market that lives for a while at full speed: tenants submit and cancel, a server fails; and what must hold then.

Slots of ten minutes, so that a week has 1,008. The checks are queries of their own over rows and book: they share no
code with what they check.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

import numpy as np
from django.db import connection

from scheduling.app.clock import pool_advance
from scheduling.audit.verification import intervals_verify
from scheduling.demo.outside import wishes
from scheduling.jobs.cancellation import job_cancel
from scheduling.jobs.submission import Submitted, job_submit
from scheduling.models import (
    AlonePlan,
    Award,
    JobFloor,
    LaneClock,
    Pool,
    Server,
    ServerCapacity,
    TenantPolicy,
    TrainingJob,
)
from scheduling.operator.server_states import server_return
from scheduling.runs.failures import server_lose
from tenants.access import Access, Refused, access_of_system
from tenants.ledger import audit
from tenants.ledger.amounts import MICRO
from tenants.models import Tenant
from tenants.roles import OWNER
from tenants.scoping import scope, scope_disabled
from tests.audit.bundles import bundle_findings
from tests.scheduling.builders import make_cells, make_server, make_tenant
from tests.scheduling.live import fund, make_live_pool

SLOT_SECONDS = 600
WEEK = 7 * 24 * 3600 // SLOT_SECONDS
BOUNDS = {"floor": 0.05, "ceiling": {"worker": 2.0, "ps": 2.0}}
OPERATOR = access_of_system("a simulated week")
CELLS = {"s01": (0,), "s02": (1,), "s03": (2,), "s04": (3,), "s05": (0, 1), "s06": (2, 3), "s07": ()}  # whose


def make_week(plan: str = AlonePlan.KEEP) -> tuple[Pool, list[Tenant]]:
    """Four tenants with twelve workers each on six servers; a seventh is the operator's. `plan`: of them all."""
    pool = make_live_pool(
        slot_seconds=SLOT_SECONDS,
        batch_policy={"name": "astraea", "mode": "guarantee", "price_floor": {"worker": 0.05, "ps": 0.05}},
        instant_policy={"name": "oasis", "worker_price": BOUNDS, "ps_price": BOUNDS},
        cancellation_keep_percent=10,
    )
    tenants = [make_tenant(slug) for slug in ("lumen", "castor", "orrin", "pelican")]
    for name, owners in CELLS.items():
        server = make_server(pool, name, worker=8, ps=2)
        for owner in owners:
            make_cells(server, tenants[owner], {"worker": 8 // len(owners), "ps": 2 // len(owners)})
    for tenant in tenants:
        fund(tenant, 20_000)
        with scope(tenant):
            TenantPolicy.objects.create(pool=pool, plan=plan)
    return pool, tenants


def live(
    pool: Pool, tenants: list[Tenant], slots: int, *, seed: int = 7, on_slot: Callable[[int, int], None] = print
) -> None:
    """So many slots from the epoch on. In the middle a server is lost for eight slots."""
    dice = np.random.default_rng(seed)
    members = [Access(user=None, tenant=tenant, roles=frozenset({OWNER})) for tenant in tenants]
    lost = Server.objects.get(pool=pool, name="s05")
    for slot in range(slots):
        pool_advance(pool_id=pool.pk, at=pool.slot_start(slot))
        moments = iter(sorted(dice.uniform(1, SLOT_SECONDS - 1, size=100)))
        for wish in wishes(seed, slot, len(tenants), jobs=2.2):
            at = pool.slot_start(slot) + timedelta(seconds=float(next(moments)))
            spec = {**wish.spec, "minibatch_seconds": SLOT_SECONDS / 10}
            submitted = job_submit(pool=pool, name=wish.name, spec=spec, lane=wish.lane, by=members[wish.tenant], at=at)
            assert isinstance(submitted, Submitted), submitted
            if dice.random() < 0.05:
                later = at + timedelta(seconds=0.5)
                job_cancel(job_id=submitted.job.pk, by=members[wish.tenant], at=later)
        _fail(pool, lost, slot - slots // 2, pool.slot_start(slot) + timedelta(seconds=SLOT_SECONDS - 0.1))
        on_slot(slot + 1, slots)
    pool_advance(pool_id=pool.pk, at=pool.slot_start(slots))


def _fail(pool: Pool, server: Server, slots_since: int, at: Any) -> None:
    if slots_since == 0:
        assert not isinstance(server_lose(server=server, by=OPERATOR, reason="a fire", at=at), Refused)
    if slots_since == 8:
        assert server_return(server=server, by=OPERATOR, reason="repaired", at=at) is None


def everything_holds(pool: Pool) -> Mapping[str, int]:
    """Raises where something does not; else how much was looked at."""
    verdict = audit.verify()
    assert verdict.is_clean, verdict.findings
    verified = intervals_verify(pool_ids=[pool.pk])
    assert verified.is_clean, verified.findings[:10]
    assert bundle_findings(pool) == []
    with scope_disabled("the test looks at all tenants"):
        counted = {
            "intervals": payments_are_payouts_and_operator(pool),
            "awards": awards_are_paid_exactly(pool),
            "floors": floors_are_kept(pool),
            "places": nothing_is_above_capacity(pool),
            "jobs": TrainingJob.objects.filter(pool=pool).count(),
        }
    return counted


def payments_are_payouts_and_operator(pool: Pool) -> int:
    """In every interval (and in the instant lane as a whole), from the entries of the book alone."""
    sums = _rows(
        "SELECT a.interval_id, sum(e.amount) FILTER (WHERE e.account_id > 7 AND e.account_id %% 8 = 1) AS held,"
        "       sum(e.amount) FILTER (WHERE e.account_id > 7 AND e.account_id %% 8 = 2) AS earned,"
        "       sum(e.amount) FILTER (WHERE e.account_id = 1) AS operator"
        "  FROM ledger_transaction t JOIN ledger_entry e ON e.transaction_id = t.id"
        "  JOIN scheduling_award a ON a.id = (t.facts ->> 'award')::bigint"
        " WHERE t.kind = 'settle' AND a.pool_id = %s GROUP BY 1",
        pool.pk,
    )
    for interval, held, earned, operator in sums:
        assert -held == (earned or 0) + (operator or 0), f"interval {interval}: {held}, {earned}, {operator}"
    return len(sums)


def awards_are_paid_exactly(pool: Pool) -> int:
    """What each award set aside is, once it is over and its rent is closed, all settled, given back, or kept for the
    owners."""
    rows = _rows(
        "SELECT a.id, a.state, a.rent, a.paid - a.returned, coalesce(sum(e.amount), 0) FROM scheduling_award a"
        "  LEFT JOIN ledger_transaction t ON t.subject = 'job:' || a.job_id"
        "   AND (t.facts ->> 'award')::bigint = a.id"
        "  LEFT JOIN ledger_entry e ON e.transaction_id = t.id AND e.account_id = a.tenant_id * 8 + 1"
        " WHERE a.pool_id = %s AND a.paid > 0 GROUP BY 1, 2, 3, 4",
        pool.pk,
    )
    for award, state, rent, paid, rest in rows:
        if rent == "open":  # nobody is paid before it is known what the job would have had alone
            assert rest == paid, f"award {award}: {rest} of {paid} are held, and its rent is open"
        elif state in ("booked", "running"):
            assert 0 <= rest <= paid, f"award {award}: {rest} of {paid} are held"
        else:
            assert rest == 0, f"award {award} is {state}, and {rest} of {paid} are still held"
    return len(rows)


def floors_are_kept(pool: Pool) -> int:
    """Each job with a floor worth something has an award that leaves at least that, or its turn is still to come. Of
    plans that are made anew the last one counts: a draft is no promise, and what came back counts as left."""
    settled = LaneClock.objects.get(pool=pool, lane="batch").settled_slot
    jobs = TrainingJob.objects.in_bulk()
    awards = {(award.job_id, award.attempt): award for award in Award.objects.filter(pool=pool)}
    last = {
        (floor.job_id, floor.attempt): floor for floor in JobFloor.objects.filter(job__pool=pool).order_by("interval")
    }
    floors = [floor for floor in last.values() if floor.value > 0 and not floor.draft]
    for floor in floors:
        job, award = jobs[floor.job_id], awards.get((floor.job_id, floor.attempt))
        if award is not None:
            gain = award.value - (award.paid - award.adjusted) / MICRO
            assert gain >= floor.value - 1e-6 * max(1.0, floor.value), f"{award}: {gain} < {floor.value}"
        elif job.attempt == floor.attempt and job.state != "cancelled":
            assert job.state == "queued", f"{job} is {job.state} in spite of its floor"
            assert floor.start > settled, f"{job} waits, and its turn at home was slot {floor.start}"
    return len(floors)


def nothing_is_above_capacity(pool: Pool) -> int:
    """From the awards, not from the calendar: units of each server in each slot that was delivered or is promised."""
    kinds = {kind.name: kind.pk for kind in pool.resources.all()}
    stock = {(row.server_id, row.resource_id): row.units for row in ServerCapacity.objects.filter(pool=pool)}
    used: defaultdict[tuple[int, int, int], float] = defaultdict(float)
    for award in Award.objects.filter(pool=pool):
        for server, start, end, workers, ps in award.allocation:
            for slot in range(start, end if award.cut_at is None else min(end, award.cut_at)):
                used[server, kinds["worker"], slot] += workers
                used[server, kinds["ps"], slot] += ps
    for (server, kind, slot), amount in used.items():
        assert amount <= stock[server, kind] + 1e-9, f"server {server}, slot {slot}: {amount} of {stock[server, kind]}"
    over = _rows(
        "SELECT count(*) FROM scheduling_calendarcell WHERE pool_id = %s AND batch + instant > capacity + 1e-9", pool.pk
    )
    assert over == [(0,)]
    return len(used)


def _rows(sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        return cursor.fetchall()
