"""Files of a job in a browser: what its page lists is taken away as it is, and what a script runs comes along."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from scheduling.models import ProgramVersion
from tenants.models import Tenant
from tenants.roles import OWNER
from tests.browser.conftest import until
from tests.browser.renting import market
from tests.browser.world import traded_world
from tests.catalogue.builders import allow, archive_with

pytestmark = pytest.mark.django_db(transaction=True)

Act = Callable[..., Any]


@pytest.mark.wide
def test_file_of_a_job_is_taken_away_from_its_page(visit: Act, act: Act) -> None:
    world = act(traded_world)
    one = visit(world.people[OWNER])
    one.open(f"/t/lumen/jobs/{world.places['running']}/")
    panel = one.page.locator("section:has(#h-files)")
    assert panel.get_by_role("link").count() == 20
    assert "And 3 others" in " ".join(panel.inner_text().split())
    with one.page.expect_download() as download:
        panel.get_by_role("link", name="checkpoint/model.pt", exact=True).click()
    assert download.value.suggested_filename == "model.pt"
    assert Path(download.value.path()).read_bytes() == bytes(1_200_000)
    with one.page.expect_download() as download:
        panel.get_by_role("link", name="<b>odd\\x0a.txt", exact=True).click()
    assert Path(download.value.path()).read_bytes() == bytes(1_200_000)


SCRIPT = "#!/bin/bash -eu\n#SBATCH --job-name=beside --gpus=1 --time=0:01:00\npython3 train.py\n"
ALONG = "train.py does not come along"


def test_files_come_along_with_a_script(visit: Act, act: Act, tmp_path: Path) -> None:
    _, rents, _ = act(market)
    act(lambda: allow(Tenant.objects.get(slug="lumen")))
    archive = tmp_path / "train.tar.gz"
    archive.write_bytes(archive_with("train.py"))
    one = visit(rents)
    one.open("/t/lumen/submit/")
    one.page.click("button[name=show][value=script]")
    one.page.fill("#id_script", SCRIPT)
    until(lambda: ALONG in one.page.locator("#script-lines").inner_text())
    one.page.set_input_files("#id_archive_file", archive)
    until(lambda: ALONG not in one.page.locator("#script-lines").inner_text())
    assert "The script runs as the program beside-sbatch" in one.page.locator("#script-lines").inner_text()
    one.page.set_viewport_size({"width": 390, "height": 900})
    assert one.sideways() <= 0
    one.page.click("button[name=submit]")
    assert one.page.locator("h1").inner_text().startswith("beside")
    assert "Files that came along" in one.page.locator("main").inner_text()
    assert act(lambda: ProgramVersion.objects.get().archive_id)
