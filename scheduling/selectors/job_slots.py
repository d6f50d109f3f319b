"""What an award costs, slot by slot: exact amounts, who uses what, and how far it is paid."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from scheduling.models import Award, AwardState, Lane, LaneClock, Pool, PriceTick, ResourceKind

SETTLED, RUNNING, HELD, RETURNED = "settled", "running", "held", "returned"


@dataclass(frozen=True)
class SlotRow:
    """One slot of an award. Amounts in micro-credits; prices in credits per unit, None where none was posted."""

    slot: int
    at: datetime
    workers: int
    ps: int
    paid: int
    state: str
    prices: tuple[tuple[str, float | None], ...]  # with what they are of


@dataclass(frozen=True)
class SlotTable:
    """`returned`: what came back; `kept`: what a cancellation before the start left with the owners."""

    labels: tuple[str, ...]
    rows: tuple[SlotRow, ...]
    paid: int
    settled: int
    held: int
    returned: int
    kept: int
    by_owner: Mapping[int, int]  # owner -> what it gets of the slots that are delivered
    settled_by_owner: Mapping[int, int]


def slot_table(pool: Pool, award: Award, at: datetime) -> SlotTable:
    """Three short queries. Needs the tenant's scope, for the award is the tenant's."""
    clock = LaneClock.objects.filter(pool=pool, lane=Lane.BATCH).first()
    settled = clock.settled_slot if clock else -1
    kinds = list(ResourceKind.objects.filter(pool=pool).values_list("pk", "label"))
    posted = _posted(pool, award)
    units = _units(award)
    rows = tuple(
        SlotRow(
            slot=slot,
            at=pool.slot_start(slot),
            workers=units[slot][0],
            ps=units[slot][1],
            paid=sum(part for _, part in _charge(award, slot)),
            state=_state(award, slot, settled, pool.slot_at(at)),
            prices=tuple((label, posted.get((slot, pk))) for pk, label in kinds),
        )
        for slot in range(award.start, award.end)
    )
    return _table(award, rows, tuple(label for _, label in kinds))


def _table(award: Award, rows: tuple[SlotRow, ...], labels: tuple[str, ...]) -> SlotTable:
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
    kept = award.paid - award.returned - settled - held
    return SlotTable(
        labels, rows, award.paid, settled, held, award.returned, kept, dict(by_owner), dict(settled_by_owner)
    )


def _charge(award: Award, slot: int) -> list[list[int]]:
    place = slot - award.start
    return award.charges[place] if 0 <= place < len(award.charges) else []


def _state(award: Award, slot: int, settled: int, now: int) -> str:
    """A void award returns the slots from its cut on; one that was cancelled before its start returns them all."""
    cut = award.cut_at
    given_back = award.state == AwardState.VOID or (award.state == AwardState.ENDED and cut == award.start)
    if given_back and cut is not None and slot >= cut:
        return RETURNED
    if slot <= settled or award.state in (AwardState.DONE, AwardState.ENDED):
        return SETTLED
    return RUNNING if slot == now else HELD


def _units(award: Award) -> dict[int, tuple[int, int]]:
    """Slot -> workers and parameter servers in it."""
    found = dict.fromkeys(range(award.start, award.end), (0, 0))
    for _, start, end, workers, ps in award.allocation:
        for slot in range(max(start, award.start), min(end, award.end)):
            found[slot] = (found[slot][0] + workers, found[slot][1] + ps)
    return found


def _posted(pool: Pool, award: Award) -> dict[tuple[int, int], float]:
    rows = PriceTick.objects.filter(pool=pool, lane=Lane.BATCH, slot__gte=award.start, slot__lt=award.end)
    found = rows.values_list("slot", "resource_id", "price")
    return {(slot, kind): price for slot, kind, price in found if price is not None}
