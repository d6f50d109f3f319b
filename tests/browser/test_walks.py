"""The first day of five kinds of people, by clicking alone: each begins at the log-in page of the demonstration,
presses what it sees by its name, and types into fields that it sees by their labels. A dead end fails the walk: an
answer with an error, a page without a way on, something that is not there by its name, a script that breaks."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.browser.screenshots import demonstration

pytestmark = pytest.mark.wide

CLIENT = Path(__file__).parents[2] / "client"
PATIENCE = 300.0  # seconds
# What a page must offer: a way on that is not the skip link, in sight.
WAYS = "main a[href], nav a[href], header a[href], footer a[href], main button"
IN_VIEW = "(el) => el.scrollIntoView({block: 'center'})"
LINKS = """() => [...document.querySelectorAll("a[href]")].filter((el) => el.checkVisibility())
    .map((el) => new URL(el.getAttribute("href"), location.href)).filter((link) => link.origin === location.origin)
    .map((link) => link.href.split("#")[0])"""


class Walk:
    """One person's. `clicks`: what was pressed, and where it led; a failure shows them."""

    def __init__(self, browser: Any, address: str, kind: str) -> None:
        self.kind, self.address, self.clicks, self.complaints = kind, address, list[str](), list[str]()
        self.links: dict[str, tuple[str, str]] = {}  # by the form of an address: one such address, and where it stood
        self.context = browser.new_context(viewport={"width": 1440, "height": 900}, reduced_motion="reduce")
        self.context.grant_permissions(["clipboard-read", "clipboard-write"], origin=address)
        self.page = self.context.new_page()
        self.page.set_default_timeout(1_000 * PATIENCE)
        self.page.set_default_navigation_timeout(1_000 * PATIENCE)
        self.page.on("response", self._answered)
        self.page.on("pageerror", lambda error: self.complaints.append(f"script: {error}"))
        self.page.on(
            "console", lambda message: message.type == "error" and self.complaints.append(f"console: {message.text}")
        )

    def _answered(self, answer: Any) -> None:
        if answer.status >= 400:
            self.complaints.append(f"{answer.status} {answer.request.method} {answer.url}")

    def begin(self, person: str) -> None:
        """The log-in page has a button for each person of the demonstration."""
        self.page.goto(self.address + "/")
        self._arrived("the address")
        self.press("Log in")
        self.press(re.compile(person))

    def press(self, name: str | re.Pattern[str], *, within: str = "body", nth: int = 0) -> None:
        """The link or button of this name that is in sight; the page that follows is looked at."""
        place = self.page.locator(within).first
        exact = isinstance(name, str)
        link = place.get_by_role("link", name=name, exact=exact)
        button = place.get_by_role("button", name=name, exact=exact)
        one = link.or_(button).locator("visible=true").nth(nth)
        one.evaluate(IN_VIEW)
        one.click()
        self._arrived(name if isinstance(name, str) else name.pattern)

    def open(self, name: str, *, within: str = "body") -> None:
        """Something folded."""
        self.page.locator(within).first.locator("summary:visible", has_text=name).first.click()
        self.clicks.append(f"opens {name!r}")

    def type(self, label: str, text: str, *, within: str = "main") -> None:
        self.page.locator(within).first.get_by_label(label).locator("visible=true").first.fill(text)
        self.clicks.append(f"types {text!r} into {label!r}")

    def choose(self, label: str, option: str) -> None:
        self.page.get_by_label(label).locator("visible=true").first.select_option(label=option)
        self.clicks.append(f"chooses {option!r} at {label!r}")

    def tick(self, label: str) -> None:
        self.page.get_by_label(label).locator("visible=true").first.check()
        self.clicks.append(f"ticks {label!r}")

    def see(self, text: str | re.Pattern[str]) -> None:
        self.page.get_by_text(text).locator("visible=true").first.wait_for()

    def _arrived(self, by: str) -> None:
        self.page.wait_for_load_state("load")
        self.page.wait_for_selector(".htmx-request", state="detached")
        here = self.page.url.removeprefix(self.address)
        self.clicks.append(f"presses {by!r} -> {here}")
        for link in self.page.evaluate(LINKS):
            self.links.setdefault(re.sub(r"[0-9]+", "0", link.partition("?")[0]), (link, here))
        if not self.page.locator(WAYS).locator("visible=true").count():
            self.complaints.append(f"no way on from {here}")
        assert not self.complaints, f"{self.kind}: " + "\n".join([*self.clicks, *self.complaints])

    def end(self) -> None:
        """Every link that was in sight on the way leads somewhere: one of each form of an address is asked for."""
        for link, stood in self.links.values():
            answer = self.context.request.get(link, timeout=1_000 * PATIENCE)
            if answer.status >= 400:
                self.complaints.append(f"{answer.status} {link}, linked from {stood}")
        assert not self.complaints, f"{self.kind}: " + "\n".join([*self.clicks, *self.complaints])


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with demonstration(days=2) as address:
        yield address


@pytest.fixture
def walk(chromium: Any, address: str) -> Iterator[Callable[[str], Walk]]:
    walks: list[Walk] = []

    def begin(kind: str) -> Walk:
        walks.append(Walk(chromium, address, kind))
        return walks[-1]

    yield begin
    for one in walks:
        print(f"{one.kind}, {len(one.clicks)} clicks:", *one.clicks, sep="\n  ")
        one.context.close()


def in_minutes(minutes: int) -> str:
    """Return that moment as a field for a clock takes it, in the zone of a browser that has told none."""
    return f"{datetime.now(UTC) + timedelta(minutes=minutes):%Y-%m-%dT%H:%M:%S}"


