"""Small random scenarios by seed, for comparing, replaying and torturing the batch auction.

Numbers are either round (so that ties, exact fits and prices of nothing happen all the time) or drawn from a
continuum (so that they never do). Every market is a whole `Scenario`; the same seed is the same market.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from scheduling.core.scenario import Preload, Scenario
from scheduling.core.types import Cluster, Job, Tenant, UnitType, Value
from scheduling.core.value import Convex, Deadline, Linear, Sigmoid
from tests.core.builders import make_cluster, make_job, make_tenant, make_unit_type

SLOT = 3600.0


@dataclass(frozen=True)
class Kit:
    """Resources, and the unit types that jobs may name, with the most units a server has of each resource."""

    resources: tuple[str, ...]
    workers: tuple[tuple[float, ...], ...]  # demands
    ps: tuple[tuple[float, ...], ...]
    most: tuple[int, ...]


PLAIN = Kit(("worker", "ps"), ((1, 0),), ((0, 1),), (5, 3))
TYPES = Kit(("fast", "slow", "ps", "big_ps"), ((1, 0, 0, 0), (0, 1, 0, 0)), ((0, 0, 1, 0), (0, 0, 0, 1)), (4, 4, 2, 2))
VECTOR = Kit(("gpu", "cpu", "memory"), ((1, 0.5, 0), (1, 1.5, 0), (0, 1, 0)), ((0, 0, 1), (0, 0, 1.5)), (5, 8, 4))


def random_market(seed: int, mode: str, *, backlog: bool = False) -> Scenario:
    """A market in one mode; with `backlog` many patient jobs wait for few cells, most of which are for rent."""
    chance = random.Random(f"{mode} {seed} {backlog}")
    kit = chance.choice((PLAIN, PLAIN, PLAIN, TYPES, VECTOR))
    cluster = random_cluster(chance, kit, mode, few=backlog)
    if backlog and chance.random() < 0.8:
        lend = chance.choice(("lend", "lend", None))  # None: as each of them likes
        tenants = [replace(tenant, rent="auto", lend=lend or tenant.lend) for tenant in cluster.tenants]
        cluster = replace(cluster, tenants=tuple(tenants))
    count = chance.randint(6, 12) if backlog else chance.randint(1, 7)
    last_arrival = chance.choice((0, 2, 5, 8, 14))
    jobs = [random_job(chance, kit, cluster, number, last_arrival) for number in range(count)]
    if backlog and chance.random() < 0.8:
        jobs = [replace(job, value=patient_value(chance), max_price=None, min_workers=1) for job in jobs]
    policy = random_policy(chance, kit, mode)
    slots = chance.choice((5, 9, 17)) if policy.get("clock", "geometric") == "geometric" else chance.randint(10, 26)
    preload = random_preload(chance, cluster, mode) if chance.random() < 0.2 else ()
    return Scenario(cluster=cluster, jobs=tuple(jobs), slots=slots, policy=policy, preload=tuple(preload))


def random_cluster(chance: random.Random, kit: Kit, mode: str, *, few: bool) -> Cluster:
    """Unequal servers, some without any units of a resource, dealt to tenants unit by unit; the rest is nobody's."""
    servers, tenants = chance.randint(1, 3 if few else 4), chance.randint(1, 3)
    capacity = np.array([[random_units(chance, most) for _ in range(servers)] for most in kit.most], float)
    picky = chance.random() < 0.15
    cells = np.zeros((len(kit.resources), tenants, servers))
    operators_part = chance.choice((0.0, 0.2, 0.5, 0.8))
    for r in range(len(kit.resources)):
        for s in range(servers):
            home = s % tenants  # most servers have one owner, so that gangs find room at home
            for _ in range(int(capacity[r, s])):
                owner = home if chance.random() < 0.8 else chance.randrange(tenants)
                cells[r, owner, s] += chance.random() >= operators_part
    counts_only = mode == "paper" and chance.random() < 0.6
    return make_cluster(
        capacity,
        resources=kit.resources,
        quota=cells.sum(axis=2),
        cells=None if counts_only else cells,
        tenants=[random_tenant(chance, u, kit) for u in range(tenants)],
        slot_seconds=SLOT,
        hosts_workers=[not picky or chance.random() < 0.6 for _ in range(servers)],
        hosts_ps=[not picky or chance.random() < 0.6 for _ in range(servers)],
    )


def random_units(chance: random.Random, most: int) -> int:
    """Units of one resource on one server: sometimes none."""
    return 0 if chance.random() < 0.1 else chance.randint(1, most)


