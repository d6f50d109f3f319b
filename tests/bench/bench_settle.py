"""The end of a slot with 5,000 running awards, part by part; and an instant answer in a large pool."""

from __future__ import annotations

import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any
from unittest.mock import patch

from scheduling.jobs.submission import Submitted, job_submit
from scheduling.market.settle import slots as settlement
from scheduling.market.settle.slots import Settled, slot_settle
from scheduling.models import (
    Award,
    AwardState,
    Cell,
    JobState,
    Lane,
    LaneClock,
    Pool,
    ResourceKind,
    Server,
    ServerCapacity,
    TrainingJob,
)
from tenants.access import Access
from tenants.ledger.amounts import MICRO
from tenants.ledger.postings import OUTSIDE, Posting, available, held
from tenants.ledger.services import post_many
from tenants.models import Tenant
from tenants.roles import SUBMITTER
from tenants.scoping import scope_disabled
from tests.bench.owned import analyze

NEEDS_DATABASE = True

AWARDS, TENANTS, SERVERS, OWNERS, SLOTS, INSTANT_JOBS = 5_000, 100, 550, 10, 32, 30
EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
BOUNDS = {"floor": 0.01, "ceiling": {"worker": 10.0, "ps": 10.0}}
PARTS = {
    "_charges": "read charges",
    "awards_move": "begin and end",
    "post_batches": "build postings and post",
    "_tell": "events and notices",
}
SPEC = {
    "epochs": 4,
    "chunks": 4,
    "minibatch_seconds": 300.0,
    "worker_demand": {"worker": 1},
    "ps_demand": {"ps": 1},
    "worker_mbps": 1.0,
    "ps_mbps": 4.0,
    "value": {"kind": "linear", "slope": -1.0, "base": 100.0},
}


def measure() -> Iterator[dict[str, Any]]:
    with scope_disabled("the benchmark fills a whole market"):
        pool, tenants = market()
        awards_running(pool, tenants)
        analyze()
        yield _settled(pool, 0, "settle a slot, 5,000 running awards paying 10 owners each", "< 3")
        yield _settled(pool, SLOTS - 1, "settle a slot in which all 5,000 end", "< 3")
        yield _answers(pool, tenants)


def _figure(name: str, value: float, unit: str, target: str, **detail: object) -> dict[str, Any]:
    return {"name": name, "value": round(value, 3), "unit": unit, "target": target, "detail": detail}


