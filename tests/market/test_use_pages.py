"""Use over time as people and programs read it: every table adds up as it is shown, every picture has its table."""

from __future__ import annotations

import csv
import io
import re
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.utils import timezone
from django.utils.html import strip_tags
from hypothesis import given
from hypothesis import strategies as st

from scheduling.market.pages.use import period_of
from scheduling.market.pages.use_picture import heat, percents, server_groups, share_words, use_picture, use_table
from scheduling.market.reads.use import HOUR, MILLIONTHS, OWN_PARTS, POOL_PARTS, GroupUse, UseColumn
from scheduling.market.settle.use import use_in_turn
from scheduling.models import Lane, LaneClock, Pool
from tenants.common.zones import midnight
from tenants.ledger.amounts import THOUSANDS
from tenants.models import Tenant
from tenants.roles import OWNER, VIEWER
from tenants.templatetags.look import unit_hours_said
from tests.api.builders import problem, program_of
from tests.market.test_servers_page import make_person
from tests.scheduling.builders import make_cells, make_server, make_tenant
from tests.scheduling.live import SPEC, make_award, make_live_pool
from tests.scheduling.pages import client_as, client_of

pytestmark = pytest.mark.django_db
NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)


@st.composite
def columns(draw, names=POOL_PARTS):
    """Hours one after the other, of amounts of which few are whole unit-hours."""
    columns_of_use = []
    for number in range(draw(st.integers(1, 6))):
        parts = {name: draw(st.integers(0, 10**12)) for name in names}
        columns_of_use.append(
            UseColumn(
                starts_at=NOON + number * HOUR,
                first_at=NOON + number * HOUR,
                ends_at=NOON + (number + 1) * HOUR,
                resource_id=1,
                slots=draw(st.integers(1, 360)),
                capacity=sum(parts.values()),
                parts=parts,
                rented=draw(st.integers(0, 10**12)),
                price=draw(st.none() | st.floats(0, 100)),
            )
        )
    return tuple(columns_of_use)


@given(columns(), st.integers(1, 7200))
def test_digits_that_are_shown_add_up_both_ways(uses: tuple[UseColumn, ...], slot_seconds: int) -> None:
    rows, total = use_table(uses, order=POOL_PARTS, slot_seconds=slot_seconds)
    assert all(sum(row.parts) == row.capacity for row in (*rows, total))
    assert [sum(parts) for parts in zip(*(row.parts for row in rows), strict=True)] == list(total.parts)
    for row, column in zip(rows, uses, strict=True):  # each is the exact figure to a hundredth
        for name, value in zip(POOL_PARTS, row.parts, strict=True):
            assert abs(value - column.parts[name] * slot_seconds / 36 / MILLIONTHS) <= 2


@given(columns(OWN_PARTS), st.booleans())
def test_bands_stand_on_each_other_and_stay_in_the_picture(uses: tuple[UseColumn, ...], own: bool) -> None:
    order = OWN_PARTS
    end = NOON + timedelta(hours=6)
    picture = use_picture(uses, first=NOON, end=end, order=order, own=own, height=190, with_price=True)
    for rect in picture.rects:
        assert picture.base - 190 - 0.2 <= rect.y <= rect.y + rect.height <= picture.base + 0.2
        assert 0 <= rect.x <= rect.x + rect.width <= 100.01
    assert len(picture.rects) <= 5 * len(uses)
    assert picture.ticks[0].y == picture.base


def test_neighbours_that_are_alike_are_one_rectangle_and_a_break_in_the_price_is_seen() -> None:
    parts = dict.fromkeys(POOL_PARTS, 360 * MILLIONTHS)
    one = UseColumn(NOON, NOON, NOON + HOUR, 1, 360, 4 * 360 * MILLIONTHS, parts, 0, 1.0)
    uses = [replace(one, first_at=NOON + n * HOUR, ends_at=NOON + (n + 1) * HOUR) for n in range(4)]
    uses[2] = replace(uses[2], price=None)
    picture = use_picture(
        uses, first=NOON, end=NOON + 4 * HOUR, order=POOL_PARTS, own=False, height=100, with_price=True
    )
    assert [(rect.name, rect.x, rect.width) for rect in picture.rects] == [(name, 0, 100) for name in POOL_PARTS]
    assert picture.price_line.count("M") == 2
    assert picture.price_area == ""