def random_tenant(chance: random.Random, index: int, kit: Kit) -> Tenant:
    reserve = [chance.choice((0.0, 0.0, 0.5, 1.0, chance.uniform(0, 2))) for _ in kit.resources]
    return make_tenant(
        f"u{index}",
        reserve_price=reserve if chance.random() < 0.4 else [0.0] * len(kit.resources),
        rent=chance.choice(("never", "budget", "auto", "auto", "auto")),
        budget=chance.choice((0.0, 5.0, 20.0, chance.uniform(0, 90))),
        lend=chance.choice(("keep", "lend", "lend", "lend", "lend")),
    )


def random_job(chance: random.Random, kit: Kit, cluster: Cluster, number: int, last_arrival: int) -> Job:
    chunks = chance.randint(1, 5)
    most = chance.randint(1, chunks) if chance.random() < 0.3 else chunks
    arrival = chance.choice((float(chance.randint(0, last_arrival)), chance.uniform(0, last_arrival)))
    return make_job(
        number,
        tenant=chance.randrange(len(cluster.tenants)),
        arrival=arrival,
        epochs=chance.randint(1, 4),
        chunks=chunks,
        minibatches=chance.choice((1, 1, 2)),
        worker_types=random_types(chance, kit.workers, seconds=(0.5, 1.0, 1.0, 1.7)),
        ps_types=random_types(chance, kit.ps, seconds=(0.0, 0.0, 0.25)),
        gradient_mb=chance.choice((0.0, 0.0, 30.0, 112.5, 225.0, chance.uniform(0, 300))),
        value=random_value(chance),
        max_workers=most,
        min_workers=chance.randint(1, most) if chance.random() < 0.25 else 1,
        max_ps=chance.choice((None, None, None, 1, 2)),
        priority=chance.choice((0, 0, 0, 1, -1)),
        max_price=chance.choice((None,) * 6 + (0.0, 4.0, chance.uniform(0, 40))),
        rent=chance.choice((None, None, None, None, "never", "budget", "auto")),
    )


def random_types(
    chance: random.Random, demands: Sequence[Sequence[float]], *, seconds: Sequence[float]
) -> tuple[UnitType, ...]:
    sample = chance.sample(list(demands), chance.randint(1, len(demands)))
    return tuple(
        make_unit_type(demand, seconds=SLOT * chance.choice(seconds), mbps=chance.choice((1.0, 1.0, 2.0, 0.6)))
        for demand in sample
    )


def random_value(chance: random.Random) -> Value:
    """All four kinds, some of which are never worth anything."""
    kind = chance.choice(("linear", "linear", "linear", "convex", "sigmoid", "deadline"))
    round_numbers = chance.random() < 0.5
    base = float(chance.choice((50, 100, 200, -5))) if round_numbers else chance.uniform(-5, 250)
    if kind == "linear":
        return Linear(-float(chance.choice((0, 1, 2, 8, 15))) if round_numbers else -chance.uniform(0, 20), base)
    if kind == "convex":
        return Convex(max(abs(base), 1.0), float(chance.choice((1, 2))) if round_numbers else chance.uniform(0.3, 2))
    if kind == "sigmoid":
        return Sigmoid(max(abs(base), 1.0), chance.choice((0.0, 0.5, chance.uniform(0, 3))), chance.randint(1, 20))
    return Deadline(base, chance.choice((4.0, 9.0, chance.uniform(1, 25))))


def patient_value(chance: random.Random) -> Value:
    """Worth something for a long time."""
    return Linear(
        -chance.choice((0.5, 1.0, 4.0, chance.uniform(0, 8))), chance.choice((200.0, chance.uniform(50, 400)))
    )


def random_policy(chance: random.Random, kit: Kit, mode: str) -> dict[str, Any]:
    fields: dict[str, Any] = {"name": "astraea", "mode": mode}
    if chance.random() < 0.85:
        fields["theta"] = {name: chance.choice((2.0, 2.0, 4.0, 16.0, chance.uniform(2, 30))) for name in kit.resources}
    fields["workers"] = chance.choice(("range", "range", "range", "exact"))
    fields["server_choice"] = chance.choice(("lowest_index", "lowest_index", "least_used"))
    first = chance.choice((1, 2, 3, 4))
    cap = chance.choice((first, 2 * first, 8, 8, 16))
    clock = {"first": first, "cap": cap, "restart": chance.random() < 0.5}
    if mode == "guarantee":
        if chance.random() < 0.85:
            fields["price_floor"] = {name: chance.choice((0.5, 1.0, chance.uniform(0, 2))) for name in kit.resources}
        return fields | {"clock": clock} | some_of(chance, GUARANTEE_CHANGES)
    fields |= some_of(chance, PAPER_CHANGES)
    if chance.random() < 0.25:
        return fields | {"clock": clock}
    return fields | {"rounds": 1 if "value_from" in fields else chance.choice((1, 1, 2, 3))}


