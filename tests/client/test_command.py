"""The command line: what it shows people and programs, where it finds its settings, and what its exit status says."""

from __future__ import annotations

import http.client
import io
import json
import os
import re
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import pytest

from bourse_client.command import exits
from bourse_client.command.main import main
from bourse_client.command.screen import Screen, plain, table_lines
from bourse_client.command.session import Session
from bourse_client.job_file import read_job
from tests.client.conftest import Bourse, Terminal
from tests.client.pace import Hours
from tests.client.stub import Answer, bad, dropped, good, streaming, stub_server, text
from tests.ports import free_port

REASON = {"code": "awarded", "numbers": {"workers": 4}, "sentence": "Starts on rented units.", "help": ""}
JOB: dict[str, Any] = {
    "id": 4711,
    "name": "nightly",
    "pool": "main",
    "lane": "batch",
    "state": "queued",
    "after": [],
    "array": None,
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
KEY_SAID = "It may have been heard. To send it again and have it once: --key"
CLIENT = Path(__file__).parents[2] / "client"


def page(*results: Any) -> Answer:
    return good({"next": None, "previous": None, "results": results})


def refused(code: str, sentence: str, **numbers: Any) -> dict[str, Any]:
    return JOB | {"state": "rejected", "reason": {"code": code, "numbers": numbers, "sentence": sentence}}


@pytest.fixture
def job_file(tmp_path: Path) -> Path:
    file = tmp_path / "nightly.yaml"
    file.write_text("epochs: 2\nchunks: 4\nvalue: {kind: linear, slope: -0.5, base: 40}\npool: main\n")
    return file


@pytest.mark.parametrize("number", ["1_000", "1:30", "010", "0x10", "+1", "1.", ".5"])
def test_file_has_numbers_by_the_letter_of_json(number: str) -> None:
    assert read_job(f"max_price: {number}").spec["max_price"] == number  # a text, which the interface will refuse
    assert read_job("max_price: 12.5\nepochs: -3").spec == {"max_price": 12.5, "epochs": -3}


@pytest.mark.parametrize(
    "text",
    [
        "max_price: 5\nepochs: 1\nmax_price: 50\n",
        "epochs: 1\nvalue: {base: 5, base: 50}\n",
        '{"max_price": 5, "epochs": 1, "max_price": 50}',
        '{"epochs": 1, "value": {"base": 5, "base": 50}}',
        '{"epochs": 1, max_price: 5, max_price: 50}',
    ],
)
def test_what_a_file_says_twice_is_refused(bourse: Bourse, text: str) -> None:
    account = {"url": "http://127.0.0.1:9", "token": "t", "tenant": "lumen"}
    for words in (("jobs", "submit", "-", "--pool", "main"), ("quote", "-", "--pool", "main")):
        ended = bourse(*words, stdin=text, **account)
        assert ended.status == 2
        assert re.fullmatch(r"bourse: -: (line \d, column \d+: )?'(max_price|base)' stands there twice\.\n", ended.err)


@pytest.mark.parametrize(
    "words",
    [
        ("jobs", "submit", "-", "--pool", "main"),
        ("jobs", "submit", "-", "--pool", "main", "--bulk"),
        ("programs", "register", "-"),
        ("lab", "create", "-"),
        ("api", "POST", "/quotes/", "--input", "-"),
    ],
)
def test_input_that_is_no_utf_8_is_refused_wherever_it_is_read(bourse: Bourse, words: tuple[str, ...]) -> None:
    text = b'{"name": "caf\xe9"}'.decode("utf-8", "surrogateescape")  # as Python reads it in the locales C and POSIX
    ended = bourse(*words, stdin=text, url="http://127.0.0.1:9", token="t", tenant="lumen")
    assert (ended.status, ended.err) == (2, "bourse: -: it is no text in UTF-8.\n")


@pytest.mark.parametrize(
    "words",
    [
        ("jobs", "list", "--name", "caf\udce9"),
        ("logs", "7", "--search", "caf\udce9"),
        ("jobs", "list", "--tenant", "caf\udce9"),
        ("api", "GET", "/pools/", "--field", "name=caf\udce9"),
    ],
)
def test_typed_bytes_that_are_no_utf_8_are_refused(bourse: Bourse, words: tuple[str, ...]) -> None:
    ended = bourse(*words, url="http://127.0.0.1:9", token="t", **({} if "--tenant" in words else {"tenant": "lumen"}))
    assert (ended.status, ended.err) == (2, "bourse: What was typed is no text in UTF-8.\n")


@pytest.mark.parametrize("value", ["NaN", "-Infinity", "1e999", '{"base": 1, "base": 2}'])
def test_what_if_sends_what_is_no_json_as_a_word(bourse: Bourse, value: str) -> None:
    with stub_server(bad(422, "invalid_what_if")) as stub:
        words = ("what-if", "7", "value", "--interval", "2", "--pool", "main", "--", value)
        ended = bourse(*words, url=stub.address, token="t", tenant="lumen")
    assert ended.status == 1, ended.err
    assert json.loads(stub.calls[0].body)["value"] == value


def test_submission_takes_the_file_and_words_of_the_command_line_go_before_it(bourse: Bourse, job_file: Path) -> None:
    with stub_server(good(JOB, status=201)) as stub:
        words = ("jobs", "submit", job_file, "--lane", "instant", "--max-price", "12.5", "--key", "k1")
        ended = bourse(*words, url=stub.address, token="t", tenant="lumen")
    assert ended.status == 0, ended.err
    body = json.loads(stub.calls[0].body)
    value = {"kind": "linear", "slope": -0.5, "base": 40}
    spec = {"epochs": 2, "chunks": 4, "value": value, "max_price": 12.5}
    assert body == {"pool": "main", "name": "nightly", "lane": "instant", "spec": spec}
    assert stub.calls[0].key == "k1"
    assert "4711" in ended.out


def test_file_may_hold_the_body_as_programs_send_it_or_come_by_standard_input(bourse: Bourse) -> None:
    body = {"pool": "main", "name": "n", "lane": "instant", "spec": {"epochs": 1}}
    with stub_server(good(JOB, status=201)) as stub:
        ended = bourse("jobs", "submit", "-", stdin=json.dumps(body), url=stub.address, token="t", tenant="lumen")
    assert ended.status == 0, ended.err
    assert json.loads(stub.calls[0].body) == body


@pytest.mark.parametrize(
    ("words", "lanes"),
    [
        ((), {"lane": "instant", "otherwise": "batch"}),
        (("--lane", "batch"), {"lane": "batch"}),
        (("--lane", "instant"), {"lane": "instant"}),
        (("--lane", "instant", "--otherwise", "batch"), {"lane": "instant", "otherwise": "batch"}),
    ],
)
def test_lanes_of_the_file_hold_together_and_a_lane_of_the_command_line_stands_in_their_place(
    bourse: Bourse, words: tuple[str, ...], lanes: dict[str, str]
) -> None:
    body = {"pool": "main", "name": "n", "lane": "instant", "otherwise": "batch", "spec": {"epochs": 1}}
    with stub_server(good(JOB, status=201)) as stub:
        options = {"url": stub.address, "token": "t", "tenant": "lumen"}
        ended = bourse("jobs", "submit", "-", *words, stdin=json.dumps(body), **options)
    assert ended.status == 0, ended.err
    message = json.loads(stub.calls[0].body)
    assert {name: message[name] for name in ("lane", "otherwise") if name in message} == lanes


def test_lost_reading_of_a_script_names_a_key_that_no_other_call_had(
    bourse: Bourse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Session, "pace", Hours().pace())
    with stub_server(dropped) as stub:
        account = {"url": stub.address, "token": "t", "tenant": "lumen"}
        ended = bourse("jobs", "submit", "-", "--pool", "main", *WORDS, stdin=SCRIPT, **account)
    assert ended.status == 3
    assert stub.calls[0].path.endswith("/jobs/parse/")
    assert KEY_SAID in ended.err
    assert str(stub.calls[0].key) not in ended.err


@pytest.mark.parametrize(("words", "is_change"), [(("jobs", "cancel", "7"), True), (("jobs", "show", "7"), False)])
def test_interruption_of_a_change_names_its_key(
    bourse: Bourse, words: tuple[str, ...], is_change: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wait(connection: http.client.HTTPConnection) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(http.client.HTTPConnection, "getresponse", wait)
    notes: list[str] = []
    monkeypatch.setattr(Screen, "note", lambda screen, text: notes.append(text))
    with stub_server(good(JOB)) as stub, pytest.raises(KeyboardInterrupt):
        bourse(*words, url=stub.address, token="t", tenant="lumen")
    assert [text.rpartition(" ")[0] for text in notes] == [KEY_SAID] * is_change


OUTAGE = [dropped] * 60
IDLE_CONNECTIONS = 1  # a kept connection that is closed costs no attempt
EMPTY = good({"results": [], "next": None})
RUNNING, ANSWERED = {"id": 1, "state": "running"}, {"id": 1, "state": "failed", "detail": "", "result": None}


@pytest.mark.parametrize(
    ("line", "answers"),
    [
        ("logs 7 -f", [good(JOB), *OUTAGE, good({"run": 1, "after": 0, "lines": [], "more": False}), bad(403, "no")]),
        ("jobs submit - --pool main --wait", [good(JOB, status=201), good(JOB), *OUTAGE, bad(403, "no")]),
        ("prices --pool main --watch", [EMPTY, *OUTAGE, bad(403, "no")]),
        ("what-if 7 epochs 5 --interval 3 --pool main", [good(RUNNING, status=202), *OUTAGE, good(ANSWERED)]),
        ("lab start 7", [good({"id": 7, "state": "running"}), *OUTAGE, bad(403, "no")]),
    ],
)
def test_command_that_follows_waits_out_an_outage(
    bourse: Bourse, line: str, answers: list[Answer], monkeypatch: pytest.MonkeyPatch
) -> None:
    hours = Hours()
    monkeypatch.setattr(Session, "pace", hours.pace())
    with stub_server(*answers) as stub:
        ended = bourse(*line.split(), stdin='{"epochs": 1}', url=stub.address, token="t", tenant="lumen")
    assert ended.status in (exits.REFUSED, exits.NOT_ALLOWED), ended.err
    assert (len(stub.calls), hours.now > 300) == (len(answers), True)


def test_list_of_prices_that_nobody_watches_waits_for_no_outage(
    bourse: Bourse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Session, "pace", Hours().pace())
    with stub_server(EMPTY, dropped) as stub:
        ended = bourse("prices", "--pool", "main", url=stub.address, token="t", tenant="lumen")
    assert (ended.status, len(stub.calls)) == (exits.UNREACHABLE, 1 + IDLE_CONNECTIONS + 6)


SCRIPT = "#!/bin/bash -eu\n#SBATCH --gpus=4 --time=2:00:00\npython3 train.py\n"
LINES = [
    {"line": 2, "says": "", "option": "--gpus", "verdict": "understood", "sentence": "So many GPUs in all."},
    {"line": 3, "says": "", "option": "", "verdict": "not_kept", "sentence": "Nothing\x1b is started."},
]
PARSED = {
    "how": "script",
    "name": "train",
    "spec": {"epochs": 1},
    "begin": None,
    "after": [],
    "indexes": [],
    "lines": LINES,
}
WORDS = ("--by", "now+6hours", "--worth", "40", "--later", "half")


def test_batch_script_is_told_line_by_line_before_it_is_submitted(bourse: Bourse, tmp_path: Path) -> None:
    file = tmp_path / "train.sbatch"
    file.write_text(SCRIPT)
    with stub_server(good(PARSED), good(JOB, status=201)) as stub:
        options = {"url": stub.address, "token": "t", "tenant": "lumen"}
        ended = bourse("jobs", "submit", file, "--pool", "main", *WORDS, "--key", "k1", **options)
    assert ended.status == 0, ended.err
    parsed, submitted = (json.loads(call.body) for call in stub.calls)
    assert [call.path for call in stub.calls] == [f"/api/v1/tenants/lumen/jobs/{end}" for end in ("parse/", "")]
    assert parsed["worth"] == {"credits": "40", "later": "half", "by": "now+6hours"}
    assert (parsed["script"], parsed["pool"]) == (SCRIPT, "main")
    assert submitted == parsed | {"lane": "batch"}
    assert stub.calls[1].key == "k1"
    assert ended.err.splitlines() == [
        "   2  understood  --gpus: So many GPUs in all.",
        "   3  not kept    Nothing? is started.",
    ]
    assert "4711" in ended.out


def test_script_without_a_name_is_called_after_its_file(bourse: Bourse, tmp_path: Path) -> None:
    """Else all of a tenant's scripts would be one program, `sbatch-sbatch`."""
    file = tmp_path / "train.v2.sbatch"
    file.write_text(SCRIPT)
    words = ("jobs", "submit", file, "--pool", "main", *WORDS)
    options = {"token": "t", "tenant": "lumen"}
    unnamed = good(PARSED | {"name": "sbatch"})
    with stub_server(unnamed, good(PARSED), good(JOB, status=201)) as stub:
        assert bourse(*words, url=stub.address, **options).status == 0
    bodies = [json.loads(call.body) for call in stub.calls]
    assert [body.get("name") for body in bodies] == [None, "train.v2", "train.v2"]
    with stub_server(unnamed) as stub:
        bourse(*words, "--name", "sbatch", "--dry-run", url=stub.address, **options)
        words = ("jobs", "submit", "-", *words[3:], "--dry-run")
        bourse(*words, stdin=SCRIPT, url=stub.address, **options)
    assert [json.loads(call.body).get("name") for call in stub.calls] == ["sbatch", None]


def test_command_in_one_pair_of_quotes_is_not_bought(bourse: Bourse) -> None:
    """No shell takes it apart: no program has this name, and the job would fail once it is paid for."""
    words = ("run", "--gpus", "1", "--hours", "1", "--pool", "main", *WORDS, "--", "python3 train.py")
    ended = bourse(*words, url="http://127.0.0.1:1", token="t", tenant="lumen")
    assert ended.status == 2
    assert ended.err == (
        "bourse: 'python3 train.py' would be the name of one program: say its words without the quotes, "
        "or -- bash -c 'python3 train.py'.\n"
    )


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("print(1)\n", "it begins with no #! and has no line with #SBATCH. One command needs no script: bourse run"),
        ("", "it is empty."),
        ("\n \n", "it is empty."),
    ],
)
def test_file_that_is_no_script_is_named_with_what_a_script_has(
    bourse: Bourse, tmp_path: Path, text: str, sentence: str
) -> None:
    (tmp_path / "train.py").write_text(text)
    words = ("jobs", "submit", tmp_path / "train.py", "--pool", "main", *WORDS)
    ended = bourse(*words, url="http://127.0.0.1:1", token="t", tenant="lumen")
    assert ended.status == 2
    assert f"train.py is none: {sentence}" in ended.err


