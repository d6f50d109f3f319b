"""The log of every run of a job, by its number: on the page and for programs, for the same readers as the newest."""

from __future__ import annotations

import shutil
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from scheduling.engines.launcher.files import Folder
from scheduling.jobs import read_run
from scheduling.jobs.read_log import NEVER_BEGAN, NO_LOG
from scheduling.models import Award, JobState, Run, RunState
from scheduling.runs.old_files import files_remove, jobs_with_old_files
from tenants.roles import AUDITOR, BILLING, OPERATOR, OWNER, SUBMITTER, VIEWER
from tenants.scoping import scope
from tests.database import overwrite
from tests.scheduling.builders import make_tenant
from tests.scheduling.live import SPEC, make_award, make_live_pool
from tests.scheduling.pages import client_as
from tests.tenants.builders import client_of, make_member, make_person, make_staff

pytestmark = pytest.mark.django_db
BEGAN = 1_770_000_000


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(django_settings, "RUNS_DIR", tmp_path / "runs")
    return tmp_path / "runs"


def make_runs(award: Award, *words: str | None, last: RunState = RunState.RUNNING) -> list[Run]:
    """Give the award's job a run for each of these: all but the last were lost. Each wrote its word, or has no log."""
    rows, now = [], timezone.now()
    with scope(award.tenant):
        for number, word in enumerate(words):
            state = last if number == len(words) - 1 else RunState.LOST
            run = Run.objects.create(
                tenant=award.tenant, job=award.job, award=award, number=number, engine="local", program="trainer",
                key=f"{award.pk:016x}{number:016x}", state=state, ends_at=now, due_at=now, seen_at=now, started_at=now,
                ended_at=None if state == RunState.RUNNING else now,
                detail="server s1 is gone" if state == RunState.LOST else "",
            )  # fmt: skip
            if word is not None:
                folder = Folder(django_settings.RUNS_DIR, f"job-{award.job_id}", run.key)
                folder.make()
                folder.log.write_text("".join(f"{BEGAN + n}.000 worker {n} {word} {n}\n" for n in range(2)))
            rows.append(run)
    return rows


@pytest.fixture
def award() -> Award:
    """A job that was lost twice and runs: its runs wrote alpha, beta and gamma."""
    pool, tenant = make_live_pool(epoch_at=timezone.now()), make_tenant("lumen")
    award: Award = make_award(pool, tenant, spec=SPEC | {"program": {"name": "trainer", "parameters": {}}})
    make_runs(award, "alpha", "beta", "gamma")
    return award


def addresses(award: Award, slug: str = "lumen") -> tuple[str, str]:
    return f"/t/{slug}/jobs/{award.job_id}/", f"/api/v1/tenants/{slug}/jobs/{award.job_id}/logs/"


def first_words(log: dict[str, Any]) -> list[str]:
    return [line["text"] for line in log["lines"]]


def test_programs_read_the_log_of_each_run_by_its_number(award: Award) -> None:
    client, (_, api) = client_as(VIEWER, award.tenant), addresses(award)
    newest = client.get(api).json()
    assert (first_words(newest), newest["run_number"], newest["runs"]) == (["gamma 0", "gamma 1"], 3, 3)
    for number, word in enumerate(("alpha", "beta", "gamma"), 1):
        log = client.get(f"{api}?run_number={number}").json()
        assert (first_words(log), log["run_number"], log["sentence"]) == ([f"{word} 0", f"{word} 1"], number, "")
        assert first_words(client.get(f"{api}?run_number={number}&who=worker 1").json()) == [f"{word} 1"]
        file = client.get(f"{api}file/?run_number={number}", headers={"accept": "text/plain"})
        assert file.getvalue().decode().splitlines()[1].endswith(f"Z worker 1 {word} 1")
        assert f"job-{award.job_id}-run-{number}.log" in file.headers["Content-Disposition"]
    assert log == newest
    progress = client.get(api.replace("logs", "progress")).json()
    assert [row["run_number"] for row in progress["runs"]] == [3, 2, 1]
    assert progress["runs"][0]["run"] == newest["run"]


