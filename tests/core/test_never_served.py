"""What a batch lane will never serve, said before it is asked, and what would help."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from scheduling.core.policies import build
from scheduling.core.policies.astraea import Astraea
from scheduling.core.policies.astraea.ways import candidates
from scheduling.core.policies.astraea.window.screening import most_together
from scheduling.core.scenario import Scenario
from scheduling.core.simulation import simulate
from scheduling.core.types import AWARDED, Cluster, Job, Reason
from scheduling.core.value import Linear
from tests.core.builders import make_cluster, make_job, make_ps
from tests.core.random_markets import random_market
from tests.core.test_floor_promise import Recorded


def guarantee(cluster: Cluster, cap: int = 8, **fields: Any) -> Astraea:
    clock = {"first": 1, "cap": cap, "restart": True}
    policy = build({"name": "astraea", "mode": "guarantee", "clock": clock, **fields}, cluster, [])
    assert isinstance(policy, Astraea)
    return policy


def two_owners() -> Cluster:
    """The first tenant has one worker, the second eight, all on servers with parameter servers to spare."""
    cells = [[[1.0, 0.0], [0.0, 8.0]], [[2.0, 0.0], [0.0, 8.0]]]
    return make_cluster([[1.0, 8.0], [2.0, 8.0]], cells=cells)


def make(*, tenant: int = 0, **fields: Any) -> Job:
    usual: dict[str, Any] = {"epochs": 50, "chunks": 4, "max_workers": 4, "value": Linear(-1.0, 100.0)}
    return make_job(0, tenant=tenant, ps_types=[make_ps(mbps=8.0)], **(usual | fields))


def never(job: Job, cluster: Cluster | None = None, slot: int = 1, **fields: Any) -> Reason | None:
    cluster = cluster or two_owners()
    return guarantee(cluster, **fields).never_serves(cluster, job, slot)


def test_fifty_slots_where_the_longest_interval_has_eight() -> None:
    reason = never(make())
    assert reason is not None
    assert (reason.code, reason.numbers["needs_slots"], reason.numbers["window_slots"]) == ("larger_than_window", 50, 8)
    assert (reason.numbers["enough_workers"], reason.numbers["epochs_that_fit"]) == (None, 8)
    assert reason.numbers["fewest_pieces"] == 7  # of eight slots each, on whichever servers
    assert reason.numbers["home_end"] == 201  # two hundred slots on its one worker, from slot 1 on


def test_more_workers_help_where_the_job_could_use_them_and_the_cluster_has_them() -> None:
    urgent = {"value": Linear(-2.0, 100.0), "epochs": 10}  # at home it would take fifty slots and more
    reason = never(make(chunks=12, **urgent))
    assert reason is not None
    assert reason.numbers["needs_slots"] == 30
    assert reason.numbers["enough_workers"] is None  # even nine workers take fourteen slots
    reason = never(make(chunks=6, max_workers=2, **urgent), cap=12)
    assert reason is not None
    assert (reason.numbers["enough_workers"], reason.numbers["epochs_that_fit"]) == (5, 4)
    assert never(make(chunks=6, max_workers=5, **urgent), cap=12) is None
    assert never(make(chunks=6, max_workers=2, **(urgent | {"epochs": 4})), cap=12) is None


def test_home_serves_any_length_as_long_as_that_is_worth_anything() -> None:
    assert never(make(tenant=1)) is None  # fifty slots on its own eight workers leave it worth 49
    patient = Linear(-0.1, 100.0)
    assert never(make(value=patient)) is None  # two hundred slots on its one worker
    late = never(make(value=patient), slot=900)
    assert late is not None
    assert late.numbers["home_end"] == 1_100


def test_a_gang_that_no_cluster_holds_is_told_so() -> None:
    reason = never(make(chunks=40, min_workers=40, max_workers=40))
    assert reason is not None
    assert reason.numbers["needs_slots"] is None
    assert reason.numbers["epochs_that_fit"] is None


def test_a_cluster_that_has_nothing_yet_or_lost_all_says_nothing_about_later() -> None:
    assert never(make(), make_cluster([[0.0], [0.0]], cells=[[[0.0]], [[0.0]]])) is None


def test_windows_that_grow_for_ever_hold_everything_some_day() -> None:
    cluster = two_owners()
    policy = build({"name": "astraea", "mode": "paper"}, cluster, [])
    assert isinstance(policy, Astraea)
    assert policy.longest_window is None
    assert policy.never_serves(cluster, make(), 1) is None


def test_gangs_of_each_job_that_is_looked_at_are_listed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where parts of the job are looked at beside all of it."""
    jobs_in_order: list[Job] = []  # the jobs themselves, so that no number of one is another's later
    list_gangs = candidates._list_gangs

    def counted(job: Job, *others: Any) -> Any:
        jobs_in_order.append(job)
        return list_gangs(job, *others)

    monkeypatch.setattr(candidates, "_list_gangs", counted)
    job = make(chunks=40, min_workers=40, max_workers=40, divisible=True)
    assert never(job) is not None
    assert job in jobs_in_order
    assert len({id(each) for each in jobs_in_order}) == len(jobs_in_order)


