"""Requests every page over loopback, then opens it in Chromium, and reports the worst of each figure."""

from __future__ import annotations

import http.client
import os
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from django.conf import settings

from marketplace.processes.product import web_processes
from scheduling.models import ALIVE, Award
from tenants.models import User
from tenants.roles import AUDITOR, OPERATOR, OWNER, SUBMITTER
from tenants.scoping import scope_disabled
from tests.bench.million.work import Work
from tests.bench.pages.build import Market
from tests.bench.web import session_of, web_server
from tests.browser import visits
from tests.browser.chromium import CHROMIUM, QUIET

ROUNDS = int(os.environ.get("BENCH_ROUNDS", "5"))
SKIP_BROWSER = os.environ.get("BENCH_BROWSER") == "0"  # then nothing is known of heights
ONLY = [part for part in os.environ.get("BENCH_ONLY", "").split(",") if part]
KINDS = {"member": SUBMITTER, "owner": OWNER, "operator": OPERATOR, "auditor": AUDITOR}
if only_roles := os.environ.get("BENCH_ROLES"):
    KINDS = {name: role for name, role in KINDS.items() if name in only_roles.split(",")}
# Processor time does not grow with what else runs on the machine, as time on the clock does.
BUDGETS = {"kilobytes": 400, "nodes": 3_000, "screens": 4, "milliseconds": 300, "processor_ms": 300}
PAPER = "?print"  # a document for the printer has no budget
SCREEN = 900  # pixels
# Without the bar that stays in view. What the page fetches by itself is a part of it.
LOOKED = "() => [document.querySelectorAll('*').length, document.documentElement.scrollHeight]"


@dataclass
class Looked:
    """A page as one kind of person gets it, with its figures."""

    role: str
    path: str
    status: int = 0
    figures: dict[str, float] = field(default_factory=dict)

    @property
    def over(self) -> bool:
        return any(self.figures.get(name, 0) > most for name, most in BUDGETS.items())

    def line(self) -> str:
        return f"{self.path} ({self.role}): " + ", ".join(f"{value:g} {name}" for name, value in self.figures.items())


class Nodes(HTMLParser):
    """Counts the elements of a page, as a browser without scripts would."""

    count = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.count += 1


def measure(market: Market, data: Path) -> Iterator[dict[str, Any]]:
    about = {"load": load(), "live_awards": live_awards(market)}
    yield {"name": "pages.making", "value": market.seconds, "unit": "s", "target": "< 120", "detail": about}
    pages = list(asked_for(market))
    with web_server(web_processes()) as web:
        for role, user in people(market).items():
            timed(web.port, user, [page for page in pages if page.role == role], Work(web.processes, data))
        if not SKIP_BROWSER:
            in_browser(web.address, people(market), pages)
    opened = [page for page in pages if page.status == 200]
    others = Counter(page.status for page in pages if page.status != 200)
    for name, most in BUDGETS.items():
        ordered = sorted(opened, key=lambda page: -page.figures.get(name, 0))
        if name == "screens" and SKIP_BROWSER:
            continue
        over = [f"{page.path} ({page.role}) {page.figures[name]:g}" for page in ordered if page.figures[name] > most]
        worst = ordered[0]
        detail = {
            "worst": f"{worst.path} ({worst.role})",
            "next": [f"{page.path} ({page.role}) {page.figures[name]:g}" for page in ordered[1:4]],
            "over": over,
            "pages": len(opened),
            "answered_otherwise": dict(others),
            "load": load(),
        }
        yield {
            "name": f"pages.{name}",
            "value": worst.figures[name],
            "unit": f"{name}, the worst page",
            "target": f"<= {most}",
            "detail": detail,
        }


def live_awards(market: Market) -> int:
    """Return how many awards are alive in the market. Not every job that waited gets one."""
    with scope_disabled("the bench counts everybody's"):
        return Award.objects.filter(pool__slug=market.places["pool"], state__in=ALIVE).count()


def people(market: Market) -> dict[str, User | None]:
    return {name: User.objects.get(pk=market.people[role]) for name, role in KINDS.items()} | {"nobody": None}


def asked_for(market: Market) -> Iterator[Looked]:
    """Yield the pages of the large pool, and those of the small world, which show what the large one does not have."""
    for name, role in KINDS.items():
        paths = visits.addresses(market.places, role) + visits.addresses(market.small, role)
        yield from (Looked(name, path) for path in dict.fromkeys(paths) if is_wanted(path))
    yield from (Looked("nobody", path) for path in visits.before_the_log_in(market.places) if is_wanted(path))


def is_wanted(path: str) -> bool:
    return not path.endswith(PAPER) and (not ONLY or any(part in path for part in ONLY))


def timed(port: int, user: User | None, pages: list[Looked], work: Work) -> None:
    """Measure the slowest of a few answers, after one that is not counted. Of so few, the 95th percentile is the
    slowest. The processor time, of web server and database, is the mean of all of them."""
    headers = {"Accept": "text/html"}
    if user is not None:
        headers["Cookie"] = f"{settings.SESSION_COOKIE_NAME}={session_of(user)}"
    line = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    for page in pages:
        took, contents, before = [], b"", sum(work.seconds())
        for _ in range(ROUNDS + 1):
            began = time.perf_counter()
            line.request("GET", page.path, headers=headers)
            reply = line.getresponse()
            contents = reply.read()
            took.append((time.perf_counter() - began) * 1_000)
            page.status = reply.status
            if reply.status != 200:
                break
        if page.status == 200:
            nodes = Nodes()
            nodes.feed(contents.decode())
            page.figures["kilobytes"] = round(len(contents) / 1_000, 1)
            page.figures["nodes"] = nodes.count
            page.figures["milliseconds"] = round(max(took[1:]), 0)
            page.figures["processor_ms"] = round((sum(work.seconds()) - before) * 1_000 / len(took), 0)
    line.close()


def in_browser(address: str, persons: dict[str, User | None], pages: list[Looked]) -> None:
    """Measure each page's height, and its nodes if scripts have added some. Heights cannot be had without Chromium."""
    if not Path(CHROMIUM).exists():
        raise SystemExit(f"no Chromium at {CHROMIUM}: on Debian, apt-get install chromium")
    sessions = {name: session_of(user) for name, user in persons.items() if user is not None}
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=QUIET)
        for name in persons:
            context = browser.new_context(viewport={"width": 1440, "height": SCREEN}, reduced_motion="reduce")
            if name in sessions:
                context.add_cookies([{"name": settings.SESSION_COOKIE_NAME, "value": sessions[name], "url": address}])
            tab = context.new_page()
            tab.set_default_timeout(60_000)
            for page in pages:
                if page.role == name and page.status == 200:
                    tab.goto(address + page.path)
                    tab.wait_for_selector(".htmx-request", state="detached")
                    nodes, height = tab.evaluate(LOOKED)
                    page.figures["nodes"] = max(page.figures["nodes"], nodes)
                    page.figures["screens"] = round(height / SCREEN, 2)
            context.close()
        browser.close()


def load() -> float:
    return round(os.getloadavg()[0], 1)
