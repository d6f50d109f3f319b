"""The log of a job: searched, followed and taken whole, however long it is; a stranger's bytes, shown as text."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st

from scheduling.engines.launcher.files import Folder, GangRecords
from scheduling.jobs.read_log import MOST_BYTES, MOST_LINES, LogQuestion, log_found, log_view, log_whole
from scheduling.models import Award, Run
from tenants.scoping import scope
from tests.scheduling.builders import make_tenant
from tests.scheduling.live import SPEC, make_award, make_live_pool
from tests.scheduling.pages import client_as, pieces_sent

HOME, KEY = "job-7", "k"
RUN: Any = SimpleNamespace(job_id=7, key=KEY)
ANY = LogQuestion()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Folder:
    monkeypatch.setattr(django_settings, "RUNS_DIR", tmp_path)
    folder = Folder(tmp_path, HOME, KEY)
    folder.make()
    return folder


def lines(count: int) -> str:
    return "".join(
        f"{1_770_000_000 + n}.000 worker {n % 3} line {n} {'ERROR' if n % 7 == 0 else ''}\n" for n in range(count)
    )


def numbers(log: Any) -> list[int]:
    return [int(line.text.split()[1]) for line in log]


def test_search_level_and_who_leave_lines_out(folder: Folder) -> None:
    folder.log.write_text(lines(100))
    assert numbers(log_view(RUN, LogQuestion(text="LINE 1")).lines) == [1, *range(10, 20)]
    assert numbers(log_view(RUN, LogQuestion(level="warning")).lines) == list(range(0, 100, 7))
    view = log_view(RUN, LogQuestion(level="error", who="worker 1"))
    assert numbers(view.lines) == [7, 28, 49, 70, 91]
    assert (view.speakers, view.before) == (("worker 1",), None)
    assert numbers(log_found(RUN, LogQuestion(text="line 9"), 0, 3).lines) == [9, 90, 91]


def test_pages_backward_and_forward_meet_each_line_once(folder: Folder) -> None:
    folder.log.write_text(lines(1_000))
    back, before = [], None
    while True:
        view = log_view(RUN, ANY, before)
        back[:0], before = numbers(view.lines), view.before
        assert len(view.lines) <= MOST_LINES
        if before is None:
            break
    assert back == list(range(1_000))
    forward, after, more = [], 0, True
    while more:
        page = log_found(RUN, ANY, after, 70)
        forward += numbers(page.lines)
        after, more = page.after, page.more
    assert forward == back
    assert (page.after, log_found(RUN, ANY, after, 70).lines) == (folder.log.stat().st_size, ())


def test_a_line_on_its_way_is_not_shown_and_is_not_lost(folder: Folder) -> None:
    folder.log.write_text("1.0 engine 0 Started.\n1.5 worker 0 half a l")
    page = log_found(RUN, ANY, 0, 10)
    assert ([line.text for line in page.lines], page.more) == (["Started."], False)
    assert [line.text for line in log_view(RUN, ANY).lines] == ["Started."]
    with folder.log.open("a") as file:
        file.write("ine\n")
    assert [line.text for line in log_found(RUN, ANY, page.after, 10).lines] == ["half a line"]


def test_a_gigabyte_is_answered_from_little_of_it(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file with a hole of a gigabyte: whoever read it whole would be seen to."""
    with folder.log.open("wb") as file:
        file.write(lines(10).encode())
        file.seek(1_000_000_000)
        file.write(b"\n" + lines(10).encode())
    looked = 0
    part = GangRecords.log_part

    def counted(self: GangRecords, home: str, key: str, start: int, end: int) -> Any:
        nonlocal looked
        looked += end - start
        return part(self, home, key, start, end)

    monkeypatch.setattr(GangRecords, "log_part", counted)
    view = log_view(RUN, LogQuestion(text="nowhere"))
    assert (view.lines, looked) == ((), MOST_BYTES)
    assert view.before == os.path.getsize(folder.log) - MOST_BYTES
    answer = log_found(RUN, LogQuestion(text="nowhere"), 0, 500)
    assert (answer.lines, answer.more) == ((), True)
    assert looked <= 2 * MOST_BYTES + 2**18


