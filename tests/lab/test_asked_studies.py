"""Studies in the product: worked at in pieces, called off, killed, gone on with; read by staff and owners."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.utils import timezone

from scheduling.app.tasks import studies_tick
from scheduling.lab import rounds
from scheduling.lab.files import PACKED
from scheduling.lab.pages.form import StudyForm
from scheduling.lab.requests import (
    MOST_BYTES,
    file_bytes,
    study_cancel,
    study_create,
    study_remove,
    study_resume,
    study_show,
    study_start,
)
from scheduling.lab.rounds import studies_round
from scheduling.lab.studies.study import study_of
from scheduling.lab.studies.study_text import study_document
from scheduling.models import LabFile, LabStudy, StudyState
from tenants.access import Access, Refused
from tenants.models import AuditEntry
from tenants.requests.uploads import sender_of
from tenants.roles import AUDITOR, BILLING, OPERATOR, OWNER, VIEWER
from tests.api.builders import problem, program_of
from tests.audit.auditors import Clock
from tests.lab.logs import STUDY, made_jobs, simulated_log, write_study
from tests.lab.test_guide import block
from tests.management.files import output_of
from tests.scheduling.builders import NOON, make_cells, make_pool, make_server, make_tenant
from tests.scheduling.markets import make_waiting
from tests.scheduling.pages import client_as, pieces_sent, text_of
from tests.tenants.builders import done

pytestmark = pytest.mark.django_db

AUDIT = Access(user=None, tenant=None, roles=frozenset({AUDITOR}))
TEXT = STUDY + "rules: [alone, backfill, market]\nworth: [by_hour]\n"
RESULTS = ("report.html", "figures.csv")


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study's folder, and what the command makes of it."""
    folder = tmp_path_factory.mktemp("log")
    path = write_study(folder, simulated_log(folder, made_jobs(days=3, each=9)), TEXT)
    output_of("lab", path, "--output", folder / "out", "--processes", 1)
    return folder


def study_of_log(log: Path, *, at_once: bool = True, content: bytes | None = None, **fields: object) -> LabStudy:
    content = (log / "log.txt").read_bytes() if content is None else content
    document = study_document(log / "STUDY.yaml") | fields
    study = study_create(document=document, files={"log.txt": content}, starts_at_once=at_once, by=AUDIT, at=NOON)
    assert isinstance(study, LabStudy), study
    return study


def nobody() -> None:
    """Nothing else was asked about the past."""


def worked(study: LabStudy, clock: Callable[[], datetime] = timezone.now) -> LabStudy:
    studies_round(clock=clock, others=nobody)
    study.refresh_from_db()
    return study


def results(study: LabStudy) -> list[bytes | None]:
    return [file_bytes(study.pk, name) for name in RESULTS]


def of_command(log: Path) -> list[bytes | None]:
    return [(log / "out" / name).read_bytes() for name in RESULTS]


# ---- worked at in pieces ----


def test_study_is_read_priced_started_and_gives_the_bytes_of_the_command(log: Path) -> None:
    study = worked(study_of_log(log, at_once=False))
    assert (study.state, study.total, study.done, study.history["jobs"]) == (StudyState.READY, 3, 0, 27)
    assert study.minutes is not None
    assert set(study.owners) == {"vision", "speech", "climate"}
    worked(study)
    assert study.state == StudyState.READY  # nothing begins by itself
    assert isinstance(study_start(study_id=study.pk, by=AUDIT, at=NOON), LabStudy)
    studies_tick()
    study.refresh_from_db()
    assert (study.state, study.done) == (StudyState.DONE, 3)
    assert study.digest[:12] in (file_bytes(study.pk, "report.html") or b"").decode()
    assert results(study) == of_command(log)
    assert study.sentence.startswith("market beside alone: ")
    assert study.answer["low"] <= study.answer["saved"] <= study.answer["high"]


