"""Whatever a pool accepts, it can decide about: a job by chance, with any field that a description may have, never
stops the market for everybody. ODD_JOBS sets how many are tried under each policy."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from typing import Any

import pytest

from scheduling.core.scenario.jobs import FIELDS
from scheduling.jobs.submission import OURS, InvalidJob, Submitted, job_submit
from scheduling.models import Interval, Pool
from scheduling.quotes.quotes import job_quote
from tenants.access import Access
from tenants.models import Tenant
from tenants.roles import OWNER
from tests.scheduling.builders import make_cells, make_pool, make_server, make_tenant
from tests.scheduling.clocks import advance, moment
from tests.scheduling.elastic_world import all_is_sound, make_elastic
from tests.scheduling.live import INSTANT
from tests.scheduling.markets import give

pytestmark = pytest.mark.django_db

JOBS = int(os.environ.get("ODD_JOBS", "24"))
GUARANTEE = {"name": "astraea", "mode": "guarantee"}
SEARCHED = {"price": "searched", "unit_value": {"worker": 1.0, "ps": 1.0}, "dividend": 0.5}
AT_BOUNDARIES = (GUARANTEE, GUARANTEE | SEARCHED, {"name": "astraea"})
BY_SLOT = (
    {"name": "optimus"},
    {"name": "dominant_resource_fairness"},
    {"name": "tetris"},
    {"name": "srtf", "workers": 3},
)

Dice = random.Random
# Every field that a description may have, with what somebody might say there: mostly what a job has, now and then not.
CHOICES: dict[str, Callable[[Dice], Any]] = {
    "priority": lambda dice: dice.choice((-(10**6), -1, 0, 1, 10**6)),
    "epochs": lambda dice: dice.choice((1, 2, 9, 50, 10**4)),
    "chunks": lambda dice: dice.choice((1, 2, 3, 8, 64)),
    "minibatches": lambda dice: dice.choice((1, 2, 5, 1_000)),
    "minibatch_seconds": lambda dice: dice.choice((1e-9, 0.1, 5.0, 10.0, 3_000.0)),
    "update_seconds": lambda dice: dice.choice((0.0, 0.5, 50.0)),
    "gradient_mb": lambda dice: dice.choice((0.0, 1.0, 3e4)),
    "worker_mbps": lambda dice: dice.choice((1.0, 1_000.0)),
    "ps_mbps": lambda dice: dice.choice((1.0, 4.0, 5_000.0)),
    "worker_demand": lambda dice: dice.choice(({"worker": 1}, {"worker": 2}, [{"worker": 1}, {"worker": 3}])),
    "ps_demand": lambda dice: dice.choice(({"ps": 1}, {"ps": 2}, [], {"worker": 1})),
    "min_workers": lambda dice: dice.choice((1, 2, 8)),
    "max_workers": lambda dice: dice.choice((1, 2, 8)),
    "max_ps": lambda dice: dice.choice((1, 2, 50)),
    "max_price": lambda dice: dice.choice((0.0, 1e-9, 3.0, 1e9)),
    "rent": lambda dice: dice.choice(("never", "budget", "auto")),
    "value": lambda dice: dice.choice(VALUES),
    "divisible": lambda dice: dice.choice((True, False)),
    "save_slots": lambda dice: dice.choice((0.0, 0.3, 9.0)),
    "unbroken": lambda dice: dice.choice((True, False)),
    "samples": lambda dice: dice.choice((1.0, 1e5)),
    "batch_size": lambda dice: dice.choice((1, 64)),
    "sample_seconds": lambda dice: dice.choice((1e-6, 2.0)),
    "internal_mbps": lambda dice: dice.choice((1.0, 1e5)),
    "ps_ratio": lambda dice: dice.choice((0.5, 4.0)),
    "mode": lambda dice: dice.choice(("sync", "async")),
    "speed": lambda dice: dice.choice(([], [0.1, 1.0, 0.0, 0.0], [1.0] * 5)),
    "model": lambda dice: dice.choice(("", "resnet-50", "unheard of")),
}
VALUES: tuple[dict[str, Any], ...] = (
    {"kind": "linear", "slope": -1.0, "base": 100.0},
    {"kind": "linear", "slope": 0.0, "base": 1e12},
    {"kind": "linear", "slope": -5.0, "base": -3.0},
    {"kind": "convex", "scale": 500.0, "power": 0.7},
    {"kind": "sigmoid", "priority": 40.0, "decay": 3.0, "target": 6.0},
    {"kind": "deadline", "base": 70.0, "deadline": 5.0},
)
USUAL = ("epochs", "chunks", "minibatch_seconds", "worker_demand", "value")


def odd_spec(dice: Dice) -> dict[str, Any]:
    """The fields that a job needs, and a few others."""
    others = [name for name in CHOICES if name not in USUAL]
    fields = {name: CHOICES[name](dice) for name in (*USUAL, *dice.sample(others, dice.randrange(7)))}
    return {"minibatch_seconds": 5.0, "ps_demand": {"ps": 1}, "max_workers": 1, **fields}


def with_windows(policy: dict[str, Any]) -> tuple[Pool, Tenant, Tenant]:
    """Both lanes; an owner of one of two servers, and a tenant without cells."""
    pool = make_pool(batch_policy=policy, instant_policy=INSTANT)
    owner, guest = make_tenant("owner"), make_tenant("guest")
    make_cells(make_server(pool, "s01", worker=4, ps=2), owner, {"worker": 3, "ps": 2})
    make_server(pool, "s02", worker=4, ps=2)
    for tenant in (owner, guest):
        give(tenant, 1_000)
    return pool, owner, guest


def test_every_field_of_a_description_is_tried() -> None:
    assert set(CHOICES) == set(FIELDS) - set(OURS)


@pytest.mark.one_case
@pytest.mark.parametrize("policy", [*AT_BOUNDARIES, *BY_SLOT], ids=str)
def test_the_market_goes_on_whatever_it_accepts(policy: dict[str, Any]) -> None:
    dice, by_slot = random.Random(str(policy)), policy in BY_SLOT
    pool, *tenants = make_elastic(policy) if by_slot else with_windows(policy)
    accepted = refused = 0
    for number in range(JOBS):
        tenant, now = dice.choice(tenants), moment(pool, number / 3)
        lane = "batch" if by_slot else dice.choice(("batch", "instant"))
        order = {"pool": pool, "name": f"job {number}", "spec": odd_spec(dice), "lane": lane, "at": now}
        by = Access(user=None, tenant=tenant, roles=frozenset({OWNER}))
        job_quote(**order, by=by)
        answer = job_submit(**order, by=by)
        accepted += isinstance(answer, Submitted)
        refused += isinstance(answer, InvalidJob)
        advance(pool, number / 3)
    advance(pool, JOBS / 3 + 9)
    assert accepted >= JOBS // 4, (accepted, refused)
    assert Interval.objects.filter(pool=pool).count() >= JOBS / 3 // pool.clock_cap
    all_is_sound(pool)