TEXTS = st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\n\r"), max_size=40), max_size=30)


@given(TEXTS, st.data())
def test_parts_between_any_bytes_have_the_lines_that_begin_there(
    tmp_path_factory: Any, texts: list[str], data: Any
) -> None:
    root = tmp_path_factory.mktemp("log")
    folder = Folder(root, HOME, KEY)
    folder.make()
    rows = [f"1.0 worker 0 {text}\n".encode() for text in texts]
    folder.log.write_bytes(b"".join(rows))
    starts = [sum(map(len, rows[:n])) for n in range(len(rows))]
    size = sum(map(len, rows))
    start = data.draw(st.integers(0, size))
    end = data.draw(st.integers(start, size))
    places = [place for place, _ in GangRecords(root).log_part(HOME, KEY, start, end).lines()]
    assert places == [place for place in starts if start <= place < end]


def job_with_log(folder: Path, log: str) -> Award:
    """Return the award of a job whose run has this log."""
    pool, tenant = make_live_pool(epoch_at=timezone.now()), make_tenant("lumen")
    award: Award = make_award(pool, tenant, spec=SPEC | {"program": {"name": "trainer", "parameters": {}}})
    with scope(tenant):
        run = Run.objects.create(
            tenant=tenant, job=award.job, award=award, engine="local", key="a" * 32, program="trainer",
            state="running", ends_at=pool.slot_start(2), due_at=pool.slot_start(0), seen_at=timezone.now(),
        )  # fmt: skip
    records = Folder(folder, f"job-{award.job_id}", run.key)
    records.make()
    records.log.write_text(log)
    return award


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(django_settings, "RUNS_DIR", tmp_path / "runs")
    return tmp_path / "runs"


@pytest.mark.django_db(transaction=True)
def test_log_is_sent_piece_by_piece(runs: Path) -> None:
    award = job_with_log(runs, lines(20_000))
    client, there = client_as("viewer", award.tenant), f"lumen/jobs/{award.job_id}/"
    pieces = pieces_sent(client, f"/t/{there}log/")
    assert len(pieces) > 1
    assert b"".join(pieces).count(b"\n") == 20_000
    assert pieces_sent(client, f"/api/v1/tenants/{there}logs/file/") == pieces


@pytest.mark.django_db
def test_page_and_file_show_a_strangers_bytes_as_text(runs: Path) -> None:
    award = job_with_log(runs, "1770000000.000 worker 1 ERROR <b>hello</b>\n1770000001.000 worker 0 calm\n")
    client, base = client_as("viewer", award.tenant), f"/t/lumen/jobs/{award.job_id}/"
    html = client.get(base).content.decode()
    assert "ERROR &lt;b&gt;hello&lt;/b&gt;" in html
    assert 'class="is-error"' in html
    part = client.get(f"{base}?part=log&level=error").content.decode()
    assert "calm" not in part
    assert f'hx-get="{base}?level=error&amp;part=log"' in part  # it follows what was asked
    whole = client.get(f"{base}log/")
    assert whole.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert whole.headers["X-Content-Type-Options"] == "nosniff"
    assert whole.getvalue().decode().splitlines()[1].endswith("Z worker 0 calm")
    api = f"/api/v1/tenants/lumen/jobs/{award.job_id}/logs/"
    lines = client.get(f"{api}?search=HELLO&level=warning").json()["lines"]
    assert [(line["who"], line["level"]) for line in lines] == [("worker 1", "error")]
    assert client.get(f"{api}file/", headers={"accept": "text/plain"}).getvalue().count(b"\n") == 2
    assert client_as("owner", make_tenant("castor")).get(f"/t/castor/jobs/{award.job_id}/log/").status_code == 404


def test_whole_log_comes_in_parts(folder: Folder) -> None:
    folder.log.write_text(lines(20_000))
    pieces = list(log_whole(RUN))
    assert len(pieces) > 1
    whole = b"".join(pieces).splitlines()
    assert len(whole) == 20_000
    assert whole[1] == b"2026-02-02T02:40:01.000Z worker 1 line 1 "
