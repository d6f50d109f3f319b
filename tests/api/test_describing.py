"""Jobs as people describe them, through the interface: what the market is asked, what is kept, what is refused."""

from __future__ import annotations

import hashlib
import json
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test.client import BOUNDARY, encode_multipart
from django.utils import timezone

from scheduling.jobs import JobWording, Submitted, job_describe
from scheduling.models import JobDescription, Pool, ProgramVersion, ResourceKind, TrainingJob
from scheduling.programs.hours import to_bytes
from tenants.access import Refused
from tenants.models import Tenant
from tenants.roles import AUDITOR, OPERATOR, SUBMITTER, VIEWER
from tenants.scoping import scope
from tests.api.builders import Program, problem, program_of
from tests.catalogue.builders import allow, archive_with, register
from tests.catalogue.builders import member as catalogue_member
from tests.scheduling.builders import make_server
from tests.scheduling.live import fund, make_live_pool, member
from tests.tenants.builders import client_of, make_staff, make_tenant

pytestmark = pytest.mark.django_db

SCRIPT = """#!/bin/bash -eu
#SBATCH --job-name=train
#SBATCH --gpus=4 --time=0:01:00
#SBATCH --mail-type=END --output=logs/%j.out
#SBATCH --error=logs/%j.err

python3 train.py
"""
WORTH = {"within_seconds": 600, "credits": "100", "later": "half"}
HOURS = {"hours": "0.016666666666", "most": 4}  # a minute, rounded up to whole seconds


@pytest.fixture
def world() -> tuple[Pool, Tenant, Program]:
    pool, tenant = make_live_pool(epoch_at=timezone.now()), make_tenant("lumen")
    make_server(pool, worker=8, ps=1)
    fund(tenant)
    allow(tenant)
    return pool, tenant, program_of(SUBMITTER, tenant)


def parse(caller: Program, **fields: Any) -> Any:
    return caller.post("tenants/lumen/jobs/parse/", {"pool": "main", "worth": WORTH} | fields)


def submit(caller: Program, **fields: Any) -> Any:
    return caller.post("tenants/lumen/jobs/", {"pool": "main", "lane": "batch"} | fields)


def stored(tenant: Tenant) -> list[TrainingJob]:
    with scope(tenant):
        return list(TrainingJob.objects.order_by("pk"))


def test_one_job_in_hours_by_its_script_and_in_detail_is_the_same_to_the_byte(world) -> None:
    _, tenant, caller = world
    parsing = parse(caller, script=SCRIPT)
    assert parsing.status_code == 200, parsing.content
    spec = parsing.json()["spec"]
    assert spec["program"] == {"name": "train-sbatch", "version": 1, "parameters": {}}
    for fields in (
        {"script": SCRIPT, "worth": WORTH},
        {"hours": HOURS, "worth": WORTH, "name": "train", "program": spec["program"]},
        {"spec": spec, "name": "train"},
    ):
        answer = submit(caller, **fields)
        assert answer.status_code == 201, answer.content
    jobs = stored(tenant)
    assert {to_bytes(job.spec) for job in jobs} == {to_bytes(spec)}
    assert {job.name for job in jobs} == {"train"}
    assert (jobs[0].spec["minibatches"], jobs[0].spec["worker_demand"]) == (60, {"worker": 1})


def test_script_becomes_a_program_of_the_tenant_a_version_for_each_text(world) -> None:
    _, tenant, caller = world
    moved = SCRIPT.replace("--gpus=4", "--gpus=4 --chdir='/data/a b' --export=ALL,SEED=3")
    specs = [submit(caller, script=text, worth=WORTH).json()["spec"] for text in (SCRIPT, SCRIPT, moved)]
    assert [spec["program"]["version"] for spec in specs] == [1, 1, 2]
    first, second = ProgramVersion.objects.filter(program__tenant=tenant).order_by("version")
    assert (first.document["script"], first.document["shape"]) == (SCRIPT, "all_reduce")
    assert second.document["script"].startswith("#!/bin/bash -eu\neval $'cd -- \\'/data/a b\\''; #SBATCH")
    assert second.document["environment"] == {"SEED": "3"}
    assert parse(caller, script=moved).json()["spec"]["program"]["version"] == 2
    assert parse(caller, script=SCRIPT).json()["spec"]["program"]["version"] == 3  # of the newest, another text


