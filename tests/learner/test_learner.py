"""A learner beside a live pool: its steps, its verdict, what is put in place and when, and a second worker."""

from __future__ import annotations

import subprocess
import sys
from datetime import datetime, timedelta

import pytest
from django.db import DatabaseError, connection, transaction

from scheduling.learner import working
from scheduling.learner.apply import shadows_keep
from scheduling.learner.gather import MOST_SHADOWS, work_of
from scheduling.learner.promotion import learner_set, weights_back
from scheduling.learner.read_learner import LearnerSettings, learner_state
from scheduling.learner.working import learner_step, learners_due, learners_round
from scheduling.models import (
    CandidateState,
    Event,
    Interval,
    PolicyWeights,
    Pool,
    PoolLearner,
    ShadowSlot,
    WeightsCandidate,
    WeightsPromotion,
)
from tenants.access import Access, Refused
from tenants.models import AuditEntry
from tests.database import overrule
from tests.learner.world import (
    BY,
    WHY,
    candidate_of,
    decided_with,
    learner_of,
    learnt_pool,
    switched,
    take_weights,
)
from tests.management.files import output_of
from tests.scheduling.builders import NOON, make_pool
from tests.scheduling.clocks import moment
from tests.scheduling.elastic_world import all_is_sound, make_elastic, run

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def few_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the judging set."""
    monkeypatch.setattr(working.decide, "JUDGING_SEEDS", working.decide.JUDGING_SEEDS[:2])


def step(pool: Pool, slot: float) -> bool:
    return learner_step(pool_id=pool.pk, clock=lambda: moment(pool, slot))


# ---------------------------------------------------------------- promotion


def test_promotion_decides_from_the_next_boundary_and_each_interval_names_what_decided_it() -> None:
    pool, _ = learnt_pool(3)
    wide = candidate_of(pool, CandidateState.OFFERED).weights
    narrow = PolicyWeights.objects.get(name="narrow")
    assert take_weights(pool, "wide", 3.5) == 4
    run(pool, 4, 12)
    assert weights_back(pool=pool, by=BY, reason=WHY, at=moment(pool, 12.5)) == 13
    run(pool, 13, 24)
    named = decided_with(pool)
    assert {named[slot] for slot in named if slot < 4} == {("narrow", narrow.digest)}
    assert {named[slot] for slot in named if 4 <= slot < 13} == {("wide", wide.digest)}
    assert {named[slot] for slot in named if slot >= 13} == {("narrow", narrow.digest)}
    assert {slot for slot in named if slot < 4}, "no slot was decided before"
    all_is_sound(pool)


def test_other_weights_serve_otherwise() -> None:
    """Two jobs wait: the narrow network serves one, the wide one both."""
    pool, _ = learnt_pool(1)
    candidate_of(pool, CandidateState.OFFERED)
    served = [Interval.objects.get(pool=pool, slot=1).jobs_awarded]
    take_weights(pool, "wide", 1.5)
    run(pool, 2, 2)
    served.append(Interval.objects.get(pool=pool, slot=2).jobs_awarded)
    assert served == [1, 2]


def test_promotion_said_again_is_one_and_only_of_what_won_or_decided_here() -> None:
    pool, _ = learnt_pool(3)
    candidate = candidate_of(pool)
    refused = take_weights(pool, "wide", 3.5)
    assert isinstance(refused, Refused)
    assert refused.code == "not_offered"
    for name in ("none-such", ""):
        assert isinstance(take_weights(pool, name, 3.5), Refused)
    WeightsCandidate.objects.update(state=CandidateState.OFFERED)
    moved = take_weights(pool, "wide", 3.5, instead_of="0" * 64)
    assert isinstance(moved, Refused)
    assert moved.code == "weights_moved"
    first = take_weights(pool, "wide", 3.5, instead_of=candidate.against)
    assert first == 4
    assert take_weights(pool, "wide", 3.6) == 4
    assert take_weights(pool, "wide", 3.7, instead_of=candidate.against) == 4  # a retry that did not hear the answer
    assert WeightsPromotion.objects.count() == 1
    assert Event.objects.filter(kind="weights_promoted").count() == 1
    assert AuditEntry.objects.filter(action="weights_take").count() == 1
    candidate.refresh_from_db()
    assert candidate.state == CandidateState.TAKEN
    assert learner_state(pool, moment(pool, 3.8)).weights == "wide"
    assert learner_state(pool, moment(pool, 3.8)).earlier == [""]


def test_only_operators_change_anything() -> None:
    pool, _ = learnt_pool(1)
    candidate_of(pool, CandidateState.OFFERED)
    owner = Access(user=None, tenant=None, roles=frozenset({"owner"}))
    assert isinstance(take_weights(pool, "wide", 1.5, by=owner), Refused)
    on = LearnerSettings(is_on=True)
    assert isinstance(learner_set(pool=pool, settings=on, by=owner, reason=WHY, at=NOON), Refused)
    assert not WeightsPromotion.objects.exists()
    assert not PoolLearner.objects.exists()


def test_a_pool_without_a_network_has_nothing_to_learn() -> None:
    pool, _, _ = make_elastic()
    on = LearnerSettings(is_on=True)
    for outcome in (learner_set(pool=pool, settings=on, by=BY, reason=WHY, at=NOON), take_weights(pool, "", 0.5)):
        assert isinstance(outcome, Refused)
        assert outcome.code == "not_learned"
    wrong = LearnerSettings(is_on=True, shadow_slots=1)
    dl2 = make_pool("other", batch_policy={"name": "dl2"})
    outcome = learner_set(pool=dl2, settings=wrong, by=BY, reason=WHY, at=NOON)
    assert isinstance(outcome, Refused)
    assert (outcome.code, outcome.sentence) == ("invalid_learner", "shadow_slots: must be 2 to 10,000.")


def test_promotions_are_kept_as_they_were_made() -> None:
    pool, _ = learnt_pool(1)
    candidate_of(pool, CandidateState.OFFERED)
    take_weights(pool, "wide", 1.5)
    connection.check_constraints()  # what waits for the end of a transaction keeps a table from being emptied, too
    for statement in (
        "UPDATE scheduling_weightspromotion SET from_slot = 0",
        "DELETE FROM scheduling_weightspromotion",
        "TRUNCATE scheduling_weightspromotion",
    ):
        with pytest.raises(DatabaseError, match="append-only"), transaction.atomic():
            overrule(statement)


# ---------------------------------------------------------------- steps


def test_a_learner_waits_for_a_past() -> None:
    pool, _ = learnt_pool(12, is_on=True)
    assert step(pool, 12.5)
    learner = learner_of(pool)
    assert (learner.step, learner.sentence) == (0, working.TOO_YOUNG)
    assert not WeightsCandidate.objects.exists()


def test_nothing_is_learnt_where_nobody_switched_it_on() -> None:
    pool, _ = learnt_pool(2)
    assert not step(pool, 2.5)
    switched(pool, is_on=True)
    switched(pool, is_on=False)
    assert not step(pool, 2.5)


def test_shadow_decides_the_pools_slots_and_its_verdict_offers_what_has_won() -> None:
    pool, _ = learnt_pool(24, is_on=True, shadow_slots=10)
    candidate = candidate_of(pool)
    before = decided_with(pool)
    assert step(pool, 24.5)
    assert ShadowSlot.objects.filter(candidate=candidate).count() == len(before)
    assert decided_with(pool) == before
    candidate.refresh_from_db()
    # No window judges yet: windows 0 to 2 are learnt from. So it is compared in the slots alone, and not offered.
    assert candidate.state == CandidateState.NOT_BETTER
    assert candidate.verdict["shadow"]["outcome"] == "held"
    assert candidate.verdict["own"]["outcome"] == "not comparable"
    assert not WeightsPromotion.objects.exists()


def test_shadows_are_kept_once() -> None:
    pool, _ = learnt_pool(6, is_on=True)
    candidate = candidate_of(pool)
    work = work_of(pool.pk)
    assert work is not None
    counts = {working._shadowed(work), working._shadowed(work)}
    assert 0 in counts
    rows = list(ShadowSlot.objects.filter(candidate=candidate).values_list("slot", "reward_in_use", "reward"))
    shadows_keep(work, [working.decide.SlotPair(*row) for row in rows])
    assert ShadowSlot.objects.count() == len(rows) <= MOST_SHADOWS


def test_what_breaks_is_said_and_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    pool, _ = learnt_pool(3, is_on=True)

    def breaks(*_: object) -> None:
        raise ValueError("something else")

    monkeypatch.setattr(working, "_practised", breaks)
    assert step(pool, 3.5)
    learner = learner_of(pool)
    assert (learner.step, learner.sentence) == (0, "The last step broke off: ValueError: something else.")


# ---------------------------------------------------------------- who is due, and the process


def test_whoever_rested_longest_is_due_first() -> None:
    first, _ = learnt_pool(0, is_on=True, every_seconds=60)
    second = make_pool("second", batch_policy={"name": "dl2"})
    switched(second, is_on=True, every_seconds=60)
    assert set(learners_due(NOON)) == {first.pk, second.pk}
    PoolLearner.objects.filter(pool=first).update(worked_at=NOON)
    PoolLearner.objects.filter(pool=second).update(worked_at=NOON - timedelta(seconds=30))
    assert learners_due(NOON) == []
    assert learners_due(NOON + timedelta(seconds=30)) == [second.pk]
    assert learners_due(NOON + timedelta(seconds=60)) == [second.pk, first.pk]


def test_round_waits_for_the_process_and_ends_one_that_takes_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    pool, _ = learnt_pool(0, is_on=True, every_seconds=60)
    started: list[subprocess.Popen[bytes]] = []
    calls: list[int] = []
    times = iter([NOON, NOON, NOON, NOON, NOON + working.LONGEST, NOON + working.LONGEST])

    def clock() -> datetime:
        return next(times)

    def begin(pool_id: int) -> subprocess.Popen[bytes]:
        calls.append(pool_id)
        started.append(subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]))
        return started[-1]

    monkeypatch.setattr(working, "step_started", begin)
    monkeypatch.setattr(working, "PAUSE_SECONDS", 0.01)
    others: list[int] = []
    assert learners_round(clock=clock, others=lambda: others.append(1)) is None
    assert calls == [pool.pk]
    assert others
    assert started[0].poll() is not None, "the process lives on"
    learner = learner_of(pool)
    assert learner.worked_at == NOON
    assert learner.sentence == "The last step took more than 20 minutes and was ended. The next one begins it again."
    assert learners_round(clock=lambda: NOON, others=lambda: None) is None
    assert len(started) == 1


def test_page_says_that_the_process_of_a_step_was_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    pool, _ = learnt_pool(0, is_on=True, every_seconds=60)
    kills_itself = [sys.executable, "-c", "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"]
    monkeypatch.setattr(working, "step_started", lambda pool_id: subprocess.Popen(kills_itself))
    assert learners_round(clock=lambda: NOON, others=lambda: None) == -9
    assert "was killed (signal 9)" in learner_of(pool).sentence


def test_command_shows_switches_takes_and_goes_back() -> None:
    pool, _ = learnt_pool(3)
    candidate_of(pool, CandidateState.OFFERED)
    text = output_of("learner", "--pool", "main", "--on", "--slots", 20, "--reason", WHY)
    assert "The learner of main is on; 0 steps." in text
    assert learner_of(pool).shadow_slots == 20
    assert "wide" in text
    narrow, wide = (PolicyWeights.objects.get(name=name).digest for name in ("narrow", "wide"))
    assert narrow in output_of("learner", "--pool", "main")
    assert f"wide {wide}" in output_of("learner", "--pool", "main", "--take", "wide").splitlines()[1]
    assert narrow in output_of("learner", "--pool", "main", "--back").splitlines()[1]
    assert "is off" in output_of("learner", "--pool", "main", "--off")
