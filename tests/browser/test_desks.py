"""A desk of 1280 pixels, and readers east of Greenwich: tables are whole, days are theirs, and a page has one zone."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.browser.test_every_page import slides
from tests.browser.test_market import live, market

pytestmark = pytest.mark.django_db(transaction=True)

WIDTH = 1280
SLOT_OF_HOURS = 3 * 3600  # what is of another day is called so, which takes room
HIDDEN = """() => [...document.querySelectorAll('main .scroll')]
  .filter((box) => box.scrollWidth > box.clientWidth).length"""
# A chart of days that this page does not have: three midnights of UTC. What is written on its canvas is noted.
TREND = """() => {
  window.written = [];
  const write = CanvasRenderingContext2D.prototype.fillText;
  CanvasRenderingContext2D.prototype.fillText = function (text, x, y) {
    window.written.push(text);
    return write.call(this, text, x, y);
  };
  const part = document.createElement("section");
  const rows = [27, 28, 29].map((day) => `<tr><th data-k="t" data-v="${Date.UTC(2026, 10, day) / 1000}"></th>`
    + '<td data-k="a" data-v="1"></td></tr>');
  part.innerHTML = '<table id="trend" data-keys="a"><thead><tr><th></th>'
    + '<th data-col="a" data-short="AB">Ab</th></tr></thead>'
    + `<tbody>${rows.join("")}</tbody></table><div class="plot" data-chart="trend" data-table="trend"></div>`;
  document.querySelector("main").append(part);
  document.dispatchEvent(new CustomEvent("part", { detail: part }));
}"""
DAYS_ON_CANVAS = "() => [...new Set(window.written)].filter((text) => text.endsWith('Nov'))"
Act = Callable[..., Any]


def hour_after_midnight() -> str:
    """The zone in which what has been is of another day. Zones of this family have their sign the other way round."""
    ahead = (11 - datetime.now(UTC).hour) % 24 - 11
    return f"Etc/GMT{-ahead:+d}" if ahead else "Etc/GMT"


def test_tables_are_whole_on_a_small_desk(visit: Act, act: Act) -> None:
    _, user = act(market, SLOT_OF_HOURS)
    one = visit(user, width=WIDTH, zone=hour_after_midnight())
    one.open("/t/lumen/glossary/")  # tells the server the zone
    for path in ("intervals/main/2/", "ledger/", "programs/of/operator/trainer/"):
        one.open(f"/t/lumen/{path}")
        assert (path, slides(one, WIDTH), one.page.evaluate(HIDDEN)) == (path, [], 0)


def test_days_of_a_trend_are_those_of_its_points_wherever_the_reader_is(visit: Act, act: Act) -> None:
    _, user = act(market)
    one = visit(user, zone="Europe/Berlin")
    one.open("/t/lumen/glossary/")
    one.open("/t/lumen/market/")
    one.page.evaluate(TREND)
    one.page.wait_for_function("() => window.written.length > 0")
    assert one.page.evaluate(DAYS_ON_CANVAS) == ["27 Nov", "28 Nov", "29 Nov"]
    assert one.page.locator("[data-table=trend] .u-legend .u-value").first.inner_text() == "29 Nov"


def test_a_part_has_the_zone_that_the_foot_of_its_page_names(visit: Act, act: Act) -> None:
    """The browser of somebody who travels tells the server the new zone when a page of the old one is open already."""
    _, user = act(market)
    one = visit(user, zone="Asia/Tokyo")
    one.open("/t/lumen/market/")
    live(one.page)
    assert "Times and days in UTC" in one.page.locator("footer").inner_text()
    one.page.evaluate("window.before = document.getElementById('board-live')")
    one.page.evaluate("htmx.trigger(window.before, 'live')")
    one.page.wait_for_function("() => window.before !== document.getElementById('board-live')")
    moment = one.page.locator("#board-live time").first
    assert moment.inner_text().split(":")[0] == moment.get_attribute("datetime")[11:13]
