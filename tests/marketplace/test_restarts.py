"""Children that end are started again, in order and not for ever."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import psutil
import pytest

from marketplace.embedded.servers import RECOVERY_SECONDS
from marketplace.processes import children
from marketplace.processes.children import Child, ChildFailed
from marketplace.processes.restarts import MOST_ENDS, WITHIN_SECONDS, ChildPlace, Keeper, wait_before_start
from tests.patience import PATIENCE

WAITS = "import signal; print('begun', flush=True); signal.pause()"
MINUTE = WITHIN_SECONDS


class Row:
    """Children of a test, and what was said of them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.lines: list[str] = []
        self.keeper = Keeper(self.lines.append)

    def add(self, name: str, is_ready: Callable[[], bool] | None = None, code: str = WAITS) -> ChildPlace:
        self.keeper.places.append(ChildPlace(self.begin(name, code), partial(self.begin, name, code), is_ready))
        return self.keeper.places[-1]

    def begin(self, name: str, code: str) -> Child:
        command = [sys.executable, "-S", "-c", code]
        return children.start(name, command, log=self.folder / f"{name}.log", environment={})


@pytest.fixture
def row(tmp_path: Path) -> Iterator[Row]:
    own_row = Row(tmp_path)
    yield own_row
    for place in own_row.keeper.places:
        place.stop()


def kill(place: ChildPlace, number: signal.Signals = signal.SIGKILL) -> int:
    """It has ended, and nobody has noticed; its process id."""
    os.kill(place.child.pid, number)
    os.waitid(os.P_PID, place.child.pid, os.WEXITED | os.WNOWAIT)
    return place.child.pid


def test_whoever_ends_is_started_again_and_others_are_left_alone(row: Row) -> None:
    web, beat = row.add("web"), row.add("beat")
    other = beat.child.pid
    before = kill(web)
    row.keeper.look(1.0)
    assert web.child.pid != before
    assert not web.child.ended
    assert beat.child.pid == other
    assert [line[9:] for line in row.lines] == [
        f"web (process {before}) was killed by SIGKILL. It is started again.",
        f"web is process {web.child.pid} now.",
    ]


def test_each_further_end_within_a_minute_waits_twice_as_long() -> None:
    assert [wait_before_start(ends) for ends in range(1, MOST_ENDS + 2)] == [0.0, 0.5, 1.0, 2.0, 4.0, None]


def test_start_comes_after_its_wait_and_not_before(row: Row) -> None:
    web = row.add("web")
    kill(web)
    row.keeper.look(10.0)
    before = kill(web)
    row.keeper.look(11.0)
    assert row.lines[-1].endswith("It is started again in 0.5 s.")
    row.keeper.look(11.4)
    assert web.child.pid == before
    row.keeper.look(11.5)
    assert web.child.pid != before


def test_too_many_ends_in_a_minute_stop_everything_with_the_last_lines(row: Row) -> None:
    web = row.add("web", code="import sys; print('no room'); sys.exit(3)")
    for end in range(MOST_ENDS):
        os.waitid(os.P_PID, web.child.pid, os.WEXITED | os.WNOWAIT)
        row.keeper.look(10.0 * end)
        row.keeper.look(10.0 * end + 8.0)
    os.waitid(os.P_PID, web.child.pid, os.WEXITED | os.WNOWAIT)
    with pytest.raises(ChildFailed) as failure:
        row.keeper.look(10.0 * MOST_ENDS)
    assert f"web (process {web.child.pid}) ended with code 3. Its last lines" in str(failure.value)
    assert "    no room\n" in str(failure.value)
    assert str(failure.value).endswith("web has ended 6 times within a minute, so everything is stopped.")


def test_ends_that_lie_a_minute_apart_are_no_reason_to_stop(row: Row) -> None:
    web = row.add("web")
    for number in range(2 * MOST_ENDS):
        kill(web)
        row.keeper.look(number * MINUTE)
    assert not web.child.ended


def test_what_an_ended_child_left_in_its_group_goes_before_the_next_one_begins(row: Row) -> None:
    code = "import os, signal\nif (child := os.fork()): print(child, flush=True)\nsignal.pause()"
    worker = row.add("worker", code=code)
    children.wait_until(lambda: worker.child.log.read_text().endswith("\n"), worker.child)
    process = psutil.Process(int(worker.child.log.read_text()))
    kill(worker)
    assert process.is_running()
    row.keeper.look(0.0)
    psutil.wait_procs([process], timeout=PATIENCE)
    assert not process.is_running() or process.status() == psutil.STATUS_ZOMBIE


def test_others_wait_until_the_server_they_need_answers(row: Row) -> None:
    answers: list[bool] = []
    database, web = row.add("database", is_ready=lambda: bool(answers)), row.add("web")
    row.keeper.look(0.0)  # it answered at the start, and is not asked
    first = kill(web)
    kill(database)
    row.keeper.look(1.0)
    row.keeper.look(2.0)
    assert (database.child.ended, web.child.pid) == (False, first)
    answers.append(True)
    row.keeper.look(3.0)
    assert web.child.pid != first
    assert any(line.endswith("database answers again, 2.0 s after its end was noticed.") for line in row.lines)


def test_server_that_does_not_recover_stops_everything(row: Row) -> None:
    database = row.add("database", is_ready=lambda: False)
    kill(database)
    row.keeper.look(0.0)
    with pytest.raises(ChildFailed, match="database was not ready 300 seconds after its end"):
        row.keeper.look(RECOVERY_SECONDS + 1.0)


def test_child_that_cannot_be_started_is_tried_again_and_not_for_ever(row: Row) -> None:
    web = row.add("web")
    begin, now = web.start, 0.0

    def cannot() -> Child:
        raise OSError(11, "Resource temporarily unavailable")

    web.start = cannot
    kill(web)
    row.keeper.look(now)
    assert row.lines[-1].endswith(
        "web cannot be started (Resource temporarily unavailable). It is started again in 0.5 s."
    )
    web.start = begin
    row.keeper.look(1.0)
    assert not web.child.ended
    web.start = cannot
    kill(web)
    for second in (2, 4, 8):
        row.keeper.look(float(second))
    with pytest.raises(ChildFailed, match="cannot be started"):
        row.keeper.look(16.0)


def test_log_is_cut_while_its_child_writes_on(row: Row, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(children, "LONGEST_LOG", 1_000)
    code = "import signal\nsignal.signal(10, lambda *_: print('after', flush=True))\n"
    web = row.add("web", code=f"{code}print('x' * 2_000, flush=True)\nwhile True: signal.pause()")
    log = web.child.log
    children.wait_until(lambda: log.stat().st_size > 2_000, web.child)
    row.keeper.look(100.0)
    assert log.with_suffix(".log.1").read_text() == "x" * 2_000 + "\n"
    os.kill(web.child.pid, signal.SIGUSR1)
    children.wait_until(lambda: log.read_text() == "after\n", web.child)
    assert children.last_lines(web.child) == "    after"


def test_log_is_cut_also_where_there_is_no_room_for_a_copy(row: Row, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(children, "LONGEST_LOG", 3)

    def full(source: Path, target: Path) -> None:
        target.write_text("beg")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(children.shutil, "copyfile", full)
    web = row.add("web")
    children.wait_until(lambda: web.child.log.stat().st_size > 3, web.child)
    row.keeper.look(100.0)
    assert web.child.log.read_text() == ""
    assert not web.child.log.with_suffix(".log.1").exists()