def test_array_is_a_job_for_each_index_of_one_program(world) -> None:
    _, tenant, caller = world
    script = SCRIPT.replace("--gpus=4", "--gpus=1 --array=0,4")
    parsed = parse(caller, script=script).json()
    assert (parsed["indexes"], parsed["name"]) == ([0, 4], "train")
    problem(submit(caller, script=script, worth=WORTH), 422, "invalid_job")
    jobs = [submit(caller, script=script, worth=WORTH, index=index).json() for index in parsed["indexes"]]
    assert [job["name"] for job in jobs] == ["train[0]", "train[4]"]
    programs = [job["spec"]["program"] for job in jobs]
    assert programs == [{"name": "train-sbatch", "version": 1, "parameters": {"index": index}} for index in (0, 4)]
    text = ProgramVersion.objects.get(program__tenant=tenant).document["script"]
    assert 'export SLURM_ARRAY_TASK_ID="$BOURSE_PARAMETER_INDEX"' in text.splitlines()[1]


def test_script_that_may_not_become_a_program_is_refused_and_one_without_commands_reserves(world) -> None:
    _, tenant, caller = world
    allow(tenant, may_bring=False)
    for answer in (parse(caller, script=SCRIPT), submit(caller, script=SCRIPT, worth=WORTH)):
        problem(answer, 409, "programs_not_allowed")
    assert stored(tenant) == []
    only_head = SCRIPT.replace("python3 train.py\n", "")
    assert "program" not in parse(caller, script=only_head).json()["spec"]
    scopes = program_of(SUBMITTER, tenant, ["jobs:read", "jobs:write"])
    allow(tenant)
    problem(parse(scopes, script=SCRIPT), 403, "not_allowed")


def test_parsing_says_what_comes_of_each_line_and_stores_nothing(world) -> None:
    _, tenant, caller = world
    parsing = parse(caller, script=SCRIPT).json()
    assert (parsing["how"], parsing["name"], parsing["begin"]) == ("script", "train", None)
    assert [(row["line"], row["option"], row["verdict"]) for row in parsing["lines"]] == [
        (1, "", "understood"), (2, "--job-name", "understood"), (3, "--gpus", "understood"),
        (3, "--time", "understood"), (4, "--mail-type", "ignored"), (4, "--output", "ignored"),
        (5, "--error", "not_kept"), (7, "", "understood"), (7, "", "not_kept"),
    ]  # fmt: skip
    assert parsing["lines"][2]["says"] == "#SBATCH --gpus=4 --time=0:01:00"
    assert stored(tenant) == []


def test_what_was_said_is_kept_beside_the_specification_and_shown(world) -> None:
    _, tenant, caller = world
    job = submit(caller, script=SCRIPT, worth=WORTH).json()
    description = caller.get(f"tenants/lumen/jobs/{job['id']}/description/").json()
    assert description["how"] == "script"
    assert description["said"] == {"script": SCRIPT, "worth": WORTH, "zone": "UTC"}
    assert job["name"] == "train"
    assert description["lines"][1]["says"] == "#SBATCH --job-name=train"
    assert "said" not in job["spec"]
    detail = submit(caller, spec=job["spec"], name="train").json()
    answer = caller.get(f"tenants/lumen/jobs/{detail['id']}/description/").json()
    assert answer == {"how": "detail", "said": {}, "lines": []}
    with scope(tenant):
        assert JobDescription.objects.count() == 1


def test_description_sent_again_is_the_same_job_though_time_has_gone_on(world) -> None:
    pool, tenant, _ = world
    at, by = timezone.now(), member(tenant)
    worth = {"by": (at + timedelta(hours=1)).isoformat(), "credits": "100", "later": "nothing"}

    def submit_at(moment: datetime, **answers: Any) -> Submitted | Refused:
        wording = JobWording(worth=worth | answers, hours=HOURS)
        return job_describe(pool=pool, wording=wording, lane="batch", by=by, at=moment, client_key="once")

    first = submit_at(at)
    assert isinstance(first, Submitted)
    for later in (90, 7_200):  # the second time also after the moment by which it was wanted
        again = submit_at(at + timedelta(seconds=later))
        assert isinstance(again, Submitted)
        assert (again.job.pk, again.repeated) == (first.job.pk, True)
    assert submit_at(at, credits="101").code == "key_reused"
    assert len(stored(tenant)) == 1


