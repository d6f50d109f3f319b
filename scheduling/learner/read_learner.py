"""Read the state of a pool's learner: what decides, what it offers and how that did, and what decided before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Count

from scheduling.core.policies.dl2.files import Network, decode, shipped
from scheduling.market.elastic import is_learned, promotion_by, settings_in_use, weights_stored
from scheduling.models import (
    CandidateState,
    Lane,
    LaneClock,
    Pool,
    PoolLearner,
    WeightsCandidate,
    WeightsPromotion,
)

MOST_LISTED = 20
AS_MADE = "as the pool was made"


@dataclass(frozen=True)
class LearnerSettings:
    """What a learner may do."""

    is_on: bool
    promotes: bool = False
    every_seconds: int = 600
    shadow_slots: int = 50
    margin: float = 0.02


def settings_of(learner: PoolLearner | None) -> LearnerSettings:
    """Return the learner's settings; it is off where there is none."""
    if learner is None:
        return LearnerSettings(is_on=False)
    return LearnerSettings(learner.is_on, learner.promotes, learner.every_seconds, learner.shadow_slots, learner.margin)


@dataclass(frozen=True, eq=False)
class InUse:
    """The weights that the pool decides with from its next boundary on. `name` is "" for those that are shipped."""

    name: str
    network: Network
    content: bytes  # of their file; b"" where they are shipped

    @property
    def digest(self) -> str:
        return self.network.digest


def next_slot_of(pool: Pool) -> int:
    """Return the first slot that is not decided."""
    decided = LaneClock.objects.filter(pool=pool, lane=Lane.BATCH).values_list("decided_slot", flat=True).first()
    return (-1 if decided is None else decided) + 1


def in_use_of(pool: Pool, slot: int) -> InUse | None:
    """Return the weights that decide the slot by present settings, or None where they are of no use."""
    settings = settings_in_use(pool, slot)
    name = settings.get("weights") or ""
    content = weights_stored(name) if name else b""
    network = decode(content) if name else shipped(settings["name"])
    return None if isinstance(network, str) else InUse(name, network, content)


def digest_in_use(pool: Pool, slot: int) -> str:
    """Return the digest of the weights that decide the slot, or "" where they are of no use."""
    in_use = in_use_of(pool, slot)
    return "" if in_use is None else in_use.digest


@dataclass(frozen=True)
class WeightsRow:
    """Weights that decide from a slot on. `weights` is "" for those that the pool was made with."""

    weights: str
    digest: str
    from_slot: int
    starts_at: datetime
    by_rule: bool

    @property
    def title(self) -> str:
        return self.weights or AS_MADE


@dataclass(frozen=True)
class CandidateRow:
    """A candidate. `shadowed` is the number of slots that it has decided without effect."""

    weights: str
    digest: str
    state: str
    made_at: datetime
    from_slot: int
    shadowed: int
    judged_at: datetime | None
    verdict: Mapping[str, Any]

    @property
    def lines(self) -> list[str]:
        """Return the comparisons, a sentence each."""
        return [self.verdict[name]["line"] for name in ("shadow", "own", "judging_set") if name in self.verdict]


@dataclass(frozen=True)
class LearnerState:
    """The state of a pool's learner. `weights` and `digest` are those that decide the next slot. `promotions` and
    `candidates` have the newest first."""

    pool: str
    learned: bool
    settings: LearnerSettings
    slot: int
    weights: str
    digest: str
    step: int
    worked_at: datetime | None
    sentence: str
    curve: Sequence[Mapping[str, float]]
    promotions: Sequence[WeightsRow]
    candidates: Sequence[CandidateRow]

    @property
    def title(self) -> str:
        return self.weights or AS_MADE

    @property
    def offered(self) -> CandidateRow | None:
        """Return the candidate that may be taken."""
        return next((row for row in self.candidates if row.state == CandidateState.OFFERED), None)

    @property
    def earlier(self) -> list[str]:
        """Return the names of weights that decided here before; "" among them stands for those that the pool was made
        with."""
        if not self.promotions:
            return []
        names = dict.fromkeys([*(row.weights for row in self.promotions), ""])
        return [name for name in names if name != self.weights]


def learner_state(pool: Pool, at: datetime) -> LearnerState:
    """Return the state of the pool's learner. Takes a handful of short queries."""
    learner = PoolLearner.objects.filter(pool=pool).defer("state").first()
    slot = max(pool.slot_at(at) + 1, next_slot_of(pool))
    in_use = in_use_of(pool, slot) if is_learned(pool) else None
    promotion = promotion_by(pool, slot)
    named = promotion.weights.name if promotion is not None and promotion.weights is not None else ""
    return LearnerState(
        pool=pool.slug,
        learned=is_learned(pool),
        settings=settings_of(learner),
        slot=slot,
        weights=named,
        digest="" if in_use is None else in_use.digest,
        step=learner.step if learner else 0,
        worked_at=learner.worked_at if learner else None,
        sentence=learner.sentence if learner else "",
        curve=learner.curve if learner else [],
        promotions=_promotions(pool),
        candidates=_candidates(pool),
    )


def _promotions(pool: Pool) -> list[WeightsRow]:
    rows = WeightsPromotion.objects.filter(pool=pool).select_related("weights").defer("weights__content")
    return [
        WeightsRow(
            row.weights.name if row.weights else "",
            row.weights.digest if row.weights else "",
            row.from_slot,
            pool.slot_start(row.from_slot),
            row.by_rule,
        )
        for row in rows.order_by("-from_slot", "-pk")[:MOST_LISTED]
    ]


def _candidates(pool: Pool) -> list[CandidateRow]:
    rows = WeightsCandidate.objects.filter(pool=pool).select_related("weights").defer("weights__content")
    return [
        CandidateRow(
            row.weights.name,
            row.weights.digest,
            row.state,
            row.made_at,
            row.from_slot,
            row.shadowed,
            row.judged_at,
            row.verdict,
        )
        for row in rows.annotate(shadowed=Count("slots")).order_by("-pk")[:MOST_LISTED]
    ]
