"""The files of a job on its page: what is listed there is taken away as it is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tenants.roles import OWNER
from tests.browser.world import traded_world

pytestmark = pytest.mark.django_db(transaction=True)

Act = Callable[..., Any]


def test_file_of_a_job_is_taken_away_from_its_page(visit: Act, act: Act) -> None:
    world = act(traded_world)
    one = visit(world.people[OWNER])
    one.open(f"/t/lumen/jobs/{world.places['running']}/")
    panel = one.page.locator("section:has(#h-files)")
    assert panel.get_by_role("link").count() == 20
    assert "And 3 others" in " ".join(panel.inner_text().split())
    with one.page.expect_download() as taken:
        panel.get_by_role("link", name="checkpoint/model.pt", exact=True).click()
    assert taken.value.suggested_filename == "model.pt"
    assert Path(taken.value.path()).read_bytes() == bytes(120_000)
    with one.page.expect_download() as taken:
        panel.get_by_role("link", name="<b>odd\\x0a.txt", exact=True).click()
    assert Path(taken.value.path()).read_bytes() == bytes(120_000)