@pytest.mark.one_case
@pytest.mark.parametrize("mode", ["guarantee", "paper"])
def test_what_is_said_never_to_be_served_never_is_and_what_helps_helps(mode: str) -> None:
    refusals = 0
    for seed in range(150):
        scenario = _short_windows(random_market(seed, mode, backlog=seed % 2 == 1))
        policy = build(scenario.policy, scenario.cluster, scenario.jobs)
        assert isinstance(policy, Astraea)
        jobs = {job.number: job for job in scenario.jobs}
        reasons = {n: policy.never_serves(scenario.cluster, job, job.first_slot) for n, job in jobs.items()}
        outcome = simulate(scenario, {"batch": policy})
        for track in outcome.tracks:
            reason = reasons[track.job.number]
            if reason is None:
                continue
            refusals += 1
            assert track.state != AWARDED, f"seed {seed}: {track.job.name}"
            for name, field in (("enough_workers", "max_workers"), ("epochs_that_fit", "epochs")):
                if (number := reason.numbers.get(name)) is not None:
                    helped = replace(track.job, **{field: number})
                    assert policy.never_serves(scenario.cluster, helped, helped.first_slot) is None
    assert refusals > 15


def _short_windows(scenario: Scenario) -> Scenario:
    clock = {"first": 1, "cap": 2, "restart": False}
    return replace(scenario, policy={**scenario.policy, "clock": clock, "rounds": 1})


def test_a_window_has_room_for_so_many_jobs_and_no_more() -> None:
    """A guest's job takes two workers for two slots; nine workers stand there for eight."""
    cluster = make_cluster([[1.0, 8.0], [4.0, 8.0]], cells=[[[0.0, 0.0], [1.0, 8.0]], [[0.0, 0.0], [4.0, 8.0]]])
    job = make(epochs=1, chunks=4, max_workers=2, min_workers=2)
    assert guarantee(cluster).most_together(cluster, job) == 18
    assert guarantee(cluster, cap=1).most_together(cluster, job) == 0
    assert guarantee(cluster).most_together(cluster, replace(job, tenant=1)) is None  # one after the other at home
    assert most_together(guarantee(cluster), cluster, job, cap=None) is None  # windows grow for ever


@pytest.mark.one_case
@pytest.mark.parametrize("mode", ["guarantee", "paper"])
def test_no_decision_serves_more_jobs_at_once_than_was_said(mode: str) -> None:
    limits = []
    for seed in range(40):
        scenario = random_market(seed, mode)
        jobs = tuple(replace(scenario.jobs[0], number=number, name=f"j{number}") for number in range(40))
        astraea = build(scenario.policy, scenario.cluster, jobs)
        assert isinstance(astraea, Astraea)
        policy = Recorded(astraea)
        simulate(replace(scenario, jobs=jobs, slots=24), {"batch": policy})
        most = astraea.most_together(scenario.cluster, jobs[0])
        limits.append(most)
        if most is not None:
            assert max((len(plan.bookings) for plan in policy.plans.values()), default=0) <= most, seed
    assert sum(each is not None and each < 40 for each in limits) > 5
