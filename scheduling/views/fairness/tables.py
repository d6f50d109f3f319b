"""The columns of the tables of fairness: what is shown, sorted by, and exported."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tenants.views.tables import Column, Table


def _number(name: str, digits: int = 6) -> Callable[[Any], object]:
    def value(row: Any) -> object:
        found = getattr(row, name)
        return "" if found is None else round(float(found), digits)

    return value


def _column(name: str, label: str, digits: int = 6) -> Column:
    return Column(name, label, order=name, numeric=True, value=_number(name, digits))


RATIOS = Table(
    (
        Column("name", "Tenant", order="name"),
        _column("part_of_cells", "Part of cells"),
        _column("part_of_gains", "Part of gains"),
        _column("ratio", "Ratio"),
        _column("against_alone", "Against alone"),
        _column("gain", "Gain"),
        _column("alone", "Alone"),
        _column("broken", "Broken certificates", 0),
    ),
    sort="-ratio",
    key="tenant_id",
    file="fairness-ratios",
)
REWARDS = Table(
    (
        Column("name", "Owner", order="name"),
        _column("offered_units", "Idle offered"),
        _column("sold_units", "Sold"),
        _column("sold_part", "Part sold"),
        _column("kept_units", "Idle kept"),
        _column("earned", "Earned"),
        _column("contributed", "Contributed"),
        _column("reward", "Reward"),
        _column("forgone", "Forgone"),
        _column("paid", "Rent paid"),
        _column("rent_saved", "Rent saved"),
        _column("waiting", "Intervals waiting", 0),
    ),
    sort="-reward",
    key="tenant_id",
    file="fairness-rewards",
)
INTERVALS = Table(
    (
        Column("number", "Interval", order="number"),
        Column("decided_at", "Decided", order="decided_at"),
        Column("revenue", "Value", order="revenue", numeric=True),
        Column("certificates", "Certificates", order="certificates", numeric=True),
        Column("broken_count", "Broken", order="broken_count", numeric=True),
        Column("ratio_variance", "Variance of ratio", order="ratio_variance", numeric=True),
        Column("jain_index", "Jain's index", order="jain_index", numeric=True),
        Column("renters", "Renters", order="renters", numeric=True),
        Column("unsold", "Unsold", numeric=True, value=lambda row: sum(row.unsold.values())),
        Column("waiting_for", "Waiting jobs", numeric=True, value=lambda row: sum(row.waiting_for.values())),
    ),
    sort="-number",
    key="number",
    file="fairness-intervals",
)
IN_INTERVAL = Table(
    (
        Column("name", "Tenant", order="name"),
        _column("own_value", "Own jobs"),
        _column("rented_value", "Rented jobs"),
        _column("paid", "Paid"),
        _column("received", "Received"),
        _column("gain", "Gain"),
        _column("alone", "Alone"),
        _column("share", "Part of cells"),
        _column("part_of_gains", "Part of gains"),
        _column("ratio", "Ratio"),
        _column("contributed", "Contributed"),
        _column("earned", "Earned"),
        _column("reward", "Reward"),
    ),
    sort="-gain",
    file="fairness-interval",
)
OWN = (
    Column("number", "Interval", order="number"),
    _column("ratio", "Ratio"),
    _column("waiting", "Jobs waiting on", 0),
)
OWN_MONEY = (
    _column("gain", "Gain"),
    _column("alone", "Alone"),
    _column("paid", "Paid"),
    _column("earned", "Earned"),
    _column("forgone", "Forgone"),
)


def own(*, money: bool) -> Table:
    """A tenant's own intervals; `money`: whether the reader may see amounts."""
    columns = (*OWN, *OWN_MONEY) if money else OWN
    return Table(columns, sort="-number", rows=20, key="number", file="my-fairness")