@pytest.mark.parametrize(
    ("fields", "place"),
    [
        ({"hours": {"hours": 0, "most": 4}}, ("hours.hours", None)),
        ({"hours": {"hours": 1}}, ("hours.most", None)),
        ({"hours": HOURS, "worth": {"credits": "5", "later": "nothing"}}, ("worth.by", None)),
        ({"hours": HOURS, "worth": WORTH | {"credits": 5}}, ("worth.credits", None)),
        ({"hours": HOURS, "worth": WORTH | {"credits": "1e3"}}, ("worth.credits", None)),
        ({"hours": HOURS, "worth": WORTH | {"later": "soon"}}, ("worth.later", None)),
        ({"hours": HOURS, "worth": WORTH | {"more": 1}}, ("worth.more", None)),
        ({"hours": HOURS, "worth": WORTH | {"by": "now+1hours"}}, ("worth.by", None)),
        ({"hours": HOURS, "worth": {"by": "2020-01-01", "credits": "5", "later": "half"}}, ("worth.by", None)),
        ({"hours": HOURS, "worth": {"by": [], "credits": "5", "later": "half"}}, ("worth.by", None)),
        ({"hours": HOURS | {"worker": {"worker": 1.5}}}, ("worker_demand.worker", None)),
        ({"script": SCRIPT.replace("--gpus=4", "--exclusive")}, ("script", 3)),
        ({"script": SCRIPT.replace("--gpus=4", "--gpsu=4")}, ("script", 3)),
        ({"script": SCRIPT.replace("--gpus=4", "--nodes=1 --ntasks-per-node=3 --gpus-per-node=4")}, ("script", 3)),
        ({"script": SCRIPT, "index": 3}, ("index", None)),
        ({"script": SCRIPT.replace("--gpus=4", "--gpus=4 --array=0-2"), "index": 3}, ("index", None)),
        ({"script": SCRIPT.replace("--gpus=4", "--gpus=4 --array=0-1000")}, ("script", 3)),
        ({"hours": HOURS, "index": 3}, ("index", None)),
        ({"script": SCRIPT.replace("--gpus=4", "--gpus=4 --dependency=afterok:3")}, ("script", 3)),
        ({"script": SCRIPT, "program": {"name": "x"}}, ("program", None)),
        ({"hours": HOURS, "program": {"name": "x"}}, ("program.name", None)),
        ({"script": SCRIPT.replace("--gpus=4", "--gpus=4 --constraint=a100")}, ("script", 3)),
        ({"script": SCRIPT.replace("--gpus=4", "--gpus=4 --deadline=now+30")}, ("script", 3)),
        ({"script": SCRIPT.replace("--gpus=4", "--gpus=4 --begin=9999-12-31")}, ("begin", None)),
        ({"script": "train.py"}, ("script", 1)),
    ],
)
def test_refusal_names_the_line_or_the_field(world, fields: dict[str, Any], place: tuple[str, int | None]) -> None:
    _, tenant, caller = world
    for answer in (parse(caller, **fields), submit(caller, **({"worth": WORTH} | fields))):
        assert answer.status_code == 422, answer.content
        body = answer.json()
        assert body["code"] == "invalid_job"
        assert body["errors"][0]["field"] == place[0]
        if faults := body["numbers"].get("faults"):
            assert (faults[0]["field"], faults[0]["line"]) == place
            assert faults[0]["sentence"]
    assert stored(tenant) == []


@pytest.mark.parametrize("fields", [{}, {"spec": {}, "script": SCRIPT}, {"hours": {}, "script": SCRIPT}, {"spec": {}}])
def test_one_way_of_saying_it_is_needed(world, fields: dict[str, Any]) -> None:
    _, _, caller = world
    problem(submit(caller, worth=WORTH, **fields), 422, "invalid_job")


