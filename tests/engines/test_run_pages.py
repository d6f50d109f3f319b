"""What a job's program did, on the page of the job and for programs; and never another tenant's."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.utils import timezone

from scheduling.engines.launcher.files import Folder
from scheduling.models import Award, Run, RunState
from scheduling.runs.read_measured import measured, offered
from tenants.scoping import scope
from tests.database import as_superuser, overwrite
from tests.scheduling.builders import make_tenant
from tests.scheduling.live import SPEC, make_award, make_live_pool
from tests.scheduling.pages import client_as, text_of

pytestmark = pytest.mark.django_db
PROGRAM = {"name": "trainer", "parameters": {"model": "logistic"}}


@pytest.fixture
def award(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Award:
    """A job whose program has told of three epochs and written two lines."""
    monkeypatch.setattr(django_settings, "RUNS_DIR", tmp_path / "runs")
    pool, tenant = make_live_pool(epoch_at=timezone.now()), make_tenant("lumen")
    award = make_award(pool, tenant, spec=SPEC | {"epochs": 9, "program": PROGRAM})
    with scope(tenant):
        run = Run.objects.create(
            tenant=tenant, job=award.job, award=award, engine="local", key="a" * 32, program="trainer",
            state="running", ends_at=pool.slot_start(2), due_at=pool.slot_start(0), seen_at=timezone.now(),
            progress={"epoch": 3, "epochs": 9, "loss": 0.25, "minibatch_seconds": 0.7, "exchange_seconds": 0.01},
        )  # fmt: skip
    folder = Folder(tmp_path / "runs", f"job-{award.job_id}", run.key)
    folder.make()
    now = timezone.now().timestamp()
    rows: list[dict[str, Any]] = [
        {"event": "epoch", "at": now + epoch, "epoch": epoch, "loss": 1 / epoch, "seconds": 2.0, "workers": 2}
        for epoch in (1, 2, 3)
    ]
    folder.progress.write_text("".join(json.dumps(row) + "\n" for row in rows) + '{"event": "epo')
    folder.log.write_text(f"{now:.3f} engine 0 Started.\n{now:.3f} worker 1 <b>hello</b> there\nhalf a l")
    return award


def test_page_shows_curve_end_and_log_with_everything_escaped(award: Award) -> None:
    client = client_as("viewer", award.tenant)
    text = client.get(f"/t/lumen/jobs/{award.job_id}/?part=run").content.decode()
    assert "<b>3</b> of 9 epochs" in " ".join(text.split())
    assert 'data-k="loss" data-v="0.333333"' in text
    log = client.get(f"/t/lumen/jobs/{award.job_id}/?part=log").content.decode()
    assert "&lt;b&gt;hello&lt;/b&gt; there" in log
    assert "half a l" not in log
    assert 'd="M0.00' in text
    whole = client.get(f"/t/lumen/jobs/{award.job_id}/").content.decode()
    assert "Loss, and when it will be done" in whole
    assert "uPlot" in whole


def test_the_word_above_the_log_comes_with_its_lines(award: Award) -> None:
    """Whoever looks on while a run begins and ends reads the same as whoever opens the page then."""
    client = client_as("viewer", award.tenant)
    page = f"/t/lumen/jobs/{award.job_id}/"

    def words(address: str) -> list[str]:
        html = client.get(address).content.decode()
        assert ("hx-swap-oob" in html) == ("part=log" in address)
        return [" ".join(text_of(match).split()) for match in re.findall(r'<p id="log-word".*?</p>', html, re.DOTALL)]

    for state, word in ((RunState.RUNNING, "follows"), (RunState.FINISHED, "as it ended")):
        with scope(award.tenant):
            Run.objects.filter(award=award).update(state=state)
        assert words(page) == words(f"{page}?part=log") == [word]
    with scope(award.tenant), as_superuser():
        Run.objects.filter(award=award).delete()
    assert words(page) == words(f"{page}?part=log") == ["not begun yet"]


def test_what_a_launcher_may_write_harms_no_page(award: Award) -> None:
    """Where jobs run as their tenants' users, its log and progress are files of a stranger."""
    folder = Folder(django_settings.RUNS_DIR, f"job-{award.job_id}", "a" * 32)
    epoch = {"event": "epoch", "at": 1.0, "epoch": 4, "loss": 0.2, "seconds": 2.0}
    numbers = {"event": "numbers", "at": 1.0, "role": "worker", "rank": 0, "numbers": {"loss": 0.5}}
    rows = [
        *(epoch | {name: value} for name in epoch for value in (float("nan"), 1e300, 10**400, "x") if name != "event"),
        *(numbers | {name: value} for name in numbers for value in (float("nan"), 1e300, [1]) if name != "event"),
        *(numbers | {"numbers": {"loss": value}} for value in (float("nan"), "x", 10**400)),
        {"event": "numbers", "numbers": {"loss": 1.0}},
    ]
    folder.progress.write_text("".join(json.dumps(row) + "\n" for row in rows))
    folder.log.write_text("".join(f"{moment} worker 0 odd\n" for moment in ("nan", "inf", "-1", "1e300", "1.0")))
    client, base = client_as("viewer", award.tenant), f"/t/lumen/jobs/{award.job_id}/"
    facts = ({"epoch": 4, "epochs": 1e308}, {"numbers": {"loss": 0.5}, "bad_lines": 1e308})
    for progress in facts:
        with scope(award.tenant):
            Run.objects.filter(award=award).update(progress=progress)
        for address in (
            base,
            f"{base}?part=run",
            f"{base}?part=log",
            f"/api/v1{base.replace('/t/', '/tenants/')}logs/",
        ):
            assert client.get(address).status_code == 200
        answer = client.get(f"/api/v1{base.replace('/t/', '/tenants/')}progress/")
        assert answer.status_code == 200
    lines = client.get(f"/api/v1{base.replace('/t/', '/tenants/')}logs/").json()["lines"]
    assert [line["text"] for line in lines] == ["odd"]


