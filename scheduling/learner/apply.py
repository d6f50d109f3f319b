"""Write what a step of a learner has decided, in one transaction. If another step was done meanwhile, nothing is
written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import transaction

from scheduling.cluster import pool_lock
from scheduling.core.policies.dl2.files import Network, encode
from scheduling.learner.decide import SlotPair
from scheduling.learner.gather import Work, digest_of
from scheduling.learner.read_learner import digest_in_use, next_slot_of
from scheduling.models import (
    CandidateState,
    PolicyWeights,
    Pool,
    PoolLearner,
    ShadowSlot,
    WeightsCandidate,
    WeightsPromotion,
)
from scheduling.operator import weights_add
from tenants.access import Refused, access_of_system

BY = access_of_system("learner")
MOST_ROWS = 500  # of a curve, the newest


@dataclass(frozen=True, eq=False)
class Practised:
    """The result of a step's training: all of its state, its row of the curve, and a network that is worth a shadow, or
    None."""

    state: bytes
    began_with: str
    row: Mapping[str, Any]
    candidate: Network | None


@transaction.atomic
def shadows_keep(work: Work, pairs: Sequence[SlotPair]) -> None:
    """Store slots that the open candidate has decided. Slots that were stored meanwhile are the same."""
    assert work.candidate is not None  # noqa: S101  there is one where slots were decided
    ShadowSlot.objects.bulk_create(
        (
            ShadowSlot(candidate=work.candidate, slot=each.slot, reward_in_use=each.reward_in_use, reward=each.reward)
            for each in pairs
        ),
        ignore_conflicts=True,
    )


@transaction.atomic
def verdict_keep(work: Work, verdict: Mapping[str, Any], at: datetime) -> bool:
    """Store the verdict: the candidate is offered, or is not better. Return whether it was still in shadow."""
    state = CandidateState.OFFERED if verdict["better"] else CandidateState.NOT_BETTER
    assert work.candidate is not None  # noqa: S101  it is the one that was judged
    open_one = WeightsCandidate.objects.filter(pk=work.candidate.pk, state=CandidateState.SHADOW)
    return bool(open_one.update(state=state, verdict=dict(verdict), judged_at=at))


@transaction.atomic
def practice_keep(work: Work, practised: Practised, at: datetime) -> bool:
    """Store the training as it is now, and a new candidate where none is open. Return whether this step was still the
    next one."""
    pool_lock(work.pool)  # nobody puts weights in place meanwhile
    learner = PoolLearner.objects.select_for_update().get(pool=work.pool)
    if learner.step != work.learner.step or not learner.is_on:
        return False
    learner.step += 1
    learner.state, learner.began_with = practised.state, practised.began_with
    learner.curve = [*learner.curve, dict(practised.row)][-MOST_ROWS:]
    learner.worked_at, learner.sentence = at, ""
    learner.save(update_fields=["step", "state", "began_with", "curve", "worked_at", "sentence"])
    if practised.candidate is not None and not _is_open(work):
        _candidate_make(work.pool, practised, learner.step, at)
    return True


def sentence_keep(work: Work, sentence: str, at: datetime) -> None:
    """Store why the learner does not go on. The next try is a step later."""
    mine = PoolLearner.objects.filter(pool=work.pool, step=work.learner.step)
    mine.update(sentence=sentence[:2_000], worked_at=at)


def step_broken_off(pool_id: int, step: int, sentence: str) -> None:
    """Store why this step came to no end, unless another one was done meanwhile. The time when it began stays."""
    PoolLearner.objects.filter(pool=pool_id, step=step).update(sentence=sentence)


def _is_open(work: Work) -> bool:
    states = (CandidateState.SHADOW, CandidateState.OFFERED)
    return WeightsCandidate.objects.filter(pool=work.pool, state__in=states).exists()


def _candidate_make(pool: Pool, practised: Practised, step: int, at: datetime) -> None:
    """Store the network for good under a name of its own, as a candidate. The same bytes become one only once. Where
    other weights were put in place than those that it was trained from, there is none: it would be judged against
    weights that nobody uses, and could never take their place."""
    assert practised.candidate is not None  # noqa: S101
    first = next_slot_of(pool)
    newer = WeightsPromotion.objects.filter(pool=pool, from_slot__gt=first)
    if newer.exists() or digest_in_use(pool, first) != practised.began_with:
        return
    content = encode(practised.candidate)
    if PolicyWeights.objects.filter(digest=digest_of(content)).exists():
        return
    name = f"{pool.slug[:44]}-learnt-{step}"
    row = weights_add(name=name, content=content, by=BY, reason=f"learnt beside {pool.slug}", at=at)
    if isinstance(row, Refused):
        return
    WeightsCandidate.objects.create(pool=pool, weights=row, against=practised.began_with, from_slot=first, made_at=at)
