"""The time until an open page shows what happened: from the call that does it, its own time included, to the change in
a browser, through the real server.

Two browsers show the market and the ledger. Jobs are submitted, and slots pass that settle payments; each page notes
the moment when it shows the news. Without a Chromium there is nothing to measure.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

from django.db import connections
from django.utils import timezone

from marketplace.processes.product import web_processes
from scheduling.app.clock import pool_advance
from scheduling.jobs.submission import job_submit
from scheduling.models import Pool
from tenants.access import Access, Refused
from tenants.roles import OWNER
from tenants.scoping import scope
from tenants.selectors import access_of
from tests.bench.owned import overwrite
from tests.bench.web import session_of, web_server
from tests.browser.chromium import CHROMIUM, QUIET
from tests.scheduling.markets import SPEC, make_renting
from tests.tenants.builders import make_member

NEEDS_DATABASE = True

JOBS, SLOTS, SLOT_SECONDS = 20, 12, 60
# Both clocks are this machine's.
WATCH = """(asked) => {
  window.seenAt = 0;
  const there = () => document.querySelector(asked.where)?.textContent.includes(asked.text);
  window.watcher?.disconnect();
  window.watcher = new MutationObserver(() => { if (!window.seenAt && there()) window.seenAt = Date.now(); });
  window.watcher.observe(document.body, {childList: true, subtree: true, characterData: true});
}"""
COUNT = """(where) => {
  window.seenAt = 0;
  const count = () => document.querySelectorAll(where).length, before = count();
  window.watcher?.disconnect();
  window.watcher = new MutationObserver(() => { if (!window.seenAt && count() > before) window.seenAt = Date.now(); });
  window.watcher.observe(document.body, {childList: true, subtree: true});
}"""


def measure() -> Iterator[dict[str, Any]]:
    if not Path(CHROMIUM).exists():
        yield {"name": "live", "value": None, "unit": "ms", "target": "< 1000", "detail": f"no Chromium at {CHROMIUM}"}
        return
    from playwright.sync_api import sync_playwright

    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "true"
    pool, owner, renter = make_renting(
        slot_seconds=SLOT_SECONDS, epoch_at=timezone.now() - timedelta(seconds=2.3 * SLOT_SECONDS)
    )
    rents, owns = make_member(renter, OWNER).user, make_member(owner, OWNER).user
    # The browser's event loop lives in this thread; what the market does is done in another.
    with (
        web_server(web_processes()) as web,
        sync_playwright() as playwright,
        ThreadPoolExecutor(max_workers=1) as beside,
    ):
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=QUIET)
        market = _page(browser, web.address, "/t/renter/market/", rents)
        ledger = _page(browser, web.address, "/t/owner/ledger/", owns)
        by = access_of(rents, renter)
        delays = [_job_seen(market, beside, pool, by, number) for number in range(JOBS)]
        yield _figure("live.job_on_the_market_page", delays)
        delays = [_payment_seen(ledger, beside, pool) for _ in range(SLOTS)]
        yield _figure("live.payment_on_the_ledger_page", delays)
        browser.close()
        beside.submit(connections.close_all).result()


def _page(browser: Any, address: str, path: str, user: Any) -> Any:
    from django.conf import settings

    context = browser.new_context(reduced_motion="reduce")
    context.add_cookies([{"name": settings.SESSION_COOKIE_NAME, "value": session_of(user), "url": address}])
    page = context.new_page()
    page.goto(address + path)
    page.wait_for_selector('[data-live-state][data-state="live"]', state="attached")
    return page


def _job_seen(page: Any, beside: Executor, pool: Pool, by: Access, number: int) -> float | None:
    name = f"seen-{number:02}"
    page.evaluate(WATCH, {"where": "#market-jobs-live", "text": name})
    began = time.time()
    beside.submit(_submit, pool, by, name).result()
    return _delay(page, began)


def _submit(pool: Pool, by: Access, name: str) -> None:
    assert by.tenant is not None
    with scope(by.tenant):
        spec = SPEC | {"epochs": 6, "max_price": 20.0}
        answer = job_submit(pool=pool, name=name, spec=spec, lane="batch", by=by, at=timezone.now())
    assert not isinstance(answer, Refused), answer


def _payment_seen(page: Any, beside: Executor, pool: Pool) -> float | None:
    """Let a slot pass. Return the seconds until the ledger shows its payments, or None if it paid nobody."""
    page.evaluate(COUNT, "#ledger-entries .lend")
    began = time.time()
    beside.submit(_pass_slot, pool).result()
    return _delay(page, began, patience=5.0)


def _pass_slot(pool: Pool) -> None:
    pool.epoch_at -= timedelta(seconds=SLOT_SECONDS)
    overwrite(pool)
    pool_advance(pool_id=pool.pk, at=timezone.now())


def _delay(page: Any, since: float, patience: float = 20.0) -> float | None:
    """Return the seconds from `since` until the page showed the news, or None if it did not within `patience`."""
    from playwright.sync_api import TimeoutError as NotSeen

    try:
        page.wait_for_function("() => window.seenAt > 0", timeout=1_000 * patience)
    except NotSeen:
        return None
    return float(page.evaluate("window.seenAt")) / 1_000 - since


def _figure(name: str, took: list[float | None]) -> dict[str, Any]:
    ordered = sorted(1_000 * one for one in took if one is not None)
    return {
        "name": name,
        "value": round(ordered[-1], 0),
        "unit": "ms, the slowest",
        "target": "< 1000",
        "detail": {"median_ms": round(ordered[len(ordered) // 2], 0), "times": len(ordered), "of": len(took)},
    }
