"""Read what an award costs, slot by slot: its units at the price at which it got them, exact amounts, and how far it is
paid."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.core.cache import cache

from scheduling.market.reads import Factor, decided_award, slots_missed
from scheduling.models import Award, AwardState, Interval, Lane, LaneClock, Pool, RentState, ResourceKind
from tenants.ledger.amounts import credits_of, micro, multiplying_up

DAY = 86_400  # seconds for which prices that never change are cached
TOGETHER = "worker with its parameter servers"
SETTLED, RUNNING, HELD, RETURNED = "settled", "running", "held", "returned"


@dataclass(frozen=True)
class SlotRow:
    """One slot of an award. Amounts are in micro-credits, those of the factors in credits. `paid` is what is set aside
    for the slot. `price` - `own_part` = `pays`; the first two are None where nobody can say any more what the units
    cost."""

    slot: int
    at: datetime
    workers: int
    ps: int
    paid: int
    state: str
    factors: tuple[Factor, ...]
    price: int | None
    own_part: int | None
    pays: int

    @property
    def digits(self) -> int:
        """Return how many digits the factors' prices need, so that units times price come to the price of the slot."""
        return multiplying_up([(factor.units, factor.price) for factor in self.factors], self.price or 0)


@dataclass(frozen=True)
class SlotTable:
    """All slots of an award. `returned` is what came back; `kept` is what a cancellation before the start left with the
    owners."""

    rows: tuple[SlotRow, ...]
    paid: int
    settled: int
    held: int
    returned: int
    kept: int
    by_owner: Mapping[int, int]  # owner -> what it gets for the slots that are delivered
    settled_by_owner: Mapping[int, int]

    @property
    def has_prices(self) -> bool:
        return all(row.price is not None for row in self.rows)

    @property
    def price(self) -> int:
        return sum(row.price or 0 for row in self.rows)

    @property
    def own_part(self) -> int:
        return sum(row.own_part or 0 for row in self.rows)

    @property
    def has_own_part(self) -> bool:
        """Return whether there is an own part: a micro-credit a slot is what rounding leaves."""
        return self.own_part > len(self.rows)

    @property
    def pays(self) -> int:
        return sum(row.pays for row in self.rows)


def slot_table(pool: Pool, award: Award, at: datetime, *, gross: Mapping[int, int] | None = None) -> SlotTable:
    """Return the slots of an award. Needs the tenant's scope, as the award is the tenant's. `gross` maps each slot of
    an elastic pool to micro-credits before the own part is taken off; slots in which the job waited are not listed."""
    clock = LaneClock.objects.filter(pool=pool, lane=Lane.BATCH).first()
    settled = clock.settled_slot if clock else -1
    units = _units(award)
    # A rent that was settled for less, or pays owners a dividend, does not pay units times price.
    priced = gross is None and award.lane == Lane.BATCH and not (award.adjusted or award.dividend)
    factors = _factors(pool, award) if priced else {}
    missed = slots_missed([award]).get(award.pk, frozenset())
    back = {slot for slot in missed if slot <= settled or slot in award.missed}
    rows = []
    for slot in range(award.start, award.end):
        workers, ps = units[slot]
        if gross is not None and not (workers or ps):
            continue
        paid = sum(part for _, part in _charge(award, slot))
        pays, price = paid, None
        if award.lane == Lane.INSTANT:  # the whole price is set aside, and its own part comes back
            price, pays = paid, paid - sum(part for owner, part in _charge(award, slot) if owner == award.tenant_id)
        elif gross is not None:
            price = gross.get(slot, 0)
        elif slot in factors:
            price = micro(sum(factor.amount for factor in factors[slot]))
        costs = factors.get(slot, ())
        if price is not None and not costs and workers:
            costs = (Factor(TOGETHER if ps else "worker", workers, credits_of(price) / workers),)
        own_part = None if price is None else price - pays
        state = RETURNED if slot in back else _state(award, slot, settled, pool.slot_at(at))
        rows.append(SlotRow(slot, pool.slot_start(slot), workers, ps, paid, state, costs, price, own_part, pays))
    return _table(award, tuple(rows))


