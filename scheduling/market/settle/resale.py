"""Take sales of given up units back: where a buyer's payment for a slot returns, what it had bought there of given up
units is for sale again, for the account of whoever gave them up.

Otherwise whoever buys and cancels would end a tenant's income from units that it still pays for.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from scheduling.market.calendar.units import ROUNDING
from scheduling.models import AwardState, FreedUnits, InstantAnswer
from tenants.scoping import scope_disabled


def sales_return(released: Mapping[int, range]) -> None:
    """Put on sale again what these awards had bought of given up units in slots whose payment returns: `released` maps
    the id of an award to these slots.

    Units whose own award the platform cut short by then stay as they are: they belong to their owner. The caller holds
    the instant lane's lock, under which alone rows of given up units change; they are locked in the order of ids.
    `sold_again` of the verification counts the same.
    """
    answers = InstantAnswer.objects.filter(award__in=released, resold__isnull=False).order_by("award")
    rows = {award: resold or () for award, resold in answers.values_list("award", "resold")}
    if not rows:
        return
    numbers = {number for resold in rows.values() for number, _ in resold}
    with scope_disabled("who buys is another tenant than who gave up"):
        freed = FreedUnits.objects.filter(pk__in=numbers).select_related("award").order_by("pk")
        units = {each.pk: each for each in freed.select_for_update(of=("self",))}
        back = _amounts(rows, released, units)
        for number, amount in back.items():
            rest = units[number].sold - amount
            units[number].sold = rest if rest > ROUNDING else 0.0
        FreedUnits.objects.bulk_update([units[number] for number in sorted(back)], ["sold"], batch_size=1_000)


def _amounts(
    rows: Mapping[int, Iterable[tuple[int, float]]], released: Mapping[int, range], units: Mapping[int, FreedUnits]
) -> Mapping[int, float]:
    """Map the id of given up units to how much of them comes back. `rows` are the pairs (id, amount) that each award
    bought."""
    back: defaultdict[int, float] = defaultdict(float)
    for award, resold in rows.items():
        for number, amount in resold:
            # The row is gone where its award was cut short, and nothing of it was sold at that time.
            row = units.get(number)
            if row is not None and row.slot in released[award] and not is_owners(row):
                back[number] += amount
    return back


def is_owners(units: FreedUnits) -> bool:
    """Return whether the platform cut the award that gave them up short before their slot: its tenant pays for them no
    longer."""
    award = units.award
    return award.state == AwardState.VOID and award.cut_at is not None and units.slot >= award.cut_at
