"""Small random scenarios of the guarantee's second edition, by seed: all combinations of its three settings."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import numpy as np

from scheduling.core.scenario import Scenario
from scheduling.core.types import KEEP, RENEW, Cluster, Job, Tenant, Value
from scheduling.core.value import Convex, Deadline, Linear, Sigmoid
from tests.core.builders import make_cluster, make_job, make_tenant
from tests.core.random_markets import contested_market, random_market

SLOTS = 48
FAMILIES = ("guarantee", "backlog", "contested", "crowded")


def renewal_market(seed: int) -> Scenario:
    """One of four families in turn. Tenants renew more often than not; the settings are drawn independently."""
    chance = random.Random(f"renewal {seed}")
    family = FAMILIES[seed % len(FAMILIES)]
    if family == "contested":
        scenario = contested_market(seed)
    elif family == "crowded":
        scenario = crowded_market(seed)
    else:
        scenario = random_market(seed, "guarantee", backlog=family == "backlog")
    plans = (RENEW, RENEW, KEEP) if family != "crowded" else (RENEW,)
    tenants = [replace(tenant, plan=chance.choice(plans)) for tenant in scenario.cluster.tenants]
    policy = dict(scenario.policy) | {"price": chance.choice(("posted", "posted", "searched"))}
    policy["dividend"] = chance.choice((0.0, 0.0, 0.5, chance.uniform(0, 0.9)))
    if chance.random() < 0.3:
        policy["unit_value"] = {
            name: chance.choice((1.0, 4.0, chance.uniform(0, 9))) for name in scenario.cluster.resources
        }
    if policy["price"] == "posted":
        policy.pop("unit_value", None)
    return replace(scenario, cluster=with_tenants(scenario, tenants), policy=policy, slots=SLOTS)


def with_tenants(scenario: Scenario, tenants: list[Tenant]) -> Cluster:
    return replace(scenario.cluster, tenants=tuple(tenants))


def crowded_market(seed: int) -> Scenario:
    """A long backlog of unlike jobs on one or two cells, and a large home for rent at a price that only some pay: plans
    change often, and what was rented is now and then worth less than what the plan comes to give."""
    chance = random.Random(f"crowded {seed}")
    units = np.array([(chance.choice((1, 2, 2)), chance.choice((1, 1, 2))), (4, 3)], dtype=float).T
    cells = np.zeros((2, 2, 2))
    for u in range(2):
        cells[:, u, u] = units[:, u]
    jobs = [crowded_job(chance, number) for number in range(chance.randint(8, 13))]
    size, price = chance.choice((2, 3, 4)), chance.choice((1.0, 2.0, 2.0, 4.0))
    policy: dict[str, Any] = {"name": "astraea", "mode": "guarantee", "theta": {"worker": 2.0, "ps": 2.0}}
    policy["price_floor"] = {"worker": price, "ps": chance.choice((0.1, price))}
    policy["clock"] = {"first": size, "cap": chance.choice((size, 2 * size)), "restart": chance.random() < 0.5}
    tenants = [make_tenant(f"u{u}") for u in range(2)]
    return Scenario(make_cluster(units, cells=cells, tenants=tenants), tuple(jobs), SLOTS, policy)


def crowded_job(chance: random.Random, number: int) -> Job:
    epochs, chunks = chance.randint(1, 6), chance.choice((1, 2, 2))
    worth = chance.choice((1.0, 2.0, 6.0)) * epochs * chunks  # some are worth much more than others for their size
    values: tuple[Value, ...] = (
        Linear(-chance.uniform(0.02, 0.12) * worth, worth * chance.uniform(5, 10)),
        Convex(worth * 40, chance.choice((0.6, 1.0))),
        Sigmoid(worth * 8, chance.choice((0.2, 1.5)), float(chance.randint(8, 30))),
        Deadline(worth * 8, float(chance.randint(6, 30))),
    )
    return make_job(
        number,
        tenant=chance.choice((0, 0, 0, 0, 0, 1)),
        arrival=chance.choice((0.0, 2.0, chance.uniform(0, 14))),
        epochs=epochs,
        chunks=chunks,
        min_workers=chance.choice((1, chunks)),
        priority=chance.choice((0, 0, 0, 1)),
        max_price=chance.choice((None, None, None, None, chance.uniform(0, 60))),
        rent=chance.choice((None, None, None, None, None, "never")),
        value=chance.choice((values[0], *values)),
    )