def test_dry_run_submits_nothing_and_a_command_runs_as_a_script_of_one_line(bourse: Bourse) -> None:
    with stub_server(good(PARSED)) as stub:
        access = {"url": stub.address, "token": "t", "tenant": "lumen"}
        words = ("run", "--gpus", "4", "--hours", "1.5", "--pool", "main", *WORDS, "--dry-run")
        ended = bourse(*words, "--", "python", "train.py", "--name", "a b", **access)
    assert ended.status == 0, ended.err
    assert len(stub.calls) == 1
    script = json.loads(stub.calls[0].body)["script"]
    options = "--job-name=train --gpus=4 --time=1:30:00"
    assert script == f"#!/bin/bash -eu\n#SBATCH {options}\npython train.py --name 'a b'\n"
    assert '"epochs": 1' in ended.out


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (("python3", "-u", "code/fit.py", "--out", "a.py"), "fit"),
        (("torchrun", "--nproc-per-node", "4", "ddp.py"), "ddp"),
        (("./sweep.sh",), "sweep"),
        (("/usr/bin/python3", "-m", "package.train"), "python3"),
        (("bash", "-c", "python fit.py"), "bash"),
        (("./train", "--hook=run.sh"), "train"),
    ],
)
def test_a_command_is_called_after_its_script_or_else_after_its_first_word(
    bourse: Bourse, words: tuple[str, ...], name: str
) -> None:
    """Programs are called after their jobs: whatever `python3` runs would be one program."""
    with stub_server(good(PARSED)) as stub:
        options = ("--gpus", "1", "--hours", "1", "--pool", "main", *WORDS, "--dry-run")
        ended = bourse("run", *options, "--", *words, url=stub.address, token="t", tenant="lumen")
    assert ended.status == 0, ended.err
    assert f"#SBATCH --job-name={name} --gpus=1" in json.loads(stub.calls[0].body)["script"]


ARRAY = {
    "id": 12, "name": "sweep", "pool": "main", "first_job": 4711, "jobs": 2, "indexes": [3, 5],
    "states": {"queued": 1, "running": 1}, "price": "2.500000", "submitted_at": "2026-03-02T12:00:00Z",
    "submitted_by": None,
}  # fmt: skip
LINE = "Array A-12  sweep  2 jobs: 1 queued, 1 running; they pay 2.50"


def test_script_with_an_array_is_submitted_in_one_call_and_told_in_one_line(bourse: Bourse) -> None:
    with stub_server(good(PARSED | {"indexes": [3, 5]}), good(ARRAY, status=201)) as stub:
        words = ("jobs", "submit", "-", "--pool", "main", *WORDS, "--key", "k")
        ended = bourse(*words, stdin=SCRIPT, url=stub.address, token="t", tenant="lumen")
    assert (ended.status, ended.out.strip()) == (0, LINE), ended.err
    call = stub.calls[1]
    assert (call.path, call.key) == ("/api/v1/tenants/lumen/jobs/arrays/", "k")
    assert "index" not in json.loads(call.body)


def test_file_with_a_count_is_an_array_and_none_is_awaited(bourse: Bourse, job_file: Path) -> None:
    options = {"token": "t", "tenant": "lumen"}
    with stub_server(good(ARRAY, status=201)) as stub:
        ended = bourse(
            "jobs", "submit", job_file, "--count", "2", "--after", "7", "--after", "A-4", url=stub.address, **options
        )
        refused = bourse("jobs", "submit", job_file, "--count", "2", "--wait", url=stub.address, **options)
    assert (ended.status, ended.out.strip()) == (0, LINE), ended.err
    body = json.loads(stub.calls[0].body)
    assert (body["count"], body["after"], body["after_arrays"], "lane" in body) == (2, [7], [4], False)
    assert refused.status == 2
    assert len(stub.calls) == 1


def test_file_that_asks_for_the_instant_lane_is_told_that_an_array_waits(bourse: Bourse, job_file: Path) -> None:
    job_file.write_text(job_file.read_text() + "lane: instant\n")
    account = {"token": "t", "tenant": "lumen"}
    with stub_server(good(ARRAY, status=201)) as stub:
        ended = bourse("jobs", "submit", job_file, "--count", "2", url=stub.address, **account)
    assert (ended.status, ended.out.strip()) == (0, LINE)
    assert ended.err == "The file asks for the instant lane; jobs of an array wait for the batch lane.\n"


def test_array_is_bought_together_where_that_is_asked_for(bourse: Bourse, job_file: Path) -> None:
    options: dict[str, Any] = {"token": "t", "tenant": "lumen"}
    reply = good(ARRAY | {"together": True}, status=201)
    with stub_server(reply, good(PARSED | {"indexes": [3, 5]}), reply, good(PARSED)) as stub:
        ended = bourse("jobs", "submit", job_file, "--count", "2", "--together", url=stub.address, **options)
        words = ("jobs", "submit", "-", "--pool", "main", "--together", *WORDS)
        script = bourse(*words, stdin=SCRIPT, url=stub.address, **options)
        one = bourse(*words, stdin=SCRIPT, url=stub.address, **options)
        file = bourse("jobs", "submit", job_file, "--together", url=stub.address, **options)
    line = LINE.replace("2 jobs:", "2 jobs, bought together:")
    assert (ended.out.strip(), script.out.strip()) == (line, line), (ended.err, script.err)
    assert [json.loads(stub.calls[place].body)["together"] for place in (0, 2)] == [True, True]
    assert (one.status, file.status, len(stub.calls)) == (2, 2, 4)
    assert "--together is for an array of jobs" in file.err


def test_script_says_itself_how_many_jobs_it_is(bourse: Bourse) -> None:
    with stub_server() as stub:
        words = ("jobs", "submit", "-", "--pool", "main", "--count", "3", *WORDS)
        ended = bourse(*words, stdin=SCRIPT, url=stub.address, token="t", tenant="lumen")
    assert (ended.status, stub.calls) == (2, [])
    assert "--array=0-2" in ended.err