def test_many_servers_share_rows() -> None:
    names = {number: f"s{number:03}" for number in range(1, 501)}
    groups = server_groups(list(names))
    assert (len(groups), len(groups[0]), sum(len(group) for group in groups)) == (39, 13, 500)
    uses = [GroupUse(group, NOON + n * HOUR, 100, 45 if n else 0, 0 if n else 100) for group in (0, 1) for n in (0, 1)]
    picture = heat(uses, groups=groups, names=names, first=NOON, end=NOON + 2 * HOUR)
    assert picture is not None
    assert ([row.name for row in picture.rows], picture.each) == (["s001 to s013", "s014 to s026"], 13)
    assert [(cell.shade, cell.percent) for cell in picture.rows[1].cells] == [("down", "\N{EN DASH}"), ("h2", "45")]
    assert heat([], groups=groups, names=names, first=NOON, end=NOON + HOUR) is None
    long = heat(uses[:1], groups=groups, names=names, first=NOON, end=NOON + 4 * HOUR, slot=3 * HOUR)
    assert long is not None
    assert long.rows[0].cells[0].width == "74.80", "a slot of three hours is in one hour, and fills them all"
    assert server_groups([]) == []


def market() -> tuple[Pool, Tenant, Tenant]:
    """Lumen owns four of eight workers and uses one and a half; castor rents three. Two hours of ten minutes."""
    begin = timezone.now().astimezone(UTC).replace(minute=0, second=0, microsecond=0) - timedelta(hours=3)
    pool = make_live_pool(slot_seconds=600, epoch_at=begin)
    lumen, castor = make_tenant("lumen"), make_tenant("castor")
    server = make_server(pool)
    make_cells(server, lumen, {"worker": 4})
    half = SPEC | {"worker_demand": {"worker": 0.5}}
    make_award(pool, lumen, slots=12, phase="own", spec=half, allocation=[[server.pk, 0, 12, 3, 0]])
    make_award(pool, castor, start=1, slots=8, allocation=[[server.pk, 1, 9, 3, 1]])
    LaneClock.objects.update_or_create(pool=pool, lane=Lane.BATCH, defaults={"settled_slot": 11})
    assert use_in_turn(at=timezone.now()) == 12
    return pool, lumen, castor


def numbers(html: str) -> list[list[Decimal]]:
    """Of the table's rows, the cells that are numbers."""
    table = html.split('id="use-numbers"', 1)[1].split("</table>", 1)[0]
    rows = re.findall(r"<tr>(.*?)</tr>", table.split("<tbody>", 1)[1], re.S)
    cells = [[strip_tags(cell).strip() for cell in re.findall(r"<td[^>]*>(.*?)</td>", row, re.S)] for row in rows]
    plain = [[cell.replace("\N{NARROW NO-BREAK SPACE}", "") for cell in row] for row in cells]
    return [[Decimal(cell) for cell in row if re.fullmatch(r"[\d.]+", cell)] for row in plain]


def test_pages_of_a_tenant_show_sums_that_add_up_and_what_is_nobodys_business_not() -> None:
    _, lumen, castor = market()
    browser = client_of(make_person("owner", lumen))
    for address in ("", "?of=pool", "?span=week", "?span=month&of=pool", "?resource=ps&of=pool"):
        html = browser.get(f"/t/{lumen.slug}/use/{address}").content.decode()
        rows = numbers(html)
        assert len(rows) >= 2
        for row in rows:
            assert sum(row[:4]) == row[4], address
        assert [sum(column) for column in zip(*(row[:5] for row in rows[:-1]), strict=True)] == rows[-1][:5]
        assert castor.name not in html
    html = browser.get(f"/t/{lumen.slug}/use/").content.decode()
    assert numbers(html)[0][:5] == [Decimal(text) for text in ("1.50", "2.08", "0.42", "0.00", "4.00")]
    assert 'role="img"' in html
    assert "Servers by hour" not in html
    whole = browser.get(f"/t/{lumen.slug}/use/?of=pool").content.decode()
    assert re.findall(r'<td class="num">(\d+)</td>', whole.split('id="heat-numbers"', 1)[1]) == ["50", "37"]
    renter = client_as(VIEWER, castor).get(f"/t/{castor.slug}/use/").content.decode()
    assert "No worker was mine. I rented <b>4.00</b> worker-hours." in " ".join(renter.split())


def test_the_picture_comes_to_other_pages_as_a_part_and_stands_there_as_a_link_before() -> None:
    _, lumen, _ = market()
    browser = client_of(make_person("owner", lumen))
    for page, whose in (("share/", "mine"), ("market/", "pool")):
        html = browser.get(f"/t/{lumen.slug}/{page}").content.decode()
        assert f"/t/lumen/use/?pool=main&amp;of={whose}&amp;part=panel" in html
    part = browser.get(f"/t/{lumen.slug}/use/?of=mine&part=panel").content.decode()
    assert "<html" not in part
    assert "Use of my workers" in part


def test_use_by_weekday_comes_to_the_share_page_and_stands_below_thirty_days() -> None:
    _, lumen, _ = market()
    browser = client_of(make_person("owner", lumen))
    share = browser.get(f"/t/{lumen.slug}/share/").content.decode()
    assert "/t/lumen/use/?pool=main&amp;of=mine&amp;span=month&amp;part=week" in share
    part = browser.get(f"/t/{lumen.slug}/use/?of=mine&span=month&part=week").content.decode()
    assert "<html" not in part
    assert "When I use them myself" in part
    assert 'id="use-week"' in browser.get(f"/t/{lumen.slug}/use/?span=month").content.decode()
    assert 'id="use-week"' not in browser.get(f"/t/{lumen.slug}/use/?span=day").content.decode()
    assert "In every hour that is counted: 38 %." in part  # one and a half of four