def test_run_that_the_job_does_not_have_is_refused_with_those_that_it_has(award: Award) -> None:
    client, (page, api) = client_as(VIEWER, award.tenant), addresses(award)
    other: Award = make_award(award.pool, award.tenant, spec=award.job.spec)
    make_runs(other, *["elsewhere"] * 9)
    for address in (api, f"{api}file/"):
        answer = client.get(f"{address}?run_number=4")
        assert (answer.status_code, answer.json()["code"]) == (404, "unknown_run")
        assert answer.json()["detail"] == "The job has no run 4: its runs are 1 to 3."
        for wrong in ("0", "-1", "x", "../k", "1%00", "99999999999999999999"):
            assert client.get(f"{address}?run_number={wrong}").status_code == 400
    html = client.get(f"{page}?run=4").content.decode()
    assert "The job has no run 4: its runs are 1 to 3." in html
    assert "elsewhere 1" not in html
    assert client.get(f"{page}log/?run=4").status_code == 404
    for wrong in ("../k", "x", "", "1" * 40):  # as with the other fields, what is not understood chooses nothing
        assert "gamma 1" in client.get(page, {"run": wrong, "part": "log"}).content.decode()


def test_job_that_has_not_begun_has_no_runs(award: Award) -> None:
    waits: Award = make_award(award.pool, award.tenant, spec=award.job.spec)
    client, (page, api) = client_as(VIEWER, award.tenant), addresses(waits)
    empty = {"run": None, "run_number": None, "runs": 0, "lines": [], "after": 0, "more": False, "sentence": ""}
    assert client.get(api).json() == empty
    assert client.get(f"{api}?run_number=1").json()["detail"] == read_run.NO_RUNS.sentence
    assert "Nothing has been written yet." in client.get(f"{page}?run=1").content.decode()


def test_page_shows_the_run_that_is_chosen_and_keeps_it_when_it_is_renewed(award: Award) -> None:
    client, (page, _) = client_as(VIEWER, award.tenant), addresses(award)
    html = " ".join(client.get(f"{page}?run=2&level=").content.decode().split())
    assert "beta 1" in html
    assert "gamma 1" not in html
    assert "Run 2 of 3" in html
    assert "The platform lost it: server s1 is gone." in html
    assert '<option value="2" selected>' in html.replace(" >", ">")
    assert f'href="{page}log/?run=2"' in html
    assert 'href="?level=&amp;run=1#h-log">The run before' in html
    assert 'href="?level=&amp;run=3#h-log">The run after' in html
    part = client.get(f"{page}?run=2&part=log").content.decode()
    assert f'hx-get="{page}?run=2&amp;part=log"' in part
    assert "data-live" not in part  # nothing is added to it any more
    running = client.get(f"{page}?run=3&part=log").content.decode()
    assert f'data-live="job-run:{award.job_id}"' in running
    newest = client.get(f"{page}?part=log").content.decode()
    assert f'data-live="job-run:{award.job_id}"' in newest
    assert "gamma 1" in newest
    assert "The run before" in newest
    assert "The run after" not in newest
    assert client.get(f"{page}log/?run=1").getvalue().decode().splitlines()[0].endswith("alpha 0")


def test_page_of_a_job_with_one_run_has_no_choice(award: Award) -> None:
    single: Award = make_award(award.pool, award.tenant, spec=award.job.spec)
    make_runs(single, "alone")
    html = client_as(VIEWER, award.tenant).get(addresses(single)[0]).content.decode()
    assert "alone 1" in html
    assert 'name="run"' not in html
    assert "Run 1 of 1" not in html


