"""A learner killed at each step of its work, and an operator's promotion: the weights in use stay, or change once."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from scheduling.audit.verification import intervals_verify
from scheduling.learner import working
from scheduling.learner.working import learner_step, step_started
from scheduling.models import CandidateState, Pool, PoolLearner, WeightsCandidate, WeightsPromotion
from tenants.scoping import scope_disabled
from tests.concurrency.beside import Beside, beside
from tests.database import serving_addresses
from tests.kept import built_or_put_back
from tests.learner.world import PAST, candidate_of, decided_with, learner_of, learnt_pool, switched, take_weights
from tests.patience import PATIENCE
from tests.scheduling.clocks import moment
from tests.scheduling.elastic_world import run

pytestmark = pytest.mark.django_db(transaction=True)

WORKING, APPLY, PROMOTION = (f"scheduling.learner.{name}" for name in ("working", "apply", "promotion"))
STEPS = [  # of a step that keeps shadows, a verdict, a promotion by the rule, and the training
    (WORKING, "shadows_keep", "before"),
    (WORKING, "shadows_keep", "after"),
    (WORKING, "verdict_keep", "before"),
    (WORKING, "verdict_keep", "after"),
    (WORKING, "weights_take", "before"),
    (PROMOTION, "digest_in_use", "after"),
    (PROMOTION, "events_append", "after"),  # within the transaction
    (WORKING, "weights_take", "after"),
    (WORKING, "_practised", "after"),
    (WORKING, "practice_keep", "before"),
    (WORKING, "practice_keep", "after"),
]
TAKES = [
    (PROMOTION, "lane_lock", "after"),
    (PROMOTION, "events_append", "before"),
    (PROMOTION, "events_append", "after"),
]


@pytest.fixture(scope="module")
def other(django_db_setup: None) -> Iterator[Beside]:
    """Another process at the same database."""
    with beside(os.environ | serving_addresses()) as process:
        yield process


def learnt(**learner: Any) -> Pool:
    """A pool with a past."""
    built_or_put_back("learnt", learnt_pool)
    pool = Pool.objects.get()
    switched(pool, **learner)
    return pool


def everything_stands(pool: Pool) -> None:
    with scope_disabled("the test looks at all tenants"):
        assert intervals_verify(pool_ids=[pool.pk]).findings == ()


def in_place(pool: Pool) -> list[str]:
    rows = WeightsPromotion.objects.filter(pool=pool).order_by("pk").values_list("weights__name", flat=True)
    return [name or "" for name in rows]


@pytest.mark.wide
@pytest.mark.parametrize("death", STEPS, ids=lambda each: "-".join(each[1:]))
def test_learner_that_is_killed_leaves_what_is_in_use_and_the_next_one_goes_on(
    death: tuple[str, str, str], other: Beside
) -> None:
    pool = learnt(is_on=True, shadow_slots=10, promotes=True)
    candidate = candidate_of(pool)
    ended = other.work(f"learn main {PAST + 0.5}", *death)
    assert ended.status == -signal.SIGKILL, ended.errors
    # All of a promotion, or nothing of it; and the pool goes on with what that says.
    before = in_place(pool)
    assert before in ([], ["wide"])
    run(pool, PAST + 1, PAST + 1)
    assert decided_with(pool)[PAST + 1][0] == ("wide" if before else "narrow")
    # Whoever comes next does the rest, once.
    learner_step(pool_id=pool.pk, clock=lambda: moment(pool, PAST + 1.5))
    learner_step(pool_id=pool.pk, clock=lambda: moment(pool, PAST + 1.6))
    run(pool, PAST + 2, PAST + 2)
    assert in_place(pool) == ["wide"]
    candidate.refresh_from_db()
    assert candidate.state == CandidateState.TAKEN
    assert WeightsCandidate.objects.filter(state=CandidateState.TAKEN).count() == 1
    learner = learner_of(pool)
    assert learner.step == len(learner.curve) >= 2
    assert decided_with(pool)[PAST + 2][0] == "wide"
    everything_stands(pool)


@pytest.mark.wide
@pytest.mark.parametrize("death", TAKES, ids=lambda each: "-".join(each[1:]))
def test_promotion_that_is_killed_is_none_and_said_again_is_one(death: tuple[str, str, str], other: Beside) -> None:
    pool, _ = learnt_pool(3)
    candidate_of(pool, CandidateState.OFFERED)
    ended = other.work("take main wide 3.5", *death)
    assert ended.status == -signal.SIGKILL, ended.errors
    assert in_place(pool) == []
    run(pool, 4, 4)
    assert decided_with(pool).get(4, ("narrow", ""))[0] == "narrow"
    assert other.done("take main wide 4.5").strip() == "5"
    assert take_weights(pool, "wide", 4.6) == 5
    assert in_place(pool) == ["wide"]
    run(pool, 5, 12)
    assert decided_with(pool)[10][0] == "wide"
    everything_stands(pool)


@pytest.mark.wide
def test_step_is_a_process_of_its_own_that_a_kill_ends_without_a_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = learnt(is_on=True)
    for name, address in serving_addresses().items():
        monkeypatch.setenv(name, address)
    # One that gives way to all would take minutes beside other tests. That it does so is in `test_idle`.
    monkeypatch.setattr(working, "STARTER", "tests.learner.at_once")
    process = step_started(pool.pk)
    process.kill()
    assert process.wait(timeout=PATIENCE) == -signal.SIGKILL
    assert (learner_of(pool).step, in_place(pool)) == (0, [])
    assert step_started(pool.pk).wait(timeout=PATIENCE) == 0
    learner = PoolLearner.objects.get(pool=pool)
    assert (learner.step, learner.sentence) == (1, "")
    assert decided_with(pool)[PAST][0] == "narrow"
