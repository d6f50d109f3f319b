"""Steps of a learner beside a pool with a past long enough to learn from: practice, the rule, and a second worker."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from scheduling.core.policies.dl2.files import encode
from scheduling.core.policies.dl2.shape import BOTH
from scheduling.core.training.own_slots import LEARN
from scheduling.learner import decide, working
from scheduling.learner.apply import Practised, practice_keep, verdict_keep
from scheduling.learner.gather import Work, shadows_due, windows_of, work_of
from scheduling.learner.working import learner_step
from scheduling.models import (
    CandidateState,
    PolicyWeights,
    Pool,
    PoolLearner,
    WeightsCandidate,
    WeightsPromotion,
)
from tests.database import overrule
from tests.learner.world import (
    PAST,
    candidate_of,
    decided_with,
    learner_of,
    learnt_pool,
    network,
    stored,
    switched,
    take_weights,
)
from tests.scheduling.builders import NOON
from tests.scheduling.clocks import moment
from tests.scheduling.elastic_world import all_is_sound, run
from tests.worlds import built_once

pytestmark = pytest.mark.django_db

past = built_once(lambda: learnt_pool()[0])


@pytest.fixture(autouse=True)
def few_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the judging set."""
    monkeypatch.setattr(decide, "JUDGING_SEEDS", decide.JUDGING_SEEDS[:2])


def step(pool: Pool, slot: float) -> None:
    assert learner_step(pool_id=pool.pk, clock=lambda: moment(pool, slot))


@pytest.mark.wide
def test_step_practises_on_the_pools_slots_and_a_second_worker_changes_nothing(past: Pool) -> None:
    pool = past
    switched(pool, is_on=True)
    late = work_of(pool.pk)
    assert late is not None
    step(pool, PAST + 0.5)
    learner = learner_of(pool)
    assert (learner.step, len(learner.curve), learner.sentence) == (1, 1, "")
    assert learner.curve[0]["round"] == 8
    assert decided_with(pool)[PAST][0] == "narrow"
    # The second worker read before the first one wrote, and did the same work.
    practised = working._practised(late)
    assert not isinstance(practised, str)
    assert practised.row == learner.curve[0]
    assert not practice_keep(late, practised, moment(pool, PAST + 0.6))
    again = learner_of(pool)
    assert (again.step, bytes(again.state), again.curve) == (1, bytes(learner.state), learner.curve)
    assert WeightsCandidate.objects.count() <= 1
    # The next step goes on from there.
    step(pool, PAST + 0.7)
    assert learner_of(pool).curve[1]["round"] == 16
    all_is_sound(pool)


@pytest.mark.wide
def test_rule_puts_in_place_what_has_won_once_and_only_where_it_is_on(past: Pool) -> None:
    pool = past
    switched(pool, is_on=True, shadow_slots=10)
    candidate = candidate_of(pool)
    step(pool, PAST + 0.5)
    candidate.refresh_from_db()
    assert candidate.state == CandidateState.OFFERED, candidate.verdict
    assert candidate.verdict["own"]["outcome"] in ("held", "no difference seen")
    assert not WeightsPromotion.objects.exists()
    switched(pool, is_on=True, shadow_slots=10, promotes=True)
    late = work_of(pool.pk)
    step(pool, PAST + 0.6)
    (promotion,) = WeightsPromotion.objects.all()
    assert (promotion.weights.name, promotion.by_rule, promotion.from_slot) == ("wide", True, PAST + 1)
    assert late is not None
    working._promoted_by_rule(late, lambda: moment(pool, PAST + 0.7))
    assert WeightsPromotion.objects.count() == 1
    run(pool, PAST + 1, PAST + 2)
    assert not verdict_keep(late, candidate.verdict, NOON)
    all_is_sound(pool)


def better(work: Work) -> Practised:
    """What a step finds that has learnt something."""
    assert work.in_use is not None
    row = {"round": 8, "slots": 10, "windows": 1, "times": 0.9}
    return Practised(b"", work.in_use.digest, row, decide.network_stored(encode(network(BOTH, seed=9))))


def test_what_is_learnt_after_a_promotion_in_the_same_step_is_judged_against_what_decides_now(
    past: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = past
    switched(pool, is_on=True, promotes=True)
    candidate_of(pool, CandidateState.OFFERED)
    monkeypatch.setattr(working, "_practised", better)
    step(pool, PAST + 0.5)
    assert WeightsPromotion.objects.get().weights.name == "wide"
    candidate = WeightsCandidate.objects.get(state=CandidateState.SHADOW)
    assert candidate.against == PolicyWeights.objects.get(name="wide").digest
    assert candidate.from_slot == PAST + 1


def test_what_was_learnt_beside_weights_that_are_no_longer_in_use_is_no_candidate(
    past: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = past
    switched(pool, is_on=True)
    candidate_of(pool, CandidateState.OFFERED)

    def taken_meanwhile(work: Work) -> Practised:
        take_weights(pool, "wide", PAST + 0.4)
        return better(work)

    monkeypatch.setattr(working, "_practised", taken_meanwhile)
    step(pool, PAST + 0.5)
    assert not WeightsCandidate.objects.filter(state=CandidateState.SHADOW).exists()
    assert learner_of(pool).step == 1


def test_state_that_cannot_be_read_is_begun_anew(past: Pool) -> None:
    pool = past
    switched(pool, is_on=True)
    step(pool, PAST + 0.5)
    PoolLearner.objects.update(state=b"torn")
    step(pool, PAST + 0.6)
    assert [row["round"] for row in learner_of(pool).curve] == [8, 8]


def test_training_begins_anew_from_what_was_put_in_place(past: Pool) -> None:
    pool = past
    switched(pool, is_on=True)
    step(pool, PAST + 0.5)
    WeightsCandidate.objects.update(state=CandidateState.NOT_BETTER)
    candidate_of(pool, CandidateState.OFFERED)
    take_weights(pool, "wide", PAST + 0.6)
    step(pool, PAST + 0.7)
    learner = learner_of(pool)
    assert [row["round"] for row in learner.curve] == [8, 8]
    assert learner.began_with == PolicyWeights.objects.get(name="wide").digest


def test_candidate_of_the_same_bytes_is_one(past: Pool) -> None:
    pool = past
    switched(pool, is_on=True)
    same = encode(network(BOTH, seed=7))
    stored("twin", same)
    work = work_of(pool.pk)
    assert work is not None
    practised = working._practised(work)
    assert not isinstance(practised, str)
    assert practice_keep(work, replace(practised, candidate=decide.network_stored(same)), NOON)
    assert not WeightsCandidate.objects.exists()
    assert learner_of(pool).step == 1


def test_slots_that_lie_in_an_archive_are_left_out(past: Pool) -> None:
    pool, archived = past, 12
    switched(pool, is_on=True)
    windows, candidate = windows_of(pool, PAST, LEARN), candidate_of(pool)
    overrule("ALTER TABLE scheduling_interval DISABLE TRIGGER USER")  # until the end of the test's transaction
    overrule("UPDATE scheduling_interval SET view = '', plan = '' WHERE slot <= %s", [archived])
    assert len(windows_of(pool, PAST, LEARN)) == len(windows) - 2
    first = next(shadows_due(candidate))
    assert json.loads(first.view)["slot"] > archived
