"""The columns of the tables of fairness: what they show, how they sort, and what they export."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tenants.ledger.amounts import exported, micro
from tenants.views.tables import Column, Table

OWNERS = 6  # rows on a page of a table


def _column(name: str, label: str) -> Column:
    def value(row: Any) -> object:
        value = getattr(row, name)
        return "" if value is None else round(float(value), 6)

    return Column(name, label, order=name, numeric=True, value=value)


def _amount(name: str, label: str) -> Column:
    """Return a column of credits, written as in every export of money."""

    def value(row: Any) -> str:
        value = getattr(row, name)
        return "" if value is None else exported(micro(value))

    return Column(name, label, order=name, numeric=True, value=value)


def _count(name: str, label: str) -> Column:
    return Column(name, label, order=name, numeric=True)


# As the pages show it: the sum of its four parts, each to the micro-credit. Sorted by the figure itself.
GAIN = Column("gain", "Gain", order="gain", numeric=True, value=lambda row: exported(row.gain_shown))


def _without(table: Table, *names: str) -> Table:
    return replace(table, columns=tuple(column for column in table.columns if column.name not in names))


RATIOS = Table(
    (
        Column("name", "Tenant", order="name"),
        _column("part_of_cells", "Part of cells"),
        _column("part_of_gains", "Part of gains"),
        _column("ratio", "Ratio"),
        _column("against_alone", "Against alone"),
        GAIN,
        _amount("alone", "Alone"),
        _count("broken", "Broken certificates"),
    ),
    sort="-ratio",
    rows=OWNERS,
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
        _amount("earned", "Earned"),
        _column("contributed", "Contributed"),
        _column("reward", "Reward"),
        _amount("forgone", "Missed"),
        _amount("paid", "Rent paid"),
        _amount("rent_saved", "Rent saved"),
        _count("waiting", "Intervals waiting"),
    ),
    sort="-reward",
    rows=OWNERS,
    key="tenant_id",
    file="fairness-rewards",
)
# Tables of elastic pools: nothing is offered at an auction there, and nobody is promised what it would have had alone.
RATIOS_BY_USE = _without(RATIOS, "against_alone", "alone", "broken")
REWARDS_BY_USE = replace(
    _without(REWARDS, "offered_units", "sold_units", "sold_part", "kept_units", "contributed", "reward", "forgone"),
    sort="-earned",
)
INTERVALS = Table(
    (
        Column("number", "Interval", order="number"),
        Column("decided_at", "Decided", order="decided_at"),
        _amount("revenue", "Value"),
        Column("certificates", "Certificates", order="certificates", numeric=True),
        Column("broken_count", "Broken", order="broken_count", numeric=True),
        Column("ratio_variance", "Variance of ratio", order="ratio_variance", numeric=True),
        Column("jain_index", "Jain's index", order="jain_index", numeric=True),
        Column("renters", "Renters", order="renters", numeric=True),
        Column("unsold", "Unsold", numeric=True, value=lambda row: sum(row.left_unsold.values())),
        Column("waiting_for", "Waiting jobs", numeric=True, value=lambda row: sum(row.waiting_for.values())),
    ),
    sort="-number",
    key="number",
    file="fairness-intervals",
)
INTERVALS_BY_USE = _without(INTERVALS, "certificates", "broken_count", "jain_index", "unsold")
IN_INTERVAL = Table(
    (
        Column("name", "Tenant", order="name"),
        _amount("own_value", "Own jobs"),
        _amount("rented_value", "Rented jobs"),
        _amount("paid", "Paid"),
        _amount("received", "Received"),
        GAIN,
        _amount("alone", "Alone"),
        _column("share", "Part of cells"),
        _column("part_of_gains", "Part of gains"),
        _column("ratio", "Ratio"),
        _column("contributed", "Contributed"),
        _amount("earned", "Earned"),
        _column("reward", "Reward"),
    ),
    sort="-gain",
    file="fairness-interval",
)
IN_INTERVAL_BY_USE = _without(IN_INTERVAL, "alone", "contributed", "reward")
OWN = (
    Column("number", "Interval", order="number"),
    _column("ratio", "Ratio"),
    _count("waiting", "Jobs waiting on"),
)
OWN_MONEY = (
    GAIN,
    _amount("alone", "Alone"),
    _amount("paid", "Paid"),
    _amount("earned", "Earned"),
    _amount("forgone", "Missed"),
)


def own(*, money: bool, by_use: bool) -> Table:
    """Return the table of a tenant's own intervals. `money` says whether the reader may see amounts, `by_use` whether
    the pool is elastic."""
    columns = (*OWN, *OWN_MONEY) if money else OWN
    table = Table(columns, sort="-number", rows=20, key="number", file="my-fairness")
    return _without(table, "alone", "forgone") if by_use else table
