"""Pages and forms in a browser without scripts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.browser.renting import fill, market

pytestmark = pytest.mark.django_db(transaction=True)

Act = Callable[..., Any]


@pytest.mark.wide
def test_forms_work_without_scripts(visit: Act, act: Act) -> None:
    _, rents, _ = act(market)
    one = visit(rents, scripts=False)
    one.open("/t/lumen/submit/?by=detail")
    fill(one, "by-hand")
    one.page.click("button.without-script")
    assert "Would be admitted" in one.page.locator("#quote").inner_text()
    assert one.page.input_value("#id_name") == "by-hand"
    one.page.click("button[name=submit]")
    assert one.page.locator("h1").inner_text().startswith("by-hand")
    one.page.click("text=Cancel job")
    one.page.click("button:has-text('Cancel the job')")
    assert "Cancelled" in one.page.locator("h1").inner_text()
    for path in ("market/", "servers/", "share/", "ledger/", "statements/", "jobs/", "intervals/", "members/"):
        one.open(f"/t/lumen/{path}")
        assert one.page.locator("h1").is_visible(), path
        assert len(one.page.locator("main").inner_text()) > 100, path