def test_killed_in_the_second_replay_it_goes_on_behind_the_first(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study, calls = study_of_log(log), []
    whole = rounds.replay_bytes

    def until_killed(*args: object) -> bytes:
        if len(calls) == 3:  # two to learn what it will take, one that is kept
            raise KeyboardInterrupt
        calls.append(args)
        return whole(*args)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(rounds, "replay_bytes", until_killed)
        with pytest.raises(KeyboardInterrupt):
            studies_round(clock=timezone.now, others=nobody)
    study.refresh_from_db()
    assert (study.state, study.done) == (StudyState.RUNNING, 1)
    [file] = LabFile.objects.filter(study=study, name__endswith=".npz").values_list("pk", flat=True)
    worked(study)
    assert study.state == StudyState.DONE
    assert LabFile.objects.filter(pk=file).exists()  # what was finished is not made again
    assert results(study) == of_command(log)


def test_called_off_within_a_replay_it_keeps_nothing_more_and_can_go_on(log: Path) -> None:
    study = study_of_log(log)

    def others() -> None:
        if LabStudy.objects.get(pk=study.pk).state == StudyState.RUNNING:
            study_cancel(study_id=study.pk, by=AUDIT, at=NOON)

    studies_round(clock=Clock(1.0), others=others)
    study.refresh_from_db()
    assert (study.state, study.done) == (StudyState.CANCELLED, 0)
    assert not LabFile.objects.filter(study=study, name__endswith=".npz").exists()
    assert isinstance(study_resume(study_id=study.pk, by=AUDIT, at=NOON), LabStudy)
    assert worked(study).state == StudyState.DONE
    assert results(study) == of_command(log)


def test_what_was_started_once_goes_on_without_being_started_again(log: Path) -> None:
    study = worked(study_of_log(log, at_once=False))
    assert study.state == StudyState.READY
    done(study_cancel(study_id=study.pk, by=AUDIT, at=NOON))
    done(study_resume(study_id=study.pk, by=AUDIT, at=NOON))
    assert worked(study).state == StudyState.READY  # nobody has seen yet what it takes
    done(study_start(study_id=study.pk, by=AUDIT, at=NOON))
    done(study_cancel(study_id=study.pk, by=AUDIT, at=NOON))
    done(study_resume(study_id=study.pk, by=AUDIT, at=NOON))
    assert worked(study).state == StudyState.DONE


def test_others_have_their_turn_every_other_second_of_a_replay(log: Path) -> None:
    study, turns = study_of_log(log), []
    studies_round(clock=Clock(0.5), others=lambda: turns.append(LabStudy.objects.get(pk=study.pk).state))
    assert set(turns) == {StudyState.READING, StudyState.RUNNING}


def test_it_breaks_off_three_times_and_says_so(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(*args: object) -> bytes:
        raise KeyboardInterrupt

    study = study_of_log(log)
    with monkeypatch.context() as patch:
        patch.setattr(rounds, "replay_bytes", killed)
        for _ in range(3):
            with pytest.raises(KeyboardInterrupt):
                studies_round(clock=timezone.now, others=nobody)
    assert worked(study).state == StudyState.FAILED
    assert "three times" in study.sentence


def test_line_that_cannot_be_read_is_named_and_a_strict_reading_ends_there(log: Path) -> None:
    lines = (log / "log.txt").read_text().splitlines()
    many = "\n".join([*lines, *(f"{9000 + k}|{lines[1].split('|', 1)[1]}" for k in range(80)), "what is this"]).encode()
    study = worked(study_of_log(log, at_once=False, content=many))
    assert (study.state, study.history["bad_lines"]) == (StudyState.READY, 1)
    assert study.history["bad"][0][0] == len(lines) + 81
    history = study_document(log / "STUDY.yaml")["history"] | {"strict": True}
    strict = worked(study_of_log(log, content=many, history=history))
    assert (strict.state, f"line {len(lines) + 81}" in strict.sentence) == (StudyState.FAILED, True)


def test_a_rule_that_cannot_be_is_named_before_the_first_replay(log: Path) -> None:
    rules = ["alone", "market", {"name": "theta 4", "rule": "market", "policy": {"thetta": 4}}]
    study = worked(study_of_log(log, at_once=False, rules=rules))
    assert (study.state, study.sentence[:30]) == (StudyState.FAILED, "rules: theta 4: policy.thetta:")
    assert not LabFile.objects.filter(study=study, name__endswith=".npz").exists()


def test_a_pools_own_past_is_a_history() -> None:
    pool = make_pool(epoch_at=datetime(2026, 10, 1, tzinfo=UTC), slot_seconds=3600)
    lumen, castor = make_tenant("lumen"), make_tenant("castor")
    server = make_server(pool, worker=8, ps=2)
    for tenant in (lumen, castor):
        make_cells(server, tenant, {"worker": 4, "ps": 1})
    for arrival in (0.5, 1.2, 2.1, 26.0, 26.5, 50.0):
        make_waiting(pool, lumen if arrival < 26 else castor, arrival)
    document = {"rules": ["alone", "backfill"], "worth": ["by_hour"]}
    period = {"first_at": datetime(2026, 9, 1, tzinfo=UTC), "last_at": datetime(2026, 10, 20, tzinfo=UTC)}
    outcome = study_create(document=document, files={}, pool=pool, starts_at_once=True, by=AUDIT, at=NOON, **period)
    assert isinstance(outcome, LabStudy), outcome
    study = worked(outcome)
    assert (study.state, study.sentence[:22]) == (StudyState.DONE, "backfill beside alone:")
    assert (study.history["first"], study.history["days"], study.owners) == ("2026-10-01", 3, ["lumen", "castor"])


def test_a_pools_past_that_begins_within_a_slot_has_its_jobs_on_their_own_days() -> None:
    """The first job is submitted 24 minutes before midnight, and the period begins half an hour within a slot."""
    pool = make_pool(epoch_at=datetime(2026, 10, 1, tzinfo=UTC), slot_seconds=3600)
    lumen = make_tenant("lumen")
    make_cells(make_server(pool, worker=8, ps=2), lumen, {"worker": 4, "ps": 1})
    for arrival in (23.6, 30.0):
        make_waiting(pool, lumen, arrival)
    period = {"first_at": datetime(2026, 10, 1, 0, 30, tzinfo=UTC), "last_at": datetime(2026, 10, 20, tzinfo=UTC)}
    document = {"rules": ["alone", "backfill"], "worth": ["by_hour"]}
    study = worked(done(study_create(document=document, files={}, pool=pool, by=AUDIT, at=NOON, **period)))
    assert study.state == StudyState.READY, study.sentence
    assert (study.history["first"], study.history["days"]) == ("2026-10-01", 2)


# ---- refusals ----


def test_an_empty_file_of_a_program_is_said_to_be_empty(log: Path) -> None:
    caller = program_of(OPERATOR, make_tenant("vision"))
    body = {"study": study_document(log / "STUDY.yaml"), "files": {"log.txt": ""}}
    document = problem(caller.post("lab/studies/", body), 400, "invalid_request")
    assert document["detail"] == "files.log.txt: The file is empty."


@pytest.mark.parametrize(
    ("change", "files", "words"),
    [
        ({"history": {"format": "sacct", "file": "/etc/passwd", "zone": "UTC"}}, {}, "none of the files sent"),
        ({"history": {"format": "sacct", "file": "../x", "zone": "UTC"}}, {"../x": b""}, "no name of a file"),
        ({"rules": ["gold"]}, {"log.txt": b""}, "rules[0]"),
        ({"history": {"format": "sacct", "file": "log.txt", "zone": "Berlin"}}, {"log.txt": b""}, "no zone"),
        ({"history": {"format": "jobs", "file": "log.txt", "begins": "soon"}}, {"log.txt": b""}, "history.begins"),
        ({"history": {"format": "jobs", "file": "log.txt", "machines": {"servers": 0}}}, {"log.txt": b""}, "servers"),
        ({"history": {"format": "jobs", "file": "log.txt", "first_dya": "x"}}, {"log.txt": b""}, "first_day"),
        ({"draws": float("nan")}, {"log.txt": b""}, "neither a number nor a text"),
        ({}, {"log.txt": b"", "other.txt": b""}, "named nowhere"),
    ],
)
def test_study_that_cannot_be_is_refused(
    log: Path, change: dict[str, object], files: dict[str, bytes], words: str
) -> None:
    document = study_document(log / "STUDY.yaml") | change
    study = study_create(document=document, files=files, by=AUDIT, at=NOON)
    assert isinstance(study, Refused)
    assert (study.code, words in study.sentence) == ("invalid_study", True), study
    assert not LabStudy.objects.exists()


@pytest.mark.parametrize(
    ("of_a_pool", "begin", "end", "words"),
    [
        (True, None, None, "Say from when to when"),
        (True, NOON, None, "Say from when to when"),
        (True, NOON, NOON, "ends before it begins"),
        (True, NOON - timedelta(days=30), NOON - timedelta(days=1), "had not opened by then"),
        (False, NOON, NOON + timedelta(days=1), "first_day and days"),
    ],
)
def test_a_period_that_cannot_be_is_refused_for_what_is_wrong_with_it(
    log: Path, of_a_pool: bool, begin: datetime | None, end: datetime | None, words: str
) -> None:
    pool = make_pool(epoch_at=NOON) if of_a_pool else None
    document = {"rules": ["alone"]} if of_a_pool else study_document(log / "STUDY.yaml")
    files = {} if of_a_pool else {"log.txt": b""}
    study = study_create(document=document, files=files, pool=pool, first_at=begin, last_at=end, by=AUDIT, at=NOON)
    assert isinstance(study, Refused)
    assert (study.code, words in study.sentence) == ("invalid_period", True), study


def test_three_of_a_person_wait_and_only_the_staff_asks(log: Path) -> None:
    for _ in range(3):
        study_of_log(log)
    document, files = study_document(log / "STUDY.yaml"), {"log.txt": b""}
    many = study_create(document=document, files=files, by=AUDIT, at=NOON)
    assert isinstance(many, Refused)
    assert many.code == "studies_waiting"
    member = Access(user=None, tenant=None, roles=frozenset({OWNER}))
    study = LabStudy.objects.all()[0]
    outcomes = [
        study_create(document=document, files=files, by=member, at=NOON),
        study_start(study_id=study.pk, by=member, at=NOON),
        study_cancel(study_id=study.pk, by=member, at=NOON),
        study_resume(study_id=study.pk, by=member, at=NOON),
        study_show(study_id=study.pk, is_shown=True, by=member, at=NOON),
        study_remove(study_id=study.pk, by=member, at=NOON),
    ]
    assert {outcome.code for outcome in outcomes if isinstance(outcome, Refused)} == {"not_allowed"}
    assert all(isinstance(outcome, Refused) for outcome in outcomes)


def test_history_says_who_showed_hid_and_removed_a_study() -> None:
    study = LabStudy.objects.create(title="A past", document={}, state=StudyState.DONE, asked_at=NOON, ended_at=NOON)
    for is_shown in (True, True, False):
        done(study_show(study_id=study.pk, is_shown=is_shown, by=AUDIT, at=NOON))
    assert study_remove(study_id=study.pk, by=AUDIT, at=NOON) is None
    rows = AuditEntry.objects.filter(subject=f"study {study.pk}: A past").order_by("sequence")
    public, hidden = {"shown": True}, {"shown": False}
    assert list(rows.values_list("action", "before", "after")) == [
        ("study_show", hidden, public),
        ("study_show", public, hidden),
        ("study_remove", hidden, None),
    ]


@pytest.mark.parametrize(
    ("begins", "way"), [(b"JobID", "Pack the log with gzip, or use `manage.py lab`."), (PACKED, "Use `manage.py lab`.")]
)
def test_log_that_is_packed_already_is_not_advised_to_be_packed(begins: bytes, way: str) -> None:
    files = {"log.txt": begins + bytes(MOST_BYTES), "nodes.txt": b"node-1"}
    refused = study_create(document={}, files=files, by=AUDIT, at=NOON)
    assert refused == Refused("study_too_large", f"The files have more than 32 MiB. {way}")


# ---- pages ----


@pytest.mark.parametrize(("total", "words"), [(1, "of 1 replay"), (2, "of 2 replays")])
def test_the_page_of_a_study_counts_one_replay_as_one(total: int, words: str) -> None:
    client, rest = client_as(AUDITOR, None), " is kept" if total == 1 else " are kept"
    for state, ended_at, after in ((StudyState.RUNNING, None, ", "), (StudyState.CANCELLED, NOON, rest)):
        fields = {"state": state, "ended_at": ended_at, "total": total}
        study = LabStudy.objects.create(title="A past", document={}, asked_at=NOON, **fields)
        assert f"0 {words}{after}" in text_of(client.get(f"/lab/{study.pk}/").content.decode())


def test_auditor_uploads_a_log_sees_the_cost_starts_it_and_reads_the_report(log: Path) -> None:
    client = client_as(AUDITOR, None)
    lines = (log / "log.txt").read_text().splitlines()
    began = lines[1].split("|")[6]
    never = lines[1].replace("|COMPLETED|", "|CANCELLED|").replace(f"|{began}|", "|Unknown|")
    upload = SimpleUploadedFile("log.txt", "\n".join([*lines, f"9{never}"]).encode())
    fields = {"title": "By hand", "pool": "", "log": upload, "format": "sacct", "zone": "UTC", "unit": "gpu"}
    fields |= {"owner": "account", "rules": ["alone", "market"], "worth": ["by_hour"]}
    fields |= {"what_1": "keep", "who_1": "vision", "what_2": "theta", "who_2": ""}
    assert client.post("/lab/new/", {**fields, "log": ""}).status_code == 422
    upload.seek(0)
    without = client.post("/lab/new/", {**fields, "worth": []})
    assert without.status_code == 422
    assert without.context["form"].errors == {"worth": ["Choose one at least."]}
    upload.seek(0)
    answer = client.post("/lab/new/", fields)
    assert answer.status_code == 302, answer.context["form"].errors
    there = answer["Location"]
    assert 'hx-trigger="every 1s"' in client.get(there).content.decode()
    studies_tick()
    page = client.get(there).content.decode()
    assert "less than a minute" in page
    assert "Start it" in page
    words = text_of(page)
    assert f"Read: {len(lines) - 1} jobs of 3 owners, 2026-" in words
    assert "Left out: cancelled or failed before they ran (1)." in words
    assert client.post(f"{there}start/").status_code == 302
    studies_tick()
    page = client.get(there).content.decode()
    assert "vision lent nothing" in page
    places = [page.index(words) for words in ("of waiting saved", "Who waits less", "Day by day", "Winners and")]
    assert places == sorted(places)
    assert "What counts is less waiting and more work done in time" in text_of(page)
    assert b"data-figure" in b"".join(client.get(f"{there}report/").streaming_content)  # type: ignore[attr-defined]
    assert "By hand" in client.get("/lab/").content.decode()
    assert client.get(f"{there}?part=state").status_code == 200
    assert f'<a class="button bad" href="{there}remove/">Remove it</a>' in page
    question = text_of(client.get(f"{there}remove/").content.decode())
    assert "Its files, its report and its figures go with it. None of it comes back." in question
    assert client.get(there).status_code == 200, "only asked"
    assert client.post(f"{there}remove/").status_code == 302
    assert client.get(there).status_code == 404
    assert client.get(f"{there}remove/").status_code == 404
    assert client_as(OPERATOR, None).get("/lab/new/").status_code == 200


def filled_in(**answers: object) -> dict[str, Any]:
    """The study that the form makes of a log, with its first choices where nothing is said."""
    fields = {"title": "By hand", "pool": "", "format": "sacct", "zone": "UTC", "unit": "gpu", "owner": "account"}
    fields |= {"rules": ["alone", "market"], "worth": ["by_hour"], **answers}
    form = StudyForm(fields, {"log": SimpleUploadedFile("log.txt", b"a log")}, pools=[])
    assert form.is_valid(), form.errors
    return form.study


def test_a_market_alone_is_what_the_questions_are_set_beside() -> None:
    study = filled_in(rules=["market"], what_1="keep", who_1="vision", what_2="theta", who_2="")
    words = study_of(study, "a study", lambda name: name)
    assert (words.against, words.answer) == ("market", "theta is 4")
    assert study_of(filled_in(), "a study", lambda name: name).answer == "market"
    assert study_of(filled_in(what_1="theta", who_1=""), "a study", lambda name: name).answer == "market"


def test_the_study_of_the_guide_may_be_written_into_the_form() -> None:
    text = block("yaml")
    assert "first_day: 2026-10-01" in text
    study = filled_in(title="By hand", written=text)
    assert study_of(study, "a study", lambda name: name).history["first_day"] == "2026-10-01"


def test_a_log_of_processors_is_no_log_of_gpus() -> None:
    assert "unit" not in filled_in(format="swf", owner="group")["history"]
    assert filled_in()["history"]["unit"] == "gpu"


@pytest.mark.django_db(transaction=True)
def test_report_and_figures_are_sent_piece_by_piece() -> None:
    study = LabStudy.objects.create(title="A study", document={}, state=StudyState.DONE, asked_at=NOON, ended_at=NOON)
    client, parts = client_as(AUDITOR, None), [b"one", b"two", b"six"]
    for file, name in (("report", "report.html"), ("figures", "figures.csv")):
        rows = [LabFile(study=study, name=name, place=place, content=part) for place, part in enumerate(parts)]
        LabFile.objects.bulk_create(rows)
        for address in (f"/lab/{study.pk}/{file}/", f"/api/v1/lab/studies/{study.pk}/{file}/"):
            answer = client.get(address)
            assert answer["Content-Disposition"] == f'attachment; filename="study-{study.pk}-{name}"'
            assert answer["Cache-Control"] == "no-store"
            assert pieces_sent(client, address) == parts


def test_the_form_takes_files_as_large_as_it_says() -> None:
    """Longer bodies than a mebibyte are read for who has a ticket alone; the address of the form has one."""
    page = client_as(AUDITOR, None).get("/lab/new/").content.decode()
    [action] = re.findall(r'action="(/lab/new/[^"]*)"', page)
    query = action.encode().partition(b"?")[2]
    sender = sender_of({"method": "POST", "headers": [(b"content-length", b"1")], "query_string": query})
    assert sender is not None
    assert sender.most_bytes > MOST_BYTES


def test_owner_reads_its_own_row_and_no_other_name(log: Path) -> None:
    study = study_of_log(
        log, rules=["alone", "market", {"name": "climate twice", "rule": "market", "double": ["climate"]}]
    )
    worked(study)
    vision, bystander = make_tenant("vision"), make_tenant("bystander")
    there = f"/t/vision/lab/{study.pk}/"
    owner = client_as(BILLING, vision)
    assert owner.get(there).status_code == 404  # until it is shown
    assert isinstance(study_show(study_id=study.pk, is_shown=True, by=AUDIT, at=NOON), LabStudy)
    page = owner.get(there).content.decode()
    assert "vision" in page
    assert 'class="me"' in page
    assert "Another owner" in page
    assert "speech" not in page
    assert "climate" not in page
    assert study.title in owner.get("/t/vision/lab/").content.decode()
    assert client_as(OWNER, bystander).get(f"/t/bystander/lab/{study.pk}/").status_code == 404
    assert client_as(VIEWER, vision).get(there).status_code == 403


def test_page_of_a_finished_study_takes_few_queries(log: Path, django_assert_max_num_queries: Any) -> None:
    """What it takes in time is in `tests/bench/bench_lab_page.py`."""
    study = worked(study_of_log(log))
    client = client_as(AUDITOR, None)
    client.get(f"/lab/{study.pk}/")
    with django_assert_max_num_queries(8):
        client.get(f"/lab/{study.pk}/")
