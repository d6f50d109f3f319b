"""A learner's step gives way to everybody from its first line on: not even reading the program keeps a slot waiting."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import psutil
import pytest
from django.conf import settings

from scheduling.app import clock
from scheduling.common import boundary_marked, mark_file
from scheduling.learner import idle
from scheduling.market.calendar.lanes import Busy
from scheduling.models import Pool
from tests.patience import PATIENCE

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)

LOADED = "import sys; {}; print([name for name in sys.modules if name.split('.')[0] in ('django', 'numpy', 'celery')])"
AUTOGROUP = Path("/proc/self/autogroup")
# What `main` does before it reads the program: a process that gives way to all takes long to read it on a busy machine.
BEGIN = "from scheduling.learner import idle; import os, pathlib; idle.begin({parent}, pathlib.Path({mark!r})); {then}"
PRIORITY = "print(os.sched_getscheduler(0) == os.SCHED_IDLE, os.nice(0), os.getsid(0) == os.getpid())"


def python(code: str) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-c", code]
    return subprocess.run(words, cwd=settings.BASE_DIR, capture_output=True, text=True, timeout=PATIENCE)


def begun(then: str, parent: int | None = None) -> subprocess.CompletedProcess[str]:
    return python(BEGIN.format(parent=parent or os.getpid(), mark="", then=then))


def test_nothing_large_is_read_before() -> None:
    process = python(LOADED.format("import scheduling.learner.idle"))
    assert process.stdout.strip() == "[]", process.stderr
    assert "django" in python(LOADED.format("import django")).stdout


def test_it_runs_where_nobody_else_wants_to() -> None:
    process = begun(PRIORITY)
    assert process.stdout.split() == ["True", "19", "True"], process.stderr


@pytest.mark.skipif(not AUTOGROUP.exists(), reason="this kernel shares processors out among processes alone")
def test_its_session_has_the_least_weight_and_that_of_its_parent_stays() -> None:
    before = AUTOGROUP.read_text()
    process = begun(f"print(open('{AUTOGROUP}').read())")
    assert process.stdout.strip().endswith(" nice 19"), process.stderr
    assert AUTOGROUP.read_text() == before


def test_step_whose_parent_is_gone_does_not_begin() -> None:
    process = begun(PRIORITY, parent=1)
    assert (process.returncode, process.stdout) == (1, "")
    assert "The process that began this step is gone." in process.stderr


COUNTS = "print('began', flush=True); [sum(range(1000)) for _ in range(2_000)]; print('done')"  # some 0.03 s


@pytest.fixture
def mark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(settings, "VAR_DIR", tmp_path)
    return mark_file()


def test_boundary_marks_the_machine_as_long_as_it_is_decided(mark: Path) -> None:
    assert not idle.boundary_is_decided(mark)  # there is no file yet
    with boundary_marked():
        assert idle.boundary_is_decided(mark)
        with boundary_marked():  # of another pool
            assert idle.boundary_is_decided(mark)
        assert idle.boundary_is_decided(mark)
    assert not idle.boundary_is_decided(mark)


def test_boundary_is_decided_also_where_it_cannot_be_marked(mark: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "VAR_DIR", mark.parent / "nowhere")
    with boundary_marked():
        assert not idle.boundary_is_decided(mark_file())


def test_boundary_waits_for_nobody_who_looks(mark: Path) -> None:
    mark.touch()
    with mark.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with boundary_marked():  # would hang if it waited
            pass


def test_every_slot_marks_its_boundary(mark: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    marked = []
    monkeypatch.setattr(clock, "slot_settle", lambda **_: marked.append(idle.boundary_is_decided(mark)) or Busy())
    assert isinstance(clock.slot_advance(pool=Pool(pk=1, epoch_at=EPOCH, slot_seconds=10), slot=1), Busy)
    assert marked == [True]


LOOKS_THAT_TAKE_LONG = """
import time
from pathlib import Path
from scheduling.learner import idle
depth = deepest = looks = 0
def decided(mark):
    global depth, deepest, looks
    depth, looks = depth + 1, looks + 1
    deepest = max(deepest, depth)
    until = time.process_time() + 4 * idle.LOOK_SECONDS
    while time.process_time() < until:
        pass
    depth -= 1
    return looks < 20
idle.boundary_is_decided = decided
idle.rest_beside_boundaries(Path("mark"))
while looks < 20:
    pass
print(deepest)
"""


def test_a_look_is_not_interrupted_by_another_however_long_the_boundary_takes() -> None:
    process = python(LOOKS_THAT_TAKE_LONG)
    assert process.stdout.strip() == "1", process.stderr


def test_step_stands_still_while_a_boundary_is_decided(mark: Path) -> None:
    words = [sys.executable, "-c", BEGIN.format(parent=os.getpid(), mark=str(mark), then=COUNTS)]
    with boundary_marked():
        process = subprocess.Popen(words, cwd=settings.BASE_DIR, stdout=subprocess.PIPE, text=True)
        step = psutil.Process(process.pid)
        asleep, used = 0, -1.0
        until = time.monotonic() + PATIENCE
        while asleep < 100 and time.monotonic() < until:  # it sleeps, and uses next to nothing, look after look
            now = step.cpu_times().user
            asleep = asleep + 1 if step.status() == psutil.STATUS_SLEEPING and now - used < 0.02 else 0
            used = now
        assert asleep == 100
        assert process.poll() is None
    out, _ = process.communicate(timeout=PATIENCE)
    assert out.split()[-1] == "done"
