"""A form that is open while something behind it changes: the log-in ends or is another, the server cannot answer, the
part of the page that it stands in moves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.conf import settings
from django.template import loader
from django.utils import timezone

from scheduling.feed.kinds import MONEY
from scheduling.feed.notify import tenant_tell
from scheduling.jobs.cancellation import job_cancel
from scheduling.models import Pool, TrainingJob
from tenants.common.failures import DEADLINE
from tenants.models import Tenant, User
from tenants.roles import OWNER
from tenants.scoping import scope_disabled
from tenants.selectors import access_of
from tests.browser.conftest import Visitor, session_of, until
from tests.browser.renting import fill, market
from tests.scheduling.markets import make_waiting
from tests.tenants.builders import make_member

pytestmark = pytest.mark.django_db(transaction=True)

Act = Callable[..., Any]
SUBMIT = "/t/lumen/submit/?by=detail"


def typed(one: Visitor) -> None:
    """The form with something in it, and a quote of that."""
    one.open(SUBMIT)
    one.page.wait_for_selector('[data-live-state][data-state="live"]', state="attached")
    fill(one, "kept")
    one.page.wait_for_selector("#quote .verdict")
    one.page.wait_for_load_state("networkidle")


def cookie(one: Visitor, name: str, value: str) -> None:
    one.page.context.add_cookies([{"name": name, "value": value, "url": one.address}])


def log_in_elsewhere(one: Visitor, session: str) -> None:
    """As in another tab: with a session and a token of its own."""
    cookie(one, settings.SESSION_COOKIE_NAME, session)
    cookie(one, settings.CSRF_COOKIE_NAME, "n" * 32)


def log_out_elsewhere(one: Visitor) -> None:
    one.page.context.clear_cookies(name=settings.SESSION_COOKIE_NAME)


def names_of_jobs() -> list[str]:
    with scope_disabled("test"):
        return list(TrainingJob.objects.values_list("name", flat=True))


def submit(one: Visitor) -> None:
    one.page.click("#job-form .button.main")


def expect_quotes_refused(one: Visitor) -> None:
    """Leaving a field asks for a quote, with the token of before; it is asked for again with the new one. The refusal
    may arrive after the last line of the test."""
    one.expected = ("403",)


def test_what_was_typed_outlives_a_log_in_that_ends(visit: Act, act: Act) -> None:
    _, user, _ = act(market)
    one = visit(user)
    typed(one)
    log_out_elsewhere(one)
    one.page.fill("#id_worth", "77")
    one.page.wait_for_selector("#gone:not([hidden])")
    log_in_elsewhere(one, act(session_of, user))
    one.page.click("#gone button")
    one.page.wait_for_selector("#gone", state="hidden")
    assert one.page.input_value("#id_worth") == "77"
    submit(one)
    one.page.wait_for_url("**/jobs/**")
    assert act(names_of_jobs) == ["kept"]
    expect_quotes_refused(one)


def test_a_page_with_nothing_typed_leads_to_the_log_in(visit: Act, act: Act) -> None:
    _, user, _ = act(market)
    one = visit(user)
    one.open(SUBMIT)
    one.page.wait_for_selector("#quote .verdict")
    log_out_elsewhere(one)
    one.page.evaluate("htmx.trigger('#job-form', 'change')")
    one.page.wait_for_url("**/accounts/login/**")


@pytest.mark.wide
def test_a_choice_alone_outlives_a_log_in_that_ends(visit: Act, act: Act) -> None:
    _, user, _ = act(market)
    one = visit(user)
    one.open(SUBMIT)
    one.page.wait_for_selector("#quote .verdict")
    one.page.locator("#job-form select:visible").first.select_option(index=1)
    one.page.wait_for_load_state("networkidle")
    log_out_elsewhere(one)
    one.page.evaluate("htmx.trigger('#job-form', 'change')")
    one.page.wait_for_selector("#gone:not([hidden])")
    expect_quotes_refused(one)


@pytest.mark.wide
def test_a_form_is_sent_though_the_same_person_logged_in_anew(visit: Act, act: Act) -> None:
    _, user, _ = act(market)
    one = visit(user)
    typed(one)
    log_in_elsewhere(one, act(session_of, user))
    submit(one)
    one.page.wait_for_url("**/jobs/**")
    assert act(names_of_jobs) == ["kept"]
    expect_quotes_refused(one)


@pytest.mark.wide
def test_a_form_of_one_person_is_not_sent_by_another(visit: Act, act: Act) -> None:
    def colleague() -> User:
        return make_member(Tenant.objects.get(slug="lumen"), OWNER).user

    _, user, _ = act(market)
    one = visit(user)
    typed(one)
    log_in_elsewhere(one, act(session_of, act(colleague)))
    submit(one)
    one.page.wait_for_selector("#gone:not([hidden])")
    assert act(names_of_jobs) == []
    expect_quotes_refused(one)


@pytest.mark.wide
def test_a_page_stays_where_the_server_cannot_answer_for_a_moment(visit: Act, act: Act) -> None:
    _, user, _ = act(market)
    one = visit(user)
    typed(one)
    page = act(loader.render_to_string, "503.html", {"unavailable": DEADLINE})
    one.page.route(
        "**/quote/", lambda route: route.fulfill(status=503, body=page, headers={"Retry-After": "1"}), times=1
    )
    one.page.fill("#id_worth", "78")
    one.page.wait_for_selector("#quote-old")
    assert "asked again in a moment" in one.page.inner_text("#quote-old")
    one.page.wait_for_selector("#quote-old", state="detached")
    assert one.page.input_value("#id_worth") == "78"
    assert one.page.is_hidden("#gone")
    until(lambda: len(one.complaints) >= 2)
    assert all("503" in line for line in one.complaints)
    one.complaints.clear()


@pytest.mark.wide
def test_a_quote_that_could_not_be_asked_for_says_so(visit: Act, act: Act) -> None:
    _, user, _ = act(market)
    one = visit(user)
    typed(one)
    one.page.click("button[name=show][value=text]")
    one.page.wait_for_selector("#quote .verdict")
    large = {"name": "job.yaml", "mimeType": "text/plain", "buffer": b"a" * (2 << 20)}
    one.page.set_input_files("input[name=file]", [large])
    one.page.wait_for_selector("#quote-old")
    assert "A file of a job has 64 kB at most" in one.page.inner_text("#quote-old")
    assert one.page.is_hidden("#gone")
    until(lambda: len(one.complaints) >= 2)
    assert all("413" in line for line in one.complaints)
    one.complaints.clear()
    one.page.set_input_files("input[name=file]", [])
    one.page.wait_for_selector("#quote-old", state="detached")


def jobs_of(pool: Pool, *arrivals: float) -> list[int]:
    lumen = Tenant.objects.get(slug="lumen")
    return [make_waiting(pool, lumen, arrival).pk for arrival in arrivals]


def cancel(job_id: int, by: User) -> None:
    access = access_of(by, Tenant.objects.get(slug="lumen"))
    assert isinstance(job_cancel(job_id=job_id, by=access, at=timezone.now()), TrainingJob)


def ticked(one: Visitor) -> list[str]:
    boxes = one.page.locator("input[name=job]:checked, [data-tick-all]:checked")
    return [box.get_attribute("id") for box in boxes.all()]


def test_ticked_jobs_stay_ticked_while_the_list_moves(visit: Act, act: Act) -> None:
    """But not one that has ended meanwhile, nor the box of all rows once there is another one."""
    pool, user, _ = act(market)
    first, second = act(jobs_of, pool, 0.0, 0.1)
    one = visit(user)
    one.open("/t/lumen/jobs/")
    one.page.wait_for_selector('[data-live-state][data-state="live"]', state="attached")
    one.page.check("[data-tick-all]")
    assert ticked(one) == ["tick-all", f"tick-{second}", f"tick-{first}"]
    (third,) = act(jobs_of, pool, 0.2)
    one.page.wait_for_selector(f"#tick-{third}")
    until(lambda: ticked(one) == [f"tick-{second}", f"tick-{first}"])
    act(cancel, second, user)
    one.page.wait_for_selector(f"#tick-{second}:disabled")
    until(lambda: ticked(one) == [f"tick-{first}"])
    one.page.click("text=Cancel the chosen jobs")
    one.page.wait_for_selector("h1 >> text=Cancel 1 job?")


@pytest.mark.wide
def test_filter_of_the_ledger_stays_filled_in_while_money_moves(visit: Act, act: Act) -> None:
    _, user, _ = act(market)
    one = visit(user)
    one.open("/t/lumen/ledger/")
    one.page.wait_for_selector('[data-live-state][data-state="live"]', state="attached")
    one.page.select_option("#f-kind", "earned")
    one.page.check("input[name=each]")
    one.page.fill("#f-job", "J-17")
    one.page.evaluate("document.querySelector('#f-job').dataset.before = ''")
    act(lambda: tenant_tell(Tenant.objects.get(slug="lumen").pk, MONEY))
    one.page.wait_for_selector("#f-job:not([data-before])")
    until(lambda: one.page.input_value("#f-job") == "J-17")
    assert one.page.input_value("#f-kind") == "earned"
    assert one.page.is_checked("input[name=each]")


def test_what_a_quote_says_of_a_field_has_its_sign_there(visit: Act, act: Act) -> None:
    _, user, _ = act(market)
    one = visit(user)
    one.open("/t/lumen/submit/")
    one.page.fill("#id_gpus", "lots")
    one.page.press("#id_gpus", "Tab")
    one.page.wait_for_selector("#id_gpus_error .error svg")
    assert '"lots"' in one.page.locator("#id_gpus_error .error").inner_text()
