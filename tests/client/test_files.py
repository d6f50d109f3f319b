"""`bourse files`: what is listed, and what of a server's files lands where on this machine."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from bourse_client.client import Client
from bourse_client.errors import BourseError, Unreachable
from bourse_client.paths import BadPath, local_parts
from tests.client.conftest import Bourse, Ended
from tests.client.pace import Hours
from tests.client.stub import Answer, bad, dropped, good, hanging, stub_server
from tests.patience import PATIENCE

MODEL, TAG = bytes(range(256)) * 10, '"1-a00-7"'
AT = "2026-11-21T15:22:39.000000Z"


def file(path: str, size: int = 5) -> dict[str, Any]:
    return {"path": path, "bytes": size, "changed_at": AT}


def listing(*paths: str, more: bool = False, sentence: str = "", left_out: int = 0) -> Answer:
    files = [file(path) for path in paths]
    return good({"files": files, "more": more, "left_out": left_out, "sentence": sentence, "kept_until": None})


def content(data: bytes = MODEL, *, start: int = 0, sends: int | None = None, tag: str = TAG) -> Answer:
    """From a byte on; `sends`: so many, and then the connection breaks."""

    def answer(handler: Any) -> None:
        rest = data[start:]
        handler.send_response(206 if start else 200)
        headers = {"Content-Type": "application/octet-stream", "Content-Length": str(len(rest)), "ETag": tag}
        if start:
            headers["Content-Range"] = f"bytes {start}-{len(data) - 1}/{len(data)}"
        for name, value in headers.items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(rest if sends is None else rest[:sends])
        handler.close_connection = True

    return answer


def files_command(bourse: Bourse, answers: Sequence[Answer], *words: str) -> tuple[Ended, list[str]]:
    with stub_server(*answers) as stub:
        ended = bourse("files", "7", *words, url=stub.address, token="t", tenant="lumen")
    return ended, [each.path for each in stub.calls]


def test_files_are_listed_with_size_and_path(bourse: Bourse) -> None:
    ended, paths = files_command(bourse, [listing("a\\x0ab", "checkpoint/model.pt", left_out=2)])
    assert ended.status == 0
    assert [line.split()[-1] for line in ended.out.splitlines()] == ["path", "a\\x0ab", "checkpoint/model.pt"]
    assert "Left out, as links, pipes or closed to the server: 2." in ended.err
    assert paths == ["/api/v1/tenants/lumen/jobs/7/files/"]


def test_list_goes_on_where_a_page_of_it_ended(bourse: Bourse) -> None:
    ended, paths = files_command(bourse, [listing("a", "b&c", more=True), listing("d")], "--json")
    assert [each["path"] for each in json.loads(ended.out)["files"]] == ["a", "b&c", "d"]
    assert [parse_qs(urlsplit(path).query) for path in paths] == [{}, {"after": ["b&c"]}]
    ended, paths = files_command(bourse, [listing("a", more=True), listing(more=True)])
    assert "others that cannot be listed" in ended.err
    assert len(paths) == 2


def test_job_without_files_says_why(bourse: Bourse) -> None:
    sentence = "Files of a job are kept for 30 days after its end; those of this one could go from 2026-04-02 (UTC) on."
    ended, _ = files_command(bourse, [listing(sentence=sentence)])
    assert (ended.status, ended.out, ended.err) == (0, "", f"bourse: {sentence}\n")
    ended, _ = files_command(bourse, [listing(sentence=sentence)], "--fetch", "here")
    assert (ended.status, ended.out, ended.err) == (1, "", f"bourse: {sentence}\n")
    ended, _ = files_command(bourse, [listing(sentence=sentence)], "--fetch", "here", "--json")
    assert (ended.status, ended.out) == (1, "[]\n")


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (listing("train.py"), "there is no such folder among the files listed."),
        (listing(sentence="The job runs no program."), "The job runs no program."),
    ],
)
def test_folder_that_is_not_there_is_said_so(bourse: Bourse, answer: Answer, sentence: str) -> None:
    ended, paths = files_command(bourse, [answer], "--fetch", "here", "results/")
    assert (ended.status, ended.err) == (1, f"bourse: results/: {sentence}\n")
    assert len(paths) == 1


def test_all_or_those_named_are_written_below_the_folder(bourse: Bourse, tmp_path: Path) -> None:
    root = tmp_path / "out"
    ended, _ = files_command(bourse, [listing("checkpoint/model.pt", "train.py"), content()], "--fetch", str(root))
    assert (ended.status, ended.out) == (0, f"2 files, 5,120 bytes in {root}\n")
    assert sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()) == [
        "checkpoint/model.pt",
        "train.py",
    ]
    assert (root / "checkpoint" / "model.pt").read_bytes() == MODEL
    replies = [listing("a/b", "a/c", "ab", "d"), content()]
    ended, paths = files_command(bourse, replies, "--fetch", str(tmp_path / "some"), "a/", "hidden", "--json")
    assert [each["path"] for each in json.loads(ended.out)] == ["a/b", "a/c", "hidden"]
    assert [parse_qs(urlsplit(path).query).get("path") for path in paths[1:]] == [["a/b"], ["a/c"], ["hidden"]]


@pytest.mark.parametrize("path", ["../x", "/etc/cron", "a/../../x", "a//b", "\\x2e./x", "a\\x00", "x\\x2f../y", "a\\"])
def test_path_that_leads_out_of_the_folder_is_not_written(bourse: Bourse, tmp_path: Path, path: str) -> None:
    with pytest.raises(BadPath):
        local_parts(path)
    ended, paths = files_command(bourse, [listing("good", path), content()], "--fetch", str(tmp_path / "out"))
    assert ended.status == 2
    assert len(paths) == 1, "nothing is fetched"
    assert list(tmp_path.rglob("*")) == []


def test_folder_here_that_is_a_link_is_not_written_through(bourse: Bourse, tmp_path: Path) -> None:
    root, elsewhere = tmp_path / "out", tmp_path / "elsewhere"
    root.mkdir()
    elsewhere.mkdir()
    (root / "checkpoint").symlink_to(elsewhere)
    ended, _ = files_command(bourse, [listing("checkpoint/model.pt"), content()], "--fetch", str(root))
    assert ended.status == 2
    assert "leads out of" in ended.err
    assert list(elsewhere.iterdir()) == []


def test_what_is_there_is_overwritten_only_by_force(bourse: Bourse, tmp_path: Path) -> None:
    (tmp_path / "b").write_text("mine")
    ended, paths = files_command(bourse, [listing("a", "b"), content()], "--fetch", str(tmp_path))
    assert (ended.status, len(paths)) == (2, 1)
    assert "b is there already; --force overwrites it." in ended.err
    assert (tmp_path / "b").read_text() == "mine"
    ended, _ = files_command(bourse, [listing("a", "b"), content()], "--fetch", str(tmp_path), "--force")
    assert (ended.status, (tmp_path / "b").read_bytes()) == (0, MODEL)
    (tmp_path / "a").unlink()
    (tmp_path / "a").symlink_to(tmp_path / "kept")
    files_command(bourse, [listing("a"), content()], "--fetch", str(tmp_path), "--force")
    assert not (tmp_path / "a").is_symlink(), "a link is replaced, and what it names is left"
    assert not (tmp_path / "kept").exists()


def test_file_that_never_comes_whole_is_not_left(bourse: Bourse, tmp_path: Path) -> None:
    refused = bad(404, "unknown_file", "The job has no such file.")
    ended, _ = files_command(bourse, [listing("a", "b", "c"), content(), refused, content()], "--fetch", str(tmp_path))
    assert (ended.status, ended.out) == (1, f"2 files, 5,120 bytes in {tmp_path}\n")
    assert "bourse: b: The job has no such file." in ended.err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "c"], "the others are not kept from coming"


def fetched(*answers: Answer) -> tuple[bytes, list[str | None], Hours]:
    hours, target = Hours(), io.BytesIO()
    with stub_server(*answers) as stub, Client(stub.address, "t", tenant="lumen", pace=hours.pace()) as client:
        size = client.job_file(7, "m", target)
    assert size == len(target.getvalue())
    return target.getvalue(), [each.headers.get("range") for each in stub.calls], hours


@pytest.mark.parametrize(("end", "status"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGINT, 130)])
def test_command_that_is_ended_leaves_no_half_of_a_file(tmp_path: Path, end: signal.Signals, status: int) -> None:
    began = threading.Event()

    def half(handler: Any) -> None:
        content(sends=100)(handler)
        handler.wfile.flush()
        began.set()
        hanging(handler)

    with stub_server(listing("model.pt"), half) as stub:
        settings = {"BOURSE_URL": stub.address, "BOURSE_TOKEN": "t", "BOURSE_TENANT": "lumen", "PYTHONPATH": "client"}
        command = [sys.executable, "-m", "bourse_client", "files", "7", "--fetch", str(tmp_path / "out")]
        with subprocess.Popen(command, env=os.environ | settings, stderr=subprocess.PIPE, text=True) as process:
            try:
                assert began.wait(PATIENCE)
                process.send_signal(end)
                _, errors = process.communicate(timeout=PATIENCE)
            finally:
                process.kill()
    assert (process.returncode, errors) == (status, "")
    assert list((tmp_path / "out").iterdir()) == []


def test_signal_that_the_caller_ignores_stays_ignored(tmp_path: Path) -> None:
    """As by `nohup`."""
    answered = threading.Event()

    def late(handler: Any) -> None:
        os.kill(process.pid, signal.SIGHUP)
        content()(handler)
        answered.set()

    with stub_server(listing("model.pt"), late) as stub:
        settings = {"BOURSE_URL": stub.address, "BOURSE_TOKEN": "t", "BOURSE_TENANT": "lumen", "PYTHONPATH": "client"}
        command = [sys.executable, "-m", "bourse_client", "files", "7", "--fetch", str(tmp_path / "out")]
        before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
        try:
            process = subprocess.Popen(command, env=os.environ | settings, stdout=subprocess.PIPE)
        finally:
            signal.signal(signal.SIGHUP, before)
        with process:
            try:
                process.communicate(timeout=PATIENCE)
            finally:
                process.kill()
    assert (process.returncode, answered.is_set()) == (0, True)


def test_transfer_that_breaks_goes_on_where_it_broke() -> None:
    data, ranges, _ = fetched(content(sends=1_000), dropped, content(start=1_000, sends=500), content(start=1_500))
    assert data == MODEL
    assert ranges == [None, "bytes=1000-", "bytes=1000-", "bytes=1500-"]


def test_file_that_was_written_anew_meanwhile_is_begun_anew() -> None:
    other = b"other" * 100
    data, ranges, _ = fetched(content(sends=1_000), content(other, tag='"2"'))
    assert (data, ranges) == (other, [None, "bytes=1000-"])
    data, _, _ = fetched(content(sends=1_000), content(start=900), content(start=1_000))
    assert data == MODEL, "another part than was asked for is no answer"


def test_transfer_gives_up_after_some_attempts_that_brought_nothing() -> None:
    hours = Hours()
    with stub_server(content(sends=10), dropped) as stub, Client(stub.address, "t", pace=hours.pace()) as client:
        client._tenant = "lumen"
        with pytest.raises(Unreachable):
            client.job_file(7, "m", io.BytesIO())
    assert 6 <= len(stub.calls) <= 8


def test_full_disk_is_no_fault_of_the_network() -> None:
    class Full(io.BytesIO):
        def write(self, piece: Any) -> int:
            raise OSError(28, os.strerror(28))

    with (
        stub_server(content()) as stub,
        Client(stub.address, "t", tenant="lumen", pace=Hours().pace()) as client,
        pytest.raises(BourseError, match="No space left"),
    ):
        client.job_file(7, "m", Full())
    assert len(stub.calls) == 1
