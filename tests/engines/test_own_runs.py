"""Jobs that run a program of the catalogue: the version that they keep, the money at each end, and the job's page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from scheduling.engines.base import Fault
from scheduling.engines.launcher.files import Folder
from scheduling.models import (
    ArchiveKeeping,
    Award,
    Event,
    JobState,
    Pool,
    ProgramArchivePiece,
    ProgramVersion,
    Run,
    RunState,
)
from scheduling.runs.runs import gang_of
from tenants.models import Tenant
from tenants.scoping import scope, scope_disabled
from tests.catalogue.builders import allow, archive_with, member, register
from tests.engines.local import engine_in, kill_people_of, until
from tests.engines.market import awarded_again, drive, jobs_of, place
from tests.patience import PATIENCE
from tests.scheduling.builders import make_cells, make_server, make_tenant
from tests.scheduling.live import SPEC, book_is_sound, enter, make_award, money
from tests.scheduling.pages import client_as

pytestmark = pytest.mark.django_db
WORKERS_ALONE = {name: value for name, value in SPEC.items() if name != "ps_mbps"} | {"ps_demand": [], "epochs": 1}
REPORTS = """\
echo "member $BOURSE_RANK of $BOURSE_TENANT says $BOURSE_PARAMETER_WORD"
for n in 1 2 3; do echo "{\\"step\\": $n, \\"of\\": 3, \\"loss\\": 0.$n}" >> "$BOURSE_PROGRESS"; sleep 1.1; done
"""


def world(seconds: int = 30, workers: int = 2, **fields: Any) -> tuple[Pool, Tenant, Award]:
    """A job with a script of the tenant's, for two slots from now on: 10 and 20 micro-credits."""
    pool, tenant = place(seconds)
    allow(tenant)
    document = {"name": "script", "shape": "independent", "command": None, "script": REPORTS}
    document["parameters"] = [{"name": "word", "kind": "text", "default": "nothing"}]
    row = register(member(tenant), **document | fields)
    owner, server = make_tenant("owner"), make_server(pool, "s01", worker=4, ps=2)
    make_cells(server, owner, {"worker": 4, "ps": 2})
    award = make_award(
        pool, tenant, slots=2, charges=[[(owner, 10)], [(owner, 20)]], allocation=[[server.pk, 0, 2, workers, 0]],
        spec=WORKERS_ALONE | {"program": {"name": "script", "version": row.version, "parameters": {"word": "hello"}}},
        awarded_at=pool.epoch_at,
    )  # fmt: skip
    enter(award)
    return pool, tenant, award


def log_of(run: Run) -> str:
    from scheduling.jobs.read_log import LogQuestion, log_found

    return "\n".join(line.text for line in log_found(run, LogQuestion(), 0, 500).lines)


def test_a_program_of_the_tenants_own_runs_to_its_end_and_its_numbers_reach_the_run(
    settings: Any,
) -> None:
    _, tenant, award = world()
    register(member(tenant), name="script", shape="independent", command=None, script="exit 7", is_new=False)
    with engine_in() as engine:
        settings.RUNS_DIR = engine.root
        run = drive(engine, award, RunState.FINISHED)
        assert (run.program, jobs_of(award).state) == ("script", JobState.FINISHED)
        assert run.progress == {"numbers": {"step": 3, "of": 3, "loss": 0.3}, "bad_lines": 0}
        (event,) = Event.objects.filter(kind="job_run_started")  # each start stands in the history, with its digest
        version = ProgramVersion.objects.get(program__name="script", version=1)
        assert event.data == {
            "job": award.job_id, "award": award.pk, "run": 0, "engine": "local",
            "program": "script", "version": 1, "owner": "", "digest": version.digest,
        }  # fmt: skip
        client = client_as("viewer", tenant)
        page = client.get(f"/t/renter/jobs/{award.job_id}/?part=run").content.decode()
        assert "step <b>3</b> of 3" in " ".join(page.split())
        assert "loss <b>0.3</b>" in " ".join(page.split())
        assert page.count('<path class="line" d="M0.00 94.00L') == 1
        numbers = client.get(f"/api/v1/tenants/renter/jobs/{award.job_id}/progress/").json()
        loss = next(each for each in numbers["numbers"] if each["name"] == "loss")
        assert [point["value"] for point in loss["points"]] == [0.1, 0.2, 0.3]
        assert numbers["curve"] == []
        log = log_of(run)
        assert {f"member {rank} of renter says hello" for rank in (0, 1)} <= set(log.splitlines())
        assert book_is_sound()


def test_what_came_along_is_run_and_what_it_wrote_is_fetched(settings: Any) -> None:
    """Under the account that the engine gives it, with a link to where it may not read."""
    train = b"import os\nopen(os.environ['BOURSE_CHECKPOINT'] + '/model', 'w').write('trained')\n"
    script = "python3 src/train.py\nln -s /etc/shadow model\nmkdir closed\necho x > closed/x\nchmod 0 closed/x\n"
    with engine_in() as engine:
        settings.RUNS_DIR = engine.root
        _, tenant, award = world(workers=1, script=script, archive=archive_with("src/train.py", content=train))
        drive(engine, award, RunState.FINISHED)
        client, base = client_as("viewer", tenant), f"/api/v1/tenants/renter/jobs/{award.job_id}/files/"
        listing = client.get(base).json()
        content = client.get(f"{base}content/", {"path": "checkpoint/model"})
        link = client.get(f"{base}content/", {"path": "model"})
    assert [file["path"] for file in listing["files"]] == ["checkpoint/model", "closed/x", "src/train.py"]
    assert (listing["left_out"], listing["sentence"]) == (1, "")
    assert b"".join(content.streaming_content) == b"trained"
    assert link.status_code == 404


