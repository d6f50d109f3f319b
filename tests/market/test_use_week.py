"""Use by weekday and hour: the mean of weeks, in the reader's zone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from scheduling.market.pages.use_week import Week, WeekCell, week_of
from scheduling.market.reads.use import HOUR, MILLIONTHS, UseColumn

MONDAY = datetime(2026, 3, 2, 12, tzinfo=UTC)
WEEK = timedelta(days=7)


def column(at: datetime, used: float, *, capacity: int = 8, hours: int = 1, slots: int = 6) -> UseColumn:
    """`used` and `capacity`: units."""
    parts = {"used": int(used * MILLIONTHS * slots), "lent": 0, "down": 0}
    parts["unsold"] = capacity * MILLIONTHS * slots - parts["used"]
    over = at + hours * HOUR
    return UseColumn(at, at, over, 1, slots, capacity * MILLIONTHS * slots, parts, rented=0, price=None)


def percentages(week: Week | None) -> dict[str, int]:
    assert week is not None
    cells = [cell for row in week.rows for cell in row.cells]
    return {f"{week.rows[cell.weekday].name} {cell.hour}": cell.percent for cell in cells if cell.percent is not None}


def test_an_hour_is_the_mean_of_its_weeks() -> None:
    columns = [column(MONDAY, 2), column(MONDAY + WEEK, 6), column(MONDAY + HOUR, 8), column(MONDAY + 26 * HOUR, 0)]
    week = week_of(columns, parts=("used",), zone=UTC)
    assert percentages(week) == {"Monday 12": 50, "Monday 13": 100, "Tuesday 14": 0}
    assert week is not None
    assert week.most.words == "Monday 13:00 to 14:00, 100 %"
    assert week.least.words == "Tuesday 14:00 to 15:00, 0 %"
    assert [len(cells) for _, cells in week.by_hour] == [7] * 24


def test_weeks_with_more_units_weigh_more() -> None:
    columns = [column(MONDAY, 8, capacity=8), column(MONDAY + WEEK, 0, capacity=24)]
    assert percentages(week_of(columns, parts=("used",), zone=UTC)) == {"Monday 12": 25}


def test_hours_are_those_of_the_reader() -> None:
    late = datetime(2026, 3, 2, 23, tzinfo=UTC)
    assert percentages(week_of([column(late, 4)], parts=("used",), zone=ZoneInfo("Asia/Tokyo"))) == {"Tuesday 8": 50}


def test_an_hour_of_the_reader_may_be_of_two_of_the_day_and_is_there_once_more_where_clocks_go_back() -> None:
    zone = ZoneInfo("Asia/Kolkata")  # five hours and a half ahead
    assert percentages(week_of([column(MONDAY, 4)], parts=("used",), zone=zone)) == {"Monday 17": 50, "Monday 18": 50}
    back = datetime(2026, 4, 4, 13, tzinfo=UTC)  # Lord Howe's clocks go back by half an hour at 15:00 of UTC
    hours = [column(back + number * HOUR, used) for number, used in enumerate((8, 0, 8))]
    assert percentages(week_of(hours, parts=("used",), zone=ZoneInfo("Australia/Lord_Howe"))) == {
        "Sunday 0": 100,
        "Sunday 1": 33,  # an hour of nothing, and half an hour of all
        "Sunday 2": 100,
    }


def test_a_slot_longer_than_an_hour_counts_in_each_hour_that_it_covers() -> None:
    long = column(MONDAY + timedelta(minutes=30), 4, hours=2, slots=1)
    assert percentages(week_of([long], parts=("used",), zone=UTC)) == dict.fromkeys(
        ("Monday 12", "Monday 13", "Monday 14"), 50
    )


def test_shades_have_equal_steps_and_the_last_holds_all_of_it() -> None:
    shades = [WeekCell(0, 0, percent).shade for percent in (0, 19, 20, 79, 80, 100, None)]
    assert shades == ["h0", "h0", "h1", "h3", "h4", "h4", ""]


def test_of_nothing_there_is_no_picture() -> None:
    assert week_of([], parts=("used",), zone=UTC) is None
    assert week_of([column(MONDAY, 0, capacity=0)], parts=("used",), zone=UTC) is None