def test_job_without_a_program_has_no_such_part(award: Award) -> None:
    with scope(award.tenant):
        del award.job.spec["program"]
        overwrite(award.job)
    client = client_as("viewer", award.tenant)
    assert "run-live" not in client.get(f"/t/lumen/jobs/{award.job_id}/").content.decode()


def test_log_and_progress_come_page_by_page_and_are_nowhere_for_another_tenant(award: Award) -> None:
    client = client_as("viewer", award.tenant)
    base = f"/api/v1/tenants/lumen/jobs/{award.job_id}/"
    log = client.get(base + "logs/").json()
    assert [line["who"] for line in log["lines"]] == ["engine", "worker 1"]
    assert client.get(f"{base}logs/?after={log['after']}").json()["lines"] == []
    progress = client.get(base + "progress/").json()
    assert [point["loss"] for point in progress["curve"]] == [1.0, 0.5, pytest.approx(1 / 3)]
    assert progress["predicted_end"] is not None
    other = make_tenant("castor")
    client = client_as("owner", other)
    for place in ("logs/", "progress/"):
        assert client.get(base + place).status_code == 404
        assert client.get(f"/api/v1/tenants/castor/jobs/{award.job_id}/{place}").status_code == 404
    assert client.get(f"/t/castor/jobs/{award.job_id}/?part=run").status_code == 404


def test_measured_speed_is_offered_for_the_same_model_of_the_same_tenant_only(award: Award) -> None:
    with scope(award.tenant):
        speed = measured(program="trainer", parameters={"model": "logistic", "seed": 5})
        assert speed is not None
        assert (speed.minibatch_seconds, speed.exchange_seconds) == (0.7, 0.01)
        assert measured(program="trainer", parameters={"model": "multilayer"}) is None
        assert offered(award.job.spec | {"minibatch_seconds": 99.0})["minibatch_seconds"] == 0.7
        assert offered({"minibatch_seconds": 99.0}) == {"minibatch_seconds": 99.0}
    form = client_as("submitter", award.tenant).get(f"/t/lumen/submit/?from={award.job_id}").content.decode()
    assert 'name="minibatch_seconds" value="0.7"' in form
    assert re.search(r'name="program"\s+value="trainer" checked', form)
    with scope(make_tenant("castor")):
        assert measured(program="trainer") is None
