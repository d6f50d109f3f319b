"""The guide's example is run as it stands there."""

from __future__ import annotations

import re
from pathlib import Path

from tests.management.files import ROOT, output_of, put

GUIDE = (ROOT / "docs" / "guide" / "scenario-files.md").read_text(encoding="utf-8")


def block(language: str) -> str:
    """The first block of a language."""
    match = re.search(rf"```{language}\n(.*?)\n```", GUIDE, re.DOTALL)
    assert match is not None
    return match[1]


def test_the_example_of_the_guide_gives_what_the_guide_shows(tmp_path: Path) -> None:
    text = output_of("simulate", put(tmp_path, block("json")))
    assert block("text") in text


def test_the_guide_names_every_field() -> None:
    from scheduling.core.scenario import jobs, reading

    for name in (*jobs.FIELDS, *reading.FIELDS):
        assert f"`{name}`" in GUIDE, name