def test_job_that_is_over_is_listed_with_its_end_and_not_with_that_of_its_award(bourse: Bourse) -> None:
    times = {"starts_at": "2026-03-02T12:20:00Z", "ends_at": "2026-03-02T13:30:00Z", "ended_at": "2026-03-02T12:24:00Z"}
    reply = page(JOB | times | {"state": "finished"})
    with stub_server(reply) as stub:
        ended = bourse("jobs", "list", url=stub.address, token="t", tenant="lumen", TZ="UTC")
    assert "12:24" in ended.out
    assert "13:30" not in ended.out


def test_jobs_of_a_pool_that_there_is_not_are_a_mistake(bourse: Bourse) -> None:
    with stub_server(bad(404, "unknown_pool", "There is no such pool.")) as stub:
        ended = bourse("jobs", "list", "--pool", "nope", url=stub.address, token="t", tenant="lumen")
    assert (ended.status, ended.out) == (1, "")
    assert "There is no such pool." in ended.err
    assert "pool=nope" in stub.calls[0].path


def test_job_that_was_cancelled_before_its_start_has_none(bourse: Bourse) -> None:
    over = {"state": "cancelled", "starts_at": "2026-03-02T12:30:00Z", "ends_at": "2026-03-02T12:40:00Z"}
    options = {"token": "t", "tenant": "lumen"}
    for ended_at, count in (("2026-03-02T12:29:59.9Z", 0), ("2026-03-02T12:30:00Z", 1), ("2026-03-02T12:31:00Z", 1)):
        job = JOB | over | {"ended_at": ended_at}
        page = {"next": None, "previous": None, "results": [job]}
        with stub_server(good(job), good(page)) as stub:
            job_page = bourse("jobs", "show", "4711", url=stub.address, **options)
            row = bourse("jobs", "list", url=stub.address, **options).out.splitlines()[1]
        assert len(re.findall("(?m)^starts ", job_page.out)) == count
        assert len(re.findall(r"\d\d:\d\d:\d\d", row)) == 1 + count, row


def test_array_is_one_line_in_the_list_and_is_shown_and_taken_back_as_one(bourse: Bourse) -> None:
    array = {name: ARRAY[name] for name in ("id", "name", "jobs", "states", "price")} | {"index": 3}
    page = {"next": None, "previous": None, "results": [JOB | {"array": array}, JOB | {"array": None}]}
    options = {"token": "t", "tenant": "lumen"}
    with stub_server(good(page), good(page), good(ARRAY), good(ARRAY)) as stub:
        folded = bourse("jobs", "list", url=stub.address, **options)
        opened = bourse("jobs", "list", "--array", "A-12", url=stub.address, **options)
        detail = bourse("jobs", "show", "A-12", url=stub.address, **options)
        back = bourse("jobs", "cancel", "a-12", url=stub.address, **options)
    assert [ended.status for ended in (folded, opened, detail, back)] == [0, 0, 0, 0], folded.err + opened.err
    assert "A-12" in folded.out
    assert "2 jobs" in folded.out
    assert "A-12" not in opened.out
    assert detail.out.strip() == back.out.strip() == LINE
    paths = [call.path.partition("/lumen/")[2] for call in stub.calls]
    assert paths[0].startswith("jobs/?")
    assert "arrays=folded" in paths[0]
    assert "array=12" in paths[1]
    assert paths[2:] == ["jobs/arrays/12/", "jobs/arrays/12/cancel/"]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ((), "--worth"),
        (("--worth", "5", "--max-price", "3"), "--max-price is for jobs in YAML"),
    ],
)
def test_script_needs_its_worth(bourse: Bourse, words: tuple[str, ...], sentence: str) -> None:
    options = {"url": "http://127.0.0.1:1", "token": "t", "tenant": "lumen"}
    ended = bourse("jobs", "submit", "-", "--pool", "main", *words, stdin=SCRIPT, **options)
    assert ended.status == 2
    assert sentence in ended.err


def test_faults_of_a_script_are_told_with_their_lines(bourse: Bourse) -> None:
    faults = [
        {"line": 2, "option": "--x", "field": "script", "sentence": "--x is no option", "nearest": "--export"},
        {"line": None, "option": "", "field": "worth.by", "sentence": "must be said", "nearest": ""},
    ]
    answer = bad(422, "invalid_job", numbers={"faults": faults})
    with stub_server(answer) as stub:
        options = {"url": stub.address, "token": "t", "tenant": "lumen"}
        ended = bourse("jobs", "submit", "-", "--pool", "main", *WORDS, stdin=SCRIPT, **options)
    assert ended.status == 1
    assert "  worth.by: must be said" in ended.err.splitlines()
    assert "  worth.by is said by --by" in ended.err.splitlines()


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("epochs: [1", "line 1"),
        ("epochs: 2\notherwise: soon\n", "otherwise: must be batch, not soon"),
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


def test_no_answer_names_the_key_that_makes_a_repetition_safe(bourse: Bourse, job_file: Path) -> None:
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
    assert len(stub.calls) == 4
    assert "Job 4711 is queued.\nJob 4711 is running.\n" in ended.err


def test_waiting_with_a_time_limit_ends_with_it(bourse: Bourse, job_file: Path) -> None:
    with stub_server(good(JOB, status=201), good(JOB)) as stub:
        words = ("jobs", "submit", job_file, "--wait", "--every", "0.05", "--timeout", "0.01", "--json")
        ended = bourse(*words, url=stub.address, token="t", tenant="lumen")
    assert ended.status == 6
    assert json.loads(ended.out)["state"] == "queued"


@pytest.mark.parametrize("option", ["--timeout", "--every"])
@pytest.mark.parametrize("command", ["jobs submit JOB", "jobs submit JOB --count 2", "run --gpus 1 --hours 1"])
def test_options_of_waiting_mean_nothing_without_it(bourse: Bourse, job_file: Path, command: str, option: str) -> None:
    words = [job_file if word == "JOB" else word for word in command.split()]
    program = ("--", "true") if words[0] == "run" else ()
    ended = bourse(*words, option, "3", *program, url="http://127.0.0.1:9", token="t", tenant="lumen")
    assert ended.status == 2
    assert ended.err == f"bourse: {option} is for a job that is waited for: say --wait too.\n"


def test_waiting_that_loses_the_server_names_the_job(
    bourse: Bourse, job_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Session, "pace", Hours().pace())
    with stub_server(good(JOB, status=201), good(JOB), dropped) as stub:
        ended = bourse("jobs", "submit", job_file, "--wait", url=stub.address, token="t", tenant="lumen")
    assert ended.status == 3
    assert "Job 4711 is submitted, and how it gets on is not known: bourse jobs show 4711\n" in ended.err