def test_reads_are_bounded_however_long_the_span(django_assert_max_num_queries: Any) -> None:
    _, lumen, _ = market()
    browser = client_of(make_person("owner", lumen))
    for address in ("?span=month", "?of=pool"):
        with django_assert_max_num_queries(24):
            browser.get(f"/t/{lumen.slug}/use/{address}")


def test_programs_read_figures_that_add_up_as_they_are_written_also_as_csv() -> None:
    _, lumen, _ = market()
    caller = program_of(VIEWER, lumen)
    for address, parts in (
        ("pools/main/use/", POOL_PARTS),
        ("pools/main/use/?by=day&resource=worker", POOL_PARTS),
        ("tenants/lumen/pools/main/use/", OWN_PARTS),
    ):
        reply = caller.get(address)
        assert reply.status_code == 200, reply.content
        lines = list(
            csv.DictReader(io.StringIO(_text(caller.get(f"{address}{'&' if '?' in address else '?'}format=csv"))))
        )
        assert len(lines) == len(reply.json()["results"]) > 0
        for line, row in zip(lines, reply.json()["results"], strict=True):
            assert sum(Decimal(line[name]) for name in parts) == Decimal(line["capacity"])
            assert sum(Decimal(str(row[name])) for name in parts) == Decimal(str(row["capacity"]))
    own = caller.get("tenants/lumen/pools/main/use/?resource=worker").json()["results"][0]
    assert (own["used"], own["capacity"], own["slots"], own["price"]) == (9.0, 24.0, 6, None)


def _text(reply: Any) -> str:
    return b"".join(reply.streaming_content).decode() if reply.streaming else reply.content.decode()


def test_programs_are_told_what_is_wrong_with_a_span() -> None:
    _, lumen, _ = market()
    caller = program_of(OWNER, lumen)
    for query in (
        "from=2026-01-01T00:00:00Z&before=2026-03-01T00:00:00Z",
        "from=2030-01-01T00:00:00Z",
        "by=week",
        "before=0001-01-01T00:00:00Z",
        "from=9999-12-31T23:00:00Z&before=9999-12-31T23:59:59Z&by=day",
    ):
        for address in ("pools/main/use/", "tenants/lumen/pools/main/use/"):
            problem(caller.get(f"{address}?{query}"), 400, "invalid_request")


@pytest.mark.parametrize(("zone", "day"), [("Europe/Berlin", "2026-10-22"), ("America/New_York", "2026-03-05")])
def test_a_picture_of_days_says_each_day_once_where_clocks_are_changed_between_them(zone: str, day: str) -> None:
    with timezone.override(zone):
        days = [date.fromisoformat(day) + timedelta(days=number) for number in range(8)]
        first, end = midnight(days[0]), midnight(days[7])
        picture = use_picture([], first=first, end=end, order=POOL_PARTS, own=False, height=190, with_price=False)
        ticks = [(tick.x, timezone.localtime(tick.at)) for tick in picture.times]
    assert (end - first) % timedelta(days=1)
    assert [at.date() for _, at in ticks] == days
    assert {at.hour for _, at in ticks} == {0}
    assert (ticks[0][0], ticks[-1][0]) == (0.0, 100.0)


def test_what_there_is_at_all_is_never_nothing_in_a_hundred() -> None:
    amounts = [999, 1, 0]
    shares = [share_words(amount, share) for amount, share in zip(amounts, percents(amounts), strict=True)]
    assert shares == [f"{share}\N{NO-BREAK SPACE}%" for share in ("100", "under 1", "0")]


@pytest.mark.parametrize("minutes", [1, 60, 179, 200])
def test_day_of_a_pool_of_long_slots_has_all_that_are_over(minutes: int) -> None:
    pool = Pool(slot_seconds=3 * 3600, epoch_at=NOON)
    now = NOON + timedelta(days=3, minutes=minutes)
    period = period_of("day", now, pool)
    over = [pool.slot_start(slot) for slot in range(pool.slot_at(now))]
    assert sum(period.first <= start < period.end for start in over) == 8


def test_day_of_a_pool_of_short_slots_has_24_hours() -> None:
    period = period_of("day", NOON + timedelta(minutes=5), Pool(slot_seconds=60, epoch_at=NOON))
    assert (period.first, period.end) == (NOON - 23 * HOUR, NOON + HOUR)


def test_hours_of_units_in_a_sentence_are_whole_from_a_hundred_on() -> None:
    assert unit_hours_said(9_950) == "99.50"
    assert unit_hours_said(100_800) == f"1{THOUSANDS}008"
