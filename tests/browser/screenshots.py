"""`make screenshots`: the demonstration, run for some minutes, as the pictures of the guide.

Starts the whole product in a temporary folder on a free port, logs in as people of the demonstration, waits until
each page has something to show, and writes `docs/guide/pictures/NAME.png`. Names on the command line make only those.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scheduling.demo.content import LUMEN, PASSWORD
from tests.browser.chromium import CHROMIUM, QUIET
from tests.ports import free_port

BASE = Path(__file__).parents[2]
PICTURES = BASE / "docs" / "guide" / "pictures"
START_SECONDS, MARKET_SECONDS = 300, 240
OF_TESTS = ("DATABASE_URL", "DATABASE_OWNER_URL", "REDIS_URL", "SECRET_KEY")  # it stands on servers of its own
OWNER, OPERATOR, AUDITOR = "owner@lumen.example", "operator@bourse.example", "auditor@bourse.example"
HERE = f"/t/{LUMEN}"
RUNNING = f"{HERE}/jobs/?state=running"
FIRST_JOB = "#jobs-live a.job-name"
AUCTIONED = f"{FIRST_JOB}:not(:has-text('sweep'))"  # not of the elastic pool, whose jobs run within seconds
PRICES = "#prices-live .plot svg, #prices-live .plot canvas"


@dataclass(frozen=True)
class Picture:
    """`then`: a link to follow first; `ready`: what must stand on the page; `fields`: what is typed into its form."""

    name: str
    path: str
    ready: str
    person: str = OWNER
    then: str = ""
    theme: str = "light"
    width: int = 1280
    height: int = 860
    fields: tuple[tuple[str, str], ...] = ()


JOB = (("#id_gpus", "4 to 12"), ("#id_hours", "0.05"), ("#id_by_worth", "40"))
ALL = (
    Picture("market", f"{HERE}/market/", PRICES),
    Picture("market-dark", f"{HERE}/market/", PRICES, theme="dark"),
    Picture("market-phone", f"{HERE}/market/", PRICES, width=390, height=844),
    Picture("submit", f"{HERE}/submit/", "#quote .verdict", fields=JOB, height=900),
    Picture("jobs", f"{HERE}/jobs/", FIRST_JOB),
    Picture("job", RUNNING, "#job-live", then=AUCTIONED, height=1500),
    Picture("job-elastic", f"{HERE}/jobs/?name=sweep-0-0", "#job-live .c7", then=FIRST_JOB, height=1300),
    Picture("servers", f"{HERE}/servers/", ".gantt"),
    Picture("share", f"{HERE}/share/", "#share-money tbody tr"),
    Picture("ledger", f"{HERE}/ledger/", "#ledger-entries tbody tr"),
    Picture("statement", f"{HERE}/statements/", "main table tbody tr"),
    Picture("interval", f"{HERE}/intervals/", "main table", then="main tbody a"),
    Picture("fairness", "/fairness/", "main table", person=AUDITOR, height=1100),
    Picture("fairness-own", f"{HERE}/fairness/", "main table", height=1100),
    Picture("overview", "/overview/", "#overview-money tbody tr", person=OPERATOR, height=1500),
    Picture("operator-servers", "/operator/servers/", "main table", person=OPERATOR),
    Picture("operator-pools", "/operator/pools/", "main", person=OPERATOR),
    Picture("operator-health", "/operator/health/", "main", person=OPERATOR),
)


def main(names: list[str]) -> None:
    unknown = set(names) - {picture.name for picture in ALL}
    if unknown:
        sys.exit(f"No picture is called {', '.join(sorted(unknown))}. There are: {', '.join(p.name for p in ALL)}.")
    if not Path(CHROMIUM).exists():
        sys.exit(f"No Chromium at {CHROMIUM}: on Debian, apt-get install chromium")
    from playwright.sync_api import sync_playwright

    PICTURES.mkdir(exist_ok=True)
    with demonstration() as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=QUIET)
        wait_for_trade(browser, address)
        missing = [take(browser, address, picture) for picture in ALL if not names or picture.name in names]
        browser.close()
    if any(missing):
        sys.exit("Not everything was there in time: " + ", ".join(name for name in missing if name))


@contextmanager
def demonstration(days: int = 0) -> Iterator[str]:
    """The product with its demonstration and a past of so many days; its address. It ends with the block."""
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="bourse-screenshots-", ignore_cleanup_errors=True) as folder:
        variables = {name: value for name, value in os.environ.items() if name not in OF_TESTS}
        environment = {**variables, "BOURSE_VAR": folder, "PORT": str(port), "DEMO_DAYS": str(days)}
        command = [sys.executable, "manage.py", "up"]
        product = subprocess.Popen(command, cwd=BASE, env=environment, stdout=subprocess.DEVNULL)
        try:
            address = f"http://127.0.0.1:{port}"
            wait_for_answer(address, product)
            yield address
        finally:
            product.send_signal(signal.SIGINT)
            product.wait(timeout=90)


def wait_for_answer(address: str, product: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end and product.poll() is None:
        try:
            with urllib.request.urlopen(f"{address}/healthz", timeout=5):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.5)
    sys.exit(f"The product did not answer within {START_SECONDS} seconds.")


def logged_in(browser: Any, address: str, picture: Picture) -> Any:
    context = browser.new_context(
        viewport={"width": picture.width, "height": picture.height},
        color_scheme=picture.theme,
        timezone_id="Europe/Berlin",
        reduced_motion="reduce",
    )
    page = context.new_page()
    page.goto(f"{address}/accounts/login/")
    page.fill("#id_login", picture.person)
    page.fill("#id_password", PASSWORD)
    page.click("main button[type=submit]")
    page.wait_for_load_state()
    return page


def wait_for_trade(browser: Any, address: str) -> None:
    """Until a job of the tenant runs and its ledger has moved: then no page is empty."""
    page = logged_in(browser, address, Picture("", "", ""))
    for path, ready in ((RUNNING, AUCTIONED), (f"{HERE}/ledger/", "#ledger-entries tbody tr")):
        page.goto(address + path)
        page.wait_for_selector(ready, timeout=MARKET_SECONDS * 1_000)
    page.context.close()


def take(browser: Any, address: str, picture: Picture) -> str:
    """One picture; the name of one whose page never had what it should show, so that the others are made all the
    same."""
    from playwright.sync_api import TimeoutError as NotThere

    page = logged_in(browser, address, picture)
    try:
        prepare(page, address, picture)
    except NotThere as problem:
        print(f"{picture.name}: {problem}", file=sys.stderr)
        return picture.name
    # `caret="initial"`: the tool would otherwise hide it with a style that the pages' policy forbids.
    page.screenshot(path=PICTURES / f"{picture.name}.png", animations="disabled", caret="initial")
    print(PICTURES.relative_to(BASE) / f"{picture.name}.png", flush=True)
    page.context.close()
    return ""


def prepare(page: Any, address: str, picture: Picture) -> None:
    page.goto(address + picture.path)
    if picture.then:
        page.wait_for_selector(picture.then, timeout=MARKET_SECONDS * 1_000)
        page.locator(picture.then).first.click()
    for field, value in picture.fields:
        page.fill(field, value)
    page.wait_for_selector(picture.ready, timeout=60_000)
    page.evaluate("window.scrollTo(0, 0)")
    page.wait_for_load_state("networkidle", timeout=15_000)


if __name__ == "__main__":
    main(sys.argv[1:])
