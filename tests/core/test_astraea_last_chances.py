"""Which jobs are outbid in their last chance: the next boundary finds them worth nothing."""

from __future__ import annotations

from typing import Any

import pytest

from scheduling.core import policies
from scheduling.core.policies.astraea.policy import Astraea
from scheduling.core.types import EXPIRED, WAITING, Cluster, HasWindows, Job, Reason
from scheduling.core.value import Linear
from tests.core.builders import make_cluster, make_job, make_tenant, make_view

STEADY = {"first": 4, "cap": 4, "restart": False}


def homeless() -> Cluster:
    """u0 has nothing, u1 four workers and a server for them: what u0 gets, it rents, at 0.5 a unit and slot or more."""
    return make_cluster(
        ((4,), (1,)), cells=(((0,), (4,)), ((0,), (1,))), tenants=(make_tenant("u0"), make_tenant("u1"))
    )


def policy_of(cluster: Cluster, jobs: list[Job], **fields: Any) -> Astraea:
    settings = {"mode": "guarantee", "theta": dict.fromkeys(cluster.resources, 4), "price_floor": 0.5, "clock": STEADY}
    policy = policies.build({"name": "astraea", **settings, **fields}, cluster, jobs)
    assert isinstance(policy, Astraea)
    return policy


def answer_to(value: Linear, **fields: Any) -> tuple[str, str, dict[int, Reason]]:
    """(state, reason, last chances) of a job of two slots at the boundary 4, whose window ends at 8."""
    cluster, job = homeless(), make_job(0, epochs=2, chunks=4, max_workers=4, value=value)
    policy, view = policy_of(cluster, [job], **fields), make_view([job], slot=4, cluster=cluster)
    plan = policy.decide(view)
    (refusal,) = plan.refusals
    return refusal.state, refusal.reason.code, dict(policy.last_chances(view, plan))


@pytest.mark.parametrize(
    ("value", "is_last"),
    [
        (Linear(-0.25, 2.5), True),  # worth 1 if it ends at 6, and 0 if at 10
        (Linear(-0.2, 2.2), False),  # worth 0.2 if it ends at 10
        (Linear(0, 1), False),  # worth the same for ever
    ],
)
def test_the_last_chance_is_the_boundary_before_the_one_that_finds_it_worth_nothing(
    value: Linear, is_last: bool
) -> None:
    state, reason, last = answer_to(value)
    assert (state, reason) == (WAITING, "outbid")
    assert set(last) == ({0} if is_last else set())
    if is_last:
        assert last[0].numbers["value"] == 1.0
        assert last[0].numbers["price"] > 1.0
    cluster, job = homeless(), make_job(0, epochs=2, chunks=4, max_workers=4, value=value)
    (next_one,) = policy_of(cluster, [job]).decide(make_view([job], slot=8, cluster=cluster)).refusals
    assert (next_one.state == EXPIRED) == is_last


def test_whoever_is_worth_nothing_already_has_no_chance_left() -> None:
    state, reason, last = answer_to(Linear(-1, 5))
    assert (state, reason, last) == (EXPIRED, "not_worth_it", {})


def test_where_nothing_is_decided_any_more_no_boundary_finds_anything() -> None:
    assert answer_to(Linear(-0.25, 2.5), intervals=1)[2] == {}


def test_a_policy_with_windows_can_say_it() -> None:
    cluster = homeless()
    assert isinstance(policy_of(cluster, []), HasWindows)
