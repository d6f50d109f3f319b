"""Servers that the cheapest units never reach are left out, and the answer is the one that looks at all of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from scheduling.core import records
from scheduling.core.calendar import Shared
from scheduling.core.parts import parts_of
from scheduling.core.policies import build
from scheduling.core.policies.oasis import curves
from scheduling.core.posted import market
from scheduling.core.types import INSTANT, Cluster, Job, Resale, View, Window
from scheduling.core.value import Linear
from tests.core.builders import SLOT_SECONDS, make_cluster, make_job, make_unit_type

POLICY = {
    "name": "oasis",
    "worker_price": {"floor": 0.03, "ceiling": {"worker": 9.0, "gpu": 5.0}},
    "ps_price": {"floor": 0.02, "ceiling": {"ps": 4.0}},
}
RESOURCES, TENANTS, FRONTIER = ("worker", "ps", "gpu"), 3, 5


def random_view(seed: int) -> View:
    """Half of the servers are alike, most are idle in the operator's part, some have units to be sold again."""
    dice = np.random.default_rng([29, seed])
    servers = int(dice.choice([2, 9, 40]))
    spare = dice.choice([0.0, 2.0, 4.0], size=(3, servers))
    spare[:, : servers // 2] = 4.0
    cells = np.zeros((3, TENANTS, servers))
    cells[:, dice.integers(0, TENANTS, servers), np.arange(servers)] = dice.choice([0.0, 3.0, 3.0], size=servers)
    cluster = make_cluster(cells.sum(axis=1) + spare, resources=RESOURCES, quota=cells.sum(axis=2), cells=cells)
    cluster = replace(cluster, hosts_workers=dice.random(servers) < 0.9, hosts_ps=dice.random(servers) < 0.9)
    calendar = Shared(parts_of(cluster))
    calendar.frontier = FRONTIER
    calendar.windows = [random_window(dice)]
    home = dice.integers(0, 4, size=(3, FRONTIER, servers)) * (dice.random(servers) < dice.random())
    calendar.home_all.fill(np.minimum(home, cells.sum(axis=1)[:, None, :]))
    sold = dice.integers(0, 4, size=(3, int(dice.integers(0, 8)), servers)) * (dice.random(servers) < dice.random() / 2)
    calendar.operator_instant.fill(np.minimum(sold, spare[:, None, :]))
    stage, job = calendar.stage(INSTANT, 0), random_job(dice)
    return View(
        slot=0,
        horizon=40,
        cluster=stage.cluster,
        waiting=(job,),
        remaining=np.array([float(job.work)]),
        occupied=stage.occupied,
        tail=stage.tail,
        windows=stage.windows,
        jobs={job.number: job},
        resale=random_resale(dice, stage.cluster),
        own_idle=calendar.own_idle(0, 0) if dice.random() < 0.3 else None,
    )


def random_window(dice: np.random.Generator) -> Window:
    idle = dice.integers(0, 9, size=(3, TENANTS + 1, FRONTIER)).astype(float)
    idle[:, -1] = 0.0
    prices = np.repeat(dice.choice([0.0, 0.05, 0.2], size=(3, 1)), FRONTIER, axis=1)
    return Window(0, FRONTIER, prices, idle, np.zeros((3, FRONTIER)))


def random_job(dice: np.random.Generator) -> Job:
    demand = (float(dice.integers(1, 3)), 0.0, float(dice.choice([0, 1, 2])))
    return make_job(
        9,
        epochs=int(dice.integers(1, 5)),
        chunks=int(dice.choice([2, 10, 30])),
        worker_types=[make_unit_type(demand, seconds=SLOT_SECONDS, mbps=1.0)],
        ps_types=[make_unit_type((0.0, float(dice.integers(1, 3)), 0.0), seconds=0.0, mbps=float(dice.choice([1, 4])))],
        max_workers=int(dice.choice([1, 2, 5, 30])),
        value=Linear(-float(dice.uniform(0.1, 6)), float(dice.choice([5.0, 200.0, 2000.0]))),
        max_price=float(dice.choice([0.5, 5.0])) if dice.random() < 0.3 else None,
    )


def random_resale(dice: np.random.Generator, cluster: Cluster) -> tuple[Resale, ...]:
    places, count = len(cluster.servers), int(dice.choice([0, 0, 3]))
    return tuple(
        Resale(
            int(dice.integers(0, places)),
            int(dice.integers(0, 3)),
            int(dice.integers(0, 5)),
            int(dice.integers(0, TENANTS)),
            0.5,
        )
        for _ in range(count)
    )


@pytest.mark.parametrize("block", range(5))
def test_the_answer_is_that_of_all_servers(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    views = [random_view(60 * block + number) for number in range(60)]
    monkeypatch.setattr(market, "FEWEST", 1)
    left_out: list[int] = []

    def counting(whole: Any, axis: int) -> Any:
        def counted(*arguments: Any) -> Any:
            servers = whole(*arguments)
            left_out.append(arguments[axis].shape[-1] - len(servers))
            return servers

        return counted

    with monkeypatch.context() as counted:
        counted.setattr(market.PostedMarket, "reachable", counting(market.PostedMarket.reachable, 1))
        counted.setattr(curves, "_reached", counting(curves._reached, 0))
        answers = [answer(view) for view in views]
    assert sum(number > 0 for number in left_out) > 60
    monkeypatch.setattr(market.PostedMarket, "reachable", lambda _, hosts, __: np.flatnonzero(hosts))
    monkeypatch.setattr(curves, "_reached", lambda unit, *_: np.arange(unit.shape[1]))
    assert answers == [answer(view) for view in views]
    assert sum(b'"bookings":[]' not in each for each in answers) > 20


def answer(view: View) -> bytes:
    return records.plan_bytes(build(POLICY, view.cluster, ()).decide(view))


def test_servers_are_alike_that_have_as_much_of_everything_at_home_and_beside_it() -> None:
    capacity = [[4, 4, 4, 8, 4], [2, 2, 2, 2, 1]]
    cells = [[[4, 0, 4, 8, 4]], [[2, 0, 2, 2, 1]]]
    kinds = market.server_kinds(make_cluster(capacity, quota=[[20], [7]], cells=cells)).tolist()
    assert kinds[0] == kinds[2]
    assert len(set(kinds)) == 4
