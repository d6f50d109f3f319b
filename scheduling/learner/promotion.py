"""What an operator does with a pool's learner: switch it, and put weights in place at the next boundary.

A promotion is one row, written under the lane's lock. It holds from the next slot that is not decided; what is decided
keeps its weights. A process that is killed before the row is written has changed nothing, and the same promotion made
twice changes things once.
"""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime

from django.db import transaction

from scheduling.cluster import may_change_cluster, pool_lock
from scheduling.feed import EventKind, event, events_append
from scheduling.learner.read_learner import LearnerSettings, digest_in_use, settings_of
from scheduling.market.calendar import lane_lock
from scheduling.market.elastic import is_learned
from scheduling.models import (
    CandidateState,
    Lane,
    PolicyWeights,
    Pool,
    PoolLearner,
    WeightsCandidate,
    WeightsPromotion,
)
from tenants import history
from tenants.access import Access, Refused

NOT_LEARNED = Refused("not_learned", "Only an elastic pool that DL2 decides has weights to learn.")
OPEN = (CandidateState.SHADOW, CandidateState.OFFERED)
EVERY, SLOTS, MARGIN = (10, 86_400), (2, 10_000), (0.0, 1.0)  # least and most


@transaction.atomic
def learner_set(*, pool: Pool, settings: LearnerSettings, by: Access, reason: str, at: datetime) -> bool | Refused:
    """Set what the learner may do, and return whether anything changed. Decisions stay as they are: it only learns."""
    if refusal := may_change_cluster(by, reason) or _flaw(pool, settings):
        return refusal
    pool_lock(pool)
    learner = PoolLearner.objects.select_for_update().filter(pool=pool).first()
    before = settings_of(learner)
    if before == settings:
        return False
    PoolLearner.objects.update_or_create(pool=pool, defaults=asdict(settings))
    history.append(
        at=at,
        by=by,
        action="learner_set",
        subject=f"pool {pool.slug}",
        reason=reason,
        before=asdict(before),
        after=asdict(settings),
    )
    return True


def _flaw(pool: Pool, settings: LearnerSettings) -> Refused | None:
    if not is_learned(pool):
        return NOT_LEARNED
    limits = (
        ("every_seconds", settings.every_seconds, EVERY),
        ("shadow_slots", settings.shadow_slots, SLOTS),
        ("margin", settings.margin, MARGIN),
    )
    for name, value, (least, most) in limits:
        if not least <= value <= most:
            return Refused("invalid_learner", f"{name}: must be {least:g} to {most:,g}.")
    return None


@transaction.atomic
def weights_take(
    *,
    pool: Pool,
    weights: str,
    by: Access,
    reason: str,
    at: datetime,
    instead_of: str | None = None,
    by_rule: bool = False,
) -> int | Refused:
    """Put weights in place, and return the slot from which they decide. `weights` names those that the learner offers,
    or some that decided here before, or is "" for those that the pool was made with. `instead_of` is the digest of
    those in use, as the caller saw it. Weights that are in place already are left as they are."""
    if refusal := may_change_cluster(by, reason):
        return refusal
    if not is_learned(pool):
        return NOT_LEARNED
    # 1. Gather, under the locks of a boundary.
    pool_lock(pool)
    clock = lane_lock(pool_id=pool.pk, lane=Lane.BATCH)
    first = max(pool.slot_at(at), clock.decided_slot if clock else -1, -1) + 1
    newest = WeightsPromotion.objects.filter(pool=pool).order_by("-from_slot", "-pk").select_related("weights").first()
    before = newest.weights.name if newest is not None and newest.weights is not None else ""
    row = PolicyWeights.objects.filter(name=weights).defer("content").first() if weights else None
    # 2. Decide.
    if newest is not None and before == weights:
        return newest.from_slot
    if instead_of is not None and instead_of != digest_in_use(pool, first):
        return Refused("weights_moved", "Other weights were put in place meanwhile. Look again.")
    if refusal := _not_to_be_had(pool, weights, row, newest):
        return refusal
    # 3. Apply.
    WeightsPromotion.objects.create(pool=pool, weights=row, from_slot=first, by_rule=by_rule, made_at=at)
    candidates = WeightsCandidate.objects.filter(pool=pool, state__in=OPEN)
    candidates.filter(weights=row).update(state=CandidateState.TAKEN)
    candidates.update(state=CandidateState.PASSED)
    digest = row.digest if row is not None else ""
    data = {"lane": Lane.BATCH.value, "from": first, "weights": weights, "digest": digest}
    subject = f"pool {pool.slug}"
    events_append([event(EventKind.WEIGHTS_PROMOTED, pool_id=pool.pk, subject=subject, at=at, data=data)])
    history.append(
        at=at,
        by=by,
        action="weights_take",
        subject=subject,
        reason=reason,
        before={"weights": before},
        after={"weights": weights, "digest": digest, "from_slot": first, "by_rule": by_rule},
    )
    return first


def _not_to_be_had(
    pool: Pool, weights: str, row: PolicyWeights | None, newest: WeightsPromotion | None
) -> Refused | None:
    """Return why these weights cannot be put in place here, or None."""
    if not weights:
        return None if newest is not None else Refused("not_offered", "The pool decides with what it was made with.")
    if row is None:
        return Refused("not_offered", f"No weights are stored as {weights[:60]}.")
    offered = WeightsCandidate.objects.filter(pool=pool, weights=row, state=CandidateState.OFFERED).exists()
    if offered or WeightsPromotion.objects.filter(pool=pool, weights=row).exists():
        return None
    return Refused("not_offered", f"{weights} have neither beaten the weights in use nor decided here before.")


def weights_back(*, pool: Pool, by: Access, reason: str, at: datetime) -> int | Refused:
    """Put back the weights that decided before the last promotion, from the next boundary on."""
    rows = list(WeightsPromotion.objects.filter(pool=pool).order_by("-from_slot", "-pk").select_related("weights")[:2])
    if not rows:
        return Refused("not_offered", "Nothing was put in place here yet: there is nothing to go back from.")
    earlier = rows[1].weights if len(rows) == 2 else None
    return weights_take(pool=pool, weights=earlier.name if earlier else "", by=by, reason=reason, at=at)
