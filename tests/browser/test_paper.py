"""What is printed: a study's report on paper, whole and in dark words, whatever theme its reader chose."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.lab.logs import STUDY, made_jobs, simulated_log, write_study
from tests.management.files import output_of

LANDSCAPE = 1030  # px of a page that lies, less its margins
BRIGHT = """() => {
  const shades = getComputedStyle(document.body).color.match(/\\d+/g).map(Number).slice(0, 3);
  return Math.max(...shades) > 128;
}"""
BEYOND = "() => [...document.querySelectorAll('table')].map((table) => table.getBoundingClientRect().right)"


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("study")
    path = write_study(folder, simulated_log(folder, made_jobs()), f"{STUDY}rules: [alone, market]\n")
    output_of("lab", path, "--output", folder / "out", "--processes", 1)
    return folder / "out" / "report.html"


@pytest.mark.wide
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("choice", [None, "dark"])
def test_a_report_is_printed_whole_and_dark_on_white(
    chromium: Any, report: Path, theme: str, choice: str | None
) -> None:
    page = chromium.new_page(color_scheme=theme, viewport={"width": LANDSCAPE, "height": 700})
    page.goto(report.as_uri())
    if choice:
        page.evaluate("theme => { document.documentElement.dataset.theme = theme; }", choice)
    assert page.evaluate(BRIGHT) == (theme == "dark" or choice == "dark")
    page.emulate_media(media="print", color_scheme=theme)
    assert not page.evaluate(BRIGHT)
    assert max(page.evaluate(BEYOND)) <= LANDSCAPE
    assert {
        page.evaluate("table => getComputedStyle(table).overflowX", table)
        for table in page.query_selector_all(".scroll")
    } == {"visible"}
    page.close()