def test_worth_by_a_clock_is_read_in_the_zone_that_was_said(world) -> None:
    _, _, caller = world
    local = (timezone.now() + timedelta(hours=5)).strftime("%Y-%m-%dT%H:%M:%S")  # three hours from now, there
    worth = {"by": local, "credits": "100", "later": "nothing"}
    spec = parse(caller, hours=HOURS, worth=worth, zone="+02:00").json()["spec"]
    assert spec["value"]["deadline"] == pytest.approx(3 * 360, abs=0.5)
    assert parse(caller, hours=HOURS, worth=worth, zone="Nowhere/At-all").status_code == 422


def test_deadline_of_a_script_says_by_when_and_bounds_what_it_is_worth(world) -> None:
    _, _, caller = world
    text = SCRIPT.replace("--gpus=4", "--gpus=4 --deadline=now+1hours")
    spec = parse(caller, script=text, worth={"credits": "100", "later": "nothing"}).json()["spec"]
    assert spec["value"] == {"kind": "deadline", "base": 100.0, "deadline": 360.0}
    spec = parse(caller, script=text, worth=WORTH | {"within_seconds": 7200}).json()["spec"]
    assert spec["value"] == {"kind": "deadline", "base": 100.0, "deadline": 360.0}


def test_resources_of_a_worker_are_the_pools(world) -> None:
    pool, _, caller = world
    ResourceKind.objects.create(pool=pool, name="cpu", label="CPU")
    spec = parse(caller, script=SCRIPT.replace("--gpus=4", "--gpus=4 -n 2 -c 8")).json()["spec"]
    assert spec["worker_demand"] == {"cpu": 8, "worker": 2}
    assert json.loads(json.dumps(spec))["max_workers"] == 2


def test_job_waits_for_the_jobs_that_its_script_and_the_body_name(world) -> None:
    _, _, caller = world
    first, second = (submit(caller, script=SCRIPT, worth=WORTH).json()["id"] for _ in range(2))
    text = SCRIPT.replace("--gpus=4", f"--gpus=4 --dependency=afterok:{first}")
    assert parse(caller, script=text, after=[second]).json()["after"] == [first, second]
    dependent = submit(caller, script=text, worth=WORTH, after=[second]).json()
    assert (dependent["after"], dependent["state"], dependent["reason"]["code"]) == (
        [first, second],
        "queued",
        "waits_for_jobs",
    )
    assert dependent["reason"]["sentence"] == f"Waits for J-{first}, J-{second}."
    missing = text.replace(f"afterok:{first}", "afterok:987654")
    faults = problem(parse(caller, script=missing), 422, "invalid_job")["numbers"]["faults"]
    assert [(fault["line"], fault["option"]) for fault in faults] == [(3, "--dependency")]
    spec = dependent["spec"] | {"program": None}
    del spec["program"]
    detailed = submit(caller, spec=spec, name="x", after=[first])
    assert detailed.json()["after"] == [first]
    assert problem(submit(caller, spec=spec, name="x", after=[987654]), 422, "invalid_job")["detail"]