@pytest.mark.parametrize("words", [("tenants", "--patience"), ("prices", "--watch", "--every")])
def test_time_that_no_machine_can_wait_is_refused(
    bourse: Bourse, words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert bourse(*words, "999999999999999", url="http://127.0.0.1:1", token="t").status == 2
    assert "must be at most 100000000 seconds" in capsys.readouterr().err


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


def test_points_of_a_money_column_stand_below_each_other() -> None:
    rows = [("a", "12.50"), ("b", "1.234567"), ("c", "-"), ("d", "1,000.00")]
    assert table_lines(("job", "price"), rows, right=("price",))[1:] == [
        "a       12.50",
        "b        1.234567",
        "c               -",
        "d    1,000.00",
    ]
    assert plain("1\N{NARROW NO-BREAK SPACE}234.50") == "1 234.50"


def test_table_says_why_where_the_state_alone_does_not(bourse: Bourse) -> None:
    waits = {"code": "waiting_at_home", "numbers": {}, "sentence": "Its turn comes.", "help": ""}
    with stub_server(page(JOB | {"reason": waits}, JOB | {"state": "awarded"})) as stub:
        ended = bourse("jobs", "list", url=stub.address, token="t", tenant="lumen")
    lines = ended.out.splitlines()
    assert lines[0].endswith("why")
    assert lines[1].endswith("Its turn comes.")
    assert "Starts on rented units" not in ended.out


@pytest.mark.parametrize("advice", ["Raise its limit.", "", None])
def test_reason_is_a_sentence_with_its_code_its_figures_and_what_would_help(bourse: Bourse, advice: str | None) -> None:
    """None: a server that does not say it yet."""
    reason = {"code": "over_max_price", "numbers": {"price": "0.150000"}, "sentence": "Costs 0.15."}
    job = JOB | {"state": "rejected", "reason": reason if advice is None else reason | {"help": advice}}
    with stub_server(good(job)) as stub:
        ended = bourse("explain", "4711", url=stub.address, token="t", tenant="lumen")
    lines = ["Job 4711 is rejected. Costs 0.15.", "  code over_max_price: price 0.15"]
    assert ended.out.splitlines() == lines + ([f"  {advice}"] if advice else [])


def test_last_words_of_a_program_stand_once_where_the_sentence_has_them(bourse: Bourse) -> None:
    last_words = "RuntimeError: CUDA out of memory."
    sentence = "Its program failed: RuntimeError: CUDA out of memory. What was reserved is paid."
    numbers = {"detail": last_words, "epoch": 3}
    failed = JOB | {"state": "failed", "reason": {"code": "program_failed", "numbers": numbers, "sentence": sentence}}
    elsewhere = failed | {"reason": failed["reason"] | {"sentence": "It failed."}}
    with stub_server(good(failed), good(elsewhere)) as stub:
        account = {"url": stub.address, "token": "t", "tenant": "lumen"}
        once, beside = [bourse("explain", "4711", **account).out.splitlines() for _ in range(2)]
    assert once == [f"Job 4711 is failed. {sentence}", "  code program_failed: epoch 3"]
    assert beside == ["Job 4711 is failed. It failed.", f"  code program_failed: detail {last_words}, epoch 3"]


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


@pytest.mark.parametrize("line", ["jobs submit - --pool main", "explain 7"])
def test_sentence_that_steers_a_terminal_is_made_harmless(bourse: Bourse, line: str) -> None:
    reason = {"code": "no", "numbers": {}, "sentence": "Waits for a\x1b[2Jb.", "help": "Ask\x1b[1m Ada."}
    with stub_server(good(JOB | {"state": "rejected", "reason": reason}, status=201)) as stub:
        ended = bourse(*line.split(), stdin='{"epochs": 1}', url=stub.address, token="t", tenant="lumen")
    assert "Waits for a?[2Jb." in ended.out + ended.err
    assert "\x1b" not in ended.out + ended.err


def test_script_that_steers_a_terminal_is_made_harmless(bourse: Bourse) -> None:
    """A tenant's programs are read by its members, and by the operator."""
    document = {"name": "align", "shape": "independent", "script": "#!/bin/bash\n\techo a\x1b[2Jb\x9b8m\n\necho c"}
    with stub_server(page(PROGRAM), good(PROGRAM_PAGE | {"document": document})) as stub:
        ended = bourse("programs", "show", "align", url=stub.address, token="t", tenant="lumen")
    assert ended.out.endswith("\n#!/bin/bash\n\techo a?[2Jb?8m\n\necho c\n")


@pytest.mark.parametrize("line", ["programs show align --json", "logs 7 --json"])
def test_json_that_steers_a_terminal_has_codes_instead(bourse: Bourse, line: str) -> None:
    """Terminals obey U+009B as they do escape and bracket; the codes of JSON say the same to a program."""
    text = "a\x9b2J\x85ü\U000e0001"
    log = {"run": 3, "run_number": 1, "runs": 1, "after": 9, "more": False, "sentence": ""}
    pages = {"programs": [page(PROGRAM), good(PROGRAM_PAGE | {"document": {"script": text}})]}
    pages["logs"] = [good(log | {"lines": [{"at": JOB["submitted_at"], "who": "worker 0", "text": text}]})]
    with stub_server(*pages[line.split()[0]]) as stub:
        ended = bourse(*line.split(), url=stub.address, token="t", tenant="lumen")
    assert ended.status == 0
    assert "a\\u009b2J\\u0085ü\\udb40\\udc01" in ended.out
    assert json.dumps(text) in json.dumps(json.loads(ended.out))


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
    assert json.loads(stub.calls[0].body) == {"jobs": [1, 2]}
    assert (ended.status, ended.out) == (1, "Job 1 is cancelled.\n")
    assert ended.err == "bourse: Job 2: The job is finished. (already_over)\n"


@pytest.mark.parametrize("wanted", ["7", "A-12"])
def test_a_cancellation_may_have_a_limit_of_what_it_costs(bourse: Bourse, wanted: str) -> None:
    more = "Cancelling costs 5 by now, and not 0 as was shown or allowed: left as it is."
    with stub_server(bad(409, "costs_more", more)) as stub:
        ended = bourse("jobs", "cancel", wanted, "--most", "0", url=stub.address, token="t", tenant="lumen")
    assert json.loads(stub.calls[0].body) == {"most": "0"}
    assert ended.status == 1
    assert more in ended.err
    several = bourse("jobs", "cancel", "7", "8", "--most", "0", url="http://127.0.0.1:9", token="t", tenant="lumen")
    assert (several.status, "each of several has a cost of its own" in several.err) == (2, True)


def costs(amount: str) -> Answer:
    return bad(409, "costs_more", f"Cancelling costs {amount} by now.", numbers={"costs": amount, "most": "0.000000"})


QUESTION = "Cancelling {} costs 0.015, which does not come back. Cancel it? [y/N] "


@pytest.mark.parametrize(
    ("wanted", "name", "answer"), [("7", "job 7", JOB | {"state": "cancelled"}), ("A-12", "array A-12", ARRAY)]
)
def test_a_person_is_asked_before_a_cancellation_that_costs_something(
    bourse: Bourse, wanted: str, name: str, answer: dict[str, Any]
) -> None:
    account = {"token": "t", "tenant": "lumen"}
    with stub_server(costs("0.015000"), good(answer)) as stub:
        ended = bourse("jobs", "cancel", wanted, typed="y\n", url=stub.address, **account)
    assert (ended.status, ended.err) == (0, QUESTION.format(name))
    assert [json.loads(call.body) for call in stub.calls] == [{"most": "0"}, {"most": "0.015000"}]
    assert len({call.key for call in stub.calls}) == 2, "another body, another key"
    for no in ("n\n", "\n", "no\n", ""):
        with stub_server(costs("0.015000")) as stub:
            ended = bourse("jobs", "cancel", wanted, typed=no, url=stub.address, **account)
        assert (ended.status, ended.out, len(stub.calls)) == (1, "", 1)
        assert ended.err == QUESTION.format(name) + "Left as it is.\n"


def test_nobody_is_asked_where_it_is_free_or_whoever_asks_has_said_so(bourse: Bourse) -> None:
    over = good(JOB | {"state": "cancelled"})
    for words, typed, body in (
        ((), "", {"most": "0"}),  # free: it is cancelled at once
        (("--yes",), "", {}),
        (("--most", "2"), "", {"most": "2"}),
        ((), None, {}),  # a script
    ):
        with stub_server(over) as stub:
            ended = bourse("jobs", "cancel", "7", *words, typed=typed, url=stub.address, token="t", tenant="lumen")
        assert (ended.status, ended.err, [json.loads(call.body) for call in stub.calls]) == (0, "", [body])


def test_a_cancellation_that_costs_more_by_the_answer_is_asked_about_again(bourse: Bourse) -> None:
    with stub_server(costs("0.015000"), costs("2.500000"), good(JOB)) as stub:
        ended = bourse("jobs", "cancel", "7", typed="y\nY\n", url=stub.address, token="t", tenant="lumen")
    assert (ended.status, "costs 2.50," in ended.err) == (0, True)
    assert json.loads(stub.calls[-1].body) == {"most": "2.500000"}


def test_a_refusal_without_the_figure_is_told_as_it_is(bourse: Bourse) -> None:
    """An older server says what it costs in its sentence alone."""
    with stub_server(bad(409, "costs_more", "Cancelling costs 5 by now.")) as stub:
        ended = bourse("jobs", "cancel", "7", typed="y\n", url=stub.address, token="t", tenant="lumen")
    assert (ended.status, len(stub.calls), "Cancelling costs 5 by now." in ended.err) == (1, 1, True)


def test_of_many_jobs_a_person_is_asked_about_each_that_costs_something(bourse: Bourse) -> None:
    account = {"token": "t", "tenant": "lumen"}
    over = bad(409, "already_over", "The job is finished.")
    with stub_server(good(JOB), costs("0.015000"), good(JOB), costs("0.015000"), over) as stub:
        ended = bourse("jobs", "cancel", "1", "2", "3", "4", typed="y\nn\n", url=stub.address, **account)
    assert (ended.status, ended.out) == (1, "Job 1 is cancelled.\nJob 2 is cancelled.\n")
    assert ended.err == (
        f"{QUESTION.format('job 2')}{QUESTION.format('job 3')}bourse: Job 3: Left as it is. (costs_more)\n"
        "bourse: Job 4: The job is finished. (already_over)\n"
    )
    with stub_server(good(JOB), bad(500, "broken")) as stub:
        ended = bourse("jobs", "cancel", "1", "2", "3", typed="", url=stub.address, **account)
    assert ended.err.startswith("Of 1 job from 2 on it is not known. Not cancelled: 1 job from 3 on.\n")
    with stub_server(good({"results": OUTCOMES[:2]})) as stub:
        assert bourse("jobs", "cancel", "1", "2", "--yes", typed="", url=stub.address, **account).status == 0
    assert [json.loads(call.body) for call in stub.calls] == [{"jobs": [1, 2]}]


OUTCOMES = [{"id": number, "cancelled": True, "code": "", "detail": ""} for number in range(1, 101)]
MANY = tuple(str(number) for number in range(1, 251))


@pytest.mark.parametrize(
    ("answer", "status", "rest"),
    [
        (bad(500, "broken"), 3, "Of 100 jobs from 101 on it is not known. Not cancelled: 50 jobs from 201 on."),
        (bad(401, "token_expired"), 4, "Not cancelled: 150 jobs from 101 on."),
    ],
)
def test_what_was_cancelled_is_told_where_a_later_call_fails(
    bourse: Bourse, answer: Answer, status: int, rest: str
) -> None:
    account = {"token": "t", "tenant": "lumen"}
    with stub_server(good({"results": OUTCOMES}), answer) as stub:
        ended = bourse("jobs", "cancel", *MANY, "--key", "k1", url=stub.address, **account)
    assert ended.status == status
    assert ended.out.splitlines()[::99] == ["Job 1 is cancelled.", "Job 100 is cancelled."]
    assert ended.err.startswith(f"{rest}\nbourse: It is so.")
    assert [call.key for call in stub.calls] == ["k1-0", "k1-1"]
    with stub_server(good({"results": OUTCOMES}), answer) as stub:
        ended = bourse("jobs", "cancel", *MANY, "--json", url=stub.address, **account)
    assert (ended.status, json.loads(ended.out)) == (status, OUTCOMES)


@pytest.mark.parametrize("words", [("12", "A-12"), ("A-12", "12"), ("A-12", "A-13")])
def test_array_is_cancelled_by_itself_also_beside_the_job_of_its_number(bourse: Bourse, words: tuple[str, ...]) -> None:
    ended = bourse("jobs", "cancel", *words, url="http://127.0.0.1:9", token="t", tenant="lumen")
    assert (ended.status, ended.err) == (2, "bourse: Cancel an array by itself: bourse jobs cancel A-12\n")


def test_login_tries_the_token_and_keeps_it_for_its_owner_alone(bourse: Bourse, tmp_path: Path) -> None:
    with stub_server(good(ME)) as stub:
        ended = bourse("login", "--url", stub.address, "--token-stdin", stdin="bourse_secret\n")
        assert ended.status == 0, ended.err
        file = tmp_path / ".config" / "bourse" / "config.json"
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
        login = json.loads(file.read_text())
        assert login == {"url": stub.address, "token": "bourse_secret", "tenant": "lumen", "pool": ""}
        assert bourse("tenants").out.splitlines()[1].split() == ["lumen", "Lumen", "owner"]
        assert stub.calls[-1].headers["authorization"] == "Bearer bourse_secret"
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
        assert other.calls == []
        assert bourse("tenants", "--url", other.address, token="another").status == 0
    assert other.calls[0].headers["authorization"] == "Bearer another"


def test_file_with_a_token_that_others_can_read_is_warned_about(bourse: Bourse, tmp_path: Path) -> None:
    file = tmp_path / "settings.json"
    with stub_server(good(ME)) as stub:
        file.write_text(json.dumps({"url": stub.address, "token": "t"}))
        os.chmod(file, 0o644)
        assert bourse("servers", config=str(file)).err.count("chmod 600") == 1
        os.chmod(file, 0o600)
        assert "chmod" not in bourse("tenants", config=str(file)).err


@pytest.mark.parametrize("content", [b"", b"[]", b'{"url": 7}', b"not json", b"\xff\xfe"])
def test_broken_settings_are_said_so_and_written_anew(bourse: Bourse, tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "settings.json"
    file.write_bytes(content)
    os.chmod(file, 0o600)
    ended = bourse("tenants", config=str(file))
    assert ended.status == 2
    assert "`bourse login` writes it anew" in ended.err
    with stub_server(good(ME)) as stub:
        ended = bourse("tenants", url=stub.address, token="t", config=str(file))
        assert (ended.status, "It is not needed" in ended.err) == (0, True)
        ended = bourse("login", "--url", stub.address, stdin="bourse_secret\n", config=str(file))
        assert ended.status == 0, ended.err
        assert bourse("tenants", config=str(file)).status == 0


@pytest.mark.parametrize("home", ["/dev/null", None])
def test_environment_is_enough_for_whoever_has_no_home(home: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", nobody)
    out, err = io.StringIO(), io.StringIO()
    with stub_server(good(ME)) as stub:
        environment = {"BOURSE_URL": stub.address, "BOURSE_TOKEN": "t"} | ({"HOME": home} if home else {})
        assert main(["tenants"], environment, io.StringIO(), out, err) == 0
    assert out.getvalue().splitlines()[1].split() == ["lumen", "Lumen", "owner"]
    assert main(["tenants"], {}, io.StringIO(), out, err) == 2
    assert err.getvalue().endswith("bourse: Run `bourse login` first, or set BOURSE_URL and BOURSE_TOKEN.\n")


def test_settings_that_cannot_be_removed_are_named(bourse: Bourse, tmp_path: Path) -> None:
    ended = bourse("logout", config=str(tmp_path))
    assert (ended.status, ended.err.startswith(f"bourse: {tmp_path}: ")) == (2, True)


def test_token_that_is_not_typed_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def ended_input(prompt: str) -> str:
        raise EOFError

    monkeypatch.setattr("getpass.getpass", ended_input)
    out, err = io.StringIO(), io.StringIO()
    assert main(["login", "--url", "http://127.0.0.1:9"], {}, Terminal(), out, err) == 2
    assert err.getvalue() == "bourse: No token was given. Make one on the page Tokens.\n"


def test_pool_of_another_server_is_not_set(bourse: Bourse) -> None:
    with stub_server(good(ME)) as home, stub_server(page({"slug": "other"})) as other:
        bourse("login", "--url", home.address, stdin="bourse_secret\n")
        ended = bourse("config", "set", "pool", "other", url=other.address, token="t")
    assert ended.status == 2
    assert home.address in ended.err
    assert other.calls == []


def test_without_settings_the_first_step_is_named(bourse: Bourse) -> None:
    ended = bourse("balance")
    assert (ended.status, ended.err) == (2, "bourse: Run `bourse login` first, or set BOURSE_URL and BOURSE_TOKEN.\n")


def test_words_of_every_command_may_stand_before_it_or_after(bourse: Bourse) -> None:
    with stub_server(good(ME)) as stub:
        before = bourse("--json", "--url", stub.address, "tenants", token="t")
        after = bourse("tenants", "--json", "--url", stub.address, token="t")
    assert json.loads(before.out) == json.loads(after.out) == ME["tenants"]


def log(run: int, after: int, *texts: str, more: bool = False, **others: object) -> Answer:
    lines = [{"at": QUIET, "who": "worker 0", "text": text} for text in texts]
    return good({"run": run, "lines": lines, "after": after, "more": more, **others})


def test_logs_of_a_job_that_is_not_there_say_so(bourse: Bourse) -> None:
    with stub_server(bad(404, "not_found", "There is no such thing here.")) as stub:
        ended = bourse("logs", "4711", url=stub.address, token="t", tenant="lumen")
    assert stub.calls[0].path == "/api/v1/tenants/lumen/jobs/4711/logs/"
    assert (ended.status, ended.out) == (1, "")
    asked_for = "  asked for: /api/v1/tenants/lumen/jobs/4711/logs/\n"
    assert ended.err == f"bourse: There is no job 4711 here.\n{asked_for}  code not_found\n"


def test_job_at_home_has_no_pieces_though_it_may_have_some(bourse: Bourse) -> None:
    with stub_server(good({"pieces": [], "share": None, "paid": "0.000000", "worth": None})) as stub:
        ended = bourse("jobs", "pieces", "4711", url=stub.address, token="t", tenant="lumen")
    assert (ended.status, ended.out) == (0, "")
    assert "runs on its tenant's own cells" in ended.err


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("jobs", "show", "4711"), "There is no job 4711 here."),
        (("explain", "4711"), "There is no job 4711 here."),
        (("files", "4711"), "There is no job 4711 here."),
        (("jobs", "show", "A-12"), "There is no array A-12 here."),
        (("programs", "show", "algin", "--owner", "lumen"), "There is no program algin here."),
        (
            ("programs", "archive", "align", "there/none.tar.gz", "--version", "2", "--owner", "lumen"),
            "There is no archive of align, version 2, here.",
        ),
        (("lab", "show", "14"), "There is no study 14 here."),
        (("api", "GET", "/tenants/lumen/jobs/4711/nowhere/"), "There is no such thing here."),
    ],
)
def test_what_is_not_there_is_named(bourse: Bourse, words: tuple[str, ...], sentence: str) -> None:
    with stub_server(bad(404, "not_found", "There is no such thing here.")) as stub:
        ended = bourse(*words, url=stub.address, token="t", tenant="lumen")
    assert ended.err.splitlines()[0] == f"bourse: {sentence}"


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (("jobs", "list", "--pool", "mian"), bad(404, "unknown_pool", "There is no such pool.")),
        (("prices", "--pool", "mian"), bad(404, "not_found", "There is no such thing here.")),
    ],
)
def test_pools_are_listed_where_one_is_not_there(bourse: Bourse, words: tuple[str, ...], answer: Answer) -> None:
    options = {"token": "t", "tenant": "lumen"}
    with stub_server(answer, page({"slug": "north"}, {"slug": "south"})) as stub:
        ended = bourse(*words, url=stub.address, **options)
    assert ended.err.startswith("bourse: There is no ")
    assert "  There are north, south\n" in ended.err
    with stub_server(answer, bad(403, "scope_missing", "The token lacks the scope market:read.")) as stub:
        assert "scope" not in bourse(*words, url=stub.address, **options).err


