"""The price base follows what the jobs of late were worth: between batches only, and replays from the memory."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduling.core import policies, records
from scheduling.core.policies.astraea import Astraea
from scheduling.core.policies.astraea.rules.trailing import DEFAULTS, MOST_KEPT, Trailing, price_base, remembered
from scheduling.core.scenario import BadScenario
from scheduling.core.types import Job, View
from scheduling.core.value import Linear
from tests.core.builders import make_cluster, make_job, make_ps, make_worker

CLUSTER = make_cluster(((4,), (2,)), cells=(((4,),), ((2,),)))
STEADY = {"first": 4, "cap": 4, "restart": False}
TRAILING: Trailing = {**DEFAULTS, "least_jobs": 1}


def policy(**fields: Any) -> Astraea:
    settings = {"name": "astraea", "mode": "guarantee", "theta": {"worker": 3.0, "ps": 3.0}, **fields}
    built = policies.build(settings, CLUSTER, ())
    assert isinstance(built, Astraea)
    return built


def view(slot: int, *jobs: Job, memory: dict[str, Any] | None = None) -> View:
    return View(
        slot=slot,
        horizon=10**6,
        cluster=CLUSTER,
        waiting=jobs,
        remaining=np.array([float(job.work) for job in jobs]),
        occupied=np.zeros((2, 0, 1)),
        jobs={job.number: job for job in jobs},
        memory=memory or {},
    )


def worth(number: int, credits: float, *, arrival: float = 0.0) -> Job:
    """One worker for one slot: so many credits for its worker-slot, and for its parameter server's."""
    return make_job(number, arrival=arrival, value=Linear(slope=0.0, base=credits))


def base_after(*batches: list[Job], trailing: Trailing = TRAILING, theta: float = 3.0) -> dict[str, float]:
    memory: dict[str, Any] = {}
    for number, jobs in enumerate(batches, start=1):
        memory = remembered(trailing, memory, view(4 * number, *jobs), jobs, exact=False)
    return price_base({"worker": theta, "ps": theta}, trailing, memory)


def test_price_base_is_one_more_than_a_part_of_the_quantile() -> None:
    jobs = [worth(number, 10.0 * number) for number in range(1, 11)]
    assert base_after(jobs) == {"worker": 1 + 0.8 * 90, "ps": 1 + 0.8 * 90}
    assert base_after(jobs, trailing={**TRAILING, "quantile": 0.5, "factor": 0.1})["worker"] == 1 + 0.1 * 50


def test_price_base_is_never_below_two() -> None:
    assert base_after([worth(1, 0.01)]) == {"worker": 2.0, "ps": 2.0}


def test_configured_price_base_holds_until_enough_jobs_were_seen() -> None:
    few, enough = [worth(n, 10.0) for n in range(19)], [worth(n, 10.0) for n in range(20)]
    assert base_after(few, trailing=DEFAULTS) == {"worker": 3.0, "ps": 3.0}
    assert base_after(enough, trailing=DEFAULTS) == {"worker": 9.0, "ps": 9.0}
    assert base_after(trailing=DEFAULTS) == {"worker": 3.0, "ps": 3.0}


def test_only_the_last_batches_with_new_jobs_count() -> None:
    two: Trailing = {**TRAILING, "batches": 2}
    old, new, newest = [worth(1, 1000.0)], [worth(2, 10.0, arrival=4)], [worth(3, 20.0, arrival=12)]
    assert base_after(old, new, trailing=two)["worker"] == 801
    assert base_after(old, new, [], newest, [], trailing=two)["worker"] == 1 + 0.8 * 20


def test_a_job_that_waits_on_counts_once() -> None:
    dear = worth(1, 1000.0)
    cheap = [worth(number, 10.0, arrival=4) for number in range(2, 12)]
    assert base_after([dear], [dear, *cheap])["worker"] == 9.0