PAPER_CHANGES = {
    "own_price": ("zero", "own"),
    "price_floor": (0.5,),
    "payment": ("net",),
    "value_from": ("arrival",),
    "intervals": (2,),
}
GUARANTEE_CHANGES = {"upgrade": (False,), "payment": ("gross",), "price_counts": ("cluster",)}


def some_of(chance: random.Random, changes: dict[str, tuple[Any, ...]]) -> dict[str, Any]:
    """Most markets take a preset as it is; one in four changes a field of it."""
    if chance.random() < 0.75:
        return {}
    name = chance.choice(list(changes))
    return {name: chance.choice(changes[name])}


def mixed_market(seed: int) -> Scenario:
    """A market whose policy mixes the fields of both modes freely."""
    chance = random.Random(f"mixed {seed}")
    scenario = random_market(seed, chance.choice(("paper", "guarantee")), backlog=chance.random() < 0.5)
    fields = dict(scenario.policy)
    for name, choices in MIXED.items():
        if chance.random() < 0.4:
            fields[name] = chance.choice(choices)
    fields["floor"] = scenario.cluster.cells is not None and chance.random() < 0.5
    if chance.random() < 0.3:
        fields |= {"clock": "geometric", "rounds": chance.choice((1, 2, 3))}
    if isinstance(fields.get("clock"), dict):
        fields.pop("rounds", None)
    elif "clock" not in fields and fields["mode"] == "guarantee":
        fields["clock"] = {"first": 2, "cap": 8, "restart": True}
    preload = () if fields["floor"] else scenario.preload  # never on a home cell where home cells are a promise
    return replace(scenario, policy=fields, slots=min(scenario.slots, 20), preload=preload)


MIXED: dict[str, tuple[Any, ...]] = {
    "own_price": ("shadow", "zero", "own"),
    "price_counts": ("cluster", "pool"),
    "payment": ("gross", "net"),
    "value_from": ("round_start", "arrival"),
    "upgrade": (False, True),
    "intervals": (1, 3, None),
}


def random_preload(chance: random.Random, cluster: Cluster, mode: str) -> list[Preload]:
    """Whole units taken beforehand; never a home cell where home cells are a promise."""
    free = cluster.capacity if mode == "paper" else cluster.operator_cells
    return [
        Preload(server=int(s), slot=slot, resource=int(r), amount=1.0)
        for r, s in np.argwhere(free >= 1)
        for slot in range(chance.randint(0, 6), chance.randint(6, 12))
    ]


def contested_market(seed: int) -> Scenario:
    """Guarantee mode where upgrades are common: slow homes of owners who keep their cells or ask a high price for
    them, a large home that is for rent, and urgent jobs that would like what an upgrade leaves empty."""
    chance = random.Random(f"contested {seed}")
    homes = [(chance.randint(1, 2), chance.randint(1, 2)) for _ in range(chance.randint(1, 2))]
    units = np.array([*homes, (chance.randint(3, 6), chance.randint(1, 4))], dtype=float).T
    cells = np.zeros((2, len(homes) + 1, len(homes) + 1))
    for u in range(len(homes) + 1):
        cells[:, u, u] = units[:, u]
    tenants = [contested_tenant(chance, u, seller=u == len(homes)) for u in range(len(homes) + 1)]
    jobs = [
        make_job(
            number,
            tenant=chance.randrange(len(tenants)),
            arrival=chance.choice((0.0, 1.0, 2.5, 5.0)),
            epochs=chance.randint(1, 4),
            chunks=chance.randint(1, 4),
            gradient_mb=chance.choice((0.0, 112.5)),
            value=Linear(-chance.uniform(3, 30), chance.uniform(150, 500)),
        )
        for number in range(chance.randint(4, 10))
    ]
    size = chance.randint(3, 8)
    policy: dict[str, Any] = {"name": "astraea", "mode": "guarantee", "theta": {"worker": 2.0, "ps": 3.0}}
    policy["price_floor"] = {"worker": chance.choice((0.25, 1.0)), "ps": chance.choice((0.25, 1.0))}
    policy["clock"] = {"first": size, "cap": size, "restart": chance.random() < 0.5}
    return Scenario(make_cluster(units, cells=cells, tenants=tenants), tuple(jobs), 24, policy)


def contested_tenant(chance: random.Random, index: int, *, seller: bool) -> Tenant:
    reserve = 0.0 if seller else chance.choice((0.5, 1.3, 2.0))
    lend = "lend" if seller else chance.choice(("keep", "lend", "lend"))
    return make_tenant(f"u{index}", reserve_price=[reserve, chance.choice((0.0, reserve))], lend=lend)
