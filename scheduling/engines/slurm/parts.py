"""Parts of gangs as their launchers tell of them in the shared folder: when each was last heard of, whether the clock
of its server is right, and what of its log and its progress lies in our own folder, where pages read it."""

from __future__ import annotations

import contextlib
import errno
import math
import os
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from scheduling.engines.base import CLOCK, ENDED
from scheduling.engines.launcher import files
from scheduling.engines.launcher.files import Folder
from scheduling.engines.slurm.records import record_read

# A server's clock that differs by so much from ours would have its gang begin or end in somebody else's slot. A shared
# folder may show a beat some seconds late, so several have to be.
CLOCK_AHEAD, CLOCK_BEHIND, LATE_BEATS = 2.0, 3.0, 3
CLOCKS_REMEMBERED = 600.0  # for so long an operator is told, unless a later gang shows that the clock is right again
MOST_PROGRESS = 4 * 2**20
LAST_WORDS = 2**18  # of a part beyond the size of its log: its last lines, which its launcher keeps in any case


@dataclass
class PartBeat:
    """A part's newest record, when its beat last differed and when we last looked, by our own clock.

    `lag`: the least that a beat was behind our time of slots when we saw it. `behind`: the least that a beat must have
    been behind when it was written, as it was written after the look before.
    """

    record: dict[str, Any]
    moved: float
    looked: float
    lag: float
    behind: float = math.inf
    beats: int = 0  # that were written between two looks

    @property
    def clock_differs(self) -> float | None:
        """By so many seconds, where that is sure: a beat comes from the future, or all of them are late."""
        sure = self.lag < -CLOCK_AHEAD or (self.beats >= LATE_BEATS and self.behind > CLOCK_BEHIND)
        return -self.lag if sure else None

    def sees(self, record: dict[str, Any], lag: float, now: float) -> PartBeat:
        """The same part, looked at again."""
        if record["beat"] == self.record["beat"]:
            moved = self.moved if record["state"] == self.record["state"] else now
            return replace(self, record=record, moved=moved, looked=now)
        late = min(self.behind, lag - (now - self.looked))
        return PartBeat(record, now, now, min(self.lag, lag), late, self.beats + 1)


class PartsHeard:
    """A part is given by the folder in which its launcher writes."""

    def __init__(self) -> None:
        self._beats: dict[tuple[str, str], PartBeat] = {}
        self._collected: set[tuple[str, str]] = set()  # parts of which everything is in our folder
        self._clocks: dict[str, tuple[float, float]] = {}  # servers whose clock differs: by how much, and seen when

    def record_of(self, part: Folder, clock: Callable[[], float]) -> dict[str, Any] | None:
        """What the launcher wrote last; raises `OSError` where it cannot be read. `clock`: the time of slots, which is
        asked for once it is read."""
        beat = self._beats.get((part.key, part.part))
        if beat and beat.record["state"] == ENDED:
            return beat.record  # its last word
        record = record_read(part.state)
        if record is None:
            return beat.record if beat else None
        now, lag = time.monotonic(), clock() - record["beat"]
        beat = beat.sees(record, lag, now) if beat else PartBeat(record, now, now, lag)
        self._beats[part.key, part.part] = beat
        if (by := beat.clock_differs) is not None:
            self._clocks[_server_of(part.part)] = by, now
        elif beat.beats >= LATE_BEATS:
            self._clocks.pop(_server_of(part.part), None)
        return record

    def beat_of(self, part: Folder) -> PartBeat:
        """Of a part that has a record."""
        return self._beats[part.key, part.part]

    def silence_of(self, server: str) -> float:
        """For how many seconds no launcher on it was heard of; without end where there was none."""
        moments = [
            beat.moved
            for (_, name), beat in self._beats.items()
            if _server_of(name) == server and beat.record["state"] != ENDED
        ]
        return time.monotonic() - max(moments, default=-math.inf)

    def clocks_that_differ(self) -> list[tuple[str, float]]:
        """Servers, and by how many seconds each."""
        since = time.monotonic() - CLOCKS_REMEMBERED
        return [(server, by) for server, (by, seen_at) in sorted(self._clocks.items()) if seen_at > since]

    def collect(self, own: Folder, parts: Sequence[Folder], most_log: int) -> None:
        """Append what is new in the log and progress of every part, and note how far that was. `most_log`: bytes that
        the launcher of each server may write."""
        servers = len({_server_of(part.part) for part in parts})
        most = {own.log: servers * (most_log + LAST_WORDS), own.progress: MOST_PROGRESS}
        notes = own.ours / "collected.json"
        collected = files.read(notes) or {}
        before = dict(collected)
        for part in parts:
            place = part.key, part.part
            if place in self._collected:
                continue
            beat, moved = self._beats.get(place), False
            for source, target in ((part.log, own.log), (part.progress, own.progress)):
                name = f"{part.part}/{source.name}"
                after = collected.get(name, 0)
                collected[name] = _append(source, target, after, most[target])
                moved = moved or collected[name] != after
            if beat and beat.record["state"] == ENDED and not moved:
                self._collected.add(place)  # it writes nothing after its last word
        if collected != before:
            files.write(notes, collected)

    def forget(self, keys: Collection[str]) -> None:
        """Gangs that nobody asks about any more."""
        self._beats = {place: beat for place, beat in self._beats.items() if place[0] not in keys}
        self._collected = {place for place in self._collected if place[0] not in keys}


def _append(source: Path, target: Path, after: int, most: int) -> int:
    """Whole lines of a stranger's file from a byte on; where it goes on. Beyond so many bytes they are left out: a gang
    whose size changes has new parts again and again."""
    try:
        with os.fdopen(files.theirs(source), "rb") as file:
            if os.fstat(file.fileno()).st_size == after:
                return after
            file.seek(after)
            data = file.read(256 * 1024)
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ELOOP):  # not there yet, or a link that leads elsewhere
            raise
        return after
    whole = data[: data.rfind(b"\n") + 1]
    with contextlib.suppress(FileNotFoundError):
        if target.stat().st_size > most:
            return after + len(whole)
    with target.open("ab") as out:
        out.write(whole)
    return after + len(whole)


def _server_of(part: str) -> str:
    """The last word of a part's name."""
    return part.split("-", 2)[2]


def clock_sentence(server: str, by: float) -> str:
    """Also what those who count losses know it by."""
    return f"{CLOCK} {server} differs by {by:+.1f} s from ours"
