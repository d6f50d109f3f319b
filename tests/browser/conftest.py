"""A real web server on the test database, and a real browser in front of it. Skipped where there is no Chromium.

Whatever a page complains of fails the test: an error in the console, a script that breaks, a request that fails.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import pytest
from django.conf import settings
from django.db import connections

from tests.browser.chromium import CHROMIUM, QUIET
from tests.web import web_server

PATIENCE = 60.0  # seconds of a machine that now and then stands still; only what never comes takes so long
AXE = "/static/axe.min.js"  # served by tests.web_process beside the product's own files

AXE_SCRIPT = """async ([coloured, options]) => {
  axe.configure({rules: [{id: "color-contrast", selector: coloured}]});
  return (await axe.run(document, options)).violations;
}"""


@dataclass
class Visitor:
    """Somebody in a browser of their own. `complaints`: what their pages said that no page should say, of which those
    with one of the words in `expected` are what the test is about, whenever they come."""

    page: Any
    address: str
    complaints: list[str] = field(default_factory=list)
    expected: tuple[str, ...] = ()

    def open(self, path: str) -> Any:
        return self.page.goto(self.address + path)

    def watch(self) -> None:
        self.page.on(
            "console", lambda message: message.type == "error" and self.complaints.append(f"console: {message.text}")
        )
        self.page.on("pageerror", lambda error: self.complaints.append(f"script: {error}"))
        self.page.on("requestfailed", self._failed)
        self.page.on("request", lambda request: self._check_host(request.url))
        self.page.on("websocket", lambda socket: self._check_host(socket.url.replace("ws:", "http:", 1)))
        self.page.on(
            "response", lambda answer: answer.status >= 400 and self.complaints.append(f"{answer.status} {answer.url}")
        )

    def _failed(self, request: Any) -> None:
        if "ERR_ABORTED" not in str(request.failure):  # the reader left before the answer came
            self.complaints.append(f"failed: {request.url} {request.failure}")

    def _check_host(self, address: str) -> None:
        """Nothing is fetched from anywhere else; what stands in the page itself is not fetched."""
        if not address.startswith((self.address + "/", "data:", "blob:")):
            self.complaints.append(f"left the host: {address}")

    def axe(self, *rules: str, colours_of: Sequence[str] = ("html",)) -> list[str]:
        """What axe-core finds wrong, by these rules or by all, one line for each rule and place. `colours_of`: the
        parts of the page whose contrast is looked at."""
        if not self.page.evaluate("'axe' in window"):
            self.page.add_script_tag(url=self.address + AXE)
        options: dict[str, Any] = {"resultTypes": ["violations"], "preload": False}
        options |= {"runOnly": rules} if rules else {}
        coloured = ", ".join(f"{part}, {part} *" for part in colours_of)
        violations = self.page.evaluate(AXE_SCRIPT, [coloured, options])
        return [
            f"{rule['id']}: {node['html'][:160]} {node['failureSummary']}"
            for rule in violations
            for node in rule["nodes"]
        ]

    def sideways(self) -> int:
        """By how many pixels the page can be scrolled sideways."""
        return int(self.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth"))


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """For one file of tests: those after it in the same process are without the browser's event loop again."""
    if shutil.which(CHROMIUM) is None:
        pytest.skip(f"no Chromium at {CHROMIUM}: on Debian, apt-get install chromium")
    from playwright.sync_api import sync_playwright

    # The browser's own event loop lives in this thread, and Django would take every test for an asynchronous one.
    with pytest.MonkeyPatch.context() as patch, sync_playwright() as playwright:
        patch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "true")
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=QUIET)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def web(django_db_setup: None) -> Iterator[str]:
    """Address of a web server on the test database."""
    with web_server() as address:
        yield address


@pytest.fixture
def act(transactional_db: None) -> Iterator[Callable[..., Any]]:
    """`act(function, ...)` does something beside the browser, in a thread without its event loop."""
    with ThreadPoolExecutor(max_workers=1) as pool:

        def done(function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
            return pool.submit(function, *arguments, **named).result(timeout=5 * PATIENCE)

        yield done
        pool.submit(connections.close_all).result(timeout=PATIENCE)


@pytest.fixture
def visit(chromium: Any, web: str, act: Callable[..., Any]) -> Iterator[Callable[..., Visitor]]:
    """`visit(user, theme=..., width=..., zoom=...)`: a browser in which this person, or nobody, is logged in. With a
    zoom of 2 the window shows half as many of the page's pixels each way, at twice their size."""
    contexts, visitors = [], []

    def visitor(
        user: Any, *, theme: str = "light", width: int = 1440, scripts: bool = True, zone: str = "UTC", zoom: int = 1
    ) -> Visitor:
        context = chromium.new_context(
            viewport={"width": width // zoom, "height": 900 // zoom},
            device_scale_factor=zoom,
            color_scheme=theme,
            java_script_enabled=scripts,
            timezone_id=zone,
            reduced_motion="reduce",
        )
        contexts.append(context)
        if user is not None:
            context.add_cookies([{"name": settings.SESSION_COOKIE_NAME, "value": act(session_of, user), "url": web}])
        page = context.new_page()
        page.set_default_timeout(1_000 * PATIENCE)
        one = Visitor(page, web)
        one.watch()
        visitors.append(one)
        return one

    yield visitor
    for context in contexts:
        context.close()
    complaints = [line for one in visitors for line in one.complaints if not any(word in line for word in one.expected)]
    assert complaints == []


def session_of(user: Any) -> str:
    from django.test import Client

    client = Client()
    client.force_login(user, backend="django.contrib.auth.backends.ModelBackend")
    return str(client.cookies[settings.SESSION_COOKIE_NAME].value)


def until(met: Callable[[], Any], *, seconds: float = PATIENCE) -> float:
    """Seconds until something is so; fails when it never is. Never waits longer than it must."""
    began = time.monotonic()
    while not met():
        assert time.monotonic() - began < seconds, "it did not come about in time"
        time.sleep(0.01)
    return time.monotonic() - began
