"""The outside of the demonstration: tenants that submit jobs. It is seeded: the same slots bring the same jobs.

Demand moves around: for some slots one tenant has far more work than cells, and then another. So there is always
somebody who rents and somebody who lends. Nothing here knows how the market works; it submits, as anybody would.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

import numpy as np
from django.conf import settings

from scheduling.demo import content
from scheduling.demo.demo import demo_is_loaded
from scheduling.demo.habits import long_jobs
from scheduling.jobs import job_submit
from scheduling.models import Lane, Pool
from scheduling.money import credits_grant
from tenants.access import Access, access_of_system
from tenants.ledger.amounts import MICRO
from tenants.ledger.postings import available
from tenants.ledger.selectors import balance
from tenants.models import Tenant, User
from tenants.roles import OWNER, SUBMITTER
from tenants.scoping import scope
from tenants.selectors import access_of

SEED = 7
JOBS_IN_A_SLOT = 2.8  # on average; enough that the whole pool is nearly busy
RUSH_SLOTS = 9  # how long one tenant is in a rush
RUSH_SHARE = 0.7  # part of all jobs that the tenant in a rush submits
INSTANT_SHARE = 0.2
LOW_CREDITS = 100  # with less, the tenant brings in more
REAL_EVERY = 3  # slots; in each such slot one job is a program that really runs
EPOCHS_IN_A_SLOT = 5
MODELS = ("multilayer", "logistic", "convolutional")
REAL = {
    "batch_size": 16,
    "features": 16,
    "hidden": 16,
    "image_side": 8,
    "filters": 4,
    "learning_rate": 0.1,
    "minibatch_ms": 550.0,  # less than the second that the job was sold for: beginning and saving take time too
    "checkpoint_seconds": 10.0,
    "stragglers": "ignore",  # a busy laptop is no reason to wait for another worker
}
# A job of the elastic pool takes eight slots with twelve workers, and 16 with six. Parameter servers make it faster.
SWEEP: dict[str, Any] = {
    "epochs": 8,
    "chunks": 12,
    "minibatches": 10,
    "minibatch_seconds": 0.7,
    "gradient_mb": 15,
    "worker_demand": {"worker": 1},
    "ps_demand": {"ps": 1},
    "worker_mbps": 1_000,
    "ps_mbps": 2_000,
    "min_workers": 1,
    "value": {"kind": "linear", "slope": -0.05, "base": 20.0},
}
SWEEP_EVERY = 5  # slots; then another one comes, before those that run have ended
# The first jobs: the tenant's index, and further fields. One is limited: it ends small, and then is paused.
FIRST_SWEEPS: tuple[tuple[int, dict[str, Any]], ...] = ((1, {}), (0, {}), (1, {"max_price": 2.0}))
NAMES = ("resnet", "bert", "whisper", "unet", "gnn", "ranker", "t5", "vit")


@dataclass(frozen=True)
class DemoJob:
    """One job that a tenant will submit."""

    tenant: int  # index
    name: str
    lane: str
    spec: dict[str, Any]


def wishes(seed: int, slot: int, tenants: int, *, jobs: float = JOBS_IN_A_SLOT) -> Iterator[DemoJob]:
    """Yield what the tenants submit during the slot. The first slots bring more, so that a visitor need not wait."""
    dice = np.random.default_rng([seed, slot])
    rushing = int(np.random.default_rng([seed, slot // RUSH_SLOTS]).integers(tenants))
    for number in range(int(dice.poisson(jobs)) + (2 if slot < 3 else 0)):
        tenant = rushing if dice.random() < RUSH_SHARE else int(dice.integers(tenants))
        lane = Lane.INSTANT if dice.random() < INSTANT_SHARE else Lane.BATCH
        yield DemoJob(tenant, f"{dice.choice(NAMES)}-{slot}-{number}", str(lane), _spec(dice))


def _spec(dice: np.random.Generator) -> dict[str, Any]:
    """Return a job of two to twelve workers for two to seven slots of ten seconds; mostly, it is worth more than idle
    units cost."""
    workers, slots = int(dice.integers(1, 7)) * 2, int(dice.integers(2, 8))
    base = workers * slots * float(dice.uniform(0.1, 1.2))
    return {
        "epochs": slots,
        "chunks": workers,
        "minibatches": 10,
        "minibatch_seconds": 1.0,
        "worker_demand": {"worker": 1},
        "ps_demand": {"ps": 1},
        "worker_mbps": 100,
        "ps_mbps": 600,  # one parameter server serves six workers
        "min_workers": 1,
        "value": {"kind": "linear", "slope": -round(base / 40, 4), "base": round(base, 4)},
    }


def really(wish: DemoJob, slot: int) -> DemoJob:
    """Return the same amount of work as a program that runs: two chunks, and more and shorter epochs, so that there is
    a curve to see.

    It waits more than it computes, so that a small machine stays quick while a few of them run.
    """
    spec = {
        **wish.spec,
        "epochs": wish.spec["epochs"] * EPOCHS_IN_A_SLOT,
        "minibatches": wish.spec["minibatches"] // EPOCHS_IN_A_SLOT,
        "chunks": 2,
        "program": {"name": "trainer", "parameters": REAL | {"seed": slot, "model": MODELS[slot % len(MODELS)]}},
    }
    return replace(wish, name=f"train-{wish.name}", spec=spec)


def sweeps(slot: int, tenants: int) -> list[DemoJob]:
    """Return what comes to the elastic pool: some jobs at first, in whichever of the first slots the first tick falls,
    and then one of each tenant in turn."""
    if slot < SWEEP_EVERY:
        return [
            DemoJob(tenant, f"sweep-0-{number}", str(Lane.BATCH), SWEEP | more)
            for number, (tenant, more) in enumerate(FIRST_SWEEPS)
        ]
    turn, late = divmod(slot, SWEEP_EVERY)
    return [] if late else [DemoJob(turn % tenants, f"sweep-{slot}", str(Lane.BATCH), SWEEP)]


def outside_tick(*, at: datetime) -> int:
    """Submit what the slot that contains `at` brings, once, and return how much that was. Outside the demo, submit
    nothing."""
    if not settings.DEVELOPMENT or not demo_is_loaded():
        return 0
    pool = Pool.objects.get(slug=content.POOL["slug"])
    slot, members = pool.slot_at(at), demo_members()
    coming = list(wishes(SEED, slot, len(members)))
    if coming and slot % REAL_EVERY == 0:
        coming[0] = really(coming[0], slot)
    for number, wish in enumerate(coming):
        _submit(pool, members[wish.tenant], wish, f"outside:{slot}:{number}", at)
    swept, long_runs = _sweep(members, slot, at), _long_runs(members, at)
    pay_in(members, f"outside:{slot}", at)
    return len(coming) + swept + long_runs


def long_submit(
    pool: Pool, members: Sequence[Access], slot: int, *, until: datetime, at: datetime | None = None
) -> int:
    """Submit what a slot brings to the pool of long runs, up to a moment in it: each job once, however often this is
    called. `at` is now; without it each job comes at its own moment."""
    starts_at, submitted = pool.slot_start(slot), 0
    by_slug = {member.tenant.slug: member for member in members if member.tenant is not None}
    for number, job in enumerate(long_jobs(slot, starts_at)):
        moment = starts_at + timedelta(seconds=job.into * pool.slot_seconds)
        if moment <= until and job.tenant in by_slug:
            job_submit(
                pool=pool,
                name=job.name,
                spec=job.spec,
                lane=job.lane,
                otherwise=job.otherwise,
                by=by_slug[job.tenant],
                at=at or moment,
                client_key=f"long:{slot}:{number}",
            )
            submitted += 1
    return submitted


def _long_runs(members: Sequence[Access], at: datetime) -> int:
    """Submit the same for the pool of long runs, which only a demonstration with a past has."""
    pool = Pool.objects.filter(slug=content.LONG_POOL["slug"]).first()
    return long_submit(pool, members, pool.slot_at(at), until=at, at=at) if pool else 0


def _sweep(members: Sequence[Access], slot: int, at: datetime) -> int:
    """Submit the same for the elastic pool. A demo of an older version has none."""
    pool = Pool.objects.filter(slug=content.ELASTIC_POOL["slug"]).first()
    if pool is None:
        return 0
    coming = sweeps(slot, len(members))
    for wish in coming:
        _submit(pool, members[wish.tenant], wish, f"outside:{wish.name}", at)
    return len(coming)


def demo_members() -> Sequence[Access]:
    """Return the access of one person of each tenant who may submit."""
    slugs = {tenant.slug: tenant for tenant in Tenant.objects.filter(slug__in=[each.slug for each in content.TENANTS])}
    by_slug: dict[str, Access] = {}
    users = {user.email: user for user in User.objects.filter(email__in=[each.email for each in content.PEOPLE])}
    for person in content.PEOPLE:
        for slug, role in person.roles.items():
            if role in (OWNER, SUBMITTER) and slug in slugs and person.email in users:
                by_slug.setdefault(slug, access_of(users[person.email], slugs[slug]))
    return [by_slug[slug] for slug in sorted(by_slug)]


def _submit(pool: Pool, member: Access, wish: DemoJob, key: str, at: datetime) -> None:
    """Submit one job. A refusal is an answer like another: the outside goes on with the next job."""
    job_submit(pool=pool, name=wish.name, spec=wish.spec, lane=wish.lane, by=member, at=at, client_key=key)


def pay_in(members: Sequence[Access], turn: str, at: datetime) -> None:
    """Pay credits in where they are low, as a demonstration left alone for a day should not end with empty purses. In
    each turn a tenant gets them once."""
    by = access_of_system("the demo's outside")
    for member in members:
        tenant = member.tenant
        if tenant is None:
            continue
        with scope(tenant):
            low = balance(account=available(tenant.pk)) < LOW_CREDITS * MICRO
        if low:
            key = f"{turn}:{tenant.slug}"
            credits_grant(tenant=tenant, amount=5 * LOW_CREDITS * MICRO, key=key, by=by, reason="demonstration", at=at)
