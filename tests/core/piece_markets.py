"""Small random scenarios in which long jobs may rent in pieces, by seed: on top of those of renewed plans.

A third has a tenant without cells. Jobs are up to eight times longer than a window, two of three can be saved, and what
a save loses is nothing, a part of a slot or a whole one.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import numpy as np

from scheduling.core.scenario import Scenario
from scheduling.core.types import Cluster, Job, Value
from scheduling.core.value import Convex, Deadline, Linear, Sigmoid
from tests.core.builders import make_cluster, make_job, make_tenant
from tests.core.renewal_markets import renewal_market

SLOTS = 40
LONGEST_WINDOW = 8
SAVES = (0.0, 0.25, 0.5, 1.0)


def piece_market(seed: int) -> Scenario:
    """One of five families in turn: the four of renewed plans with longer jobs, and plans that shift."""
    chance = random.Random(f"pieces {seed}")
    if seed % 5 == 4:
        return shifting_market(chance)
    scenario = renewal_market(seed)
    cluster, jobs = scenario.cluster, scenario.jobs
    if guest := seed % 3 == 0:
        cluster = with_guest(chance, cluster)
    policy = dict(scenario.policy)
    clock = dict(policy["clock"])
    clock["cap"] = max(clock["first"], min(clock["cap"], LONGEST_WINDOW))
    policy["clock"] = clock
    if isinstance(floor := policy.get("price_floor"), dict):
        part = chance.choice((0.05, 0.2, 0.5, 1.0))
        policy["price_floor"] = {name: price * part for name, price in floor.items()}
    jobs = tuple(longer_job(chance, job, clock["cap"], len(cluster.tenants), guest=guest) for job in jobs)
    return replace(scenario, cluster=cluster, jobs=jobs, policy=policy, slots=SLOTS)


def provisional_market(seed: int) -> Scenario:
    """The same, in which the parts of a job that is never finished are worth nothing."""
    scenario = piece_market(seed)
    return replace(scenario, policy={**scenario.policy, "parts": "nothing"})


def with_guest(chance: random.Random, cluster: Cluster) -> Cluster:
    """One tenant more, the last, who owns nothing."""
    assert cluster.cells is not None
    tenant = make_tenant(
        "guest", reserve_price=[0.0] * len(cluster.resources), plan=chance.choice(("keep", "renew", "renew"))
    )
    nothing = np.zeros_like(cluster.cells[:, :1])
    cells = np.concatenate([cluster.cells, nothing], axis=1)
    return replace(cluster, tenants=(*cluster.tenants, tenant), cells=cells, quota=cells.sum(axis=2))


def longer_job(chance: random.Random, job: Job, window: int, tenants: int, *, guest: bool) -> Job:
    """The job with more epochs, as a rule, and a value that goes with them."""
    fields: dict[str, object] = {"divisible": chance.random() < 2 / 3, "save_slots": chance.choice(SAVES)}
    if guest and chance.random() < 0.4:
        fields |= {"tenant": tenants - 1, "rent": None}
    if chance.random() < 0.2:
        fields |= {"ps_types": (), "max_ps": None}
    if chance.random() < 0.8:
        workers = chance.randint(1, job.max_workers)
        slots = chance.randint(1, 8 * window)  # with so many workers, each of whom trains one mini-batch in a slot
        work = max(1, round(slots * workers / job.chunks))
        fields |= {"epochs": work, "minibatches": 1, "value": long_value(chance, slots, workers)}
        fields["max_price"] = chance.choice((None,) * 6 + (chance.uniform(0, 30), chance.uniform(10, 90)))
    return replace(job, **fields)  # type: ignore[arg-type]


def shifting_market(chance: random.Random) -> Scenario:
    """Few cells for jobs that can be saved and others that come later, are worth more and stay at home: plans shift to
    other starts and gangs, and what a piece has gained is now and then gone."""
    home, pool = chance.randint(1, 3), chance.randint(2, 5)
    cells = np.zeros((2, 3 if (guest := chance.random() < 1 / 3) else 2, 2))
    cells[:, 0, 0], cells[:, 1, 1] = home, pool
    tenants = [make_tenant(f"u{u}", plan="renew" if u == 0 else "keep") for u in range(cells.shape[1])]
    jobs = []
    for number in range(chance.randint(5, 9)):
        urgent = chance.random() < 0.5
        work, chunks = chance.randint(2, 8 if urgent else 24), chance.randint(1, 3)
        base = work * chance.uniform(8, 30) if urgent else work * chance.uniform(2, 12)
        patience = work * chance.uniform(0.5, 1.5) + chance.uniform(6, 24)
        value = Linear(-base / patience, base) if chance.random() < 0.8 else Deadline(base, patience)
        jobs.append(
            make_job(
                number,
                tenant=chance.choice((0, 0, 0, 0, 0, 0, 1, cells.shape[1] - 1 if guest else 0)),
                arrival=chance.choice((0.0, 1.0, float(chance.randint(0, 24)))),
                epochs=max(1, round(work / chunks)),
                chunks=chunks,
                value=value,
                rent="never" if urgent and chance.random() < 0.8 else None,
                divisible=chance.random() < 0.8,
                save_slots=chance.choice(SAVES),
            )
        )
    size = chance.choice((2, 3, 4))
    policy: dict[str, Any] = {"name": "astraea", "mode": "guarantee", "theta": {"worker": 2.0, "ps": 2.0}}
    policy["price_floor"] = chance.choice((0.1, 0.3, 1.0, 2.0))
    policy["clock"] = {"first": size, "cap": size, "restart": chance.random() < 0.5}
    policy["price"] = chance.choice(("posted", "posted", "posted", "searched"))
    policy["dividend"] = chance.choice((0.0, 0.0, 0.5))
    return Scenario(make_cluster(cells.sum(axis=1), cells=cells, tenants=tenants), tuple(jobs), SLOTS, policy)


def long_value(chance: random.Random, slots: int, workers: int) -> Value:
    """Of all four kinds, in proportion to the work; some lose it soon after the run could have ended."""
    base = slots * workers * chance.choice((2.0, 6.0, chance.uniform(1, 20)))
    patience = slots * chance.uniform(1.05, 3.0) + chance.uniform(2, 12)
    kind = chance.choice(("linear", "linear", "linear", "convex", "sigmoid", "deadline"))
    if kind == "linear":
        return Linear(-base / patience, base)
    if kind == "convex":
        return Convex(base * 2, chance.uniform(0.4, 1.1))
    if kind == "sigmoid":
        return Sigmoid(base, chance.choice((0.1, 0.5)), patience)
    return Deadline(base, patience)