def test_script_with_an_array_is_submitted_in_one_call(world) -> None:
    """Each member is told its index; what was said is kept once, and is every member's."""
    _, tenant, caller = world
    text = SCRIPT.replace("--gpus=4", "--gpus=4 --array=3,5-9:2")
    body = {"pool": "main", "script": text, "worth": WORTH}
    reply = caller.post("tenants/lumen/jobs/arrays/", body, HTTP_IDEMPOTENCY_KEY="k")
    assert reply.status_code == 201, reply.content
    array = reply.json()
    assert (array["jobs"], array["indexes"], array["states"]) == (4, [3, 5, 7, 9], {"queued": 4})
    rows = stored(tenant)
    assert [row.spec["program"]["parameters"] for row in rows] == [{"index": index} for index in (3, 5, 7, 9)]
    elements = caller.get(f"tenants/lumen/jobs/?array={array['id']}").json()["results"]
    assert [(job["name"], job["array"]["index"]) for job in elements][-1] == ("train[3]", 3)
    assert len(caller.get("tenants/lumen/jobs/?arrays=folded").json()["results"]) == 1
    descriptions = [caller.get(f"tenants/lumen/jobs/{row.pk}/description/").json()["said"] for row in rows]
    assert descriptions[0] == descriptions[3] == {"script": text, "worth": WORTH, "zone": "UTC"}
    problem(caller.post("tenants/lumen/jobs/arrays/", body | {"count": 2}), 422, "invalid_job")
    problem(
        caller.post("tenants/lumen/jobs/arrays/", {"pool": "main", "hours": HOURS, "worth": WORTH}), 422, "invalid_job"
    )
    problem(submit(caller, script=text, worth=WORTH), 422, "invalid_job")
    summary = caller.post(f"tenants/lumen/jobs/arrays/{array['id']}/cancel/").json()
    assert summary["states"] == {"cancelled": 4}
    behind = SCRIPT.replace("--gpus=4", f"--gpus=4 --dependency=afterok:A-{array['id']}:{rows[0].pk}")
    refused = problem(parse(caller, script=behind), 422, "invalid_job")["numbers"]["faults"]
    assert refused[0]["sentence"].endswith(f"J-{rows[0].pk} is cancelled")
    bound = caller.post("tenants/lumen/jobs/arrays/", body | {"together": True, "lane": "batch"}).json()
    assert (array["together"], bound["together"]) == (False, True)
    dependent = submit(caller, script=SCRIPT, worth=WORTH, after_arrays=[bound["id"]]).json()
    assert (dependent["after"], dependent["after_arrays"]) == ([], [bound["id"]])
    named = SCRIPT.replace("--gpus=4", f"--gpus=4 --dependency=afterok:A-{bound['id']}")
    assert parse(caller, script=named).json()["after_arrays"] == [bound["id"]]
    at_once = problem(caller.post("tenants/lumen/jobs/arrays/", body | {"lane": "instant"}), 422, "invalid_job")
    assert at_once["detail"].startswith("lane: an array waits for the next interval.")


ALONG = "train.py does not come along: bring it with --with train.py."


def told_of(answer: Any) -> list[tuple[int, str]]:
    assert answer.status_code == 200, answer.content
    return [(line["line"], line["sentence"]) for line in answer.json()["lines"] if line["verdict"] == "not_kept"]


def post_program(caller: Program, document: dict[str, Any], archive: bytes) -> Any:
    allowed = caller.post("tenants/lumen/programs/uploads/").json()["upload"]
    parts = {"document": json.dumps(document), "archive": SimpleUploadedFile("a", archive)}
    kind = f"multipart/form-data; boundary={BOUNDARY}"
    address = f"tenants/lumen/programs/uploads/archive/?upload={allowed}"
    return caller.post(address, encode_multipart(BOUNDARY, parts), content_type=kind)


def test_file_that_a_script_runs_and_that_does_not_come_along_is_told_with_its_line(world) -> None:
    _, _, caller = world
    assert (7, ALONG) in told_of(parse(caller, script=SCRIPT))
    assert (7, ALONG) not in told_of(parse(caller, script=SCRIPT, archive="a" * 64, files=["train.py"]))
    assert (7, ALONG) in told_of(parse(caller, script=SCRIPT, archive="a" * 64, files=["src/train.py"]))
    assert (7, ALONG) not in told_of(parse(caller, script=SCRIPT, archive="a" * 64)), "nobody knows what is in it"
    assert (7, ALONG) not in told_of(parse(caller, script=SCRIPT, files=["./"]))
    outside = told_of(parse(caller, script=SCRIPT.replace("train.py", "../train.py")))
    assert (7, "../train.py does not come along: only what lies below the folder of the submission can.") in outside
    answer = submit(caller, script=SCRIPT, worth=WORTH)
    lines = caller.get(f"tenants/lumen/jobs/{answer.json()['id']}/description/").json()["lines"]
    assert (7, ALONG) in [(line["line"], line["sentence"]) for line in lines]