def test_an_engineer_submits_watches_and_cancels(walk: Callable[[str], Walk]) -> None:
    one = walk("engineer")
    one.begin("Jonas Vik")
    one.press("How it works")  # the guide
    one.press("Market")
    one.press("Main pool")
    one.press(re.compile("^Jobs"), within="nav")
    one.press("Submit a job")
    one.press("Main pool")
    one.type("GPUs", "1 to 2")
    one.open("Name, when it is decided, and whether in pieces")
    one.type("Name", "first-training")
    one.type("Not before", in_minutes(5))  # at once it would be over before a slow browser cancels it
    one.see(re.compile("Would be admitted|credits"))
    one.press("Submit the job")
    one.see("first-training")
    number = one.page.url.rstrip("/").rpartition("/")[2]
    one.see(re.compile(r"free of charge|credits|Price|home"))  # what it costs
    one.press(re.compile("^Jobs"), within="nav")
    one.press("first-training", within="main")
    assert one.page.url.rstrip("/").endswith(number)
    one.press("Cancel job")
    one.press("Keep it")
    one.press("Cancel job")
    one.press("Cancel the job")
    one.see(re.compile("Cancelled"))
    one.press("Submit again")
    one.press("Glossary")
    one.press(re.compile("notice", re.IGNORECASE), within="header")
    one.press(re.compile("Choices|Choose|Which"), within="main")
    one.end()


def test_an_owner_shares_earns_and_invites(walk: Callable[[str], Walk]) -> None:
    one = walk("owner")
    one.begin("Ilse Brandt")
    one.press("My share")
    one.press("Statement")
    one.press("My share")
    one.type("Lowest price for a worker", "0.05")
    one.press("Save")
    one.see("Saved. It holds from the next interval on")
    assert one.page.get_by_label("Lowest price for a worker").input_value() == "0.05"
    one.press("Servers")
    one.press("Ledger")
    one.press("Fairness")
    one.press("Lab")
    one.press("Members")
    one.type("E-mail", "new@pelican.example")
    one.press("Make the link")
    one.see("Send this link to new@pelican.example")
    one.press("History")
    one.end()


def test_an_operator_looks_after_the_cluster(walk: Callable[[str], Walk]) -> None:
    one = walk("operator")
    one.begin("Piet Moor")
    one.see(re.compile("The market is well|not work"))
    one.press("Health", within="nav")  # is the clock late?
    one.see("Behind")
    one.press("All jobs")
    one.press("Servers", within="nav")
    one.press("Main pool")
    one.press("s01", within="main")
    one.type("Its name, to be sure", "s01", within="#form-lose")
    one.type("Reason", "its fan failed", within="#form-lose")
    one.press("Declare it lost")
    one.see("s01 is lost")
    one.press("Pools", within="nav")
    one.press("Main pool", within="main")
    one.press("Programs", within="nav")
    one.press("Tenants", within="nav")
    new = "section[aria-labelledby=h-new]"
    one.type("Name", "Heron Robotics", within=new)
    one.type("Short name", "heron", within=new)
    one.type("First owner", "first@heron.example", within=new)
    one.type("Reason", "signed today", within=new)
    one.press("Make the tenant")
    one.see(re.compile("first@heron.example is invited"))
    one.press("Full history")
    one.end()


def test_an_auditor_verifies(walk: Callable[[str], Walk]) -> None:
    one = walk("auditor")
    one.begin("Edda Lund")
    one.press("Fairness", within="nav")
    one.press("All intervals", within="main")
    one.press(re.compile("^[0-9]+$"), within="main tbody")
    one.press("Verify this interval")
    one.press("Verify and export", within="main")
    one.press("Verify everything")
    one.see(re.compile("Verified|As stored|clean|Nothing differs|differ"))
    one.press("Verify and export", within="main")
    one.press("Make the bundle")
    one.see(re.compile("Download"))
    one.press("Tenants", within="nav")
    one.press("Lumen Lab", within="main")
    one.press("Ledger", within="nav")
    one.press("Full history")
    one.end()


def test_a_program_comes_with_a_token(walk: Callable[[str], Walk], address: str) -> None:
    one = walk("automation")
    one.begin("Jonas Vik")
    one.press("Tokens")
    one.type("What is it for?", "nightly")
    one.tick("See jobs and programs")
    one.press("Make the token")
    secret = one.page.locator("#secret").input_value()
    one.press("The interface")
    one.press("Copy the call", within="main")
    copied = one.page.evaluate("navigator.clipboard.readText()")
    assert "jonas" in run(["bash", "-c", copied], BOURSE_TOKEN=secret).lower()
    one.press("Jobs", within="main")
    one.press("Jobs of the tenant", within="main")
    one.press("Copy the call of jobs_list", within="main")
    copied = one.page.evaluate("navigator.clipboard.readText()")
    names = {job["name"] for job in json.loads(run(["bash", "-c", copied], BOURSE_TOKEN=secret))["results"]}
    table = run([sys.executable, "-m", "bourse_client", "jobs", "list"], BOURSE_TOKEN=secret, BOURSE_URL=address)
    assert names & set(table.split()), f"none of {names} in\n{table}"
    one.press("Tokens")
    one.press("Revoke nightly")
    one.end()


def run(command: list[str], **environment: str) -> str:
    """What a terminal says to it."""
    result = subprocess.run(
        command,
        env={"PATH": os.environ["PATH"], "HOME": tempfile.gettempdir(), "PYTHONPATH": str(CLIENT)} | environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert result.returncode == 0, f"{command}: {result.stderr}"
    return result.stdout