@pytest.mark.parametrize("command", [("logs",), ("files",), ("explain",)])
def test_one_job_is_asked_for_where_an_array_is_named(bourse: Bourse, command: tuple[str, ...], capsys: Any) -> None:
    assert bourse(*command, "a-12", url="http://127.0.0.1:1", token="t", tenant="lumen").status == 2
    way = "A-12 is an array: name one of its jobs; bourse jobs list --array A-12 lists them"
    assert way in capsys.readouterr().err


@pytest.mark.parametrize("name", ["4711", "J-4711", "j-4711"])
@pytest.mark.parametrize("command", [("jobs", "show"), ("explain",), ("jobs", "cancel")])
def test_job_is_named_as_pages_and_sentences_name_it(bourse: Bourse, command: tuple[str, ...], name: str) -> None:
    with stub_server(good(JOB)) as stub:
        assert bourse(*command, name, url=stub.address, token="t", tenant="lumen").status == 0
    assert "/jobs/4711/" in stub.calls[0].path


@pytest.mark.parametrize(
    ("words", "way"),
    [
        (("jobs", "show", "A-x"), "A-x must be the number of an array, as A-12"),
        (("jobs", "list", "--array", "a-0"), "a-0 must be the number of an array, as A-12"),
        (("jobs", "show", "J-x"), "J-x must be the number of a job, as 88 or J-88"),
        (("logs", "0"), "0 must be the number of a job, as 88 or J-88"),
        (("jobs", "submit", "a", "--worth", "0"), "0 must be an amount of more than 0, such as 12.5"),
        (
            ("jobs", "submit", "a", "--worth", "1e99"),
            "1e99 must be an amount of more than 0 in plain digits, such as 12.5",
        ),
        (
            ("jobs", "submit", "a", "--worth", "9" * 14),
            f"{'9' * 14} must be an amount with at most 13 digits before its point and 18 behind it",
        ),
        (
            ("jobs", "submit", "a", "--max-price", "0." + "1" * 16),
            f"0.{'1' * 16} must be a number with at most 15 digits before its point and 15 behind it",
        ),
    ],
)
def test_number_that_is_none_is_repeated_as_it_was_typed(
    bourse: Bourse, words: tuple[str, ...], way: str, capsys: Any
) -> None:
    assert bourse(*words, url="http://127.0.0.1:1", token="t", tenant="lumen").status == 2
    assert f"{way}\n" in capsys.readouterr().err


def test_token_that_lacks_a_scope_says_where_to_make_another(bourse: Bourse) -> None:
    lacks = bad(403, "scope_missing", "The token lacks the scope ledger:read.")
    with stub_server(lacks) as stub:
        ended = bourse("balance", url=stub.address, token="t", tenant="lumen")
    way = "  Make a token with this scope on the page Tokens, and log in with it: bourse login\n"
    assert ended.err == f"bourse: The token lacks the scope ledger:read.\n{way}  code scope_missing\n"


@pytest.mark.parametrize(
    ("run", "words", "sentence"),
    [
        (None, (), "No program of this job has started."),
        (1, (), "Its log is empty."),
        (1, ("--search", "x"), "Its log has no such lines."),
    ],
)
def test_log_without_a_line_says_so(bourse: Bourse, run: int | None, words: tuple[str, ...], sentence: str) -> None:
    with stub_server(good({"run": run, "lines": [], "after": 0, "more": False})) as stub:
        ended = bourse("logs", "4711", *words, url=stub.address, token="t", tenant="lumen")
    assert (ended.status, ended.out, ended.err) == (0, "", f"bourse: {sentence}\n")


def test_logs_are_followed_until_the_job_is_over_without_losing_a_line(bourse: Bourse) -> None:
    running, over = good(JOB | {"state": "running"}), good(JOB | {"state": "finished"})
    answers = (running, log(1, 20, "a", "b", more=True), running, log(1, 20), over, log(1, 30, "c"))
    with stub_server(*answers) as stub:
        ended = bourse("logs", "-f", "4711", "--every", "0.01", url=stub.address, token="t", tenant="lumen")
    assert (ended.status, ended.out) == (0, "worker 0: a\nworker 0: b\nworker 0: c\n")
    assert [call.path.partition("?")[2] for call in stub.calls[1::2]] == ["", "after=20", "after=20"]


def test_lines_of_a_log_are_left_out_by_the_server(bourse: Bourse) -> None:
    with stub_server(log(1, 20, "a")) as stub:
        words = ("logs", "4711", "--search", "a b", "--level", "warning", "--who", "worker 1")
        ended = bourse(*words, url=stub.address, token="t", tenant="lumen")
    assert (ended.status, ended.out) == (0, "worker 0: a\n")
    assert stub.calls[0].path.partition("?")[2] == "search=a+b&level=warning&who=worker+1"


