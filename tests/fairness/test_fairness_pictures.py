"""Pictures of fairness stay inside their frame, and lists and spans are read as their addresses say."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

import pytest
from django.http import QueryDict
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scheduling.core.metrics.period import period_ratio, period_reward, spread
from scheduling.fairness.pages.picture import MOST, dots_of, idle_of, rewards_of, trend_of
from scheduling.fairness.pages.spans import DaySpan, span_asked
from scheduling.fairness.read_values import TenantPeriod
from tenants.views.lists import list_page
from tenants.views.tables import Column, Table

TODAY = date(2026, 3, 31)


def tenant(
    number: int, gain: float, *, earned: float = 0.0, offered: float = 0.0, unoffered: float = 0.0
) -> TenantPeriod:
    by_day = {date(2026, 3, 30): gain * 0.9, TODAY: gain * 1.1}
    return TenantPeriod(
        tenant_id=number, name=f"Tenant {number}", slug=f"t{number}", own_value=gain, rented_value=0.0, paid=0.0,
        received=0.0, gain=gain, alone=0.0, even=1.0, earned=earned, contributed=offered, forgone=0.0, rent_saved=0.0,
        waiting=0, broken=0, offered={"worker": offered}, sold={"worker": offered / 2}, kept={"worker": unoffered},
        by_day=by_day, revenue=10.0,
    )  # fmt: skip


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)  # a busy machine draws slowly
@given(st.lists(st.integers(-500, 4_000).map(lambda number: number / 100), min_size=1, max_size=40))
def test_every_dot_and_mark_lies_inside_the_picture(gains: list[float]) -> None:
    rows = [tenant(number, gain) for number, gain in enumerate(sorted(gains, reverse=True))]
    picture = dots_of(rows, worst=None)
    assert picture is not None
    assert len(picture.dots) == min(len(rows), MOST)
    assert picture.left_out == len(rows) - len(picture.dots)
    places = [x for dot in picture.dots for x in (dot.x, dot.low, dot.high)] + [tick.x for tick in picture.ticks]
    assert all(0 <= x <= 100 for x in [*places, picture.one, picture.band_x, picture.band_x + picture.band_width])
    assert 2 <= len(picture.ticks) <= 9
    by_place = sorted(picture.dots, key=lambda dot: dot.x)
    assert [dot.ratio for dot in by_place] == sorted(dot.ratio for dot in picture.dots)


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.lists(st.tuples(st.floats(0, 9), st.floats(0.1, 9), st.floats(0, 9)), min_size=1, max_size=30))
def test_bars_fill_at_most_the_picture(amounts: list[tuple[float, float, float]]) -> None:
    rows = [tenant(n, 1.0, earned=e, offered=o, unoffered=k) for n, (e, o, k) in enumerate(amounts)]
    for picture in (rewards_of(rows, worst=0), idle_of(rows)):
        for bar in picture.bars if picture else ():
            assert all(x >= 0 and x + width <= 100.000_001 for _, x, width in bar.parts)


def test_who_reads_about_itself_is_the_whole_picture() -> None:
    picture = dots_of([tenant(9, 1.1)], worst=None, mine=9)
    assert picture is not None
    assert [(dot.name, dot.kind) for dot in picture.dots] == [("Tenant 9", "mine")]
    assert picture.summary == f"Yours is {picture.dots[0].ratio:.3f}."
    (alone,) = (picture := dots_of([tenant(9, 1.1)], worst=None)).dots
    assert picture.summary == f"Tenant 9 is the only one: {alone.ratio:.3f}."
    line = trend_of([tenant(9, 1.1)], worst=None, mine=9)
    assert line is not None
    assert [each.name for each in line.lines] == ["Tenant 9"]


@pytest.mark.parametrize(
    ("query", "span"),
    [
        ("", DaySpan(date(2026, 3, 2), TODAY, 30)),
        ("days=7", DaySpan(date(2026, 3, 25), TODAY, 7)),
        ("days=8", DaySpan(date(2026, 3, 2), TODAY, 30)),
        ("from=2026-03-01&to=2026-03-02", DaySpan(date(2026, 3, 1), date(2026, 3, 2), 0)),
        ("from=2026-03-01&to=2026-03-02&days=1", DaySpan(TODAY, TODAY, 1)),
        ("from=2026-03-05&to=2026-03-02", DaySpan(date(2026, 3, 2), date(2026, 3, 2), 0)),
        ("from=2001-01-01", DaySpan(date(2025, 12, 30), TODAY, 0)),
        ("from=yesterday", DaySpan(date(2026, 3, 2), TODAY, 30)),
    ],
)
def test_days_are_those_that_were_asked_for(query: str, span: DaySpan) -> None:
    assert span_asked(QueryDict(query), today=TODAY) == span
    assert span_asked(QueryDict(span.query), today=TODAY) == span


@dataclass(frozen=True)
class Line:
    name: str
    value: float | None


LINES = [Line("b", 2.0), Line("a", None), Line("c", 3.0), Line("d", 1.0)]
TABLE = Table((Column("name", "Name", order="name"), Column("value", "Value", order="value")), sort="-value", rows=3)


def test_rows_without_a_value_come_last_whichever_way_a_list_is_sorted() -> None:
    for sort, names in (("value", "dbca"), ("-value", "cbda"), ("name", "abcd"), ("nonsense", "cbda")):
        pages = [list_page(QueryDict(f"sort={sort}&after={after}"), LINES, TABLE) for after in ("", "3")]
        assert "".join(row.name for page in pages for row in page.rows) == names
        assert (pages[0].previous, bool(pages[0].next)) == ("", True)
        assert (bool(pages[1].previous), pages[1].next) == (True, "")
    assert [row.name for row in list_page(QueryDict("after=99"), LINES, TABLE).rows] == ["c", "b", "d"]


def test_a_period_compares_gains_with_what_the_quotas_say() -> None:
    assert (period_ratio(3.0, 2.0), period_ratio(3.0, 0.0), period_ratio(3.0, -1.0)) == (1.5, None, None)
    assert (period_reward(3.0, 2.0), period_reward(3.0, 0.0)) == (1.5, None)
    stats = spread({1: 1.0, 2: 3.0, 3: None}, {1: 2.0, 2: 2.0, 3: None})
    assert (stats.ratio_variance, stats.lowest_ratio, stats.jain_index, stats.worst_off) == (1.0, 1.0, 1.0, None)
    stats = spread({}, {1: 3.0, 2: 1.0})
    assert (stats.ratio_variance, stats.jain_index, stats.reward_dispersion, stats.worst_off) == (None, 0.8, 0.5, 2)
