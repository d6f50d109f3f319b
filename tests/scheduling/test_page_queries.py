"""How many queries each page of a tenant asks, against the baseline in `page_queries.json`, and never 25 or more.

More than the baseline is a regression, or a decision: write the file anew with BOURSE_WRITE_BASELINE=1 and say why in
the commit. `bench_api` counts the same pages with a million jobs.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from django.core.cache import cache
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from scheduling.market.view import known
from scheduling.quotes import desks
from tests.market.test_servers_page import make_person
from tests.quotes.test_submit_page import FIELDS
from tests.scheduling.pages import Story, client_of, story

pytestmark = pytest.mark.django_db

BASELINE = Path(__file__).with_name("page_queries.json")
WRITE = os.environ.get("BOURSE_WRITE_BASELINE") == "1"
MOST = 24
OVERVIEW = "overview of all tenants"  # of the staff; most of it once for all pools, eight for each pool
QUOTE = "quote beside a form"  # no page but a part of one, which reads the whole market; it comes after the page
BESIDE_THE_POINT = ("SAVEPOINT", "RELEASE SAVEPOINT", "ROLLBACK TO SAVEPOINT")
PAGES: dict[str, Callable[[Story], str]] = {
    "market": lambda world: "market/",
    "servers": lambda world: "servers/",
    "jobs": lambda world: "jobs/",
    "job that runs": lambda world: f"jobs/{world.running.pk}/",
    "job with a place ahead": lambda world: f"jobs/{world.ahead.pk}/",
    "job that waits": lambda world: f"jobs/{world.waiting.pk}/",
    "submit": lambda world: "submit/",
    "share": lambda world: "share/",
    "ledger": lambda world: "ledger/",
    "statements": lambda world: "statements/",
    "statement": lambda world: "statements/period/",
    "intervals": lambda world: "intervals/",
    "interval": lambda world: f"intervals/{world.pool.slug}/1/",
    "what if": lambda world: "what-if/",
    "what if, asking": lambda world: f"intervals/{world.pool.slug}/1/what-if/",
    "members": lambda world: "members/",
    "tokens": lambda world: "tokens/",
    "webhooks": lambda world: "webhooks/",
    "history": lambda world: "history/",
}


def baseline() -> dict[str, int]:
    return json.loads(BASELINE.read_text(encoding="utf-8")) if BASELINE.exists() else {}


def counted(captured: CaptureQueriesContext) -> int:
    return sum(not query["sql"].startswith(BESIDE_THE_POINT) for query in captured)


def queries_of_a_quote(client: Client, world: Story) -> int:
    """Of the first one, which finds nothing that an earlier one has looked at."""
    desks._last_seen.clear()
    known._pools.clear()
    with CaptureQueriesContext(connection) as captured:
        answer = client.post(f"/t/{world.renter.slug}/submit/quote/", FIELDS | {"pool": world.pool.slug})
    assert "Would be" in answer.content.decode()
    return counted(captured)


def test_pages_ask_as_many_queries_as_their_baseline_and_fewer_than_25(monkeypatch: pytest.MonkeyPatch) -> None:
    world, moment = story(), timezone.now()
    monkeypatch.setattr(timezone, "now", lambda: moment)  # on a busy machine slots would pass, and pages look for why
    client = client_of(make_person("owner", world.renter))
    counts = {}
    for name, path in PAGES.items():
        cache.clear()
        known._pools.clear()
        with CaptureQueriesContext(connection) as captured:
            answer = client.get(f"/t/{world.renter.slug}/{path(world)}")
        assert answer.status_code == 200, name
        counts[name] = counted(captured)
    staff = client_of(make_person("auditor", None))
    cache.clear()
    known._pools.clear()
    with CaptureQueriesContext(connection) as captured:
        assert staff.get("/overview/").status_code == 200
    counts[OVERVIEW] = counted(captured)
    counts[QUOTE] = queries_of_a_quote(client, world)
    if WRITE:
        BASELINE.write_text(json.dumps(counts, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    assert counts == baseline()
    assert {name: count for name, count in counts.items() if count > MOST and name not in (QUOTE, OVERVIEW)} == {}