def test_archive_that_was_sent_is_part_of_the_version_that_a_script_becomes(world) -> None:
    _, tenant, caller = world
    archive, other = archive_with("train.py"), archive_with("train.py", content=b"print(2)\n")
    digest = hashlib.sha256(archive).hexdigest()
    parsing = parse(caller, script=SCRIPT, archive=digest, files=["train.py"]).json()
    assert parsing["program"]["archive"] == digest
    assert parsing["spec"]["program"]["version"] == 1
    assert not ProgramVersion.objects.exists(), "asking registers nothing"
    refused = submit(caller, script=SCRIPT, worth=WORTH, archive=digest)
    assert "is none of yours: send it along" in problem(refused, 422, "invalid_program")["detail"]
    assert not ProgramVersion.objects.exists()
    answer = post_program(caller, parsing["program"], archive)
    assert answer.status_code == 201, answer.content
    for _ in range(2):  # the same script with the same files is the same version
        job = submit(caller, script=SCRIPT, worth=WORTH, archive=digest)
        assert job.status_code == 201, job.content
        assert job.json()["spec"]["program"] == {"name": "train-sbatch", "version": 1, "parameters": {}}
    assert ProgramVersion.objects.get().archive_id == digest
    document = caller.get(f"tenants/lumen/jobs/{job.json()['id']}/description/").json()
    assert document["said"] == {"script": SCRIPT, "worth": WORTH, "zone": "UTC", "archive": digest}
    assert ALONG not in [line["sentence"] for line in document["lines"]]
    without = submit(caller, script=SCRIPT, worth=WORTH)
    assert without.json()["spec"]["program"]["version"] == 2, "without files it is another program"
    changed = parse(caller, script=SCRIPT, archive=hashlib.sha256(other).hexdigest()).json()
    assert changed["spec"]["program"]["version"] == 3
    text = SCRIPT.replace("--gpus=4", "--gpus=4 --array=0-1")
    body = {"pool": "main", "script": text, "worth": WORTH, "archive": digest}
    array = caller.post("tenants/lumen/jobs/arrays/", body)
    assert array.status_code == 201, array.content
    assert {row.spec["program"]["version"] for row in stored(tenant)[-2:]} == {3}
    assert ProgramVersion.objects.get(version=3).archive_id == digest


def test_archive_of_another_tenant_is_none_of_ours(world) -> None:
    _, _, caller = world
    castor = make_tenant("castor")
    allow(castor)
    row = register(catalogue_member(castor), archive=archive_with("train.py"))
    assert (7, ALONG) not in told_of(parse(caller, script=SCRIPT, archive=row.archive_id))
    refused = submit(caller, script=SCRIPT, worth=WORTH, archive=row.archive_id)
    assert "is none of yours" in problem(refused, 422, "invalid_program")["detail"]


def test_script_is_for_members_and_the_operator_and_not_for_auditors(world) -> None:
    """As the words of the program that it becomes are."""
    _, tenant, caller = world
    job = submit(caller, script=SCRIPT, worth=WORTH).json()["id"]
    address = f"tenants/lumen/jobs/{job}/description/"
    whole = caller.get(address).json()
    assert whole["said"]["script"] == SCRIPT
    assert whole["lines"]
    assert program_of(OPERATOR, tenant).get(address).json() == whole
    assert program_of(VIEWER, tenant).get(address).json() == whole
    auditor = program_of(AUDITOR, tenant)
    rest = {name: value for name, value in whole["said"].items() if name != "script"}
    assert auditor.get(address).json() == {"how": "script", "said": rest, "lines": []}
    for role, is_shown in ((AUDITOR, False), (OPERATOR, True)):
        browser = client_of(make_staff(role).user)
        page = browser.get(f"/t/lumen/jobs/{job}/", secure=True).content.decode()
        assert ("python3 train.py" in page) == is_shown
        assert ("Its batch script is shown to members of the tenant and to the operator alone." in page) != is_shown
        change = browser.get(f"/admin/scheduling/jobdescription/{job}/change/", secure=True).content.decode()
        assert "python3 train.py" not in change


def test_archive_belongs_to_a_script_that_runs_something(world) -> None:
    _, _, caller = world
    digest = "a" * 64
    for fields in ({"hours": HOURS}, {"script": SCRIPT.replace("python3 train.py\n", "")}):
        refused = problem(parse(caller, archive=digest, **fields), 422, "invalid_job")
        assert refused["detail"].startswith("archive: belongs to a script")
    problem(submit(caller, spec={}, name="x", archive=digest), 422, "invalid_job")
    for nonsense in ("a", "A" * 64, 7):
        problem(parse(caller, script=SCRIPT, archive=nonsense), 400, "invalid_request")
