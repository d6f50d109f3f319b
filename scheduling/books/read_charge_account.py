"""Compute step by step what a job pays: units, posted prices, the own part, and who gets the rest of each slot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from scheduling.core.collector import collector_resting
from scheduling.core.metrics.certificates import realised
from scheduling.market.reads import Factor, decided_award, slots_missed
from scheduling.models import Award, Lane, LaneClock, Pool, ResourceKind, TrainingJob
from tenants.ledger.amounts import credits_of, micro
from tenants.models import Tenant

OPERATOR_ID, OPERATOR = 0, "Operator"
SETTLED, HELD, RETURNED = "settled", "held", "returned"
MOST_AWARDS = 50  # in an elastic pool a job has one for each slot, and each needs a stored interval


@dataclass(frozen=True)
class SlotAccount:
    """What an award pays for one slot. `factors` are empty where the prices do not follow from the interval. `parts`
    are micro-credits by owner."""

    slot: int
    at: datetime
    factors: tuple[Factor, ...]
    parts: tuple[tuple[str, int], ...]
    state: str  # settled | held | returned

    @property
    def gross(self) -> float:
        return sum(factor.amount for factor in self.factors)

    @property
    def paid(self) -> int:
        return sum(amount for _, amount in self.parts)

    @property
    def own_part(self) -> int:
        return micro(self.gross) - self.paid if self.factors else 0


@dataclass(frozen=True)
class AwardAccount:
    """What one award pays. `interval` is None for an award of the instant lane. Amounts that are floats are credits,
    the others micro-credits."""

    award: Award
    interval: int | None
    elapsed: float | None  # slots from its arrival to its end
    value: float
    floor: float
    cost: float
    came_back: int  # the part of the payment that the tenant itself gets, since the instant lane's payments are gross
    slots: tuple[SlotAccount, ...]

    @property
    def paid(self) -> int:
        return sum(slot.paid for slot in self.slots)

    @property
    def got(self) -> float:
        return self.value - credits_of(self.award.paid - self.award.adjusted - self.came_back)

    @property
    def own_part(self) -> int:
        return micro(self.cost) - (self.award.paid - self.award.dividend)

    @property
    def difference(self) -> int:
        """The payment, less what was returned because alone was better, less what all slots pay; 0 if it adds up."""
        return self.award.paid - self.award.adjusted - self.paid

    @property
    def has_factors(self) -> bool:
        return any(slot.factors for slot in self.slots)

    @property
    def by_owner(self) -> tuple[tuple[str, int], ...]:
        sums: dict[str, int] = {}
        for slot in self.slots:
            for name, amount in slot.parts:
                sums[name] = sums.get(name, 0) + amount
        return tuple(sums.items())


def charge_account(job: TrainingJob) -> tuple[AwardAccount, ...]:
    """Return what the job's awards pay, the oldest first; of many awards only the newest. It is empty for a job that
    was never served. Needs a scope in which the awards are visible."""
    awards = list(Award.objects.filter(job=job).select_related("interval").order_by("-pk")[:MOST_AWARDS])[::-1]
    if not awards:
        return ()
    clock = LaneClock.objects.filter(pool=job.pool_id, lane=Lane.BATCH).first()
    owners = {owner for award in awards for owner in award.charges_by_owner()[0]}
    names = {pk: tenant.name for pk, tenant in Tenant.objects.in_bulk([pk for pk in owners if pk]).items()}
    names[OPERATOR_ID] = OPERATOR
    labels = list(ResourceKind.objects.filter(pool=job.pool_id).values_list("label", flat=True))
    settled = clock.settled_slot if clock else -1
    return tuple(_account(job.pool, award, names, labels, settled) for award in awards)


def _account(pool: Pool, award: Award, names: Mapping[int, str], labels: Sequence[str], settled: int) -> AwardAccount:
    with collector_resting():
        decided = decided_award(award.interval, award.job_id, award.start) if award.interval else None
    costs = decided.factors(labels) if decided else {}
    elapsed = None if decided is None else decided.booking.end - decided.job.arrival
    missed = slots_missed([award]).get(award.pk, frozenset())
    back = {slot for slot in missed if slot <= settled or slot in award.missed}
    slots = tuple(
        SlotAccount(
            slot=slot,
            at=pool.slot_start(slot),
            factors=costs.get(slot, ()),
            parts=tuple((names[owner], amount) for owner, amount in charged),
            state=RETURNED if slot in back else _state(award, slot, settled),
        )
        for slot, charged in enumerate(award.owed, award.start)
    )
    value = float(award.value or 0.0)  # for a piece: the worth of what is done by its end
    if decided and award.work is None:
        value = realised(decided.job, decided.booking)
    number = award.interval.number if award.interval else None
    floor, cost = float(award.floor or 0.0), float(award.cost or 0.0)
    return AwardAccount(award, number, elapsed, value, floor, cost, award.own_part, slots)


def _state(award: Award, slot: int, settled: int) -> str:
    if slot >= award.paid_until:
        return RETURNED
    return SETTLED if slot < award.unpaid_since(settled) else HELD