def test_a_resource_that_no_job_names_keeps_its_price_base() -> None:
    job = make_job(1, worker_types=[make_worker()], ps_types=[make_ps()])
    memory = remembered(TRAILING, {}, view(4, job), [job], exact=False)
    assert price_base({"worker": 3.0, "ps": 3.0, "disk": 5.0}, TRAILING, memory)["disk"] == 5.0


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.lists(st.integers(1, 500), max_size=200), min_size=1, max_size=4),
    st.floats(0.0, 1.0),
)
def test_what_is_kept_of_large_batches_gives_nearly_the_quantile_of_all(batches: list[list[int]], part: float) -> None:
    """Each kept figure stands for a stretch of ranks, so the rank is off by at most that stretch per batch."""
    setting: Trailing = {**TRAILING, "quantile": part, "factor": 1.0, "batches": 4}
    jobs_by_batch = [
        [worth(n, float(credits) + 1, arrival=4.0 * number) for n, credits in enumerate(figures)]
        for number, figures in enumerate(batches)
    ]
    quantile = base_after(*jobs_by_batch, trailing=setting, theta=2.0)["worker"] - 1.0
    every = sorted(credits + 1 for figures in batches for credits in figures)
    if not every:
        return
    slack = sum(len(figures) / min(len(figures), MOST_KEPT) for figures in batches if figures) + 1
    low = every[max(int(part * len(every) - slack), 0)]
    high = every[min(int(part * len(every) + slack), len(every) - 1)]
    assert low <= quantile <= high


@pytest.mark.parametrize("clock", [STEADY, {"first": 1, "cap": 4, "restart": True}])
def test_prices_of_a_batch_come_from_the_batches_before_it(clock: dict[str, Any]) -> None:
    trailing_policy = policy(clock=clock, trailing={"least_jobs": 1}, floor=False, price_floor=0.0)
    memory: dict[str, Any] = {}
    bases, last = [], 24
    for slot in range(last):
        jobs = [worth(slot, 100.0 + slot, arrival=slot - 0.5)] if slot else []
        batch_view = view(slot, *jobs, memory=memory)
        plan = trailing_policy.decide(batch_view)
        bases.append(trailing_policy.in_force(batch_view).theta["worker"])
        memory = memory if plan.memory is None else dict(plan.memory)
    assert bases[0] == 3.0
    assert len(set(bases)) > 3
    changed = [slot for slot in range(1, last) if bases[slot] != bases[slot - 1]]
    assert all(base < 1 + 0.8 * (100 + slot) for slot, base in enumerate(bases) if slot)  # never its own jobs
    assert changed


def test_a_batch_without_the_setting_remembers_nothing() -> None:
    plan = policy(clock=STEADY).decide(view(4, worth(1, 50.0)))
    assert plan.memory is None


def test_a_view_and_its_plan_replay_to_the_same_bytes() -> None:
    trailing_policy = policy(clock=STEADY, trailing={"least_jobs": 1})
    first = trailing_policy.decide(view(4, *(worth(n, 7.3 * n) for n in range(1, 90))))
    assert first.memory is not None
    second = view(8, worth(91, 50.0, arrival=5), memory=json.loads(json.dumps(dict(first.memory))))
    stored = records.view_bytes(second), records.plan_bytes(trailing_policy.decide(second))
    again = records.view_from(stored[0])
    assert records.view_bytes(again) == stored[0]
    fields = json.loads(records.to_bytes({"name": "astraea", **vars(trailing_policy)}))
    rebuilt = policies.build(fields, again.cluster, ())
    assert records.plan_bytes(rebuilt.decide(again)) == stored[1]
    without = policies.build({**fields, "trailing": None}, again.cluster, ())
    assert records.plan_bytes(without.decide(again)) != stored[1]


@pytest.mark.parametrize(
    ("place", "field"),
    [
        ("policy.trailing.batches", {"batches": 0}),
        ("policy.trailing.quantile", {"quantile": 1.5}),
        ("policy.trailing.factor", {"factor": -1}),
        ("policy.trailing.weeks", {"weeks": 1}),
    ],
)
def test_an_impossible_setting_is_refused_by_name(place: str, field: dict[str, Any]) -> None:
    with pytest.raises(BadScenario) as refused:
        policy(trailing=field)
    assert str(refused.value).startswith(place)
