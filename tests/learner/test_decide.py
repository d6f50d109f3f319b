"""The parts of a learner's step that know no rows: windows, practice, shadows, verdicts."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from scheduling.core import policies, records
from scheduling.core.policies.dl2.files import WeightFile, decode
from scheduling.core.policies.dl2.guard import Memory
from scheduling.core.training.own_slots import DRAIN, ENDS, WINDOW, ScenarioTrial, end_of, scenario_of, trial
from scheduling.learner import decide
from scheduling.learner.decide import SlotPair, verdict_of
from scheduling.market.decide.chain import policy_bytes
from scheduling.market.reads import contents_of
from scheduling.models import Interval
from tests.core.builders import make_cluster, make_job, make_view
from tests.learner.world import NARROW, WIDE, learnt_pool

ALIKE = [ScenarioTrial(5.0, 0.3, 4, 4), ScenarioTrial(6.0, 0.3, 4, 4), ScenarioTrial(7.0, 0.3, 4, 4)]
FASTER = [replace(each, completion=each.completion - 1.0) for each in ALIKE]
SLOWER = [replace(each, completion=each.completion + 1.0) for each in ALIKE]


def pairs(times: float, count: int = 40) -> list[SlotPair]:
    return [SlotPair(slot, 0.2 + 0.01 * (slot % 7), times * (0.2 + 0.01 * (slot % 7))) for slot in range(count)]


def narrow():
    network = decode(NARROW)
    assert not isinstance(network, str)
    return network


def test_windows_never_change_sides() -> None:
    assert [end_of(number) for number in range(5)] == list(ENDS)
    assert [end_of(number) for number in range(5, 10)] == list(ENDS)
    assert ENDS.count("judge") == ENDS.count("choose") == 1


def test_network_that_took_anothers_place_is_not_held_to_what_that_one_did() -> None:
    before = Memory(ran={"7": 3}, poor=2, guard={"code": "reward_poor", "slot": 4})
    assert before.under(None) is before
    after = before.under(9)
    assert (after.guard, after.poor, after.ran) == (None, 0, {"7": 3})
    assert after.under(9) is after
    assert "since" not in before.document()
    assert Memory.read(after.document()) == after


def test_candidate_that_works_more_in_the_same_slots_is_better() -> None:
    verdict = verdict_of(pairs(1.1), (ALIKE, FASTER), (ALIKE, SLOWER), 0.02)
    assert verdict["better"]
    assert verdict["shadow"]["outcome"] == "held"
    assert verdict["shadow"]["times"] == pytest.approx(1.1)
    assert verdict["own"]["outcome"] == "held"
    assert verdict["judging_set"]["outcome"] == "not held"  # shown, and no reason to refuse
    json.dumps(verdict)


@pytest.mark.parametrize(
    ("times", "own"),
    [
        (1.01, FASTER),  # less than the margin
        (1.0, FASTER),  # no difference
        (0.9, FASTER),
        (1.1, SLOWER),
        (1.1, [replace(FASTER[0], ended=3), *FASTER[1:]]),  # a job is left out
        (1.1, FASTER[:2]),  # other windows
        (1.1, [replace(FASTER[0], ended=5, jobs=5), *FASTER[1:]]),  # other jobs
    ],
)
def test_candidate_is_not_better(times: float, own: list[ScenarioTrial]) -> None:
    assert not verdict_of(pairs(times), (ALIKE, own), (ALIKE, ALIKE), 0.02)["better"]


def test_other_sets_of_jobs_are_not_compared() -> None:
    left_out = [replace(FASTER[0], ended=3), *FASTER[1:]]
    verdict = verdict_of(pairs(1.1), (ALIKE, left_out), ([], []), 0.02)
    assert verdict["own"]["outcome"] == verdict["judging_set"]["outcome"] == "not comparable"
    assert "offered ends 3 of 4 jobs" in verdict["own"]["line"]
    assert (verdict["own"]["times"], verdict["judging_set"]["times"]) == (None, None)


def test_gain_within_the_spread_of_the_blocks_is_none() -> None:
    """Ten slots in a row that do much better, and ten that do much worse: neighbours are about the same jobs."""
    wild = [SlotPair(slot, 0.2, 0.2 * (1.9 if slot < 20 else 0.2)) for slot in range(40)]
    verdict = verdict_of(wild, (ALIKE, FASTER), (ALIKE, ALIKE), 0.02)
    assert verdict["shadow"]["outcome"] == "no difference seen"
    assert not verdict["better"]


@pytest.mark.django_db
def test_past_is_played_again_and_practice_is_the_same_each_time() -> None:
    pool, _ = learnt_pool(12)
    stored = [contents_of(row) for row in Interval.objects.filter(pool=pool).order_by("slot")]
    views = [records.view_from(each.view) for each in stored]
    first = scenario_of([view for view in views if view.slot < WINDOW], 0)
    second = scenario_of([view for view in views if view.slot >= WINDOW], 1)
    assert first is not None
    assert second is not None
    assert scenario_of([replace(views[0], waiting=(), remaining=np.zeros(0))], 0) is None
    assert [job.arrival for job in first.jobs] == [0.0, 1.0]
    assert [job.number for job in second.jobs] == list(range(len(second.jobs)))
    assert first.slots == WINDOW + DRAIN

    in_use = narrow()
    done = trial(in_use, first)
    assert (done.ended, done.jobs) == (2, 2)
    assert done.completion == pytest.approx((4.0 + 7.0) / 2)  # one after the other, as the pool served them

    course = decide.course_of(in_use, seed=3)
    begun = decide.training_begun(course, in_use)
    after = decide.practise(course, begun, [first, second])
    again = decide.practise(course, begun_again(course), [first, second])
    assert decide.state_bytes(course, after) == decide.state_bytes(course, again)
    thawed = decide.state_from(course, decide.state_bytes(course, after))
    assert thawed is not None
    assert thawed.rounds == after.rounds == decide.ROUNDS

    # In shadow: the same weights are worth the same, others may not be; and nothing is written.
    before = Interval.objects.count()
    both = next(each for each in stored if len(records.view_from(each.view).waiting) == 2)
    same = decide.shadow_slot(both.policy, both.view, both.plan, NARROW)
    other = decide.shadow_slot(both.policy, both.view, both.plan, WIDE)
    assert same.reward == same.reward_in_use == other.reward_in_use
    assert other.reward == pytest.approx(2 * same.reward)
    assert Interval.objects.count() == before


def begun_again(course):
    return decide.training_begun(course, narrow())


def test_shadow_leaves_an_unbroken_job_where_it_is_too() -> None:
    """By itself the network serves the job that came first alone, which has more work."""
    first, unbroken = (
        make_job(0, arrival=0.0, chunks=4, minibatches=9, max_ps=4),
        make_job(1, arrival=1.0, chunks=4, max_ps=4, minibatches=3, unbroken=True),
    )
    cluster = make_cluster([[4], [4]], quota=[[0], [0]])
    remembered = {"unbroken": {"slot": 1, "gangs": {"1": [0, 0, [[cluster.servers[0], 4, 4]]]}}}
    view = make_view(cluster=cluster, waiting=(first, unbroken), slot=2, memory=remembered)
    weights = {"weights": WeightFile("narrow", NARROW), "digest": "", "since": None, "guard": False}
    settings = {"name": "elastic", "policy": {"name": "dl2"} | weights, "prices": {}}
    policy = policies.build(settings, cluster, ())
    plan = policy.decide(view)
    assert [booking.job for booking in plan.bookings] == [1]
    assert [booking.job for booking in policy.decide(replace(view, memory={})).bookings] == [0]
    stored = policy_bytes(policy), records.view_bytes(view), records.plan_bytes(plan)
    pair = decide.shadow_slot(*stored, NARROW)
    assert pair.reward == pair.reward_in_use > 0


def test_judging_set_is_the_same_for_everybody() -> None:
    first, again = decide.judging_set(), decide.judging_set()
    assert len(first) == len(decide.JUDGING_SEEDS)
    assert [len(each.jobs) for each in first] == [10] * len(first)
    assert [each.jobs[0].arrival for each in first] == [each.jobs[0].arrival for each in again]