def test_run_that_is_older_than_the_list_is_found(award: Award, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scheduling.jobs.read_run.MOST_RUNS", 2)
    monkeypatch.setattr(read_run, "MOST_RUNS", 2)
    client, (page, api) = client_as(VIEWER, award.tenant), addresses(award)
    log = client.get(f"{api}?run_number=1").json()
    assert (first_words(log)[0], log["run_number"], log["runs"]) == ("alpha 0", 1, 3)
    assert client.get(api).json()["run_number"] == 3
    html = " ".join(client.get(f"{page}?run=1").content.decode().split())
    assert "alpha 1" in html
    assert '<input class="input" type="number" name="run" id="id_run" min="1" max="3" value="1"' in html
    assert [number for number in (1, 2, 3) if f'<option value="{number}"' in html] == [2, 3]
    newest = " ".join(client.get(page).content.decode().split())
    assert 'max="3" value="" placeholder="the newest"' in newest
    assert "gamma 1" in " ".join(client.get(f"{page}?run=").content.decode().split())
    assert [row["run_number"] for row in client.get(api.replace("logs", "progress")).json()["runs"]] == [3, 2]


def answers_of(reader: Client, award: Award, slug: str) -> list[tuple[int, int]]:
    """Return for each address of a log how it answers about the newest run and about the first one, whose words it
    shows exactly where it answers with 200."""
    page, api = addresses(award, slug)
    pairs = [(page, "run"), (f"{page}?part=log", "run"), (f"{page}log/", "run")]
    pairs += [(api, "run_number"), (f"{api}file/", "run_number")]
    statuses = []
    for address, name in pairs:
        newest, first = reader.get(address), reader.get(f"{address}{'&' if '?' in address else '?'}{name}=1")
        content = first.getvalue() if first.streaming else first.content
        assert (b"alpha" in content) == (first.status_code == 200)
        statuses.append((newest.status_code, first.status_code))
    return statuses


def test_earlier_logs_are_for_the_readers_of_the_newest(award: Award) -> None:
    castor = make_tenant("castor")
    make_runs(make_award(award.pool, castor, spec=award.job.spec), "theirs", "theirs")
    readers = [make_member(award.tenant, role).user for role in (OWNER, SUBMITTER, VIEWER)]
    readers += [make_staff(role).user for role in (AUDITOR, OPERATOR)]
    for user in readers:
        assert answers_of(client_of(user), award, "lumen") == [(200, 200)] * 5
    strangers = [make_member(castor, OWNER).user, make_member(castor, VIEWER).user, make_person()]
    for user in strangers:
        for slug in ("lumen", "castor"):
            assert set(answers_of(client_of(user), award, slug)) == {(404, 404)}
    assert set(answers_of(client_of(make_member(award.tenant, BILLING).user), award, "lumen")) == {(403, 403)}
    assert set(answers_of(Client(), award, "lumen")) == {(302, 302), (401, 401)}


def test_log_that_is_gone_is_said_with_the_reason(award: Award, root: Path, settings: Any) -> None:
    client, (page, api) = client_as(VIEWER, award.tenant), addresses(award)
    with scope(award.tenant):
        first, second, _ = Run.objects.order_by("pk")
        Run.objects.filter(pk=second.pk).update(started_at=None)
    for run in (first, second):
        shutil.rmtree(root / f"job-{award.job_id}" / run.key)
    for number, sentence in ((1, NO_LOG), (2, NEVER_BEGAN)):
        reply = client.get(f"{api}?run_number={number}")
        assert (reply.status_code, reply.json()["lines"], reply.json()["sentence"]) == (200, [], sentence)
        html = client.get(f"{page}?run={number}").content.decode()
        assert sentence in html
        assert "Download all of it" not in html
        file = client.get(f"{api}file/?run_number={number}", headers={"accept": "text/plain"})
        assert (file.status_code, file.getvalue()) == (200, b"")
    assert client.get(api).json()["sentence"] == ""


def test_logs_of_all_runs_are_kept_as_long_as_each_other(award: Award, root: Path, settings: Any) -> None:
    """They go with the job's other files, so many days after the end of the job and not of the run."""
    settings.RETENTION_RUN_FILES_DAYS = 30
    now = timezone.now()
    client, (page, api) = client_as(VIEWER, award.tenant), addresses(award)
    assert jobs_with_old_files(root, now) == []
    with scope(award.tenant):
        Run.objects.filter(job=award.job).update(ended_at=now - timedelta(days=400))
        Run.objects.filter(job=award.job, state=RunState.RUNNING).update(state=RunState.FINISHED)
        award.job.state, award.job.ended_at = JobState.FINISHED, now - timedelta(days=40)
        overwrite(award.job)
    assert jobs_with_old_files(root, now - timedelta(days=41)) == []
    assert [first_words(client.get(f"{api}?run_number={n}").json())[0] for n in (1, 2, 3)] == [
        "alpha 0",
        "beta 0",
        "gamma 0",
    ]
    assert jobs_with_old_files(root, now - timedelta(days=30)) == [award.job_id]
    files_remove(root, [award.job_id])
    day = f"{now - timedelta(days=9):%Y-%m-%d}"
    sentence = f"Files of a job are kept for 30 days after its end; those of this one could go from {day} (UTC) on."
    for query in ("", "?run_number=1", "?run_number=2"):
        assert client.get(f"{api}{query}").json()["sentence"] == sentence
    for query in ("", "?run=1"):
        assert sentence in client.get(f"{page}{query}").content.decode()


def test_page_of_a_job_asks_no_more_for_its_many_runs(award: Award) -> None:
    single: Award = make_award(award.pool, award.tenant, spec=award.job.spec)
    make_runs(single, "alone")
    client, counts = client_as(VIEWER, award.tenant), []
    for address in (addresses(single)[0], addresses(award)[0], f"{addresses(award)[0]}?run=1"):
        client.get(address)
        with CaptureQueriesContext(connection) as captured:
            client.get(address)
        counts.append(len(captured))
    assert len(set(counts)) == 1