def test_what_a_lost_attempt_wrote_is_read_beside_the_log_of_the_next_one(settings: Any) -> None:
    count = 'echo >> "$BOURSE_CHECKPOINT/starts"; echo "attempt $(wc -l < "$BOURSE_CHECKPOINT/starts")"; '
    with engine_in() as engine:
        settings.RUNS_DIR = engine.root
        _, tenant, award = world(600, workers=1, script=count + '[ -e "$BOURSE_CHECKPOINT/done" ] || sleep 600')
        first = drive(engine, award, RunState.RUNNING)
        until(lambda: "attempt 1" in log_of(first), patience=PATIENCE)
        kill_people_of(first.key)  # the whole machine is gone
        drive(engine, award, RunState.LOST)
        (engine.root / f"job-{award.job_id}" / "work" / "checkpoint" / "done").touch()
        drive(engine, awarded_again(award), RunState.FINISHED)
        client, base = client_as("viewer", tenant), f"/api/v1/tenants/renter/jobs/{award.job_id}/logs/"
        logs = [client.get(base, {"run_number": number}).json() for number in (1, 2)]
    texts = [[line["text"] for line in each["lines"] if line["who"] != "engine"] for each in logs]
    assert texts == [["attempt 1"], ["attempt 2"]]
    assert (logs[0]["runs"], logs[0]["run"]) == (2, first.pk)


def test_a_missing_interpreter_is_refunded_and_the_job_waits_again() -> None:
    with engine_in() as engine:
        _, tenant, award = world(script=None, command=["torchrun-9", "{word}"])
        run = drive(engine, award, RunState.LOST, RunState.FAILED)
    assert (run.state, run.detail) == (RunState.LOST, "torchrun-9 was not found on node s01")
    assert jobs_of(award).state == JobState.QUEUED
    assert money(tenant)[1:] == (0, 0)
    assert book_is_sound()


def test_a_program_that_fails_is_paid_for_and_its_last_lines_are_told() -> None:
    with engine_in() as engine:
        _, tenant, award = world(script="echo no such data\nexit 2\n")
        run = drive(engine, award, RunState.LOST, RunState.FAILED)
    assert (run.state, run.exit_code) == (RunState.FAILED, 2)
    assert run.detail.endswith("ended with code 2: no such data")
    assert jobs_of(award).state == JobState.FAILED
    assert money(tenant)[1] == 30
    assert book_is_sound()


def test_a_program_with_one_size_is_not_started_by_an_award_of_several() -> None:
    _, _, award = world()
    server = award.allocation[0][0]
    award.allocation = [[server, 0, 1, 2, 0], [server, 1, 2, 1, 0]]
    run = Run(award=award, job=award.job, key="0" * 32, program="script", ends_at=timezone.now())
    with scope_disabled("the engine asks for a gang of any tenant"):
        answer = gang_of(run, award, award.pool.epoch_at)
    assert isinstance(answer, Fault)
    assert "its award has several sizes" in answer.sentence


def test_a_job_whose_files_are_kept_no_more_is_not_started_and_refunded() -> None:
    """Nothing else keeps a program from beginning without its files."""
    _, _, award = world(archive=archive_with("train.py"))
    ArchiveKeeping.objects.update(closed_at=timezone.now(), removed_at=timezone.now())
    ProgramArchivePiece.objects.all()._raw_delete(using=connection.alias)
    run = Run(award=award, job=award.job, key="0" * 32, program="script", ends_at=timezone.now())
    with scope_disabled("the engine asks for a gang of any tenant"):
        answer = gang_of(run, award, award.pool.epoch_at)
    assert isinstance(answer, Fault)
    assert "files of its program are kept no more" in answer.sentence


def test_what_a_stranger_says_is_shown_as_text(settings: Any, tmp_path: Path) -> None:
    settings.RUNS_DIR = tmp_path
    _, tenant, award = world()
    numbers = {"<b>x</b>": 1.5, "loss": 1e308, "step": 2, "of": -1}
    with scope(tenant):
        run = Run.objects.create(
            tenant=tenant, job=award.job, award=award, engine="local", key="a" * 32, program="script",
            state="running", ends_at=timezone.now(), due_at=timezone.now(), seen_at=timezone.now(),
            progress={"numbers": numbers, "bad_lines": 7, "url": "http://x/?a=<script>"},
        )  # fmt: skip
    folder = Folder(tmp_path, f"job-{award.job_id}", run.key)
    folder.make()
    rows = [{"event": "numbers", "at": 5.0 + n, "role": "worker", "rank": 1, "numbers": numbers} for n in (0, 1)]
    rows[1]["numbers"] = numbers | {"loss": -1e308}
    folder.progress.write_text("".join(json.dumps(row) + "\n" for row in rows))
    page = client_as("viewer", tenant).get(f"/t/renter/jobs/{award.job_id}/?part=run").content.decode()
    assert "<script>" not in page
    assert "<b>x</b>" not in page
    assert "&lt;b&gt;x&lt;/b&gt; <b>1.5</b>" in " ".join(page.split())
    assert "loss <b>-1e+308</b>" in " ".join(page.split())
    assert 'rel="noopener noreferrer nofollow"' in page
    assert "<dd> 7 </dd>" in " ".join(page.split())
