"""By keyboard alone: a page that moves by itself takes nothing out of the reader's hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from scheduling.feed.kinds import MONEY
from scheduling.feed.notify import slot_tell, tenant_tell
from tenants.models import Tenant, User
from tenants.roles import OPERATOR
from tests.browser.conftest import Visitor, until
from tests.browser.renting import market
from tests.browser.test_open_forms import cancel, jobs_of
from tests.tenants.builders import make_staff

pytestmark = pytest.mark.django_db(transaction=True)

Act = Callable[..., Any]
FOCUSED = "document.activeElement.getAttribute('href') || document.activeElement.id || document.activeElement.tagName"


def live(one: Visitor, path: str) -> None:
    one.open(path)
    one.page.wait_for_selector('[data-live-state][data-state="live"]', state="attached")
    one.page.wait_for_load_state("networkidle")


def focused(one: Visitor) -> str:
    return str(one.page.evaluate(FOCUSED))


def test_focus_stays_on_the_link_of_a_job_while_the_list_moves(visit: Act, act: Act) -> None:
    pool, user, _ = act(market)
    first, _ = act(jobs_of, pool, 0.0, 0.1)
    one = visit(user)
    live(one, "/t/lumen/jobs/")
    one.page.focus(f"#jobs-live a[href='/t/lumen/jobs/{first}/']")
    (third,) = act(jobs_of, pool, 0.2)
    one.page.wait_for_selector(f"#tick-{third}")
    one.page.wait_for_load_state("networkidle")
    assert focused(one) == f"/t/lumen/jobs/{first}/"


def test_where_the_job_is_gone_the_next_tab_goes_on_in_the_list(visit: Act, act: Act) -> None:
    pool, user, _ = act(market)
    _, second = act(jobs_of, pool, 0.0, 0.1)
    one = visit(user)
    live(one, "/t/lumen/jobs/?state=alive")
    one.page.focus(f"#jobs-live a[href='/t/lumen/jobs/{second}/']")
    act(cancel, second, user)
    one.page.wait_for_selector(f"#tick-{second}", state="detached")
    one.page.wait_for_load_state("networkidle")
    assert focused(one) == "jobs-live"
    one.page.keyboard.press("Tab")
    assert one.page.evaluate("document.activeElement.closest('[data-live]').id") == "jobs-live"


def test_an_open_drop_down_stays_until_it_is_closed(visit: Act, act: Act) -> None:
    _, user, _ = act(market)
    one = visit(user)
    live(one, "/t/lumen/ledger/")
    one.page.click("#f-kind")
    one.page.wait_for_selector("#f-kind:open")
    one.page.evaluate("for (const id of ['ledger-head', 'f-kind']) document.getElementById(id).dataset.before = ''")
    addresses: list[str] = []
    one.page.on("request", lambda request: addresses.append(request.url))
    act(lambda: tenant_tell(Tenant.objects.get(slug="lumen").pk, MONEY))
    one.page.wait_for_selector("#ledger-head:not([data-before])")  # the part above moves
    assert not any("part=entries" in address for address in addresses)
    assert one.page.locator("#f-kind:open").count() == 1
    one.page.keyboard.press("ArrowDown")
    one.page.keyboard.press("Enter")
    one.page.wait_for_selector("#f-kind:not([data-before])")
    assert one.page.input_value("#f-kind")
    until(lambda: focused(one) == "f-kind")


SENTENCE = "#prices-live details.ask"


def test_the_sentence_behind_a_sign_is_left_by_escape(visit: Act, act: Act) -> None:
    """Or by going on: it would lie over what comes next."""
    _, user, _ = act(market)
    one = visit(user)
    live(one, "/t/lumen/market/")
    first, keyboard = one.page.locator(SENTENCE).first, one.page.keyboard
    first.locator("summary").focus()
    for leave in ("Escape", "Tab"):
        keyboard.press("Enter")
        first.locator("p").wait_for(state="visible")
        keyboard.press(leave)
        first.locator("p").wait_for(state="hidden")
        assert first.evaluate("(el) => document.activeElement === el.firstElementChild") == (leave == "Escape")


def test_the_sentence_behind_a_sign_stays_while_its_part_moves(visit: Act, act: Act) -> None:
    pool, user, _ = act(market)
    one = visit(user)
    live(one, "/t/lumen/market/")
    one.page.locator(SENTENCE).last.locator("summary").click()
    one.page.evaluate("document.querySelector('#prices-live').firstElementChild.dataset.before = ''")
    act(slot_tell, pool.pk)
    one.page.wait_for_selector("#prices-live > :first-child:not([data-before])")
    one.page.wait_for_load_state("networkidle")
    visibilities = [place.is_visible() for place in one.page.locator(f"{SENTENCE} p").all()]
    assert visibilities == [False] * (len(visibilities) - 1) + [True]
    one.page.keyboard.press("Escape")
    assert one.page.locator(f"{SENTENCE}[open]").count() == 0


@pytest.mark.parametrize("form", ["policy", "budgets"])
def test_what_came_of_a_form_is_in_sight(visit: Act, act: Act, form: str) -> None:
    """The forms of My share are screens below the sentence that says that they are saved."""
    pool, _, user = act(market)
    one = visit(user)
    live(one, f"/t/castor/share/?pool={pool.slug}")
    if form == "budgets":
        one.page.fill("#budgets [name=hard]", "50")
    one.page.locator(f"#{form} button[type=submit]:not([name])").press("Enter")
    verdict = one.page.locator("main > .verdict[role=status]")
    verdict.wait_for()
    assert 0 < verdict.bounding_box()["y"] < 300
    assert f"pool={pool.slug}" in one.page.url


HIDDEN = """() => {
  const at = document.activeElement, box = at.getBoundingClientRect();
  if (at.matches("body, main, .skip")) return "";
  const seen = document.elementFromPoint(box.x + box.width / 2, box.y + box.height / 2);
  return seen && (at.contains(seen) || seen.contains(at)) ? "" : at.outerHTML.slice(0, 120);
}"""


@pytest.mark.parametrize("width", [1440, 390])
def test_what_has_the_focus_is_in_sight(visit: Act, act: Act, width: int) -> None:
    """Not in a head of a table that is not shown there, and not behind what stays at the foot of the window."""
    pool, user, _ = act(market)
    act(jobs_of, pool, *(number / 20 for number in range(12)))
    one = visit(user, width=width)
    for path in ("jobs/", "ledger/", "submit/"):
        live(one, f"/t/lumen/{path}")
        hidden = []
        for _ in range(70):
            one.page.keyboard.press("Tab")
            hidden.append(one.page.evaluate(HIDDEN))
        assert not [each for each in hidden if each], path


def test_all_jobs_are_chosen_at_once_on_a_phone(visit: Act, act: Act) -> None:
    pool, user, _ = act(market)
    jobs = act(jobs_of, pool, 0.0, 0.1)
    one = visit(user, width=390)
    live(one, "/t/lumen/jobs/")
    one.page.get_by_text("Choose all").click()
    assert all(one.page.is_checked(f"#tick-{job}") for job in jobs)


def test_a_refused_form_goes_on_at_the_field_that_is_wrong(visit: Act, act: Act) -> None:
    """The form may be far down its page, and what it says against a field would be out of sight."""

    def operator() -> User:
        return make_staff(OPERATOR).user

    pool, _, _ = act(market)
    one = visit(act(operator))
    one.open(f"/operator/pools/{pool.slug}/")
    one.page.fill("#form-steps textarea", "oops")
    one.page.click("#form-steps button[type=submit]")
    one.page.wait_for_selector("#form-steps .error")
    until(lambda: focused(one) == "id_steps-steps")
    sentence = one.page.locator("#id_steps-steps_error").bounding_box()
    assert 0 < sentence["y"] < 900


def test_a_refused_log_in_goes_on_at_what_it_says(visit: Act) -> None:
    one = visit(None)
    one.open("/accounts/login/")
    one.page.fill("#id_login", "nobody@lumen.example")
    one.page.fill("#id_password", "wrong")
    one.page.keyboard.press("Enter")
    one.page.wait_for_selector("[role=alert]")
    until(lambda: one.page.evaluate("document.activeElement.getAttribute('role')") == "alert")
    one.page.keyboard.press("Tab")
    assert focused(one) == "id_login"


@pytest.mark.parametrize("is_allowed", [True, False])
def test_copying_what_is_shown_once_leaves_the_reader_at_the_button(is_allowed: bool, visit: Act, act: Act) -> None:
    """Where the browser does not let a page copy, the field is selected instead, for the reader's own keys."""
    _, user, _ = act(market)
    one = visit(user)
    if is_allowed:
        one.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    else:
        one.page.add_init_script("navigator.clipboard.writeText = () => Promise.reject(new Error('not allowed'))")
    one.open("/t/lumen/members/")
    one.page.fill("#id_email", "new@lumen.example")
    one.page.get_by_role("button", name="Make the link").click()
    link = one.page.locator("#link").input_value()
    one.page.get_by_role("button", name="Copy").focus()
    one.page.keyboard.press("Enter")
    if is_allowed:
        one.page.get_by_role("button", name="Copied").wait_for()
        assert one.page.evaluate("navigator.clipboard.readText()") == link
        assert one.page.evaluate("document.activeElement.dataset.copy") == "link"
    else:
        one.page.wait_for_function("document.activeElement.id === 'link'")
        assert one.page.evaluate("getSelection().toString()") == link
