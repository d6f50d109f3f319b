"""Nobody is lost because the shared folder does not answer: only silence that was listened to counts."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from scheduling.engines.base import LOST, RUNNING, WAITING
from scheduling.engines.launcher import others
from scheduling.engines.launcher.files import Folder
from scheduling.engines.slurm import parts
from scheduling.engines.slurm.parts import PartsHeard

PART = "part-0-n2"


class Clock:
    def __init__(self) -> None:
        self.now = 1_000.0

    def monotonic(self) -> float:
        return self.now

    def time(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The time of both who listen."""
    clock = Clock()
    for module in (others, parts):
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=clock.monotonic, time=clock.time))
    return clock


@pytest.fixture
def part(tmp_path: Path) -> Folder:
    folder = Folder(tmp_path, "job-7", "a" * 32, PART)
    folder.make()
    return folder


def writes(part: Folder, beat: float, **fields: Any) -> None:
    about: dict[str, Any] = {
        "state": RUNNING, "started_at": 990.0, "end": "", "detail": "", "exit_code": None, "restarts": 0,
        "progress": {}, "members": [], "begun": True, "delivered": [], "host": "127.0.0.1", "ports": {}, "beat": beat,
    }  # fmt: skip
    part.state.write_text(json.dumps(about | fields))


def engine(part: Folder, clock: Clock) -> tuple[Callable[[], None], Callable[[], bool]]:
    """How the engine looks, and whether it takes the part for lost, as `GangStatuses` has it."""
    records = PartsHeard()
    return (
        lambda: (records.record_of(part, clock.time), None)[1],
        lambda: records.beat_of(part).silent > others.SILENT_SECONDS,
    )


def another_part(part: Folder, clock: Clock) -> tuple[Callable[[], None], Callable[[], bool]]:
    """How another part of the gang looks, and whether it ends because this one is lost."""
    listening = others.Others({"n2": part}, "n1")
    return listening.look, lambda: (listening.verdict() or ("",))[0] == LOST


@pytest.mark.parametrize("who", [engine, another_part])
def test_a_part_is_lost_after_ten_seconds_in_which_it_was_listened_to(
    part: Folder, clock: Clock, who: Callable[..., tuple[Callable[[], None], Callable[[], bool]]]
) -> None:
    look, is_lost = who(part, clock)
    writes(part, clock.now)
    look()
    for _ in range(10):
        clock.now += 1.0
        look()
        assert not is_lost()
    clock.now += 1.0
    look()
    assert is_lost()
    writes(part, clock.now)
    clock.now += 1.0
    look()
    assert not is_lost()


@pytest.mark.parametrize("who", [engine, another_part])
@pytest.mark.parametrize("hangs", [True, False])
def test_a_minute_without_the_shared_folder_loses_nobody(
    part: Folder,
    clock: Clock,
    who: Callable[..., tuple[Callable[[], None], Callable[[], bool]]],
    monkeypatch: pytest.MonkeyPatch,
    *,
    hangs: bool,
) -> None:
    """A read waits until the folder is back, or fails again and again. Then the part needs a moment to write."""
    look, is_lost = who(part, clock)
    writes(part, clock.now)
    look()
    if hangs:
        clock.now += 60.0
    else:
        place = part.place.rename(part.place.with_name("away"))
        part.place.write_text("")  # reading below it fails with another error than that there is nothing
        for _ in range(60):
            clock.now += 1.0
            with pytest.raises(OSError, match="Not a directory"):
                look()
        part.place.unlink()
        place.rename(part.place)
    look()
    assert not is_lost()
    clock.now += 1.0
    writes(part, clock.now)
    look()
    assert not is_lost()


def test_a_part_that_begins_to_run_is_no_longer_silent(part: Folder, clock: Clock) -> None:
    look, is_lost = engine(part, clock)
    writes(part, clock.now, state=WAITING)
    look()
    for _ in range(9):
        clock.now += 1.0
        look()
    writes(part, 1_000.0)
    look()
    clock.now += 2.0
    look()
    assert not is_lost()