def test_log_of_a_job_that_was_started_anew_begins_again(bourse: Bourse) -> None:
    running, over = good(JOB | {"state": "running"}), good(JOB | {"state": "finished"})
    answers = (running, log(1, 20, "a"), over, log(2, 40, "late"), over, log(2, 40, "first", "late"))
    with stub_server(*answers) as stub:
        ended = bourse("logs", "-f", "4711", "--every", "0.01", url=stub.address, token="t", tenant="lumen")
    assert ended.out == "worker 0: a\nworker 0: first\nworker 0: late\n"
    assert [call.path.partition("?")[2] for call in stub.calls[1::2]] == ["", "after=20", ""]


def test_log_of_an_earlier_run_is_asked_for_by_its_number(bourse: Bourse) -> None:
    with stub_server(log(9, 20, "a", more=True, run_number=1, runs=3), log(9, 30, "b", run_number=1, runs=3)) as stub:
        ended = bourse("logs", "4711", "--run", "1", url=stub.address, token="t", tenant="lumen")
    assert (ended.status, ended.out, ended.err) == (0, "worker 0: a\nworker 0: b\n", "")
    assert [call.path.partition("?")[2] for call in stub.calls] == ["run_number=1", "after=20&run_number=1"]


def test_newest_run_is_named_where_there_are_others(bourse: Bourse) -> None:
    running, over = good(JOB | {"state": "running"}), good(JOB | {"state": "finished"})
    single, second = {"run_number": 1, "runs": 1}, {"run_number": 2, "runs": 2}
    answers = (running, log(8, 20, "a", **single), over, log(9, 40, "late", **second), over, log(9, 20, "b", **second))
    with stub_server(*answers) as stub:
        ended = bourse("logs", "-f", "4711", "--every", "0.01", url=stub.address, token="t", tenant="lumen")
    assert ended.out == "worker 0: a\nworker 0: b\n"
    assert ended.err == "bourse: Run 2 of 2; --run shows an earlier one, or all.\n"


def test_run_that_is_not_there_or_has_no_log_says_so(bourse: Bourse) -> None:
    sentence = "The job has no run 4: its runs are 1 to 3."
    with stub_server(bad(404, "unknown_run", sentence)) as stub:
        ended = bourse("logs", "4711", "--run", "4", url=stub.address, token="t", tenant="lumen")
    assert (ended.status, ended.out) == (1, "")
    assert ended.err.startswith(f"bourse: {sentence}\n")
    words = "The log of this run is not here any more."
    with stub_server(log(9, 0, run_number=1, runs=3, sentence=words)) as stub:
        ended = bourse("logs", "4711", "--run", "1", url=stub.address, token="t", tenant="lumen")
    assert (ended.status, ended.out, ended.err) == (0, "", f"bourse: {words}\n")
    ended = bourse("logs", "4711", "--run", "1", "-f", url="http://127.0.0.1:1", token="t", tenant="lumen")
    assert (ended.status, ended.out) == (2, "")


def test_logs_of_all_runs_come_one_after_the_other(bourse: Bourse) -> None:
    second = {"run_number": 2, "runs": 2}
    answers = (
        log(9, 20, "c", **second),  # which says how many there are
        log(8, 20, "a", more=True, run_number=1, runs=2),
        log(8, 30, "b", run_number=1, runs=2),
        log(9, 0, sentence="The log of this run is not here any more.", **second),
    )
    words = ("logs", "4711", "--run", "all", "--search", "x")
    with stub_server(*answers) as stub:
        ended = bourse(*words, url=stub.address, token="t", tenant="lumen")
    assert (ended.status, ended.out) == (0, "--- run 1 of 2\nworker 0: a\nworker 0: b\n--- run 2 of 2\n")
    assert ended.err == "bourse: Run 2: The log of this run is not here any more.\n"
    queries = [call.path.partition("?")[2] for call in stub.calls]
    assert queries == [
        "search=x",
        "search=x&run_number=1",
        "after=20&search=x&run_number=1",
        "search=x&run_number=2",
    ]
    with stub_server(*answers) as stub:
        ended = bourse(*words, "--json", url=stub.address, token="t", tenant="lumen")
    assert [json.loads(line)["run_number"] for line in ended.out.splitlines()] == [1, 1]


def test_logs_of_all_runs_of_a_job_that_has_none_say_so(bourse: Bourse, capsys: pytest.CaptureFixture[str]) -> None:
    with stub_server(good({"run": None, "lines": [], "after": 0, "more": False, "runs": 0})) as stub:
        ended = bourse("logs", "4711", "--run", "all", url=stub.address, token="t", tenant="lumen")
    assert (ended.status, ended.out, ended.err) == (0, "", "bourse: No program of this job has started.\n")
    ended = bourse("logs", "4711", "--run", "each", url=stub.address, token="t", tenant="lumen")
    assert (ended.status, "each must be a number from 1 on, or all" in capsys.readouterr().err) == (2, True)


def test_quote_that_says_no_is_a_no_with_the_cheapest_change(bourse: Bourse, job_file: Path) -> None:
    reason = {"code": "outbid", "numbers": {}, "sentence": "The price is 12.50, and the job is worth 9.00."}
    terms = {"admitted": False, "reason": reason, "phase": None, "start_slot": None, "end_slot": None, "workers": 0}
    terms |= {"starts_at": None, "ends_at": None, "price": "0.000000", "worth": "0.000000", "payees": []}
    change = {"what": "higher_value", "before": "9.000000", "after": "12.600000", "spec": {}, "price": "12.500000"}
    quote = {"pool": "main", "lane": "batch", "payer": "lumen", "terms": terms, "estimate": None, "change": change}
    with stub_server(good(quote)) as stub:
        ended = bourse("quote", job_file, url=stub.address, token="t", tenant="lumen")
    assert ended.status == 1
    assert "a higher value: 12.60 instead of 9.00, for 12.50" in ended.out
    assert ended.err == "bourse: The price is 12.50, and the job is worth 9.00. (outbid)\n"


def test_quote_of_an_elastic_pool_says_what_a_slot_and_all_of_it_cost(bourse: Bourse, job_file: Path) -> None:
    """Its terms are those of the next slot alone: neither their price nor their end is the job's."""
    terms = {"admitted": True, "reason": None, "phase": "shared", "start_slot": 12, "end_slot": 13, "workers": 4}
    terms |= {"starts_at": "2026-03-02T12:02:00Z", "ends_at": "2026-03-02T12:02:10Z", "price": "0.170000"}
    terms |= {"own_part": "0.000000", "worth": "0.000000", "payees": [{"payee": "operator", "amount": "0.170000"}]}
    by_use = {"workers": 4, "parameter_servers": 1, "price_per_slot": "0.220000"}
    by_use |= {"estimated_slots": 24, "estimated_price": "5.280000"}
    quote = {"pool": "sweeps", "lane": "batch", "payer": "lumen", "terms": terms, "estimate": None, "change": None}
    with stub_server(good(quote | {"by_use": by_use})) as stub:
        ended = bourse("quote", job_file, url=stub.address, token="t", tenant="lumen")
    assert ended.status == 0
    for line in (
        "price of a slot          0.22 with 4 workers and 1 parameter server",
        "slots, estimated         24",
        "price of all, estimated  5.28",
        "next slot                0.17",
    ):
        assert line in ended.out.splitlines(), ended.out
    assert not any(line.startswith(("price  ", "ends", "worth")) for line in ended.out.splitlines()), ended.out


def test_quote_of_a_job_in_pieces_says_that_its_price_is_that_of_the_first(bourse: Bourse, job_file: Path) -> None:
    terms = {"admitted": True, "reason": None, "phase": "shared", "start_slot": 12, "end_slot": 16, "workers": 4}
    terms |= {"starts_at": "2026-03-02T12:02:00Z", "ends_at": "2026-03-02T12:02:40Z", "price": "1.500000"}
    terms |= {"own_part": "0.000000", "worth": "9.000000", "payees": []}
    quote = {"pool": "main", "lane": "batch", "payer": "lumen", "estimate": None, "change": None, "by_use": None}
    course = {"share": 0.25, "pieces": 4, "end_slot": 40, "price": "6.000000"}
    for pieces, words in (
        (4, "it does 25 % of the work; all of it may take 4 pieces and 6.00"),
        (1, "it does 25 % of the work; the rest is done at home"),
    ):
        answer = quote | {"terms": terms | {"course": course | {"pieces": pieces}}}
        with stub_server(good(answer)) as stub:
            ended = bourse("quote", job_file, url=stub.address, token="t", tenant="lumen")
        assert f"first piece        {words}\n" in ended.out, ended.out


def test_batch_script_is_not_quoted_and_the_command_for_it_is_named(bourse: Bourse, tmp_path: Path) -> None:
    file = tmp_path / "train.sbatch"
    file.write_text("#!/bin/bash\n#SBATCH --gpus=1\npython3 train.py: x: y\n")
    ended = bourse("quote", file, url="http://127.0.0.1:1", token="t", tenant="lumen")
    assert ended.status == 2
    assert f"`bourse jobs submit {file} --dry-run`" in ended.err


def test_tenant_is_asked_for_where_nobody_names_it(bourse: Bourse) -> None:
    way = "  With --tenant NAME, or for every command with `bourse config set tenant NAME`.\n"
    two = ME | {"tenants": [{"slug": slug, "name": slug, "role": "owner"} for slug in ("castor", "lumen")]}
    for me, sentence in (
        (two, "Say which tenant: castor, lumen."),
        (ME | {"tenants": [], "staff_roles": ["operator"]}, "Say which tenant: the token is of none."),
    ):
        with stub_server(good(me)) as stub:
            ended = bourse("balance", url=stub.address, token="t")
        assert (ended.status, ended.err) == (2, f"bourse: {sentence}\n{way}")


@pytest.mark.parametrize("url", ["127.0.0.1:8000", "http://[::1"])
def test_address_that_cannot_be_one_is_a_mistake_of_whoever_typed_it(bourse: Bourse, url: str) -> None:
    for ended in (bourse("balance", url=url, token="t"), bourse("login", "--url", url, stdin="bourse_secret\n")):
        assert ended.status == 2
        assert "write it as https://bourse.example" in ended.err


def test_address_of_something_else_is_asked_about(bourse: Bourse) -> None:
    with stub_server(text("<html>", "text/html", status=404)) as stub:
        ended = bourse("balance", url=stub.address, token="t", tenant="lumen")
    assert ended.status == 1
    assert ended.err.startswith(
        "bourse: The server answered with status 404 and no reason. Is this the address of Bourse?\n"
    )


