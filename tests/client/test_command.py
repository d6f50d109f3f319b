"""The command line: what it shows people and programs, where it finds its settings, and what its exit status says."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from tests.client.conftest import Bourse
from tests.client.stub import Answer, bad, good, streaming, stub_server

REASON = {"code": "awarded", "numbers": {"workers": 4}, "sentence": "Starts on rented units."}
JOB: dict[str, Any] = {
    "id": 4711,
    "name": "nightly",
    "pool": "main",
    "lane": "batch",
    "state": "queued",
    "phase": "shared",
    "payer": "lumen",
    "price": None,
    "hold": "0.000000",
    "reason": REASON,
    "attempt": 0,
    "workers": 4,
    "parameter_servers": 1,
    "start_slot": None,
    "end_slot": None,
    "starts_at": None,
    "ends_at": None,
    "submitted_at": "2026-03-02T12:19:51.204000Z",
    "submitted_by": "ada@lumen.example",
    "ended_at": None,
    "spec": {},
}
ME = {
    "email": "ada@lumen.example",
    "name": "Ada",
    "tenants": [{"slug": "lumen", "name": "Lumen", "role": "owner"}],
    "staff_roles": [],
    "token": None,
}
QUIET = "2026-01-01T00:00:00Z"


def page(*results: Any) -> Answer:
    return good({"next": None, "previous": None, "results": results})


def refused(code: str, sentence: str, **numbers: Any) -> dict[str, Any]:
    return JOB | {"state": "rejected", "reason": {"code": code, "numbers": numbers, "sentence": sentence}}


@pytest.fixture
def job_file(tmp_path: Path) -> Path:
    file = tmp_path / "nightly.yaml"
    file.write_text("epochs: 2\nchunks: 4\nvalue: {kind: linear, slope: -0.5, base: 40}\npool: main\n")
    return file


def test_submission_takes_the_file_and_words_of_the_command_line_go_before_it(bourse: Bourse, job_file: Path) -> None:
    with stub_server(good(JOB, status=201)) as stub:
        words = ("jobs", "submit", job_file, "--lane", "instant", "--max-price", "12.5", "--key", "k1")
        ended = bourse(*words, url=stub.address, token="t", tenant="lumen")
    assert ended.status == 0, ended.err
    sent = json.loads(stub.asked[0].body)
    value = {"kind": "linear", "slope": -0.5, "base": 40}
    spec = {"epochs": 2, "chunks": 4, "value": value, "max_price": 12.5}
    assert sent == {"pool": "main", "name": "nightly", "lane": "instant", "spec": spec}
    assert stub.asked[0].key == "k1"
    assert "4711" in ended.out


def test_file_may_hold_the_body_as_programs_send_it_or_come_by_standard_input(bourse: Bourse) -> None:
    body = {"pool": "main", "name": "n", "lane": "instant", "spec": {"epochs": 1}}
    with stub_server(good(JOB, status=201)) as stub:
        ended = bourse("jobs", "submit", "-", stdin=json.dumps(body), url=stub.address, token="t", tenant="lumen")
    assert ended.status == 0, ended.err
    assert json.loads(stub.asked[0].body) == body


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("epochs: [1", "line 1"),
        ("- 1\n- 2\n", "write the fields of one job"),
        ("epochs: 2\nlane: fast\n", "must be batch or instant"),
        ("name: 7\n", "name: must be a text"),
        ("spec: {}\nepochs: 1\n", "beside `spec`"),
        ("since: 2026-01-01\n", "neither number, text"),
        ("1: 2\n", "names of fields are texts"),
        ("value: {base: .nan}\n", "neither number, text"),
    ],
)
def test_file_that_is_no_job_is_said_before_anything_is_sent(
    bourse: Bourse, job_file: Path, content: str, sentence: str
) -> None:
    job_file.write_text(content)
    ended = bourse("jobs", "submit", job_file, "--pool", "main", url="http://127.0.0.1:1", token="t", tenant="lumen")
    assert (ended.status, ended.out) == (2, "")
    assert str(job_file) in ended.err
    assert sentence in ended.err


def test_file_that_is_not_there_is_a_mistake_of_the_writer(bourse: Bourse) -> None:
    ended = bourse("quote", "nowhere.yaml", url="http://127.0.0.1:1", token="t")
    assert (ended.status, ended.err) == (2, "bourse: nowhere.yaml: No such file or directory.\n")


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (bad(422, "invalid_job"), 1),
        (bad(409, "over_budget"), 1),
        (bad(404, "unknown_pool"), 1),
        (bad(401, "token_expired"), 4),
        (bad(403, "not_allowed"), 4),
        (bad(500, "internal_error"), 3),
        (bad(429, "too_many_calls", Retry_After="900"), 3),
        (good(refused("no_room", "There is no room."), status=201), 1),
    ],
)
def test_exit_status_says_how_it_went(bourse: Bourse, job_file: Path, answer: Answer, status: int) -> None:
    with stub_server(answer) as stub:
        ended = bourse("jobs", "submit", job_file, url=stub.address, token="t", tenant="lumen")
    assert ended.status == status
    assert ended.err.startswith("bourse: ")


def test_no_answer_names_the_key_that_makes_a_repetition_safe(bourse: Bourse, job_file: Path, free_port: Any) -> None:
    address = f"http://127.0.0.1:{free_port()}"
    words = ("jobs", "submit", job_file, "--key", "k1", "--patience", "0.1")
    ended = bourse(*words, url=address, token="t", tenant="lumen")
    assert ended.status == 3
    assert "nothing listens there" in ended.err
    assert "--key k1" in ended.err


def test_refusal_says_which_field_and_which_figures(bourse: Bourse, job_file: Path) -> None:
    errors = [{"field": "chunks", "code": "invalid", "detail": "Must be a positive integer."}]
    figures = {"asked": 1234567, "left": "1500.250000", "of": {"slot": 3}}
    answer = bad(422, "invalid_job", "The job cannot be.", numbers=figures, errors=errors)
    with stub_server(answer) as stub:
        ended = bourse("jobs", "submit", job_file, url=stub.address, token="t", tenant="lumen")
        program = bourse("jobs", "submit", job_file, "--json", url=stub.address, token="t", tenant="lumen")
    assert ended.err.splitlines() == [
        "bourse: The job cannot be.",
        "  chunks: Must be a positive integer.",
        "  code invalid_job: asked 1,234,567, left 1,500.25, of (slot 3)",
    ]
    assert json.loads(program.err.splitlines()[1])["errors"] == errors


@pytest.mark.parametrize(("end", "status"), [("finished", 0), ("failed", 5), ("cancelled", 5), ("expired", 5)])
def test_waiting_ends_with_the_job_and_its_end_is_the_exit_status(
    bourse: Bourse, job_file: Path, end: str, status: int
) -> None:
    course = [good(JOB, status=201), good(JOB), good(JOB | {"state": "running"}), good(JOB | {"state": end})]
    with stub_server(*course) as stub:
        words = ("jobs", "submit", job_file, "--wait", "--every", "0.01")
        ended = bourse(*words, url=stub.address, token="t", tenant="lumen")
    assert ended.status == status
    assert len(stub.asked) == 4
    assert "Job 4711 is queued.\nJob 4711 is running.\n" in ended.err


def test_waiting_with_a_time_limit_ends_with_it(bourse: Bourse, job_file: Path) -> None:
    with stub_server(good(JOB, status=201), good(JOB)) as stub:
        words = ("jobs", "submit", job_file, "--wait", "--every", "0.05", "--timeout", "0.01", "--json")
        ended = bourse(*words, url=stub.address, token="t", tenant="lumen")
    assert ended.status == 6
    assert json.loads(ended.out)["state"] == "queued"


def test_progress_is_one_line_on_a_terminal_and_gives_way_to_the_answer(bourse: Bourse, job_file: Path) -> None:
    with stub_server(good(JOB, status=201), good(JOB), good(JOB | {"state": "finished"})) as stub:
        words = ("jobs", "submit", job_file, "--wait", "--every", "0.01")
        ended = bourse(*words, terminal=True, url=stub.address, token="t", tenant="lumen")
    assert ended.status == 0
    assert ended.err.startswith("\r\x1b[2KJob 4711 is queued. 0 s")
    assert ended.err.endswith("\r\x1b[2K")
    assert "\n" not in ended.err


def test_table_is_aligned_with_figures_to_the_right(bourse: Bourse) -> None:
    second = JOB | {"id": 9, "name": "x", "price": "1234567.500000", "workers": 1200, "state": "finished"}
    with stub_server(page(JOB, second)) as stub:
        ended = bourse("jobs", "list", url=stub.address, token="t", tenant="lumen")
    head, first, last = ended.out.splitlines()
    assert head.startswith("  id  name     lane   state            price  workers  starts (")
    assert first.startswith("4711  nightly  batch  queued               -        4  -")
    assert last.startswith("   9  x        batch  finished  1,234,567.50    1,200  -")


def test_colour_is_for_terminals_that_want_it(bourse: Bourse, monkeypatch: pytest.MonkeyPatch) -> None:
    with stub_server(page(JOB)) as stub:
        words = {"url": stub.address, "token": "t", "tenant": "lumen"}
        assert "\x1b[33mqueued" in bourse("jobs", "list", terminal=True, **words).out
        assert "\x1b" not in bourse("jobs", "list", **words).out
        assert "\x1b" not in bourse("jobs", "list", "--json", terminal=True, **words).out


def test_name_that_steers_a_terminal_is_made_harmless(bourse: Bourse) -> None:
    with stub_server(page(JOB | {"name": "a\x1b[2Jb\nc"})) as stub:
        ended = bourse("jobs", "list", url=stub.address, token="t", tenant="lumen")
    assert "a?[2Jb?c" in ended.out


def test_signs_of_two_columns_keep_the_table_straight(bourse: Bourse) -> None:
    with stub_server(page(JOB | {"name": "訓練"}, JOB | {"name": "four"})) as stub:
        first, second = bourse("jobs", "list", url=stub.address, token="t", tenant="lumen").out.splitlines()[1:]
    assert first.index("batch") + 2 == second.index("batch")


def test_many_are_cancelled_in_one_call_and_the_refused_are_named(bourse: Bourse) -> None:
    outcomes = [
        {"id": 1, "cancelled": True, "code": "", "detail": ""},
        {"id": 2, "cancelled": False, "code": "already_over", "detail": "The job is finished."},
    ]
    with stub_server(good({"results": outcomes})) as stub:
        ended = bourse("jobs", "cancel", "1", "2", "1", url=stub.address, token="t", tenant="lumen")
    assert json.loads(stub.asked[0].body) == {"jobs": [1, 2]}
    assert (ended.status, ended.out) == (1, "Job 1 is cancelled.\n")
    assert ended.err == "bourse: job 2: The job is finished. (already_over)\n"


def test_login_tries_the_token_and_keeps_it_for_its_owner_alone(bourse: Bourse, tmp_path: Path) -> None:
    with stub_server(good(ME)) as stub:
        ended = bourse("login", "--url", stub.address, "--token-stdin", stdin="bourse_secret\n")
        assert ended.status == 0, ended.err
        file = tmp_path / ".config" / "bourse" / "config.json"
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
        kept = json.loads(file.read_text())
        assert kept == {"url": stub.address, "token": "bourse_secret", "tenant": "lumen"}
        assert bourse("tenants").out.splitlines()[1].split() == ["lumen", "Lumen", "owner"]
        assert stub.asked[-1].headers["authorization"] == "Bearer bourse_secret"
        assert "bourse_secret" not in ended.out + ended.err
    assert bourse("logout").status == 0
    assert not file.exists()


def test_token_that_does_not_work_is_not_kept(bourse: Bourse, tmp_path: Path) -> None:
    with stub_server(bad(401, "token_unknown", "This token is unknown.")) as stub:
        ended = bourse("login", "--url", stub.address, stdin="wrong\n")
    assert (ended.status, ended.err) == (4, "bourse: This token is unknown.\n  code token_unknown\n")
    assert not (tmp_path / ".config").exists()


def test_kept_token_never_goes_to_another_server(bourse: Bourse) -> None:
    with stub_server(good(ME)) as home, stub_server(good(ME)) as other:
        bourse("login", "--url", home.address, stdin="bourse_secret\n")
        ended = bourse("tenants", url=other.address)
        assert ended.status == 2
        assert "set BOURSE_TOKEN" in ended.err
        assert other.asked == []
        assert bourse("tenants", "--url", other.address, token="another").status == 0
    assert other.asked[0].headers["authorization"] == "Bearer another"


def test_file_with_a_token_that_others_can_read_is_warned_about(bourse: Bourse, tmp_path: Path) -> None:
    file = tmp_path / "settings.json"
    with stub_server(good(ME)) as stub:
        file.write_text(json.dumps({"url": stub.address, "token": "t"}))
        os.chmod(file, 0o644)
        assert "chmod 600" in bourse("tenants", config=str(file)).err
        os.chmod(file, 0o600)
        assert "chmod" not in bourse("tenants", config=str(file)).err


@pytest.mark.parametrize("content", ["", "[]", '{"url": 7}', "not json"])
def test_broken_settings_are_said_so(bourse: Bourse, tmp_path: Path, content: str) -> None:
    file = tmp_path / "settings.json"
    file.write_text(content)
    os.chmod(file, 0o600)
    ended = bourse("tenants", config=str(file))
    assert ended.status == 2
    assert "`bourse login` writes it anew" in ended.err


def test_without_settings_the_first_step_is_named(bourse: Bourse) -> None:
    ended = bourse("balance")
    assert (ended.status, ended.err) == (2, "bourse: Run `bourse login` first, or set BOURSE_URL and BOURSE_TOKEN.\n")


def test_words_of_every_command_may_stand_before_it_or_after(bourse: Bourse) -> None:
    with stub_server(good(ME)) as stub:
        before = bourse("--json", "--url", stub.address, "tenants", token="t")
        after = bourse("tenants", "--json", "--url", stub.address, token="t")
    assert json.loads(before.out) == json.loads(after.out) == ME["tenants"]


def log(run: int, after: int, *texts: str, more: bool = False) -> Answer:
    lines = [{"at": QUIET, "who": "worker 0", "text": text} for text in texts]
    return good({"run": run, "lines": lines, "after": after, "more": more})


def test_logs_of_a_job_that_is_not_there_say_so(bourse: Bourse) -> None:
    with stub_server(bad(404, "not_found", "There is no such thing here.")) as stub:
        ended = bourse("logs", "4711", url=stub.address, token="t", tenant="lumen")
    assert stub.asked[0].path == "/api/v1/tenants/lumen/jobs/4711/logs/"
    assert (ended.status, ended.out) == (1, "")
    assert "no such thing" in ended.err


def test_logs_are_followed_until_the_job_is_over_without_losing_a_line(bourse: Bourse) -> None:
    running, over = good(JOB | {"state": "running"}), good(JOB | {"state": "finished"})
    answers = (running, log(1, 20, "a", "b", more=True), running, log(1, 20), over, log(1, 30, "c"))
    with stub_server(*answers) as stub:
        ended = bourse("logs", "-f", "4711", "--every", "0.01", url=stub.address, token="t", tenant="lumen")
    assert (ended.status, ended.out) == (0, "worker 0: a\nworker 0: b\nworker 0: c\n")
    assert [asked.path.partition("?")[2] for asked in stub.asked[1::2]] == ["", "after=20", "after=20"]


def test_log_of_a_job_that_was_started_anew_begins_again(bourse: Bourse) -> None:
    running, over = good(JOB | {"state": "running"}), good(JOB | {"state": "finished"})
    answers = (running, log(1, 20, "a"), over, log(2, 40, "late"), over, log(2, 40, "first", "late"))
    with stub_server(*answers) as stub:
        ended = bourse("logs", "-f", "4711", "--every", "0.01", url=stub.address, token="t", tenant="lumen")
    assert ended.out == "worker 0: a\nworker 0: first\nworker 0: late\n"
    assert [asked.path.partition("?")[2] for asked in stub.asked[1::2]] == ["", "after=20", ""]


def test_quote_that_says_no_is_a_no_with_the_cheapest_change(bourse: Bourse, job_file: Path) -> None:
    reason = {"code": "outbid", "numbers": {}, "sentence": "The price is 12.50, and the job is worth 9.00."}
    terms = {"admitted": False, "reason": reason, "phase": None, "start_slot": None, "end_slot": None, "workers": 0}
    terms |= {"starts_at": None, "ends_at": None, "price": "0.000000", "worth": "0.000000", "payees": []}
    change = {"what": "higher_value", "before": "9.000000", "after": "12.600000", "spec": {}, "price": "12.500000"}
    found = {"pool": "main", "lane": "batch", "payer": "lumen", "terms": terms, "estimate": None, "change": change}
    with stub_server(good(found)) as stub:
        ended = bourse("quote", job_file, url=stub.address, token="t", tenant="lumen")
    assert ended.status == 1
    assert "a higher value: 12.60 instead of 9.00, for 12.50" in ended.out
    assert ended.err == "bourse: The price is 12.50, and the job is worth 9.00. (outbid)\n"


def test_question_about_the_past_is_waited_for_and_shown(bourse: Bourse) -> None:
    got = {"state": "awarded", "reason": "", "phase": "shared", "start_slot": 10, "end_slot": 14, "workers": 4}
    got |= {"parameter_servers": 1, "price": "3.200000", "worth": "90.000000", "floor": "0.000000"}
    other = got | {"start_slot": 8, "end_slot": 12, "price": "6.400000", "worth": None}
    gain = {"tenant": None, "before": None, "after": None, "difference": "-1.200000", "promised": "0.000000"}
    result = {"in_words": "J-7 would have run earlier.", "whole": False, "tenants": [gain], "prices": []}
    result |= {"jobs": [{"job": 7, "tenant": "lumen", "asked": True, "before": got, "after": other}]}
    waits = {"id": 12, "state": "waiting", "detail": "", "result": None}
    said = ("what-if", "7", "rent", "never", "--interval", "3", "--pool", "main", "--every", "0.01")
    answers = (good(waits), good(waits | {"state": "running"}), good(waits | {"state": "done", "result": result}))
    with stub_server(*answers) as stub:
        ended = bourse(*said, url=stub.address, token="t", tenant="lumen")
    assert [asked.path for asked in stub.asked[1:]] == ["/api/v1/tenants/lumen/what-ifs/12/"] * 2
    body = {"pool": "main", "interval": 3, "job": 7, "field": "rent", "value": "never"}
    assert json.loads(stub.asked[0].body) == body
    assert (ended.status, ended.err) == (0, "")
    assert ended.out.startswith("J-7 would have run earlier.\n")
    assert "slots 8 to 12, 4 workers, for 6.40\n" in ended.out
    assert "another          -          -       -1.20\n" in ended.out
    failed = waits | {"state": "failed", "detail": "Somebody changed it."}
    with stub_server(good(failed)) as stub:
        ended = bourse(*said, url=stub.address, token="t", tenant="lumen")
    assert (ended.status, ended.err) == (1, "bourse: the question is failed. Somebody changed it.\n")


def test_events_that_are_followed_come_one_a_line_until_the_rights_end(bourse: Bourse) -> None:
    event = {"id": 12, "kind": "job_awarded", "at": QUIET, "pool": "main", "public": False, "subject": "job:4711"}
    piece = f"id: 12\nevent: job_awarded\ndata: {json.dumps(event | {'data': {'paid': '0.150000'}})}\n\n"
    answers = (streaming(piece, "retry: 1\n\n"), bad(403, "not_allowed", "Your role does not allow this."))
    with stub_server(*answers) as stub:
        ended = bourse("events", "-f", "--after", "11", url=stub.address, token="t", tenant="lumen")
    assert (ended.status, ended.err.splitlines()[0]) == (4, "bourse: Your role does not allow this.")
    assert ended.out.split()[0] == "12"
    assert ended.out.endswith("job_awarded         job:4711        paid 0.15\n")


def test_pool_is_asked_for_where_nobody_names_it(bourse: Bourse, job_file: Path) -> None:
    job_file.write_text("epochs: 1\n")
    named = {"token": "t", "tenant": "lumen"}
    with stub_server(page({"slug": "north"}), good(JOB, status=201)) as stub:
        assert bourse("jobs", "submit", job_file, url=stub.address, **named).status == 0
    assert json.loads(stub.asked[1].body)["pool"] == "north"
    with stub_server(page({"slug": "north"}, {"slug": "south"})) as stub:
        ended = bourse("jobs", "submit", job_file, url=stub.address, **named)
    assert (ended.status, ended.err) == (1, "bourse: Say which pool: north, south.\n")
