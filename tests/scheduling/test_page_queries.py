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
    "market": lambda told: "market/",
    "servers": lambda told: "servers/",
    "jobs": lambda told: "jobs/",
    "job that runs": lambda told: f"jobs/{told.running.pk}/",
    "job with a place ahead": lambda told: f"jobs/{told.ahead.pk}/",
    "job that waits": lambda told: f"jobs/{told.waiting.pk}/",
    "submit": lambda told: "submit/",
    "share": lambda told: "share/",
    "ledger": lambda told: "ledger/",
    "statements": lambda told: "statements/",
    "statement": lambda told: "statements/period/",
    "intervals": lambda told: "intervals/",
    "interval": lambda told: f"intervals/{told.pool.slug}/1/",
    "what if": lambda told: "what-if/",
    "what if, asking": lambda told: f"intervals/{told.pool.slug}/1/what-if/",
    "members": lambda told: "members/",
    "tokens": lambda told: "tokens/",
    "webhooks": lambda told: "webhooks/",
    "history": lambda told: "history/",
}


def baseline() -> dict[str, int]:
    return json.loads(BASELINE.read_text(encoding="utf-8")) if BASELINE.exists() else {}


def counted(captured: CaptureQueriesContext) -> int:
    return sum(not query["sql"].startswith(BESIDE_THE_POINT) for query in captured)


def queries_of_a_quote(client: Client, told: Story) -> int:
    """Of the first one, which finds nothing that an earlier one has looked at."""
    desks._last_seen.clear()
    known._pools.clear()
    with CaptureQueriesContext(connection) as captured:
        answer = client.post(f"/t/{told.renter.slug}/submit/quote/", FIELDS | {"pool": told.pool.slug})
    assert "Would be" in answer.content.decode()
    return counted(captured)


def test_pages_ask_as_many_queries_as_their_baseline_and_fewer_than_25(monkeypatch: pytest.MonkeyPatch) -> None:
    told, moment = story(), timezone.now()
    monkeypatch.setattr(timezone, "now", lambda: moment)  # on a busy machine slots would pass, and pages look for why
    client = client_of(make_person("owner", told.renter))
    found = {}
    for name, path in PAGES.items():
        cache.clear()
        known._pools.clear()
        with CaptureQueriesContext(connection) as captured:
            answer = client.get(f"/t/{told.renter.slug}/{path(told)}")
        assert answer.status_code == 200, name
        found[name] = counted(captured)
    staff = client_of(make_person("auditor", None))
    cache.clear()
    known._pools.clear()
    with CaptureQueriesContext(connection) as captured:
        assert staff.get("/overview/").status_code == 200
    found[OVERVIEW] = counted(captured)
    found[QUOTE] = queries_of_a_quote(client, told)
    if WRITE:
        BASELINE.write_text(json.dumps(found, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    assert found == baseline()
    assert {name: asked for name, asked in found.items() if asked > MOST and name not in (QUOTE, OVERVIEW)} == {}