OTHER_SHAPES: list[Any] = [{"status": "ok"}, [1], {"results": 5, "next": None}, {"results": [{}], "next": None}]
READ = """jobs list; jobs show 7; explain 7; logs 7; files 7; prices; share; servers; balance; tenants;
statement --month 2026-11; events; programs list; lab list; lab show 7; config set pool main; login --token-stdin"""
CHANGED = """jobs submit -; jobs cancel 7; jobs cancel 7 8; jobs queue 7; what-if 7 epochs 5 --interval 3 --pool main;
lab start 7"""


@pytest.mark.parametrize("answer", OTHER_SHAPES)
@pytest.mark.parametrize("line", [line.strip() for line in f"{READ};{CHANGED}".split(";")])
def test_json_of_something_else_is_asked_about(bourse: Bourse, line: str, answer: Any) -> None:
    job = '{"epochs": 1, "pool": "main"}'
    with stub_server(good(answer)) as stub:
        ended = bourse(*line.split(), stdin=job, url=stub.address, token="t", tenant="lumen", pool="main")
    assert ended.status == exits.UNREACHABLE
    assert "of another shape" in ended.err
    assert "Is this the address of Bourse" in ended.err
    assert (KEY_SAID in ended.err) == (line in CHANGED)


def test_own_mistake_is_not_blamed_on_a_server_that_was_not_asked(
    bourse: Bourse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bourse_client.command.jobs.text_in", lambda session, name: dict[str, str]()["no such thing"])
    with pytest.raises(KeyError):
        bourse("jobs", "submit", "-", url="http://127.0.0.1:9", token="t", tenant="lumen")


@pytest.mark.parametrize("status", [200, 404])
def test_json_that_is_nested_too_deeply_is_said_so(
    bourse: Bourse, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Session, "pace", Hours().pace())
    with stub_server(text("[" * 100_000, "application/json", status=status)) as stub:
        ended = bourse("balance", url=stub.address, token="t", tenant="lumen")
    assert ended.status in (exits.REFUSED, exits.UNREACHABLE)
    assert ended.err.startswith("bourse: ")


def test_figures_of_a_refusal_that_have_another_shape_do_not_hide_it(bourse: Bourse) -> None:
    with stub_server(bad(422, "invalid_script", "Line 3 is wrong.", numbers={"faults": [{}, {"why": "x"}]})) as stub:
        ended = bourse("balance", url=stub.address, token="t", tenant="lumen")
    assert ended.err.startswith("bourse: Line 3 is wrong.\n")


@pytest.mark.parametrize("number", ["x", "-1", "1_0", "00"])
def test_events_come_after_a_whole_number(bourse: Bourse, number: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert bourse("events", f"--after={number}", url="http://127.0.0.1:1", token="t").status == 2
    assert "must be a number from" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "status"), [("config show >&-", 0), ("config show 2>&-", 0), ("jobs submit - --pool main <&-", 2)]
)
def test_stream_that_the_shell_has_closed_is_empty(tmp_path: Path, line: str, status: int) -> None:
    environment = {"PATH": os.environ["PATH"], "BOURSE_CONFIG": str(tmp_path / "none.json"), "PYTHONPATH": str(CLIENT)}
    command = f"{sys.executable} -m bourse_client {line}"
    ended = subprocess.run(["sh", "-c", command], env=environment, capture_output=True, text=True)
    assert ended.returncode == status, ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a file that is always full is Linux's")