def slot_tables(tables: Sequence[SlotTable]) -> SlotTable | None:
    """Return the tables of a job's awards as one, by slot; None where there are none."""
    if not tables:
        return None
    by_owner, settled_by_owner = Counter[int](), Counter[int]()
    for table in tables:
        by_owner.update(table.by_owner)
        settled_by_owner.update(table.settled_by_owner)
    rows = sorted((row for table in tables for row in table.rows), key=lambda row: row.slot)
    return SlotTable(
        rows=tuple(rows),
        paid=sum(table.paid for table in tables),
        settled=sum(table.settled for table in tables),
        held=sum(table.held for table in tables),
        returned=sum(table.returned for table in tables),
        kept=sum(table.kept for table in tables),
        by_owner=dict(by_owner),
        settled_by_owner=dict(settled_by_owner),
    )


def _factors(pool: Pool, award: Award) -> dict[int, tuple[Factor, ...]]:
    """Return the units and prices of each slot from the interval that decided it. That is a large row which never
    changes, so it is read once. `award` comes with its interval, without the large columns."""
    if award.interval is None:
        return {}
    key = f"award-prices:{award.interval.digest}:{award.job_id}:{award.start}"
    if (entries := cache.get(key)) is not None:
        return {slot: tuple(Factor(*factor) for factor in factors) for slot, factors in entries}
    interval = Interval.objects.filter(pk=award.interval.pk).select_related("base").first()
    decided = decided_award(interval, award.job_id, award.start) if interval else None
    labels = list(ResourceKind.objects.filter(pool=pool).values_list("label", flat=True))
    factors_by_label = decided.factors(labels) if decided else {}
    document = [
        (slot, [(one.label, one.units, one.price) for one in factors]) for slot, factors in factors_by_label.items()
    ]
    cache.set(key, document, DAY)
    return factors_by_label


def _table(award: Award, rows: tuple[SlotRow, ...]) -> SlotTable:
    by_owner: defaultdict[int, int] = defaultdict(int)
    settled_by_owner: defaultdict[int, int] = defaultdict(int)
    for row in rows:
        for owner, part in _charge(award, row.slot):
            if row.state != RETURNED:
                by_owner[owner] += part
            if row.state == SETTLED:
                settled_by_owner[owner] += part
    settled = sum(row.paid for row in rows if row.state == SETTLED)
    held = sum(row.paid for row in rows if row.state in (RUNNING, HELD))
    rest = award.paid - award.returned - settled - held
    return SlotTable(rows, award.paid, settled, held, award.returned, rest, dict(by_owner), dict(settled_by_owner))


def _charge(award: Award, slot: int) -> list[list[int]]:
    place = slot - award.start
    charges = award.owed
    return charges[place] if 0 <= place < len(charges) else []


def _state(award: Award, slot: int, settled: int, now: int) -> str:
    """Return the state of a slot. A void award returns the slots from its cut on; one that was cancelled before its
    start returns all of them."""
    cut = award.cut_at
    before = award.state == AwardState.ENDED and cut == award.start and award.pays_from is None
    given_back = award.state == AwardState.VOID or before
    if given_back and cut is not None and slot >= cut:
        return RETURNED
    if award.rent != RentState.OPEN and (slot <= settled or award.state in (AwardState.DONE, AwardState.ENDED)):
        return SETTLED
    return RUNNING if slot == now else HELD


def _units(award: Award) -> dict[int, tuple[int, int]]:
    """Return the workers and parameter servers of each slot."""
    units = dict.fromkeys(range(award.start, award.end), (0, 0))
    for _, start, end, workers, ps in award.allocation:
        for slot in range(max(start, award.start), min(end, award.end)):
            units[slot] = (units[slot][0] + workers, units[slot][1] + ps)
    return units
