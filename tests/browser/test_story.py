"""From log-in to payout, with the renter and the owner in browsers of their own."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from scheduling.app.clock import pool_advance
from scheduling.models import Award, Pool
from tenants.models import User
from tenants.scoping import scope_disabled
from tests.browser.conftest import Visitor, until
from tests.browser.renting import SLOT_SECONDS, fill, market
from tests.database import overwrite
from tests.tenants.builders import PASSWORD

pytestmark = pytest.mark.django_db(transaction=True)

Act = Callable[..., Any]


def slot_passes(pool: Pool) -> None:
    """As if one slot more had gone by; what is due at its end happens."""
    pool.epoch_at -= timedelta(seconds=SLOT_SECONDS)
    overwrite(pool)
    pool_advance(pool_id=pool.pk, at=timezone.now())


def log_in(one: Visitor, user: User) -> None:
    one.open("/accounts/login/")
    one.page.fill("#id_login", user.email)
    one.page.fill("#id_password", PASSWORD)
    one.page.click("main button[type=submit]")
    one.page.wait_for_url("**/market/")


def live(one: Visitor, path: str) -> None:
    one.open(path)
    one.page.wait_for_selector('[data-live-state][data-state="live"]', state="attached")


def has_text(one: Visitor, selector: str, text: str) -> bool:
    return text in " ".join(one.page.locator(selector).all_inner_texts())


GOES_ON = """() => new Promise((done) => {
  const epochs = document.getElementById("id_epochs"), worth = document.getElementById("id_worth");
  const ofForm = (event) => event.detail.ctx.sourceElement.id === "job-form";
  epochs.focus();
  document.addEventListener("htmx:before:swap", (event) => {
    if (ofForm(event)) document.addEventListener("htmx:before:settle", () => worth.focus(), { once: true });
  });
  document.addEventListener("htmx:finally:request", (event) => ofForm(event) && done(document.activeElement.id));
  epochs.value = "3";
  epochs.dispatchEvent(new Event("input", { bubbles: true }));
})"""


@pytest.mark.wide
def test_a_quote_that_comes_in_leaves_the_reader_in_the_field_gone_on_to(visit: Act, act: Act) -> None:
    _, rents, _ = act(market)
    one = visit(rents)
    live(one, "/t/lumen/submit/?by=detail")
    one.page.wait_for_selector("#quote .verdict")
    assert one.page.evaluate(GOES_ON) == "id_worth"


@pytest.mark.parametrize(
    ("theme", "width"),
    [
        ("light", 1440),
        pytest.param("dark", 1440, marks=pytest.mark.wide),
        pytest.param("light", 390, marks=pytest.mark.wide),
    ],
)
def test_from_log_in_to_payout(visit: Act, act: Act, theme: str, width: int) -> None:
    pool, rents, owns = act(market)
    renter, owner = visit(None, theme=theme, width=width), visit(None, theme=theme, width=width)
    log_in(renter, rents)
    log_in(owner, owns)
    ledger = visit(None, theme=theme, width=width)
    log_in(ledger, owns)
    live(owner, "/t/castor/share/")
    yesterday = timezone.now().date() - timedelta(days=1)  # the slot that pays may lie before midnight
    live(ledger, f"/t/castor/ledger/?from={yesterday.isoformat()}")

    renter.open("/t/lumen/submit/?by=detail")
    fill(renter, "speech-base")
    until(lambda: has_text(renter, "#quote .verdict", "Would be admitted"))
    renter.page.click("button[name=submit]")
    renter.page.wait_for_selector("h1:has-text('speech-base') >> text=Queued")
    renter.page.wait_for_selector('[data-live-state][data-state="live"]', state="attached")

    for _ in range(9):
        act(slot_passes, pool)
        if act(is_awarded, pool):
            break
    until(lambda: not has_text(renter, "h1", "Queued"))
    until(lambda: has_text(renter, "#job-live", "running, held"))
    until(lambda: has_text(owner, "#share-money", "batch job"))
    until(lambda: has_text(owner, "#share-lead", "Renters pay you"))

    for _ in range(3):
        act(slot_passes, pool)
    until(lambda: ledger.page.locator("#ledger-entries .lend").count() > 0)
    until(lambda: owner.page.locator("#share-money tbody .lend").count() > 0)
    assert has_text(ledger, "#ledger-entries .lend", "+")


def is_awarded(pool: Pool) -> bool:
    with scope_disabled("the test looks whether the interval has closed"):
        return Award.objects.filter(pool=pool).exists()