@pytest.mark.parametrize("words", [("config", "show"), ("config", "show", "--json")])
def test_output_that_cannot_be_written_is_said_so(tmp_path: Path, words: tuple[str, ...]) -> None:
    environment = {"PATH": os.environ["PATH"], "BOURSE_CONFIG": str(tmp_path / "none.json"), "PYTHONPATH": str(CLIENT)}
    with open("/dev/full", "w") as full:
        ended = subprocess.run(
            [sys.executable, "-m", "bourse_client", *words],
            env=environment,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert (ended.returncode, ended.stderr) == (2, "bourse: The output cannot be written: No space left on device.\n")


@pytest.mark.parametrize("as_json", [False, True])
def test_output_that_lacks_a_letter_has_its_code_and_the_submission_is_told(
    tmp_path: Path, job_file: Path, as_json: bool
) -> None:
    environment = {"PATH": os.environ["PATH"], "BOURSE_CONFIG": str(tmp_path / "none.json"), "PYTHONPATH": str(CLIENT)}
    environment |= {"PYTHONIOENCODING": "ascii", "BOURSE_TOKEN": "t", "BOURSE_TENANT": "lumen", "BOURSE_POOL": "main"}
    with stub_server(good(JOB | {"name": "ü 日"}, status=201)) as stub:
        words = ["--url", stub.address, *(["--json"] if as_json else []), "jobs", "submit", str(job_file)]
        ended = subprocess.run(
            [sys.executable, "-m", "bourse_client", *words], env=environment, capture_output=True, text=True
        )
    assert (ended.returncode, ended.stderr) == (0, "")
    if as_json:
        assert json.loads(ended.stdout)["name"] == "ü 日"
    else:
        assert "\\xfc \\u65e5\n" in ended.stdout


def test_question_about_the_past_is_waited_for_and_shown(bourse: Bourse) -> None:
    got = {"state": "awarded", "reason": "", "phase": "shared", "start_slot": 10, "end_slot": 14, "workers": 4}
    got |= {"parameter_servers": 1, "price": "3.200000", "worth": "90.000000", "floor": "0.000000"}
    other = got | {"start_slot": 8, "end_slot": 12, "price": "6.400000", "worth": None, "workers": 1}
    gain = {"tenant": None, "before": None, "after": None, "difference": "-1.200000", "promised": "0.000000"}
    result = {"in_words": "J-7 would have run earlier.", "whole": False, "tenants": [gain], "prices": []}
    result |= {"jobs": [{"job": 7, "tenant": "lumen", "asked": True, "before": got, "after": other}]}
    waits = {"id": 12, "state": "waiting", "detail": "", "result": None}
    words = ("what-if", "7", "rent", "never", "--interval", "3", "--pool", "main", "--every", "0.01")
    answers = (good(waits), good(waits | {"state": "running"}), good(waits | {"state": "done", "result": result}))
    with stub_server(*answers) as stub:
        ended = bourse(*words, url=stub.address, token="t", tenant="lumen")
    assert [call.path for call in stub.calls[1:]] == ["/api/v1/tenants/lumen/what-ifs/12/"] * 2
    body = {"pool": "main", "interval": 3, "job": 7, "field": "rent", "value": "never"}
    assert json.loads(stub.calls[0].body) == body
    assert (ended.status, ended.err) == (0, "")
    assert ended.out.startswith("J-7 would have run earlier.\n")
    assert "slots 8 to 11, 1 worker, for 6.40\n" in ended.out
    assert "another          -          -       -1.20\n" in ended.out
    failed = waits | {"state": "failed", "detail": "Somebody changed it."}
    with stub_server(good(failed)) as stub:
        ended = bourse(*words, url=stub.address, token="t", tenant="lumen")
    assert (ended.status, ended.err) == (1, "bourse: The question is failed. Somebody changed it.\n")


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
    assert json.loads(stub.calls[1].body)["pool"] == "north"
    with stub_server(page({"slug": "north"}, {"slug": "south"})) as stub:
        ended = bourse("jobs", "submit", job_file, url=stub.address, **named)
    way = "With --pool NAME, or for every command with `bourse config set pool NAME`."
    assert (ended.status, ended.err) == (2, f"bourse: Say which pool: north, south.\n  {way}\n")


def test_pool_that_is_set_is_meant_where_nobody_names_one(bourse: Bourse, job_file: Path) -> None:
    job_file.write_text("epochs: 1\n")
    pools = page({"slug": "north"}, {"slug": "south"})
    with stub_server(good(ME), pools, pools, good(JOB, status=201)) as stub:
        assert bourse("login", "--url", stub.address, stdin="t\n").status == 0
        unknown = bourse("config", "set", "pool", "west")
        assert (unknown.status, unknown.err) == (2, "bourse: There is no pool west. There is: north, south.\n")
        assert bourse("config", "set", "pool", "south").err == "pool is south.\n"
        assert bourse("config", "show").out.split()[-2:] == ["pool", "south"]
        assert bourse("jobs", "submit", job_file).status == 0
    assert json.loads(stub.calls[-1].body)["pool"] == "south"
    assert bourse("config", "unset", "pool").err == "pool is not set any more.\n"
    assert bourse("config", "show").out.split()[-2:] == ["pool", "-"]


def test_what_if_takes_the_jobs_own_pool(bourse: Bourse) -> None:
    with stub_server(good(JOB), bad(404, "unknown_interval", "There is no such interval.")) as stub:
        bourse("what-if", "7", "rent", "never", "--interval", "3", url=stub.address, token="t", tenant="lumen")
    assert stub.calls[0].path == "/api/v1/tenants/lumen/jobs/7/"
    assert json.loads(stub.calls[1].body)["pool"] == "main"


# ---------------------------------------------------------------- programs

DEEDS = {"runs": 3, "ended_well": 2, "hours": 1.5, "last_at": None}
PROGRAM = {
    "name": "align",
    "title": "Alignment",
    "description": "",
    "owner": "lumen",
    "shape": "all_reduce",
    "version": 2,
    "digest": "9f2c" * 16,
    "registered_at": QUIET,
    "retired_at": None,
    "deeds": DEEDS,
}
PROGRAM_PAGE = {
    "program": PROGRAM,
    "version": 2,
    "parameters": [{"name": "rate", "kind": "number", "default": 0.1}],
    "document": {"name": "align", "shape": "all_reduce", "command": ["python3", "train.py", "{rate}"]},
    "versions": [{"version": 2, "digest": "9f2c" * 16, "registered_at": QUIET, "archive": "", "archive_bytes": None}],
}

NOTHING_NEW = "It says nothing new: this is the version that was there.\n"


@pytest.mark.parametrize(
    ("there", "path", "note"),
    [
        ([], "programs/", ""),
        ([PROGRAM | {"version": 1}], "programs/align/versions/", ""),
        ([PROGRAM], "programs/align/versions/", NOTHING_NEW),
    ],
)
def test_program_is_registered_or_continued(
    bourse: Bourse, tmp_path: Path, there: list[Any], path: str, note: str
) -> None:
    file = tmp_path / "align.yaml"
    file.write_text("name: align\nshape: all_reduce\ncommand: [python3, train.py]\n", encoding="utf-8")
    with stub_server(page(*there), good(PROGRAM_PAGE)) as stub:
        named = {"url": stub.address, "token": "t", "tenant": "lumen"}
        ended = bourse("programs", "register", file, **named)
    assert (ended.status, ended.out, ended.err) == (0, f"align, version 2: {'9f2c' * 16}\n", note)
    assert stub.calls[1].path == f"/api/v1/tenants/lumen/{path}"
    body = json.loads(stub.calls[1].body)
    assert body["document"] == {"name": "align", "shape": "all_reduce", "command": ["python3", "train.py"]}


@pytest.mark.parametrize(("archive", "is_noted"), [("", True), ("1" * 64, False)])
def test_version_that_lost_its_files_is_said_to_have_none(
    bourse: Bourse, tmp_path: Path, archive: str, is_noted: bool
) -> None:
    file = tmp_path / "align.yaml"
    file.write_text("name: align\nshape: all_reduce\ncommand: [python3, train.py]\n", encoding="utf-8")
    version = cast(list[dict[str, Any]], PROGRAM_PAGE["versions"])[0]
    versions = [version | {"archive": archive}, version | {"version": 1, "archive": "2" * 64}]
    with stub_server(page(PROGRAM | {"version": 1}), good(PROGRAM_PAGE | {"versions": versions})) as stub:
        ended = bourse("programs", "register", file, url=stub.address, token="t", tenant="lumen")
    assert ended.status == 0
    assert ("It has no files, and version 1 had some: --archive brings them." in ended.err) == is_noted


@pytest.mark.parametrize(
    ("there", "note"),
    [
        (page(), ""),
        (page(PROGRAM | {"version": 1}), ""),
        (page(PROGRAM), NOTHING_NEW),
        (bad(403, "scope_missing", "The token lacks the scope jobs:read."), ""),
    ],
)
def test_archive_is_sent_as_a_file_once_that_is_allowed(
    bourse: Bourse, tmp_path: Path, there: Answer, note: str
) -> None:
    file, archive = tmp_path / "align.yaml", tmp_path / "align.tar.gz"
    file.write_text("name: align\nshape: all_reduce\ncommand: [python3, train.py]\n", encoding="utf-8")
    archive.write_bytes(b"packed" * 300_000)
    with stub_server(there, good({"upload": "a:ticket"}), good(PROGRAM_PAGE)) as stub:
        named = {"url": stub.address, "token": "t", "tenant": "lumen"}
        ended = bourse("programs", "register", file, "--archive", archive, **named)
    assert (ended.status, ended.out, ended.err) == (0, f"align, version 2: {'9f2c' * 16}\n", note)
    assert [each.path for each in stub.calls[1:]] == [
        "/api/v1/tenants/lumen/programs/uploads/",
        "/api/v1/tenants/lumen/programs/uploads/archive/?upload=a%3Aticket",
    ]
    document, content = stub.calls[2].body.split(b"\r\n--")[:2]
    assert json.loads(document.partition(b"\r\n\r\n")[2])["name"] == "align"
    assert content.partition(b"\r\n\r\n")[2] == archive.read_bytes()


def test_programs_are_listed_and_shown(bourse: Bourse, tmp_path: Path) -> None:
    with stub_server(page(PROGRAM), page(PROGRAM), good(PROGRAM_PAGE)) as stub:
        named = {"url": stub.address, "token": "t", "tenant": "lumen"}
        overview = bourse("programs", "list", **named)
        detail = bourse("programs", "show", "align", **named)
    assert "align" in overview.out
    assert "all_reduce" in overview.out
    assert "3, 2 ended well, 1.5 hours" in detail.out
    assert '["python3", "train.py", "{rate}"]' in detail.out
    assert stub.calls[2].path == "/api/v1/tenants/lumen/programs/of/lumen/align/"


def test_parameters_are_shown_with_all_that_a_submitter_must_know(bourse: Bourse) -> None:
    parameters = [
        {"name": "batch", "kind": "whole", "default": 256, "least": 16, "most": 1024, "unit": "samples"},
        {"name": "rate", "kind": "number", "default": 0.1, "least": 0, "help": "of learning"},
        {"name": "model", "kind": "choice", "default": "small", "choices": ["small", "large"]},
        {"name": "steps", "kind": "whole", "default": 10, "most": 99},
    ]
    with stub_server(page(PROGRAM), good(PROGRAM_PAGE | {"parameters": parameters})) as stub:
        detail = bourse("programs", "show", "align", url=stub.address, token="t", tenant="lumen")
    assert [line for line in detail.out.splitlines() if line.startswith("parameter")] == [
        "parameter batch: whole, 256, from 16 to 1024, samples",
        "parameter rate: number, 0.1, from 0 on, of learning",
        'parameter model: choice, "small", one of small, large',
        "parameter steps: whole, 10, at most 99",
    ]


@pytest.mark.parametrize(
    ("command", "options", "kind"),
    [
        (("programs", "archive", "align"), ("--version", "2", "--owner", "lumen"), "application/gzip"),
        (("lab", "download", "14"), (), "text/html"),
    ],
)
def test_download_overwrites_a_file_only_by_force(
    bourse: Bourse, tmp_path: Path, command: tuple[str, ...], options: tuple[str, ...], kind: str
) -> None:
    file = tmp_path / "align.tar.gz"
    words = (*command, file, *options)
    with stub_server(text("packed", kind)) as stub:
        named = {"url": stub.address, "token": "t", "tenant": "lumen"}
        assert bourse(*words, **named).status == 0
        file.write_text("mine")
        refused = bourse(*words, **named)
        assert (refused.status, refused.err) == (2, f"bourse: {file} is there already; --force overwrites it.\n")
        assert (len(stub.calls), file.read_text()) == (1, "mine"), "it is not even asked for"
        assert bourse(*words, "--force", **named).status == 0
        assert file.read_text() == "packed"
        assert bourse(*command, "/dev/null", *options, **named).status == 0


def test_archive_that_is_too_large_is_not_sent(bourse: Bourse, tmp_path: Path) -> None:
    file, archive = tmp_path / "align.yaml", tmp_path / "align.tar.gz"
    file.write_text("name: align\n", encoding="utf-8")
    archive.write_bytes(bytes((20 << 20) + 1))
    ended = bourse("programs", "register", file, "--archive", archive, url="http://127.0.0.1:1", token="t")
    assert ended.status == 2
    assert "at most 20 MiB" in ended.err


# ---------------------------------------------------------------- studies of the lab

STUDY: dict[str, Any] = {
    "id": 14,
    "title": "October",
    "pool": None,
    "state": "ready",
    "digest": "7c90" * 16,
    "minutes": 4.2,
    "done": 0,
    "total": 5,
    "shown": False,
    "detail": "",
    "asked_at": QUIET,
    "ended_at": None,
    "study": {},
    "history": {
        "jobs": 18412,
        "owners": 5,
        "days": 30,
        "bad": [[17, "has 3 columns, not 15"]],
        "notes": ["a slot is 20 minutes"],
        "left_out": {"never started": 1_312},
    },
    "answer": None,
}


def test_study_is_sent_with_its_files_and_says_what_it_will_take(bourse: Bourse, tmp_path: Path) -> None:
    (tmp_path / "log.txt").write_bytes(b"a log")
    history = {"format": "sacct", "file": "log.txt", "zone": "UTC", "first_day": "2026-10-01", "days": 30}
    words = "".join(f"  {field}: {value}\n" for field, value in history.items())  # as in the guide, without quotes
    (tmp_path / "s.yaml").write_text(f"history:\n{words}", encoding="utf-8")
    with stub_server(good(STUDY | {"state": "reading", "history": {}}), good(STUDY)) as stub:
        ended = bourse("lab", "create", tmp_path / "s.yaml", "--every", "0.01", url=stub.address, token="t")
    body = json.loads(stub.calls[0].body)
    assert (stub.calls[0].path, body["files"], body["at_once"]) == (
        "/api/v1/lab/studies/",
        {"log.txt": "YSBsb2c="},
        False,
    )
    assert body["study"] == {"history": history}
    assert stub.calls[1].path == "/api/v1/lab/studies/14/"
    assert "18,412 jobs of 5 owners, 30 days" in ended.out
    last = ["note: a slot is 20 minutes", "left out: never started (1,312)", "line 17 has 3 columns, not 15"]
    assert ended.out.splitlines()[-3:] == last
    assert "about 4.2 minutes" in ended.out
    with stub_server(good(STUDY | {"minutes": 0.02})) as stub:
        assert "less than a minute" in bourse("lab", "show", "14", url=stub.address, token="t").out
    assert "bourse lab start 14" in ended.err
    assert ended.status == 0


def test_study_is_followed_listed_and_taken_away(bourse: Bourse, tmp_path: Path) -> None:
    answer = "market beside alone: 312 of 1,940 hours of waiting saved, 251 to 378."
    running, done = STUDY | {"state": "running"}, STUDY | {"state": "done", "detail": answer}
    answers = (good(running), good(done), page(done), good(STUDY | {"state": "failed"}), text("<html>", "text/html"))
    with stub_server(*answers) as stub:
        named = {"url": stub.address, "token": "t"}
        followed = bourse("lab", "start", "14", "--every", "0.01", **named)
        overview = bourse("lab", "list", **named)
        failed = bourse("lab", "resume", "14", **named)
        download = bourse("lab", "download", "14", tmp_path / "report.html", **named)
    assert (followed.status, answer in followed.out, answer in overview.out) == (0, True, True)
    assert failed.status != 0
    assert (download.status, stub.calls[-1].path) == (0, "/api/v1/lab/studies/14/report/")
    assert (tmp_path / "report.html").stat().st_size > 0


def test_study_whose_files_are_too_large_or_missing_is_not_sent(bourse: Bourse, tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text("history: {format: swf, file: log.swf}\n", encoding="utf-8")
    missing = bourse("lab", "create", tmp_path / "s.yaml", url="http://127.0.0.1:1", token="t")
    (tmp_path / "log.swf").write_bytes(bytes(800 * 1024))
    large = bourse("lab", "create", tmp_path / "s.yaml", url="http://127.0.0.1:1", token="t")
    assert (missing.status, large.status) == (2, 2)
    assert "log.swf" in missing.err
    assert "at most 700 KiB together. Pack the log with gzip, upload it on" in large.err
    (tmp_path / "log.swf").write_bytes(b"\x1f\x8b" + bytes(800 * 1024))
    packed = bourse("lab", "create", tmp_path / "s.yaml", url="http://127.0.0.1:1", token="t")
    assert "at most 700 KiB together. Upload it on the page of the lab" in packed.err
