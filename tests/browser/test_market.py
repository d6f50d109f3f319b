"""The market page in a browser: it moves by itself, says so, and can be read by everybody."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from scheduling.app.clock import pool_advance
from scheduling.jobs.submission import job_submit
from scheduling.models import Pool
from tenants.models import User
from tenants.roles import OWNER
from tenants.scoping import scope
from tenants.selectors import access_of, tenant_by_slug
from tests.browser.conftest import until
from tests.database import overwrite
from tests.scheduling.live import SPEC
from tests.scheduling.markets import make_market, make_waiting
from tests.tenants.builders import make_member

pytestmark = pytest.mark.django_db(transaction=True)

WATCH_TABLE = """() => {
  window.table = document.getElementById('gantt-details');
  window.seenShut = 0;
  new MutationObserver(() => { if (!document.getElementById('gantt-details').open) window.seenShut += 1; })
    .observe(document.body, { childList: true, subtree: true, attributes: true });
}"""
# Whether a chart was there without a line.
BLANK = """() => {
  window.first = document.querySelector('.plot canvas');
  window.blank = 0;
  new MutationObserver(() => { if (document.querySelector('.plot:not(:has(canvas))')) window.blank += 1; })
    .observe(document.body, { childList: true, subtree: true });
}"""
# What the legend of the chart says of each resource, and the same of each slot in the table.
LEGEND = """() => [...document.querySelectorAll('.plot[data-chart=price] .u-legend .u-series')]
  .slice(1).map((row) => row.querySelector('.u-value').textContent)"""
SLOT_SHOWN = "document.querySelector('.plot[data-chart=price] .u-legend .u-series .u-value').textContent"
PRICES = """() => [...document.querySelectorAll('#price-table tbody tr')]
  .map((row) => [...row.querySelectorAll('td')].map((cell) => cell.textContent))"""
LONG = {"epochs": 400, "value": {"kind": "linear", "slope": -0.001, "base": 90.0}}
Act = Callable[..., Any]


def market(slot_seconds: int = 60) -> tuple[Pool, User]:
    """Slots of a minute, so that none ends while somebody looks. Lumen runs a job, castor three, and one waits."""
    pool, (lumen, castor, _) = make_market("lumen", "castor", "orrin", slot_seconds=slot_seconds)
    for tenant, count in ((lumen, 1), (castor, 3)):
        for _ in range(count):
            make_waiting(pool, tenant, 0.0, **LONG)
    pool_advance(pool_id=pool.pk, at=pool.slot_start(2))
    pool.epoch_at = timezone.now() - 2.1 * (pool.slot_start(1) - pool.epoch_at)
    overwrite(pool)
    make_waiting(pool, lumen, 2.0, **LONG)
    return pool, make_member(lumen, OWNER).user


def submit(pool: Pool, user: User, name: str) -> None:
    lumen = tenant_by_slug("lumen")
    assert lumen is not None
    with scope(lumen):
        by = access_of(user, lumen)
        answer = job_submit(pool=pool, name=name, spec=SPEC | LONG, lane="batch", by=by, at=timezone.now())
    assert hasattr(answer, "job"), answer


def live(page: Any) -> None:
    page.wait_for_selector('[data-live-state][data-state="live"]')


@pytest.mark.parametrize(("theme", "width"), [("light", 1440), pytest.param("dark", 390, marks=pytest.mark.wide)])
def test_market_moves_by_itself(visit: Act, act: Act, theme: str, width: int) -> None:
    pool, user = act(market)
    one = visit(user, theme=theme, width=width)
    one.open("/t/lumen/market/")
    live(one.page)
    assert one.page.locator("text=arrived-meanwhile").count() == 0
    act(submit, pool, user, "arrived-meanwhile")
    until(lambda: one.page.locator(".job-name", has_text="arrived-meanwhile").count() == 1)
    assert one.page.locator("#own-jobs").get_attribute("data-running") == "1"
    assert one.page.title() == "(1) Market · Bourse"


@pytest.mark.wide
def test_nothing_stands_in_anybodys_way(visit: Act, act: Act) -> None:
    _, user = act(market)
    one = visit(user)
    for path in ("market/", "servers/", "servers/?window=96"):
        one.open(f"/t/lumen/{path}")
        live(one.page)
        for theme in ("light", "dark"):
            one.page.emulate_media(color_scheme=theme)
            assert one.axe() == [], (path, theme)


@pytest.mark.wide
def test_phone_scrolls_no_page_sideways(visit: Act, act: Act) -> None:
    _, user = act(market)
    one = visit(user, width=390)
    for path in ("", "market/", "servers/"):
        for width in (320, 390, 820):
            one.page.set_viewport_size({"width": width, "height": 844})
            one.open(f"/t/lumen/{path}")
            assert one.sideways() <= 0, (path, width)


@pytest.mark.wide
def test_times_of_another_day_make_no_page_slide(visit: Act, act: Act) -> None:
    """They are longer by the date."""
    _, user = act(market, 30 * 3600)  # whatever the time of day, the running slot began on another day
    one = visit(user, width=820)
    one.open("/t/lumen/market/")
    assert one.page.locator("td.span time", has_text=", ").count() >= 1
    for width in (320, 820, 1000):
        one.page.set_viewport_size({"width": width, "height": 844})
        until(lambda: one.sideways() <= 0)


def test_page_without_scripts_is_whole_and_says_that_it_is_not_live(visit: Act, act: Act) -> None:
    _, user = act(market)
    one = visit(user, scripts=False)
    one.open("/t/lumen/market/")
    page = one.page
    assert page.locator("[data-live-word]").first.text_content() == "Not live"
    assert page.locator(".spark").count() >= 1
    assert page.locator(".steps").is_visible()
    assert page.locator("#gantt-details tbody tr").count() >= 2
    assert page.locator(".jobs tbody tr").count() == 2


def test_name_that_is_longer_than_its_bar_ends_with_an_ellipsis(visit: Act, act: Act) -> None:
    _, user = act(market)
    one = visit(user)
    one.open("/t/lumen/market/")
    # In one call, as the live page may put another chart in the place of this one between two.
    overflow, width, whole, right, bar = one.page.evaluate("""() => {
        const span = document.querySelector('.gantt .words span')
        span.textContent = 'ranker-'.repeat(50)
        const right = each => each.getBoundingClientRect().right
        return [getComputedStyle(span).textOverflow, span.clientWidth, span.scrollWidth, right(span),
                right(span.closest('.words'))]
    }""")
    assert overflow == "ellipsis"
    assert 0 < width < whole
    assert right <= bar


@pytest.mark.wide
def test_times_are_those_of_the_readers_zone(visit: Act, act: Act) -> None:
    _, user = act(market)
    one = visit(user, zone="Asia/Tokyo")
    one.open("/t/lumen/")  # tells the server the zone
    one.open("/t/lumen/market/")
    assert "Times and days in Asia/Tokyo" in one.page.locator("footer").inner_text()
    moment = one.page.locator("#board-live time").first
    hour = int(moment.inner_text().split(":")[0])
    assert hour == (int(moment.get_attribute("datetime")[11:13]) + 9) % 24


@pytest.mark.wide
def test_focus_and_open_tables_survive_a_part_that_is_replaced(visit: Act, act: Act) -> None:
    pool, user = act(market)
    one = visit(user)
    one.open("/t/lumen/market/")
    live(one.page)
    one.page.click("#gantt-summary")
    one.page.focus("#gantt-summary")
    one.page.evaluate(WATCH_TABLE)
    act(submit, pool, user, "arrived-meanwhile")
    until(lambda: one.page.locator(".job-name", has_text="arrived-meanwhile").count() == 1)
    one.page.wait_for_function("() => window.table !== document.getElementById('gantt-details')")
    one.page.wait_for_function("document.activeElement.id === 'gantt-summary'")
    one.page.wait_for_load_state("networkidle")
    assert one.page.locator("#gantt-details").get_attribute("open") is not None
    assert one.page.evaluate("window.seenShut") == 0


@pytest.mark.wide
def test_scrolled_chart_stays_where_it_was_when_parts_are_replaced_at_once(visit: Act, act: Act) -> None:
    pool, user = act(market)
    one = visit(user, width=390)
    one.open("/t/lumen/market/")
    live(one.page)
    offset = "document.querySelector('#servers-live [data-scroll-to]').scrollLeft"
    one.page.evaluate(f"{offset} = 137")
    act(submit, pool, user, "arrived-meanwhile")
    until(lambda: one.page.locator(".job-name", has_text="arrived-meanwhile").count() == 1)
    one.page.wait_for_load_state("networkidle")
    assert one.page.evaluate(offset) == 137


def test_page_that_was_cut_off_says_so_and_catches_up(visit: Act, act: Act) -> None:
    pool, user = act(market)
    one = visit(user)
    one.open("/t/lumen/market/")
    live(one.page)
    one.page.evaluate("window.liveSocket.close()")
    one.page.wait_for_selector('[data-live-state][data-state="off"]', state="attached")
    act(submit, pool, user, "arrived-in-the-gap")
    until(lambda: one.page.locator(".job-name", has_text="arrived-in-the-gap").count() == 1)
    live(one.page)


def test_chart_says_a_price_in_the_words_of_the_table(visit: Act, act: Act) -> None:
    _, user = act(market)
    one = visit(user)
    one.open("/t/lumen/market/")
    until(lambda: any(words != "–" for words in one.page.evaluate(LEGEND)))
    assert one.page.evaluate(LEGEND) in one.page.evaluate(PRICES)


@pytest.mark.wide
@pytest.mark.parametrize(
    ("slot_seconds", "moment"), [(60, r"\d\d:\d\d(:\d\d)?"), (86_400, r"\d+ [A-Z]\w+, \d\d:\d\d(:\d\d)?")]
)
def test_chart_of_more_than_a_day_names_days(visit: Act, act: Act, slot_seconds: int, moment: str) -> None:
    _, user = act(market, slot_seconds)
    one = visit(user)
    one.open("/t/lumen/market/")
    until(lambda: one.page.evaluate(SLOT_SHOWN) not in ("–", "--"))
    assert re.fullmatch(moment, one.page.evaluate(SLOT_SHOWN))


def test_a_chart_is_never_blank_while_its_part_is_replaced(visit: Act, act: Act) -> None:
    pool, user = act(market)
    one = visit(user)
    one.open("/t/lumen/market/")
    live(one.page)
    one.page.wait_for_selector(".plot canvas")
    one.page.evaluate(BLANK)
    act(submit, pool, user, "arrived-meanwhile")
    one.page.wait_for_function("() => !window.first.isConnected")
    one.page.wait_for_selector(".plot canvas")
    assert one.page.evaluate("window.blank") == 0


def test_a_zoom_into_the_chart_stays_while_its_part_is_replaced(visit: Act, act: Act) -> None:
    """What a reader chose to look at is theirs until they press twice."""

    def leftmost() -> str:
        one.page.mouse.move(0, 0)
        until(lambda: one.page.evaluate(SLOT_SHOWN) != "–")
        box = one.page.locator(".plot[data-chart=price] .u-over").bounding_box()
        one.page.mouse.move(box["x"] + 3, box["y"] + box["height"] / 2)
        one.page.evaluate("() => new Promise(requestAnimationFrame)")
        return str(one.page.evaluate(SLOT_SHOWN))

    pool, user = act(market)
    one = visit(user)
    one.open("/t/lumen/market/")
    live(one.page)
    one.page.wait_for_load_state("networkidle")  # no part is replaced under the hand
    one.page.evaluate("() => document.querySelector('.plot[data-chart=price]').scrollIntoView({ block: 'center' })")
    whole = leftmost()
    box = one.page.locator(".plot[data-chart=price] .u-over").bounding_box()
    height = box["y"] + box["height"] / 2
    one.page.mouse.move(box["x"] + box["width"] * 0.6, height)
    one.page.mouse.down()
    one.page.mouse.move(box["x"] + box["width"] * 0.9, height, steps=5)
    one.page.mouse.up()
    left_edge = leftmost()
    assert left_edge != whole
    one.page.evaluate(BLANK)
    act(submit, pool, user, "arrived-meanwhile")
    one.page.wait_for_function("() => !window.first.isConnected")
    one.page.wait_for_selector(".plot canvas")
    one.page.wait_for_load_state("networkidle")
    assert leftmost() == left_edge
    one.page.emulate_media(color_scheme="dark")  # all charts are drawn anew
    assert leftmost() == left_edge
    one.page.locator(".plot[data-chart=price] .u-over").dblclick()
    assert leftmost() == whole


def test_bar_shows_all_of_its_sentence_about_late_decisions(visit: Act, act: Act) -> None:
    def late_market() -> User:
        pool, user = market()
        pool.name, pool.epoch_at = "Sweeps (elastic)", pool.epoch_at - timedelta(seconds=3_600)
        overwrite(pool)
        return user

    one = visit(act(late_market), width=1120)
    one.open("/t/lumen/jobs/")
    sentence = one.page.wait_for_selector("#tape .late-word:not([hidden])")
    assert re.fullmatch(r"decisions are \d{4} s late", sentence.inner_text())
    assert one.page.evaluate("(bar => bar.scrollWidth - bar.clientWidth)(document.getElementById('tape'))") == 0


def test_bar_shows_all_that_it_has_in_windows_of_every_width(visit: Act, act: Act) -> None:
    def market_with_a_long_name() -> User:
        pool, user = market()
        pool.name = "Sweeps (elastic), second floor"
        overwrite(pool)
        return user

    one = visit(act(market_with_a_long_name))
    one.open("/t/lumen/jobs/")
    live(one.page)
    over = {}
    for width in (641, 700, 768, 820, 960, 961, 1024, 1100, 1200, 1201, 1280):
        one.page.set_viewport_size({"width": width, "height": 900})
        over[width] = one.page.evaluate("(bar => bar.scrollWidth - bar.clientWidth)(document.getElementById('tape'))")
    assert not {width: by for width, by in over.items() if by > 0}