def market(slug: str = "large", servers: int = SERVERS, tenants: int = TENANTS) -> tuple[Pool, list[Tenant]]:
    pool = Pool.objects.create(
        slug=slug,
        name=slug,
        slot_seconds=300,
        clock_first=SLOTS,
        clock_cap=SLOTS,
        clock_restart=False,
        batch_policy={"name": "astraea"},
        instant_policy={"name": "oasis", "worker_price": BOUNDS, "ps_price": BOUNDS},
        epoch_at=EPOCH,
    )
    kinds = [ResourceKind.objects.create(pool=pool, name=name, label=name) for name in ("worker", "ps")]
    names = [f"{slug}-{number:03}" for number in range(tenants)]
    owners = Tenant.objects.bulk_create(Tenant(slug=name, name=name) for name in names)
    machines = Server.objects.bulk_create(Server(pool=pool, name=f"s{n:03}") for n in range(servers))
    units = dict(zip(kinds, (16, 4), strict=True))
    ServerCapacity.objects.bulk_create(
        ServerCapacity(pool=pool, server=server, resource=kind, units=number)
        for server in machines
        for kind, number in units.items()
    )
    Cell.objects.bulk_create(
        Cell(server=server, resource=kind, tenant=owners[n % tenants], units=number // 2)
        for n, server in enumerate(machines)
        for kind, number in units.items()
    )
    _pay([_grant(tenant) for tenant in owners])
    return pool, owners


def _grant(tenant: Tenant) -> Posting:
    entries = ((OUTSIDE, -(10**6) * MICRO), (available(tenant.pk), 10**6 * MICRO))
    return Posting(key=f"top-up:{tenant.slug}", kind="grant", entries=entries, at=EPOCH)


def _pay(postings: list[Posting]) -> None:
    answer = post_many(postings=postings)
    assert isinstance(answer, tuple), answer


def awards_running(
    pool: Pool, tenants: list[Tenant], allocation: Sequence[list[int]] = (), *, number: int = AWARDS
) -> None:
    jobs = TrainingJob.objects.bulk_create(
        [_job(pool, tenants[n % len(tenants)], n) for n in range(number)], batch_size=2_000
    )
    awards = Award.objects.bulk_create(
        [_award(pool, job, tenants, n, allocation) for n, job in enumerate(jobs)], batch_size=1_000
    )
    _pay(
        [
            Posting(
                key=f"award:{award.pk}",
                kind="hold",
                entries=((available(award.tenant_id), -award.paid), (held(award.tenant_id), award.paid)),
                at=EPOCH,
            )
            for award in awards
        ]
    )


def _job(pool: Pool, tenant: Tenant, number: int) -> TrainingJob:
    return TrainingJob(
        tenant=tenant,
        pool=pool,
        name=f"j{number}",
        lane=Lane.BATCH,
        state=JobState.RUNNING,
        spec=SPEC,
        submitted_at=EPOCH,
        arrival=0.0,
        request_digest="0" * 64,
    )


def _award(pool: Pool, job: TrainingJob, tenants: list[Tenant], number: int, allocation: Sequence[list[int]]) -> Award:
    owners = [tenants[(number + 7 * step) % len(tenants)].pk for step in range(OWNERS - 1)]
    slot = [[owner, 1_000 + number % 97] for owner in owners] + [[0, 500]]
    return Award(
        tenant_id=job.tenant_id,
        job=job,
        pool=pool,
        lane=Lane.BATCH,
        state=AwardState.RUNNING,
        phase="shared",
        awarded_at=job.submitted_at,
        start=0,
        end=SLOTS,
        workers=4,
        ps=1,
        allocation=list(allocation),
        value=100.0,
        paid=SLOTS * sum(amount for _, amount in slot),
        charges=[slot] * SLOTS,
    )


def _settled(pool: Pool, slot: int, name: str, target: str) -> dict[str, Any]:
    LaneClock.objects.update_or_create(pool=pool, lane=Lane.BATCH, defaults={"settled_slot": slot - 1})
    with _timed() as parts:
        began = time.perf_counter()
        settled = slot_settle(pool_id=pool.pk, slot=slot, at=pool.slot_start(slot + 1))
        seconds = time.perf_counter() - began
    assert isinstance(settled, Settled), settled
    rest = {"commit and the rest": round(seconds - sum(parts.values()), 3)}
    spent = {part: round(took, 3) for part, took in parts.items()} | rest
    return _figure(name, seconds, "s", target, awards=settled.awards, ended=settled.ended, parts=spent)


@contextmanager
def _timed() -> Iterator[dict[str, float]]:
    """Measure the seconds spent in each part of the step."""
    spent: defaultdict[str, float] = defaultdict(float)

    def clocked(part: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            began = time.perf_counter()
            try:
                return function(*arguments, **named)
            finally:
                spent[part] += time.perf_counter() - began

        return call

    wrapped = {name: clocked(part, getattr(settlement, name)) for name, part in PARTS.items()}
    with patch.multiple(settlement, **wrapped):
        yield spent


def _answers(pool: Pool, tenants: list[Tenant]) -> dict[str, Any]:
    """Measure submissions one after the other, each in a transaction of its own."""
    LaneClock.objects.filter(pool=pool, lane=Lane.BATCH).update(frontier=2 * SLOTS)
    seconds = []
    for number in range(INSTANT_JOBS):
        by = Access(user=None, tenant=tenants[number % len(tenants)], roles=frozenset({SUBMITTER}))
        began = time.perf_counter()
        answer = job_submit(
            pool=pool, name="train", spec=SPEC, lane="instant", by=by, at=pool.slot_start(SLOTS), client_key=None
        )
        seconds.append(time.perf_counter() - began)
        assert isinstance(answer, Submitted), answer
        assert answer.award is not None, answer.job.reason_code
    median = statistics.median(seconds)
    name = "instant answer, 550 servers, 100 tenants"
    return _figure(name, 1000 * median, "ms", "none set", submissions=INSTANT_JOBS, worst=round(1000 * max(seconds)))
